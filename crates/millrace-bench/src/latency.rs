//! Latency histograms by verb: three significant digits from 1 µs to 10 minutes.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

use crate::report::{Recording, microseconds};

/// What was timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Send,
    Receive,
    Delete,
    /// From the start of a send to the answer of the receive that brought it; by a schedule, from
    /// when it was due.
    EndToEnd,
    /// Of scheduled sends: from the request to its answer, however late the request was.
    Service,
    /// Of scheduled sends, whatever becomes of them: how late the request was.
    Late,
    /// Of scheduled sends that never were: how long they had waited when measuring ended.
    Unsent,
    /// The same of messages that were sent by schedule and did not get in: refused, or not
    /// answered. In a closed loop, how long the request took to fail.
    Failed,
}

const VERBS: [(Verb, &str); 8] = [
    (Verb::Send, "send"),
    (Verb::Receive, "receive"),
    (Verb::Delete, "delete"),
    (Verb::EndToEnd, "end_to_end"),
    (Verb::Service, "service"),
    (Verb::Late, "late"),
    (Verb::Unsent, "unsent"),
    (Verb::Failed, "failed"),
];
const LONGEST_NS: u64 = 600_000_000_000;

#[derive(Clone, Debug)]
pub(crate) struct Latencies([Histogram<u64>; VERBS.len()]);

/// Percentiles of one verb, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Percentiles {
    pub(crate) count: u64,
    pub(crate) p50_us: f64,
    pub(crate) p90_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) p999_us: f64,
    pub(crate) p9999_us: f64,
    pub(crate) max_us: f64,
}

impl Latencies {
    pub(crate) fn new() -> Latencies {
        Latencies(VERBS.map(|_| histogram()))
    }

    pub(crate) fn record(&mut self, verb: Verb, taken: Duration) {
        self.0[verb as usize].saturating_record(nanoseconds(taken));
    }

    pub(crate) fn merge(&mut self, other: &Latencies) {
        for (own, others) in self.0.iter_mut().zip(&other.0) {
            // Both have the same bounds.
            let _ = own.add(others);
        }
    }

    pub(crate) fn histogram(&self, verb: Verb) -> &Histogram<u64> {
        &self.0[verb as usize]
    }

    pub(crate) fn percentiles(&self, verb: Verb) -> Percentiles {
        percentiles(&self.0[verb as usize])
    }

    /// The verbs that happened, for the interval log.
    pub(crate) fn recordings(
        &self,
        front: &str,
        began: Duration,
        elapsed: Duration,
    ) -> Vec<Recording> {
        let recording = |(name, histogram): (&str, &Histogram<u64>)| Recording {
            tag: format!("{front}.{name}"),
            began,
            elapsed,
            histogram: histogram.clone(),
        };
        self.named_histograms().map(recording).collect()
    }

    /// The verbs that happened, by name, with all that was recorded.
    pub(crate) fn named_histograms(&self) -> impl Iterator<Item = (&'static str, &Histogram<u64>)> {
        let all = VERBS.iter().zip(&self.0).map(|((_, name), histogram)| (*name, histogram));
        all.filter(|(_, histogram)| !histogram.is_empty())
    }

    /// The verbs that happened, by name.
    pub(crate) fn named(&self) -> impl Iterator<Item = (&'static str, Percentiles)> {
        self.named_histograms().map(|(name, histogram)| (name, percentiles(histogram)))
    }
}

impl Percentiles {
    /// One of them for people; where nothing was timed there is none.
    pub(crate) fn shown(&self, us: f64) -> String {
        if self.count > 0 { microseconds(us) } else { "–".to_owned() }
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "count": self.count, "p50": self.p50_us, "p90": self.p90_us, "p99": self.p99_us,
            "p99.9": self.p999_us, "p99.99": self.p9999_us, "max": self.max_us,
        })
    }
}

impl std::fmt::Display for Percentiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Percentiles { p50_us, p90_us, p99_us, p999_us, max_us, .. } = self;
        write!(
            f,
            "p50 {p50_us:.0}  p90 {p90_us:.0}  p99 {p99_us:.0}  p99.9 {p999_us:.0}  max {max_us:.0} µs"
        )
    }
}

