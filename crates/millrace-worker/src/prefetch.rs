//! How many messages to hold beyond those that handlers work on: what they use up while a receive is
//! under way, by Little's law.
//!
//! Slow handlers need none: a message that waits here waits behind a slow one, hidden from other
//! workers. With fast handlers and none, every slot would stand idle for a round trip.

use std::time::Duration;

use tokio::time::Instant;

/// Weight of the latest measurement.
const WEIGHT: f64 = 0.2;

/// Measures how fast handlers finish and how long a receive takes.
#[derive(Debug, Default)]
pub(crate) struct Prefetch {
    /// Seconds between two finished handlers, all slots together.
    interval_s: Option<f64>,
    last_finished: Option<Instant>,
    /// Seconds that a receive takes which need not wait for messages.
    round_trip_s: Option<f64>,
}

impl Prefetch {
    pub(crate) fn on_finished(&mut self, now: Instant) {
        if let Some(last) = self.last_finished {
            average(&mut self.interval_s, now.saturating_duration_since(last));
        }
        self.last_finished = Some(now);
    }

    /// A receive came back full, so it did not wait for messages.
    pub(crate) fn on_full_receive(&mut self, took: Duration) {
        average(&mut self.round_trip_s, took);
    }

    /// Messages that handlers use up during one receive, and a batch on top so that the batch which
    /// comes then is a full one. 0 while less than one would be used up.
    pub(crate) fn messages(&self, max_batch: usize) -> usize {
        let (Some(interval), Some(round_trip)) = (self.interval_s, self.round_trip_s) else {
            return 0;
        };
        // Faster than a microsecond is more than can be measured here.
        let used_up = round_trip / interval.max(1e-6);
        if used_up < 1.0 { 0 } else { (used_up.ceil() as usize).saturating_add(max_batch) }
    }

    /// Handlers finished per second, lately.
    pub(crate) fn rate(&self) -> f64 {
        self.interval_s.map_or(0.0, |interval| 1.0 / interval.max(1e-6))
    }
}

fn average(average: &mut Option<f64>, sample: Duration) {
    let sample = sample.as_secs_f64();
    *average = Some(average.map_or(sample, |before| before + WEIGHT * (sample - before)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(interval: Duration, round_trip: Duration) -> Prefetch {
        let mut prefetch = Prefetch::default();
        let mut now = Instant::now();
        for _ in 0..100 {
            now += interval;
            prefetch.on_finished(now);
            prefetch.on_full_receive(round_trip);
        }
        prefetch
    }

    #[test]
    fn slow_handlers_get_no_prefetch() {
        // Eight slots of 1 s each, 2 ms a receive.
        let prefetch = measured(Duration::from_millis(125), Duration::from_millis(2));

        assert_eq!(prefetch.messages(10), 0);
    }

    #[test]
    fn fast_handlers_get_what_they_use_up_during_a_receive() {
        // 2,000 a second, 20 ms a receive: 40, and one batch.
        let prefetch = measured(Duration::from_micros(500), Duration::from_millis(20));

        assert_eq!(prefetch.messages(10), 50);
        assert!((prefetch.rate() - 2000.0).abs() < 1.0);
    }

    #[test]
    fn nothing_is_prefetched_before_it_is_measured() {
        assert_eq!(Prefetch::default().messages(10), 0);
    }
}
