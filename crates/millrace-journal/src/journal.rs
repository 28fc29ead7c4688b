//! The seam: what a log must do for a journal to stand on it.
//!
//! Two implementations are here, [`crate::LocalJournal`] (segment files) and
//! [`crate::MemoryJournal`]; a third, of a log that several machines share, is in
//! `millrace-replicated`. Every one passes [`crate::conformance`]. What callers hold is
//! [`crate::GroupCommit`], which turns many appenders into one frame at a time; nobody else appends.
//!
//! The contract:
//!
//! 1. **Opening has two steps** (see [`crate::store`]). Recovering finds the end of the log. Then
//!    an OPEN frame with a greater epoch, which names its owner, starts the epoch and gives `{epoch,
//!    first, tail}`. From then on frames that an earlier owner still manages to write are void by
//!    [`Chain::judge`], whatever the log itself thinks of them.
//! 2. **One append in flight.** [`append`](Journal::append) is never called again before it has
//!    returned. Each frame names its predecessor (`counter`, `previous`), and the journal refuses
//!    a frame whose predecessor is not its end. With one append in flight that comparison fences:
//!    once another owner has appended, no frame of ours can match again. (With several in flight
//!    it would not: later ones could match positions that the intruder shifted.)
//! 3. **An append has five ends**: it is there and durable ([`Ok`]); another owner holds the log
//!    ([`Fenced`](AppendError::Fenced)); nobody knows, because a write or sync failed
//!    ([`Unknown`](AppendError::Unknown)) or because no answer came in time
//!    ([`NotSettled`](AppendError::NotSettled)); it is certainly not there
//!    ([`Unavailable`](AppendError::Unavailable)). After any but the first the journal is not
//!    appended to again: what is there is for the next open to find out. After `Fenced` and
//!    `NotSettled` this process may open it anew; after the others it is to be restarted. A frame
//!    is never sent twice blindly.
//! 4. **Places are known beforehand.** [`Placement`] is pure arithmetic, so the group commit
//!    hands out final positions before anything is written, and the journal asserts that a frame
//!    arrives at the place that it names. No frame is longer than
//!    [`max_frame_bytes`](Journal::max_frame_bytes), which may be less than a segment takes.
//! 5. **Space is known beforehand.** A segment that [`is_ready`](Journal::is_ready) has its space
//!    set aside. Running out is noticed in [`prepare`](Journal::prepare), never in `append`.
//! 6. **Only the tail goes.** [`truncate_before`](Journal::truncate_before) forgets whole segments
//!    from the oldest on. So a record always outlives those that it cancels.
//! 7. **Slow work is asked for, not hidden.** Journals own no thread. What need not be on the
//!    commit path (zeroing, sidecars, removal) waits for [`background_step`]: a thread calls it
//!    in a server, a simulation calls it when its seed says so.
//!
//! [`background_step`]: Journal::background_step

use std::io::{self, Read};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::error::{AppendError, ReadError, TruncateError, Unavailable};
use crate::frame::{Chain, Frame, Prior};
use crate::position::{Opened, Position, SegmentId};
use crate::record::Replayed;

/// What [`Journal::replay_segment`] calls for each record, in order.
pub type Visitor<'a> = dyn FnMut(Replayed<'_>) -> ControlFlow<()> + 'a;

/// A log of frames. See the module for the contract.
pub trait Journal: Send + Sync {
    /// What opening found and started.
    fn opened(&self) -> Opened;

    /// The chain behind the OPEN frame of this epoch.
    fn chain(&self) -> Chain;

    /// What frames are sealed with.
    fn salt(&self) -> u64;

    /// What a frame may say of those before it.
    fn prior(&self) -> Prior;

    fn placement(&self) -> Placement;

    /// The longest frame that can be appended, header included: what a segment takes, or less.
    fn max_frame_bytes(&self) -> u32 {
        self.placement().data_bytes()
    }

    /// Whether an append waits for nothing beyond this machine. Then threads that serve connections
    /// may append, as long as the disk is quick.
    fn is_local(&self) -> bool;

    /// Whether a frame could be appended to this segment without asking for space.
    fn is_ready(&self, segment: SegmentId) -> bool;

    /// Sets space aside up to and including `segment`. Fails with `DiskFull` or `TooManyFiles`,
    /// without asking the disk more than about once a second.
    fn prepare(&self, segment: SegmentId) -> Result<(), Unavailable>;

