//! When to ask again a peer that does not wait for messages.
//!
//! A fixed interval either asks far too often or caps throughput at one batch an interval. This one
//! follows the rate of arrivals: about two receives for each message that is expected, at once
//! after a full batch, and never later than the idle latency that the user accepts.

use std::time::Duration;

use tokio::time::Instant;

/// The time constant of the measured rate, in seconds: how soon a change of it is believed.
const MEMORY_S: f64 = 10.0;

/// Chooses the pause between two receives.
#[derive(Debug)]
pub(crate) struct PollInterval {
    /// Never ask sooner than this, unless the last receive was full.
    shortest: Duration,
    /// Never ask later than this: the longest that a message may wait for an idle worker.
    longest: Duration,
    /// Messages a second.
    rate: f64,
    last: Option<Instant>,
}

impl PollInterval {
    pub(crate) fn new(shortest: Duration, longest: Duration) -> PollInterval {
        PollInterval { shortest: shortest.min(longest), longest, rate: 0.0, last: None }
    }

    /// The pause after a receive that asked for `asked` messages and got `received`.
    pub(crate) fn after_receive(
        &mut self,
        received: usize,
        asked: usize,
        now: Instant,
    ) -> Duration {
        let is_first = self.last.is_none();
        if let Some(last) = self.last {
            let elapsed_s = now.saturating_duration_since(last).as_secs_f64().max(1e-6);
            // Exponential forgetting by time, so that many short receives weigh no more than a long
            // pause with the same arrivals.
            let weight = 1.0 - (-elapsed_s / MEMORY_S).exp();
            self.rate += weight * (received as f64 / elapsed_s - self.rate);
        }
        self.last = Some(now);
        if received > 0 && received >= asked {
            return Duration::ZERO;
        }
        if is_first && received > 0 {
            // Nothing is known of the rate yet, but that it is not zero.
            return self.shortest;
        }
        let expected_s = 0.5 / self.rate.max(1e-9);
        if expected_s >= self.longest.as_secs_f64() {
            return self.longest;
        }
        Duration::from_secs_f64(expected_s).max(self.shortest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORTEST: Duration = Duration::from_millis(20);
    const LONGEST: Duration = Duration::from_secs(2);
    const ROUND_TRIP: Duration = Duration::from_millis(20);

    struct Polled {
        requests: f64,
        received: f64,
        mean_wait_s: f64,
        longest_wait_s: f64,
    }

    /// An hour of Poisson arrivals, one poller, batches of ten.
    fn poll_for_an_hour(rate: f64) -> Polled {
        const HOUR_S: f64 = 3600.0;
        let mut random = fastrand::Rng::with_seed(11);
        let mut next_arrival = -(1.0 - random.f64()).ln() / rate;
        let mut waiting = std::collections::VecDeque::new();
        let mut interval = PollInterval::new(SHORTEST, LONGEST);
        let epoch = Instant::now();
        let mut now = Duration::ZERO;
        let mut polled =
            Polled { requests: 0.0, received: 0.0, mean_wait_s: 0.0, longest_wait_s: 0.0 };
        while now.as_secs_f64() < HOUR_S {
            now += ROUND_TRIP;
            while next_arrival < now.as_secs_f64() {
                waiting.push_back(next_arrival);
                next_arrival += -(1.0 - random.f64()).ln() / rate;
            }
            let received = waiting.len().min(10);
            for arrived in waiting.drain(..received) {
                let wait_s = now.as_secs_f64() - arrived;
                polled.mean_wait_s += wait_s;
                polled.longest_wait_s = polled.longest_wait_s.max(wait_s);
            }
            polled.requests += 1.0;
            polled.received += received as f64;
            now += interval.after_receive(received, 10, epoch + now);
        }
        polled.mean_wait_s /= polled.received.max(1.0);
        polled
    }

    #[test]
    fn quiet_queue_is_asked_no_more_often_than_the_idle_latency_demands() {
        let polled = poll_for_an_hour(0.01);

        assert!(polled.requests <= 1.1 * 3600.0 / 2.0, "{}", polled.requests);
        assert!(polled.longest_wait_s <= 2.1, "{}", polled.longest_wait_s);
    }

    #[test]
    fn interval_follows_the_rate_of_arrivals() {
        let polled = poll_for_an_hour(10.0);

        // A fixed interval of 100 ms asks 30,000 times for a mean wait of 70 ms.
        assert!(polled.requests < 60_000.0, "{}", polled.requests);
        assert!(polled.mean_wait_s < 0.07, "{}", polled.mean_wait_s);
    }

    #[test]
    fn full_batches_are_followed_at_once() {
        // A fixed interval of 100 ms would be capped at 83 a second.
        let polled = poll_for_an_hour(300.0);

        assert!(polled.received >= 0.99 * 300.0 * 3600.0, "{}", polled.received);
        assert!(polled.longest_wait_s < 1.0, "{}", polled.longest_wait_s);
    }

    #[test]
    fn pause_is_never_longer_than_the_idle_latency() {
        let mut interval = PollInterval::new(Duration::from_secs(5), Duration::from_secs(1));

        assert_eq!(interval.after_receive(0, 10, Instant::now()), Duration::from_secs(1));
        assert_eq!(interval.after_receive(10, 10, Instant::now()), Duration::ZERO);
        assert_eq!(interval.after_receive(0, 0, Instant::now()), Duration::from_secs(1));
    }
}
