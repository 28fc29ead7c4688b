//! How slowly a body may come, and an answer be taken: a byte a millisecond on average, with pauses
//! up to the timeout. A burst earns no longer pause: with one a client could hold memory for long.

use std::time::Duration;

use crate::clock::millis;

/// The pace of one body.
#[derive(Debug)]
pub(crate) struct Pace {
    timeout_ms: u64,
    deadline_ms: u64,
}

impl Pace {
    pub(crate) fn new(now_ms: u64, timeout: Duration) -> Pace {
        let timeout_ms = millis(timeout);
        Pace { timeout_ms, deadline_ms: now_ms.saturating_add(timeout_ms) }
    }

    /// When something must have come.
    pub(crate) fn deadline_ms(&self) -> u64 {
        self.deadline_ms
    }

    pub(crate) fn received(&mut self, now_ms: u64, bytes: usize) {
        let earned_ms = u64::try_from(bytes).unwrap_or(u64::MAX);
        let latest_ms = now_ms.saturating_add(self.timeout_ms);
        self.deadline_ms = self.deadline_ms.saturating_add(earned_ms).min(latest_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_keeps_the_pace_may_go_on_and_who_only_shows_a_byte_may_not() {
        let mut steady = Pace::new(0, Duration::from_secs(30));
        let mut burst = Pace::new(0, Duration::from_secs(30));
        burst.received(1, 8_000_000);

        for now_ms in (10_000..1_000_000).step_by(10_000) {
            assert!(steady.deadline_ms() > now_ms);
            steady.received(now_ms, 10_000);
        }

        assert_eq!(burst.deadline_ms(), 30_001);
        burst.received(29_000, 1);
        assert_eq!(burst.deadline_ms(), 30_002);
    }
}
