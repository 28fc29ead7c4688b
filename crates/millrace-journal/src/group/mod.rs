//! Group commit: many appenders, one frame and one sync at a time.
//!
//! ```text
//!  appenders ──lock──▶ gathering ──swap──▶ being written ──sync──▶ committed
//!                      (grows)             (fixed)                 (recent, then disk only)
//! ```
//! Naturally batched: whoever commits takes what has gathered, writes it as one frame, syncs, and
//! tells the waiters; what gathered meanwhile is the next group. No fixed delay: a lone appender
//! waits for one sync, a thousand wait for two at most. Only what nobody waits for has time; and
//! where those who were answered come straight back, the next commit waits for them, never longer
//! than it takes itself (see `patience`).
//!
//! Those who append also commit, one of them at a time, if nobody else is kept waiting; the
//! committing thread does the rest. See [`GroupCommit::commit_here`].
//!
//! Bounded: bytes that wait for their commit, by [`GroupOptions::max_waiting_bytes`] (callers are
//! refused with `Backlog` beyond it); recently written bytes, by
//! [`GroupOptions::recent_bytes`].
//!
//! Locks, in their order: `committing` (held over write and sync, by whoever commits), then
//! `gather` (microseconds), then `committers`, or one of `preparing` and `reading` (to wake).
//! Listeners are called with none of them held.

mod admission;
mod append;
mod background;
mod commit;
mod gather;
mod overdue;
mod pace;
mod patience;
mod priority;
mod stats;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;

use crate::error::{ReadError, TruncateError, Unavailable};
use crate::journal::{Journal, Pinned, SegmentInfo, Visitor};
use crate::position::{Opened, Position, SegmentId, Ticket};
use crate::record::RecordBytes;
use admission::BATCH_OVERHEAD_BYTES;
pub use admission::Reservation;
use background::Background;
use commit::Committing;
use gather::Gather;
use pace::Pace;
use stats::Counters;
pub use stats::{SYNC_BUCKETS, SYNC_FIRST_BUCKET_US, Stats};

/// Bounds of a group commit.
#[derive(Clone, Copy, Debug)]
pub struct GroupOptions {
    /// Reserved and appended bytes that may wait for their commit. Never more than a segment.
    pub max_waiting_bytes: u64,
    /// A group takes no further batch past this, so that one sync does not grow without end.
    pub group_bytes: usize,
    /// Recently written bytes kept in memory for reading.
    pub recent_bytes: usize,
    /// How long an append may wait until [`GroupCommit::end_overdue_waits`] gives it up.
    pub settle_limit: Duration,
}

impl Default for GroupOptions {
    fn default() -> Self {
        Self {
            max_waiting_bytes: 48 << 20,
            group_bytes: 4 << 20,
            recent_bytes: 32 << 20,
            settle_limit: Duration::from_secs(10),
        }
    }
}

type Listener = Arc<dyn Fn() + Send + Sync>;

/// Group commit over any [`Journal`]. See the module.
pub struct GroupCommit {
    journal: Box<dyn Journal>,
    options: GroupOptions,
    /// The largest batch, with what it adds to a frame beside its records.
    max_batch_bytes: u64,
    /// Of the journal.
    is_local: bool,
    /// Larger groups are left to the committing thread: of late, commits took long.
    most_batches_here: AtomicU32,
    /// Batches, for the next group.
    worth_gathering: AtomicU32,
    opened: Opened,
    salt: u64,
    /// Its lock makes commits one at a time.
    committing: Mutex<Committing>,
    gather: Mutex<Gather>,
    /// With `gather`: something gathered, or the committer is to stop.
    gathered: Condvar,
    /// Number of the last committed group. Stored with Release after the sync, loaded with
    /// Acquire in `outcome`: who sees its number sees everything before it committed.
    committed: AtomicU64,
    /// `gather` knows the group of this number, and so all before it, as awaited. Stored under its
    /// lock, with Release, and loaded with Acquire: who sees a number need not take that lock
    /// again.
    awaited: AtomicU64,
    /// Clients wait no longer for groups up to this number. Stored with Release before the
    /// listeners are called, loaded with Acquire in `outcome_in_time`.
    overdue: AtomicU64,
    has_ended: AtomicBool,
    end: Mutex<Option<Unavailable>>,
    /// Threads that commit.
    committers: Mutex<u32>,
    /// With `committers`: one has ended.
    left: Condvar,
    has_threads: AtomicBool,
    preparing: Background,
    reading: Background,
    listeners: RwLock<Arc<Vec<Listener>>>,
    counters: Counters,
}

