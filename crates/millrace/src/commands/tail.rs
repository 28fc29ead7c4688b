//! `tail`: messages as they arrive, by looking again and again, or by consuming them.

use std::collections::HashSet;
use std::time::Duration;

use anyhow::Result;
use clap::Args;

use super::connection::{ConnectionFlags, text};
use super::message::Form;
use super::receive::{Asked, delete, receive};
use super::{interval, output, peek};

/// The longest that SQS lets a receive wait.
const WAIT_S: u64 = 20;

#[derive(Args, Debug)]
pub(crate) struct TailFlags {
    /// Name, URL or ARN
    queue: String,
    /// Begin with the messages that are there
    #[arg(long)]
    from_start: bool,
    /// Receive and delete instead of looking: misses nothing, leaves nothing to others
    #[arg(long, conflicts_with_all = ["from_start", "interval"])]
    pub(super) consume: bool,
    /// Time between two looks; what comes and goes between them is not seen
    #[arg(long, value_name = "SECONDS", default_value = "0.5", value_parser = interval)]
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
    if left == 0 {
        return Ok(());
    }
    if flags.consume {
        while left > 0 {
            let asked = Asked { max: left, wait_s: WAIT_S, visibility_s: None };
            let messages = receive(&sqs, &url, asked).await?;
            for message in &messages {
                output::line(&form.of(message))?;
            }
            if !messages.is_empty() {
                delete(&sqs, &url, &messages).await?;
            }
            left = left.saturating_sub(messages.len() as u64);
        }
        return Ok(());
    }
    let mut seen = HashSet::new();
    let mut is_silent = !flags.from_start;
    loop {
        let messages = sqs.peek(&url, peek::ALL).await?;
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
