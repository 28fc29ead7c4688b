//! Places in a journal and the small words around them.

use std::fmt;

/// Number of a segment. Numbers only grow and are never used again, so a position names the same
/// bytes for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentId(pub u32);

impl SegmentId {
    /// No segment has this number, so that each has one after it.
    pub const END: Self = Self(u32::MAX);

    /// The segment after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

/// Place in a journal, totally ordered: segment in the upper half, byte offset in the lower.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

impl Position {
    /// The place `offset` bytes into `segment`.
    #[must_use]
    pub const fn new(segment: SegmentId, offset: u32) -> Self {
        Self(((segment.0 as u64) << 32) | offset as u64)
    }

    /// The segment that holds this place.
    #[must_use]
    pub const fn segment(self) -> SegmentId {
        SegmentId((self.0 >> 32) as u32)
    }

    /// Bytes from the start of the segment.
    #[must_use]
    pub const fn offset(self) -> u32 {
        self.0 as u32
    }

    /// The place `bytes` further on in the same segment.
    #[must_use]
    pub const fn plus(self, bytes: u32) -> Self {
        Self(self.0 + bytes as u64)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.segment(), self.offset())
    }
}

/// Grows by one with each start of a journal; frames of older epochs written late are void.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Promise of an append's durability: the number of its commit group. Groups settle in order, so
/// of several tickets only the greatest needs to be waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub(crate) u64);

/// When an append counts as committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// After `fdatasync`: survives loss of power.
    #[default]
    Fsync,
    /// After `write`: survives the end of the process, not of the machine.
    Os,
    /// At once, in memory: survives nothing. The mode of [`crate::MemoryJournal`].
    Memory,
}

/// Why space is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Adds to what must be kept. Refused as soon as no further segment can be had.
    Store,
    /// Receives and visibility changes: nothing that must be kept, but no space comes of them
    /// either. May use some of the room that is left when the disk is full, so that what is
    /// received can be deleted.
    Lease,
    /// Messages appended again so that their segments can go. May use more of that room than
    /// leases, which would otherwise take what is needed to get further segments.
    Relocate,
    /// Deletes, purges: what lets segments go. May use all the room that is left when the disk is
    /// full, for without it a full disk could never be emptied.
    Reclaim,
}

/// What an open journal starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    pub epoch: Epoch,
    /// The oldest place that is kept.
    pub first: Position,
    /// The first unwritten place, behind the OPEN frame of this epoch.
    pub tail: Position,
    /// What was cut off, if the last frame was incomplete.
    pub torn_tail: Option<TornTail>,
}

/// An incomplete last frame, as a crash leaves it. It was never acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TornTail {
    pub segment: SegmentId,
    pub offset: u32,
    /// From the cut to the last byte that is not zero.
    pub bytes: u32,
}
