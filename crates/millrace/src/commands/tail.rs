//! `tail`: messages as they arrive, by looking again and again, or by consuming them.

use std::collections::HashSet;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use millrace_client::{CallError, CallErrorKind};

use super::connection::{ConnectionFlags, Shown, text};
use super::export::count;
use super::message::Form;
use super::names::queue_names;
use super::receive::{Asked, delete, receive};
use super::values::interval;
use super::{output, peek};
use crate::logging::tell;

/// The longest that SQS lets a receive wait.
const WAIT_S: u64 = 20;
/// Time between two attempts to reach a server that is away.
const OUTAGE_LOOK: Duration = Duration::from_secs(1);

#[derive(Args, Debug)]
pub(crate) struct TailFlags {
    /// Name, URL or ARN
    #[arg(add = queue_names())]
    queue: String,
    /// Begin with the messages that are there
    #[arg(long)]
    from_start: bool,
    /// Receive and delete instead of looking: misses nothing, leaves nothing to others
    #[arg(long, conflicts_with_all = ["from_start", "interval"])]
    pub(super) consume: bool,
    /// Time between two looks; what comes and goes between them is not seen
    #[arg(long, value_name = "DURATION", default_value = "500ms", value_parser = interval)]
    interval: Duration,
    /// End after so many messages
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    max: Option<u64>,
    /// Print JSON lines instead of bodies
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionFlags,
}

pub(super) async fn run(flags: &TailFlags) -> Result<()> {
    let sqs = flags.connection.connect_to(&flags.queue)?;
    let url = sqs.url(&flags.queue).await?;
    let form = Form::new(flags.json);
    let mut left = flags.max.unwrap_or(u64::MAX);
    let mut outages = Outages::default();
    if flags.consume {
        while left > 0 {
            let asked = Asked { max: left, wait_s: WAIT_S, visibility_s: None };
            let received = receive(&sqs, &url, asked).await;
            let Some(messages) = outages.pass(received).await? else { continue };
            for message in &messages {
                output::line(&form.of(message))?;
            }
            if !messages.is_empty() {
                outages.pass(delete(&sqs, &url, &messages).await).await?;
            }
            left = left.saturating_sub(messages.len() as u64);
        }
        return Ok(());
    }
    let held = count(&sqs, &url).await?;
    let mut seen = HashSet::new();
    let mut is_silent = !flags.from_start;
    let mut has_looked = false;
    loop {
        let shown = outages.pass(sqs.peek(&url, peek::ALL).await).await?;
        let Some(Shown { messages, .. }) = shown else { continue };
        if !std::mem::replace(&mut has_looked, true) {
            // Counted before and after: what came or went meanwhile is not what is left out.
            tell_of_more(messages.len(), held.min(count(&sqs, &url).await?));
        }
        let mut present = HashSet::with_capacity(messages.len());
        for message in &messages {
            let id = text(message, "MessageId").to_owned();
            if !seen.contains(&id) && !is_silent {
                output::line(&form.of(message))?;
                left -= 1;
                if left == 0 {
                    return Ok(());
                }
            }
            present.insert(id);
        }
        // What is gone does not come back under its id, so only what is there is remembered.
        seen = present;
        is_silent = false;
        tokio::time::sleep(flags.interval).await;
    }
}

/// The server shows the oldest, up to a bound.
fn tell_of_more(shown: usize, held: u64) {
    if held > shown as u64 {
        tell(&format!(
            "the server shows {shown} of {held} messages: what stands behind them, also what comes \
             now, is seen once some of them are gone; --consume misses none"
        ));
    }
}

/// Lets a server be away that has answered before.
#[derive(Default)]
struct Outages {
    has_answered: bool,
    is_away: bool,
}

impl Outages {
    /// Returns the answer, or after a pause `None` if it is worth asking again.
    async fn pass<T>(&mut self, answer: Result<T>) -> Result<Option<T>> {
        match answer {
            Ok(answer) => {
                self.has_answered = true;
                self.is_away = false;
                Ok(Some(answer))
            }
            Err(error) if self.has_answered && may_pass(&error) => {
                if !std::mem::replace(&mut self.is_away, true) {
                    let text = format!("{error:#}");
                    tell(&format!("{}; trying again", text.lines().next().unwrap_or_default()));
                }
                tokio::time::sleep(OUTAGE_LOOK).await;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// Returns whether the connection failed or the server is in trouble: either may pass.
fn may_pass(error: &anyhow::Error) -> bool {
    use CallErrorKind::{Server, Throttled, Transport};
    let errors = error.chain().filter_map(|error| error.downcast_ref::<CallError>());
    errors.into_iter().any(|error| matches!(error.kind, Server | Throttled | Transport))
}
