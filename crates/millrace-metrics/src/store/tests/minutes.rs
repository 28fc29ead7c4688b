//! Minutes that the server gathers itself.

use std::sync::Mutex;

use super::*;
use crate::Value;
use crate::catalog::SERIES_MAX;

/// One entity that counts what the test says.
struct Tally(Mutex<f64>);

impl Tally {
    fn value(&self) -> Vec<Value> {
        let summary = Summary::of(*self.0.lock().unwrap());
        vec![Value { metric: "Sales", unit: Unit::Count, summary, is_gauge: false }]
    }
}

impl Source for Tally {
    fn peek(&self, entity: &Entity, _: Timestamp) -> Vec<Value> {
        if *entity == self::entity("a") { self.value() } else { Vec::new() }
    }

    fn close(&self, _: Timestamp) -> Vec<Sample> {
        let sample = Sample { entity: entity("a"), values: self.value() };
        *self.0.lock().unwrap() = 0.0;
        vec![sample]
    }
}

#[test]
fn the_open_minute_is_seen_and_closed_once() {
    let dir = tempfile::tempdir().unwrap();
    let tally = Arc::new(Tally(Mutex::new(0.0)));
    let store = MetricStore::open(Some(dir.path()), at(START_S)).unwrap();
    store.set_source(tally.clone(), at(START_S));
    let all = START_S..START_S + 600;

    *tally.0.lock().unwrap() = 3.0;
    assert_eq!(store.close_minute(at(START_S + 59)).unwrap(), at(START_S + 60));
    assert_eq!(sums(&store, "a", all.clone(), 60), [(START_S, 3.0)]);
    assert_eq!(store.close_minute(at(START_S + 60)).unwrap(), at(START_S + 120));
    *tally.0.lock().unwrap() = 5.0;
    assert_eq!(sums(&store, "a", all.clone(), 60), [(START_S, 3.0), (START_S + 60, 5.0)]);
    store.flush(at(START_S + 100)).unwrap();
    drop(store);

    let store = MetricStore::open(Some(dir.path()), at(START_S + 110)).unwrap();
    store.set_source(tally.clone(), at(START_S + 110));
    *tally.0.lock().unwrap() = 7.0;
    store.close_minute(at(START_S + 120)).unwrap();
    let minutes = [(START_S, 3.0), (START_S + 60, 12.0), (START_S + 120, 0.0)];
    assert_eq!(sums(&store, "a", all, 60), minutes);
}

#[test]
fn a_minute_has_one_value_of_a_gauge_however_often_processes_end_in_it() {
    struct Stock;

    impl Source for Stock {
        fn peek(&self, _: &Entity, _: Timestamp) -> Vec<Value> {
            Vec::new()
        }

        fn close(&self, _: Timestamp) -> Vec<Sample> {
            let (unit, summary) = (Unit::Count, Summary::of(5.0));
            let values = vec![Value { metric: "Sales", unit, summary, is_gauge: true }];
            vec![Sample { entity: entity("a"), values }]
        }
    }

    let dir = tempfile::tempdir().unwrap();
    for ends_s in [START_S + 10, START_S + 20] {
        let store = MetricStore::open(Some(dir.path()), at(START_S)).unwrap();
        store.set_source(Arc::new(Stock), at(START_S));
        store.flush(at(ends_s)).unwrap();
    }
    let store = MetricStore::open(Some(dir.path()), at(START_S + 30)).unwrap();
    store.set_source(Arc::new(Stock), at(START_S + 30));
    store.close_minute(at(START_S + 60)).unwrap();
    // The minute has ended, though nobody has closed it.
    store.flush(at(START_S + 120)).unwrap();

    let minutes = [(START_S, 5.0), (START_S + 60, 5.0)];
    assert_eq!(sums(&store, "a", START_S..START_S + 600, 60), minutes);
}

/// Each has one value.
struct Crowd(u32);

impl Source for Crowd {
    fn peek(&self, _: &Entity, _: Timestamp) -> Vec<Value> {
        Vec::new()
    }

    fn close(&self, _: Timestamp) -> Vec<Sample> {
        let samples = (0..self.0).map(|number| {
            let (unit, summary) = (Unit::Count, Summary::of(f64::from(number)));
            let values = vec![Value { metric: "Sales", unit, summary, is_gauge: true }];
            Sample { entity: entity(&number.to_string()), values }
        });
        samples.collect()
    }
}

#[test]
fn a_minute_of_many_entities_is_in_parts_before_and_after_it_is_rolled_up() {
    let dir = tempfile::tempdir().unwrap();
    let count = SERIES_MAX as u32;
    let store = MetricStore::open(Some(dir.path()), at(START_S)).unwrap();
    store.set_source(Arc::new(Crowd(count)), at(START_S));
    store.close_minute(at(START_S + 60)).unwrap();
    store.sync().unwrap();
    drop(store);

    for expired_s in [0, START_S + DAY_S + MINUTES_KEPT_S] {
        let store = MetricStore::open(Some(dir.path()), at(START_S + 60)).unwrap();
        store.expire(at(expired_s)).unwrap();
        let connection = |statement: &str| {
            store.inner_mut().writer.connection().execute_batch(statement).unwrap();
        };
        let found = |number: u32| sums(&store, &number.to_string(), START_S..START_S + 300, 300);
        let last = (START_S, f64::from(count - 1));
        connection("CREATE TEMP TABLE sound AS SELECT * FROM points WHERE part = 0");
        connection("UPDATE points SET rows = zeroblob(length(rows)) WHERE part = 0");
        assert_eq!((found(0), found(count - 1)), (vec![], vec![last]), "one part is damaged");
        connection("REPLACE INTO points SELECT * FROM sound");
        assert_eq!((found(0), found(count - 1)), (vec![(START_S, 0.0)], vec![last]));
    }
}

