//! `peek`: messages as they are; receive counts and visibility stay.

use std::num::NonZeroUsize;

use anyhow::Result;
use clap::Args;
use serde_json::Value;

use super::connection::ConnectionFlags;
use super::message::{Form, attribute};
use super::output;
use crate::logging::tell;

/// So that messages of every state are shown.
pub(super) const ALL: &str = "ShowDelayed=true&ShowInvisible=true";

#[derive(Args, Debug)]
pub(crate) struct PeekFlags {
    /// Name, URL or ARN
    queue: String,
    /// Messages to show at the most
    #[arg(long, value_name = "NUMBER", default_value = "10")]
    max: NonZeroUsize,
    /// Those in flight and delayed as well
    #[arg(long)]
    all: bool,
    /// Print JSON lines instead of bodies
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionFlags,
}

pub(super) async fn run(flags: &PeekFlags) -> Result<()> {
    let sqs = flags.connection.connect_to(&flags.queue)?;
    let url = sqs.url(&flags.queue).await?;
    // One more, to tell whether there are more.
    let limit = format!("Limit={}", flags.max.saturating_add(1));
    let query = if flags.all { format!("{ALL}&{limit}") } else { limit };
    let messages = sqs.peek(&url, &query).await?;
    let form = Form::new(flags.json);
    for message in messages.iter().take(flags.max.get()) {
        let shown = form.of(message);
        match (form, state(message)) {
            (Form::Body, Some(state)) => output::line(&format!("[{state}] {shown}"))?,
            _ => output::line(&shown)?,
        }
    }
    if messages.is_empty() {
        tell("no message");
    } else if messages.len() > flags.max.get() {
        tell("there are more");
    }
    Ok(())
}

/// Why a message cannot be received now.
fn state(message: &Value) -> Option<&'static str> {
    match (attribute(message, "IsDelayed"), attribute(message, "IsVisible")) {
        ("true", _) => Some("delayed"),
        (_, "false") => Some("in flight"),
        _ => None,
    }
}
