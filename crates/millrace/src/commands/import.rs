//! `import`: sends what `export` wrote: body, message attributes, group and deduplication id.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::{Value, json};

use super::connection::ConnectionFlags;
use super::message::attribute;
use super::send::{BATCH, send_batch};
use crate::logging::tell;

#[derive(Args, Debug)]
pub(crate) struct ImportFlags {
    /// Name, URL or ARN
    queue: String,
    /// File to read [default: standard input]
    file: Option<PathBuf>,
    #[command(flatten)]
    connection: ConnectionFlags,
}

pub(super) async fn run(flags: &ImportFlags) -> Result<()> {
    let sqs = flags.connection.connect()?;
    let url = sqs.url(&flags.queue).await?;
    let input: Box<dyn BufRead> = match &flags.file {
        Some(path) => {
            let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
            Box::new(BufReader::new(file))
        }
        None => Box::new(io::stdin().lock()),
    };
    let is_fifo = url.ends_with(".fifo");
    let mut entries = Vec::new();
    let mut accepted = 0_u64;
    let mut outcome = Ok(());
    for (line, number) in input.lines().zip(1..) {
        let line = line.with_context(|| format!("reading line {number}"))?;
        if line.trim().is_empty() {
            continue;
        }
        let entry = serde_json::from_str(&line).map_err(anyhow::Error::from);
        match entry.and_then(|message| entry_of(&message, is_fifo)) {
            Ok(entry) => entries.push((number, entry)),
            Err(error) => {
                outcome = Err(error.context(format!("line {number}")));
                break;
            }
        }
        if entries.len() == BATCH {
            let count = |_: &Value| {
                accepted += 1;
                Ok(())
            };
            outcome = send_batch(&sqs, &url, &mut entries, count).await;
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
        outcome = send_batch(&sqs, &url, &mut entries, count).await;
    }
    tell(&format!("{accepted} messages sent"));
    outcome
}

/// The entry of a SendMessageBatch that sends an exported message again.
fn entry_of(message: &Value, is_fifo: bool) -> Result<Value> {
    let body = message.get("Body").and_then(Value::as_str).context("there is no Body")?;
    let mut entry = json!({ "MessageBody": body });
    if let Some(attributes) = message.get("MessageAttributes") {
        entry["MessageAttributes"] = attributes.clone();
    }
    let names: &[&str] =
        if is_fifo { &["MessageGroupId", "MessageDeduplicationId"] } else { &["MessageGroupId"] };
    for name in names {
        let value = attribute(message, name);
        if !value.is_empty() {
            entry[*name] = value.into();
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

        let fifo = entry_of(&message, true).unwrap();
        let standard = entry_of(&message, false).unwrap();

        let attributes = json!({ "n": { "DataType": "String", "StringValue": "v" } });
        let same =
            json!({ "MessageBody": "b", "MessageAttributes": attributes, "MessageGroupId": "g" });
        assert_eq!(standard, same);
        assert_eq!(fifo["MessageDeduplicationId"], "d");
        assert!(entry_of(&json!({ "body": "b" }), false).is_err());
    }
}
