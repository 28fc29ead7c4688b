//! Futures that the scheduler polls, one at a time, when somebody woke them.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use millrace_broker::{BrokerError, Incoming};

use crate::oracle::Serial;
use crate::receives::Asked;

/// What a future resolves to.
#[derive(Debug)]
pub enum Output {
    Received(Result<Vec<Incoming>, BrokerError>),
    Done(Result<(), BrokerError>),
}

/// A long poll in progress.
#[derive(Clone, Debug)]
pub struct LongPoll {
    pub asked: Asked,
    pub until: u64,
    /// Messages that it took and has not handed over, by sequence, with their receive counts;
    /// `None` while it waits.
    pub taken: Option<Vec<(u64, u32)>>,
    pub serial: Option<Serial>,
}

/// What a future is for.
#[derive(Clone, Debug)]
pub enum Purpose {
    LongPoll(LongPoll),
    /// Waits for the commit of a change.
    Commit {
        what: &'static str,
        serial: Option<Serial>,
    },
}

/// A future with its waker.
pub struct Task {
    pub number: u64,
    pub purpose: Purpose,
    future: Pin<Box<dyn Future<Output = Output>>>,
    flag: Arc<Flag>,
}

struct Flag(AtomicBool);

impl LongPoll {
    /// One that waits.
    pub fn new(asked: &Asked, until: u64) -> LongPoll {
        LongPoll { asked: asked.clone(), until, taken: None, serial: None }
    }
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Task {
    pub fn new(
        number: u64,
        purpose: Purpose,
        future: impl Future<Output = Output> + 'static,
    ) -> Task {
        let flag = Arc::new(Flag(AtomicBool::new(true)));
        Task { number, purpose, future: Box::pin(future), flag }
    }

    pub fn is_woken(&self) -> bool {
        self.flag.0.load(Ordering::Relaxed)
    }

    /// Polls once.
    pub fn poll(&mut self) -> Option<Output> {
        self.flag.0.store(false, Ordering::Relaxed);
        let waker = Waker::from(self.flag.clone());
        match self.future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }
}
