//! Waiting for a commit without a thread: futures park by ticket, whoever commits wakes one
//! driver per runtime, and the driver wakes its runtime's futures. Waking across threads costs a
//! system call each; this way it is one per runtime and commit, not one per request. And the
//! drivers commit themselves, after all requests that are ready: without a switch to another thread
//! and back, for a lone request or if commits are very quick.

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
    /// None while the driver is awake and has yet to commit.
    driver: Option<Waker>,
    /// A commit ended while the driver was awake.
    was_missed: bool,
}

impl Waits {
    fn state(&self) -> MutexGuard<'_, WaitState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
        drop(state);
        // Whatever is committed before this is seen here, what comes later wakes the driver.
        self.settled(log).into_iter().for_each(Waker::wake);
    }

    /// Takes the wakers of all whose tickets are settled.
    fn settled(&self, log: &GroupCommit) -> Vec<Waker> {
        let mut state = self.state();
        let mut settled = Vec::new();
        // Tickets stand almost in order; one behind a later one waits for that, one commit more.
        while let Some((ticket, _)) = state.waiting.front()
            && log.outcome_in_time(*ticket).is_some()
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
            state.was_missed |= driver.is_none();
            drop(state);
            if let Some(driver) = driver {
                driver.wake();
            }
        }
    }

    /// The future that serves the runtime of the calling thread; never resolves. `pause` lets the
    /// runtime look for further requests.
    pub(crate) fn driver<P: Future<Output = ()> + Send + 'static>(
        &self,
        log: Arc<GroupCommit>,
        pause: impl Fn() -> P + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static {
        let waits = Arc::new(Waits::default());
        self.drivers().push(waits.clone());
        async move {
            loop {
                LOCAL.with(|local| {
                    let mut local = local.borrow_mut();
                    if !local.as_ref().is_some_and(|local| Arc::ptr_eq(local, &waits)) {
                        *local = Some(waits.clone());
                    }
                });
                let mut seen = 0;
                while log.is_gathering(&mut seen) {
                    pause().await;
                }
                let mut has_slept = false;
                std::future::poll_fn(|context| {
                    if std::mem::replace(&mut has_slept, true) {
                        return Poll::Ready(());
                    }
                    waits.commit(&log, context.waker());
                    Poll::Pending
                })
                .await;
            }
        }
    }

    /// Sees to it that what is due is committed: by the runtime's driver, which outlives its
    /// requests, after all that are ready now.
    pub(crate) fn commit_soon(&self, log: &GroupCommit) {
        let has_driver = LOCAL.with(|local| {
            let local = local.borrow();
            let driver = local.as_ref().and_then(|waits| waits.state().driver.take());
            driver.into_iter().for_each(Waker::wake);
            local.is_some()
        });
        if !has_driver {
            log.commit_elsewhere();
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
        if let Some(outcome) = self.log.outcome_in_time(self.ticket) {
            return Poll::Ready(outcome);
        }
        if self.parked.as_ref().is_some_and(|parked| parked.will_wake(context.waker())) {
            return Poll::Pending;
        }
        let local = LOCAL.with(|local| local.borrow().clone());
        let waits = local.as_ref().unwrap_or(&self.waits.shared);
        waits.state().waiting.push_back((self.ticket, context.waker().clone()));
        self.log.set_awaited(self.ticket);
        self.waits.commit_soon(self.log);
        // Settled meanwhile? Then whoever committed may have found nobody to wake.
        if let Some(outcome) = self.log.outcome_in_time(self.ticket) {
            return Poll::Ready(outcome);
        }
        self.parked = Some(context.waker().clone());
        Poll::Pending
    }
}
