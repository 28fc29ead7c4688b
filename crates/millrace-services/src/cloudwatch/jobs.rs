//! What waits for a thread, by account: bounded, fair, and forgotten with the client that asked.
//!
//! Accounts take turns, whatever each has waiting, and of one account one job runs at a time. So no
//! account waits for more than one job of each other.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use millrace_core::may_take;
use millrace_metrics::Interrupt;

use super::monitor::MonitorError;

/// Jobs of an account that may wait; of all accounts together a tenth more. Beyond, clients are
/// asked to come back.
const WAITING_MAX: usize = 256;

/// Memory of a job that holds nothing large.
pub(super) const JOB_BYTES: usize = 4 << 10;

/// Jobs that wait and run. Whoever takes one says when it is done.
pub(super) struct Jobs<T> {
    state: Mutex<State<T>>,
    has_changed: Condvar,
}

struct State<T> {
    waiting: HashMap<String, VecDeque<Waiting<T>>>,
    /// Accounts of which a job waits and none runs, the next first.
    turns: VecDeque<String>,
    running: HashMap<String, Interrupt>,
    count: usize,
    /// Memory that all of them take, and the most that those of one account may.
    bytes: usize,
    bytes_max: usize,
    last_id: u64,
    is_closed: bool,
}

struct Waiting<T> {
    id: u64,
    bytes: usize,
    job: T,
    interrupt: Interrupt,
}

/// A job that is to be run now.
pub(super) struct Taken<T> {
    pub account: String,
    pub job: T,
}

/// The claim of a client on the outcome of its job. Dropped, the job is not run if it still waits,
/// and interrupted if it runs.
pub(super) struct Claim<T> {
    jobs: Arc<Jobs<T>>,
    account: String,
    id: u64,
    interrupt: Interrupt,
}

/// Where a job of the server's own stands among those of its account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    First,
    /// One of a client comes first, if any waits.
    Second,
}

impl<T> Jobs<T> {
    /// Those of an account that wait take up to `bytes_max` of memory, a tenth more those of all.
    pub(super) fn new(bytes_max: usize) -> Jobs<T> {
        let state = State {
            waiting: HashMap::new(),
            turns: VecDeque::new(),
            running: HashMap::new(),
            count: 0,
            bytes: 0,
            bytes_max,
            last_id: 0,
            is_closed: false,
        };
        Jobs { state: Mutex::new(state), has_changed: Condvar::new() }
    }

    /// Adds a client's job, which takes so many bytes of memory and is made with the flag that
    /// interrupts it.
    pub(super) fn add(
        self: &Arc<Self>,
        (account, bytes): (&str, usize),
        job: impl FnOnce(&Interrupt) -> T,
    ) -> Result<Claim<T>, MonitorError> {
        let mut state = self.state();
        if state.is_closed {
            return Err(MonitorError::Closed);
        }
        let of_account = state.waiting.get(account);
        let count = of_account.map_or(0, VecDeque::len);
        let held = of_account.into_iter().flatten().map(|waiting| waiting.bytes).sum();
        let is_full = !may_take(count, state.count, WAITING_MAX)
            || !may_take(held, state.bytes, state.bytes_max);
        if is_full {
            return Err(MonitorError::Busy);
        }
        let interrupt = Interrupt::default();
        let job = job(&interrupt);
        let id = state.insert(
            account,
            usize::MAX,
            Waiting { id: 0, bytes, job, interrupt: interrupt.clone() },
        );
        drop(state);
        self.has_changed.notify_one();
        Ok(Claim { jobs: self.clone(), account: account.to_owned(), id, interrupt })
    }

    /// Adds a job of the server's own, for which there is always room. After the end it is still
    /// run.
    pub(super) fn add_own(&self, account: &str, place: Place, job: impl FnOnce(&Interrupt) -> T) {
        let interrupt = Interrupt::default();
        let job = job(&interrupt);
        let mut state = self.state();
        if state.is_closed {
            interrupt.set();
        }
        state.insert(account, place as usize, Waiting { id: 0, bytes: 0, job, interrupt });
        drop(state);
        self.has_changed.notify_one();
    }

