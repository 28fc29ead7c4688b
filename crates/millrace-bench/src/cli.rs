//! The command line of `millrace-bench`.

use anyhow::Result;
use clap::{Parser, Subcommand};
use millrace_process::{CompletionsFlags, ManFlags, print_completions, write_manual};

use crate::{
    ceiling, load, micro, node,
    scenarios::{Flags, ab, drain, fanout, http, pc, poll, position, rate, sdb_csv, suite, sweep},
    targets,
};

/// Flags that make no sense, alone or together.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub(crate) String);

/// Measures any endpoint of Amazon SQS, SNS, SimpleDB or IronMQ, and checks that every message came back.
#[derive(Debug, Parser)]
#[command(name = "millrace-bench", version, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

/// A scenario or a tool.
#[derive(Debug, Subcommand)]
#[expect(private_interfaces, reason = "flags are made by parsing and read here alone")]
pub enum Command {
    /// Producers and consumers on one queue, in ones and in tens, from one or more processes
    Pc(Box<pc::Flags>),
    /// Latency by position in the connection, and who closes it
    Position(Box<Flags<position::Runs>>),
    /// Which of two endpoints is quicker
    Ab(Box<ab::Flags>),
    /// Time to empty a queue, with and without kept connections, over HTTP and HTTPS
    Drain(Box<Flags<drain::Plan>>),
    /// Ways to work off slow messages: serial, by timer, by a pool
    Poll(Box<Flags<poll::Plan>>),
    /// Rows into SimpleDB, one by one and 25 at a time
    SdbCsv(Box<Flags<sdb_csv::Plan>>),
    /// One topic of SNS and many queues, beside sending to each
    Fanout(Box<Flags<fanout::Plan>>),
    /// How throughput grows with clients, processes or nodes
    Sweep(Box<Flags<sweep::Steps>>),
    /// Latency at a planned rate, or the highest rate that keeps an objective
    Rate(Box<Flags<rate::Steps>>),
    /// How long any HTTP server takes to answer one request
    Http(Box<Flags<http::Plan>>),
    /// Many scenarios, one report
    Suite(suite::Flags),
    /// Take part in a scenario that another process leads
    Node(node::Flags),
    /// Load an SQS endpoint and check that every message came back
    Load(Box<load::Flags>),
    /// Serve the leanest answers there can be, as a yardstick
    Ceiling(ceiling::Flags),
    /// Measure Millrace against its targets, interleaved with the ceiling
    Targets(targets::Flags),
    /// Time codecs, signatures and digests on one core
    Micro,
    /// Print a shell's completions
    Completions(CompletionsFlags),
    /// Write manual pages
    Man(ManFlags),
}

/// Runs a command; its result goes to standard output.
///
/// # Errors
///
/// If it could not be run, if messages were lost, or if a limit that was asked for is broken;
/// [`UsageError`] if it cannot be asked for that way.
pub fn run(command: Command) -> Result<()> {
    match command {
        Command::Pc(flags) => pc::run(&flags),
        Command::Position(flags) => position::run(&flags),
        Command::Ab(flags) => ab::run(&flags),
        Command::Drain(flags) => drain::run(&flags),
        Command::Poll(flags) => poll::run(&flags),
        Command::SdbCsv(flags) => sdb_csv::run(&flags),
        Command::Fanout(flags) => fanout::run(&flags),
        Command::Http(flags) => http::run(&flags),
        Command::Suite(flags) => suite::run(&flags),
        Command::Sweep(flags) => sweep::run(&flags),
        Command::Rate(flags) => rate::run(&flags),
        Command::Node(flags) => node::serve(&flags),
        Command::Load(flags) => load::run_command(&flags),
        Command::Ceiling(flags) => ceiling::serve(&flags),
        Command::Targets(flags) => targets::run_command(flags),
        Command::Micro => micro::run(),
        Command::Completions(flags) => Ok(print_completions("millrace-bench", &flags)?),
        Command::Man(flags) => write_manual::<Cli>(&flags),
    }
}
