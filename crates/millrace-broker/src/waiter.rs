//! Long polls: receives that wait for a message, in order of arrival.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// One waiting receive.
#[derive(Debug, Default)]
pub(crate) struct Waiter(Mutex<Signal>);

#[derive(Debug, Default)]
struct Signal {
    is_woken: bool,
    waker: Option<Waker>,
}

impl Waiter {
    pub(crate) fn wake(&self) {
        let mut signal = self.signal();
        signal.is_woken = true;
        let waker = signal.waker.take();
        drop(signal);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Whether it was woken since the last call.
    pub(crate) fn take_wake(&self) -> bool {
        std::mem::take(&mut self.signal().is_woken)
    }

    /// Resolves when woken; not at once if it is already, so that others get their turn.
    pub(crate) fn woken(&self) -> impl Future<Output = ()> + '_ {
        Woken { waiter: self, has_yielded: false }
    }

    fn signal(&self) -> MutexGuard<'_, Signal> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Woken<'a> {
    waiter: &'a Waiter,
    has_yielded: bool,
}

impl Future for Woken<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let has_yielded = std::mem::replace(&mut self.has_yielded, true);
        let mut signal = self.waiter.signal();
        match (signal.is_woken, has_yielded) {
            (true, true) => return Poll::Ready(()),
            (true, false) => context.waker().wake_by_ref(),
            (false, _) => signal.waker = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}

/// The waiting receives of one queue.
#[derive(Debug, Default)]
pub(crate) struct Waiters(VecDeque<Arc<Waiter>>);

impl Waiters {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn push_last(&mut self, waiter: Arc<Waiter>) {
        self.0.push_back(waiter);
    }

    /// For one that was woken in vain: it keeps its place in the order.
    pub(crate) fn push_first(&mut self, waiter: Arc<Waiter>) {
        self.0.push_front(waiter);
    }

    /// Wakes up to `count`, the longest waiting first. A woken waiter no longer stands here.
    pub(crate) fn wake(&mut self, count: u64) {
        for _ in 0..count {
            match self.0.pop_front() {
                Some(waiter) => waiter.wake(),
                None => return,
            }
        }
    }

    /// Wakes all: the queue is deleted, the server drains, or nothing can be received any more.
    pub(crate) fn wake_all(&mut self) {
        self.wake(u64::MAX);
    }

    /// Removes one that gives up; false if it was woken already.
    pub(crate) fn remove(&mut self, waiter: &Arc<Waiter>) -> bool {
        // Those that give up are mostly the oldest: their time is over.
        match self.0.iter().position(|other| Arc::ptr_eq(other, waiter)) {
            Some(at) => self.0.remove(at).is_some(),
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    #[test]
    fn who_was_woken_before_lets_others_go_first() {
        let waiter = Waiter::default();
        waiter.wake();
        let mut woken = pin!(waiter.woken());
        let mut context = Context::from_waker(Waker::noop());

        assert!(woken.as_mut().poll(&mut context).is_pending());
        assert!(woken.as_mut().poll(&mut context).is_ready());
    }
}
