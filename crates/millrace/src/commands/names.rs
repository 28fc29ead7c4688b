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
pub(crate) fn queue_names() -> ArgValueCompleter {
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
    let names = urls.iter().map(|url| name_of(url));
    names
        .filter(|name| name.starts_with(prefix) && is_queue_name(name))
        .map(str::to_owned)
        .collect()
}

/// Whether SQS allows the name. Shells put words on the line as they are, so what a server says
/// must not be able to run anything.
fn is_queue_name(name: &str) -> bool {
    let plain = name.strip_suffix(".fifo").unwrap_or(name);
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=80).contains(&name.len()) && plain.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shells_get_only_names_that_sqs_allows() {
        assert!(["jobs", "a-b_C1", "orders.fifo"].into_iter().all(is_queue_name));
        assert!(
            !["", ".fifo.x", "q$(id)", "*", "a b", "a\u{1b}", "a;b"].into_iter().any(is_queue_name)
        );
    }
}
