//! The work behind the requests: tasks, logs, and what queues held that are gone; and what
//! calls the thread that does it for all shards.

mod relocate;
mod remember;
mod shorten;

use std::any::Any;
use std::hint::black_box;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub(crate) use shorten::Truncation;

/// Deletes come by the thousand; what they free is looked at this often.
pub(crate) const PAUSE: Duration = Duration::from_secs(1);
/// Receives and other changes that free nothing make the log longer without telling.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The allocator gives memory back to the system within a second after it was freed, all at once,
/// on the thread that next asks for a piece: a third of a millisecond a megabyte, for which
/// requests would wait. So this thread asks, again and again until then.
const GIVEN_BACK_BY: Duration = Duration::from_millis(1_200);
const ASK_PAUSE: Duration = Duration::from_millis(1);
/// More than what is kept for small pieces.
const ASKED_BYTES: usize = 2 << 20;

/// The reasons that wake the maintenance thread, and the memory that it is to free.
#[derive(Default)]
pub(crate) struct Maintenance {
    state: Mutex<Sleep>,
    changed: Condvar,
    /// What queues held that were purged, deleted or drained.
    unneeded: Mutex<Vec<Box<dyn Any + Send>>>,
}

#[derive(Default)]
struct Sleep {
    is_wanted: bool,
    is_urgent: bool,
    is_closed: bool,
}

/// Why a sleep is over.
pub(crate) enum Wake {
    Closed,
    /// Everything is to be done now.
    Urgent,
    /// By some shards.
    Wanted,
    Due,
}

impl Maintenance {
    /// A shard wants a look at its journal.
    pub(crate) fn want(&self) {
        self.sleep_state().is_wanted = true;
        self.changed.notify_all();
    }

    /// Has what a queue held freed where nobody waits for it.
    pub(crate) fn free(&self, unneeded: impl Any + Send) {
        self.unneeded().push(Box::new(unneeded));
    }

    /// Whether there was something to be freed.
    pub(crate) fn free_unneeded(&self) -> bool {
        let unneeded = std::mem::take(&mut *self.unneeded());
        !unneeded.is_empty()
    }

    fn unneeded(&self) -> MutexGuard<'_, Vec<Box<dyn Any + Send>>> {
        self.unneeded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A task wants to go on now, or time has passed at once.
    pub(crate) fn hurry(&self) {
        self.sleep_state().is_urgent = true;
        self.changed.notify_all();
    }

    pub(crate) fn close(&self) {
        self.sleep_state().is_closed = true;
        self.changed.notify_all();
    }

    /// Sleeps until then, or until called if nothing is due.
    pub(crate) fn sleep(&self, until: Option<Instant>) -> Wake {
        let state = self.sleep_state();
        let is_asleep =
            |state: &mut Sleep| !state.is_closed && !state.is_urgent && !state.is_wanted;
        let pause =
            until.map_or(LONGEST_PAUSE, |until| until.saturating_duration_since(Instant::now()));
        let slept = self.changed.wait_timeout_while(state, pause, is_asleep);
        let mut state = slept.unwrap_or_else(PoisonError::into_inner).0;
        if state.is_closed {
            return Wake::Closed;
        }
        let is_wanted = std::mem::take(&mut state.is_wanted);
        if std::mem::take(&mut state.is_urgent) {
            return Wake::Urgent;
        }
        if is_wanted { Wake::Wanted } else { Wake::Due }
    }

    fn sleep_state(&self) -> MutexGuard<'_, Sleep> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Has the allocator give back what was freed then, if it is time. Returns when to come again.
pub(crate) fn give_back(freed_at: Instant, now: Instant) -> Option<Instant> {
    drop(black_box(Vec::<u8>::with_capacity(ASKED_BYTES)));
    (now < freed_at + GIVEN_BACK_BY).then(|| now + ASK_PAUSE)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn who_is_wanted_does_not_sleep_on() {
        let maintenance = Arc::new(Maintenance::default());
        let (awake, woken) = std::sync::mpsc::channel();
        let sleeper = Arc::clone(&maintenance);
        let far_off = Some(Instant::now() + Duration::from_secs(3_600));
        let thread = std::thread::spawn(move || {
            let first = sleeper.sleep(far_off);
            awake.send(matches!(first, Wake::Wanted)).unwrap();
            matches!(sleeper.sleep(far_off), Wake::Closed)
        });

        maintenance.want();

        assert!(woken.recv_timeout(Duration::from_secs(30)).unwrap());
        maintenance.close();
        assert!(thread.join().unwrap());
    }

    #[test]
    fn the_allocator_is_asked_until_it_has_given_back_what_was_freed() {
        let freed_at = Instant::now();
        let (mut now, mut asked) = (freed_at, 0);
        while let Some(again) = give_back(freed_at, now) {
            assert!(again > now);
            (now, asked) = (again, asked + 1);
        }

        assert_eq!((now, asked), (freed_at + GIVEN_BACK_BY, 1_200));
    }
}
