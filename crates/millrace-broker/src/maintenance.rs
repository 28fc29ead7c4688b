//! The work behind the requests: move tasks, the log, and what queues held that are gone; and the
//! thread that does it.

mod relocate;
mod remember;
mod shorten;

use std::any::Any;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::broker::Broker;
use shorten::LogState;

/// Deletes come by the thousand; what they free is looked at this often.
const PAUSE: Duration = Duration::from_secs(1);
/// Receives and other changes that free nothing make the log longer without telling.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The allocator gives memory back to the system within a second after it was freed, all at once,
/// on the thread that next asks for a piece: a third of a millisecond a megabyte, for which
/// requests would wait. So this thread asks, again and again until then.
const GIVEN_BACK_BY: Duration = Duration::from_millis(1_200);
const ASK_PAUSE: Duration = Duration::from_millis(1);
/// More than what is kept for small pieces.
const ASKED_BYTES: usize = 2 << 20;

/// Who wants the work, and how far it has come with the log.
pub(crate) struct Maintenance {
    is_wanted: AtomicBool,
    state: Mutex<Sleep>,
    changed: Condvar,
    log: Mutex<LogState>,
    /// The oldest segment that a message was in when it changed queues, since this was last set to
    /// the highest number.
    moved_from: AtomicU32,
    /// What queues held that were purged, deleted or drained.
    unneeded: Mutex<Vec<Box<dyn Any + Send>>>,
}

#[derive(Default)]
struct Sleep {
    is_urgent: bool,
    is_closed: bool,
}

/// Why a sleep is over.
enum Wake {
    Closed,
    /// Everything is to be done now.
    Urgent,
    Wanted,
    Due,
}

impl Maintenance {
    pub(crate) fn new(secret: ([u8; 16], u64)) -> Maintenance {
        Maintenance {
            is_wanted: AtomicBool::new(false),
            state: Mutex::default(),
            changed: Condvar::new(),
            log: Mutex::new(LogState::new(secret)),
            moved_from: AtomicU32::new(u32::MAX),
            unneeded: Mutex::default(),
        }
    }

    /// Something was freed. Cheap if that is known already.
    pub(crate) fn want(&self) {
        if !self.is_wanted.load(Ordering::Relaxed) && !self.is_wanted.swap(true, Ordering::AcqRel) {
            drop(self.sleep_state());
            self.changed.notify_all();
        }
    }

    /// Has what a queue held freed where nobody waits for it.
    pub(crate) fn free(&self, unneeded: impl Any + Send) {
        self.unneeded().push(Box::new(unneeded));
        self.want();
    }

    /// Whether there was something to be freed.
    fn free_unneeded(&self) -> bool {
        let unneeded = std::mem::take(&mut *self.unneeded());
        !unneeded.is_empty()
    }

    fn unneeded(&self) -> MutexGuard<'_, Vec<Box<dyn Any + Send>>> {
        self.unneeded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Messages of that segment or later ones changed queues and keep their records. To be called
    /// with both queues locked.
    pub(crate) fn moved_from(&self, segment: Option<u32>) {
        self.moved_from.fetch_min(segment.unwrap_or(u32::MAX), Ordering::AcqRel);
    }

    /// A move task wants to go on now, or time has passed at once.
    pub(crate) fn hurry(&self) {
        self.sleep_state().is_urgent = true;
        self.changed.notify_all();
    }

    pub(crate) fn close(&self) {
        self.sleep_state().is_closed = true;
        self.changed.notify_all();
    }

    /// Sleeps until then. A look at the log that is further off than that is brought forward if one
    /// is wanted: to a second later, so that many small changes are seen at once.
    fn sleep(&self, until: Instant, log_due: Instant) -> Wake {
        let state = self.sleep_state();
        let now = Instant::now();
        let heeds_wanted = log_due > now + PAUSE;
        let is_wanted = || heeds_wanted && self.is_wanted.load(Ordering::Acquire);
        let is_asleep = |state: &mut Sleep| !state.is_closed && !state.is_urgent && !is_wanted();
        let pause = until.saturating_duration_since(now);
        let slept = self.changed.wait_timeout_while(state, pause, is_asleep);
        let mut state = slept.unwrap_or_else(PoisonError::into_inner).0;
        if state.is_closed {
            return Wake::Closed;
        }
        if std::mem::take(&mut state.is_urgent) {
            return Wake::Urgent;
        }
        if is_wanted() { Wake::Wanted } else { Wake::Due }
    }

    fn sleep_state(&self) -> MutexGuard<'_, Sleep> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Broker {
    /// Does the work behind until closed. Move tasks may be due hundreds of times a second; a look
    /// at the log, which goes over all queues, is not.
    pub(crate) fn run_maintenance(&self) {
        let in_a = |pause: Duration| Instant::now() + pause;
        let mut log_due = Instant::now();
        let mut tasks_due = None;
        let mut freed_at = None;
        loop {
            let given_back_due = freed_at.and_then(|freed_at| give_back(freed_at, Instant::now()));
            if given_back_due.is_none() {
                freed_at = None;
            }
            let until =
                [tasks_due, given_back_due].into_iter().flatten().fold(log_due, Instant::min);
            match self.maintenance.sleep(until, log_due) {
                Wake::Closed => return,
                Wake::Urgent => log_due = Instant::now(),
                Wake::Wanted => log_due = in_a(PAUSE),
                Wake::Due => {}
            }
            tasks_due = self.run_move_tasks().map(in_a);
            if log_due <= Instant::now() {
                self.maintenance.is_wanted.store(false, Ordering::Release);
                if self.maintenance.free_unneeded() {
                    freed_at = Some(Instant::now());
                }
                log_due = in_a(self.look_after_log());
            }
        }
    }

    /// Does a piece of the work behind: move tasks, then the log. Returns how soon to come back
    /// even if nothing calls.
    pub fn maintain(&self) -> Duration {
        let tasks = self.run_move_tasks();
        let log = self.look_after_log();
        tasks.map_or(log, |tasks| log.min(tasks))
    }

    fn look_after_log(&self) -> Duration {
        self.maintenance.free_unneeded();
        self.shorten_log().unwrap_or_else(|error| {
            tracing::warn!(%error, "the log could not be shortened");
            PAUSE
        })
    }
}

/// Has the allocator give back what was freed then, if it is time. Returns when to come again.
fn give_back(freed_at: Instant, now: Instant) -> Option<Instant> {
    drop(black_box(Vec::<u8>::with_capacity(ASKED_BYTES)));
    (now < freed_at + GIVEN_BACK_BY).then(|| now + ASK_PAUSE)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn who_is_wanted_does_not_sleep_on() {
        let maintenance = Arc::new(Maintenance::new(([0; 16], 0)));
        let (awake, woken) = std::sync::mpsc::channel();
        let sleeper = Arc::clone(&maintenance);
        let far_off = Instant::now() + Duration::from_secs(3_600);
        let thread = std::thread::spawn(move || {
            let first = sleeper.sleep(far_off, far_off);
            awake.send(matches!(first, Wake::Wanted)).unwrap();
            // One is due within a second: that is soon enough.
            let soon = Instant::now() + PAUSE / 2;
            matches!(sleeper.sleep(far_off, soon), Wake::Closed)
        });

        maintenance.want();

        assert!(woken.recv_timeout(Duration::from_secs(30)).unwrap());
        maintenance.want();
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
