//! The journal of a log's owner: each append is settled in the log, then put into the copy.
//!
//! Locks: `tail` is held over an append; the others are taken alone, or inside it, for microseconds.
//! Losing the log, or the copy, ends this journal and nothing else: it may be opened anew.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use millrace_journal::frame::{Chain, FRAME_HEADER_BYTES, Frame, FrameHeader, Prior, Verdict};
use millrace_journal::journal::{Pinned, Placement, Visitor};
use millrace_journal::{
    AppendError, Journal, LocalJournal, Opened, Position, ReadError, SegmentId, SegmentInfo,
    TruncateError, Unavailable,
};

use crate::error::FollowError;
use crate::follower::{Follower, put};
use crate::room::Room;
use crate::settle::{Tail, Unsettled};

/// A purge that found the log silent is done again no sooner than this.
const PURGE_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Owns the log until another starts an epoch.
pub struct Replicated {
    follower: Follower,
    opened: Opened,
    opened_chain: Chain,
    tail: Mutex<Tail>,
    /// Number of the first message of each segment that was begun since the start.
    starts: Mutex<BTreeMap<SegmentId, u64>>,
    has_ended: AtomicBool,
    room: Mutex<Room>,
    /// The greatest segment for which the log has room.
    granted: AtomicU32,
    is_full: AtomicBool,
    truncated: Mutex<Truncated>,
}

/// The part that the log is still to forget.
struct Truncated {
    /// Everything before this segment.
    before: Option<SegmentId>,
    not_before: Duration,
}

impl Replicated {
    /// The follower has just appended this OPEN frame.
    pub(crate) fn new(mut follower: Follower, open: Frame) -> Self {
        let copy = follower.copy();
        let active = open.header.place.segment();
        let oldest = copy.segments().first().map_or(active, |oldest| oldest.id);
        let opened = Opened {
            epoch: open.header.epoch,
            first: copy.placement().start(oldest),
            tail: open.end(),
            torn_tail: None,
        };
        let starts = std::mem::take(&mut follower.starts);
        Self {
            opened,
            opened_chain: open.chain(),
            tail: Mutex::new(follower.tail),
            starts: Mutex::new(starts),
            has_ended: AtomicBool::new(false),
            room: Mutex::new(Room::new(follower.reader.format().segment_bytes)),
            granted: AtomicU32::new(active.0),
            is_full: AtomicBool::new(false),
            // The owner before may have forgotten them and not got round to telling the log.
            truncated: Mutex::new(Truncated { before: Some(oldest), not_before: Duration::ZERO }),
            follower,
        }
    }

    fn copy(&self) -> &LocalJournal {
        self.follower.copy()
    }

    fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    fn end(&self, error: AppendError) -> AppendError {
        self.has_ended.store(true, Ordering::Release);
        error
    }

    fn active(&self) -> SegmentId {
        self.follower.end().tail.segment()
    }

    /// Grants the log's room up to and including `segment`.
    fn grant(&self, segment: SegmentId) -> bool {
        if self.granted.load(Ordering::Acquire) >= segment.0 {
            return true;
        }
        let active = self.active();
        if lock(&self.room).may_ask(self.now()) {
            self.ask_for_room();
        }
        let mut room = lock(&self.room);
        let has_room = !room.lacks(segment, active);
        room.note(!has_room, self.now());
        drop(room);
        if has_room {
            self.granted.fetch_max(segment.0, Ordering::AcqRel);
        }
        self.is_full.store(!has_room, Ordering::Relaxed);
        has_room
    }

    /// Silence changes nothing.
    fn ask_for_room(&self) {
        if let Ok(bounds) = self.follower.reader.log.bounds() {
            lock(&self.room).set(bounds.room_bytes);
        }
    }

    /// The segment behind the active one, if the copy has it, the log was not asked for it yet, and
    /// may be.
    fn ungranted(&self) -> Option<SegmentId> {
        let next = self.active().next();
        let is_missing = self.granted.load(Ordering::Acquire) < next.0;
        let is_due = is_missing && self.copy().is_ready(next);
        (is_due && lock(&self.room).may_ask(self.now())).then_some(next)
    }

    fn due_purge(&self) -> Option<SegmentId> {
        let truncated = lock(&self.truncated);
        truncated.before.filter(|_| !self.has_ended() && self.now() >= truncated.not_before)
    }

    /// Lets the log forget what is before `segment`.
    fn purge(&self, segment: SegmentId) {
        let purged = self.sequence_of(segment).and_then(|sequence| {
            let reader = &self.follower.reader;
            reader
                .log
                .purge_before(sequence)
                .map_err(|silence| FollowError::Silent { sequence, reason: silence.0 })
        });
        let mut truncated = lock(&self.truncated);
        match purged {
            Ok(()) if truncated.before == Some(segment) => truncated.before = None,
            Ok(()) => {}
            Err(error) => {
                tracing::warn!(%error, %segment, "log was not truncated yet");
                truncated.not_before = self.now() + PURGE_AGAIN_AFTER;
                return;
            }
        }
        drop(truncated);
        self.ask_for_room();
        self.is_full.store(false, Ordering::Relaxed);
    }

