//! Reads of a snapshot, what is written meanwhile, and what ends them.

use std::sync::Mutex;

use super::*;
use crate::Value;

/// A day of a hundred series, a value of each a minute.
fn store_of_a_day() -> MetricStore {
    let store = MetricStore::open(None, at(START_S)).unwrap();
    let entities: Vec<Entity> = (0..100).map(|number| entity(&number.to_string())).collect();
    for minute in 0..1_000 {
        let record = |entity| Record {
            entity,
            metric: "Sales",
            unit: Unit::Count,
            time_s: START_S + minute * 60,
            summary: Summary::of(1.0),
        };
        store.record(&entities.iter().map(record).collect::<Vec<_>>()).unwrap();
    }
    store
}

#[test]
fn what_is_written_or_rolled_up_meanwhile_is_not_in_a_snapshot() {
    let dir = tempfile::tempdir().unwrap();
    let store = MetricStore::open(Some(dir.path()), at(START_S)).unwrap();
    (0..10).for_each(|minute| record(&store, "a", START_S + minute * 60, 1.0));
    let entity = entity("a");
    let periods = Periods { origin_s: 0, period_s: 60 };
    let queries = [sales(&entity, START_S..START_S + DAY_S, periods)];
    let snapshot = store.database.snapshot().unwrap();
    let reading = Reading::begin(&store.inner(), &queries, usize::MAX);

    record(&store, "a", START_S, 100.0);
    store.expire(at(START_S + DAY_S + MINUTES_KEPT_S)).unwrap();
    let found = reading.read(snapshot.connection(), &Interrupt::default()).unwrap().remove(0);
    snapshot.end();

    assert_eq!((found.len(), found.values().map(|s| s.sum).sum::<f64>()), (10, 10.0));
    let now = sums(&store, "a", START_S..START_S + DAY_S, 300);
    assert_eq!(now, [(START_S, 105.0), (START_S + 300, 5.0)]);
}

#[test]
fn a_read_ends_once_it_is_interrupted() {
    let store = store_of_a_day();
    let known = entity("7");
    let periods = Periods { origin_s: 0, period_s: 60 };
    let query = sales(&known, START_S..START_S + DAY_S, periods);
    let interrupt = Interrupt::default();

    assert_eq!(store.points_unless(&interrupt, &[query], at(START_S)).unwrap()[0].len(), 1_000);
    interrupt.set();
    let read = store.points_unless(&interrupt, &[query], at(START_S));
    assert!(matches!(read, Err(StoreError::Interrupted)));
}

/// Counts one in each minute.
struct One(Mutex<u64>);

impl Source for One {
    fn peek(&self, _: &Entity, _: Timestamp) -> Vec<Value> {
        Vec::new()
    }

    fn close(&self, _: Timestamp) -> Vec<Sample> {
        *self.0.lock().unwrap() += 1;
        let (metric, unit, summary) = ("Sales", Unit::Count, Summary::of(1.0));
        let values = vec![Value { metric, unit, summary, is_gauge: false }];
        vec![Sample { entity: entity("counted"), values }]
    }
}

#[test]
fn series_that_are_removed_or_cleared_are_gone_for_good() {
    let dir = tempfile::tempdir().unwrap();
    let store = MetricStore::open(Some(dir.path()), at(START_S)).unwrap();
    ["a", "b"].into_iter().for_each(|name| record(&store, name, START_S, 1.0));
    let all = START_S..START_S + DAY_S;
    let found =
        |store: &MetricStore| ["a", "b"].map(|name| sums(store, name, all.clone(), DAY_S).len());
    let remove = |store: &MetricStore, filter: &RemoveFilter<'_>| store.remove(filter).unwrap();
    let none = RemoveFilter::default();

    for other in [
        RemoveFilter { account: Some("1"), ..none },
        RemoveFilter { region: Some("eu-west-1"), ..none },
        RemoveFilter { namespace: Some("Bank"), ..none },
        RemoveFilter { metric: Some("Returns"), ..none },
        RemoveFilter { dimensions: &[("Name".into(), "c".into())], ..none },
    ] {
        assert_eq!(remove(&store, &other), 0);
    }
    let filter = RemoveFilter {
        account: Some("000000000000"),
        region: Some("us-east-1"),
        namespace: Some("Shop"),
        metric: Some("Sales"),
        dimensions: &[("Name".into(), "a".into())],
    };
    assert_eq!((store.count(&filter), store.count(&RemoveFilter::default())), (1, 2));
    assert_eq!((remove(&store, &filter), remove(&store, &filter)), (1, 0));
    assert_eq!(found(&store), [0, 1]);
    store.sync().unwrap();
    drop(store);
    let store = MetricStore::open(Some(dir.path()), at(START_S)).unwrap();
    assert_eq!(found(&store), [0, 1]);
    record(&store, "a", START_S, 1.0);
    assert_eq!(sums(&store, "a", all.clone(), DAY_S), [(START_S, 1.0)], "as a new one");

    let source = Arc::new(One(Mutex::new(0)));
    store.set_source(source.clone(), at(START_S));
    store.clear(at(START_S + 90)).unwrap();
    assert_eq!((found(&store), store.scopes().len()), ([0, 0], 0));
    assert_eq!(*source.0.lock().unwrap(), 1, "what was gathered is gone, too");
    assert_eq!(crate::points::days(store.inner_mut().writer.connection()).unwrap(), None);
    drop(store);
    let store = MetricStore::open(Some(dir.path()), at(START_S)).unwrap();
    assert_eq!(found(&store), [0, 0]);
}
