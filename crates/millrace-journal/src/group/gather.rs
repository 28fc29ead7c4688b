//! What waits to be committed, and what was committed a moment ago.
//!
//! Positions are final when a record is pushed: the place where the gathering frame starts is
//! known, since the one before it is closed and so has a fixed length. If a batch does not fit
//! where the gathering frame stands, that frame is closed and the batch starts the next one.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};

use crate::frame::{FRAME_HEADER_BYTES, padding};
use crate::journal::Placement;
use crate::position::Position;
use crate::record::{RECORD_HEADER_BYTES, Record};

/// Frames are cut from allocations of this size, so that small groups do not allocate each.
const CHUNK_BYTES: usize = 1 << 20;

/// What a thread that serves connections hashes and copies in one go at most.
const QUICK_GROUP_BYTES: usize = 64 << 10;

pub(super) struct Gather {
    placement: Placement,
    /// Records of the gathering group; what is behind its length belongs to later groups.
    body: BytesMut,
    /// Where the gathering frame starts.
    base: Position,
    records: u32,
    batches: u32,
    number: u64,
    /// When the gathering group got its first batch.
    begun_at: Duration,
    /// Taken to be committed, and not settled yet: number and beginning.
    taken: Option<(u64, Duration)>,
    /// When a group was last settled.
    settled_at: Option<Duration>,
    closed: VecDeque<Group>,
    /// Ascending by place. Contains what is closed, being written and was written recently.
    recent: VecDeque<Recent>,
    recent_bytes: usize,
    /// Granted and not appended yet.
    pub(super) reserved_bytes: u64,
    /// Appended and not committed yet.
    pub(super) waiting_bytes: u64,
    /// Somebody waits for the gathering group, or may.
    is_awaited: bool,
    pub(super) committing_thread: CommittingThread,
    /// Batches that the committing thread waits for while it is patient.
    pub(super) wanted: u32,
    /// Bytes with which it waits for no more.
    pub(super) enough_bytes: usize,
    pub(super) is_closed: bool,
}

/// What the committing thread does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CommittingThread {
    /// Looks for what has gathered before it sleeps again.
    Awake,
    /// Waits for a moment until enough has gathered, and commits then.
    Patient,
    /// Sleeps for a while, and commits then.
    Lingering,
    Asleep,
}

/// A closed group: its content and place no longer change.
#[derive(Clone)]
pub(super) struct Group {
    pub(super) number: u64,
    /// When it got its first batch.
    begun_at: Duration,
    pub(super) base: Position,
    pub(super) records: u32,
    pub(super) batches: u32,
    /// The body without its padding.
    pub(super) record_bytes: u64,
    pub(super) body: Bytes,
}

struct Recent {
    number: u64,
    body_start: Position,
    body: Bytes,
}

impl Gather {
    pub(super) fn new(placement: Placement, tail: Position) -> Self {
        Self {
            placement,
            body: BytesMut::new(),
            base: tail,
            records: 0,
            batches: 0,
            number: 1,
            begun_at: Duration::ZERO,
            taken: None,
            settled_at: None,
            closed: VecDeque::new(),
            recent: VecDeque::new(),
            recent_bytes: 0,
            reserved_bytes: 0,
            waiting_bytes: 0,
            is_awaited: false,
            committing_thread: CommittingThread::Awake,
            wanted: 0,
            enough_bytes: 0,
            is_closed: false,
        }
    }

    /// Makes the gathering group one that a batch of `bytes` fits into. True if that is its first:
    /// then it has to [begin](Gather::begin).
    pub(super) fn make_room(&mut self, bytes: usize, group_bytes: usize) -> bool {
        let is_large = self.body.len() + bytes > group_bytes;
        if self.records > 0 && (is_large || self.place_with(bytes) != self.base) {
            self.close();
        }
        self.base = self.place_with(bytes);
        self.ensure_capacity(bytes);
        self.batches += 1;
        self.waiting_bytes += bytes as u64;
        self.batches == 1
    }

    /// Notes when the gathering group got its first batch.
    pub(super) fn begin(&mut self, now: Duration) {
        self.begun_at = now;
    }