impl GroupCommit {
    #[must_use]
    pub fn new(journal: Box<dyn Journal>, mut options: GroupOptions) -> Arc<Self> {
        let opened = journal.opened();
        let placement = journal.placement();
        // So that whatever waits fits into one fresh segment: see `admit`.
        let limit = u64::from(placement.data_bytes());
        options.max_waiting_bytes = options.max_waiting_bytes.min(limit);
        let max_frame_bytes = u64::from(journal.max_frame_bytes()).min(limit);
        // A larger group has one batch only, which is bounded by its reservation.
        let group_bytes = max_frame_bytes.saturating_sub(BATCH_OVERHEAD_BYTES) as usize;
        options.group_bytes = options.group_bytes.min(group_bytes);
        Arc::new(Self {
            max_batch_bytes: options.max_waiting_bytes.min(max_frame_bytes),
            options,
            is_local: journal.is_local(),
            most_batches_here: AtomicU32::new(u32::MAX),
            worth_gathering: AtomicU32::new(0),
            opened,
            salt: journal.salt(),
            committing: Mutex::new(Committing { chain: journal.chain(), pace: Pace::default() }),
            gather: Mutex::new(Gather::new(placement, opened.tail)),
            gathered: Condvar::new(),
            committed: AtomicU64::new(0),
            awaited: AtomicU64::new(0),
            overdue: AtomicU64::new(0),
            has_ended: AtomicBool::new(false),
            end: Mutex::new(None),
            committers: Mutex::new(0),
            left: Condvar::new(),
            has_threads: AtomicBool::new(false),
            preparing: Background::default(),
            reading: Background::default(),
            listeners: RwLock::new(Arc::new(Vec::new())),
            counters: Counters::default(),
            journal,
        })
    }

    /// What opening the journal found and started.
    #[must_use]
    pub fn opened(&self) -> Opened {
        self.opened
    }

    /// The first place that nothing has been appended to yet.
    #[must_use]
    pub fn tail(&self) -> Position {
        self.lock_gather().tail()
    }

    /// The ticket of everything appended so far: when it is committed, all of that is.
    #[must_use]
    pub fn latest(&self) -> Ticket {
        Ticket(self.lock_gather().latest())
    }

    /// None: not settled yet. Lock-free unless the journal takes no more changes.
    #[must_use]
    pub fn outcome(&self, ticket: Ticket) -> Option<Result<(), Unavailable>> {
        if self.committed.load(Ordering::Acquire) >= ticket.0 {
            return Some(Ok(()));
        }
        if !self.has_ended.load(Ordering::Acquire) {
            return None;
        }
        // Nothing is committed after the end, but something may have been between the two loads.
        if self.committed.load(Ordering::Acquire) >= ticket.0 {
            return Some(Ok(()));
        }
        Some(Err(self.ended().unwrap_or(Unavailable::Closed)))
    }

    /// The listener is called by whoever commits, after each commit, when the journal takes no more
    /// changes, and when waits are overdue.
    pub fn on_commit(&self, listener: Box<dyn Fn() + Send + Sync>) {
        let mut listeners = self.listeners.write().unwrap_or_else(PoisonError::into_inner);
        let mut longer = Vec::clone(&listeners);
        longer.push(Arc::from(listener));
        *listeners = Arc::new(longer);
    }

    /// Why changes are refused for good, if they are: after `Poisoned` the process is to be
    /// restarted, after `Fenced` and `NotSettled` this is to be dropped and may be opened anew.
    #[must_use]
    pub fn ended(&self) -> Option<Unavailable> {
        if self.has_ended.load(Ordering::Acquire) { lock(&self.end).clone() } else { None }
    }

