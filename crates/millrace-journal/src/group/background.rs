//! A thread that does what is to be done beside commits, when it is told that there is something.

use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::lock;

/// The thread's side and that of those who wake it.
#[derive(Default)]
pub(super) struct Background {
    state: Mutex<State>,
    changed: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct State {
    is_wanted: bool,
    is_stopping: bool,
}

impl Background {
    /// Remembers the thread that calls `run`.
    pub(super) fn started(&self, thread: JoinHandle<()>) {
        *lock(&self.thread) = Some(thread);
    }

    /// Takes steps, until one says that there is nothing to be done, each time it is woken; returns
    /// after `stop`, whatever is left to be done.
    pub(super) fn run(&self, step: impl Fn() -> bool) {
        loop {
            while !lock(&self.state).is_stopping && step() {}
            let mut state = lock(&self.state);
            while !state.is_wanted && !state.is_stopping {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            state.is_wanted = false;
            if state.is_stopping {
                return;
            }
        }
    }

    pub(super) fn wake(&self) {
        if !std::mem::replace(&mut lock(&self.state).is_wanted, true) {
            self.changed.notify_one();
        }
    }

    /// Ends the thread, if there is one, and waits for it.
    pub(super) fn stop(&self) {
        lock(&self.state).is_stopping = true;
        self.changed.notify_all();
        if let Some(thread) = lock(&self.thread).take()
            && thread.join().is_err()
        {
            tracing::error!("thread of the journal panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn steps_are_taken_at_the_start_and_when_woken_until_stopped() {
        let background = Arc::new(Background::default());
        let (taken, steps) = mpsc::channel();
        let this = Arc::clone(&background);
        let thread = std::thread::spawn(move || {
            this.run(|| {
                taken.send(()).unwrap();
                false
            });
        });
        background.started(thread);
        steps.recv().unwrap();
        background.wake();
        steps.recv().unwrap();

        background.stop();
        assert!(steps.recv().is_err(), "the thread has ended");
    }

    #[test]
    fn stop_waits_for_one_step_and_not_for_all_that_is_left() {
        let background = Arc::new(Background::default());
        let ((taken, steps), (go, go_on)) = (mpsc::channel(), mpsc::channel());
        let this = Arc::clone(&background);
        let thread = std::thread::spawn(move || {
            this.run(|| {
                taken.send(()).unwrap();
                go_on.recv().is_ok()
            });
        });
        background.started(thread);
        steps.recv().unwrap();

        lock(&background.state).is_stopping = true;
        go.send(()).unwrap();
        drop(go);
        background.stop();

        assert!(steps.recv().is_err(), "no further step is taken");
    }
}
