//! The name space `AWS/SQS`: what queues have done and hold, as metrics.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millrace_broker::{Fairness, Kind, QueueFigures, QueueTotals, Shards, SharedQueue};
use millrace_core::{QueueId, Timestamp};
use millrace_metrics::{Entity, MetricStore, Sample, Source, Summary, Unit, Value};

use super::resume::{ACTIVE_S, Begun, still_active};

/// Reads the figures of all queues once a minute, and those of one when asked.
pub(super) struct QueueMetrics {
    shards: Arc<Shards>,
    /// Totals count from here on.
    started: Timestamp,
    gathered: Mutex<Gathered>,
}

#[derive(Default)]
struct Gathered {
    queues: HashMap<QueueId, Seen>,
    /// Of queues deleted since the last close.
    deleted: Vec<Sample>,
    /// The last two closes, the later one second.
    closes: [Option<Timestamp>; 2],
}

/// A queue as it was at the last close.
#[derive(Clone, Copy, Default)]
struct Seen {
    totals: QueueTotals,
    /// At the close before that.
    earlier: QueueTotals,
    active_until: Timestamp,
    /// Which of [`AFTER_EVENTS`] it has.
    begun: Begun,
}

/// CloudWatch: metrics of which a queue has data points only since something happened that they
/// are about; then it has them in each minute. The others it has from its creation on.
const AFTER_EVENTS: [&str; 7] = [
    "ApproximateAgeOfOldestMessage",
    "NumberOfMessagesSent",
    "NumberOfMessagesReceived",
    "NumberOfMessagesDeleted",
    "NumberOfEmptyReceives",
    "NumberOfDeduplicatedSentMessages",
    "ApproximateNumberOfGroupsWithInflightMessages",
];

impl QueueMetrics {
    /// Metrics of the broker's queues, those of deleted ones included.
    pub(super) fn new(shards: Arc<Shards>) -> Arc<QueueMetrics> {
        let metrics =
            Arc::new(QueueMetrics { started: shards.now(), shards, gathered: Mutex::default() });
        let listener = Arc::downgrade(&metrics);
        metrics.shards.catalog().on_delete(Box::new(move |queue| {
            if let Some(metrics) = listener.upgrade() {
                metrics.queue_deleted(queue);
            }
        }));
        metrics
    }

    /// Finds out which queues were active when the process before ended. To be called once, before
    /// the first close.
    pub(super) fn resume(&self, store: &MetricStore) {
        let queues = self.shards.catalog().queues();
        let entities: Vec<_> = queues.iter().map(|queue| Entity::of_queue(queue.key())).collect();
        let always = "ApproximateNumberOfMessagesVisible";
        match still_active(store, &entities, (always, &AFTER_EVENTS), self.shards.now()) {
            Ok(still) => {
                let mut gathered = self.gathered();
                for (number, begun) in still.found {
                    let Some(queue) = queues.get(number) else { continue };
                    let seen = gathered.queues.entry(queue.id()).or_default();
                    (seen.active_until, seen.begun) = (still.until, begun);
                }
            }
            Err(error) => {
                tracing::warn!(%error, "queues without messages have no metrics until they are used");
            }
        }
    }

    /// Forgets what was gathered.
    pub(super) fn forget(&self) {
        *self.gathered() = Gathered::default();
    }

    /// The totals of a queue at the close before the last, and when they were so: a minute or two
    /// ago, or since when they count.
    pub(super) fn earlier(&self, queue: &SharedQueue) -> (QueueTotals, Timestamp) {
        let gathered = self.gathered();
        let earlier = gathered.queues.get(&queue.id()).map(|seen| seen.earlier);
        let since = gathered.closes[0].unwrap_or(self.started);
        let created = Timestamp(queue.definition().created_ms);
        (earlier.unwrap_or_default(), since.max(created))
    }

