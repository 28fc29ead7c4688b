//! The last minutes of queues taken together: what a chart shows of the time that nobody watched.
//!
//! Reads the series of `AWS/SQS` of all those queues in one pass, as a job of the account. Bounded
//! by the minutes asked for; a reader who leaves interrupts it.

use std::collections::BTreeMap;

use millrace_core::{QueueKey, Timestamp};
use millrace_metrics::{
    BASE_PERIOD_S, Entity, Interrupt, MetricStore, Periods, SeriesQuery, StoreError, Summary,
};
use millrace_wire::ApiError;

use super::{CloudWatch, of_store};

/// What queues held at the end of a minute, and what they did in it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Minute {
    pub begin: Timestamp,
    /// The present, of the minute that has not ended.
    pub end: Timestamp,
    pub ready: f64,
    pub in_flight: f64,
    pub delayed: f64,
    pub sent: f64,
    pub received: f64,
    pub deleted: f64,
}

type Add = fn(&mut Minute, &Summary);

/// The series of a queue that make up a [`Minute`], and what a data point adds to it. A minute that
/// a restart has cut has two values of what a queue holds.
const SERIES: [(&str, Add); 6] = [
    ("ApproximateNumberOfMessagesVisible", |minute, found| minute.ready += found.max),
    ("ApproximateNumberOfMessagesNotVisible", |minute, found| minute.in_flight += found.max),
    ("ApproximateNumberOfMessagesDelayed", |minute, found| minute.delayed += found.max),
    ("NumberOfMessagesSent", |minute, found| minute.sent += found.sum),
    ("NumberOfMessagesReceived", |minute, found| minute.received += found.sum),
    ("NumberOfMessagesDeleted", |minute, found| minute.deleted += found.sum),
];

impl CloudWatch {
    /// The minutes since `since` in which any of the queues had metrics, in order.
    pub(crate) async fn minutes_of_queues(
        &self,
        account: &str,
        queues: Vec<QueueKey>,
        since: Timestamp,
    ) -> Result<Vec<Minute>, ApiError> {
        let store = self.monitor.store().clone();
        let now = self.shards.now();
        let read = move |interrupt: &Interrupt| minutes(&store, interrupt, &queues, (since, now));
        self.monitor.run(account, read).await?.map_err(|error| of_store(&error))
    }
}

fn minutes(
    store: &MetricStore,
    interrupt: &Interrupt,
    queues: &[QueueKey],
    (since, now): (Timestamp, Timestamp),
) -> Result<Vec<Minute>, StoreError> {
    let entities: Vec<Entity> = queues.iter().map(Entity::of_queue).collect();
    let query = |entity, metric| SeriesQuery {
        entity,
        metric,
        unit: None,
        periods: Periods { origin_s: 0, period_s: BASE_PERIOD_S },
        start_s: since.seconds() / BASE_PERIOD_S * BASE_PERIOD_S,
        end_s: now.seconds() + 1,
    };
    let queries: Vec<SeriesQuery<'_>> = entities
        .iter()
        .flat_map(|entity| SERIES.map(|(metric, _)| query(entity, metric)))
        .collect();
    let mut minutes: BTreeMap<u64, Minute> = BTreeMap::new();
    for (index, points) in store.points_unless(interrupt, &queries, now)?.iter().enumerate() {
        let Some((_, add)) = SERIES.get(index % SERIES.len()) else { continue };
        for point in points {
            let begin = Timestamp(point.time_s * 1000);
            let minute = minutes.entry(point.time_s).or_insert_with(|| Minute {
                begin,
                end: now.min(begin.plus_seconds(BASE_PERIOD_S)),
                ..Minute::default()
            });
            add(minute, &point.summary);
        }
    }
    Ok(minutes.into_values().collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use millrace_metrics::{Sample, Source, Unit, Value};

    use super::*;

    const NOW: Timestamp = Timestamp(1_800_000_030_000);

    /// Two queues, of which one has sent and holds messages.
    struct Queues;

    impl Source for Queues {
        fn peek(&self, entity: &Entity, _: Timestamp) -> Vec<Value> {
            values(entity)
        }

        fn close(&self, _: Timestamp) -> Vec<Sample> {
            let entities = ["a", "b"].map(|name| Entity::of_queue(&key(name)));
            entities.map(|entity| Sample { values: values(&entity), entity }).into()
        }
    }

    fn key(name: &str) -> QueueKey {
        QueueKey::new("us-east-1", "000000000000", name)
    }

    fn values(entity: &Entity) -> Vec<Value> {
        let value = |metric, number, is_gauge| {
            let summary = Summary::of(number);
            Value { metric, unit: Unit::Count, summary, is_gauge }
        };
        let mut values = vec![value("ApproximateNumberOfMessagesVisible", 5.0, true)];
        if entity.dimensions().iter().any(|(_, name)| name == "a") {
            values.push(value("NumberOfMessagesSent", 60.0, false));
        }
        values
    }

    #[test]
    fn minutes_add_up_over_queues_and_end_with_the_present() {
        let store = MetricStore::open(None, NOW).unwrap();
        store.set_source(Arc::new(Queues), NOW);
        store.close_minute(NOW.plus_seconds(60)).unwrap();
        let now = NOW.plus_seconds(70);

        let queues = [key("a"), key("b")];
        let found = minutes(&store, &Interrupt::default(), &queues, (NOW, now)).unwrap();

        let expected = |begin_s: u64, end: Timestamp| Minute {
            begin: Timestamp(begin_s * 1000),
            end,
            ready: 10.0,
            sent: 60.0,
            ..Minute::default()
        };
        let first_s = 1_800_000_000;
        let first = expected(first_s, Timestamp((first_s + 60) * 1000));
        assert_eq!(found, [first, expected(first_s + 60, now)]);
    }
}
