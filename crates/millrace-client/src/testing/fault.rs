//! Calls that a queue in memory got, and how they go wrong.

use std::time::Duration;

use bytestring::ByteString;
use tokio::time::Instant;

use crate::error::{CallError, EntryError};

/// What a call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    Send,
    Receive,
    Delete,
    ChangeVisibility,
}

/// How the next call of an operation goes wrong.
#[derive(Clone, Debug)]
pub enum Fault {
    /// Nothing is done and the call fails.
    Refuse(CallError),
    /// All is done, but the caller gets this error: the answer was lost.
    LoseAnswer(CallError),
    /// The entries of these indices are not carried out.
    FailEntries(Vec<usize>, EntryError),
    /// The answer takes that much longer; what is asked is done at once.
    Slow(Duration),
}

/// One call that arrived.
#[derive(Clone, Debug)]
pub struct CallRecord {
    pub operation: Operation,
    pub at: Instant,
    /// Bodies of sends, message ids of deletes and visibility changes, ids of what was received.
    pub entries: Vec<ByteString>,
    /// Timeouts asked for by a visibility change.
    pub timeouts: Vec<Duration>,
}

impl CallRecord {
    pub(super) fn now(operation: Operation, entries: Vec<ByteString>) -> CallRecord {
        CallRecord { operation, at: Instant::now(), entries, timeouts: Vec::new() }
    }
}
