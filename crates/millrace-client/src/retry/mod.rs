//! Trying again: what may succeed later, after a while, and only as often as the budget allows.
//!
//! [`Retrying`] is a peer around a peer. Calls are repeated with exponential back-off and full
//! jitter; of a batch only the entries that failed and may succeed are sent again; a batch with too
//! many bytes is halved. Throttling slows all calls of the peer down, not just the one.

mod budget;
mod entries;
mod pace;
mod peer;

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::error::{CallError, CallErrorKind};

pub use peer::Retrying;

use budget::Budget;
use pace::Pace;

/// Whoever asks for more patience than that gets another try all the same.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(900);

/// When and how often to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetryOptions {
    /// Attempts in all; one means no retry.
    pub attempts: u32,
    /// The longest wait before the first retry; it doubles from retry to retry.
    pub base: Duration,
    /// The longest wait before any retry, but for what `Retry-After` asks.
    pub cap: Duration,
    /// Retries in a row over all calls; after that one more for every ten calls that succeed.
    pub budget: u32,
}

impl Default for RetryOptions {
    fn default() -> RetryOptions {
        RetryOptions {
            attempts: 6,
            base: Duration::from_millis(50),
            cap: Duration::from_secs(10),
            budget: 100,
        }
    }
}

/// What the calls of one peer share.
#[derive(Debug)]
struct Retry {
    options: RetryOptions,
    budget: Budget,
    pace: Pace,
}

impl Retry {
    fn new(options: RetryOptions) -> Retry {
        Retry { options, budget: Budget::new(options.budget), pace: Pace::default() }
    }

    /// Makes one attempt that the pace has admitted.
    async fn attempt<T>(
        &self,
        call: impl Future<Output = Result<T, CallError>>,
    ) -> Result<T, CallError> {
        let outcome = call.await;
        match &outcome {
            Ok(_) => {
                self.budget.earn();
                self.pace.succeeded();
            }
            Err(error) if error.kind == CallErrorKind::Throttled => self.pace.throttled(),
            Err(_) => {}
        }
        outcome
    }

    /// Waits before retry number `retry`, counted from 1. `false` if there is to be none, also
    /// because it would come after `until`.
    async fn wait(&self, retry: u32, at_least: Option<Duration>, until: Option<Instant>) -> bool {
        if retry >= self.options.attempts {
            return false;
        }
        let doubled = self.options.base.saturating_mul(1 << (retry - 1).min(20));
        let longest = doubled.min(self.options.cap);
        let drawn = longest.mul_f64(fastrand::f64());
        let at_least = at_least.unwrap_or_default().min(RETRY_AFTER_MAX);
        let wait = drawn.max(at_least);
        if until.is_some_and(|until| Instant::now() + wait > until) || !self.budget.spend() {
            return false;
        }
        sleep(wait).await;
        true
    }

    /// Repeats a call that changes nothing when it fails.
    async fn call<T, F>(&self, call: impl Fn() -> F) -> Result<T, CallError>
    where
        F: Future<Output = Result<T, CallError>>,
    {
        let mut retry = 0;
        let mut is_ambiguous = false;
        loop {
            self.pace.admit().await;
            let mut error = match self.attempt(call()).await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            // What an earlier attempt may have done stays open.
            is_ambiguous |= error.is_ambiguous;
            error.is_ambiguous = is_ambiguous;
            retry += 1;
            if !error.is_retryable() || !self.wait(retry, error.retry_after, None).await {
                return Err(error);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::time::Instant;

    use super::*;

    fn unavailable() -> CallError {
        CallError::new(CallErrorKind::Server, "ServiceUnavailable", "")
    }

    /// Calls until success, failing `failures` times; how often it was called, and the outcome.
    async fn run(retry: &Retry, failures: u32, error: CallError) -> (u32, Result<(), CallError>) {
        let count = Cell::new(0);
        let outcome = retry.call(|| async {
            count.set(count.get() + 1);
            if count.get() <= failures { Err(error.clone()) } else { Ok(()) }
        });
        let outcome = outcome.await;
        (count.get(), outcome)
    }

    #[tokio::test(start_paused = true)]
    async fn retries_end_with_success_the_last_attempt_or_an_error_that_stays() {
        let retry = Retry::new(RetryOptions::default());
        let refused = CallError::new(CallErrorKind::Refused, "InvalidAddress", "");

        assert_eq!(run(&retry, 3, unavailable()).await, (4, Ok(())));
        assert_eq!(run(&retry, 9, unavailable()).await, (6, Err(unavailable())));
        assert_eq!(run(&retry, 9, refused.clone()).await, (1, Err(refused)));
    }

    #[tokio::test(start_paused = true)]
    async fn one_ambiguous_attempt_makes_the_outcome_ambiguous() {
        let retry = Retry::new(RetryOptions::default());
        let refused = CallError::new(CallErrorKind::Transport, "connect", "");
        for ambiguous in 0..6 {
            let count = Cell::new(0);
            let outcome = retry.call::<(), _>(|| async {
                let attempt = count.replace(count.get() + 1);
                let error = refused.clone();
                Err(if attempt == ambiguous { error.ambiguous() } else { error })
            });

            assert_eq!(outcome.await, Err(refused.clone().ambiguous()));
            assert_eq!(count.get(), 6);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn waits_double_up_to_the_cap_and_respect_retry_after() {
        let options = RetryOptions { attempts: 2, ..RetryOptions::default() };
        let (mut longest, mut shortest) = (Duration::ZERO, Duration::MAX);
        for _ in 0..200 {
            let started = Instant::now();
            run(&Retry::new(options), 1, unavailable()).await.1.unwrap();
            longest = longest.max(started.elapsed());
            shortest = shortest.min(started.elapsed());
        }
        // tokio's timers have a resolution of a millisecond.
        assert!(longest <= Duration::from_millis(51), "{longest:?}");
        assert!(longest > Duration::from_millis(25), "{longest:?}");
        assert!(shortest < Duration::from_millis(25), "full jitter: {shortest:?}");

        let mut late = unavailable();
        late.retry_after = Some(Duration::from_secs(7));
        let started = Instant::now();
        run(&Retry::new(options), 1, late).await.1.unwrap();
        assert_eq!(started.elapsed(), Duration::from_secs(7));

        let mut never = unavailable();
        never.retry_after = Some(Duration::MAX);
        let started = Instant::now();
        run(&Retry::new(options), 1, never).await.1.unwrap();
        assert_eq!(started.elapsed(), RETRY_AFTER_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_is_not_answered_with_a_storm() {
        let options = RetryOptions { budget: 10, ..RetryOptions::default() };
        let retry = Retry::new(options);
        let mut attempts = 0;
        for _ in 0..100 {
            attempts += run(&retry, u32::MAX, unavailable()).await.0;
        }
        assert_eq!(attempts, 100 + 10);

        for _ in 0..10 {
            run(&retry, 0, unavailable()).await.1.unwrap();
        }
        assert_eq!(run(&retry, 1, unavailable()).await, (2, Ok(())));
    }
}
