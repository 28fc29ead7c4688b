//! The `millrace` program: command line, configuration, process.
//!
//! `cli` says what can be asked, `config` what can be set and where a value comes from, `serve`
//! runs the server, `assemble` builds what it serves, `journal` looks after the files, `work` runs
//! a worker, `commands` are clients of any server.

mod assemble;
mod bench;
mod cli;
mod commands;
mod config;
mod console;
mod copy;
mod credentials;
mod end_signals;
mod end_soon;
mod figures;
mod inherited;
mod journal;
mod limits;
mod logging;
mod memory;
mod notify;
mod push;
mod serve;
mod show;
mod start_errors;
mod tables;
mod work;

use std::process::ExitCode;

use millrace_process::{answer_shell, follow_parent, parse_arguments};

use crate::{
    cli::{Cli, Command, ConfigCommand, JournalCommand},
    config::{Config, UsageError},
    journal::Unchecked,
    show::Format,
    work::Unfinished,
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// 0: done. 1: failed. 2: asked for something that cannot be, or a journal was not checked. 4: a
/// worker gave work back unfinished.
fn main() -> ExitCode {
    follow_parent();
    answer_shell::<Cli>();
    let code = match run(parse_arguments::<Cli>().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            logging::tell_failure(&error);
            ExitCode::from(match () {
                () if error.is::<UsageError>() => 2,
                () if error.is::<Unchecked>() => 2,
                () if error.is::<Unfinished>() => 4,
                () => 1,
            })
        }
    };
    logging::finish();
    code
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Serve(flags) => serve::serve(*flags),
        Command::Work(flags) => work::work(&flags),
        Command::Config(ConfigCommand::Show { json, flags }) => {
            show::show(&Config::load(&flags)?, Format::new(json))
        }
        Command::Config(ConfigCommand::Check { flags }) => serve::check(Config::load(&flags)?),
        Command::Journal(JournalCommand::Check { json, flags }) => {
            journal::check(&flags, Format::new(json))
        }
        Command::Journal(JournalCommand::Repair { flags }) => journal::repair(&flags.load()?),
        Command::Journal(JournalCommand::AcceptDomains { flags }) => {
            journal::accept_domains(&flags.load()?)
        }
        Command::Client(command) => commands::run(command),
        Command::Bench(arguments) => bench::run(&arguments),
    }
}
