//! `receive`: what any consumer does, printed.

use std::collections::HashSet;

use anyhow::{Context, Result, bail};
use clap::Args;
use millrace_client::sqs::Action;
use serde_json::{Value, json};

use super::connection::{ConnectionFlags, list, text};
use super::message::Form;
use super::{Sqs, output};
use crate::logging::tell;

/// Messages of one ReceiveMessage.
const AT_A_TIME: u64 = 10;

#[derive(Args, Debug)]
pub(crate) struct ReceiveFlags {
    /// Name, URL or ARN
    queue: String,
    /// Messages to receive at the most
    #[arg(long, value_name = "NUMBER", default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..))]
    max: u64,
    /// Wait that long for a first message, 20 at the most
    #[arg(long, value_name = "SECONDS", default_value_t = 0,
        value_parser = clap::value_parser!(u64).range(..=20))]
    wait: u64,
    /// Hide them that long instead of the queue's visibility timeout
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(..=43_200))]
    visibility: Option<u32>,
    /// Delete each message once it was printed
    #[arg(long)]
    pub(super) delete: bool,
    /// Print JSON lines instead of bodies
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionFlags,
}

pub(super) async fn run(flags: &ReceiveFlags) -> Result<()> {
    let sqs = flags.connection.connect_to(&flags.queue)?;
    let url = sqs.url(&flags.queue).await?;
    let form = Form::new(flags.json);
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

/// What to receive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    /// As many as one call gives, if that is more.
    pub(super) max: u64,
    pub(super) wait_s: u64,
    pub(super) visibility_s: Option<u32>,
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