    /// Copies a record in and returns its position.
    pub(super) fn push(
        &mut self,
        record: &Record<'_>,
        header: &[u8; RECORD_HEADER_BYTES],
    ) -> Position {
        let position = self.body_start().plus(self.body.len() as u32);
        record.encode(header, &mut self.body);
        self.records += 1;
        position
    }

    /// The oldest group that nobody has taken, closing the gathering one if need be.
    pub(super) fn take(&mut self) -> Option<Group> {
        if self.closed.is_empty() && self.records > 0 {
            self.close();
        }
        let group = self.closed.pop_front()?;
        self.taken = Some((group.number, group.begun_at));
        Some(group)
    }

    /// The same, if it is due.
    pub(super) fn take_due(&mut self) -> Option<Group> {
        if self.is_due() { self.take() } else { None }
    }

    /// The same, unless that group starts a segment or is large.
    pub(super) fn take_quick(&mut self) -> Option<Group> {
        let oldest = self.closed.front().map(|group| (group.base, group.body.len()));
        let (base, bytes) = oldest.unwrap_or((self.base, self.body.len()));
        let starts_segment = base == self.placement.start(base.segment());
        if starts_segment || bytes > QUICK_GROUP_BYTES { None } else { self.take_due() }
    }

    /// Notes that a group is committed and forgets the oldest of those that are.
    pub(super) fn settle(&mut self, group: &Group, now: Duration, keep_bytes: usize) {
        self.taken = None;
        self.settled_at = Some(now);
        self.waiting_bytes -= group.record_bytes;
        while self.recent_bytes > keep_bytes
            && let Some(oldest) = self.recent.front()
            && oldest.number <= group.number
        {
            self.recent_bytes -= oldest.body.len();
            self.recent.pop_front();
        }
    }

    /// When the oldest group that is not settled got its first batch.
    pub(super) fn oldest_begun_at(&self) -> Option<Duration> {
        self.unsettled().next().map(|(_, begun_at)| begun_at)
    }

    /// The latest group that is not settled and got its first batch at `time` or before.
    pub(super) fn latest_begun_by(&self, time: Duration) -> Option<u64> {
        let begun = self.unsettled().take_while(|(_, begun_at)| *begun_at <= time);
        begun.last().map(|(number, _)| number)
    }

    /// Returns true if a group is gathering that got its first batch at `time` or before.
    pub(super) fn is_begun_by(&self, time: Duration) -> bool {
        self.records > 0 && self.begun_at <= time
    }

    /// When a group was last settled.
    pub(super) fn settled_at(&self) -> Option<Duration> {
        self.settled_at
    }

    /// Groups that are not settled, oldest first: number and beginning.
    fn unsettled(&self) -> impl Iterator<Item = (u64, Duration)> {
        let closed = self.closed.iter().map(|group| (group.number, group.begun_at));
        let gathering = (self.records > 0).then_some((self.number, self.begun_at));
        self.taken.into_iter().chain(closed).chain(gathering)
    }

    /// The first place that nothing has been pushed to.
    pub(super) fn tail(&self) -> Position {
        if self.records == 0 { self.base } else { self.body_start().plus(self.body.len() as u32) }
    }

