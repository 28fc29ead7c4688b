//! Series of the process: journal, alarms, memory.

use std::fmt;
use std::sync::Arc;

use millrace_broker::{JournalStats, KeptFigures, SYNC_BUCKETS, SYNC_FIRST_BUCKET_US, Shards};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use super::series::Series;
use crate::cloudwatch::Monitor;

pub(super) struct Server {
    pub(super) shards: Arc<Shards>,
    pub(super) monitor: Arc<Monitor>,
}

impl Server {
    fn encode_journal(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Ok(home) = self.shards.home() else { return Ok(()) };
        let stats: JournalStats = home.log().stats();
        Series::new("millrace_journal_groups", "Groups of records committed, one sync each")
            .counter(encoder, stats.groups)?;
        Series::new("millrace_journal_records", "Records committed")
            .counter(encoder, stats.records)?;
        Series::bytes("millrace_journal_written", "Records and padding")
            .counter(encoder, stats.bytes)?;
        Series::bytes("millrace_journal_waiting", "Waiting for their commit")
            .gauge(encoder, stats.waiting_bytes)?;
        Series::bytes("millrace_journal_disk", "Space held, spare files included")
            .gauge(encoder, stats.disk_bytes)?;
        Series::bytes("millrace_journal_largest_group", "The largest group so far")
            .gauge(encoder, stats.largest_group_bytes)?;
        let help = "1 while no further segment can be had: sends are refused";
        Series::new("millrace_journal_full", help).gauge(encoder, u64::from(stats.is_full))?;
        let help = "1 after a failed write or sync: no change is accepted until a restart";
        Series::new("millrace_journal_poisoned", help).gauge(
            encoder,
            u64::from(stats.ended.as_ref().is_some_and(|end| end.needs_restart())),
        )?;
        let help = "Age of the oldest change that waits for its commit, 0 if none does";
        let waiting = stats.oldest_unsettled.unwrap_or_default();
        Series::seconds("millrace_journal_oldest_waiting_age", help)
            .gauge(encoder, waiting.as_secs())?;
        if let Some(age) = stats.last_settled {
            Series::seconds("millrace_journal_last_commit_age", "Time since the latest commit")
                .gauge(encoder, age.as_secs())?;
        }
        encode_syncs(encoder, &stats)
    }

    fn encode_kept(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Ok(home) = self.shards.home() else { return Ok(()) };
        let kept = home.kept().figures();
        // Without any there would be no sample, and nothing that says what the series is.
        if kept.is_empty() {
            return Ok(());
        }
        let of = |figure: fn(&KeptFigures) -> u64| {
            let all = kept.iter();
            all.map(move |(name, figures)| ([("collection", name.as_str())], figure(figures)))
        };
        Series::new("millrace_kept_documents", "Small durable things that are not messages")
            .gauges(encoder, of(|figures| figures.documents))?;
        Series::bytes("millrace_kept", "Memory of their keys and contents")
            .gauges(encoder, of(|figures| figures.bytes))
    }

    fn encode_monitoring(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let by_state = self.monitor.alarms_by_state().map(|(state, n)| ([("state", state)], n));
        Series::new("millrace_alarms", "Alarms by state").gauges(encoder, by_state)?;
        Series::bytes("millrace_metrics_disk", "Space held by the history of metrics")
            .gauge(encoder, self.monitor.store().disk_bytes())
    }
}

fn encode_syncs(encoder: &mut DescriptorEncoder<'_>, stats: &JournalStats) -> fmt::Result {
    let mut histogram = encoder.encode_descriptor(
        "millrace_journal_sync_duration",
        "Write and fdatasync of a group",
        Some(&Unit::Seconds),
        MetricType::Histogram,
    )?;
    let bound_s = |bucket: usize| match bucket {
        bucket if bucket + 1 == SYNC_BUCKETS => f64::INFINITY,
        bucket => (SYNC_FIRST_BUCKET_US << bucket) as f64 / 1e6,
    };
    let buckets: Vec<(f64, u64)> =
        stats.sync_buckets.iter().enumerate().map(|(b, count)| (bound_s(b), *count)).collect();
    let count = stats.sync_buckets.iter().sum();
    let sum_s = stats.sync_time.as_secs_f64();
    histogram.encode_histogram::<NoLabelSet>(sum_s, count, &buckets, None)
}

fn encode_process(encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    Series::new("millrace_build_info", "The version that runs").gauges(encoder, [(version, 1)])?;
    match resident_bytes() {
        Some(bytes) => {
            Series::bytes("process_resident_memory", "Resident memory").gauge(encoder, bytes)
        }
        None => Ok(()),
    }
}

/// Memory that this process takes. Linux: as the kernel reports it.
pub fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

impl fmt::Debug for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Server").finish_non_exhaustive()
    }
}

impl Collector for Server {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.encode_journal(&mut encoder)?;
        self.encode_kept(&mut encoder)?;
        self.encode_monitoring(&mut encoder)?;
        encode_process(&mut encoder)
    }
}
