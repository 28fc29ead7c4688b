//! `export`: a queue's messages as JSON lines, in the form of ReceiveMessage.
//!
//! Without `--consume` nothing changes: the queue is looked through page by page, so memory is bounded
//! however deep it is. Where a server shows only the first of them, the command fails rather than
//! write a part. With it, messages are deleted after they were
//! written and flushed; one that was written and not deleted is there again, never the reverse.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::Value;

use super::connection::{ConnectionFlags, Next};
use super::names::queue_names;
use super::queue::messages_held;
use super::receive::{Asked, delete, receive};
use super::send::first_signal;
use super::{Sqs, peek, peek::Pages};
use crate::logging::tell;
use millrace_process::visible;

#[derive(Args, Debug)]
pub(crate) struct ExportFlags {
    /// Name, URL or ARN
    #[arg(add = queue_names())]
    queue: String,
    /// File to write, which only you may read [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Take the messages out of the queue; those in flight and delayed stay
    #[arg(long)]
    pub(super) consume: bool,
    #[command(flatten)]
    connection: ConnectionFlags,
}

pub(super) async fn run(flags: &ExportFlags) -> Result<()> {
    let sqs = flags.connection.connect_to(&flags.queue)?;
    let url = sqs.url(&flags.queue).await?;
    let mut out = Sink::open(flags.output.as_ref())?;
    let mut written = 0;
    let outcome = write_all(flags.consume, &sqs, &url, &mut out, &mut written).await;
    if let (Err(_), 0, Some(path)) = (&outcome, written, &flags.output) {
        // It holds nothing that counts, and would be in the way of the next attempt.
        let _ = std::fs::remove_file(path);
    }
    if outcome.is_ok() || written > 0 {
        tell(&format!("{written} messages written"));
    }
    outcome?;
    if flags.consume {
        // Amazon's count lags behind, so that is no failure.
        match count(&sqs, &url).await? {
            0 => {}
            left => tell(&format!(
                "the queue still holds {left} messages: in flight, delayed, or damaged; \
                 export again when they can be received"
            )),
        }
    }
    Ok(())
}

/// Counts in `written` the messages that are in the output. What else is there when this fails is
/// still in the queue, too.
async fn write_all(
    consume: bool,
    sqs: &Sqs,
    url: &str,
    out: &mut Sink,
    written: &mut usize,
) -> Result<()> {
    if consume {
        let mut signal = first_signal()?;
        loop {
            let asked = Asked { max: 10, wait_s: 1, visibility_s: None };
            let messages = receive(sqs, url, asked).await?;
            if messages.is_empty() {
                break;
            }
            out.write(&messages)?;
            *written += messages.len();
            delete(sqs, url, &messages).await?;
            if let Ok(name) = signal.try_recv() {
                bail!("{name}: ended");
            }
        }
    } else {
        write_pages(sqs, url, out, written).await?;
    }
    Ok(())
}

async fn write_pages(sqs: &Sqs, url: &str, out: &mut Sink, written: &mut usize) -> Result<()> {
    let before = count(sqs, url).await?;
    let query = format!("&{}", peek::ALL);
    let mut pages = Pages::new(sqs, url, &query);
    let mut damaged = 0;
    while let Some(page) = pages.next(usize::MAX).await? {
        if *pages.rest() == Next::Untold {
            // Some may have come or gone meanwhile.
            let held = before.min(count(sqs, url).await?);
            if held > page.messages.len() as u64 {
                bail!(
                    "the queue holds {held} messages, the server shows {} without receiving them; \
                     export them with --consume",
                    page.messages.len()
                );
            }
        }
        out.write(&page.messages)?;
        *written += page.messages.len();
        damaged += page.damaged;
    }
    if damaged > 0 {
        bail!("{damaged} messages are damaged on the server's disk and are left out");
    }
    Ok(())
}

/// Messages of the queue in every state.
pub(super) async fn count(sqs: &Sqs, url: &str) -> Result<u64> {
    Ok(messages_held(&sqs.attributes(url).await?))
}

/// Where lines go. A file is on disk when `write` returns.
enum Sink {
    /// With its length.
    File(File, u64),
    Standard,
}

impl Sink {
    fn open(path: Option<&PathBuf>) -> Result<Sink> {
        let Some(path) = path else { return Ok(Sink::Standard) };
        // As the server keeps them.
        let file = File::options().write(true).create_new(true).mode(0o600).open(path);
        let file = file.with_context(|| format!("creating {}", path.display()))?;
        // A file is on disk when its name is.
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let named = File::open(parent.unwrap_or(Path::new("."))).and_then(|dir| dir.sync_all());
        if let Err(error) = named {
            let _ = std::fs::remove_file(path);
            return Err(error).with_context(|| format!("writing the name {}", path.display()));
        }
        Ok(Sink::File(file, 0))
    }

    fn write(&mut self, messages: &[Value]) -> Result<()> {
        let text: String = messages.iter().map(|message| message.to_string() + "\n").collect();
        match self {
            Sink::Standard => {
                let mut out = io::stdout().lock();
                let shown = if out.is_terminal() { visible(&text) } else { text.into() };
                out.write_all(shown.as_bytes())?;
                out.flush()?;
            }
            Sink::File(file, length) => {
                let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_data());
                if written.is_err() {
                    // What is there of these messages stays in the queue; half a line would be in
                    // the way of an import.
                    let _ = file.set_len(*length);
                }
                written.context("writing to the disk")?;
                *length += text.len() as u64;
            }
        }
        Ok(())
    }
}
