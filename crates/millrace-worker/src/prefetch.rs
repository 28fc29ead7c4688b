//! How many messages to hold beyond those that handlers work on: what they use up while a receive
//! is under way, by Little's law.
//!
//! Slow handlers need none: a message that waits here waits behind a slow one, hidden from other
//! workers. With fast handlers and none, every slot would stand idle for a round trip.

use std::time::Duration;

/// Weight of the latest measurement.
const WEIGHT: f64 = 0.1;
/// A receive that need not wait may take as many times longer than a call that never does; what is
/// longer was spent waiting for messages.
const SLOWER: f64 = 3.0;
/// Faster than this is more than can be measured here.
const SHORTEST_S: f64 = 1e-6;

/// Measures how long handlers and receives take.
#[derive(Debug)]
pub(crate) struct Prefetch {
    /// Messages of one receive.
    max_receive: usize,
    /// What receives can bring at a time: more is never of use.
    most: usize,
    /// Seconds that a handler takes for a message.
    latency_s: Option<f64>,
    /// Seconds that a call takes which never waits: a delete, an extension.
    call_s: Option<f64>,
    /// Seconds that a receive takes which need not wait for messages.
    round_trip_s: Option<f64>,
}

impl Prefetch {
    /// For receives of `max_receive` messages, `receives` at a time.
    pub(crate) fn new(max_receive: usize, receives: usize) -> Prefetch {
        let most = max_receive.saturating_mul(receives);
        Prefetch { max_receive, most, latency_s: None, call_s: None, round_trip_s: None }
    }

    /// A handler took so long for a message.
    pub(crate) fn on_finished(&mut self, latency: Duration) {
        average(&mut self.latency_s, latency);
    }

    /// A call that never waits was answered.
    pub(crate) fn on_call(&mut self, took: Duration) {
        average(&mut self.call_s, took);
    }

    /// A receive came back full. It may have waited all the same, for the only message that it
    /// asked for or for several that came at once; how long it would have taken is told by other
    /// calls.
    pub(crate) fn on_full_receive(&mut self, took: Duration) {
        if let Some(call_s) = self.call_s {
            average(&mut self.round_trip_s, took.min(duration(call_s * SLOWER)));
        }
    }

    /// How long a receive takes which need not wait for messages, as far as is known; 1 s at most.
    pub(crate) fn round_trip(&self) -> Duration {
        duration(self.round_trip_s.unwrap_or_default().min(1.0))
    }

    /// Messages that `slots` handlers use up during one receive, and a batch on top so that the
    /// batch which comes then is a full one. 0 while less than one would be used up.
    pub(crate) fn messages(&self, slots: usize) -> usize {
        let (Some(latency_s), Some(round_trip_s)) = (self.latency_s, self.round_trip_s) else {
            return 0;
        };
        let used_up = slots as f64 * round_trip_s / latency_s.max(SHORTEST_S);
        if used_up < 1.0 {
            return 0;
        }
        (used_up.ceil() as usize).saturating_add(self.max_receive).min(self.most)
    }
}

fn average(average: &mut Option<f64>, sample: Duration) {
    let sample = sample.as_secs_f64();
    *average = Some(average.map_or(sample, |before| before + WEIGHT * (sample - before)));
}

/// Averages of durations are durations.
fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(latency: Duration, round_trip: Duration) -> Prefetch {
        let mut prefetch = Prefetch::new(10, 10);
        for _ in 0..100 {
            prefetch.on_finished(latency);
            prefetch.on_call(round_trip);
            prefetch.on_full_receive(round_trip);
        }
        prefetch
    }

    #[test]
    fn slow_handlers_get_no_prefetch() {
        let prefetch = measured(Duration::from_secs(1), Duration::from_millis(2));

        assert_eq!(prefetch.messages(8), 0);
    }

    #[test]
    fn fast_handlers_get_what_they_use_up_during_a_receive() {
        // Eight at 4 ms are 2,000 a second; 20 ms a receive: 40, and one batch.
        let prefetch = measured(Duration::from_millis(4), Duration::from_millis(20));

        assert_eq!(prefetch.messages(8), 50);
    }

    #[test]
    fn wait_for_messages_is_no_round_trip() {
        let mut prefetch = Prefetch::new(10, 10);
        let (latency, wait) = (Duration::from_secs(3), Duration::from_secs(15));
        prefetch.on_full_receive(wait);
        prefetch.on_finished(latency);
        prefetch.on_call(Duration::from_millis(20));

        prefetch.on_full_receive(wait);

        assert_eq!(prefetch.messages(10), 0);
        assert_eq!(prefetch.round_trip(), Duration::from_millis(60));
    }

    #[test]
    fn prefetch_is_bounded_by_what_receives_can_bring() {
        let prefetch = measured(Duration::ZERO, Duration::from_secs(1));

        assert_eq!(prefetch.messages(1_000), 100);
    }

    #[test]
    fn nothing_is_prefetched_before_it_is_measured() {
        assert_eq!(Prefetch::new(10, 10).messages(8), 0);
    }
}