    /// The next job in turn, if one comes within that time. None at once after the end.
    pub(super) fn take_within(&self, time: Duration) -> Option<Taken<T>> {
        let is_idle = |state: &mut State<T>| state.turns.is_empty() && !state.is_closed;
        let waited = self.has_changed.wait_timeout_while(self.state(), time, is_idle);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.take()
    }

    /// The next job in turn, as soon as there is one. None after the end.
    pub(super) fn take(&self) -> Option<Taken<T>> {
        let is_idle = |state: &mut State<T>| {
            let has_more = !state.waiting.is_empty() || !state.is_closed;
            state.turns.is_empty() && has_more
        };
        let waited = self.has_changed.wait_while(self.state(), is_idle);
        waited.unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The account's job is done: its next may be taken.
    pub(super) fn done(&self, account: &str) {
        let mut state = self.state();
        state.running.remove(account);
        if state.waiting.contains_key(account) {
            state.turns.push_back(account.to_owned());
        }
        drop(state);
        // Also those that wait for the end.
        self.has_changed.notify_all();
    }

    /// Takes no more jobs, forgets those of clients that wait and interrupts those that run.
    pub(super) fn close(&self, is_own: impl Fn(&T) -> bool) {
        let mut state = self.state();
        state.is_closed = true;
        let forgotten: Vec<Waiting<T>> = state.retain(is_own);
        for interrupt in state.running.values() {
            interrupt.set();
        }
        drop(state);
        drop(forgotten);
        self.has_changed.notify_all();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state().is_closed
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> State<T> {
    /// Returns the id that it gives the job.
    fn insert(&mut self, account: &str, at: usize, job: Waiting<T>) -> u64 {
        self.last_id += 1;
        self.count += 1;
        self.bytes += job.bytes;
        let id = self.last_id;
        let waiting = self.waiting.entry(account.to_owned()).or_default();
        let is_first = waiting.is_empty();
        waiting.insert(at.min(waiting.len()), Waiting { id, ..job });
        if is_first && !self.running.contains_key(account) {
            self.turns.push_back(account.to_owned());
        }
        id
    }

    fn take(&mut self) -> Option<Taken<T>> {
        let account = self.turns.pop_front()?;
        let waiting = self.waiting.get_mut(&account)?;
        let next = waiting.pop_front()?;
        self.count -= 1;
        self.bytes -= next.bytes;
        if waiting.is_empty() {
            self.waiting.remove(&account);
        }
        self.running.insert(account.clone(), next.interrupt);
        Some(Taken { account, job: next.job })
    }

    /// Takes a job out that waits.
    fn remove(&mut self, account: &str, id: u64) -> Option<Waiting<T>> {
        let waiting = self.waiting.get_mut(account)?;
        let at = waiting.iter().position(|waiting| waiting.id == id)?;
        let removed = waiting.remove(at);
        self.count -= 1;
        self.bytes -= removed.as_ref().map_or(0, |removed| removed.bytes);
        if waiting.is_empty() {
            self.waiting.remove(account);
            self.turns.retain(|turn| turn != account);
        }
        removed
    }

    /// Takes out all that wait but those.
    fn retain(&mut self, is_kept: impl Fn(&T) -> bool) -> Vec<Waiting<T>> {
        let mut removed = Vec::new();
        for waiting in self.waiting.values_mut() {
            let (kept, others): (VecDeque<_>, VecDeque<_>) =
                std::mem::take(waiting).into_iter().partition(|waiting| is_kept(&waiting.job));
            *waiting = kept;
            removed.extend(others);
        }
        self.waiting.retain(|_, waiting| !waiting.is_empty());
        let waiting = &self.waiting;
        self.turns.retain(|account| waiting.contains_key(account));
        self.count -= removed.len();
        self.bytes -= removed.iter().map(|removed| removed.bytes).sum::<usize>();
        removed
    }
}

impl<T> Drop for Claim<T> {
    fn drop(&mut self) {
        self.interrupt.set();
        let removed = self.jobs.state().remove(&self.account, self.id);
        // What it was to work on may be large: not under the lock.
        drop(removed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jobs(all: &[(&str, u32)]) -> (Arc<Jobs<u32>>, Vec<Claim<u32>>) {
        let jobs = Arc::new(Jobs::new(1 << 20));
        let add = |(account, job): &(&str, u32)| jobs.add((account, 1), |_| *job).unwrap();
        let claims = all.iter().map(add).collect();
        (jobs, claims)
    }

    fn next(jobs: &Jobs<u32>) -> Option<(String, u32)> {
        jobs.take_within(Duration::ZERO).map(|taken| (taken.account, taken.job))
    }

    /// Takes and does all that can be.
    fn rest(jobs: &Jobs<u32>) -> Vec<u32> {
        let taken = std::iter::from_fn(|| {
            let (account, job) = next(jobs)?;
            jobs.done(&account);
            Some(job)
        });
        taken.collect()
    }

    #[test]
    fn accounts_take_turns_and_one_job_of_each_runs() {
        let (jobs, _claims) = jobs(&[("a", 1), ("a", 2), ("a", 3), ("b", 4), ("b", 5), ("c", 6)]);

        assert_eq!(next(&jobs), Some(("a".into(), 1)));
        assert_eq!(next(&jobs), Some(("b".into(), 4)));
        assert_eq!(next(&jobs), Some(("c".into(), 6)));
        assert_eq!(next(&jobs), None, "one of each runs");
        jobs.done("b");
        assert_eq!(next(&jobs), Some(("b".into(), 5)));
        jobs.done("a");
        assert_eq!(rest(&jobs), [2, 3]);
    }

    #[test]
    fn what_nobody_waits_for_is_not_run_and_makes_room() {
        let (jobs, mut claims) = jobs(&[("a", 1), ("a", 2), ("b", 3)]);
        let interrupt = claims[0].interrupt.clone();

        assert_eq!(next(&jobs), Some(("a".into(), 1)));
        assert!(!interrupt.is_set());
        claims.clear();
        assert!(interrupt.is_set(), "it runs");
        jobs.done("a");
        assert!(rest(&jobs).is_empty());
        let state = jobs.state();
        assert_eq!((state.count, state.waiting.len(), state.turns.len()), (0, 0, 0));
    }

    #[test]
    fn an_account_has_a_bounded_number_waiting_and_leaves_room_for_others() {
        let jobs = Arc::new(Jobs::new(1 << 20));
        let add = |account: &str| jobs.add((account, 1), |_| 0_u32);

        let mut first: Vec<_> = (0..WAITING_MAX).map(|_| add("a").unwrap()).collect();
        assert!(matches!(add("a"), Err(MonitorError::Busy)));
        let others = ["b", "c", "d"].map(|account| add(account).unwrap());
        first.pop();
        assert!(add("a").is_err(), "others have taken of it");
        drop(others);
        assert!(add("a").is_ok());
        jobs.close(|_| false);
        assert!(matches!(add("b"), Err(MonitorError::Closed)));
    }

    #[test]
    fn large_jobs_of_an_account_wait_up_to_a_bound_and_leave_room_for_others() {
        let jobs = Arc::new(Jobs::new(1_000));
        let add = |account: &str, bytes| jobs.add((account, bytes), |_| 0_u32);

        let first = [add("a", 600).unwrap(), add("a", 600).unwrap()];
        assert!(add("a", 1).is_err());
        assert!(add("b", 1).is_err(), "the last was larger than what was left for others");
        drop(first);
        let large = add("a", 1_000).unwrap();
        assert!(add("a", 1).is_err() && add("b", 50).is_ok());
        assert_eq!(next(&jobs), Some(("a".into(), 0)));
        assert!(add("a", 1_000).is_ok(), "what runs does not wait");
        drop(large);
        assert_eq!(jobs.state().bytes, 0);
    }

    #[test]
    fn own_jobs_come_first_or_second_and_are_run_after_the_end() {
        let (jobs, claims) = jobs(&[("a", 1), ("a", 2)]);
        let first = claims[0].interrupt.clone();
        jobs.add_own("a", Place::Second, |_| 100);
        jobs.add_own("a", Place::First, |_| 101);
        assert_eq!(next(&jobs), Some(("a".into(), 101)));
        jobs.done("a");
        assert_eq!(next(&jobs), Some(("a".into(), 1)));

        jobs.close(|job| *job >= 100);
        assert!(first.is_set() && jobs.is_closed());
        jobs.add_own("a", Place::Second, |interrupt| if interrupt.is_set() { 0 } else { 102 });
        jobs.done("a");
        assert_eq!(rest(&jobs), [100, 102]);
        assert!(jobs.take().is_none());
    }
}