    /// Reads one record: from the group that gathers or is being written, from those written
    /// recently (no copy), else from the journal.
    pub fn read(&self, position: Position, record_len: u32) -> Result<RecordBytes, ReadError> {
        let recent = self.lock_gather().find(position, record_len);
        self.finish_read(position, record_len, recent)
    }

    /// Reads several records in the order asked for, with one lock.
    pub fn read_many(
        &self,
        wanted: &[(Position, u32)],
        records: &mut Vec<RecordBytes>,
    ) -> Result<(), ReadError> {
        let mut found: [Option<Bytes>; 16] = Default::default();
        for chunk in wanted.chunks(found.len()) {
            let gather = self.lock_gather();
            for (slot, (position, record_len)) in found.iter_mut().zip(chunk) {
                *slot = gather.find(*position, *record_len);
            }
            drop(gather);
            for (slot, (position, record_len)) in found.iter_mut().zip(chunk) {
                records.push(self.finish_read(*position, *record_len, slot.take())?);
            }
        }
        Ok(())
    }

    /// Oldest first; the last is the active one.
    #[must_use]
    pub fn segments(&self) -> Vec<SegmentInfo> {
        self.journal.segments()
    }

    /// What is committed now, everything acknowledged included, to be copied while appends go on.
    /// None if the journal keeps no files.
    #[must_use]
    pub fn pin(&self) -> Option<Pinned> {
        self.journal.pin()
    }

    /// All committed records of a segment in order, without their payloads, until the visitor
    /// breaks off.
    pub fn replay_segment(
        &self,
        segment: SegmentId,
        visitor: &mut Visitor<'_>,
    ) -> Result<(), ReadError> {
        self.journal.replay_segment(segment, visitor)
    }

    /// Forgets all segments before this one, which is at most the active one.
    pub fn truncate_before(&self, segment: SegmentId) -> Result<(), TruncateError> {
        self.journal.truncate_before(segment)?;
        self.preparing.wake();
        Ok(())
    }

    #[must_use]
    pub fn stats(&self) -> Stats {
        let waiting_bytes = self.lock_gather().waiting_bytes;
        let (oldest_unsettled, last_settled) = (self.oldest_unsettled(), self.last_settled());
        let stats = self.counters.read(&*self.journal, self.ended());
        Stats { waiting_bytes, oldest_unsettled, last_settled, ..stats }
    }

    /// Refuses what has no reservation, commits what gathered, ends the threads and does what
    /// the next start would have to make up for. What is reserved but not appended yet is still
    /// taken by a later `commit_step`.
    pub fn close(&self) {
        self.lock_gather().is_closed = true;
        self.gathered.notify_all();
        let mut committers = lock(&self.committers);
        while *committers > 0 {
            committers = self.left.wait(committers).unwrap_or_else(PoisonError::into_inner);
        }
        drop(committers);
        while self.commit_step() {}
        self.has_threads.store(false, Ordering::Relaxed);
        self.preparing.stop();
        self.reading.stop();
        self.journal.finish();
    }
}

impl GroupCommit {
    fn finish_read(
        &self,
        position: Position,
        record_len: u32,
        recent: Option<Bytes>,
    ) -> Result<RecordBytes, ReadError> {
        if let Some(bytes) = recent {
            return RecordBytes::trust(bytes).ok_or(ReadError::Damaged(position));
        }
        let read = self.journal.read(position, record_len)?;
        if self.journal.wants_read_ahead() {
            self.reading.wake();
        }
        if let Some(record) = RecordBytes::verify(read) {
            return Ok(record);
        }
        // Memory or the way to it may have been at fault, not the disk.
        let anew = self.journal.read_anew(position, record_len)?;
        RecordBytes::verify(anew).ok_or(ReadError::Damaged(position))
    }

    fn lock_gather(&self) -> MutexGuard<'_, Gather> {
        lock(&self.gather)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
