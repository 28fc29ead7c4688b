//! Load generator, yardstick and target harness: `load` drives any SQS endpoint and checks every
//! message, `ceiling` answers as fast as answering can be, `targets` measures Millrace against it.
//!
//! Exit codes: 0 done and nothing was lost, 1 failed, 2 usage.

mod ceiling;
mod load;
mod micro;
mod process;
mod targets;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Measures SQS servers, and Millrace against its targets.
#[derive(Debug, Parser)]
#[command(name = "millrace-bench", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Load an SQS endpoint and check that every message came back
    Load(Box<load::Flags>),
    /// Serve the leanest answers there can be, as a yardstick
    Ceiling {
        /// Address to listen on
        #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9324")]
        listen: String,
    },
    /// Measure Millrace against its targets, interleaved with the ceiling
    Targets(targets::Flags),
    /// Time codecs and digests on one core
    Micro,
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Load(flags) => load::run_command(&flags),
        Command::Ceiling { listen } => ceiling::serve(&listen),
        Command::Targets(flags) => targets::run_command(flags),
        Command::Micro => {
            micro::run();
            Ok(())
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("millrace-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}
