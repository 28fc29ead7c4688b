//! The everyday commands: queues and messages over the wire, of Millrace, Amazon SQS or what
//! speaks like them.
//!
//! Data goes to standard output, talk to standard error. Nothing here knows the server's inside:
//! each command makes the same calls as any client. `peek`, `tail` and `export` without
//! `--consume` need one that Amazon does not have, and say so.

mod backup;
mod connection;
mod export;
mod import;
mod message;
mod metrics;
mod output;
mod peek;
mod queue;
mod ready;
mod receive;
mod redrive;
mod send;
mod shell;
mod tail;
mod top;

use std::ops::RangeInclusive;
use std::time::Duration;

use anyhow::Result;
use clap::Subcommand;
use serde_json::{Map, Value};

use crate::{config::UsageError, end_soon::end_soon};
pub(crate) use connection::ConnectionFlags;
use connection::Sqs;

#[derive(Debug, Subcommand)]
pub(crate) enum ClientCommand {
    /// List, create, change, show, purge and delete queues
    #[command(subcommand)]
    Queue(queue::QueueCommand),
    /// Send messages
    Send(send::SendFlags),
    /// Receive messages; they stay hidden for their visibility timeout unless deleted
    Receive(receive::ReceiveFlags),
    /// Show messages without receiving them (Millrace only)
    Peek(peek::PeekFlags),
    /// Print messages as they arrive
    Tail(tail::TailFlags),
    /// Move messages out of a dead-letter queue
    Redrive(redrive::RedriveFlags),
    /// Write a queue's messages as JSON lines
    Export(export::ExportFlags),
    /// Send messages from JSON lines, as export writes them
    Import(import::ImportFlags),
    /// Copy all data of a running server into a directory that `serve` opens (Millrace only)
    Backup(backup::BackupFlags),
    /// Watch the queues of a server
    Top(top::TopFlags),
    /// Delete metrics of CloudWatch (Millrace only)
    #[command(subcommand)]
    Metrics(metrics::MetricsCommand),
    /// Ask whether a server is ready: exits with 0 if so, 1 if not (Millrace only)
    Ready(ready::ReadyFlags),
    /// Print the completions of a shell
    Completions(shell::CompletionsFlags),
    /// Write manual pages
    Man(shell::ManFlags),
}

/// Runs a command to its end. Output that nobody reads any more ends it, too, and is a failure only
/// where messages were to be taken.
pub(crate) fn run(command: ClientCommand) -> Result<()> {
    let takes = command.takes();
    let outcome = match command {
        ClientCommand::Completions(flags) => shell::completions(&flags),
        ClientCommand::Man(flags) => shell::man(&flags),
        command => end_soon(over_the_wire(command)),
    };
    match outcome {
        Err(error) if output::is_closed(&error) && !takes => Ok(()),
        outcome => outcome,
    }
}

impl ClientCommand {
    /// Whether it takes messages out of a queue. What nobody reads stays there.
    fn takes(&self) -> bool {
        match self {
            ClientCommand::Receive(flags) => flags.delete,
            ClientCommand::Tail(flags) => flags.consume,
            ClientCommand::Export(flags) => flags.consume,
            _ => false,
        }
    }
}

async fn over_the_wire(command: ClientCommand) -> Result<()> {
    match command {
        ClientCommand::Queue(command) => queue::run(&command).await,
        ClientCommand::Send(flags) => send::run(&flags).await,
        ClientCommand::Receive(flags) => receive::run(&flags).await,
        ClientCommand::Peek(flags) => peek::run(&flags).await,
        ClientCommand::Tail(flags) => tail::run(&flags).await,
        ClientCommand::Redrive(flags) => redrive::run(&flags).await,
        ClientCommand::Export(flags) => export::run(&flags).await,
        ClientCommand::Import(flags) => import::run(&flags).await,
        ClientCommand::Backup(flags) => backup::run(&flags).await,
        ClientCommand::Top(flags) => top::run(&flags).await,
        ClientCommand::Metrics(command) => metrics::run(&command).await,
        ClientCommand::Ready(flags) => ready::run(&flags).await,
        ClientCommand::Completions(_) | ClientCommand::Man(_) => Ok(()),
    }
}

/// The time between two looks: not so short that the server does nothing else.
fn interval(text: &str) -> Result<Duration, String> {
    const BOUNDS: RangeInclusive<Duration> =
        Duration::from_millis(50)..=Duration::from_secs(86_400);
    let interval = text.parse().ok().and_then(|value| Duration::try_from_secs_f64(value).ok());
    match interval.filter(|interval| BOUNDS.contains(interval)) {
        Some(interval) => Ok(interval),
        None => Err("expected a number of seconds from 0.05 to 86400".to_owned()),
    }
}

/// The two halves of `NAME=VALUE`.
fn pair<'a>(text: &'a str, flag: &str) -> Result<(&'a str, &'a str), UsageError> {
    text.split_once('=').ok_or_else(|| UsageError(format!("{flag} {text}: must be NAME=VALUE")))
}

/// Adds what `flag` gives a value; nothing is given two.
fn give(
    given: &mut Map<String, Value>,
    flag: &str,
    name: &str,
    value: Value,
) -> Result<(), UsageError> {
    match given.insert(name.to_owned(), value) {
        None => Ok(()),
        Some(_) => Err(UsageError(format!("{flag} {name} is given twice"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_is_a_time_that_passes() {
        assert_eq!(interval("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(interval("86400"), Ok(Duration::from_secs(86_400)));
        for wrong in ["-1", "0", "nan", "inf", "1e9", ""] {
            assert!(interval(wrong).is_err(), "{wrong}");
        }
    }
}
