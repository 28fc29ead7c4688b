//! `import`: sends what `export` wrote: body, message attributes, group, and a deduplication id.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::{Value, json};

use super::connection::{ConnectionFlags, text};
use super::message::attribute;
use super::send::Batch;
use crate::logging::tell;

#[derive(Args, Debug)]
pub(crate) struct ImportFlags {
    /// Name, URL or ARN
    queue: String,
    /// File to read [default: standard input]
    file: Option<PathBuf>,
    /// Keep deduplication ids (FIFO queues): what was sent with them in the last five minutes is not
    /// sent again [default: ids made of the exported message ids]
    #[arg(long)]
    keep_deduplication: bool,
    #[command(flatten)]
    connection: ConnectionFlags,
}

pub(super) async fn run(flags: &ImportFlags) -> Result<()> {
    let sqs = flags.connection.connect_to(&flags.queue)?;
    let url = sqs.url(&flags.queue).await?;
    let input: Box<dyn BufRead> = match &flags.file {
        Some(path) => {
            let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
            Box::new(BufReader::new(file))
        }
        None => Box::new(io::stdin().lock()),
    };
    let deduplication = match url.ends_with(".fifo") {
        true if flags.keep_deduplication => Deduplication::Kept,
        true => Deduplication::ByMessageId,
        false => Deduplication::None,
    };
    let mut batch = Batch::default();
    let mut accepted = 0_u64;
    let mut outcome = Ok(());
    for (line, number) in input.lines().zip(1..) {
        let line = line.with_context(|| format!("reading line {number}"))?;
        if line.trim().is_empty() {
            continue;
        }
        let entry = serde_json::from_str(&line).map_err(anyhow::Error::from);
        match entry.and_then(|message| entry_of(&message, deduplication)) {
            Ok(entry) => batch.entries.push((number, entry)),
            Err(error) => {
                outcome = Err(error.context(format!("line {number}")));
                break;
            }
        }
        if batch.is_full() {
            let count = |_: &Value| {
                accepted += 1;
                Ok(())
            };
            outcome = batch.send(&sqs, &url, count).await;
            if outcome.is_err() {
                break;
            }
        }
    }
    if outcome.is_ok() {
        let count = |_: &Value| {
            accepted += 1;
            Ok(())
        };
        outcome = batch.send(&sqs, &url, count).await;
    }
    tell(&format!("{accepted} messages sent"));
    outcome
}

/// Which deduplication ids messages get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deduplication {
    /// The queue is no FIFO queue.
    None,
    /// Made of the message id that the line has: another than the message was sent with, which may
    /// be within the five minutes in which the queue would drop it, and the same whenever the line
    /// is imported.
    ByMessageId,
    Kept,
}

/// The entry of a SendMessageBatch that sends an exported message again.
fn entry_of(message: &Value, deduplication: Deduplication) -> Result<Value> {
    let body = message.get("Body").and_then(Value::as_str).context("there is no Body")?;
    let mut entry = json!({ "MessageBody": body });
    if let Some(attributes) = message.get("MessageAttributes") {
        entry["MessageAttributes"] = attributes.clone();
    }
    let kept = attribute(message, "MessageDeduplicationId");
    let id = match (deduplication, text(message, "MessageId")) {
        (Deduplication::None, _) => "",
        // Whoever wrote the line by hand chose the id.
        (Deduplication::Kept, _) | (Deduplication::ByMessageId, "") => kept,
        (Deduplication::ByMessageId, id) => id,
    };
    let group = attribute(message, "MessageGroupId");
    for (name, value) in [("MessageGroupId", group), ("MessageDeduplicationId", id)] {
        if !value.is_empty() {
            entry[name] = value.into();
        }
    }
    Ok(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_exported_is_sent_as_it_was() {
        let message = json!({
            "MessageId": "m", "ReceiptHandle": "r", "Body": "b", "MD5OfBody": "x",
            "Attributes": { "MessageGroupId": "g", "MessageDeduplicationId": "d", "SenderId": "s" },
            "MessageAttributes": { "n": { "DataType": "String", "StringValue": "v" } },
        });

        let fifo = entry_of(&message, Deduplication::ByMessageId).unwrap();
        let kept = entry_of(&message, Deduplication::Kept).unwrap();
        let standard = entry_of(&message, Deduplication::None).unwrap();

        let attributes = json!({ "n": { "DataType": "String", "StringValue": "v" } });
        let same =
            json!({ "MessageBody": "b", "MessageAttributes": attributes, "MessageGroupId": "g" });
        assert_eq!(standard, same);
        assert_eq!(fifo["MessageDeduplicationId"], "m");
        assert_eq!(kept["MessageDeduplicationId"], "d");
        assert!(entry_of(&json!({ "body": "b" }), Deduplication::None).is_err());
    }
}
