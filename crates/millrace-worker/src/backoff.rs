//! How long a message stays hidden after a failure, from its receive count.
//!
//! SQS hides a message for 12 hours at most, counted from its receive; no policy says more.

use std::{fmt, sync::Arc, time::Duration};

/// SQS: a message can be hidden for 12 hours at most, counted from its receive.
pub const MAX_VISIBILITY: Duration = Duration::from_secs(12 * 60 * 60);

/// How long a message can be held and hidden in all: a request takes its time to the server, which
/// refuses what ends a moment too late.
pub(crate) const LONGEST_HELD: Duration = MAX_VISIBILITY.saturating_sub(Duration::from_secs(2));

/// Delay before the next attempt, by receive count (1 for a message's first receive).
#[derive(Clone)]
pub enum Backoff {
    /// `base * factor^(receive count - 1)`, `cap` at most.
    Exponential {
        /// Delay after the first failure.
        base: Duration,
        /// What each further failure multiplies it by; 1 for a constant delay.
        factor: f64,
        /// The longest delay.
        cap: Duration,
        /// Whether delays are spread: messages that failed together are not to return together.
        jitter: Jitter,
    },
    /// The n-th delay after the n-th failure; the last one is repeated. Empty: no delay.
    List(Vec<Duration>),
    /// Any function of the receive count.
    Function(Arc<dyn Fn(u32) -> Duration + Send + Sync>),
}

/// How a delay is spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jitter {
    /// Not at all.
    None,
    /// Evenly between half the delay and all of it.
    Half,
    /// Evenly between nothing and all of the delay.
    Full,
}

impl Backoff {
    /// The delay after a failure of a message received `receive_count` times.
    pub fn delay(&self, receive_count: u32) -> Duration {
        let failures = receive_count.saturating_sub(1);
        let delay = match self {
            Backoff::Exponential { base, factor, cap, jitter } => {
                let exponent = i32::try_from(failures).unwrap_or(i32::MAX);
                let seconds = base.as_secs_f64() * factor.powi(exponent);
                jitter.spread(seconds_at_most(seconds, *cap), fastrand::f64())
            }
            Backoff::List(delays) => {
                let index = usize::try_from(failures).unwrap_or(usize::MAX);
                delays.get(index).or(delays.last()).copied().unwrap_or_default()
            }
            Backoff::Function(function) => function(receive_count),
        };
        delay.min(MAX_VISIBILITY)
    }
}

impl Default for Backoff {
    /// 2 s, doubled each time, 15 minutes at most, half of it spread.
    fn default() -> Backoff {
        Backoff::Exponential {
            base: Duration::from_secs(2),
            factor: 2.0,
            cap: Duration::from_secs(15 * 60),
            jitter: Jitter::Half,
        }
    }
}

impl fmt::Debug for Backoff {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Backoff::Exponential { base, factor, cap, jitter } => out
                .debug_struct("Exponential")
                .field("base", base)
                .field("factor", factor)
                .field("cap", cap)
                .field("jitter", jitter)
                .finish(),
            Backoff::List(delays) => out.debug_tuple("List").field(delays).finish(),
            Backoff::Function(_) => out.write_str("Function"),
        }
    }
}

impl Jitter {
    /// `delay` spread by `random`, from 0 up to but not including 1.
    fn spread(self, delay: Duration, random: f64) -> Duration {
        match self {
            Jitter::None => delay,
            Jitter::Half => delay.mul_f64(0.5 + random / 2.0),
            Jitter::Full => delay.mul_f64(random),
        }
    }
}

/// A delay between attempts of a call that keeps failing: `base` doubled each time, `cap` at most,
/// with full jitter, so that workers which failed together do not return together.
pub(crate) fn call_delay(base: Duration, failures: u32, cap: Duration) -> Duration {
    let exponent = i32::try_from(failures.saturating_sub(1)).unwrap_or(i32::MAX);
    let seconds = base.as_secs_f64() * 2f64.powi(exponent);
    // A tenth at least: a delay of nothing would be a loop without pause.
    Jitter::Full.spread(seconds_at_most(seconds, cap), 0.1 + 0.9 * fastrand::f64())
}

/// Also sound for what a power overflows to: infinity, and not a number from a factor of nonsense.
fn seconds_at_most(seconds: f64, cap: Duration) -> Duration {
    if seconds < cap.as_secs_f64() { Duration::from_secs_f64(seconds.max(0.0)) } else { cap }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exponential(factor: f64, jitter: Jitter) -> Backoff {
        let (base, cap) = (Duration::from_secs(2), Duration::from_secs(60));
        Backoff::Exponential { base, factor, cap, jitter }
    }

    #[test]
    fn exponential_delay_doubles_up_to_its_cap() {
        let backoff = exponential(2.0, Jitter::None);

        let seconds: Vec<u64> = (0..8).map(|count| backoff.delay(count).as_secs()).collect();

        assert_eq!(seconds, [2, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(backoff.delay(u32::MAX).as_secs(), 60);
    }

    #[test]
    fn factor_without_sense_never_panics() {
        for factor in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -2.0, 0.0] {
            for count in [1, 2, 3, u32::MAX] {
                assert!(exponential(factor, Jitter::Half).delay(count).as_secs() <= 60);
            }
        }
    }

    #[test]
    fn jitter_stays_between_its_bounds() {
        let delay = Duration::from_secs(10);

        assert_eq!(Jitter::None.spread(delay, 0.3), delay);
        assert_eq!(Jitter::Half.spread(delay, 0.0), Duration::from_secs(5));
        assert_eq!(Jitter::Half.spread(delay, 0.5), Duration::from_millis(7500));
        assert_eq!(Jitter::Full.spread(delay, 0.0), Duration::ZERO);
        assert_eq!(Jitter::Full.spread(delay, 0.5), Duration::from_secs(5));
    }

    #[test]
    fn list_repeats_its_last_delay() {
        let backoff = Backoff::List([1, 5, 30].map(Duration::from_secs).to_vec());

        let seconds: Vec<u64> = (1..6).map(|count| backoff.delay(count).as_secs()).collect();

        assert_eq!(seconds, [1, 5, 30, 30, 30]);
        assert_eq!(Backoff::List(Vec::new()).delay(3), Duration::ZERO);
    }

    #[test]
    fn no_policy_hides_for_more_than_twelve_hours() {
        let function = Backoff::Function(Arc::new(|count| Duration::from_secs(7200) * count));

        assert_eq!(function.delay(1), Duration::from_secs(7200));
        assert_eq!(function.delay(9), MAX_VISIBILITY);
    }

    #[test]
    fn failing_call_always_pauses() {
        let (base, cap) = (Duration::from_millis(100), Duration::from_secs(10));
        for failures in 0..40 {
            let delay = call_delay(base, failures, cap);
            assert!(delay >= Duration::from_millis(10) && delay <= cap, "{delay:?}");
        }
    }
}
