//! How many requests there were and how long they took, by action.
//!
//! Each thread counts in cells of its own, so that no request waits for another.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use millrace_wire::protocol::ServiceName;
use millrace_wire::{cloudwatch, sqs};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use super::series::Series;
use crate::sts;

/// Threads beyond share cells.
const SHARDS: usize = 16;

/// Upper bounds of the buckets, seconds; the last bucket has none. Long polls last up to 20 s.
const BOUNDS_S: [f64; 16] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    10.0, 20.0,
];
const BUCKETS: usize = BOUNDS_S.len() + 1;

/// Those of CloudWatch, of SQS and of STS, and whatever else is asked for.
const KINDS: usize = cloudwatch::ACTIONS.len() + sqs::ACTIONS.len() + sts::ACTIONS.len() + 1;
const OTHER: usize = KINDS - 1;

/// What became of a request, by the hundreds of its status.
const OUTCOMES: [&str; 3] = ["success", "client_error", "server_error"];

/// What became of the requests for one action since the start.
#[derive(Clone, Copy, Debug)]
pub struct ActionCounts {
    pub service: &'static str,
    pub action: &'static str,
    pub succeeded: u64,
    /// Answered with a status of the 400s.
    pub client_errors: u64,
    /// Answered with a status of the 500s.
    pub server_errors: u64,
    /// How long they took, together.
    pub took: Duration,
}

thread_local! {
    static SHARD: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Counts of all requests of the services.
pub(crate) struct RequestCounts {
    shards: Box<[Shard]>,
    next_shard: AtomicUsize,
}

/// The counts of one thread, on cache lines of their own.
#[repr(align(128))]
struct Shard([Counts; KINDS]);

/// The counts of one action.
#[derive(Default)]
struct Counts {
    buckets: [AtomicU64; BUCKETS],
    duration_us: AtomicU64,
    outcomes: [AtomicU64; OUTCOMES.len()],
}

/// The sums of one action over all threads.
#[derive(Clone, Copy, Default)]
struct Sums {
    buckets: [u64; BUCKETS],
    duration_us: u64,
    outcomes: [u64; OUTCOMES.len()],
}

impl RequestCounts {
    pub(crate) fn new() -> RequestCounts {
        let shard = |_| Shard(std::array::from_fn(|_| Counts::default()));
        RequestCounts { shards: (0..SHARDS).map(shard).collect(), next_shard: AtomicUsize::new(0) }
    }

    /// Counts a request that was answered.
    pub(crate) fn add(&self, service: ServiceName, action: &str, status: u16, took: Duration) {
        let shard = SHARD.get().unwrap_or_else(|| {
            let shard = self.next_shard.fetch_add(1, Relaxed) % SHARDS;
            SHARD.set(Some(shard));
            shard
        });
        let kind = kind(service, action);
        let counts = self.shards.get(shard).and_then(|shard| shard.0.get(kind));
        let Some(counts) = counts else { return };
        let seconds = took.as_secs_f64();
        let bucket = BOUNDS_S.partition_point(|bound| *bound < seconds);
        if let Some(bucket) = counts.buckets.get(bucket) {
            bucket.fetch_add(1, Relaxed);
        }
        counts.duration_us.fetch_add(took.as_micros() as u64, Relaxed);
        let outcome = match status {
            ..400 => 0,
            400..500 => 1,
            _ => 2,
        };
        if let Some(outcome) = counts.outcomes.get(outcome) {
            outcome.fetch_add(1, Relaxed);
        }
    }

    /// The actions that were asked for, and what became of the requests.
    pub(crate) fn by_action(&self) -> Vec<ActionCounts> {
        let counts = self.sums().into_iter().map(|(service, action, sums)| {
            let [succeeded, client_errors, server_errors] = sums.outcomes;
            let took = Duration::from_micros(sums.duration_us);
            ActionCounts { service, action, succeeded, client_errors, server_errors, took }
        });
        counts.collect()
    }

    /// Service, action and sums of those that were asked for.
    fn sums(&self) -> Vec<(&'static str, &'static str, Sums)> {
        let names = cloudwatch::ACTIONS.map(|action| ("cloudwatch", action)).into_iter();
        let names = names.chain(sqs::ACTIONS.map(|action| ("sqs", action)));
        let names = names.chain(sts::ACTIONS.map(|action| ("sts", action)));
        let names = names.chain([("other", "other")]);
        let of = |kind: usize| {
            let mut sums = Sums::default();
            for counts in self.shards.iter().filter_map(|shard| shard.0.get(kind)) {
                for (sum, count) in sums.buckets.iter_mut().zip(&counts.buckets) {
                    *sum += count.load(Relaxed);
                }
                for (sum, count) in sums.outcomes.iter_mut().zip(&counts.outcomes) {
                    *sum += count.load(Relaxed);
                }
                sums.duration_us += counts.duration_us.load(Relaxed);
            }
            sums
        };
        let all = names.enumerate().map(|(kind, (service, action))| (service, action, of(kind)));
        all.filter(|(_, _, sums)| sums.outcomes.iter().any(|count| *count > 0)).collect()
    }
}

/// The place of an action among all kinds.
fn kind(service: ServiceName, action: &str) -> usize {
    let (first, actions) = actions(service);
    // One after the other: most differ in their length already.
    let place = actions.iter().position(|name| *name == action);
    place.map_or(OTHER, |place| first + place)
}

/// The actions of a service, and the kind of the first.
fn actions(service: ServiceName) -> (usize, &'static [&'static str]) {
    match service {
        ServiceName::CloudWatch => (0, &cloudwatch::ACTIONS),
        ServiceName::Sqs | ServiceName::Unknown => (cloudwatch::ACTIONS.len(), &sqs::ACTIONS),
        ServiceName::Sts => (cloudwatch::ACTIONS.len() + sqs::ACTIONS.len(), &sts::ACTIONS),
        _ => (OTHER, &[]),
    }
}

