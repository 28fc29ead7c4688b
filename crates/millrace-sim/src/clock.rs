//! A clock that only the scheduler moves, and only forward.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use millrace_core::{Clock, Timestamp};

/// 2026-01-01T00:00:00Z.
const START_MS: u64 = 1_767_225_600_000;

/// Simulated time. Survives restarts, as the world's time does.
#[derive(Debug)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    pub fn new() -> ManualClock {
        ManualClock(AtomicU64::new(START_MS))
    }

    pub fn ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Default for ManualClock {
    fn default() -> ManualClock {
        ManualClock::new()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.ms())
    }

    fn advance(&self, by: Duration) {
        self.0.fetch_add(by.as_millis() as u64, Ordering::Relaxed);
    }
}
