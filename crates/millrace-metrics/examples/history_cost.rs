//! What the history of many queues costs: CPU of writing and reading it, bytes on disk, the time of
//! a start. The clock is a number, so that a day takes as long as its minutes take to write.
//!
//! `history_cost [QUEUES [BUSY [HOURS]]]`: 10,000 queues, all of them busy, for a day.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement, not a server")]

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use millrace_core::Timestamp;
use millrace_metrics::{
    Entity, FIVE_MINUTES_KEPT_S, MINUTES_KEPT_S, MetricStore, Periods, Sample, Scope, SeriesQuery,
    Source, Summary, Unit, Value,
};

const DAY_S: u64 = 86_400;
/// A midnight.
const START_S: u64 = 20_834 * DAY_S;
/// The metrics of a queue that has been used, and which are gauges.
const METRICS: [(&str, bool); 8] = [
    ("ApproximateNumberOfMessagesVisible", true),
    ("ApproximateNumberOfMessagesNotVisible", true),
    ("ApproximateNumberOfMessagesDelayed", true),
    ("ApproximateAgeOfOldestMessage", true),
    ("NumberOfMessagesSent", false),
    ("NumberOfMessagesReceived", false),
    ("NumberOfMessagesDeleted", false),
    ("NumberOfEmptyReceives", false),
];

/// Queues of which the first ones are busy; the others count zeros.
struct Queues {
    entities: Vec<Entity>,
    busy: usize,
    minute: AtomicU64,
    /// Of making up the values, which is no cost of the history.
    spent: Mutex<Duration>,
}

impl Queues {
    fn new(count: usize, busy: usize) -> Queues {
        let scope = Scope { region: "us-east-1".into(), account: "000000000000".into() };
        let entity = |number| {
            let name = format!("orders-queue-{number:05}");
            Entity::new(scope.clone(), "AWS/SQS", vec![("QueueName".into(), name)])
        };
        let entities = (0..count).map(entity).collect();
        Queues { entities, busy, minute: AtomicU64::new(0), spent: Mutex::default() }
    }

    fn values(&self, number: usize, minute: u64) -> Vec<Value> {
        let mut random = random(number as u64 * 1_000_003 + minute);
        let mut up_to = |most: u64| if number < self.busy { random() % most } else { 0 };
        let sent = up_to(2_000);
        let numbers = [
            up_to(300),
            up_to(50),
            0,
            up_to(90),
            sent,
            sent - sent / 50,
            sent - sent / 40,
            up_to(20),
        ];
        let value = |((metric, is_gauge), number): (&(&'static str, bool), u64)| {
            let summary = Summary::of(number as f64);
            Value { metric, unit: Unit::Count, summary, is_gauge: *is_gauge }
        };
        let mut values: Vec<Value> = METRICS.iter().zip(numbers).map(value).collect();
        if sent > 0 {
            let largest = 4_000.0 + up_to(9_000) as f64;
            let summary = Summary::of_set(sent as f64, (sent * 700) as f64, 120.0, largest);
            let (metric, unit) = ("SentMessageSize", Unit::Bytes);
            values.push(Value { metric, unit, summary, is_gauge: false });
        }
        values
    }

    /// The same number of queries, of as many queues far from one another.
    fn queries(&self, count: usize, (start_s, end_s): (u64, u64)) -> Vec<SeriesQuery<'_>> {
        let query = |entity| SeriesQuery {
            entity,
            metric: "NumberOfMessagesSent",
            unit: None,
            periods: Periods { origin_s: 0, period_s: 60 },
            start_s,
            end_s,
        };
        self.entities.iter().step_by(self.entities.len() / count).take(count).map(query).collect()
    }
}

impl Source for Queues {
    fn peek(&self, _: &Entity, _: Timestamp) -> Vec<Value> {
        Vec::new()
    }

    fn close(&self, _: Timestamp) -> Vec<Sample> {
        let began = cpu();
        let minute = self.minute.fetch_add(1, Ordering::Relaxed);
        let sample = |(number, entity): (usize, &Entity)| Sample {
            entity: entity.clone(),
            values: self.values(number, minute),
        };
        let samples = self.entities.iter().enumerate().map(sample).collect();
        *self.spent.lock().unwrap() += cpu() - began;
        samples
    }
}

fn main() {
    let arguments: Vec<usize> = std::env::args().skip(1).map(|a| a.parse().unwrap()).collect();
    let argument = |at: usize, default| arguments.get(at).copied().unwrap_or(default);
    let count = argument(0, 10_000);
    let (busy, hours) = (argument(1, count), argument(2, 24) as u64);
    println!("{count} queues, {busy} busy, {hours} hours");
    let dir = tempfile::tempdir_in(".").unwrap();
    let dir = dir.path();
    let open = |time_s| MetricStore::open(Some(dir), at(time_s)).unwrap();
    let end_s = START_S + hours * 3_600;
    let queues = Arc::new(Queues::new(count, busy));

    let store = open(START_S);
    store.set_source(queues.clone(), at(START_S));
    measured("values made up and written", || {
        for minute in 1..=hours * 60 {
            store.close_minute(at(START_S + minute * 60)).unwrap();
            store.sync().unwrap();
        }
    });
    println!("  of which made up: {:.2?} of CPU", *queues.spent.lock().unwrap());
    println!("  on disk: {} bytes", disk_bytes(dir));
    let read = |store: &MetricStore, series, from_s| {
        store.points(&queues.queries(series, (from_s, end_s)), at(end_s + 60)).unwrap()
    };
    measured("read of a day, 1 series", || read(&store, 1, START_S));
    measured("read of a day, 500 series", || read(&store, 500.min(count), START_S));
    drop(store);
    let store = measured("start", || open(end_s));
    measured("first read: 5 minutes of all queues", || read(&store, count, end_s - 300));
    for (name, age_s) in [("5 minutes", MINUTES_KEPT_S), ("hours", FIVE_MINUTES_KEPT_S)] {
        measured(&format!("roll-up to {name}"), || {
            store.expire(at(START_S + DAY_S + age_s)).unwrap();
        });
        println!("  on disk: {} bytes", disk_bytes(dir));
    }
}

fn measured<T>(what: &str, run: impl FnOnce() -> T) -> T {
    let (cpu_before, began) = (cpu(), Instant::now());
    let result = run();
    println!("{what}: {:.2?} of CPU, {:.2?}", cpu() - cpu_before, began.elapsed());
    result
}

/// CPU time of the process.
fn cpu() -> Duration {
    use rustix::time::{ClockId, clock_gettime};
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap()
}

fn disk_bytes(dir: &Path) -> u64 {
    std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

fn at(time_s: u64) -> Timestamp {
    Timestamp(time_s * 1000)
}

/// Numbers that are the same in each run.
fn random(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 20
    }
}
