//! The everyday commands: queues and messages over the wire, of Millrace, Amazon SQS or what
//! speaks like them.
//!
//! Data goes to standard output, talk to standard error. Nothing here knows the server's inside:
//! each command makes the same calls as any client. `peek`, `tail` and `export` without
//! `--consume` need one that Amazon does not have, and say so.

mod activity;
mod advice;
mod backup;
mod connection;
mod domain;
mod domain_lines;
mod export;
mod import;
mod message;
mod metrics;
mod names;
mod output;
mod peek;
mod queue;
mod ready;
mod receive;
mod redrive;
mod send;
mod settle;
mod tail;
mod top;
mod topic;
mod topic_advice;
mod values;

use anyhow::Result;
use clap::Subcommand;
use millrace_process::{CompletionsFlags, ManFlags, print_completions, write_manual};

use crate::{cli::Cli, end_soon::end_soon};
pub(crate) use advice::of_search;
pub(crate) use connection::ConnectionFlags;
use connection::Sqs;
pub(crate) use names::queue_names;

#[derive(Debug, Subcommand)]
pub(crate) enum ClientCommand {
    /// List, create, change, show, purge and delete queues
    #[command(subcommand)]
    Queue(queue::QueueCommand),
    /// List, create, show, query, fill and delete domains of SimpleDB
    #[command(subcommand)]
    Domain(domain::DomainCommand),
    /// List, create, show, delete and subscribe to topics of SNS
    #[command(subcommand)]
    Topic(topic::TopicCommand),
    /// Publish a message to a topic
    Publish(topic::PublishFlags),
    /// Send messages
    Send(send::SendFlags),
    /// Receive messages; they stay hidden for their visibility timeout unless deleted
    Receive(receive::ReceiveFlags),
    /// Delete a message that was received
    Delete(settle::DeleteFlags),
    /// Keep a message that was received hidden for longer, or make it available again
    Extend(settle::ExtendFlags),
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
    /// Print the script that makes a shell complete commands, flags and names of queues
    Completions(CompletionsFlags),
    /// Write manual pages
    Man(ManFlags),
}

/// Runs a command to its end. Output that nobody reads any more ends it, too, and is a failure only
/// where messages were to be taken.
pub(crate) fn run(command: ClientCommand) -> Result<()> {
    let takes = command.takes();
    let outcome = match command {
        ClientCommand::Completions(flags) => {
            print_completions("millrace", &flags).map_err(Into::into)
        }
        ClientCommand::Man(flags) => write_manual::<Cli>(&flags),
        command => end_soon(over_the_wire(command)),
    };
    match outcome {
        Err(error) if output::is_closed(&error) && !takes => Ok(()),
        outcome => outcome,
    }
}

impl ClientCommand {
    /// Returns whether the command takes messages out of a queue.
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
        ClientCommand::Domain(command) => domain::run(&command).await,
        ClientCommand::Topic(command) => topic::run(&command).await,
        ClientCommand::Publish(flags) => topic::publish(&flags).await,
        ClientCommand::Send(flags) => send::run(&flags).await,
        ClientCommand::Receive(flags) => receive::run(&flags).await,
        ClientCommand::Delete(flags) => settle::delete(&flags).await,
        ClientCommand::Extend(flags) => settle::extend(&flags).await,
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
