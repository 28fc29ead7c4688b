//! The committing side: one frame at a time, and the threads that do it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::gather::{CommittingThread, Gather, Group};
use super::pace::{ENOUGH_BYTES, Pace, worth_gathering};
use super::patience::Patience;
use super::priority::{Priority, give_way, wake_on_time};
use super::{GroupCommit, lock};
use crate::error::{AppendError, Unavailable};
use crate::frame::{Chain, Frame, FrameKind};

/// What nobody waits for is committed with what follows, or after so long; never after more than
/// twice that.
const LINGER: Duration = Duration::from_millis(5);

/// What a commit was like.
struct Committed {
    records: u32,
    batches: u32,
    /// Batches that came meanwhile.
    gathered: u32,
    /// How long commits take.
    pace: Pace,
}

/// What only the one who commits touches.
pub(super) struct Committing {
    /// The chain behind the last committed frame.
    pub(super) chain: Chain,
    pub(super) pace: Pace,
}

impl GroupCommit {
    /// Starts the threads "journal-commit", whose handle is returned, "journal-prepare" and
    /// "journal-read". They hold the group commit until `close`.
    pub fn spawn_committer(self: &Arc<Self>) -> std::io::Result<JoinHandle<()>> {
        let this = Arc::clone(self);
        let prepare = std::thread::Builder::new().name("journal-prepare".into());
        self.preparing.started(prepare.spawn(move || {
            give_way();
            this.preparing.run(|| this.background_step());
        })?);
        let this = Arc::clone(self);
        let read = std::thread::Builder::new().name("journal-read".into());
        self.reading.started(read.spawn(move || this.reading.run(|| this.read_ahead_step()))?);
        self.has_threads.store(true, Ordering::Relaxed);
        *lock(&self.committers) += 1;
        let this = Arc::clone(self);
        let spawned = std::thread::Builder::new().name("journal-commit".into()).spawn(move || {
            // Also when unwinding, so that `close` does not wait for ever.
            let _leave = LeaveOnDrop(&this);
            this.run_committer();
        });
        if spawned.is_err() {
            *lock(&self.committers) -= 1;
        }
        spawned
    }

    /// Takes what has gathered, writes it as one frame and settles it. False if there was nothing
    /// to do, or nothing may be done any more.
    pub fn commit_step(&self) -> bool {
        self.commit(lock(&self.committing), Gather::take).is_some()
    }

    /// Commits what is due on the calling thread: sooner than waking another. What takes longer is
    /// left to the committing thread: everything while the disk is slow, groups of several unless
    /// commits are very quick, the start of a segment, large groups, what that thread waits for.
    /// False if somebody else is committing: call again after that commit, or call
    /// [`GroupCommit::commit_elsewhere`].
    #[must_use]
    pub fn commit_here(&self) -> bool {
        let gather = self.lock_gather();
        let most = self.most_batches_here.load(Ordering::Relaxed);
        let is_waited_for = gather.committing_thread == CommittingThread::Patient;
        let is_for_here = self.is_local && !is_waited_for && gather.batches() <= most;
        // A batch that did not fit where the gathering group stood has closed it: two groups then.
        let latest = gather.latest();
        drop(gather);
        if !is_for_here {
            self.commit_elsewhere();
            return true;
        }
        while self.committed.load(Ordering::Acquire) < latest {
            let committing = match self.committing.try_lock() {
                Ok(committing) => committing,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => return false,
            };
            if self.commit(committing, Gather::take_quick).is_none() {
                self.commit_elsewhere();
                break;
            }
        }
        // What gathered meanwhile is for those who appended it.
        true
    }

    /// Has the committing thread commit what is due.
    pub fn commit_elsewhere(&self) {
        let mut gather = self.lock_gather();
        let must_wake = gather.must_wake();
        drop(gather);
        if must_wake {
            self.gathered.notify_one();
        }
    }

    /// Whether a commit is better put off until the calling thread has looked for further requests:
    /// more has gathered than it saw last time, and less than is worth a commit.
    pub fn is_gathering(&self, seen: &mut u32) -> bool {
        let worth = self.worth_gathering.load(Ordering::Relaxed);
        if worth <= 1 || !self.is_local {
            return false;
        }
        let gather = self.lock_gather();
        let (batches, bytes) = (gather.batches(), gather.bytes());
        drop(gather);
        let has_grown = batches > *seen;
        *seen = batches;
        has_grown && batches < worth && bytes < ENOUGH_BYTES
    }

    fn commit(
        &self,
        mut committing: MutexGuard<'_, Committing>,
        take: impl FnOnce(&mut Gather) -> Option<Group>,
    ) -> Option<Committed> {
        if self.has_ended.load(Ordering::Acquire) {
            return None;
        }
        let group = take(&mut self.lock_gather())?;
        let mut header = committing.chain.next(FrameKind::Data, group.base, self.journal.prior());
        header.records = group.records;
        let frame = Frame::seal(header, group.body.clone(), self.salt);
        let started = self.journal.now();
        let appended = self.journal.append(&frame);
        let took = self.journal.now().saturating_sub(started);
        let mut gathered = 0;
        match appended {
            Ok(()) => {
                committing.chain = frame.chain();
                committing.pace.observe(took, group.body.len());
                let most = committing.pace.most_batches_here();
                self.most_batches_here.store(most, Ordering::Relaxed);
                gathered = self.settle(&group, started, took);
            }
            Err(error) => self.set_end(error),
        }
        let pace = committing.pace;
        drop(committing);
        self.tell();
        if self.journal.has_background_work() {
            self.preparing.wake();
        }
        let Group { records, batches, .. } = group;
        Some(Committed { records, batches, gathered, pace })
    }

