//! How many requests there were and how long they took, by action.
//!
//! Each thread counts in cells of its own, so that no request waits for another.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use millrace_wire::protocol::ServiceName;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;

/// Threads beyond share cells.
const SHARDS: usize = 16;

/// Upper bounds of the buckets, seconds; the last bucket has none. Long polls last up to 20 s.
const BOUNDS_S: [f64; 16] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    10.0, 20.0,
];
const BUCKETS: usize = BOUNDS_S.len() + 1;

/// By service. Whatever else is asked for counts as `other`.
const ACTIONS: [(&str, &str); 38] = [
    ("cloudwatch", "DeleteAlarms"),
    ("cloudwatch", "DescribeAlarmHistory"),
    ("cloudwatch", "DescribeAlarms"),
    ("cloudwatch", "DescribeAlarmsForMetric"),
    ("cloudwatch", "DisableAlarmActions"),
    ("cloudwatch", "EnableAlarmActions"),
    ("cloudwatch", "GetMetricData"),
    ("cloudwatch", "GetMetricStatistics"),
    ("cloudwatch", "ListMetrics"),
    ("cloudwatch", "ListTagsForResource"),
    ("cloudwatch", "PutMetricAlarm"),
    ("cloudwatch", "PutMetricData"),
    ("cloudwatch", "SetAlarmState"),
    ("cloudwatch", "TagResource"),
    ("cloudwatch", "UntagResource"),
    ("sqs", "AddPermission"),
    ("sqs", "CancelMessageMoveTask"),
    ("sqs", "ChangeMessageVisibility"),
    ("sqs", "ChangeMessageVisibilityBatch"),
    ("sqs", "CreateQueue"),
    ("sqs", "DeleteMessage"),
    ("sqs", "DeleteMessageBatch"),
    ("sqs", "DeleteQueue"),
    ("sqs", "GetQueueAttributes"),
    ("sqs", "GetQueueUrl"),
    ("sqs", "ListDeadLetterSourceQueues"),
    ("sqs", "ListMessageMoveTasks"),
    ("sqs", "ListQueueTags"),
    ("sqs", "ListQueues"),
    ("sqs", "PurgeQueue"),
    ("sqs", "ReceiveMessage"),
    ("sqs", "RemovePermission"),
    ("sqs", "SendMessage"),
    ("sqs", "SendMessageBatch"),
    ("sqs", "SetQueueAttributes"),
    ("sqs", "StartMessageMoveTask"),
    ("sqs", "TagQueue"),
    ("sqs", "UntagQueue"),
];
const KINDS: usize = ACTIONS.len() + 1;
/// Where the actions of SQS begin.
const SQS: usize = 15;

/// What became of a request, by the hundreds of its status.
const OUTCOMES: [&str; 3] = ["success", "client_error", "server_error"];

thread_local! {
    static SHARD: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Counts of all requests of the services.
pub(crate) struct RequestCounts {
    shards: Box<[Shard; SHARDS]>,
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
        let shards: Vec<Shard> = (0..SHARDS).map(shard).collect();
        let shards = match shards.into_boxed_slice().try_into() {
            Ok(shards) => shards,
            Err(_) => unreachable!("as many as were made"),
        };
        RequestCounts { shards, next_shard: AtomicUsize::new(0) }
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

    /// Service, action and sums of those that were asked for.
    fn sums(&self) -> Vec<(&'static str, &'static str, Sums)> {
        let names = ACTIONS.iter().copied().chain([("other", "other")]);
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

/// The place of an action in [`ACTIONS`], or behind it.
fn kind(service: ServiceName, action: &str) -> usize {
    let places = match service {
        ServiceName::Sqs | ServiceName::Unknown => SQS..ACTIONS.len(),
        ServiceName::CloudWatch => 0..SQS,
        _ => 0..0,
    };
    // One after the other: most differ in their length already.
    let start = places.start;
    let actions = ACTIONS.get(places).unwrap_or_default();
    let place = actions.iter().position(|(_, name)| *name == action);
    place.map_or(ACTIONS.len(), |place| start + place)
}

/// Service, as AWS writes it, and action of a span. Whatever does not exist is `other`, so that
/// clients cannot make up names.
pub(crate) fn known_action(service: ServiceName, action: &str) -> (&'static str, &'static str) {
    match ACTIONS.get(kind(service, action)) {
        Some(("cloudwatch", action)) => ("CloudWatch", action),
        Some((_, action)) => ("SQS", action),
        None => ("other", "other"),
    }
}

impl fmt::Debug for RequestCounts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RequestCounts").finish_non_exhaustive()
    }
}

impl Collector for RequestCounts {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let sums = self.sums();
        let mut requests = encoder.encode_descriptor(
            "millrace_requests",
            "Requests answered by the services",
            None,
            MetricType::Counter,
        )?;
        for (service, action, sums) in &sums {
            for (outcome, count) in OUTCOMES.iter().zip(sums.outcomes) {
                if count > 0 {
                    let labels = [("service", *service), ("action", action), ("outcome", outcome)];
                    ConstCounter::new(count).encode(requests.encode_family(&labels)?)?;
                }
            }
        }
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
        for (service, action) in ACTIONS {
            let name = if service == "sqs" { ServiceName::Sqs } else { ServiceName::CloudWatch };
            assert_eq!(ACTIONS[kind(name, action)], (service, action));
        }
        assert_eq!(kind(ServiceName::Sqs, "Nonsense"), ACTIONS.len());
        assert_eq!(kind(ServiceName::Sns, "Publish"), ACTIONS.len());
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
