//! Deadlines without timers: one coarse clock per worker, and a sweep that wakes who is late.
//!
//! Setting a deadline is one store to memory, so a request costs no timer. Deadlines are as precise
//! as the sweep is frequent. Everything here is used by one thread, the worker's; atomics and
//! locks only make that safe to write down.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    task::Waker,
    time::{Duration, Instant},
};

/// The time of one worker and the deadlines of its connections.
#[derive(Debug)]
pub(crate) struct Clock {
    started: Instant,
    now_ms: AtomicU64,
    next_id: AtomicU64,
    deadlines: Mutex<HashMap<u64, Arc<State>>>,
}

/// The one deadline of one connection; forgotten when dropped.
#[derive(Debug)]
pub(crate) struct Deadline {
    clock: Arc<Clock>,
    id: u64,
    state: Arc<State>,
}

/// Wakes the task of one connection before its deadline.
#[derive(Debug)]
pub(crate) struct Alarm(Arc<State>);

#[derive(Debug)]
struct State {
    /// `u64::MAX` means none.
    at_ms: AtomicU64,
    /// Set since the last sweep: there was something to do on the connection.
    was_set: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Clock {
    pub(crate) fn new() -> Arc<Clock> {
        Arc::new(Clock {
            started: Instant::now(),
            now_ms: AtomicU64::new(0),
            next_id: AtomicU64::new(0),
            deadlines: Mutex::default(),
        })
    }

    /// A deadline that is not set.
    pub(crate) fn deadline(self: &Arc<Clock>) -> Deadline {
        let id = self.next_id.fetch_add(1, Relaxed);
        let state = Arc::new(State {
            at_ms: AtomicU64::new(u64::MAX),
            was_set: AtomicBool::new(false),
            waker: Mutex::default(),
        });
        lock(&self.deadlines).insert(id, Arc::clone(&state));
        Deadline { clock: Arc::clone(self), id, state }
    }

    /// Moves the time on and wakes the connections whose deadline has passed. Returns how many had
    /// something to do since the last time.
    pub(crate) fn sweep(&self) -> usize {
        let now_ms = millis(self.started.elapsed());
        self.now_ms.store(now_ms, Relaxed);
        self.wake(now_ms);
        let deadlines = lock(&self.deadlines);
        deadlines.values().filter(|state| state.was_set.swap(false, Relaxed)).count()
    }

    /// Wakes all connections, so that they look at the drain signal.
    pub(crate) fn wake_all(&self) {
        self.wake(u64::MAX);
    }

    fn wake(&self, until_ms: u64) {
        for state in lock(&self.deadlines).values() {
            if state.at_ms.load(Relaxed) <= until_ms
                && let Some(waker) = lock(&state.waker).as_ref()
            {
                waker.wake_by_ref();
            }
        }
    }
}

impl Deadline {
    /// The worker's time in milliseconds, as of the last sweep.
    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.now_ms.load(Relaxed)
    }

    pub(crate) fn set_after(&self, duration: Duration) {
        self.set_at_ms(self.now_ms().saturating_add(millis(duration)));
    }

    pub(crate) fn set_at_ms(&self, at_ms: u64) {
        self.state.at_ms.store(at_ms, Relaxed);
        self.state.was_set.store(true, Relaxed);
    }

    pub(crate) fn clear(&self) {
        self.set_at_ms(u64::MAX);
    }

    pub(crate) fn has_passed(&self) -> bool {
        self.state.at_ms.load(Relaxed) <= self.now_ms()
    }

    /// Says whom to wake. To be called before returning `Pending`.
    pub(crate) fn register(&self, waker: &Waker) {
        let mut registered = lock(&self.state.waker);
        if !registered.as_ref().is_some_and(|registered| registered.will_wake(waker)) {
            *registered = Some(waker.clone());
        }
    }
}

impl Deadline {
    pub(crate) fn alarm(&self) -> Alarm {
        Alarm(Arc::clone(&self.state))
    }
}

impl Alarm {
    pub(crate) fn wake(&self) {
        if let Some(waker) = lock(&self.0.waker).as_ref() {
            waker.wake_by_ref();
        }
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        lock(&self.clock.deadlines).remove(&self.id);
    }
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// What these locks guard is valid whenever they are free, so a panic elsewhere does not matter.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_tells_how_many_connections_had_something_to_do() {
        let clock = Clock::new();
        let (busy, idle, gone) = (clock.deadline(), clock.deadline(), clock.deadline());
        busy.set_after(Duration::from_secs(1));
        busy.clear();
        gone.clear();
        drop(gone);

        assert_eq!(clock.sweep(), 1);
        assert_eq!(clock.sweep(), 0);
        idle.set_after(Duration::from_secs(1));
        assert_eq!(clock.sweep(), 1);
    }
}
