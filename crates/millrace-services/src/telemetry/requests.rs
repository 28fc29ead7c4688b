//! How many requests there were and how long they took, by action.
//!
//! Each thread counts in cells of its own, so that no request waits for another.

use std::cell::Cell;
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use millrace_wire::ironmq::Endpoint;

use super::series::Series;
use crate::table::Row;

/// The service of endpoints that are found by their paths.
const IRON_MQ: &str = "ironmq";

/// Threads beyond share cells.
const SHARDS: usize = 16;

/// Upper bounds of the buckets, seconds; the last bucket has none. Long polls last up to 20 s.
const BOUNDS_S: [f64; 16] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    10.0, 20.0,
];
const BUCKETS: usize = BOUNDS_S.len() + 1;

/// Service and action of what is not in the table.
const OTHER: (&str, &str) = ("other", "other");

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
    /// Service and name of each action of the table, by its number; then those of IronMQ; the last
    /// are all others.
    actions: Vec<(&'static str, &'static str)>,
    /// The number of the first that is not of the table.
    first_endpoint: usize,
    /// Made when a thread first counts.
    shards: [OnceLock<Box<[Counts]>>; SHARDS],
    next_shard: AtomicUsize,
}

/// The counts of one action and thread, on cache lines of their own.
#[derive(Default)]
#[repr(align(128))]
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
    /// Counts the actions of these rows, and the endpoints of IronMQ.
    pub(crate) fn new(rows: &[Row]) -> RequestCounts {
        let of_row = |row: &Row| {
            let service = row.metadata.name;
            row.actions.iter().map(move |action| (service, *action)).collect::<Vec<_>>()
        };
        let mut actions: Vec<_> = rows.iter().flat_map(of_row).collect();
        let first_endpoint = actions.len();
        actions.extend(Endpoint::NAMES.map(|name| (IRON_MQ, name)));
        actions.push(OTHER);
        let shards = std::array::from_fn(|_| OnceLock::new());
        RequestCounts { actions, first_endpoint, shards, next_shard: AtomicUsize::new(0) }
    }

    /// Counts a request that was answered, for an endpoint of IronMQ.
    pub(crate) fn add_iron_mq(&self, endpoint: &Endpoint<'_>, status: u16, took: Duration) {
        self.add(Some(self.first_endpoint + endpoint.number()), status, took);
    }

    /// Counts a request that was answered, for the action of that number in the table.
    pub(crate) fn add(&self, action: Option<usize>, status: u16, took: Duration) {
        let shard = SHARD.get().unwrap_or_else(|| {
            let shard = self.next_shard.fetch_add(1, Relaxed) % SHARDS;
            SHARD.set(Some(shard));
            shard
        });
        let Some(shard) = self.shards.get(shard) else { return };
        let shard = shard.get_or_init(|| self.actions.iter().map(|_| Counts::default()).collect());
        let Some(counts) = shard.get(action.unwrap_or(self.actions.len() - 1)) else { return };
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
        let of = |number: usize| {
            let mut sums = Sums::default();
            let shards = self.shards.iter().filter_map(OnceLock::get);
            for counts in shards.filter_map(|shard| shard.get(number)) {
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
        let all = self.actions.iter().enumerate();
        let all = all.map(|(number, (service, action))| (*service, *action, of(number)));
        all.filter(|(_, _, sums)| sums.outcomes.iter().any(|count| *count > 0)).collect()
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
    use std::sync::Arc;

    use super::*;
    use crate::sts::Sts;

    #[test]
    fn threads_count_together() {
        let counts = RequestCounts::new(&[Row::of(Arc::new(Sts))]);
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| {
                    for _ in 0..10 {
                        let took = Duration::from_micros(700);
                        counts.add(Some(0), 200, took);
                    }
                    counts.add(Some(0), 400, Duration::from_secs(30));
                });
            }
        });

        let sums = counts.sums();

        assert_eq!(sums.len(), 1);
        let (service, action, sums) = sums[0];
        assert_eq!((service, action), ("sts", "GetCallerIdentity"));
        assert_eq!(sums.outcomes, [200, 20, 0]);
        assert_eq!((sums.buckets[3], sums.buckets[BUCKETS - 1]), (200, 20));
        assert_eq!(sums.duration_us, 200 * 700 + 20 * 30_000_000);
    }
}
