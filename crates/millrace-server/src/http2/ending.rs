//! When an HTTP/2 connection is told to go, and when it is closed.
//!
//! One that is idle past its timeout, and all when we drain, are told. A client that does not go
//! within some time, and one that takes nothing, is cut off.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};
use std::task::Context as Task;
use std::time::Duration;

use crate::{Closed, Timeouts, connection::Context};

/// What the streams of a connection do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Activity {
    Idle,
    Active,
    /// The client has taken nothing of an answer for too long.
    Stalled,
}

/// What is to be done with a connection that has done all it can for now.
pub(super) enum Next {
    Wait,
    SayGoodbye,
    Close(Closed),
}

/// How far a connection is on its way to its end.
pub(super) struct Ending {
    /// Whether the client has sent anything.
    has_begun: Arc<AtomicBool>,
    /// Why it was told to go, if it was.
    goodbye: Option<Closed>,
    /// Whether the streams had a look since they were found to have stalled.
    has_looked: bool,
}

impl Ending {
    pub(super) fn new(has_begun: Arc<AtomicBool>) -> Ending {
        Ending { has_begun, goodbye: None, has_looked: false }
    }

    pub(super) fn goodbye(&self) -> Option<Closed> {
        self.goodbye
    }

    /// If it is to wait, the task is woken when something may have changed.
    pub(super) fn next<S>(
        &mut self,
        context: &Context<S>,
        activity: Activity,
        task: &Task<'_>,
    ) -> Next {
        if context.share.is_cut() {
            return Next::Close(Closed::NoMemory);
        }
        if activity == Activity::Stalled {
            if self.has_looked {
                return Next::Close(Closed::SlowReader);
            }
            // It may have been us: the streams' tasks look first at what has come just now.
            self.has_looked = true;
            task.waker().wake_by_ref();
            return Next::Wait;
        }
        self.has_looked = false;
        let deadline = &context.deadline;
        if activity == Activity::Active && deadline.has_passed() {
            deadline.set_after(self.patience(&context.timeouts));
        }
        let is_late = deadline.has_passed();
        let reason = match self.goodbye {
            None if context.drain.is_started() => Closed::Drain,
            None if is_late => Closed::Idle,
            // Told to go, and still there after the same time again.
            Some(reason) if is_late => return Next::Close(reason),
            _ => {
                deadline.register(task.waker());
                // After: it may happen at any time.
                return match context.share.is_cut() {
                    true => Next::Close(Closed::NoMemory),
                    false => Next::Wait,
                };
            }
        };
        // hyper says goodbye only to clients that have said hello.
        if !self.has_begun.load(Relaxed) {
            return Next::Close(reason);
        }
        self.goodbye = Some(reason);
        deadline.set_after(self.patience(&context.timeouts));
        Next::SayGoodbye
    }

    /// How long the connection may take for its next step.
    fn patience(&self, timeouts: &Timeouts) -> Duration {
        match self.goodbye {
            Some(Closed::Drain) => timeouts.farewell,
            _ => timeouts.write,
        }
    }
}
