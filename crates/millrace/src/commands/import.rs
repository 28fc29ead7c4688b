//! `import`: sends what `export` wrote: body, message attributes, trace header, group, and a
//! deduplication id.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use serde_json::{Value, json};

use super::connection::{ConnectionFlags, text};
use super::message::attribute;
use super::names::queue_names;
use super::output;
use super::send::{Batch, first_signal, read_lines};
use crate::logging::tell;

/// The one system attribute that senders give.
const TRACE_HEADER: &str = "AWSTraceHeader";

#[derive(Args, Debug)]
pub(crate) struct ImportFlags {
    /// Name, URL or ARN
    #[arg(add = queue_names())]
    queue: String,
    /// File to read; without one, or with -, standard input
    file: Option<PathBuf>,
    /// Keep deduplication ids (FIFO queues): what was sent with them in the last five minutes is
    /// not sent again [default: ids made of the exported message ids]
    #[arg(long)]
    keep_deduplication: bool,
    #[command(flatten)]
    connection: ConnectionFlags,
}

pub(super) async fn run(flags: &ImportFlags) -> Result<()> {
    let sqs = flags.connection.connect_to(&flags.queue)?;
    let url = sqs.url(&flags.queue).await?;
    let input: Box<dyn Read + Send> = match &flags.file {
        Some(path) if path.as_os_str() != "-" => {
            let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
            Box::new(file)
        }
        _ => Box::new(io::stdin()),
    };
    let deduplication = match url.ends_with(".fifo") {
        true if flags.keep_deduplication => Deduplication::Kept,
        true => Deduplication::ByMessageId,
        false => Deduplication::None,
    };
    let mut batch = Batch::default();
    let mut accepted = 0_u64;
    let mut count = |_: &Value| {
        accepted += 1;
        Ok(())
    };
    let mut lines = read_lines(BufReader::new(input))?;
    let mut signal = first_signal()?;
    let mut sent = Ok(());
    let broken_off = loop {
        let (number, line) = tokio::select! {
            line = lines.recv() => match line {
                Some(Ok(line)) => line,
                Some(Err(error)) => break Some(error.into()),
                None => break None,
            },
            name = &mut signal => break Some(anyhow!("{}: ended", name.unwrap_or_default())),
        };
        match entry_of(without_mark(number, &line), deduplication) {
            Ok(Some(entry)) => batch.push(number, line.len(), entry),
            Ok(None) => {}
            Err(error) => break Some(error.context(format!("line {number}"))),
        }
        if batch.is_full() {
            sent = batch.send(&sqs, &url, &mut count).await;
            if sent.is_err() {
                break None;
            }
        }
    };
    if sent.is_ok() {
        // Those that were read before it broke off, too.
        sent = batch.send(&sqs, &url, &mut count).await;
    }
    tell(&format!("{} sent", output::counted(accepted, "message")));
    sent?;
    match broken_off {
        Some(why) => bail!("{why:#}; {}", batch.so_far()),
        None => Ok(()),
    }
}

/// The deduplication ids that messages get.
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

/// A line without the byte order mark that editors on Windows begin a file with.
fn without_mark(number: u64, line: &str) -> &str {
    line.strip_prefix('\u{feff}').filter(|_| number == 1).unwrap_or(line)
}

/// The entry of a SendMessageBatch that sends an exported message again; none for a blank line.
fn entry_of(line: &str, deduplication: Deduplication) -> Result<Option<Value>> {
    if line.trim().is_empty() {
        return Ok(None);
    }
    const FORM: &str =
        "a line must be a message as `millrace export` writes it: {\"Body\": \"text\"}";
    let message: Value = serde_json::from_str(line)
        .map_err(|error| anyhow!("not JSON at column {}; {FORM}", error.column()))?;
    let body = message.get("Body").and_then(Value::as_str);
    let body = body.with_context(|| format!("there is no \"Body\" that is a text; {FORM}"))?;
    let mut entry = json!({ "MessageBody": body });
    if let Some(attributes) = message.get("MessageAttributes") {
        entry["MessageAttributes"] = attributes.clone();
    }
    let trace = attribute(&message, TRACE_HEADER);
    if !trace.is_empty() {
        let value = json!({ "DataType": "String", "StringValue": trace });
        entry["MessageSystemAttributes"] = json!({ TRACE_HEADER: value });
    }
    let kept = attribute(&message, "MessageDeduplicationId");
    let id = match (deduplication, text(&message, "MessageId")) {
        (Deduplication::None, _) => "",
        // Whoever wrote the line by hand chose the id.
        (Deduplication::Kept, _) | (Deduplication::ByMessageId, "") => kept,
        (Deduplication::ByMessageId, id) => id,
    };
    let group = attribute(&message, "MessageGroupId");
    for (name, value) in [("MessageGroupId", group), ("MessageDeduplicationId", id)] {
        if !value.is_empty() {
            entry[name] = value.into();
        }
    }
    Ok(Some(entry))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_first_line() {
        assert_eq!(without_mark(1, "\u{feff}{}"), "{}");
        assert_eq!(without_mark(2, "\u{feff}{}"), "\u{feff}{}");
    }

    #[test]
    fn what_was_exported_is_sent_as_it_was() {
        let message = json!({
            "MessageId": "m", "ReceiptHandle": "r", "Body": "b", "MD5OfBody": "x",
            "Attributes": {
                "MessageGroupId": "g", "MessageDeduplicationId": "d", "SenderId": "s",
                "AWSTraceHeader": "Root=1",
            },
            "MessageAttributes": { "n": { "DataType": "String", "StringValue": "v" } },
        });
        let line = message.to_string();

        let fifo = entry_of(&line, Deduplication::ByMessageId).unwrap().unwrap();
        let kept = entry_of(&line, Deduplication::Kept).unwrap().unwrap();
        let standard = entry_of(&line, Deduplication::None).unwrap().unwrap();

        let attributes = json!({ "n": { "DataType": "String", "StringValue": "v" } });
        let trace = json!({ "AWSTraceHeader": { "DataType": "String", "StringValue": "Root=1" } });
        let same = json!({
            "MessageBody": "b", "MessageAttributes": attributes, "MessageGroupId": "g",
            "MessageSystemAttributes": trace,
        });
        assert_eq!(standard, same);
        assert_eq!(fifo["MessageDeduplicationId"], "m");
        assert_eq!(kept["MessageDeduplicationId"], "d");
        assert!(entry_of(r#"{ "body": "b" }"#, Deduplication::None).is_err());
        assert!(entry_of("b", Deduplication::None).is_err());
        assert_eq!(entry_of(" ", Deduplication::None).unwrap(), None);
    }
}
