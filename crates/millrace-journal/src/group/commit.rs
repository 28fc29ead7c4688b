//! The committing side: one frame at a time, and the threads that do it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::gather::{Gather, Group};
use super::priority::Priority;
use super::{GroupCommit, lock};
use crate::error::{AppendError, Unavailable};
use crate::frame::{Chain, Frame, FrameKind};

/// Groups that one call of [`GroupCommit::commit_here`] commits at most.
const ROUNDS_HERE: usize = 4;

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
        self.commit_group().is_some()
    }

    /// Commits what has gathered on the calling thread, if the journal is quick: sooner than
    /// waking another thread. What takes longer is left to the committing thread: the start of a
    /// segment, large groups, what others go on appending; as is everything on other journals.
    pub fn commit_here(&self) {
        if !self.is_quick {
            return;
        }
        for _ in 0..ROUNDS_HERE {
            let chain = match self.committer.try_lock() {
                Ok(chain) => chain,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                // Whoever commits looks again after that for what has gathered meanwhile.
                Err(TryLockError::WouldBlock) => return,
            };
            if self.commit(chain, Gather::take_quick).is_none() {
                break;
            }
        }
        let mut gather = self.lock_gather();
        let is_due = !gather.is_empty() && std::mem::take(&mut gather.committer_is_asleep);
        drop(gather);
        if is_due {
            self.gathered.notify_one();
        }
    }

    /// The same as [`GroupCommit::commit_step`]; how many records were in the group.
    fn commit_group(&self) -> Option<u32> {
        self.commit(lock(&self.committer), Gather::take)
    }

    fn commit(
        &self,
        mut chain: MutexGuard<'_, Chain>,
        take: fn(&mut Gather) -> Option<Group>,
    ) -> Option<u32> {
        if self.is_poisoned.load(Ordering::Acquire) {
            return None;
        }
        let group = take(&mut self.lock_gather())?;
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
        Some(group.records)
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
        let mut priority = Priority::new();
        loop {
            while let Some(records) = self.commit_group() {
                priority.observe(records);
            }
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

    pub(super) fn wake_background(&self) {
        lock(&self.background_wanted).is_wanted = true;
        self.background.notify_one();
    }
}

struct LeaveOnDrop<'a>(&'a GroupCommit);

impl Drop for LeaveOnDrop<'_> {
    fn drop(&mut self) {
        lock(&self.0.settling).committers -= 1;
        self.0.settled.notify_all();
    }
}
