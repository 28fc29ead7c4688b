//! The rate of calls under throttling: halved when the server throttles, raised step by step while
//! it does not (additive increase, multiplicative decrease), without a bound until it first does.
//!
//! Calls wait in a queue, and only its head has a turn, reckoned from the rate of the moment: who
//! gives up waiting costs nobody a turn.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};

/// Throttled calls within that time of a slow-down were under way before it.
const SETTLING: Duration = Duration::from_millis(500);
/// Without throttling for that long there is no bound any more.
const FORGET: Duration = Duration::from_secs(60);
/// Added to the rate per second without throttling: a twentieth of what was found too fast.
const INCREASE: f64 = 0.05;
const RATE_MIN: f64 = 0.5;
/// A call may be that late for its turn without delaying the next one: tokio's timers count in
/// milliseconds, and would allow no more than a thousand calls per second.
const CATCH_UP: Duration = Duration::from_millis(10);

#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Held by the call whose turn is next, while it waits; the others queue for it in order.
    head: tokio::sync::Mutex<()>,
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
    /// The turn of the last call since there is a bound.
    last_turn: Option<Instant>,
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
    /// Waits for this call's turn. Cancel safety: no turn is taken.
    pub(super) async fn admit(&self) {
        if self.locked(|state| state.admit_unbounded(Instant::now())) {
            return;
        }
        let _head = self.head.lock().await;
        // The rate may have changed meanwhile.
        while let Err(turn) = self.locked(|state| state.take_turn(Instant::now())) {
            sleep_until(turn).await;
        }
    }

    /// The same, but `false`, and no turn taken, if it has not come by `until`.
    pub(super) async fn admit_until(&self, until: Option<Instant>) -> bool {
        match until {
            None => {
                self.admit().await;
                true
            }
            Some(until) => timeout_at(until, self.admit()).await.is_ok(),
        }
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
    /// Whether there is no bound; the call is then counted. Forgets a bound that is out of date,
    /// also where no call succeeds.
    fn admit_unbounded(&mut self, now: Instant) -> bool {
        if self.limit.is_some_and(|limit| now > limit.slowed_at + FORGET) {
            self.limit = None;
        }
        if self.limit.is_none() {
            self.counted.count(now);
        }
        self.limit.is_none()
    }

    /// Counts a call whose turn it is, else says when that will be.
    fn take_turn(&mut self, now: Instant) -> Result<(), Instant> {
        if self.admit_unbounded(now) {
            return Ok(());
        }
        let Some(limit) = &mut self.limit else { return Ok(()) };
        let turn = limit.next_turn(now);
        if turn > now {
            return Err(turn);
        }
        limit.last_turn = Some(turn);
        self.counted.count(now);
        Ok(())
    }

    fn slow_down(&mut self, now: Instant) {
        let too_fast = match &self.limit {
            Some(limit) if now < limit.slowed_at + SETTLING => return,
            Some(limit) => limit.rate,
            None => self.counted.rate(),
        };
        let rate = (too_fast / 2.0).max(RATE_MIN);
        let last_turn = self.limit.and_then(|limit| limit.last_turn);
        self.limit = Some(Limit { rate, too_fast, last_turn, raised_at: now, slowed_at: now });
    }

    fn speed_up(&mut self, now: Instant) {
        let Some(limit) = &mut self.limit else { return };
        let passed = now.duration_since(limit.raised_at).as_secs_f64();
        limit.raised_at = now;
        limit.rate += (limit.too_fast * INCREASE).max(1.0) * passed;
    }
}

impl Limit {
    /// When the next call may be made, at the rate of now.
    fn next_turn(&self, now: Instant) -> Instant {
        let Some(last) = self.last_turn else { return now };
        let turn = last + Duration::from_secs_f64(1.0 / self.rate);
        // Whoever made no calls for a while saves up no turns.
        now.checked_sub(CATCH_UP).map_or(turn, |earliest| turn.max(earliest))
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
    use std::task::Poll;

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

    /// Waits until all of them, at once, are done.
    async fn all(calls: impl Iterator<Item = impl Future<Output = ()>>) {
        let mut calls: Vec<_> = calls.map(Box::pin).collect();
        std::future::poll_fn(|context| {
            calls.retain_mut(|call| call.as_mut().poll(context).is_pending());
            if calls.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
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

    /// A client of few calls was throttled once.
    async fn throttled_when_idle() -> Pace {
        let pace = Pace::default();
        pace.admit().await;
        pace.throttled();
        pace
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_that_comes_too_late_is_not_taken() {
        let pace = throttled_when_idle().await;
        // One call every two seconds.
        pace.admit().await;
        let started = Instant::now();

        assert!(!pace.admit_until(Some(started + Duration::from_secs(1))).await);
        assert_eq!(started.elapsed(), Duration::from_secs(1));
        assert!(pace.admit_until(Some(started + Duration::from_secs(2))).await);
        assert_eq!(started.elapsed(), Duration::from_secs(2));
    }

    #[tokio::test(start_paused = true)]
    async fn calls_that_wait_go_faster_as_the_rate_rises() {
        let pace = throttled_when_idle().await;
        let started = Instant::now();

        let calls = (0..500).map(|_| async {
            pace.admit().await;
            pace.succeeded();
        });
        all(calls).await;

        assert!(started.elapsed() < Duration::from_secs(35), "{:?}", started.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn calls_that_gave_up_waiting_hold_up_nobody() {
        let pace = throttled_when_idle().await;
        pace.admit().await;
        let soon = Some(Instant::now() + Duration::from_secs(1));
        let given_up = (0..500).map(|_| async {
            assert!(!pace.admit_until(soon).await);
        });
        all(given_up).await;
        let started = Instant::now();

        pace.admit().await;

        assert_eq!(started.elapsed(), Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn the_bound_is_forgotten_though_no_call_succeeds() {
        let pace = throttled_when_idle().await;
        tokio::time::sleep(FORGET + Duration::from_millis(1)).await;
        let started = Instant::now();

        for _ in 0..100 {
            pace.admit().await;
        }

        assert_eq!(started.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn high_rates_are_not_cut_to_what_timers_can_tell_apart() {
        let pace = Pace::default();
        for _ in 0..8000 {
            pace.admit().await;
        }
        pace.throttled();
        let started = Instant::now();

        for _ in 0..4000 {
            pace.admit().await;
        }

        let passed = started.elapsed();
        assert!(passed >= Duration::from_millis(980), "{passed:?}");
        assert!(passed <= Duration::from_millis(1020), "{passed:?}");
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
