//! Waiting for a commit without a thread: futures park by ticket, whoever commits wakes one
//! driver per runtime, and the driver wakes its runtime's futures. Waking across threads costs a
//! system call each; this way it is one per runtime and commit, not one per request. On a journal
//! that does not wait for the disk the drivers commit themselves.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use millrace_journal::{GroupCommit, Ticket, Unavailable};

thread_local! {
    /// The waits of the runtime that runs on this thread, if it has a driver.
    static LOCAL: RefCell<Option<Arc<Waits>>> = const { RefCell::new(None) };
}

/// Futures that wait for a commit.
#[derive(Debug, Default)]
struct Waits {
    state: Mutex<WaitState>,
}

#[derive(Debug, Default)]
struct WaitState {
    waiting: VecDeque<(Ticket, Waker)>,
    driver: Option<Waker>,
}

impl Waits {
    fn state(&self) -> MutexGuard<'_, WaitState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the wakers of all whose tickets are settled.
    fn settled(&self, log: &GroupCommit) -> Vec<Waker> {
        let mut state = self.state();
        let mut settled = Vec::new();
        // Tickets stand almost in order; one behind a later one waits for that, one commit more.
        while let Some((ticket, _)) = state.waiting.front()
            && log.outcome(*ticket).is_some()
        {
            settled.extend(state.waiting.pop_front().map(|(_, waker)| waker));
        }
        settled
    }
}

/// All runtimes' waits.
#[derive(Debug, Default)]
pub(crate) struct CommitWaits {
    /// For futures on threads without a driver.
    shared: Arc<Waits>,
    drivers: Mutex<Vec<Arc<Waits>>>,
}

impl CommitWaits {
    /// Called by whoever commits, after each commit.
    pub(crate) fn committed(&self, log: &GroupCommit) {
        self.shared.settled(log).into_iter().for_each(Waker::wake);
        for waits in self.drivers().iter() {
            let mut state = waits.state();
            let driver = if state.waiting.is_empty() { None } else { state.driver.take() };
            drop(state);
            if let Some(driver) = driver {
                driver.wake();
            }
        }
    }

    /// The future that serves the runtime of the calling thread; never resolves.
    pub(crate) fn driver(
        &self,
        log: Arc<GroupCommit>,
    ) -> impl Future<Output = ()> + Send + 'static {
        let waits = Arc::new(Waits::default());
        self.drivers().push(waits.clone());
        std::future::poll_fn(move |context| {
            LOCAL.with(|local| {
                let mut local = local.borrow_mut();
                if !local.as_ref().is_some_and(|local| Arc::ptr_eq(local, &waits)) {
                    *local = Some(waits.clone());
                }
            });
            // For all requests that had their turn since: one write.
            log.commit_here();
            // Registered before looking: a commit in between wakes the driver again.
            waits.state().driver = Some(context.waker().clone());
            waits.settled(&log).into_iter().for_each(Waker::wake);
            Poll::Pending
        })
    }

    /// Sees to it that what was appended to be committed here is: on a quick journal by the driver,
    /// which outlives its runtime's requests, after all that are ready now; on others the
    /// committing thread knows already.
    pub(crate) fn commit_soon(&self, log: &GroupCommit) {
        if !log.is_quick() {
            return;
        }
        let has_driver = LOCAL.with(|local| {
            let local = local.borrow();
            // None while the driver is awake and has yet to run.
            let driver = local.as_ref().and_then(|waits| waits.state().driver.take());
            driver.into_iter().for_each(Waker::wake);
            local.is_some()
        });
        if !has_driver {
            log.commit_here();
        }
    }

    /// Resolves when the ticket is settled. Cancel safe: the append stands either way.
    pub(crate) async fn wait(&self, log: &GroupCommit, ticket: Ticket) -> Result<(), Unavailable> {
        CommitWait { waits: self, log, ticket, parked: None }.await
    }

    fn drivers(&self) -> MutexGuard<'_, Vec<Arc<Waits>>> {
        self.drivers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct CommitWait<'a> {
    waits: &'a CommitWaits,
    log: &'a GroupCommit,
    ticket: Ticket,
    parked: Option<Waker>,
}

impl Future for CommitWait<'_> {
    type Output = Result<(), Unavailable>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(outcome) = self.log.outcome(self.ticket) {
            return Poll::Ready(outcome);
        }
        if self.parked.as_ref().is_some_and(|parked| parked.will_wake(context.waker())) {
            return Poll::Pending;
        }
        let local = LOCAL.with(|local| local.borrow().clone());
        let waits = local.as_ref().unwrap_or(&self.waits.shared);
        waits.state().waiting.push_back((self.ticket, context.waker().clone()));
        self.waits.commit_soon(self.log);
        // Settled meanwhile? Then whoever committed may have found nobody to wake.
        if let Some(outcome) = self.log.outcome(self.ticket) {
            return Poll::Ready(outcome);
        }
        self.parked = Some(context.waker().clone());
        Poll::Pending
    }
}
