//! Error types.

use std::io;
use std::sync::Arc;

use millrace_journal::{OpenError, ReadError, Unavailable};

/// Why a follower does not go on, or does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FollowError {
    /// A message that is known to be in the log was not shown in time. Asking again may help.
    #[error("the log is not readable at message {sequence}: {reason}")]
    Silent { sequence: u64, reason: Arc<str> },
    /// A message is damaged, or is not what follows. The same to every reader.
    #[error("message {sequence} of the log is damaged: {reason}")]
    Damaged { sequence: u64, reason: &'static str },
    /// The next message was purged. Drop the follower, and start one that copies from
    /// the log's new beginning.
    #[error("the log begins at message {first}, behind what was copied")]
    Overtaken { first: u64 },
    /// The copy has what the log lacks: one of them is a backup. Nothing is thrown away.
    #[error(
        "the copy is ahead of the log: it has frame {copied}, the log ends with message {last}"
    )]
    Ahead { copied: u64, last: u64 },
    /// This node's disk has no room for the next segment of the copy, or its copy has failed.
    #[error("the copy takes no more: {0}")]
    CopyFull(Unavailable),
    /// A frame was not appended to the copy. The follower is to be dropped.
    #[error("the copy takes no more: {0}")]
    CopyFailed(Arc<str>),
    #[error("reading the copy: {0}")]
    Read(#[from] ReadError),
    #[error("opening the copy: {0}")]
    Open(#[from] OpenError),
}

impl From<FollowError> for OpenError {
    fn from(error: FollowError) -> Self {
        match error {
            FollowError::Open(error) => error,
            error => {
                let kind = match error {
                    FollowError::Silent { .. } => io::ErrorKind::TimedOut,
                    FollowError::CopyFull(_) => io::ErrorKind::StorageFull,
                    _ => io::ErrorKind::InvalidData,
                };
                let source = io::Error::new(kind, error);
                Self::Io { doing: "copying the log".into(), source }
            }
        }
    }
}
