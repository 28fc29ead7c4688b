//! Group commit: many appenders, one frame and one sync at a time.
//!
//! ```text
//!  appenders ──lock──▶ gathering ──swap──▶ being written ──sync──▶ committed
//!                      (grows)             (fixed)                 (recent, then disk only)
//! ```
//! Naturally batched: the committer takes what has gathered, writes it as one frame, syncs, tells
//! the waiters, and takes at once what gathered meanwhile. No timer, no fixed delay: a lone
//! appender waits for one sync, a thousand wait for two at most.
//!
//! Bounded: bytes that wait for their commit, by [`GroupOptions::max_waiting_bytes`] (callers are
//! refused with `Backlog` beyond it); recently written bytes, by
//! [`GroupOptions::recent_bytes`].
//!
//! Locks, in their order: `committer` (held over write and sync, by whoever commits), then
//! `gather` (microseconds), then `settled` or `background` (to wake). Listeners are called with
//! none of them held.

mod gather;
mod stats;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;

use crate::error::{AppendError, ReadError, TruncateError, Unavailable};
use crate::frame::{Chain, FRAME_ALIGN, FRAME_HEADER_BYTES, Frame, FrameKind};
use crate::journal::{Journal, SegmentInfo, Visitor};
use crate::position::{Opened, Position, Purpose, SegmentId, Ticket};
use crate::record::{Record, RecordBytes};
use gather::{Gather, Group};
use stats::Counters;
pub use stats::{SYNC_BUCKETS, Stats};

/// What a batch can add to a frame beside its records.
const BATCH_OVERHEAD_BYTES: u64 = (FRAME_HEADER_BYTES + FRAME_ALIGN) as u64;

/// Bounds of a group commit.
#[derive(Clone, Copy, Debug)]
pub struct GroupOptions {
    /// Reserved and appended bytes that may wait for their commit. Never more than a segment.
    pub max_waiting_bytes: u64,
    /// A group takes no further batch past this, so that one sync does not grow without end.
    pub group_bytes: usize,
    /// Recently written bytes kept in memory for reading.
    pub recent_bytes: usize,
}

impl Default for GroupOptions {
    fn default() -> Self {
        Self { max_waiting_bytes: 48 << 20, group_bytes: 4 << 20, recent_bytes: 32 << 20 }
    }
}

type Listener = Arc<dyn Fn() + Send + Sync>;

/// Group commit over any [`Journal`]. See the module.
pub struct GroupCommit {
    journal: Box<dyn Journal>,
    options: GroupOptions,
    opened: Opened,
    salt: u64,
    /// The chain behind the last committed frame. Its lock makes commits one at a time.
    committer: Mutex<Chain>,
    gather: Mutex<Gather>,
    /// With `gather`: something gathered, or the committer is to stop.
    gathered: Condvar,
    /// Number of the last committed group. Stored with Release after the sync, loaded with
    /// Acquire in `outcome`: who sees its number sees everything before it committed.
    committed: AtomicU64,
    is_poisoned: AtomicBool,
    poison: Mutex<Option<Unavailable>>,
    /// With `settling`: for those who block in `wait` or `close`.
    settled: Condvar,
    settling: Mutex<Threads>,
    has_threads: AtomicBool,
    background: Condvar,
    background_wanted: Mutex<BackgroundState>,
    background_thread: Mutex<Option<JoinHandle<()>>>,
    listeners: RwLock<Arc<Vec<Listener>>>,
    counters: Counters,
}

#[derive(Default)]
struct Threads {
    committers: u32,
}

#[derive(Default)]
struct BackgroundState {
    is_wanted: bool,
    is_stopping: bool,
}

/// Space that is promised to one append. Dropped unused, it gives the space back.
#[must_use]
pub struct Reservation {
    group_commit: Arc<GroupCommit>,
    bytes: u64,
}

