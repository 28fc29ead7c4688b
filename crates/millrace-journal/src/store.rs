//! Where a journal is kept, and the two steps of opening it.
//!
//! ```text
//!  JournalStore ──recover──▶ Unowned ──start_epoch──▶ Journal
//!                read and mended,     the OPEN frame is
//!                every record shown   there and durable
//! ```
//! Between the steps nothing of this process is in the log: what cannot use what was shown drops
//! it, and a follower goes on reading. Callers open a journal through these traits alone, and do
//! not know which kind it is.

use crate::error::{OpenError, ReadError};
use crate::frame::Chain;
use crate::journal::Journal;
use crate::owner::Owner;
use crate::position::Position;
use crate::record::Replayed;

/// Where a journal is kept. Outlives the journals that are opened in it.
pub trait JournalStore: Send + Sync {
    /// Finds the end of the log, mends what a crash left, and shows every record that is kept, in
    /// order. Starts no epoch.
    fn recover(&self, visitor: &mut dyn FnMut(Replayed<'_>))
    -> Result<Box<dyn Unowned>, OpenError>;
}

/// A log that was read to its end, and in which this process has started no epoch.
pub trait Unowned: Send + Sync {
    /// Where the log ends.
    fn end(&self) -> End;

    /// The owner of the epoch in which the log ends, as its OPEN frame says. None if that frame is
    /// truncated, or says nothing.
    fn owner(&self) -> Result<Option<Owner>, ReadError>;

    /// Appends the OPEN frame that makes `owner` the owner of a new epoch. `Fenced` if another did
    /// so behind the same end.
    fn start_epoch(self: Box<Self>, owner: &Owner) -> Result<Box<dyn Journal>, OpenError>;
}

/// The end of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The chain behind the last frame.
    pub chain: Chain,
    /// The first unwritten place.
    pub tail: Position,
}
