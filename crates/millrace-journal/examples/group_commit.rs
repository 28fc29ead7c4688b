//! Measures the group commit on a real disk: appenders that each wait for their own commit.
//!
//! `cargo run --profile fast -p millrace-journal --example group_commit -- DIR [THREADS] [SECONDS]
//! [RECORDS_PER_BATCH] [fsync|os|memory]`; then reopens the journal and reports how long that took.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark")]

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use millrace_journal::{
    Durability, GroupCommit, GroupOptions, Journal, LocalJournal, LocalOptions, MemoryJournal,
    Purpose, RealFileSystem, Record, SYNC_FIRST_BUCKET_US, Stats, Ticket, Unavailable,
};

const PAYLOAD: [u8; 1024] = [7; 1024];
const INDEX: [u8; 64] = [1; 64];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |at: usize, default: u64| arguments.get(at).map_or(default, |text| text.parse().unwrap());
    let dir = Path::new(arguments.first().map_or("group-commit.tmp", String::as_str));
    let (threads, seconds, per_batch) = (number(1, 64), number(2, 3), number(3, 1));
    let durability = match arguments.get(4).map(String::as_str) {
        None | Some("fsync") => Durability::Fsync,
        Some("os") => Durability::Os,
        Some("memory") => Durability::Memory,
        Some(other) => panic!("unknown durability {other}"),
    };
    let group_commit = GroupCommit::new(open(dir, durability), GroupOptions::default());
    let commits = Arc::new(Commits::default());
    let told = Arc::clone(&commits);
    group_commit.on_commit(Box::new(move || told.tell()));
    let committer = group_commit.spawn_committer().unwrap();
    let stop = AtomicBool::new(false);
    let started = Instant::now();
    let mut latencies: Vec<Duration> = std::thread::scope(|scope| {
        let appenders: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| append_until(&group_commit, &commits, &stop, per_batch as usize))
            })
            .collect();
        std::thread::sleep(Duration::from_secs(seconds));
        stop.store(true, Ordering::Relaxed);
        appenders.into_iter().flat_map(|appender| appender.join().unwrap()).collect()
    });
    let elapsed = started.elapsed().as_secs_f64();
    latencies.sort_unstable();
    let stats = group_commit.stats();
    let at = |share: f64| latencies.get((latencies.len() as f64 * share) as usize);
    println!(
        "{threads} threads: {:.0} records/s, {:.1} records a group, {:.0} groups/s, \
         {:.0} MB/s, append to commit p50 {:?} p99 {:?}, write+sync mean {:?} p50 < {:?} p99 < {:?}",
        stats.records as f64 / elapsed,
        stats.records as f64 / stats.groups.max(1) as f64,
        stats.groups as f64 / elapsed,
        stats.bytes as f64 / elapsed / 1e6,
        at(0.5).copied().unwrap_or_default(),
        at(0.99).copied().unwrap_or_default(),
        stats.sync_time / stats.groups.max(1) as u32,
        sync_quantile(&stats, 0.5),
        sync_quantile(&stats, 0.99),
    );
    let records = stats.records;
    group_commit.close();
    committer.join().unwrap();
    drop(group_commit);
    if durability != Durability::Memory {
        let started = Instant::now();
        drop(open(dir, durability));
        let took = started.elapsed();
        println!("reopened {records} records in {took:?}");
    }
}

fn open(dir: &Path, durability: Durability) -> Box<dyn Journal> {
    if durability == Durability::Memory {
        return Box::new(MemoryJournal::new(64 << 20));
    }
    let options = LocalOptions { durability, ..LocalOptions::default() };
    let started = Instant::now();
    let mut records = 0_u64;
    let (journal, opened) =
        LocalJournal::open(RealFileSystem::new(), dir, options, &mut |_| records += 1).unwrap();
    println!("opened epoch {} with {records} records in {:?}", opened.epoch, started.elapsed());
    Box::new(journal)
}

/// The upper bound of the bucket in which this share of the appends has ended.
fn sync_quantile(stats: &Stats, share: f64) -> Duration {
    let wanted = (stats.groups as f64 * share).ceil() as u64;
    let mut seen = 0;
    let ended = stats.sync_buckets.iter().position(|count| {
        seen += count;
        seen >= wanted
    });
    ended.map_or(Duration::ZERO, |bucket| Duration::from_micros(SYNC_FIRST_BUCKET_US << bucket))
}

/// Appenders that sleep until their commit.
#[derive(Default)]
struct Commits {
    asleep: Mutex<()>,
    ended: Condvar,
}

impl Commits {
    fn wait(&self, group_commit: &GroupCommit, ticket: Ticket) -> Result<(), Unavailable> {
        group_commit.set_awaited(ticket);
        group_commit.commit_elsewhere();
        let mut asleep = self.asleep.lock().unwrap();
        loop {
            if let Some(outcome) = group_commit.outcome(ticket) {
                return outcome;
            }
            asleep = self.ended.wait(asleep).unwrap();
        }
    }

    /// The lock: who has looked and is about to sleep is not missed.
    fn tell(&self) {
        drop(self.asleep.lock().unwrap());
        self.ended.notify_all();
    }
}

fn append_until(
    group_commit: &GroupCommit,
    commits: &Commits,
    stop: &AtomicBool,
    per_batch: usize,
) -> Vec<Duration> {
    let records = vec![Record { index: &INDEX, payload: &PAYLOAD }; per_batch];
    let bytes = records.iter().map(Record::encoded_bytes).sum();
    let mut positions = Vec::new();
    let mut latencies = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let started = Instant::now();
        let reservation = match group_commit.reserve(bytes, Purpose::Store) {
            Ok(reservation) => reservation,
            Err(Unavailable::Backlog { .. }) => continue,
            Err(error) => panic!("{error}"),
        };
        positions.clear();
        let ticket = group_commit.append(reservation, &records, &mut positions);
        commits.wait(group_commit, ticket).unwrap();
        latencies.push(started.elapsed());
    }
    latencies
}