    /// Of the gathering group.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Number of the last group that holds anything.
    pub(super) fn latest(&self) -> u64 {
        if self.records > 0 { self.number } else { self.number - 1 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.closed.is_empty() && self.records == 0
    }

    /// Whether to commit without delay.
    pub(super) fn is_due(&self) -> bool {
        !self.closed.is_empty() || (self.records > 0 && self.is_awaited)
    }

    /// Somebody waits for the group of this number, or may.
    pub(super) fn set_awaited(&mut self, number: u64) {
        self.is_awaited |= number >= self.number;
    }

    /// Whether there is what the committing thread waits for, or no more is worth waiting for.
    pub(super) fn is_enough(&self) -> bool {
        self.batches >= self.wanted
            || self.body.len() >= self.enough_bytes
            || !self.closed.is_empty()
            || self.is_closed
    }

    /// Batches in the gathering group.
    pub(super) fn batches(&self) -> u32 {
        self.batches
    }

    /// Bytes of the gathering group's records.
    pub(super) fn bytes(&self) -> usize {
        self.body.len()
    }

    /// Whether the committing thread has to be woken for what is due; it counts as awake then.
    pub(super) fn must_wake(&mut self) -> bool {
        let must = match self.committing_thread {
            CommittingThread::Awake => false,
            CommittingThread::Patient => self.is_enough(),
            CommittingThread::Lingering | CommittingThread::Asleep => self.is_due(),
        };
        if must {
            self.committing_thread = CommittingThread::Awake;
        }
        must
    }

    /// The same, to linger for what is not due.
    pub(super) fn must_wake_to_linger(&mut self) -> bool {
        let must = self.committing_thread == CommittingThread::Asleep;
        if must {
            self.committing_thread = CommittingThread::Awake;
        }
        must
    }

    /// Whether all that is reserved and `bytes` more fit into the segment that gathers.
    pub(super) fn fits(&self, bytes: u64) -> bool {
        self.end_with(bytes) <= u64::from(self.placement.data_end_bytes)
    }

    /// The same for the first eighths of the segment.
    pub(super) fn fits_in_eighths(&self, eighths: u32, bytes: u64) -> bool {
        self.end_with(bytes) <= u64::from(self.placement.data_end_bytes / 8 * eighths)
    }

    /// The record's bytes, if they are in memory: shared when its group is closed, copied while
    /// it still gathers.
    pub(super) fn find(&self, position: Position, record_len: u32) -> Option<Bytes> {
        let length = record_len as usize;
        if position >= self.body_start() && self.records > 0 {
            let start = usize::try_from(position.0 - self.body_start().0).ok()?;
            let record = self.body.get(start..start.checked_add(length)?)?;
            return Some(Bytes::copy_from_slice(record));
        }
        let behind = self.recent.partition_point(|recent| recent.body_start <= position);
        let recent = self.recent.get(behind.checked_sub(1)?)?;
        let start = usize::try_from(position.0 - recent.body_start.0).ok()?;
        let end = start.checked_add(length)?;
        (end <= recent.body.len()).then(|| recent.body.slice(start..end))
    }

    /// Makes the gathering group one that takes no more.
    pub(super) fn close(&mut self) {
        let record_bytes = self.body.len() as u64;
        self.body.put_bytes(0, padding(self.body.len()));
        let body = self.body.split().freeze();
        let group = Group {
            number: self.number,
            begun_at: self.begun_at,
            base: self.base,
            records: self.records,
            batches: self.batches,
            record_bytes,
            body: body.clone(),
        };
        self.recent_bytes += body.len();
        self.recent.push_back(Recent {
            number: self.number,
            body_start: self.body_start(),
            body: body.clone(),
        });
        self.base = self.body_start().plus(body.len() as u32);
        self.closed.push_back(group);
        self.number += 1;
        self.records = 0;
        self.batches = 0;
        self.is_awaited = false;
    }

    /// Where the gathering frame would stand with `bytes` more in it.
    fn place_with(&self, bytes: usize) -> Position {
        let body_bytes = self.body.len() + bytes;
        // Bounded by admission to what fits into a segment.
        let frame_bytes = FRAME_HEADER_BYTES + body_bytes + padding(body_bytes);
        self.placement.place(self.base, frame_bytes as u32)
    }

    /// Leaves room for the padding too, so that closing never moves the body.
    fn ensure_capacity(&mut self, bytes: usize) {
        let needed = self.body.len() + bytes + crate::frame::FRAME_ALIGN;
        if needed <= self.body.capacity() {
            return;
        }
        let grown = if self.body.is_empty() { needed } else { needed.max(self.body.len() * 2) };
        let mut chunk = BytesMut::with_capacity(grown.max(CHUNK_BYTES));
        chunk.put_slice(&self.body);
        self.body = chunk;
    }

    fn body_start(&self) -> Position {
        self.base.plus(FRAME_HEADER_BYTES as u32)
    }

    fn end_with(&self, bytes: u64) -> u64 {
        u64::from(self.tail().offset()) + self.reserved_bytes + bytes
    }
}
