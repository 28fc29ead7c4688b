//! Series of the process: journal, alarms, memory.

use std::fmt;
use std::sync::Arc;

use millrace_broker::{Broker, JournalStats, SYNC_BUCKETS, SYNC_FIRST_BUCKET_US};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use crate::cloudwatch::Monitor;

pub(super) struct Server {
    pub(super) broker: Arc<Broker>,
    pub(super) monitor: Arc<Monitor>,
}

impl Server {
    fn encode_journal(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let stats: JournalStats = self.broker.log().stats();
        let counters = [
            (
                "millrace_journal_groups",
                "Groups of records committed, one sync each",
                None,
                stats.groups,
            ),
            ("millrace_journal_records", "Records committed", None, stats.records),
            ("millrace_journal_written", "Records and padding", Some(&Unit::Bytes), stats.bytes),
        ];
        for (name, help, unit, count) in counters {
            let counter = encoder.encode_descriptor(name, help, unit, MetricType::Counter)?;
            ConstCounter::new(count).encode(counter)?;
        }
        let gauges = [
            ("millrace_journal_waiting", "Waiting for their commit", stats.waiting_bytes),
            ("millrace_journal_disk", "Space held, spare files included", stats.disk_bytes),
            (
                "millrace_journal_largest_group",
                "The largest group so far",
                stats.largest_group_bytes,
            ),
        ];
        for (name, help, value) in gauges {
            let unit = Some(&Unit::Bytes);
            let gauge = encoder.encode_descriptor(name, help, unit, MetricType::Gauge)?;
            ConstGauge::new(value).encode(gauge)?;
        }
        let flags = [
            (
                "millrace_journal_full",
                "1 while no further segment can be had: sends are refused",
                stats.is_full,
            ),
            (
                "millrace_journal_poisoned",
                "1 after a failed write or sync: no change is accepted until a restart",
                stats.poison.is_some(),
            ),
        ];
        for (name, help, flag) in flags {
            let gauge = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(u64::from(flag)).encode(gauge)?;
        }
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

    fn encode_monitoring(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "Alarms by state";
        let mut alarms =
            encoder.encode_descriptor("millrace_alarms", help, None, MetricType::Gauge)?;
        for (state, count) in self.monitor.alarms_by_state() {
            ConstGauge::new(count).encode(alarms.encode_family(&[("state", state)])?)?;
        }
        let name = "millrace_metrics_disk";
        let help = "Space held by the history of metrics";
        let gauge = encoder.encode_descriptor(name, help, Some(&Unit::Bytes), MetricType::Gauge)?;
        ConstGauge::new(self.monitor.store().disk_bytes()).encode(gauge)
    }
}

fn encode_process(encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
    let help = "The version that runs";
    let mut build =
        encoder.encode_descriptor("millrace_build_info", help, None, MetricType::Gauge)?;
    let labels = [("version", env!("CARGO_PKG_VERSION"))];
    ConstGauge::new(1_u64).encode(build.encode_family(&labels)?)?;
    if let Some(bytes) = resident_bytes() {
        let name = "process_resident_memory";
        let help = "Resident memory";
        let gauge = encoder.encode_descriptor(name, help, Some(&Unit::Bytes), MetricType::Gauge)?;
        ConstGauge::new(bytes).encode(gauge)?;
    }
    Ok(())
}

/// Linux: as the kernel reports it.
fn resident_bytes() -> Option<u64> {
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
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        self.encode_journal(&mut encoder)?;
        self.encode_monitoring(&mut encoder)?;
        encode_process(&mut encoder)
    }
}
