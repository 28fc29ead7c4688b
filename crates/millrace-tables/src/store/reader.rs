//! Reads: what waits for a connection, and the threads that have one each.
//!
//! Accounts take turns. A read that takes too long is interrupted, and so is one whose client has
//! left; if it still waits, it is not begun. Beyond a number that waits, clients are to come back.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use millrace_core::may_take;
use rusqlite::Connection;
use thiserror::Error;
use tokio::sync::oneshot;

use super::database::{Database, INSTRUCTIONS, is_interrupted};
use super::tables::{Options, spawn};

/// Why something was not read.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadError {
    #[error("too many reads wait already")]
    Busy,
    /// Waiting for a thread counts.
    #[error("the read took longer than {} s", .0.as_secs_f32())]
    TimedOut(Duration),
    #[error("the server stops")]
    Closed,
    #[error("the database cannot be read: {0}")]
    Failed(String),
}

impl From<rusqlite::Error> for ReadError {
    fn from(error: rusqlite::Error) -> ReadError {
        ReadError::Failed(error.to_string())
    }
}

/// Reads that wait. See the module.
pub(super) struct Readers {
    state: Mutex<State>,
    has_changed: Condvar,
    waiting_max: usize,
    limit: Duration,
    /// Reads that run are interrupted.
    is_closed: Arc<AtomicBool>,
}

#[derive(Default)]
struct State {
    waiting: HashMap<String, VecDeque<Job>>,
    /// Accounts of which a read waits, the next first.
    turns: VecDeque<String>,
    count: usize,
    is_closed: bool,
}

struct Job {
    signs: Arc<Signs>,
    /// When the client is told that it took too long: waiting counts.
    until: Instant,
    run: Box<dyn FnOnce(&Connection) + Send>,
}

/// What the client and the thread tell each other of a read.
#[derive(Default)]
struct Signs {
    /// The client has left.
    is_unwanted: AtomicBool,
    has_timed_out: AtomicBool,
}

/// Says when it is dropped that the client has left.
struct Claim(Arc<Signs>);

impl Readers {
    pub(super) fn new(options: &Options) -> Readers {
        Readers {
            state: Mutex::default(),
            has_changed: Condvar::new(),
            waiting_max: options.waiting_reads,
            limit: options.read_limit,
            is_closed: Arc::default(),
        }
    }

    /// Starts a thread with a connection of its own.
    pub(super) fn spawn(
        self: &Arc<Self>,
        name: &str,
        database: &Arc<Database>,
    ) -> Result<JoinHandle<()>, super::open::OpenError> {
        let connection =
            database.reader().map_err(super::open::OpenError::sqlite("opening it to read"))?;
        let (readers, database) = (self.clone(), database.clone());
        Ok(spawn(name, move || readers.run(connection, &database))?)
    }

    /// See [`super::Tables::read`].
    pub(super) async fn read<T: Send + 'static>(
        &self,
        account: &str,
        job: impl FnOnce(&Connection) -> T + Send + 'static,
    ) -> Result<T, ReadError> {
        let (answer, answered) = oneshot::channel();
        let run = Box::new(move |connection: &Connection| {
            // The client may have left.
            let _ = answer.send(job(connection));
        });
        let claim = Claim(Arc::default());
        let until = Instant::now() + self.limit;
        self.push(account, Job { signs: claim.0.clone(), until, run })?;
        let answered = answered.await;
        if claim.0.has_timed_out.load(Ordering::Relaxed) {
            return Err(ReadError::TimedOut(self.limit));
        }
        if self.is_closed.load(Ordering::Relaxed) {
            return Err(ReadError::Closed);
        }
        match answered {
            Ok(answer) => Ok(answer),
            Err(_) => Err(ReadError::Failed("a read panicked".to_owned())),
        }
    }

    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        let mut state = self.state();
        state.is_closed = true;
        let forgotten = std::mem::take(&mut state.waiting);
        state.turns.clear();
        state.count = 0;
        drop(state);
        drop(forgotten);
        self.has_changed.notify_all();
    }

    pub(super) fn count(&self) -> usize {
        self.state().count
    }

    fn push(&self, account: &str, job: Job) -> Result<(), ReadError> {
        let mut state = self.state();
        if state.is_closed {
            return Err(ReadError::Closed);
        }
        if !state.has_room(account, self.waiting_max) {
            state.forget_unwanted();
            if !state.has_room(account, self.waiting_max) {
                return Err(ReadError::Busy);
            }
        }
        state.count += 1;
        let waiting = state.waiting.entry(account.to_owned()).or_default();
        waiting.push_back(job);
        if waiting.len() == 1 {
            state.turns.push_back(account.to_owned());
        }
        drop(state);
        self.has_changed.notify_one();
        Ok(())
    }

    fn run(&self, mut connection: Connection, database: &Database) {
        while let Some(Job { signs, until, run }) = self.take() {
            if Instant::now() >= until {
                signs.has_timed_out.store(true, Ordering::Relaxed);
                continue;
            }
            if signs.is_unwanted.load(Ordering::Relaxed) {
                continue;
            }
            let _reading = database.reading();
            let is_closed = self.is_closed.clone();
            let handler = move || {
                let is_late = Instant::now() >= until;
                if is_late {
                    signs.has_timed_out.store(true, Ordering::Relaxed);
                }
                is_late
                    || is_closed.load(Ordering::Relaxed)
                    || signs.is_unwanted.load(Ordering::Relaxed)
            };
            if let Err(error) = connection.progress_handler(INSTRUCTIONS, Some(handler)) {
                tracing::error!(%error, "a read has no time limit");
            }
            // What panicked has not answered; the connection is as before, but for a transaction.
            if catch_unwind(AssertUnwindSafe(|| run(&connection))).is_err() {
                tracing::error!("a read panicked");
            }
            if !connection.is_autocommit()
                && let Err(error) = connection.execute_batch("ROLLBACK")
                && !is_interrupted(&error)
            {
                tracing::error!(%error, "a read did not end");
            }
        }
    }

    fn take(&self) -> Option<Job> {
        let is_idle = |state: &mut State| state.turns.is_empty() && !state.is_closed;
        let waited = self.has_changed.wait_while(self.state(), is_idle);
        waited.unwrap_or_else(PoisonError::into_inner).take()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn has_room(&self, account: &str, waiting_max: usize) -> bool {
        let of_account = self.waiting.get(account).map_or(0, VecDeque::len);
        may_take(of_account, self.count, waiting_max)
    }

    fn take(&mut self) -> Option<Job> {
        let account = self.turns.pop_front()?;
        let waiting = self.waiting.get_mut(&account)?;
        let job = waiting.pop_front();
        self.count -= usize::from(job.is_some());
        if waiting.is_empty() {
            self.waiting.remove(&account);
        } else {
            self.turns.push_back(account);
        }
        job
    }

    fn forget_unwanted(&mut self) {
        for waiting in self.waiting.values_mut() {
            waiting.retain(|job| !job.signs.is_unwanted.load(Ordering::Relaxed));
        }
        self.waiting.retain(|_, waiting| !waiting.is_empty());
        let waiting = &self.waiting;
        self.turns.retain(|account| waiting.contains_key(account));
        self.count = waiting.values().map(VecDeque::len).sum();
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.0.is_unwanted.store(true, Ordering::Relaxed);
    }
}