    /// The number of the message with the first frame of a segment.
    fn sequence_of(&self, segment: SegmentId) -> Result<u64, FollowError> {
        if let Some(sequence) = lock(&self.starts).get(&segment) {
            return Ok(*sequence);
        }
        let damaged = |reason| FollowError::Damaged { sequence: 0, reason };
        let reader = &self.follower.reader;
        let first = reader.first()?.ok_or(damaged("the log is empty"))?;
        if first.segment() >= segment {
            return Ok(first.sequence);
        }
        let place = self.copy().placement().start(segment);
        let head = self.copy().read(place, FRAME_HEADER_BYTES as u32)?;
        let (header, crc) =
            FrameHeader::decode(&head, place).ok_or(damaged("the copy lacks the frame"))?;
        let is_it = |frame: &Frame| (frame.header, frame.crc) == (header, crc);
        let last = reader.bounds()?.last;
        let sequence = match reader.find(first.estimate(header.counter), last, is_it)? {
            Some(sequence) => Some(sequence),
            None => reader.find(first.sequence, last, is_it)?,
        };
        sequence.ok_or(damaged("the log lacks the first frame of a segment"))
    }
}

impl Journal for Replicated {
    fn opened(&self) -> Opened {
        self.opened
    }

    fn chain(&self) -> Chain {
        self.opened_chain
    }

    fn salt(&self) -> u64 {
        self.follower.reader.format().salt
    }

    /// In the log they are. A copy that lost some of them is thrown away.
    fn prior(&self) -> Prior {
        Prior::Durable
    }

    fn placement(&self) -> Placement {
        self.copy().placement()
    }

    fn max_frame_bytes(&self) -> u32 {
        self.placement().data_bytes().min(self.follower.reader.format().max_frame_bytes)
    }

    fn is_local(&self) -> bool {
        false
    }

    fn is_ready(&self, segment: SegmentId) -> bool {
        self.granted.load(Ordering::Acquire) >= segment.0 && self.copy().is_ready(segment)
    }

    fn prepare(&self, segment: SegmentId) -> Result<(), Unavailable> {
        self.copy().prepare(segment).map_err(|refusal| match refusal {
            // The process is not at fault: a copy can be made again.
            Unavailable::Poisoned(reason) => Unavailable::NotSettled(reason),
            refusal => refusal,
        })?;
        if self.grant(segment) { Ok(()) } else { Err(Unavailable::DiskFull) }
    }

    fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed) || self.copy().is_full()
    }

    fn append(&self, frame: &Frame) -> Result<(), AppendError> {
        let mut tail = lock(&self.tail);
        if self.has_ended() {
            return Err(AppendError::NotSettled("the journal has ended".into()));
        }
        if !matches!(tail.chain.judge(&frame.header, frame.crc), Verdict::Valid(_)) {
            return Err(AppendError::Fenced(tail.chain.epoch));
        }
        if let Some(reason) = self.copy().failure() {
            return Err(self.end(AppendError::NotSettled(reason)));
        }
        self.follower.settler().settle(&mut tail, frame).map_err(|unsettled| {
            self.end(match unsettled {
                Unsettled::Fenced(epoch) => AppendError::Fenced(epoch),
                Unsettled::Unknown(reason) => AppendError::NotSettled(reason),
            })
        })?;
        lock(&self.room).take(frame.header.length);
        let place = frame.header.place;
        if place == self.placement().start(place.segment()) {
            lock(&self.starts).insert(place.segment(), tail.last);
        }
        // It is in the log, but cannot be read here.
        put(self.copy(), frame)
            .map_err(|error| self.end(AppendError::NotSettled(error.to_string().into())))
    }

    fn read(&self, position: Position, record_len: u32) -> Result<Bytes, ReadError> {
        self.copy().read(position, record_len)
    }

    fn read_anew(&self, position: Position, record_len: u32) -> Result<Bytes, ReadError> {
        self.copy().read_anew(position, record_len)
    }

    fn replay_segment(
        &self,
        segment: SegmentId,
        visitor: &mut Visitor<'_>,
    ) -> Result<(), ReadError> {
        self.copy().replay_segment(segment, visitor)
    }

    fn truncate_before(&self, segment: SegmentId) -> Result<(), TruncateError> {
        self.copy().truncate_before(segment)?;
        lock(&self.starts).retain(|begun, _| *begun >= segment);
        let mut truncated = lock(&self.truncated);
        truncated.before = truncated.before.max(Some(segment));
        Ok(())
    }

    fn segments(&self) -> Vec<SegmentInfo> {
        self.copy().segments()
    }

    fn pin(&self) -> Option<Pinned> {
        self.copy().pin()
    }

    fn disk_bytes(&self) -> u64 {
        self.copy().disk_bytes()
    }

    fn has_background_work(&self) -> bool {
        self.copy().has_background_work()
            || self.due_purge().is_some()
            || self.ungranted().is_some()
    }

    fn background_step(&self) -> bool {
        if let Some(segment) = self.due_purge() {
            self.purge(segment);
            return true;
        }
        if let Some(next) = self.ungranted() {
            self.grant(next);
            return true;
        }
        self.copy().background_step()
    }

    fn wants_read_ahead(&self) -> bool {
        self.copy().wants_read_ahead()
    }

    fn read_ahead(&self) -> bool {
        self.copy().read_ahead()
    }

    // `failure` stays None: it would mean that the process has to be restarted. The next append
    // finds out, and ends the journal.

    fn finish(&self) {
        self.copy().finish();
    }

    fn now(&self) -> Duration {
        self.follower.reader.clock.now()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
