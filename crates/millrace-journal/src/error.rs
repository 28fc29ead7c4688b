//! Error types: one enum per operation.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::position::{Epoch, Position, SegmentId};

/// Why a change is refused. Reads go on in every case.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unavailable {
    /// A write or sync failed. Nobody knows how much reached the disk, so nothing more is written
    /// until the process is restarted and reads it. The failed call is never tried again: after a
    /// failed sync the kernel may call pages clean that never reached the disk.
    #[error("journal is poisoned: {0}")]
    Poisoned(Arc<str>),
    /// No further segment can be had. Ends when space returns.
    #[error("disk is full, no room for another journal segment")]
    DiskFull,
    /// No file can be opened for a further segment, for want of descriptors or memory. Ends when
    /// the process, or another, gives some back.
    #[error("no file can be opened for another journal segment")]
    TooManyFiles,
    /// More bytes wait for their commit than may wait.
    #[error("{waiting_bytes} bytes wait for their commit, limit {limit_bytes}")]
    Backlog { waiting_bytes: u64, limit_bytes: u64 },
    /// A batch that does not fit into a segment.
    #[error("batch is {bytes} bytes, limit {limit_bytes}")]
    TooLarge { bytes: u64, limit_bytes: u64 },
    /// Another owner has opened the journal. This one takes nothing more: it is to be dropped, and
    /// may be opened anew in the same process.
    #[error("journal is owned by epoch {0}")]
    Fenced(Epoch),
    /// The log gave no answer in time. What was appended may be there or not, now or later. As the
    /// outcome of one ticket it says nothing of later ones; as the end of a journal, this one is to
    /// be dropped, and may be opened anew in the same process.
    #[error("outcome unknown: {0}")]
    NotSettled(Arc<str>),
    #[error("journal is closed")]
    Closed,
}

impl Unavailable {
    /// Returns true if the process has to be restarted before it can open the journal again.
    #[must_use]
    pub fn needs_restart(&self) -> bool {
        matches!(self, Self::Poisoned(_))
    }
}

/// Why a frame was not appended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// The predecessor is not what the journal ends with: another epoch has begun.
    #[error("fenced by epoch {0}")]
    Fenced(Epoch),
    /// A write or sync failed: the frame may or may not be there, and only another process can
    /// tell.
    #[error("outcome unknown: {0}")]
    Unknown(Arc<str>),
    /// The log gave no answer in time: the frame may or may not be there, and only opening anew can
    /// tell. This process is not at fault.
    #[error("outcome unknown: {0}")]
    NotSettled(Arc<str>),
    /// The frame is certainly not there.
    #[error("not appended: {0}")]
    Unavailable(Arc<str>),
}

/// Why a record was not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// Truncated, or never written.
    #[error("nothing is kept at position {0}")]
    Gone(Position),
    /// The bytes there are not the record that was written.
    #[error("record at position {0} is damaged")]
    Damaged(Position),
    #[error("reading position {position}: {source}")]
    Io { position: Position, source: io::Error },
    #[error(transparent)]
    Corrupt(Corruption),
}

/// Why a truncation was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TruncateError {
    #[error("segment {segment} is past the active segment {active}")]
    Active { segment: SegmentId, active: SegmentId },
}

/// Why a journal did not open.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    #[error("{path} is in use by another process")]
    Locked { path: PathBuf },
    /// Damage anywhere but in the last frame. Starting would silently lose what was acknowledged.
    #[error("{0}")]
    Corrupt(Corruption),
    /// Another owner has started an epoch behind the same end.
    #[error("journal is owned by epoch {0}")]
    Fenced(Epoch),
    /// A copy was asked for, but the directory holds another log.
    #[error("{path} holds another log")]
    OtherLog { path: PathBuf },
    #[error("segment size is {bytes} bytes, must be {min} to {max} and a multiple of {multiple}")]
    SegmentSize { bytes: u32, min: u32, max: u32, multiple: u32 },
    #[error("{doing}")]
    Io { doing: String, source: io::Error },
}

/// Damage that is not the trace of a crash, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("journal is corrupt: segment {segment} offset {offset}: {reason}")]
pub struct Corruption {
    pub segment: SegmentId,
    pub offset: u32,
    pub reason: String,
}

impl Corruption {
    pub(crate) fn at(segment: SegmentId, offset: u32, reason: impl fmt::Display) -> Self {
        Self { segment, offset, reason: reason.to_string() }
    }
}

impl OpenError {
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io { doing, source }
    }
}