    /// Whether the last preparation failed for lack of space or files.
    fn is_full(&self) -> bool;

    /// Appends a frame at the place that it names and makes it as durable as was chosen.
    fn append(&self, frame: &Frame) -> Result<(), AppendError>;

    /// The bytes of a record, as they are there.
    fn read(&self, position: Position, record_len: u32) -> Result<Bytes, ReadError>;

    /// The same as the disk has them now, whatever memory holds: what was read before was not what
    /// had been written.
    fn read_anew(&self, position: Position, record_len: u32) -> Result<Bytes, ReadError> {
        self.read(position, record_len)
    }

    /// All records of a segment in order, until the visitor breaks off.
    fn replay_segment(
        &self,
        segment: SegmentId,
        visitor: &mut Visitor<'_>,
    ) -> Result<(), ReadError>;

    /// Forgets all segments before this one. The files go later, in the background.
    fn truncate_before(&self, segment: SegmentId) -> Result<(), TruncateError>;

    /// Oldest first; the last is the active one.
    fn segments(&self) -> Vec<SegmentInfo>;

    /// What is committed now, to be copied while the journal goes on. None if nothing is kept in
    /// files.
    fn pin(&self) -> Option<Pinned> {
        None
    }

    /// Space that the journal holds in all, spares included.
    fn disk_bytes(&self) -> u64;

    fn has_background_work(&self) -> bool;

    /// Does one piece of background work; false if there was none.
    fn background_step(&self) -> bool;

    /// Whether it would help readers to call `read_ahead`.
    fn wants_read_ahead(&self) -> bool {
        false
    }

    /// Reads something that is expected to be wanted soon; false if nothing is.
    fn read_ahead(&self) -> bool {
        false
    }

    /// Why nothing is written any more until the journal is opened anew, if so.
    fn failure(&self) -> Option<Arc<str>> {
        None
    }

    /// Does what of the background work the next start would otherwise have to make up for.
    fn finish(&self);

    /// Monotonic time, for measuring.
    fn now(&self) -> Duration;
}

/// A journal as it was at one time, to be copied while it goes on.
pub type Pinned = Box<dyn Pin>;

/// The hold on a [`Pinned`] journal until it is copied.
pub trait Pin: Send {
    /// The first place that is not in the copy.
    fn tail(&self) -> Position;

    /// Number of segments in the copy.
    fn segments(&self) -> usize;

    /// Shows all files, the oldest segment first, and lets go of each once it is through. Of sealed
    /// segments the sidecar comes first, if there is one by then.
    fn copy(self: Box<Self>, put: &mut PutFile<'_>) -> io::Result<()>;
}

/// Gets each file of a copy: its name in the journal's directory, its length and its bytes. A
/// segment is longer than that: zeros, up to the length that its header tells.
pub type PutFile<'a> = dyn FnMut(&str, u64, &mut dyn Read) -> io::Result<()> + 'a;

/// A segment as callers see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    pub id: SegmentId,
    /// Bytes in use, header included.
    pub bytes: u64,
    pub is_sealed: bool,
}

/// Where frames go: pure arithmetic over segments of one size, each behind a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    pub segment_header_bytes: u32,
    /// The offset beyond which no DATA frame goes. A segment may be larger.
    pub data_end_bytes: u32,
}

impl Placement {
    /// Bytes of frames that fit into a segment.
    #[must_use]
    pub const fn data_bytes(&self) -> u32 {
        self.data_end_bytes - self.segment_header_bytes
    }

    /// Bytes left in the segment of `tail`.
    #[must_use]
    pub const fn room(&self, tail: Position) -> u32 {
        self.data_end_bytes.saturating_sub(tail.offset())
    }

    /// Where a frame of this length goes that follows `tail`: there, or at the start of the next
    /// segment. A frame never spans segments.
    #[must_use]
    pub const fn place(&self, tail: Position, frame_bytes: u32) -> Position {
        if frame_bytes <= self.room(tail) { tail } else { self.roll(tail) }
    }

    /// The first place of the segment after that of `tail`.
    #[must_use]
    pub const fn roll(&self, tail: Position) -> Position {
        self.start(tail.segment().next())
    }

    /// The first place of a segment.
    #[must_use]
    pub const fn start(&self, segment: SegmentId) -> Position {
        Position::new(segment, self.segment_header_bytes)
    }
}
