//! Counters of a group commit, for metrics and benchmarks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::error::Unavailable;
use crate::journal::Journal;

/// Bucket `n` counts appends that took less than `16 µs << n`; the last one, all longer ones.
pub const SYNC_BUCKETS: usize = 18;
/// The first bucket counts appends that took less than this.
pub const SYNC_FIRST_BUCKET_US: u64 = 16;

/// What a journal has done since it was opened.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    pub groups: u64,
    pub records: u64,
    /// Bytes of records and padding, without frame headers.
    pub bytes: u64,
    /// Appends by how long write and sync took together.
    pub sync_buckets: [u64; SYNC_BUCKETS],
    pub sync_time: Duration,
    pub largest_group_bytes: u64,
    pub waiting_bytes: u64,
    /// See [`super::GroupCommit::oldest_unsettled`].
    pub oldest_unsettled: Option<Duration>,
    /// See [`super::GroupCommit::last_settled`].
    pub last_settled: Option<Duration>,
    /// Space held on disk, spares included.
    pub disk_bytes: u64,
    /// The last segment that was wanted could not be had.
    pub is_full: bool,
    /// Why changes are refused for good, if they are.
    pub ended: Option<Unavailable>,
}

#[derive(Default)]
pub(super) struct Counters {
    groups: AtomicU64,
    records: AtomicU64,
    bytes: AtomicU64,
    sync_buckets: [AtomicU64; SYNC_BUCKETS],
    sync_ns: AtomicU64,
    largest_group_bytes: AtomicU64,
}

impl Counters {
    pub(super) fn record(&self, records: u32, bytes: usize, took: Duration) {
        self.groups.fetch_add(1, Ordering::Relaxed);
        self.records.fetch_add(u64::from(records), Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.sync_ns.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
        self.largest_group_bytes.fetch_max(bytes as u64, Ordering::Relaxed);
        let steps = took.as_micros() as u64 / SYNC_FIRST_BUCKET_US;
        let bucket = (u64::BITS - steps.leading_zeros()) as usize;
        if let Some(count) = self.sync_buckets.get(bucket.min(SYNC_BUCKETS - 1)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The counters, and what the journal says. What waits is for the caller to add.
    pub(super) fn read(&self, journal: &dyn Journal, ended: Option<Unavailable>) -> Stats {
        Stats {
            groups: self.groups.load(Ordering::Relaxed),
            records: self.records.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            sync_buckets: std::array::from_fn(|bucket| {
                self.sync_buckets.get(bucket).map_or(0, |count| count.load(Ordering::Relaxed))
            }),
            sync_time: Duration::from_nanos(self.sync_ns.load(Ordering::Relaxed)),
            largest_group_bytes: self.largest_group_bytes.load(Ordering::Relaxed),
            waiting_bytes: 0,
            oldest_unsettled: None,
            last_settled: None,
            disk_bytes: journal.disk_bytes(),
            is_full: journal.is_full() && ended.is_none(),
            ended,
        }
    }
}
