//! Time, as the replicated journal sees it.

use std::time::Duration;

/// Monotonic time, and waiting for it. A simulation lets others act meanwhile.
pub trait Clock: Send + Sync {
    /// Time since any origin.
    fn now(&self) -> Duration;

    /// Returns once so much time has passed.
    fn sleep(&self, time: Duration);
}

/// The longest wait for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// For the answer to the first try of an append.
    pub first_answer: Duration,
    /// For the answer to each later one.
    pub answer: Duration,
    /// Between two tries.
    pub pause: Duration,
    /// For an append to be settled, and for what is known to be in the log to be read. Longer than
    /// the log takes to elect a leader.
    pub limit: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            first_answer: Duration::from_millis(900),
            answer: Duration::from_millis(500),
            pause: Duration::from_millis(50),
            limit: Duration::from_secs(30),
        }
    }
}