/// Service, as AWS writes it, and action of a span. Whatever does not exist is `other`, so that
/// clients cannot make up names.
pub(crate) fn known_action(service: ServiceName, action: &str) -> (&'static str, &'static str) {
    let (_, actions) = actions(service);
    match (service, actions.iter().find(|name| **name == action)) {
        (_, None) => ("other", "other"),
        (ServiceName::CloudWatch, Some(action)) => ("CloudWatch", action),
        (ServiceName::Sts, Some(action)) => ("STS", action),
        (_, Some(action)) => ("SQS", action),
    }
}

impl fmt::Debug for RequestCounts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RequestCounts").finish_non_exhaustive()
    }
}

impl Collector for RequestCounts {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let sums = self.sums();
        let by_outcome = sums.iter().flat_map(|(service, action, sums)| {
            let labels =
                |outcome| [("service", *service), ("action", *action), ("outcome", outcome)];
            let counts = OUTCOMES.into_iter().zip(sums.outcomes).filter(|(_, count)| *count > 0);
            counts.map(move |(outcome, count)| (labels(outcome), count))
        });
        Series::new("millrace_requests", "Requests answered by the services")
            .counters(&mut encoder, by_outcome)?;
        let mut durations = encoder.encode_descriptor(
            "millrace_request_duration",
            "From the parsed request to its answer; of ReceiveMessage with the wait for a message",
            Some(&prometheus_client::registry::Unit::Seconds),
            MetricType::Histogram,
        )?;
        for (service, action, sums) in &sums {
            let labels = [("service", *service), ("action", action)];
            let bounds = BOUNDS_S.iter().copied().chain([f64::INFINITY]);
            let buckets: Vec<(f64, u64)> = bounds.zip(sums.buckets).collect();
            let count = sums.buckets.iter().sum();
            let sum_s = sums.duration_us as f64 / 1e6;
            let mut family = durations.encode_family(&labels)?;
            family.encode_histogram::<NoLabelSet>(sum_s, count, &buckets, None)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_are_found() {
        let alarms = cloudwatch::ACTIONS.map(|action| kind(ServiceName::CloudWatch, action));
        let queues = sqs::ACTIONS.map(|action| kind(ServiceName::Sqs, action));
        let identities = sts::ACTIONS.map(|action| kind(ServiceName::Sts, action));
        assert!(alarms.into_iter().chain(queues).chain(identities).eq(0..OTHER));
        assert_eq!(kind(ServiceName::Sqs, "Nonsense"), OTHER);
        assert_eq!(kind(ServiceName::Sns, "Publish"), OTHER);
    }

    #[test]
    fn threads_count_together() {
        let counts = RequestCounts::new();
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| {
                    for _ in 0..10 {
                        let took = Duration::from_micros(700);
                        counts.add(ServiceName::Sqs, "SendMessage", 200, took);
                    }
                    counts.add(ServiceName::Sqs, "SendMessage", 400, Duration::from_secs(30));
                });
            }
        });

        let sums = counts.sums();

        assert_eq!(sums.len(), 1);
        let (service, action, sums) = sums[0];
        assert_eq!((service, action), ("sqs", "SendMessage"));
        assert_eq!(sums.outcomes, [200, 20, 0]);
        assert_eq!((sums.buckets[3], sums.buckets[BUCKETS - 1]), (200, 20));
        assert_eq!(sums.duration_us, 200 * 700 + 20 * 30_000_000);
    }
}
