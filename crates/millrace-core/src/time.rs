//! The server's one clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Later than every deadline.
    pub const NEVER: Timestamp = Timestamp(u64::MAX);

    /// Whole seconds since the epoch, as queue attributes report times.
    pub fn seconds(self) -> u64 {
        self.0 / 1000
    }

    /// This instant plus `seconds`, saturating.
    pub fn plus_seconds(self, seconds: u64) -> Timestamp {
        self.plus_millis(seconds.saturating_mul(1000))
    }

    /// This instant plus `millis`, saturating.
    pub fn plus_millis(self, millis: u64) -> Timestamp {
        Timestamp(self.0.saturating_add(millis))
    }

    /// Milliseconds from `earlier` to this instant, 0 if it is not earlier.
    pub fn millis_since(self, earlier: Timestamp) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Where the present comes from; only the binary and simulations make one.
pub trait Clock: Send + Sync {
    /// The present. Never runs backwards.
    fn now(&self) -> Timestamp;

    /// Moves the clock forward (test mode).
    fn advance(&self, by: Duration);
}

/// Wall time at start plus the time elapsed since, so that a stepped wall clock neither ends a
/// visibility timeout early nor makes a deadline run backwards.
#[derive(Debug)]
pub struct SystemClock {
    started: Instant,
    base_ms: AtomicU64,
}

impl SystemClock {
    /// A clock that shows the wall's time.
    pub fn new() -> SystemClock {
        SystemClock { started: Instant::now(), base_ms: AtomicU64::new(wall_ms()) }
    }

    /// How far the wall's clock is ahead of this one, in milliseconds; negative if it is behind. It is
    /// once it was set after the start, or was behind what the journal tells at the start.
    pub fn lag_ms(&self) -> i64 {
        wall_ms().cast_signed().wrapping_sub(self.now().0.cast_signed())
    }

    /// Steps forward to `time` if that is later: time read back from a journal is never in the
    /// future of the server that replays it.
    pub fn at_least(&self, time: Timestamp) {
        self.advance(Duration::from_millis(time.millis_since(self.now())));
    }
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let elapsed_ms = self.started.elapsed().as_millis() as u64;
        Timestamp(self.base_ms.load(Ordering::Relaxed).saturating_add(elapsed_ms))
    }

    fn advance(&self, by: Duration) {
        self.base_ms.fetch_add(by.as_millis() as u64, Ordering::Relaxed);
    }
}

fn wall_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_shows_the_walls_time_until_it_is_moved() {
        let clock = SystemClock::new();
        assert!(clock.lag_ms().abs() < 1000, "{}", clock.lag_ms());
        let before = clock.now();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        assert!(before.seconds().abs_diff(wall.as_secs()) <= 1, "{before:?}, {wall:?}");

        clock.at_least(Timestamp(0));
        clock.at_least(before.plus_seconds(3600));

        assert!(clock.now() >= before.plus_seconds(3600));
        assert!((clock.lag_ms() + 3_600_000).abs() < 1000, "{}", clock.lag_ms());
    }
}
