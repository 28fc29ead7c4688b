//! The rate of calls under throttling: halved when the server throttles, raised step by step while
//! it does not (additive increase, multiplicative decrease), without a bound until it first does.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// Throttled calls within that time of a slow-down were under way before it.
const SETTLING: Duration = Duration::from_millis(500);
/// Without throttling for that long there is no bound any more.
const FORGET: Duration = Duration::from_secs(60);
/// Added to the rate per second without throttling: a twentieth of what was found too fast.
const INCREASE: f64 = 0.05;
const RATE_MIN: f64 = 0.5;

#[derive(Debug, Default)]
pub(super) struct Pace {
    /// A lock because all calls share it; held for some arithmetic.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The bound, once there was throttling.
    limit: Option<Limit>,
    /// Calls of the current and the last whole second, to know the rate that was too fast.
    counted: Counted,
}

#[derive(Clone, Copy, Debug)]
struct Limit {
    /// Calls per second.
    rate: f64,
    too_fast: f64,
    next_at: Instant,
    raised_at: Instant,
    slowed_at: Instant,
}

#[derive(Debug, Default)]
struct Counted {
    second_began: Option<Instant>,
    current: u32,
    last: u32,
}

impl Pace {
    /// Waits for this call's turn. Cancel safety: the turn is lost.
    pub(super) async fn admit(&self) {
        self.admit_until(None).await;
    }

    /// The same, but `false` at once, and no turn taken, if it would come after `until`.
    pub(super) async fn admit_until(&self, until: Option<Instant>) -> bool {
        let now = Instant::now();
        match self.locked(|state| state.next_turn(now, until)) {
            Some(turn) if turn > now => sleep_until(turn).await,
            Some(_) => {}
            None => return false,
        }
        true
    }

    pub(super) fn throttled(&self) {
        self.locked(|state| state.slow_down(Instant::now()));
    }

    pub(super) fn succeeded(&self) {
        self.locked(|state| {
            if state.limit.is_some() {
                state.speed_up(Instant::now());
            }
        });
    }

    fn locked<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl State {
    /// When the call may be made; `None` if that is after `until`.
    fn next_turn(&mut self, now: Instant, until: Option<Instant>) -> Option<Instant> {
        let turn = self.limit.map_or(now, |limit| limit.next_at.max(now));
        if until.is_some_and(|until| turn > until) {
            return None;
        }
        self.counted.count(now);
        if let Some(limit) = &mut self.limit {
            limit.next_at = turn + Duration::from_secs_f64(1.0 / limit.rate);
        }
        Some(turn)
    }

    fn slow_down(&mut self, now: Instant) {
        let too_fast = match &self.limit {
            Some(limit) if now < limit.slowed_at + SETTLING => return,
            Some(limit) => limit.rate,
            None => self.counted.rate(),
        };
        let rate = (too_fast / 2.0).max(RATE_MIN);
        let limit = Limit { rate, too_fast, next_at: now, raised_at: now, slowed_at: now };
        self.limit = Some(limit);
    }

    fn speed_up(&mut self, now: Instant) {
        let Some(limit) = &mut self.limit else { return };
        if now > limit.slowed_at + FORGET {
            self.limit = None;
            return;
        }
        let passed = now.duration_since(limit.raised_at).as_secs_f64();
        limit.raised_at = now;
        limit.rate += (limit.too_fast * INCREASE).max(1.0) * passed;
    }
}

impl Counted {
    fn count(&mut self, now: Instant) {
        let began = *self.second_began.get_or_insert(now);
        let passed = now.duration_since(began);
        if passed >= Duration::from_secs(1) {
            // Whoever has paused for longer has no last second.
            self.last = if passed < Duration::from_secs(2) { self.current } else { 0 };
            self.current = 0;
            self.second_began = Some(now);
        }
        self.current = self.current.saturating_add(1);
    }

    /// Calls per second, the larger of the two counts.
    fn rate(&self) -> f64 {
        f64::from(self.current.max(self.last).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls made within `time`, when a server admits `capacity` of them per second.
    async fn calls_within(pace: &Pace, time: Duration, capacity: u32) -> (u32, u32) {
        let until = Instant::now() + time;
        let (mut accepted, mut throttled) = (0, 0);
        let (mut second, mut in_second) = (Instant::now(), 0);
        while Instant::now() < until {
            pace.admit().await;
            tokio::time::sleep(Duration::from_millis(1)).await;
            if second.elapsed() >= Duration::from_secs(1) {
                (second, in_second) = (Instant::now(), 0);
            }
            in_second += 1;
            if in_second > capacity {
                throttled += 1;
                pace.throttled();
            } else {
                accepted += 1;
                pace.succeeded();
            }
        }
        (accepted, throttled)
    }

    #[tokio::test(start_paused = true)]
    async fn without_throttling_there_is_no_bound() {
        let (accepted, _) = calls_within(&Pace::default(), Duration::from_secs(2), u32::MAX).await;
        assert!(accepted >= 1990, "{accepted}");
    }

    #[tokio::test(start_paused = true)]
    async fn under_throttling_most_of_the_capacity_is_used_and_few_calls_are_wasted() {
        let pace = Pace::default();
        let (accepted, throttled) = calls_within(&pace, Duration::from_secs(60), 100).await;

        assert!(accepted > 60 * 60, "{accepted} accepted");
        assert!(throttled < accepted / 20, "{throttled} throttled of {accepted}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_that_comes_too_late_is_not_taken() {
        let pace = Pace::default();
        pace.throttled();
        // Two seconds each.
        for _ in 0..10 {
            pace.locked(|state| state.next_turn(Instant::now(), None));
        }
        let started = Instant::now();

        assert!(!pace.admit_until(Some(started + Duration::from_secs(19))).await);
        assert_eq!(started.elapsed(), Duration::ZERO);
        assert!(pace.admit_until(Some(started + Duration::from_secs(20))).await);
        assert_eq!(started.elapsed(), Duration::from_secs(20));
    }

    #[tokio::test(start_paused = true)]
    async fn the_bound_is_forgotten_when_throttling_ends() {
        let pace = Pace::default();
        calls_within(&pace, Duration::from_secs(5), 10).await;
        calls_within(&pace, Duration::from_secs(70), u32::MAX).await;

        let (accepted, _) = calls_within(&pace, Duration::from_secs(1), u32::MAX).await;
        assert!(accepted >= 990, "{accepted}");
    }
}
