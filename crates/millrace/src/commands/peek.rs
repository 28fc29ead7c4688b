//! `peek`: messages as they are; receive counts and visibility stay.

use std::num::NonZeroUsize;

use anyhow::{Result, bail};
use clap::Args;
use serde_json::Value;

use super::connection::{ConnectionFlags, Next, Shown};
use super::message::{Form, attribute};
use super::names::queue_names;
use super::{Sqs, output};
use crate::logging::tell;

/// So that messages of every state are shown.
pub(super) const ALL: &str = "ShowDelayed=true&ShowInvisible=true";

/// Messages that are asked for at a time.
const PAGE: usize = 1_000;

/// A look through a queue, oldest first, page by page.
pub(super) struct Pages<'a> {
    sqs: &'a Sqs,
    url: &'a str,
    /// Which messages are to be shown.
    query: &'a str,
    next: Next,
    is_begun: bool,
}

impl<'a> Pages<'a> {
    pub(super) fn new(sqs: &'a Sqs, url: &'a str, query: &'a str) -> Pages<'a> {
        Pages { sqs, url, query, next: Next::Untold, is_begun: false }
    }

    /// Up to `most` messages, perhaps none; `None` at the end.
    pub(super) async fn next(&mut self, most: usize) -> Result<Option<Shown>> {
        let from = match &self.next {
            Next::From(from) => format!("&From={from}"),
            Next::Untold if !self.is_begun => String::new(),
            Next::End | Next::Untold => return Ok(None),
        };
        let (query, limit) = (self.query, most.min(PAGE));
        let shown = self.sqs.peek(self.url, &format!("Limit={limit}{query}{from}")).await?;
        if self.is_begun && shown.next == self.next && self.next != Next::Untold {
            bail!("the server's pages do not advance");
        }
        self.next = shown.next.clone();
        self.is_begun = true;
        Ok(Some(shown))
    }

    /// Where the queue goes on.
    pub(super) fn rest(&self) -> &Next {
        &self.next
    }
}

#[derive(Args, Debug)]
pub(crate) struct PeekFlags {
    /// Name, URL or ARN
    #[arg(add = queue_names())]
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
    let form = Form::new(flags.json);
    let query = if flags.all { format!("&{ALL}") } else { String::new() };
    let mut pages = Pages::new(&sqs, &url, &query);
    let (mut left, mut has_shown) = (flags.max.get(), false);
    // One more, to tell whether there are more.
    while let Some(page) = pages.next(left.saturating_add(1)).await? {
        for message in page.messages.iter().take(left) {
            let shown = form.of(message);
            match (&form, state(message)) {
                (Form::Parts(_), Some(state)) => output::line(&format!("[{state}] {shown}"))?,
                _ => output::line(&shown)?,
            }
        }
        has_shown |= !page.messages.is_empty();
        if page.messages.len() > left {
            tell("there are more");
            break;
        }
        left -= page.messages.len();
    }
    if !has_shown {
        tell("no message");
    }
    Ok(())
}

/// The state of a message that cannot be received now.
fn state(message: &Value) -> Option<&'static str> {
    match (attribute(message, "IsDelayed"), attribute(message, "IsVisible")) {
        ("true", _) => Some("delayed"),
        (_, "false") => Some("in flight"),
        _ => None,
    }
}
