//! A shared log for tests: in memory, on a clock of its own, and as bad as the contract allows.
//!
//! Its faults are those that were met with real engines: answers are lost, requests arrive late or
//! twice, a refusal counts what is proposed and not committed, an election drops what is proposed
//! or lets it arrive after all, a late message is taken although it was to follow another, readers
//! lag behind, and a purge is not done everywhere at once. What it was [acknowledged](crate::log)
//! to have it keeps. One seed, one run.

mod state;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use crate::clock::Clock;
use crate::log::{Bounds, LogFormat, Published, SharedLog, Silence};
use state::State;

/// Frequency of each fault, of a thousand times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// A request does not arrive, or not yet.
    pub lost_request: u16,
    /// It arrives, and its answer does not.
    pub lost_answer: u16,
    /// A copy of it arrives later.
    pub duplicate: u16,
    /// A message is proposed, and committed later, if no election comes between.
    pub slow_commit: u16,
    /// A message that comes late is taken although another follows what it was to follow.
    pub misplaced: u16,
    /// The log loses its leader.
    pub election: u16,
    /// A reader lags behind.
    pub lag: u16,
}

impl Faults {
    /// All kinds, each as rare or frequent as the seed says.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        Self {
            lost_request: random.u16(0..150),
            lost_answer: random.u16(0..150),
            duplicate: random.u16(0..100),
            slow_commit: random.u16(0..200),
            misplaced: random.u16(0..800),
            election: random.u16(0..30),
            lag: random.u16(0..400),
        }
    }
}

/// Number of times that each fault has happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Happened {
    pub lost_requests: u64,
    pub lost_answers: u64,
    pub duplicates: u64,
    pub slow_commits: u64,
    /// Refusals on account of what was not there and could be read by nobody.
    pub refused_for_proposals: u64,
    pub misplaced: u64,
    pub elections: u64,
    /// Proposals that an election did away with.
    pub dropped: u64,
    pub lags: u64,
    /// Readers that still showed what was purged.
    pub purges_under_way: u64,
}

/// The log and its clock. Clones share them.
#[derive(Clone)]
pub struct SimLog {
    format: LogFormat,
    state: Arc<Mutex<State>>,
}

/// One node's end of a [`SimLog`].
pub struct SimConnection {
    log: SimLog,
    is_cut: AtomicBool,
}

impl SimLog {
    #[must_use]
    pub fn new(seed: u64, format: LogFormat) -> Self {
        Self { format, state: Arc::new(Mutex::new(State::new(seed))) }
    }

    #[must_use]
    pub fn connect(&self) -> Arc<SimConnection> {
        Arc::new(SimConnection { log: self.clone(), is_cut: AtomicBool::new(false) })
    }

    pub fn set_faults(&self, faults: Faults) {
        self.state().faults = faults;
    }

    /// The leader is lost; another comes after some time.
    pub fn elect(&self) {
        self.state().elect();
    }

    /// From now on there are no faults. What is under way arrives, or never does.
    pub fn calm(&self) {
        let mut state = self.state();
        state.faults = Faults::default();
        state.pass(Duration::from_secs(60));
    }

    /// The log takes so many bytes more.
    pub fn set_room(&self, bytes: u64) {
        self.state().room_bytes = bytes;
    }

    /// All messages that it ever took, from number 1 on, also those that were purged.
    #[must_use]
    pub fn history(&self) -> Vec<Bytes> {
        self.state().messages.clone()
    }

    /// Number of the oldest message that was not purged.
    #[must_use]
    pub fn first(&self) -> u64 {
        self.state().first
    }

    #[must_use]
    pub fn happened(&self) -> Happened {
        self.state().happened
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for SimLog {
    fn now(&self) -> Duration {
        self.state().now
    }

    fn sleep(&self, time: Duration) {
        self.state().pass(time);
    }
}

impl SimConnection {
    /// Nothing arrives any more, in either direction.
    pub fn cut(&self) {
        self.is_cut.store(true, Ordering::Relaxed);
    }

    pub fn heal(&self) {
        self.is_cut.store(false, Ordering::Relaxed);
    }

    /// The state of the log, after some time if it cannot be reached.
    fn reach(&self, timeout: Duration) -> Result<MutexGuard<'_, State>, Silence> {
        let mut state = self.log.state();
        if self.is_cut.load(Ordering::Relaxed) {
            state.pass(timeout);
            return Err(Silence("cut off".into()));
        }
        state.pass(Duration::from_millis(1));
        Ok(state)
    }
}

/// Readers and the control plane answer within this, or not at all.
const READ_TIMEOUT: Duration = Duration::from_millis(250);

impl SharedLog for SimConnection {
    fn format(&self) -> LogFormat {
        self.log.format
    }

    fn publish(&self, expected: u64, message: &Bytes, timeout: Duration) -> Published {
        match self.reach(timeout) {
            Ok(mut state) => state.publish(expected, message, timeout),
            Err(silence) => Published::Silent(silence),
        }
    }

    fn read(&self, from: u64, max_bytes: usize) -> Result<Vec<(u64, Bytes)>, Silence> {
        let mut state = self.reach(READ_TIMEOUT)?;
        state.may_be_silent(READ_TIMEOUT)?;
        let (first, last) = state.shown();
        let mut bytes = 0;
        let mut shown = Vec::new();
        for sequence in from.max(first)..=last {
            let Some(message) = state.message(sequence) else { break };
            bytes += message.len();
            shown.push((sequence, message));
            if bytes >= max_bytes {
                break;
            }
        }
        Ok(shown)
    }

    fn bounds(&self) -> Result<Bounds, Silence> {
        let mut state = self.reach(READ_TIMEOUT)?;
        state.may_be_silent(READ_TIMEOUT)?;
        let (first, last) = state.shown();
        Ok(Bounds { first, last, room_bytes: state.room_bytes })
    }

    fn purge_before(&self, sequence: u64) -> Result<(), Silence> {
        let mut state = self.reach(READ_TIMEOUT)?;
        state.may_be_silent(READ_TIMEOUT)?;
        state.purge_before(sequence);
        state.may_be_silent(READ_TIMEOUT)
    }
}
