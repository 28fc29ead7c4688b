//! `send`: one message from the command line or standard input, or one a line.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Read};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use millrace_client::{
    CallErrorKind,
    lines::{LineError, Lines},
    sqs::Action,
};
use millrace_core::limits;
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};

use super::connection::{ConnectionFlags, list, text};
use super::names::queue_names;
use super::values::{give, pair, seconds_within};
use super::{Sqs, output};
use crate::config::UsageError;
use crate::end_signals::EndSignals;

/// Entries of a SendMessageBatch.
const BATCH: usize = 10;
/// A line that is no longer holds every message there can be, each byte of which JSON may escape
/// with six, and what export writes beside it. A whole body from standard input is no longer, too.
const LINE_BYTES_MAX: usize = 8 * limits::MESSAGE_SIZE_BYTES;
/// When no line has come for so long, those that have are sent.
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Args, Debug)]
pub(crate) struct SendFlags {
    /// Name, URL or ARN
    #[arg(add = queue_names())]
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
    /// How long the message is held back, 15m at the most
    #[arg(long, value_name = "DURATION", value_parser = seconds_within(0..=900))]
    delay: Option<u64>,
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
    let sqs = flags.connection.connect_to(&flags.queue)?;
    let url = sqs.url(&flags.queue).await?;
    if flags.lines {
        return send_lines(flags, &sqs, &url).await;
    }
    let body = match flags.body.as_deref() {
        Some(body) if body != "-" => body.to_owned(),
        _ => {
            let mut body = String::new();
            let mut input = io::stdin().lock().take(LINE_BYTES_MAX as u64 + 1);
            input.read_to_string(&mut body).context("reading the body")?;
            ensure!(body.len() <= LINE_BYTES_MAX, "the body is longer than {LINE_BYTES_MAX} bytes");
            body
        }
    };
    let mut message = flags.message(&body)?;
    message["QueueUrl"] = url.into();
    let sent = send_one(&sqs, &message).await.context("the message")?;
    flags.print(&sent)
}

/// The answer to one send. One that names no message is not a queue's, whatever its status.
async fn send_one(sqs: &Sqs, message: &Value) -> Result<Value> {
    let sent = sqs.call(Action::SEND_MESSAGE, message).await?;
    if text(&sent, "MessageId").is_empty() {
        bail!("the answer names no message that was accepted");
    }
    Ok(sent)
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
            give(&mut attributes, "--attribute", name, value)?;
        }
        if !attributes.is_empty() {
            message["MessageAttributes"] = Value::Object(attributes);
        }
        Ok(message)
    }

    /// That nobody reads the ids any more is no reason to send less.
    fn print(&self, sent: &Value) -> Result<()> {
        let json = self.json.then(|| sent.to_string());
        match output::line(json.as_deref().unwrap_or(text(sent, "MessageId"))) {
            Err(error) if output::is_closed(&error) => Ok(()),
            printed => printed,
        }
    }
}

async fn send_lines(flags: &SendFlags, sqs: &Sqs, url: &str) -> Result<()> {
    let mut batch = Batch::default();
    let done = |sent: &Value| flags.print(sent);
    let mut lines = read_lines(io::BufReader::new(io::stdin()))?;
    let mut signal = first_signal()?;
    let broken_off = loop {
        tokio::select! {
            line = lines.recv() => match line {
                Some(Ok((number, line))) => batch.push(number, line.len(), flags.message(&line)?),
                Some(Err(error)) => break Some(error.to_string()),
                None => break None,
            },
            () = tokio::time::sleep(PAUSE), if !batch.entries.is_empty() => {
                batch.send(sqs, url, done).await?;
            }
            name = &mut signal => break Some(format!("{}: ended", name.unwrap_or_default())),
        }
        if batch.is_full() {
            batch.send(sqs, url, done).await?;
        }
    };
    // Those that were read before it broke off, too.
    batch.send(sqs, url, done).await?;
    match broken_off {
        Some(why) => bail!("{why}; {}", batch.so_far()),
        None => Ok(()),
    }
}

/// Lines by number, until the end of the input or an error. A thread waits for them.
pub(super) fn read_lines(
    input: impl BufRead + Send + 'static,
) -> Result<mpsc::Receiver<Result<(u64, String), LineError>>> {
    let (sender, lines) = mpsc::channel(BATCH);
    let read = move || {
        for line in Lines::new(input, LINE_BYTES_MAX) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("lines".to_owned()).spawn(read)?;
    Ok(lines)
}

/// The name of the first signal to end: what was read can be sent. A second one ends at once.
pub(super) fn first_signal() -> Result<oneshot::Receiver<&'static str>> {
    let mut signals = EndSignals::watch()?;
    let (sender, first) = oneshot::channel();
    tokio::spawn(async move {
        let _ = sender.send(signals.next().await);
        signals.next().await;
        std::process::exit(1);
    });
    Ok(first)
}

