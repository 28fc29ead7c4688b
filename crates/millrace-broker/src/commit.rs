//! Waiting for a commit without a thread: futures park by ticket, whoever commits wakes one
//! driver per runtime, and the driver wakes its runtime's futures. Waking across threads costs a
//! system call each; this way it is one per runtime and commit, not one per request. And the
//! drivers commit themselves, after all requests that are ready: without a switch to another thread
//! and back, for a lone request or if commits are very quick.
//!
//! ```text
//!  runtime (thread)          journal A        journal B
//!  driver ──── its list ──▶  Waits            Waits        futures of this runtime, by ticket
//!                              ▲                ▲
//!                            Commits of A     Commits of B   each knows the Waits of all runtimes
//! ```
//! A driver belongs to its runtime and to no journal: it finds those that its tasks have waited
//! for in a list of its thread. The list keeps no journal alive.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use millrace_journal::{GroupCommit, Ticket, Unavailable};
use smallvec::SmallVec;

thread_local! {
    /// The runtime that runs on this thread, if it has a driver.
    static RUNTIME: RefCell<Option<Runtime>> = const { RefCell::new(None) };
}

/// A future to be run by each single-threaded runtime whose tasks wait for commits: it commits,
/// and wakes those that wait. Never resolves. Without it they are woken one by one. `pause` is to
/// resolve when the runtime has looked for whatever else is ready.
pub async fn commit_driver<P: Future<Output = ()>>(pause: impl Fn() -> P) {
    let _leave = LeaveOnDrop;
    loop {
        let mut seen = SmallVec::new();
        while is_gathering(&mut seen) {
            pause().await;
        }
        let mut has_slept = false;
        std::future::poll_fn(|context| {
            if std::mem::replace(&mut has_slept, true) {
                return Poll::Ready(());
            }
            commit_all(context.waker());
            Poll::Pending
        })
        .await;
    }
}

/// The waits and journals that a driver serves.
struct Runtime {
    driver: Waker,
    /// One for each journal that a task of the runtime has waited for.
    waits: Vec<Arc<Waits>>,
}

/// Futures of one runtime that wait for commits of one journal.
struct Waits {
    commits: Weak<Commits>,
    state: Mutex<WaitState>,
}

#[derive(Debug, Default)]
struct WaitState {
    waiting: VecDeque<(Ticket, Waker)>,
    /// None while the driver is awake and has yet to commit.
    driver: Option<Waker>,
    /// A commit ended while the driver was awake.
    was_missed: bool,
}

/// All waits for the commits of one journal.
pub(crate) struct Commits {
    log: Arc<GroupCommit>,
    /// For futures on threads without a driver.
    shared: Mutex<WaitState>,
    of_runtimes: Mutex<Vec<Arc<Waits>>>,
    /// Nothing is committed any more.
    is_closed: AtomicBool,
}

impl Commits {
    pub(crate) fn new(log: Arc<GroupCommit>) -> Arc<Commits> {
        let commits = Arc::new(Commits {
            log,
            shared: Mutex::default(),
            of_runtimes: Mutex::default(),
            is_closed: AtomicBool::new(false),
        });
        let listener = Arc::downgrade(&commits);
        commits.log.on_commit(Box::new(move || {
            if let Some(commits) = listener.upgrade() {
                commits.committed();
            }
        }));
        commits
    }

    /// Resolves when the ticket is settled. Cancel safe: the append stands either way.
    pub(crate) async fn wait(self: &Arc<Self>, ticket: Ticket) -> Result<(), Unavailable> {
        CommitWait { commits: self, ticket, parked: None }.await
    }

    /// Ends all waits. To be called once the journal is closed: what was appended too late for
    /// its last commit is never settled.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        lock(&self.shared).take_all().into_iter().for_each(Waker::wake);
        for waits in std::mem::take(&mut *lock(&self.of_runtimes)) {
            waits.end();
        }
    }

    /// Called by the committing thread after each commit.
    fn committed(&self) {
        let settled = lock(&self.shared).settled(&self.log);
        settled.into_iter().for_each(Waker::wake);
        for waits in lock(&self.of_runtimes).iter() {
            let mut state = waits.state();
            let driver = if state.waiting.is_empty() { None } else { state.driver.take() };
            state.was_missed |= driver.is_none();
            drop(state);
            if let Some(driver) = driver {
                driver.wake();
            }
        }
    }

    fn outcome(&self, ticket: Ticket) -> Option<Result<(), Unavailable>> {
        match self.log.outcome_in_time(ticket) {
            None if self.is_closed.load(Ordering::SeqCst) => Some(Err(Unavailable::Closed)),
            outcome => outcome,
        }
    }

    /// Has the waker called when the ticket is settled, and sees to it that what is due is
    /// committed: by the runtime's driver, which outlives its requests, after all that are ready
    /// now.
    fn park(self: &Arc<Self>, ticket: Ticket, waker: Waker) {
        let parked = RUNTIME.with_borrow_mut(|runtime| {
            let Some(runtime) = runtime else { return Err(waker) };
            let mut state = runtime.waits_for(self).state();
            state.waiting.push_back((ticket, waker));
            Ok(state.driver.take())
        });
        match parked {
            Ok(driver) => {
                self.log.set_awaited(ticket);
                driver.into_iter().for_each(Waker::wake);
            }
            Err(waker) => {
                lock(&self.shared).waiting.push_back((ticket, waker));
                self.log.set_awaited(ticket);
                self.log.commit_elsewhere();
            }
        }
    }
}

