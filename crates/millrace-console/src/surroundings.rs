//! What pages show besides queues: alarms, and the server itself.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use millrace_broker::{JournalStats, SYNC_BUCKETS, SYNC_FIRST_BUCKET_US, Shards};
use millrace_core::Timestamp;
use millrace_services::{AccessKeys, Services, resident_bytes};
use serde_json::{Map, Value, json};

use crate::rows::Row;
use crate::view::View;

/// Figures of the process that the console knows no other way to: of sockets and of the disk.
#[derive(Clone, Debug, Default)]
pub struct ProcessFigures {
    /// Connections of clients that are open.
    pub connections: u64,
    /// Connections of clients since the start.
    pub connections_opened: u64,
    /// Connections that ended, by reason.
    pub connections_closed: Vec<(&'static str, u64)>,
    /// HTTP requests answered, health included.
    pub requests: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
    /// Free for the server, and in all, on the file system of its data; none if that is in memory.
    pub disk: Option<(u64, u64)>,
}

/// Reads [`ProcessFigures`]: some microseconds, once a second while somebody looks at them.
pub type ReadFigures = Arc<dyn Fn() -> ProcessFigures + Send + Sync>;

pub(crate) struct Surroundings {
    shards: Arc<Shards>,
    services: Arc<Services>,
    access_keys: AccessKeys,
    figures: ReadFigures,
    durability: &'static str,
    started: Timestamp,
}

impl Surroundings {
    pub(crate) fn new(
        shards: Arc<Shards>,
        services: Arc<Services>,
        access_keys: AccessKeys,
        (figures, durability): (ReadFigures, &'static str),
    ) -> Surroundings {
        let started = shards.now();
        Surroundings { shards, services, access_keys, figures, durability, started }
    }

    pub(crate) fn shards(&self) -> &Shards {
        &self.shards
    }

    pub(crate) fn services(&self) -> &Services {
        &self.services
    }

    /// When this process began to serve.
    pub(crate) fn started(&self) -> Timestamp {
        self.started
    }

    /// How many alarms are in alarm, by account.
    pub(crate) fn in_alarm(&self) -> Arc<BTreeMap<String, u64>> {
        self.services.in_alarm()
    }

    /// The server page's figures, and its list of actions.
    ///
    /// All but whether the server runs and takes changes is of all accounts together: where there
    /// are several, none sees what the others do.
    pub(crate) fn server(&self, view: &View) -> (Map<String, Value>, Vec<Row>) {
        let journal = self.shards.home().map(|home| home.log().stats()).unwrap_or_default();
        let mut head = object(json!({
            "started": self.started.0,
            "version": env!("CARGO_PKG_VERSION"),
            "durability": self.durability,
            "is_full": journal.is_full,
            "is_poisoned": journal.ended.is_some(),
        }));
        if !self.may_see_all(view) {
            head.insert("is_partial".to_owned(), true.into());
            return (head, Vec::new());
        }
        head.extend(self.process_head());
        head.extend(journal_head(&journal));
        let actions = self.actions();
        let sum = |name: &str| {
            let counts = actions.iter().filter_map(|row| row.cells.get(name)?.as_u64());
            Value::from(counts.sum::<u64>())
        };
        for name in ["client_errors", "server_errors"] {
            head.insert(name.to_owned(), sum(name));
        }
        (head, actions)
    }

    /// Whether the viewer's account is the only one with a key.
    fn may_see_all(&self, view: &View) -> bool {
        let Some(mine) = &view.account else { return true };
        self.access_keys.all().iter().all(|key| key.account == *mine)
    }

    fn process_head(&self) -> Map<String, Value> {
        let figures = (self.figures)();
        let closed: u64 = figures.connections_closed.iter().map(|(_, count)| count).sum();
        let reasons: Map<String, Value> = figures
            .connections_closed
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|(reason, count)| ((*reason).to_owned(), (*count).into()))
            .collect();
        object(json!({
            "connections": figures.connections,
            "connections_opened": figures.connections_opened,
            "connections_closed": closed,
            "closed_by_reason": reasons,
            "requests": figures.requests,
            "bytes_in": figures.bytes_in,
            "bytes_out": figures.bytes_out,
            "disk_available": figures.disk.map(|(available, _)| available),
            "disk_total": figures.disk.map(|(_, total)| total),
            "metrics_disk": self.services.metrics_disk_bytes(),
            "memory": resident_bytes(),
        }))
    }

    fn actions(&self) -> Vec<Row> {
        let requests = self.services.requests();
        let rows = requests.iter().map(|counts| {
            let all = counts.succeeded + counts.client_errors + counts.server_errors;
            let mean_us = counts.took.as_micros() as u64 / all.max(1);
            Row {
                key: format!("{}/{}", counts.service, counts.action),
                cells: object(json!({
                    "service": counts.service,
                    "action": counts.action,
                    "requests": all,
                    "client_errors": counts.client_errors,
                    "server_errors": counts.server_errors,
                    "mean_us": mean_us,
                })),
            }
        });
        rows.collect()
    }
}

fn journal_head(stats: &JournalStats) -> Map<String, Value> {
    object(json!({
        "journal_disk": stats.disk_bytes,
        "journal_written": stats.bytes,
        "journal_records": stats.records,
        "journal_waiting": stats.waiting_bytes,
        "journal_largest_group": stats.largest_group_bytes,
        "syncs": stats.sync_buckets.iter().sum::<u64>(),
        "sync_time_us": micros(stats.sync_time),
        "sync_p50_us": sync_percentile_us(stats, 0.5),
        "sync_p99_us": sync_percentile_us(stats, 0.99),
    }))
}

/// The end of the bucket in which that share of the syncs is reached; none without syncs, or if it
/// is in the last bucket, which has no end.
fn sync_percentile_us(stats: &JournalStats, share: f64) -> Option<u64> {
    let all: u64 = stats.sync_buckets.iter().sum();
    let wanted = ((all as f64 * share).ceil() as u64).max(1);
    let mut below = 0;
    let bucket = stats.sync_buckets.iter().position(|count| {
        below += count;
        below >= wanted
    })?;
    (bucket + 1 < SYNC_BUCKETS).then(|| SYNC_FIRST_BUCKET_US << bucket)
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_the_end_of_its_bucket() {
        let mut stats = JournalStats {
            groups: 0,
            records: 0,
            bytes: 0,
            sync_buckets: [0; SYNC_BUCKETS],
            sync_time: Duration::ZERO,
            largest_group_bytes: 0,
            waiting_bytes: 0,
            disk_bytes: 0,
            is_full: false,
            ended: None,
            oldest_unsettled: None,
            last_settled: None,
        };
        assert_eq!(sync_percentile_us(&stats, 0.5), None);

        stats.sync_buckets[2] = 98;
        stats.sync_buckets[5] = 2;

        assert_eq!(sync_percentile_us(&stats, 0.5), Some(64));
        assert_eq!(sync_percentile_us(&stats, 0.99), Some(512));
        stats.sync_buckets[SYNC_BUCKETS - 1] = 1_000;
        assert_eq!(sync_percentile_us(&stats, 0.99), None);
    }
}
