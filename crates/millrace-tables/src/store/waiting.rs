//! Writes that wait for the writer: bounded by count and bytes. Beyond, clients are to come back.

use std::collections::{HashMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use millrace_core::may_take;
use tokio::sync::oneshot;

use super::tables::Options;
use crate::write::{Write, WriteError};

/// A write and the client that waits for it.
pub(super) struct Asked {
    pub write: Write,
    pub answer: oneshot::Sender<Result<(), WriteError>>,
    bytes: usize,
}

/// What the writer finds.
pub(super) enum Found {
    Writes(Vec<Asked>),
    Nothing,
    Closed,
}

/// See the module.
pub(super) struct Waiting {
    state: Mutex<State>,
    has_changed: Condvar,
    options: Options,
}

#[derive(Default)]
struct State {
    writes: VecDeque<Asked>,
    bytes: usize,
    /// Of each account, writes and bytes.
    accounts: HashMap<String, (usize, usize)>,
    is_closed: bool,
    /// Why writes are refused at the door, if they are.
    refusal: Option<WriteError>,
}

impl Waiting {
    pub(super) fn new(options: Options) -> Waiting {
        Waiting { state: Mutex::default(), has_changed: Condvar::new(), options }
    }

    pub(super) fn push(
        &self,
        write: Write,
        answer: oneshot::Sender<Result<(), WriteError>>,
    ) -> Result<(), WriteError> {
        let bytes = write.bytes();
        let mut state = self.state();
        if let Some(refusal) = &state.refusal {
            return Err(refusal.clone());
        }
        if state.is_closed {
            return Err(WriteError::Unavailable("the server stops".to_owned()));
        }
        let (count, held) =
            state.accounts.get(&write.domain().account).copied().unwrap_or_default();
        let (waiting, waiting_bytes) = (state.writes.len(), state.bytes);
        if !may_take(count, waiting, self.options.waiting_writes)
            || !may_take(held, waiting_bytes, self.options.waiting_bytes)
        {
            let text = format!("{waiting} changes of {waiting_bytes} bytes wait already");
            return Err(WriteError::Unavailable(text));
        }
        let account = state.accounts.entry(write.domain().account.clone()).or_default();
        *account = (account.0 + 1, account.1 + bytes);
        state.bytes += bytes;
        state.writes.push_back(Asked { write, answer, bytes });
        drop(state);
        self.has_changed.notify_one();
        Ok(())
    }

    /// Takes what waits, up to so many bytes, or waits for it that long. After the end, what is
    /// left comes first.
    pub(super) fn take(&self, bytes_max: usize, pause: Option<Duration>) -> Found {
        let is_idle = |state: &mut State| state.writes.is_empty() && !state.is_closed;
        let mut state = match pause {
            Some(pause) => {
                let waited = self.has_changed.wait_timeout_while(self.state(), pause, is_idle);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
            None => {
                let waited = self.has_changed.wait_while(self.state(), is_idle);
                waited.unwrap_or_else(PoisonError::into_inner)
            }
        };
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while let Some(next) = state.writes.front()
            && (taken.is_empty() || bytes + next.bytes <= bytes_max)
        {
            bytes += next.bytes;
            let account = next.write.domain().account.as_str();
            if let Some((count, held)) = state.accounts.get(account).copied() {
                let left = (count - 1, held - next.bytes);
                let account = account.to_owned();
                if left.0 == 0 {
                    state.accounts.remove(&account);
                } else {
                    state.accounts.insert(account, left);
                }
            }
            taken.extend(state.writes.pop_front());
        }
        state.bytes -= bytes;
        match taken.is_empty() {
            false => Found::Writes(taken),
            true if state.is_closed => Found::Closed,
            true => Found::Nothing,
        }
    }

    /// Refuses writes at the door from now on, or not any more; those that wait, too.
    pub(super) fn refuse(&self, refusal: Option<WriteError>) {
        let mut state = self.state();
        state.refusal.clone_from(&refusal);
        let Some(refusal) = refusal else { return };
        let refused = std::mem::take(&mut state.writes);
        state.accounts.clear();
        state.bytes = 0;
        drop(state);
        for asked in refused {
            let _ = asked.answer.send(Err(refusal.clone()));
        }
    }

    /// Sleeps that long, or until closed. Returns true once it is.
    pub(super) fn sleep(&self, pause: Duration) -> bool {
        let state = self.state();
        let slept = self.has_changed.wait_timeout_while(state, pause, |state| !state.is_closed);
        slept.unwrap_or_else(PoisonError::into_inner).0.is_closed
    }

    pub(super) fn close(&self) {
        self.state().is_closed = true;
        self.has_changed.notify_all();
    }

    pub(super) fn count(&self) -> usize {
        self.state().writes.len()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