impl GroupCommit {
    #[must_use]
    pub fn new(journal: Box<dyn Journal>, mut options: GroupOptions) -> Arc<Self> {
        let opened = journal.opened();
        let placement = journal.placement();
        // So that whatever waits fits into one fresh segment: see `admit`.
        let limit = u64::from(placement.max_frame_bytes());
        options.max_waiting_bytes = options.max_waiting_bytes.min(limit);
        options.group_bytes = options.group_bytes.min(limit as usize);
        Arc::new(Self {
            options,
            opened,
            salt: journal.salt(),
            committer: Mutex::new(journal.chain()),
            gather: Mutex::new(Gather::new(placement, opened.tail)),
            gathered: Condvar::new(),
            committed: AtomicU64::new(0),
            is_poisoned: AtomicBool::new(false),
            poison: Mutex::new(None),
            settled: Condvar::new(),
            settling: Mutex::new(Threads::default()),
            has_threads: AtomicBool::new(false),
            background: Condvar::new(),
            background_wanted: Mutex::new(BackgroundState::default()),
            background_thread: Mutex::new(None),
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
        let gather = self.lock_gather();
        Ticket(if gather.is_gathering() { gather.number() } else { gather.number() - 1 })
    }

    /// Asks for room for one batch. `bytes` is the sum of [`Record::encoded_bytes`], or more.
    /// Once granted, the append cannot fail for lack of space.
    pub fn reserve(
        self: &Arc<Self>,
        bytes: usize,
        purpose: Purpose,
    ) -> Result<Reservation, Unavailable> {
        let bytes = bytes as u64 + BATCH_OVERHEAD_BYTES;
        if bytes > self.options.max_waiting_bytes {
            let limit_bytes = self.options.max_waiting_bytes - BATCH_OVERHEAD_BYTES;
            return Err(Unavailable::TooLarge { bytes: bytes - BATCH_OVERHEAD_BYTES, limit_bytes });
        }
        let mut refusal = None;
        while let Some(missing) = self.admit(bytes, purpose, refusal.is_some())? {
            if let Some(refusal) = refusal {
                return Err(refusal);
            }
            refusal = self.journal.prepare(missing).err();
        }
        Ok(Reservation { group_commit: Arc::clone(self), bytes })
    }

    /// Appends one atomic batch: all its records are in one frame. Pushes their final positions.
    /// Asserts that the batch keeps to its reservation and is not empty.
    pub fn append(
        &self,
        reservation: Reservation,
        records: &[Record<'_>],
        positions: &mut Vec<Position>,
    ) -> Ticket {
        assert!(!records.is_empty(), "empty batch");
        let bytes: usize = records.iter().map(Record::encoded_bytes).sum();
        let reserved = reservation.release();
        assert!(bytes as u64 + BATCH_OVERHEAD_BYTES <= reserved, "batch exceeds its reservation");
        // Checksums before the lock; a longer batch pays for the rest inside.
        let mut headers = [[0; crate::record::RECORD_HEADER_BYTES]; 16];
        for (header, record) in headers.iter_mut().zip(records) {
            *header = record.header();
        }

        let mut gather = self.lock_gather();
        gather.make_room(bytes, self.options.group_bytes);
        for (number, record) in records.iter().enumerate() {
            let header = headers.get(number).copied().unwrap_or_else(|| record.header());
            positions.push(gather.push(record, &header));
        }
        gather.reserved_bytes -= reserved;
        let ticket = Ticket(gather.number());
        let is_asleep = std::mem::take(&mut gather.committer_is_asleep);
        drop(gather);
        if is_asleep {
            self.gathered.notify_one();
        }
        ticket
    }

    /// None: not settled yet. Lock-free unless the journal is poisoned.
    #[must_use]
    pub fn outcome(&self, ticket: Ticket) -> Option<Result<(), Unavailable>> {
        if self.committed.load(Ordering::Acquire) >= ticket.0 {
            return Some(Ok(()));
        }
        if !self.is_poisoned.load(Ordering::Acquire) {
            return None;
        }
        // Poisoning is the committer's last word: no commit follows, but one may have come
        // between the two loads.
        if self.committed.load(Ordering::Acquire) >= ticket.0 {
            return Some(Ok(()));
        }
        Some(Err(self.poison().unwrap_or(Unavailable::Closed)))
    }

    /// Blocks until the ticket is settled. Somebody else must be committing.
    pub fn wait(&self, ticket: Ticket) -> Result<(), Unavailable> {
        let mut settling = lock(&self.settling);
        loop {
            if let Some(outcome) = self.outcome(ticket) {
                return outcome;
            }
            settling = self.settled.wait(settling).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The listener is called on the committing thread after each commit and after poisoning.
    pub fn on_commit(&self, listener: Box<dyn Fn() + Send + Sync>) {
        let mut listeners = self.listeners.write().unwrap_or_else(PoisonError::into_inner);
        let mut longer = Vec::clone(&listeners);
        longer.push(Arc::from(listener));
        *listeners = Arc::new(longer);
    }

    /// Why changes are refused for good, if they are.
    #[must_use]
    pub fn poison(&self) -> Option<Unavailable> {
        if self.is_poisoned.load(Ordering::Acquire) { lock(&self.poison).clone() } else { None }
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
        self.wake_background();
        Ok(())
    }

    /// Seals the active segment early, by placing an empty frame in the next. Does nothing if the
    /// active segment is still empty or no further segment can be had.
    pub fn roll(&self) {
        let next = self.lock_gather().tail().segment().next();
        if self.is_poisoned.load(Ordering::Acquire) || self.journal.prepare(next).is_err() {
            return;
        }
        let mut gather = self.lock_gather();
        if !self.journal.is_ready(gather.tail().segment().next()) || !gather.roll() {
            return;
        }
        gather.committer_is_asleep = false;
        drop(gather);
        self.gathered.notify_one();
    }

    #[must_use]
    pub fn stats(&self) -> Stats {
        let waiting_bytes = self.lock_gather().waiting_bytes;
        self.counters.read(waiting_bytes, self.journal.disk_bytes(), self.poison())
    }

    /// Refuses what has no reservation, commits what gathered, ends the threads and finishes the
    /// background work. What is reserved but not appended yet is still taken by a later
    /// `commit_step`.
    pub fn close(&self) {
        self.lock_gather().is_closed = true;
        self.gathered.notify_all();
        let mut settling = lock(&self.settling);
        while settling.committers > 0 {
            settling = self.settled.wait(settling).unwrap_or_else(PoisonError::into_inner);
        }
        drop(settling);
        while self.commit_step() {}
        self.has_threads.store(false, Ordering::Relaxed);
        lock(&self.background_wanted).is_stopping = true;
        self.background.notify_all();
        if let Some(thread) = lock(&self.background_thread).take()
            && thread.join().is_err()
        {
            tracing::error!("journal preparing thread panicked");
        }
        while self.journal.background_step() {}
    }
}

/// Committing.
impl GroupCommit {
    /// Starts the threads "journal-commit", whose handle is returned, and "journal-prepare". They
    /// hold the group commit until `close`.
    pub fn spawn_committer(self: &Arc<Self>) -> std::io::Result<JoinHandle<()>> {
        let this = Arc::clone(self);
        let background = std::thread::Builder::new()
            .name("journal-prepare".into())
            .spawn(move || this.run_background())?;
        *lock(&self.background_thread) = Some(background);
        self.has_threads.store(true, Ordering::Relaxed);
        lock(&self.settling).committers += 1;
        let this = Arc::clone(self);
        let spawned = std::thread::Builder::new().name("journal-commit".into()).spawn(move || {
            // Also when unwinding, so that `close` does not wait for ever.
            let _leave = LeaveOnDrop(&this);
            this.run_committer();
        });
        if spawned.is_err() {
            lock(&self.settling).committers -= 1;
        }
        spawned
    }

    /// Takes what has gathered, writes it as one frame and settles it. False if there was nothing
    /// to do, or nothing may be done any more.
    pub fn commit_step(&self) -> bool {
        let mut chain = lock(&self.committer);
        if self.is_poisoned.load(Ordering::Acquire) {
            return false;
        }
        let Some(group) = self.lock_gather().take() else { return false };
        let mut header = chain.next(FrameKind::Data, group.base, self.journal.prior());
        header.records = group.records;
        let frame = Frame::seal(header, group.body.clone(), self.salt);
        let started = self.journal.now();
        let appended = self.journal.append(&frame);
        let took = self.journal.now().saturating_sub(started);
        match appended {
            Ok(()) => {
                *chain = frame.chain();
                self.settle(&group, took);
            }
            Err(error) => self.set_poison(error),
        }
        drop(chain);
        self.tell();
        if self.journal.has_background_work() {
            self.wake_background();
        }
        true
    }

    /// Does one piece of the journal's background work, for callers without threads.
    pub fn background_step(&self) -> bool {
        self.journal.background_step()
    }

    fn settle(&self, group: &Group, took: Duration) {
        self.lock_gather().settle(group, self.options.recent_bytes);
        self.counters.record(group.records, group.body.len(), took);
        self.committed.store(group.number, Ordering::Release);
    }

    fn set_poison(&self, error: AppendError) {
        let reason = match error {
            AppendError::Fenced(epoch) => Unavailable::Fenced(epoch),
            AppendError::Unknown(reason) | AppendError::Unavailable(reason) => {
                Unavailable::Poisoned(reason)
            }
        };
        tracing::error!(%reason, "journal takes no more changes until it is opened anew");
        *lock(&self.poison) = Some(reason);
        self.is_poisoned.store(true, Ordering::Release);
    }

    /// Wakes those who wait. The empty lock orders the store before against a waiter that has
    /// looked and is about to sleep.
    fn tell(&self) {
        drop(lock(&self.settling));
        self.settled.notify_all();
        let listeners = Arc::clone(&self.listeners.read().unwrap_or_else(PoisonError::into_inner));
        for listener in listeners.iter() {
            listener();
        }
    }

    fn run_committer(&self) {
        loop {
            while self.commit_step() {}
            let mut gather = self.lock_gather();
            let is_poisoned = self.is_poisoned.load(Ordering::Acquire);
            while (is_poisoned || gather.is_empty()) && !gather.is_closed {
                gather.committer_is_asleep = true;
                gather = self.gathered.wait(gather).unwrap_or_else(PoisonError::into_inner);
            }
            gather.committer_is_asleep = false;
            if gather.is_closed && (is_poisoned || gather.is_empty()) {
                return;
            }
        }
    }

    fn run_background(&self) {
        loop {
            while self.journal.background_step() {}
            let mut state = lock(&self.background_wanted);
            while !state.is_wanted && !state.is_stopping {
                state = self.background.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            state.is_wanted = false;
            if state.is_stopping {
                return;
            }
        }
    }

    fn wake_background(&self) {
        lock(&self.background_wanted).is_wanted = true;
        self.background.notify_one();
    }
}

/// Admission.
impl GroupCommit {
    /// Grants `bytes`, or names the segment that has to be prepared first.
    ///
    /// The promise rests on two facts. If the segment behind the gathering one is ready, whatever
    /// is reserved crosses into it at most once and fits there whole, because all that waits is
    /// bounded by a segment. If not, nothing may cross, so the reserved bytes must fit behind what
    /// has gathered.
    fn admit(
        &self,
        bytes: u64,
        purpose: Purpose,
        is_refused: bool,
    ) -> Result<Option<SegmentId>, Unavailable> {
        if let Some(poison) = self.poison() {
            return Err(poison);
        }
        let mut gather = self.lock_gather();
        if gather.is_closed {
            return Err(Unavailable::Closed);
        }
        let waiting_bytes = gather.waiting_bytes + gather.reserved_bytes;
        let limit_bytes = self.options.max_waiting_bytes;
        if waiting_bytes + bytes > limit_bytes {
            return Err(Unavailable::Backlog { waiting_bytes, limit_bytes });
        }
        let next = gather.tail().segment().next();
        // While the thread is on its way to prepare the next segment, nobody waits for it, but
        // half of this one is kept for what frees space.
        let is_coming = self.has_threads.load(Ordering::Relaxed) && !self.journal.is_full();
        let may_use_rest = match purpose {
            Purpose::Store => is_coming && gather.fits_in_half(bytes),
            Purpose::Reclaim => (is_coming || is_refused) && gather.fits(bytes),
        };
        if self.journal.is_ready(next) || may_use_rest {
            gather.reserved_bytes += bytes;
            return Ok(None);
        }
        Ok(Some(next))
    }
}

impl GroupCommit {
    fn finish_read(
        &self,
        position: Position,
        record_len: u32,
        recent: Option<Bytes>,
    ) -> Result<RecordBytes, ReadError> {
        let record = match recent {
            Some(bytes) => RecordBytes::slice(&bytes),
            None => RecordBytes::verify(&self.journal.read(position, record_len)?),
        };
        record.ok_or(ReadError::Damaged(position))
    }

    fn lock_gather(&self) -> MutexGuard<'_, Gather> {
        lock(&self.gather)
    }
}

impl Reservation {
    /// Takes the bytes out, so that dropping gives nothing back.
    fn release(mut self) -> u64 {
        std::mem::take(&mut self.bytes)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.group_commit.lock_gather().reserved_bytes -= self.bytes;
        }
    }
}

struct LeaveOnDrop<'a>(&'a GroupCommit);

impl Drop for LeaveOnDrop<'_> {
    fn drop(&mut self) {
        lock(&self.0.settling).committers -= 1;
        self.0.settled.notify_all();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