/// Messages of one request after the other, numbered by lines.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Not sent yet.
    entries: Vec<(u64, Value)>,
    /// Their approximate size.
    size_bytes: usize,
    /// The last line that was accepted.
    accepted: Option<u64>,
}

impl Batch {
    /// Adds the message of a line of so many bytes.
    pub(super) fn push(&mut self, number: u64, line_bytes: usize, message: Value) {
        self.entries.push((number, message));
        self.size_bytes += line_bytes;
    }

    /// Returns whether nothing should be added: no server takes more in one request, and large
    /// messages must not pile up here.
    pub(super) fn is_full(&self) -> bool {
        self.entries.len() >= BATCH || self.size_bytes >= limits::MESSAGE_SIZE_BYTES
    }

    /// Sends the entries in order; `done` is told of each that was accepted. Fails if one was
    /// refused: no batch is to follow then.
    pub(super) async fn send(
        &mut self,
        sqs: &Sqs,
        url: &str,
        mut done: impl FnMut(&Value) -> Result<()>,
    ) -> Result<()> {
        if self.entries.is_empty() {
            return Ok(());
        }
        let lines: Vec<u64> = self.entries.iter().map(|(line, _)| *line).collect();
        let numbered = |(line, mut entry): (u64, Value)| {
            entry["Id"] = line.to_string().into();
            entry
        };
        let entries: Vec<Value> = self.entries.drain(..).map(numbered).collect();
        self.size_bytes = 0;
        let asked = json!({ "QueueUrl": url, "Entries": entries });
        let answer = match sqs.call(Action::SEND_MESSAGE_BATCH, &asked).await {
            Err(error) if error.kind == CallErrorKind::BatchTooLarge => {
                return self.send_each(sqs, url, entries, done).await;
            }
            answer => answer.with_context(|| {
                let first = lines.first().copied().unwrap_or_default();
                format!("lines from {first} on, {}", self.so_far())
            })?,
        };
        let answered = Answered::read(&answer, &lines);
        self.accepted = answered.accepted.keys().max().copied().or(self.accepted);
        answered.accepted.into_values().try_for_each(&mut done)?;
        if !answered.refused.is_empty() {
            bail!("refused: {}; {}", answered.refused.join("; "), self.so_far());
        }
        Ok(())
    }

    /// A batch that is too large as a whole, message by message.
    async fn send_each(
        &mut self,
        sqs: &Sqs,
        url: &str,
        entries: Vec<Value>,
        mut done: impl FnMut(&Value) -> Result<()>,
    ) -> Result<()> {
        for mut entry in entries {
            let line = entry.as_object_mut().and_then(|entry| entry.remove("Id"));
            let line = line.as_ref().and_then(Value::as_str).unwrap_or_default();
            entry["QueueUrl"] = url.into();
            let sent = send_one(sqs, &entry).await;
            let sent = sent.with_context(|| format!("line {line}, {}", self.so_far()))?;
            self.accepted = line.parse().ok();
            done(&sent)?;
        }
        Ok(())
    }

    /// Says how far the sending came.
    pub(super) fn so_far(&self) -> String {
        match self.accepted {
            Some(line) => format!("line {line} was the last that was accepted"),
            None => "no line was accepted".to_owned(),
        }
    }
}

/// The outcome of a batch, by line.
struct Answered<'a> {
    /// By line.
    accepted: BTreeMap<u64, &'a Value>,
    /// The other lines, with the reason.
    refused: Vec<String>,
}

impl Answered<'_> {
    fn read<'a>(answer: &'a Value, lines: &[u64]) -> Answered<'a> {
        let by_line = |name: &str| {
            let entries = list(answer, name).iter();
            entries
                .filter_map(|entry| Some((text(entry, "Id").parse().ok()?, entry)))
                .filter(|(line, _)| lines.contains(line))
                .collect::<BTreeMap<u64, &Value>>()
        };
        let (accepted, failed) = (by_line("Successful"), by_line("Failed"));
        let left = lines.iter().filter(|line| !accepted.contains_key(line));
        let refused = left.map(|line| match failed.get(line) {
            Some(failed) => {
                format!("line {line}: {}: {}", text(failed, "Code"), text(failed, "Message"))
            }
            None => format!("line {line}: the answer does not mention it"),
        });
        let refused = refused.collect();
        Answered { accepted, refused }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_that_was_not_accepted_is_named() {
        let answer = json!({
            "Successful": [{ "Id": "14", "MessageId": "b" }, { "Id": "11", "MessageId": "a" }],
            "Failed": [{ "Id": "12", "Code": "InternalError", "Message": "no" }],
        });

        let answered = Answered::read(&answer, &[11, 12, 13, 14]);

        assert_eq!(answered.accepted.keys().copied().collect::<Vec<_>>(), [11, 14]);
        let mentioned = ["line 12: InternalError: no", "line 13: the answer does not mention it"];
        assert_eq!(answered.refused, mentioned);
    }
}
