//! `redrive`: a message move task, watched to its end.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use millrace_client::sqs::Action;
use serde_json::{Value, json};

use super::connection::{ConnectionFlags, list, text};
use super::names::queue_names;
use super::{Sqs, output};
use crate::{end_signals::EndSignals, logging::tell};

const MOVED: &str = "ApproximateNumberOfMessagesMoved";
/// Time between two looks at the task.
const INTERVAL: Duration = Duration::from_millis(500);

#[derive(Args, Debug)]
pub(crate) struct RedriveFlags {
    /// The dead-letter queue: name, URL or ARN
    #[arg(add = queue_names())]
    queue: String,
    /// Where messages go: name or ARN [default: each to the queue that it came from]
    #[arg(long, value_name = "QUEUE", add = queue_names())]
    to: Option<String>,
    /// Messages a second at the most, up to 500
    #[arg(long, value_name = "NUMBER")]
    rate: Option<u32>,
    /// Do not wait for the end
    #[arg(long)]
    no_wait: bool,
    /// Stop the task that is running instead
    #[arg(long, conflicts_with_all = ["to", "rate", "no_wait"])]
    cancel: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionFlags,
}

pub(super) async fn run(flags: &RedriveFlags) -> Result<()> {
    let sqs = flags.connection.connect_to(&flags.queue)?;
    let source = sqs.arn(&flags.queue).await?;
    if flags.cancel {
        return cancel(flags, &sqs, &source).await;
    }
    let mut asked = json!({ "SourceArn": source });
    if let Some(queue) = &flags.to {
        asked["DestinationArn"] = sqs.arn(queue).await.context("the destination")?.into();
    }
    if let Some(rate) = flags.rate {
        asked["MaxNumberOfMessagesPerSecond"] = rate.into();
    }
    let started = sqs.call(Action::START_MESSAGE_MOVE_TASK, &asked).await;
    let started = started.context("starting the move")?;
    if flags.no_wait {
        let handle = text(&started, "TaskHandle");
        return output::line(&if flags.json { started.to_string() } else { handle.to_owned() });
    }
    let mut signals = EndSignals::watch()?;
    tokio::select! {
        ended = watch(flags, &sqs, &source) => ended,
        signal = signals.next() => {
            bail!("{signal}: the move goes on; `millrace redrive --cancel {}` stops it", flags.queue)
        }
    }
}

/// Tells how far the task is until it ends.
async fn watch(flags: &RedriveFlags, sqs: &Sqs, source: &str) -> Result<()> {
    loop {
        let task = latest(sqs, source).await?.context("the server has forgotten the move")?;
        let moved = count(&task, MOVED);
        let of = count(&task, "ApproximateNumberOfMessagesToMove");
        match text(&task, "Status") {
            "RUNNING" | "CANCELLING" => {
                tell(&format!("{} of {} moved", output::thousands(moved), output::thousands(of)));
            }
            "COMPLETED" if flags.json => return output::line(&task.to_string()),
            "COMPLETED" => return output::line(&format!("{} moved", output::thousands(moved))),
            status => {
                let ended = format!("the move ended as {status} after {moved} of {of} messages");
                match text(&task, "FailureReason") {
                    "" => bail!(ended),
                    // Messages that were sent here, or whose queue is gone.
                    reason if flags.to.is_none() => bail!(
                        "{ended}: {reason}\nname the queue that the messages go to: millrace \
                         redrive {} --to QUEUE",
                        flags.queue
                    ),
                    reason => bail!("{ended}: {reason}"),
                }
            }
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

async fn cancel(flags: &RedriveFlags, sqs: &Sqs, source: &str) -> Result<()> {
    let Some(task) = latest(sqs, source).await? else { return no_move(flags) };
    let handle = text(&task, "TaskHandle");
    if handle.is_empty() {
        return no_move(flags);
    }
    let asked = json!({ "TaskHandle": handle });
    let answer = sqs.call(Action::CANCEL_MESSAGE_MOVE_TASK, &asked).await.context("cancelling")?;
    if flags.json {
        return output::line(&answer.to_string());
    }
    let moved = output::counted(count(&answer, MOVED), "message");
    output::line(&format!("cancelled after {moved}"))
}

fn no_move(flags: &RedriveFlags) -> Result<()> {
    bail!("no move out of {} is running", flags.queue)
}

fn count(answer: &Value, name: &str) -> u64 {
    answer.get(name).and_then(Value::as_u64).unwrap_or(0)
}

/// The latest task of the source, if there was one.
async fn latest(sqs: &Sqs, source: &str) -> Result<Option<Value>> {
    let asked = json!({ "SourceArn": source, "MaxResults": 1 });
    let answer = sqs.call(Action::LIST_MESSAGE_MOVE_TASKS, &asked).await?;
    Ok(list(&answer, "Results").first().cloned())
}