/// As value and count pairs, for other processes; nothing is lost.
impl Serialize for Latencies {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.each_ref().map(counts).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Latencies {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Latencies, D::Error> {
        let all = Vec::<Vec<(u64, u64)>>::deserialize(deserializer)?;
        let mut latencies = Latencies::new();
        for (histogram, counts) in latencies.0.iter_mut().zip(all) {
            counts.iter().for_each(|(value, count)| histogram.saturating_record_n(*value, *count));
        }
        Ok(latencies)
    }
}

/// An empty histogram of nanoseconds.
#[expect(clippy::expect_used, reason = "the bounds are constants that are valid")]
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1000, LONGEST_NS, 3).expect("bounds are valid")
}

pub(crate) fn nanoseconds(taken: Duration) -> u64 {
    u64::try_from(taken.as_nanos()).unwrap_or(u64::MAX)
}

/// Its values, and how often each was recorded.
pub(crate) fn counts(histogram: &Histogram<u64>) -> Vec<(u64, u64)> {
    let recorded = histogram.iter_recorded();
    recorded.map(|step| (step.value_iterated_to(), step.count_at_value())).collect()
}

pub(crate) fn percentiles(histogram: &Histogram<u64>) -> Percentiles {
    let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1000.0;
    Percentiles {
        count: histogram.len(),
        p50_us: at(0.5),
        p90_us: at(0.9),
        p99_us: at(0.99),
        p999_us: at(0.999),
        p9999_us: at(0.9999),
        max_us: histogram.max() as f64 / 1000.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_within_three_digits() {
        let mut latencies = Latencies::new();
        (1..=1000).for_each(|us| latencies.record(Verb::Send, Duration::from_micros(us)));

        let found = latencies.percentiles(Verb::Send);

        let near = |value: f64, wanted: f64| (value - wanted).abs() <= wanted * 0.002;
        assert!(near(found.p50_us, 500.0) && near(found.p99_us, 990.0), "{found:?}");
        assert!(near(found.p999_us, 999.0) && near(found.max_us, 1000.0), "{found:?}");
    }

    #[test]
    fn merged_histograms_count_both() {
        let (mut one, mut two) = (Latencies::new(), Latencies::new());
        one.record(Verb::Receive, Duration::from_micros(10));
        two.record(Verb::Receive, Duration::from_micros(30));

        one.merge(&two);

        let named: Vec<_> = one.named().collect();
        assert_eq!((named.len(), named[0].0, named[0].1.count), (1, "receive", 2));
    }

    #[test]
    fn percentiles_print_in_microseconds() {
        let found = Percentiles {
            count: 3,
            p50_us: 12.3,
            p90_us: 20.0,
            p99_us: 30.6,
            p999_us: 40.0,
            p9999_us: 50.0,
            max_us: 1000.0,
        };

        assert_eq!(found.to_string(), "p50 12  p90 20  p99 31  p99.9 40  max 1000 µs");
        assert_eq!(found.json()["p99"], 30.6);
        assert_eq!(
            (found.shown(found.p50_us), Percentiles::default().shown(0.0)),
            ("12.3 µs".into(), "–".into())
        );
    }

    #[test]
    fn even_the_longest_time_is_recorded() {
        let mut latencies = Latencies::new();
        latencies.record(Verb::Delete, Duration::from_secs(10_000));

        assert_eq!(latencies.percentiles(Verb::Delete).count, 1);
    }

    #[test]
    fn histograms_survive_the_way_to_another_process() {
        let mut latencies = Latencies::new();
        (1..=5000).for_each(|us| latencies.record(Verb::Send, Duration::from_micros(us * 7)));

        let json = serde_json::to_string(&latencies).unwrap();
        let back: Latencies = serde_json::from_str(&json).unwrap();

        assert_eq!(back.percentiles(Verb::Send), latencies.percentiles(Verb::Send));
        assert_eq!(back.percentiles(Verb::Delete).count, 0);
    }
}