    /// Its last figures would be lost with the queue.
    fn queue_deleted(&self, queue: &SharedQueue) {
        let mut gathered = self.gathered();
        let figures = QueueFigures::of(queue);
        let seen = gathered.queues.remove(&queue.id()).unwrap_or_default();
        if figures.totals != seen.totals {
            let values = values(queue, &figures, &seen, self.shards.now());
            let counted = values.into_iter().filter(|value| !value.is_gauge).collect();
            gathered
                .deleted
                .push(Sample { entity: Entity::of_queue(queue.key()), values: counted });
        }
    }

    /// Locked for one queue at a time: requests that delete one wait for no more than that.
    fn close_queue(&self, queue: &SharedQueue, now: Timestamp) -> Option<Sample> {
        let mut gathered = self.gathered();
        // One that is deleted was counted, or will be after this close.
        let figures = QueueFigures::close_size_period(queue)?;
        let seen = gathered.queues.entry(queue.id()).or_default();
        let before = *seen;
        if has_activity(&figures, seen) {
            seen.active_until = now.plus_seconds(ACTIVE_S);
        }
        seen.earlier = std::mem::replace(&mut seen.totals, figures.totals);
        seen.begun = begun(&figures, before.begun);
        let is_active = now < seen.active_until || is_new(queue, now);
        drop(gathered);
        is_active.then(|| {
            let values = values(queue, &figures, &before, now);
            Sample { entity: Entity::of_queue(queue.key()), values }
        })
    }