#[test]
fn minutes_that_the_clock_skips_count_as_idle() {
    let tally = Arc::new(Tally(Mutex::new(4.0)));
    let store = MetricStore::open(None, at(START_S)).unwrap();
    store.set_source(tally, at(START_S));

    store.close_minute(at(START_S + 200)).unwrap();

    let minutes = [0, 60, 120, 180].map(|s| (START_S + s, if s == 0 { 4.0 } else { 0.0 }));
    assert_eq!(sums(&store, "a", START_S..START_S + 600, 60), minutes);
}

#[test]
fn of_a_long_gap_six_hours_count_as_idle() {
    let tally = Arc::new(Tally(Mutex::new(4.0)));
    let store = MetricStore::open(None, at(START_S)).unwrap();
    store.set_source(tally, at(START_S));

    store.close_minute(at(START_S + 7 * 3_600 + 30)).unwrap();

    let found = sums(&store, "a", START_S..START_S + DAY_S, 60);
    let idle = (60..420).map(|minute| (START_S + minute * 60, 0.0));
    // The minute that is open is seen as well.
    let expected = std::iter::once((START_S, 4.0)).chain(idle).chain([(START_S + 25_200, 0.0)]);
    assert_eq!(found, expected.collect::<Vec<_>>());
}

#[test]
fn minutes_that_could_not_be_written_are_seen_and_written_later() {
    let dir = tempfile::tempdir().unwrap();
    let tally = Arc::new(Tally(Mutex::new(0.0)));
    let store = MetricStore::open(Some(dir.path()), at(START_S)).unwrap();
    store.set_source(tally.clone(), at(START_S));
    set_refusal(&store, true);
    let close = |minute: u64| {
        *tally.0.lock().unwrap() = minute as f64;
        store.close_minute(at(START_S + minute * 60))
    };
    let found = || {
        let found = sums(&store, "a", START_S..START_S + DAY_S, 60);
        found.into_iter().filter(|(_, sum)| *sum > 0.0).collect::<Vec<_>>()
    };
    let minutes = |first: u64, last: u64| -> Vec<(u64, f64)> {
        (first..=last).map(|minute| (START_S + (minute - 1) * 60, minute as f64)).collect()
    };

    for minute in 1..=70 {
        assert!(matches!(close(minute), Err(StoreError::Io(_))));
    }
    assert_eq!(found(), minutes(11, 70), "an hour of them");
    set_refusal(&store, false);
    assert_eq!(close(71).unwrap(), at(START_S + 72 * 60));
    assert!(store.inner().unwritten.is_empty());
    assert_eq!(found(), minutes(11, 71));
}

/// Gathers a value for each of its names.
struct Names(Mutex<Vec<String>>);

impl crate::Source for Names {
    fn peek(&self, _: &Entity, _: Timestamp) -> Vec<Value> {
        Vec::new()
    }

    fn close(&self, _: Timestamp) -> Vec<Sample> {
        let (metric, unit, summary) = ("Sales", Unit::Count, Summary::of(1.0));
        let value = Value { metric, unit, summary, is_gauge: false };
        let names = self.0.lock().unwrap();
        names.iter().map(|n| Sample { entity: entity(n), values: vec![value.clone()] }).collect()
    }
}

#[test]
fn series_without_room_do_not_keep_others_from_being_stored() {
    let store = MetricStore::open(None, at(START_S)).unwrap();
    let names = Arc::new(Names(Mutex::default()));
    store.set_source(names.clone(), at(START_S));
    names.0.lock().unwrap().push("known".to_owned());
    store.close_minute(at(START_S + 60)).unwrap();
    names.0.lock().unwrap().splice(0..0, (0..SERIES_MAX).map(|number| number.to_string()));

    for minute in 2..=3 {
        store.close_minute(at(START_S + minute * 60)).unwrap();
    }

    assert!(store.inner().unwritten.is_empty());
    let known = sums(&store, "known", START_S..START_S + 180, 60);
    assert_eq!(known, [(START_S, 1.0), (START_S + 60, 1.0), (START_S + 120, 1.0)]);
    let last = (SERIES_MAX - 1).to_string();
    assert_eq!(sums(&store, &last, START_S..START_S + 180, 60), []);
    let new = entity(&last);
    let (metric, unit, summary) = ("Sales", Unit::Count, Summary::of(1.0));
    let record = Record { entity: &new, metric, unit, time_s: START_S, summary };
    assert!(matches!(store.record(&[record]), Err(StoreError::TooManySeries)));
}

#[test]
fn nothing_is_written_after_a_failed_sync_and_the_last_hour_can_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let store = MetricStore::open(Some(dir.path()), at(START_S)).unwrap();
    record(&store, "a", START_S, 1.0);
    let tally = Arc::new(Tally(Mutex::new(2.0)));
    store.set_source(tally.clone(), at(START_S));
    let bytes = store.disk_bytes();
    store.is_poisoned.store(true, Ordering::Relaxed);

    for minute in 1..=70 {
        let closed = store.close_minute(at(START_S + minute * 60));
        assert!(matches!(closed, Err(StoreError::Poisoned)));
        *tally.0.lock().unwrap() = 2.0;
    }
    assert!(matches!(record_days(&store), Err(StoreError::Poisoned)));
    assert_eq!(store.disk_bytes(), bytes);
    let kept = sums(&store, "a", START_S + 60..START_S + 70 * 60, 60);
    assert_eq!(kept.len(), 60);
    assert!(kept.iter().all(|(_, sum)| *sum == 2.0));
}