impl Runtime {
    fn waits_for(&mut self, commits: &Arc<Commits>) -> &Waits {
        let is_of = |waits: &Arc<Waits>| waits.commits.as_ptr() == Arc::as_ptr(commits);
        let at = self.waits.iter().position(is_of).unwrap_or_else(|| {
            let state = WaitState { driver: Some(self.driver.clone()), ..WaitState::default() };
            let commits_too = Arc::downgrade(commits);
            let waits = Arc::new(Waits { commits: commits_too, state: Mutex::new(state) });
            lock(&commits.of_runtimes).push(waits.clone());
            self.waits.push(waits);
            self.waits.len() - 1
        });
        &self.waits[at]
    }
}

impl Waits {
    fn state(&self) -> MutexGuard<'_, WaitState> {
        lock(&self.state)
    }

    /// The driver has been woken for these.
    fn is_due(&self) -> bool {
        self.state().driver.is_none()
    }

    /// The driver's turn: commits, and sees to it that it is woken for what is left.
    fn commit(&self, log: &GroupCommit, driver: &Waker) {
        self.state().was_missed = false;
        let is_left = !log.commit_here();
        let mut state = self.state();
        if is_left && state.was_missed {
            driver.wake_by_ref();
        } else {
            state.driver = Some(driver.clone());
        }
        // Whatever is committed before this is seen here, what comes later wakes the driver.
        let settled = state.settled(log);
        drop(state);
        settled.into_iter().for_each(Waker::wake);
    }

    /// Wakes all that wait, and the driver.
    fn end(&self) {
        let mut state = self.state();
        let mut wakers = state.take_all();
        wakers.extend(state.driver.take());
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl WaitState {
    /// Takes the wakers of all whose tickets are settled.
    fn settled(&mut self, log: &GroupCommit) -> Vec<Waker> {
        let mut settled = Vec::new();
        // Tickets stand almost in order; one behind a later one waits for that, one commit more.
        while let Some((ticket, _)) = self.waiting.front()
            && log.outcome_in_time(*ticket).is_some()
        {
            settled.extend(self.waiting.pop_front().map(|(_, waker)| waker));
        }
        settled
    }

    fn take_all(&mut self) -> Vec<Waker> {
        self.waiting.drain(..).map(|(_, waker)| waker).collect()
    }
}

/// Returns true if a journal has a commit due that is better put off: see
/// [`GroupCommit::is_gathering`].
fn is_gathering(seen: &mut SmallVec<[u32; 4]>) -> bool {
    RUNTIME.with_borrow(|runtime| {
        let Some(runtime) = runtime else { return false };
        seen.resize(runtime.waits.len(), 0);
        let mut is_gathering = false;
        for (waits, seen) in runtime.waits.iter().zip(seen) {
            if waits.is_due()
                && let Some(commits) = waits.commits.upgrade()
            {
                is_gathering |= commits.log.is_gathering(seen);
            }
        }
        is_gathering
    })
}

/// The driver's turn: all journals that it was woken for.
fn commit_all(driver: &Waker) {
    RUNTIME.with_borrow_mut(|runtime| match runtime {
        Some(runtime) => {
            runtime.driver.clone_from(driver);
            // Those of journals that are closed are of no use any more.
            let is_open = |commits: Arc<Commits>| !commits.is_closed.load(Ordering::SeqCst);
            runtime.waits.retain(|waits| waits.commits.upgrade().is_some_and(is_open));
        }
        None => *runtime = Some(Runtime { driver: driver.clone(), waits: Vec::new() }),
    });
    let nth =
        |index: usize| RUNTIME.with_borrow(|runtime| runtime.as_ref()?.waits.get(index).cloned());
    let mut index = 0;
    // The list is not borrowed while others are woken.
    while let Some(waits) = nth(index) {
        index += 1;
        if waits.is_due()
            && let Some(commits) = waits.commits.upgrade()
        {
            waits.commit(&commits.log, driver);
        }
    }
}

/// Ends a runtime's time with a driver: its futures wait as those of other threads do from then on.
struct LeaveOnDrop;

impl Drop for LeaveOnDrop {
    fn drop(&mut self) {
        let Ok(Some(runtime)) = RUNTIME.try_with(RefCell::take) else { return };
        for waits in runtime.waits {
            let Some(commits) = waits.commits.upgrade() else { continue };
            lock(&commits.of_runtimes).retain(|other| !Arc::ptr_eq(other, &waits));
            let left = std::mem::take(&mut *waits.state()).waiting;
            lock(&commits.shared).waiting.extend(left);
            // Nobody was woken for tickets that were settled meanwhile.
            commits.committed();
            commits.log.commit_elsewhere();
        }
    }
}

struct CommitWait<'a> {
    commits: &'a Arc<Commits>,
    ticket: Ticket,
    parked: Option<Waker>,
}

impl Future for CommitWait<'_> {
    type Output = Result<(), Unavailable>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(outcome) = self.commits.outcome(self.ticket) {
            return Poll::Ready(outcome);
        }
        if self.parked.as_ref().is_some_and(|parked| parked.will_wake(context.waker())) {
            return Poll::Pending;
        }
        self.commits.park(self.ticket, context.waker().clone());
        // Settled meanwhile? Then whoever committed may have found nobody to wake.
        if let Some(outcome) = self.commits.outcome(self.ticket) {
            return Poll::Ready(outcome);
        }
        self.parked = Some(context.waker().clone());
        Poll::Pending
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