    fn gathered(&self) -> MutexGuard<'_, Gathered> {
        self.gathered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Source for QueueMetrics {
    fn peek(&self, entity: &Entity, now: Timestamp) -> Vec<Value> {
        let [(dimension, name)] = entity.dimensions() else { return Vec::new() };
        if entity.namespace != "AWS/SQS" || dimension != "QueueName" {
            return Vec::new();
        }
        let gathered = self.gathered();
        let deleted = gathered.deleted.iter().filter(|sample| sample.entity == *entity);
        let mut found: Vec<Value> =
            deleted.flat_map(|sample| sample.values.iter().cloned()).collect();
        let queue = self.shards.catalog().queue(&entity.scope.region, &entity.scope.account, name);
        if let Some(queue) = queue {
            let figures = QueueFigures::of(&queue);
            let seen = gathered.queues.get(&queue.id()).copied().unwrap_or_default();
            if is_active(&figures, &seen, now) || is_new(&queue, now) {
                found.extend(values(&queue, &figures, &seen, now));
            }
        }
        found
    }

    fn close(&self, now: Timestamp) -> Vec<Sample> {
        let mut samples = {
            let mut gathered = self.gathered();
            gathered.closes = [gathered.closes[1], Some(now)];
            std::mem::take(&mut gathered.deleted)
        };
        for queue in self.shards.catalog().queues() {
            samples.extend(self.close_queue(&queue, now));
        }
        samples
    }
}

/// CloudWatch shows a queue that nobody has used yet, too.
fn is_new(queue: &SharedQueue, now: Timestamp) -> bool {
    now < Timestamp(queue.definition().created_ms).plus_seconds(ACTIVE_S)
}

/// The metrics that a queue has by now.
fn begun(figures: &QueueFigures, before: Begun) -> Begun {
    let QueueFigures { totals, gauges, .. } = figures;
    let has_begun = [
        gauges.counts.total() > 0,
        totals.messages_sent > 0,
        totals.messages_received > 0,
        totals.messages_deleted > 0,
        totals.empty_receives > 0,
        totals.messages_deduplicated > 0,
        gauges.groups_in_flight > 0,
    ];
    let now = has_begun.iter().enumerate().filter(|(_, has_begun)| **has_begun);
    before.and(Begun::of(now.map(|(metric, _)| metric)))
}

fn has(begun: Begun, metric: &str) -> bool {
    let at = AFTER_EVENTS.iter().position(|known| *known == metric);
    at.is_none_or(|at| begun.has(at))
}

fn is_active(figures: &QueueFigures, seen: &Seen, now: Timestamp) -> bool {
    now < seen.active_until || has_activity(figures, seen)
}

/// Whether something has happened since the last close, or waits to.
fn has_activity(figures: &QueueFigures, seen: &Seen) -> bool {
    let counts = figures.gauges.counts;
    figures.totals != seen.totals || counts.total() > 0
}

/// The metrics of a queue: what it holds, and what was counted since it was seen.
fn values(queue: &SharedQueue, figures: &QueueFigures, seen: &Seen, now: Timestamp) -> Vec<Value> {
    let QueueFigures { totals, gauges, .. } = figures;
    let (before, begun) = (&seen.totals, begun(figures, seen.begun));
    let mut values = vec![
        gauge("ApproximateNumberOfMessagesVisible", Unit::Count, gauges.counts.ready),
        gauge("ApproximateNumberOfMessagesNotVisible", Unit::Count, gauges.counts.in_flight),
        gauge("ApproximateNumberOfMessagesDelayed", Unit::Count, gauges.counts.delayed),
        gauge("ApproximateAgeOfOldestMessage", Unit::Seconds, figures.oldest_age_s(now)),
        count("NumberOfMessagesSent", totals.messages_sent, before.messages_sent),
        count("NumberOfMessagesReceived", totals.messages_received, before.messages_received),
        count("NumberOfMessagesDeleted", totals.messages_deleted, before.messages_deleted),
        count("NumberOfEmptyReceives", totals.empty_receives, before.empty_receives),
    ];
    values.extend(sent_message_size(figures, before));
    if queue.kind() == Kind::Fifo {
        let (now, before) = (totals.messages_deduplicated, before.messages_deduplicated);
        values.push(count("NumberOfDeduplicatedSentMessages", now, before));
        let groups = gauges.groups_in_flight;
        values.push(gauge("ApproximateNumberOfGroupsWithInflightMessages", Unit::Count, groups));
    }
    values.retain(|value| has(begun, value.metric));
    if let Some(fairness) = &gauges.fairness {
        values.extend(of_groups(fairness, now));
    }
    values
}

fn sent_message_size(figures: &QueueFigures, before: &QueueTotals) -> Option<Value> {
    let QueueFigures { totals, sent_sizes, .. } = figures;
    let sent = totals.messages_sent.saturating_sub(before.messages_sent);
    let (smallest, largest) = sent_sizes.filter(|_| sent > 0)?;
    let bytes = totals.sent_bytes.saturating_sub(before.sent_bytes);
    let [sent, bytes, smallest, largest] = [sent, bytes, smallest, largest].map(|n| n as f64);
    let summary = Summary::of_set(sent, bytes, smallest, largest);
    Some(Value { metric: "SentMessageSize", unit: Unit::Bytes, summary, is_gauge: false })
}

/// Noisy groups, and what the quiet ones hold.
fn of_groups(fairness: &Fairness, now: Timestamp) -> [Value; 5] {
    let Fairness { noisy_groups, quiet, quiet_oldest_sent } = *fairness;
    let oldest_s = quiet_oldest_sent.map_or(0, |sent| now.millis_since(sent) / 1000);
    let in_flight = "ApproximateNumberOfMessagesNotVisibleInQuietGroups";
    [
        gauge("ApproximateNumberOfNoisyGroups", Unit::Count, noisy_groups),
        gauge("ApproximateNumberOfMessagesVisibleInQuietGroups", Unit::Count, quiet.ready),
        gauge(in_flight, Unit::Count, quiet.in_flight),
        gauge("ApproximateNumberOfMessagesDelayedInQuietGroups", Unit::Count, quiet.delayed),
        gauge("ApproximateAgeOfOldestMessageInQuietGroups", Unit::Seconds, oldest_s),
    ]
}

/// What a queue holds.
fn gauge(metric: &'static str, unit: Unit, value: u64) -> Value {
    Value { metric, unit, summary: Summary::of(value as f64), is_gauge: true }
}

/// What was counted since `before`.
fn count(metric: &'static str, total: u64, before: u64) -> Value {
    let summary = Summary::of(total.saturating_sub(before) as f64);
    Value { metric, unit: Unit::Count, summary, is_gauge: false }
}