    /// Does one piece of the journal's background work. If the journal has failed, nothing is taken
    /// any more, and everybody is told.
    pub fn background_step(&self) -> bool {
        let is_done = self.journal.background_step();
        if let Some(reason) = self.journal.failure()
            && !self.has_ended.load(Ordering::Acquire)
        {
            self.set_end(AppendError::Unavailable(reason));
            self.tell();
        }
        is_done
    }

    /// Reads something of the journal before it is asked for; false if nothing is expected to be.
    pub fn read_ahead_step(&self) -> bool {
        !self.lock_gather().is_closed && self.journal.read_ahead()
    }

    /// Returns how many batches gathered meanwhile.
    fn settle(&self, group: &Group, started: Duration, took: Duration) -> u32 {
        let mut gather = self.lock_gather();
        gather.settle(group, started + took, self.options.recent_bytes);
        let gathered = gather.batches();
        drop(gather);
        let worth = worth_gathering(group.batches, gathered);
        self.worth_gathering.store(worth, Ordering::Relaxed);
        self.counters.record(group.records, group.body.len(), took);
        self.committed.store(group.number, Ordering::Release);
        gathered
    }

    fn set_end(&self, error: AppendError) {
        let reason = match error {
            AppendError::Fenced(epoch) => Unavailable::Fenced(epoch),
            AppendError::NotSettled(reason) => Unavailable::NotSettled(reason),
            AppendError::Unknown(reason) | AppendError::Unavailable(reason) => {
                Unavailable::Poisoned(reason)
            }
        };
        if reason.needs_restart() {
            tracing::error!(%reason, "journal takes no more changes until the process is restarted");
        } else {
            tracing::warn!(%reason, "journal takes no more changes until it is opened anew");
        }
        *lock(&self.end) = Some(reason);
        self.has_ended.store(true, Ordering::Release);
    }

    /// Calls the listeners.
    pub(super) fn tell(&self) {
        let listeners = Arc::clone(&self.listeners.read().unwrap_or_else(PoisonError::into_inner));
        for listener in listeners.iter() {
            listener();
        }
    }

    fn run_committer(&self) {
        let mut priority = Priority::new();
        let mut patience = Patience::default();
        wake_on_time();
        loop {
            while let Some(committed) = self.commit(lock(&self.committing), Gather::take_due) {
                priority.observe(committed.records);
                self.wait_for_answered(&committed, &mut patience);
            }
            if !self.sleep_until_due() {
                return;
            }
        }
    }

    /// Lets the next group gather, at most for as long as its commit will take.
    fn wait_for_answered(&self, committed: &Committed, patience: &mut Patience) {
        let most_here = self.most_batches_here.load(Ordering::Relaxed);
        let Committed { batches, gathered, pace, .. } = *committed;
        let few = pace.few_batches();
        let wanted = patience.wanted(batches, gathered, most_here, few);
        let mut gather = self.lock_gather();
        gather.wanted = wanted;
        gather.enough_bytes = pace.enough_bytes();
        if gather.is_enough() {
            return;
        }
        let began = Instant::now();
        while !gather.is_enough()
            && let Some(left) = pace.usual().checked_sub(began.elapsed())
        {
            gather.committing_thread = CommittingThread::Patient;
            let waited = self.gathered.wait_timeout(gather, left);
            gather = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        gather.committing_thread = CommittingThread::Awake;
        let came = if gather.is_enough() { wanted } else { gather.batches() };
        patience.waited(wanted, came, pace.is_long(began.elapsed()), few);
    }

    /// False if there is nothing to wait for any more.
    fn sleep_until_due(&self) -> bool {
        let mut gather = self.lock_gather();
        loop {
            let is_due = gather.is_due() && !self.has_ended.load(Ordering::Acquire);
            if is_due || gather.is_closed {
                gather.committing_thread = CommittingThread::Awake;
                return is_due;
            }
            if gather.is_empty() || self.has_ended.load(Ordering::Acquire) {
                gather.committing_thread = CommittingThread::Asleep;
                gather = self.gathered.wait(gather).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            gather.committing_thread = CommittingThread::Lingering;
            let number = gather.number();
            let waited = self.gathered.wait_timeout(gather, LINGER);
            let (lingered, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            gather = lingered;
            if timeout.timed_out() && gather.number() == number {
                gather.set_awaited(number);
            }
        }
    }
}

struct LeaveOnDrop<'a>(&'a GroupCommit);

impl Drop for LeaveOnDrop<'_> {
    fn drop(&mut self) {
        *lock(&self.0.committers) -= 1;
        self.0.left.notify_all();
    }
}
