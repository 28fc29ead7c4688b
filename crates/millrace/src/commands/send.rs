//! `send`: one message from the command line or standard input, or one a line.

use std::io::{self, BufRead, Read};

use anyhow::{Context, Result, bail};
use clap::Args;
use millrace_client::sqs::Action;
use serde_json::{Map, Value, json};

use super::connection::{ConnectionFlags, text};
use super::{Sqs, output, pair};
use crate::config::UsageError;

/// Entries of a SendMessageBatch.
pub(super) const BATCH: usize = 10;

#[derive(Args, Debug)]
pub(crate) struct SendFlags {
    /// Name, URL or ARN
    queue: String,
    /// Body; without one, or with -, it is read from standard input
    body: Option<String>,
    /// Each line of standard input is a message
    #[arg(long, conflicts_with = "body")]
    lines: bool,
    /// Message group (FIFO and fair queues)
    #[arg(long, value_name = "ID")]
    group: Option<String>,
    /// Deduplication id (FIFO queues)
    #[arg(long, value_name = "ID", conflicts_with = "lines")]
    deduplication: Option<String>,
    /// Hold the message back
    #[arg(long, value_name = "SECONDS")]
    delay: Option<u32>,
    /// A message attribute, of type String unless told; may be repeated
    #[arg(long = "attribute", value_name = "NAME[:TYPE]=VALUE")]
    attributes: Vec<String>,
    /// Print the answers as JSON lines instead of message ids
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionFlags,
}

pub(super) async fn run(flags: &SendFlags) -> Result<()> {
    let sqs = flags.connection.connect()?;
    let url = sqs.url(&flags.queue).await?;
    if flags.lines {
        return send_lines(flags, &sqs, &url).await;
    }
    let body = match flags.body.as_deref() {
        Some(body) if body != "-" => body.to_owned(),
        _ => {
            let mut body = String::new();
            io::stdin().lock().read_to_string(&mut body).context("reading the body")?;
            body
        }
    };
    let mut message = flags.message(&body)?;
    message["QueueUrl"] = url.into();
    let sent = sqs.call(Action::SEND_MESSAGE, &message).await.context("the message")?;
    print(&sent, flags.json)
}

impl SendFlags {
    /// The parameters of a message, but for its queue.
    fn message(&self, body: &str) -> Result<Value> {
        let mut message = json!({ "MessageBody": body });
        if let Some(group) = &self.group {
            message["MessageGroupId"] = group.as_str().into();
        }
        if let Some(id) = &self.deduplication {
            message["MessageDeduplicationId"] = id.as_str().into();
        }
        if let Some(delay_s) = self.delay {
            message["DelaySeconds"] = delay_s.into();
        }
        let mut attributes = Map::new();
        for given in &self.attributes {
            let (name, value) = pair(given, "--attribute")?;
            let (name, data_type) = name.split_once(':').unwrap_or((name, "String"));
            if data_type.starts_with("Binary") {
                let text = format!("--attribute {given}: binary values cannot be given here");
                return Err(UsageError(text).into());
            }
            let value = json!({ "DataType": data_type, "StringValue": value });
            attributes.insert(name.to_owned(), value);
        }
        if !attributes.is_empty() {
            message["MessageAttributes"] = Value::Object(attributes);
        }
        Ok(message)
    }
}

async fn send_lines(flags: &SendFlags, sqs: &Sqs, url: &str) -> Result<()> {
    let mut entries = Vec::new();
    let mut number = 0_u64;
    for line in io::stdin().lock().lines() {
        let line = line.context("reading the lines")?;
        number += 1;
        entries.push((number, flags.message(&line)?));
        if entries.len() == BATCH {
            send_batch(sqs, url, &mut entries, |sent| print(sent, flags.json)).await?;
        }
    }
    send_batch(sqs, url, &mut entries, |sent| print(sent, flags.json)).await
}

/// Sends the entries, which are numbered by lines, in order; `done` is told of each that was
/// accepted. Stops at the first batch in which one was refused.
pub(super) async fn send_batch(
    sqs: &Sqs,
    url: &str,
    entries: &mut Vec<(u64, Value)>,
    mut done: impl FnMut(&Value) -> Result<()>,
) -> Result<()> {
    if entries.is_empty() {
        return Ok(());
    }
    let first = entries.first().map_or(0, |(line, _)| *line);
    let numbered = |(line, mut entry): (u64, Value)| {
        entry["Id"] = line.to_string().into();
        entry
    };
    let batch: Vec<Value> = entries.drain(..).map(numbered).collect();
    let asked = json!({ "QueueUrl": url, "Entries": batch });
    let answer = match sqs.call(Action::SEND_MESSAGE_BATCH, &asked).await {
        Err(error) if error.code.ends_with("BatchRequestTooLong") => {
            return send_each(sqs, url, batch, done).await;
        }
        answer => answer.with_context(|| format!("lines from {first} on"))?,
    };
    let list = |name: &str| answer.get(name).and_then(Value::as_array).into_iter().flatten();
    let mut sent: Vec<&Value> = list("Successful").collect();
    sent.sort_by_key(|sent| text(sent, "Id").parse::<u64>().unwrap_or(0));
    sent.into_iter().try_for_each(&mut done)?;
    if let Some(failed) = list("Failed").next() {
        let (line, code) = (text(failed, "Id"), text(failed, "Code"));
        bail!("line {line} was refused: {code}: {}", text(failed, "Message"));
    }
    Ok(())
}

/// A batch that is too large as a whole, message by message.
async fn send_each(
    sqs: &Sqs,
    url: &str,
    batch: Vec<Value>,
    mut done: impl FnMut(&Value) -> Result<()>,
) -> Result<()> {
    for mut entry in batch {
        let line = entry.as_object_mut().and_then(|entry| entry.remove("Id")).unwrap_or_default();
        entry["QueueUrl"] = url.into();
        let sent = sqs.call(Action::SEND_MESSAGE, &entry).await;
        done(&sent.with_context(|| format!("line {}", line.as_str().unwrap_or_default()))?)?;
    }
    Ok(())
}

fn print(sent: &Value, json: bool) -> Result<()> {
    if json { output::line(&sent.to_string()) } else { output::line(text(sent, "MessageId")) }
}
