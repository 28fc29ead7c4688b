//! Deadlines of queues and long polls, in one ordered set, and the thread that meets them. With
//! nothing due it sleeps; there is no tick.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use millrace_core::{QueueId, Timestamp};

use crate::waiter::Waiter;

/// What is due.
#[derive(Debug)]
pub(crate) enum Due {
    /// Delays, visibility timeouts or retention of a queue.
    Queue(QueueId),
    /// The wait time of a long poll.
    Waiter(Arc<Waiter>),
}

/// Key of an entry: deadline, kind, id.
pub(crate) type TimerKey = (u64, u8, u64);

#[derive(Debug, Default)]
pub(crate) struct Timers {
    set: Mutex<Set>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Set {
    due: BTreeMap<TimerKey, Due>,
    next_waiter: u64,
    is_closed: bool,
    /// The clock was moved: what is due must be looked up again.
    is_poked: bool,
}

impl Timers {
    /// A visit to the queue at that time, instead of the one at `instead_of`.
    pub(crate) fn arm_queue(&self, queue: QueueId, at: Timestamp, instead_of: Timestamp) {
        let mut set = self.set();
        set.due.remove(&(instead_of.0, 0, queue.0));
        self.insert(set, (at.0, 0, queue.0), Due::Queue(queue));
    }

    /// Takes back the visit to the queue at that time.
    pub(crate) fn disarm_queue(&self, queue: QueueId, at: Timestamp) {
        self.disarm((at.0, 0, queue.0));
    }

    /// A wake of the waiter at that time, to be taken back with [`Timers::disarm`].
    pub(crate) fn arm_waiter(&self, waiter: Arc<Waiter>, at: Timestamp) -> TimerKey {
        let mut set = self.set();
        set.next_waiter += 1;
        let key = (at.0, 1, set.next_waiter);
        self.insert(set, key, Due::Waiter(waiter));
        key
    }

    pub(crate) fn disarm(&self, key: TimerKey) {
        self.set().due.remove(&key);
    }

    /// The next entry that is due by `now`, taken out.
    pub(crate) fn pop(&self, now: Timestamp) -> Option<Due> {
        let mut set = self.set();
        let first = set.due.first_entry()?;
        (first.key().0 <= now.0).then(|| first.remove())
    }

    /// When the next entry is due.
    pub(crate) fn next(&self) -> Timestamp {
        self.set().due.first_key_value().map_or(Timestamp::NEVER, |(key, _)| Timestamp(key.0))
    }

    /// Sleeps until something may be due; `now` tells the time. False: closed.
    pub(crate) fn sleep(&self, now: impl Fn() -> Timestamp) -> bool {
        let mut set = self.set();
        loop {
            if set.is_closed {
                return false;
            }
            if std::mem::take(&mut set.is_poked) {
                return true;
            }
            let Some((key, _)) = set.due.first_key_value() else {
                set = self.changed.wait(set).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left_ms = Timestamp(key.0).millis_since(now());
            if left_ms == 0 {
                return true;
            }
            let left = std::time::Duration::from_millis(left_ms);
            set = self.changed.wait_timeout(set, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Makes the sleeper look at the clock again.
    pub(crate) fn poke(&self) {
        self.set().is_poked = true;
        self.changed.notify_all();
    }

    pub(crate) fn close(&self) {
        self.set().is_closed = true;
        self.changed.notify_all();
    }

    fn insert(&self, mut set: MutexGuard<'_, Set>, key: TimerKey, due: Due) {
        let is_first = set.due.first_key_value().is_none_or(|(first, _)| key < *first);
        set.due.insert(key, due);
        drop(set);
        if is_first {
            self.changed.notify_one();
        }
    }

    fn set(&self) -> MutexGuard<'_, Set> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
