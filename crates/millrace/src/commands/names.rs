//! Names of queues for shells that complete a line, asked of the server that the line names.
//!
//! A server that does not answer soon gives no names: nobody waits for a shell.

use std::ffi::OsStr;
use std::time::Duration;

use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use millrace_process::completed_line;
use tokio::time::timeout;

use super::connection::{ConnectionFlags, name_of};
use crate::end_soon::end_soon;

/// The longest wait of a shell for the server.
const PATIENCE: Duration = Duration::from_secs(1);

/// Completes a word with names of queues.
pub(super) fn queue_names() -> ArgValueCompleter {
    ArgValueCompleter::new(|word: &OsStr| {
        let names = word.to_str().map(names).unwrap_or_default();
        names.into_iter().map(CompletionCandidate::new).collect::<Vec<_>>()
    })
}

/// Names that begin with `prefix`, as many as one answer holds.
fn names(prefix: &str) -> Vec<String> {
    let Ok(sqs) = ConnectionFlags::of_line(&completed_line()).connect() else { return Vec::new() };
    let listed = end_soon(async { Ok(timeout(PATIENCE, sqs.list_page(prefix)).await??) });
    let urls = listed.unwrap_or_default();
    urls.iter().map(|url| name_of(url).to_owned()).collect()
}
