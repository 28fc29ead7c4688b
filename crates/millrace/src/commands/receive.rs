//! `receive`: what any consumer does, printed.

use std::collections::HashSet;

use anyhow::{Context, Result, bail};
use clap::Args;
use millrace_client::sqs::Action;
use serde_json::{Value, json};

use super::connection::{ConnectionFlags, list, text};
use super::message::{Form, Part};
use super::names::queue_names;
use super::values::seconds_within;
use super::{Sqs, output};
use crate::logging::tell;

/// Messages of one ReceiveMessage.
const AT_A_TIME: u64 = 10;

#[derive(Args, Debug)]
pub(crate) struct ReceiveFlags {
    /// Name, URL or ARN
    #[arg(add = queue_names())]
    queue: String,
    /// Messages to receive at the most
    #[arg(long, value_name = "NUMBER", default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..))]
    max: u64,
    /// How long to wait for a first message, 20s at the most
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = seconds_within(0..=20))]
    wait: u64,
    /// How long the messages are hidden, instead of the queue's visibility timeout
    #[arg(long, value_name = "DURATION", value_parser = seconds_within(0..=43_200))]
    visibility: Option<u64>,
    /// Delete each message once it was printed
    #[arg(long)]
    pub(super) delete: bool,
    /// What to print of each message, separated by tabs; `delete` and `extend` need the handle
    #[arg(
        long,
        value_name = "PARTS",
        value_enum,
        value_delimiter = ',',
        default_value = "body",
        conflicts_with = "json"
    )]
    show: Vec<Part>,
    /// Print JSON lines instead of bodies
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionFlags,
}

pub(super) async fn run(flags: &ReceiveFlags) -> Result<()> {
    let sqs = flags.connection.connect_to(&flags.queue)?;
    let url = sqs.url(&flags.queue).await?;
    let form = if flags.json { Form::Json } else { Form::Parts(flags.show.clone()) };
    let mut received = 0;
    let mut seen = HashSet::new();
    while received < flags.max {
        let asked = Asked {
            max: flags.max - received,
            // Only the first is waited for.
            wait_s: if received == 0 { flags.wait } else { 0 },
            visibility_s: flags.visibility,
        };
        let mut messages = receive(&sqs, &url, asked).await?;
        // Messages that are not hidden are received again and again.
        let is_all = flags.visibility == Some(0) && (messages.len() as u64) < AT_A_TIME;
        messages.retain(|message| seen.insert(text(message, "MessageId").to_owned()));
        if messages.is_empty() {
            break;
        }
        received += messages.len() as u64;
        for message in &messages {
            output::line(&form.of(message))?;
        }
        if flags.delete {
            delete(&sqs, &url, &messages).await?;
        }
        if is_all {
            break;
        }
    }
    if received == 0 {
        tell("no message");
    }
    Ok(())
}

/// The parameters of a receive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    /// As many as one call gives, if that is more.
    pub(super) max: u64,
    pub(super) wait_s: u64,
    pub(super) visibility_s: Option<u64>,
}

/// Up to ten messages with all that the server knows of them.
pub(super) async fn receive(sqs: &Sqs, url: &str, asked: Asked) -> Result<Vec<Value>> {
    let mut parameters = json!({
        "QueueUrl": url,
        "MaxNumberOfMessages": asked.max.clamp(1, AT_A_TIME),
        "WaitTimeSeconds": asked.wait_s,
        "MessageSystemAttributeNames": ["All"],
        "MessageAttributeNames": ["All"],
    });
    if let Some(visibility_s) = asked.visibility_s {
        parameters["VisibilityTimeout"] = visibility_s.into();
    }
    let answer = sqs.call_held(Action::RECEIVE_MESSAGE, &parameters, asked.wait_s).await;
    Ok(list(&answer.context("receiving")?, "Messages").to_vec())
}

/// Deletes received messages, ten at the most.
pub(super) async fn delete(sqs: &Sqs, url: &str, messages: &[Value]) -> Result<()> {
    let handles = messages.iter().map(|message| text(message, "ReceiptHandle"));
    let entry =
        |(id, handle): (usize, &str)| json!({ "Id": id.to_string(), "ReceiptHandle": handle });
    let entries: Vec<Value> = handles.enumerate().map(entry).collect();
    let asked = json!({ "QueueUrl": url, "Entries": entries });
    let answer = sqs.call(Action::DELETE_MESSAGE_BATCH, &asked).await.context("deleting")?;
    if let Some(failed) = list(&answer, "Failed").first() {
        bail!("a message was not deleted: {}: {}", text(failed, "Code"), text(failed, "Message"));
    }
    Ok(())
}
