mod copies;
mod expiry;
mod minutes;
mod removed;
mod snapshots;

use std::ops::Range;

use super::*;
use crate::database;
use crate::resolution::DAY_S;
use crate::{HOURS_KEPT_S, MINUTES_KEPT_S, Statistic};

/// A midnight.
const START_S: u64 = 20_000 * DAY_S;

fn entity(name: &str) -> Entity {
    let scope = Scope { region: "us-east-1".into(), account: "000000000000".into() };
    Entity::new(scope, "Shop", vec![("Name".into(), name.into())])
}

fn at(time_s: u64) -> Timestamp {
    Timestamp(time_s * 1000)
}

fn record(store: &MetricStore, name: &str, time_s: u64, value: f64) {
    let entity = entity(name);
    let summary = Summary::of(value);
    let record = Record { entity: &entity, metric: "Sales", unit: Unit::Count, time_s, summary };
    store.record(&[record]).unwrap();
}

fn sales(entity: &Entity, range_s: Range<u64>, periods: Periods) -> SeriesQuery<'_> {
    let Range { start: start_s, end: end_s } = range_s;
    SeriesQuery { entity, metric: "Sales", unit: None, periods, start_s, end_s }
}

fn sums(store: &MetricStore, name: &str, range_s: Range<u64>, period_s: u64) -> Vec<(u64, f64)> {
    let entity = entity(name);
    let periods = Periods { origin_s: range_s.start, period_s };
    let query = sales(&entity, range_s.clone(), periods);
    let points = store.points(&[query], at(range_s.end)).unwrap().remove(0);
    let sum = |s: &Summary| Statistic::Sum.value(s).unwrap();
    points.iter().map(|point| (point.time_s, sum(&point.summary))).collect()
}

#[test]
fn values_of_a_minute_add_up_and_survive_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let store = MetricStore::open(Some(dir.path()), at(START_S)).unwrap();
    for (time_s, value) in [(5, 1.0), (59, 2.0), (60, 4.0), (190, 8.0)] {
        record(&store, "a", START_S + time_s, value);
    }
    record(&store, "b", START_S, 100.0);
    store.sync().unwrap();
    drop(store);

    let store = MetricStore::open(Some(dir.path()), at(START_S + 600)).unwrap();
    record(&store, "a", START_S + 30, 16.0);

    let minutes = [(START_S, 19.0), (START_S + 60, 4.0), (START_S + 180, 8.0)];
    assert_eq!(sums(&store, "a", START_S..START_S + 600, 60), minutes);
    assert_eq!(sums(&store, "a", START_S + 60..START_S + 180, 60), minutes[1..2]);
    assert_eq!(sums(&store, "a", START_S..START_S + 600, 300), [(START_S, 31.0)]);
    assert_eq!(sums(&store, "b", START_S..START_S + 600, 60), [(START_S, 100.0)]);
    assert_eq!(sums(&store, "c", START_S..START_S + 600, 60), []);
}

#[test]
fn queries_and_filters_tell_series_apart() {
    let store = MetricStore::open(None, at(START_S)).unwrap();
    let scope = entity("a").scope;
    let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
    };
    let shop = Entity::new(scope.clone(), "Shop", pairs(&[("City", "x"), ("Name", "a")]));
    let bank = Entity::new(scope.clone(), "Bank", pairs(&[("Name", "x")]));
    let put = |entity: &Entity, metric, unit, value| {
        let summary = Summary::of(value);
        store.record(&[Record { entity, metric, unit, time_s: START_S, summary }]).unwrap();
    };
    put(&shop, "Sales", Unit::Count, 1.0);
    put(&shop, "Sales", Unit::Bytes, 2.0);
    put(&shop, "Returns", Unit::Count, 4.0);
    put(&bank, "Sales", Unit::Count, 8.0);

    for (entity, metric, unit, expected) in [
        (&shop, "Sales", None, 3.0),
        (&shop, "Sales", Some(Unit::Bytes), 2.0),
        (&shop, "Returns", None, 4.0),
        (&shop, "Returns", Some(Unit::Bytes), 0.0),
        (&bank, "Sales", Some(Unit::Count), 8.0),
    ] {
        let periods = Periods { origin_s: 0, period_s: 60 };
        let query = sales(entity, START_S..START_S + 60, periods);
        let query = SeriesQuery { metric, unit, ..query };
        let points = store.points(&[query], at(START_S)).unwrap().remove(0);
        assert_eq!(points.iter().map(|point| point.summary.sum).sum::<f64>(), expected);
    }
    let count = |namespace, metric, dimensions: &[(&str, Option<&str>)]| {
        let dimensions: Vec<_> =
            dimensions.iter().map(|(n, v)| ((*n).to_owned(), v.map(str::to_owned))).collect();
        let filter =
            ListFilter { namespace, metric, dimensions: &dimensions, ..ListFilter::default() };
        store.list(&scope, &filter, at(START_S)).len()
    };
    assert_eq!(count(None, None, &[]), 3);
    assert_eq!((count(Some("Shop"), None, &[]), count(Some("Bank"), Some("Returns"), &[])), (2, 0));
    assert_eq!(count(Some("Bank"), None, &[("City", None)]), 0);
    assert_eq!(count(None, None, &[("Name", Some("a"))]), 2);
    assert_eq!(count(None, None, &[("Name", Some("x"))]), 1);
    assert_eq!(count(None, None, &[("Name", Some("a")), ("City", Some("y"))]), 0);
}

#[test]
fn periods_begin_at_their_origin_and_none_before_the_first() {
    let start_of = |origin_s, time_s| Periods { origin_s, period_s: 300 }.start_of(time_s);
    assert_eq!([0, 299, 300, 301].map(|time_s| start_of(0, time_s)), [0, 0, 300, 300]);
    assert_eq!([640, 939, 940].map(|time_s| start_of(1_240, time_s)), [640, 640, 940]);
    assert_eq!(start_of(1_240, 39), 0);
    let store = MetricStore::open(None, at(START_S)).unwrap();
    assert_eq!(sums(&store, "a", 0..0, 60), []);
}

/// Makes the database refuse data points, or take them again.
fn set_refusal(store: &MetricStore, is_refused: bool) {
    let statement = match is_refused {
        true => {
            "CREATE TRIGGER refusal BEFORE INSERT ON points WHEN new.day > 20000 OR new.minute < 999 \
             BEGIN SELECT raise(ABORT, 'refused'); END"
        }
        false => "DROP TRIGGER refusal",
    };
    store.inner_mut().writer.connection().execute_batch(statement).unwrap();
}

#[test]
fn what_is_no_database_is_set_aside_and_another_begins() {
    let dir = tempfile::tempdir().unwrap();
    let path = database::path_in(dir.path());

    for number in 1..=2 {
        std::fs::write(&path, format!("something else {number}").repeat(99)).unwrap();
        let store = MetricStore::open(Some(dir.path()), at(START_S)).unwrap();
        record_days(&store).unwrap();
        store.sync().unwrap();
        let kept = path.with_extension(format!("db.damaged-{number}"));
        assert!(std::fs::read_to_string(kept).unwrap().starts_with("something else"));
        drop(store);
        let store = MetricStore::open(Some(dir.path()), at(START_S)).unwrap();
        assert_eq!(sums(&store, "a", START_S..START_S + DAY_S, DAY_S), [(START_S, 4.0)]);
    }
}

#[test]
fn a_database_whose_names_cannot_be_read_is_set_aside() {
    for damage in [
        "UPDATE series SET unit = 4711",
        "UPDATE series SET metric = x'ff'",
        "UPDATE entities SET dimensions = x'ff'",
        "UPDATE series SET number = 1 << 40",
        "UPDATE state SET value = 'many'",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let store = MetricStore::open(Some(dir.path()), at(START_S)).unwrap();
        record_days(&store).unwrap();
        store.inner_mut().writer.connection().execute_batch(damage).unwrap();
        drop(store);

        let store = MetricStore::open(Some(dir.path()), at(START_S)).unwrap();

        assert!(dir.path().join("history.db.damaged-1").exists(), "{damage}");
        assert_eq!(store.list(&entity("a").scope, &ListFilter::default(), at(0)), []);
        record_days(&store).unwrap();
    }
}

#[test]
fn days_beyond_all_reason_are_read_and_looked_at_without_overflow() {
    let dir = tempfile::tempdir().unwrap();
    let store = MetricStore::open(Some(dir.path()), at(START_S)).unwrap();
    record_days(&store).unwrap();
    let days =
        "UPDATE series SET last_day = -1; UPDATE points SET day = ~(1 << 63) WHERE day > 20000";
    store.inner_mut().writer.connection().execute_batch(days).unwrap();
    drop(store);

    let store = MetricStore::open(Some(dir.path()), at(START_S)).unwrap();
    store.expire(at(START_S + 2 * DAY_S + HOURS_KEPT_S)).unwrap();
    record_days(&store).unwrap();
    assert_eq!(sums(&store, "a", START_S..START_S + 2 * DAY_S, DAY_S), []);
}

#[test]
fn damage_of_any_page_neither_panics_nor_keeps_the_store_from_opening() {
    let dir = tempfile::tempdir().unwrap();
    let path = database::path_in(dir.path());
    let store = MetricStore::open(Some(dir.path()), at(START_S)).unwrap();
    (0..300).for_each(|number| record(&store, &number.to_string(), START_S + number * 60, 1.0));
    drop(store);
    let sound = std::fs::read(&path).unwrap();
    let pages = sound.len() / 4_096;
    assert!(pages > 10, "{pages}");

    for (page, byte) in (0..pages).flat_map(|page| [(page, 0xff), (page, 0x00)]) {
        for file in std::fs::read_dir(dir.path()).unwrap() {
            std::fs::remove_file(file.unwrap().path()).unwrap();
        }
        let mut damaged = sound.clone();
        damaged[page * 4_096..][..4_096].fill(byte);
        std::fs::write(&path, damaged).unwrap();
        let store = MetricStore::open(Some(dir.path()), at(START_S)).unwrap();
        // Damage outside the names is found by what needs the page, and reported.
        let entity = entity("7");
        let summary = Summary::of(1.0);
        let (metric, unit, time_s) = ("Sales", Unit::Count, START_S);
        let _ = store.record(&[Record { entity: &entity, metric, unit, time_s, summary }]);
        let periods = Periods { origin_s: 0, period_s: 60 };
        let _ = store.points(&[sales(&entity, START_S..START_S + DAY_S, periods)], at(START_S));
        let _ = store.expire(at(START_S + 2 * DAY_S + MINUTES_KEPT_S));
    }
}

#[test]
fn a_database_that_is_lost_begins_again_whatever_is_left_beside_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = database::path_in(dir.path());
    let store = MetricStore::open(Some(dir.path()), at(START_S)).unwrap();
    record_days(&store).unwrap();
    let wal = dir.path().join("history.db-wal");
    let left = std::fs::read(&wal).unwrap();
    drop(store);
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&wal, left).unwrap();

    let store = MetricStore::open(Some(dir.path()), at(START_S)).unwrap();

    let all = START_S..START_S + 2 * DAY_S;
    assert_eq!(sums(&store, "a", all.clone(), DAY_S), []);
    record_days(&store).unwrap();
    drop(store);
    let store = MetricStore::open(Some(dir.path()), at(START_S)).unwrap();
    assert_eq!(sums(&store, "a", all, DAY_S), [(START_S, 4.0), (START_S + DAY_S, 2.0)]);
}

#[test]
fn a_database_of_a_later_version_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let store = MetricStore::open(Some(dir.path()), at(START_S)).unwrap();
    record_days(&store).unwrap();
    store.inner_mut().writer.connection().execute_batch("PRAGMA user_version = 99").unwrap();
    drop(store);

    let opened = MetricStore::open(Some(dir.path()), at(START_S));
    let error = opened.err().unwrap().to_string();
    assert!(error.contains("later version"), "{error}");
    let connection = rusqlite::Connection::open(database::path_in(dir.path())).unwrap();
    connection.execute_batch("PRAGMA user_version = 1").unwrap();
    drop(connection);
    let store = MetricStore::open(Some(dir.path()), at(START_S)).unwrap();
    assert_eq!(sums(&store, "a", START_S..START_S + DAY_S, DAY_S), [(START_S, 4.0)]);
}

#[test]
fn scopes_are_those_of_all_series() {
    let store = MetricStore::open(None, at(START_S)).unwrap();
    let far = Scope { region: "eu-west-1".into(), ..entity("a").scope };
    for scope in [&far, &entity("a").scope, &far] {
        let entity = Entity::new(scope.clone(), "Shop", Vec::new());
        let (unit, summary) = (Unit::Count, Summary::of(1.0));
        let record = Record { entity: &entity, metric: "Sales", unit, time_s: START_S, summary };
        store.record(&[record]).unwrap();
    }

    assert!(store.scopes().iter().eq([&far, &entity("a").scope]));
}

#[test]
fn series_are_listed_for_as_long_as_asked_and_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let store = MetricStore::open(Some(dir.path()), at(START_S)).unwrap();
    record(&store, "a", START_S, 1.0);
    record(&store, "b", START_S + 3 * DAY_S, 1.0);
    store.sync().unwrap();
    drop(store);
    let store = MetricStore::open(Some(dir.path()), at(START_S + 4 * DAY_S)).unwrap();
    let scope = entity("a").scope;
    let names = |filter: &ListFilter<'_>, since_s| -> Vec<String> {
        let listed = store.list(&scope, filter, at(since_s));
        listed.into_iter().map(|listed| listed.dimensions[0].1.clone()).collect()
    };

    assert_eq!(names(&ListFilter::default(), START_S), ["a", "b"]);
    assert_eq!(names(&ListFilter::default(), START_S + 2 * DAY_S), ["b"]);
    let dimension = |value: Option<&str>| [("Name".to_owned(), value.map(str::to_owned))];
    for (dimensions, expected) in [(dimension(Some("a")), 1), (dimension(None), 2)] {
        let filter = ListFilter { dimensions: &dimensions, ..ListFilter::default() };
        assert_eq!(names(&filter, START_S).len(), expected);
    }
    let whole = store.list(&scope, &ListFilter::default(), at(START_S));
    for most in 0..=3 {
        let filter = ListFilter { most: Some(most), ..ListFilter::default() };
        assert_eq!(store.list(&scope, &filter, at(START_S)), whole[..most.min(2)]);
    }
    for (number, after) in whole.iter().enumerate() {
        let filter = ListFilter { after: Some(after), ..ListFilter::default() };
        assert_eq!(store.list(&scope, &filter, at(START_S)), whole[number + 1..]);
    }
    let filter = ListFilter { metric: Some("Returns"), ..ListFilter::default() };
    assert_eq!(names(&filter, START_S).len(), 0);
    let other = Scope { account: "111111111111".into(), ..scope.clone() };
    assert!(store.list(&other, &ListFilter::default(), at(START_S)).is_empty());
}

/// Values of three minutes on two days, in one request.
fn record_days(store: &MetricStore) -> Result<(), StoreError> {
    let entity = entity("a");
    let times = [START_S + 60, START_S + 180, START_S + DAY_S];
    let record = |time_s| Record {
        entity: &entity,
        metric: "Sales",
        unit: Unit::Count,
        time_s,
        summary: Summary::of(2.0),
    };
    store.record(&times.map(record))
}

#[test]
fn values_of_several_minutes_and_days_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let store = MetricStore::open(Some(dir.path()), at(START_S)).unwrap();
    record(&store, "a", START_S + 60, 1.0);
    record_days(&store).unwrap();
    record(&store, "a", START_S + 240, 4.0);
    let expected =
        [(START_S + 60, 3.0), (START_S + 180, 2.0), (START_S + 240, 4.0), (START_S + DAY_S, 2.0)];
    let all = START_S..START_S + 2 * DAY_S;

    assert_eq!(sums(&store, "a", all.clone(), 60), expected);
    store.sync().unwrap();
    drop(store);
    let store = MetricStore::open(Some(dir.path()), at(START_S)).unwrap();
    assert_eq!(sums(&store, "a", all.clone(), 60), expected);
    assert_eq!(sums(&store, "a", START_S + 120..START_S + 200, 60), expected[1..2]);
    store.expire(at(START_S + 2 * DAY_S + MINUTES_KEPT_S)).unwrap();
    assert_eq!(sums(&store, "a", all, 300), [(START_S, 9.0), (START_S + DAY_S, 2.0)]);
}

#[test]
fn a_failure_on_the_second_day_leaves_nothing_on_the_first() {
    let dir = tempfile::tempdir().unwrap();
    let store = MetricStore::open(Some(dir.path()), at(START_S)).unwrap();
    let late = |minute: u64| START_S + minute * 60;
    let entity = entity("a");
    let put = |times: &[u64]| {
        let record = |time_s: &u64| Record {
            entity: &entity,
            metric: "Sales",
            unit: Unit::Count,
            time_s: *time_s,
            summary: Summary::of(2.0),
        };
        store.record(&times.iter().map(record).collect::<Vec<_>>())
    };
    let all = START_S..START_S + 2 * DAY_S;

    set_refusal(&store, true);
    assert!(matches!(put(&[late(1_000), late(1_500)]), Err(StoreError::Io(_))));
    assert_eq!(sums(&store, "a", all.clone(), 60), []);
    put(&[late(1_000)]).unwrap();
    set_refusal(&store, false);
    put(&[late(1_000), late(1_500)]).unwrap();
    store.sync().unwrap();
    drop(store);

    let store = MetricStore::open(Some(dir.path()), at(START_S)).unwrap();
    assert_eq!(sums(&store, "a", all, 60), [(late(1_000), 4.0), (late(1_500), 2.0)]);
}

#[test]
fn a_crash_leaves_all_or_none_of_a_request() {
    let dir = tempfile::tempdir().unwrap();
    let store = MetricStore::open(Some(dir.path()), at(START_S)).unwrap();
    record(&store, "a", START_S + 60, 1.0);
    let path = database::path_in(dir.path());
    let wal = dir.path().join("history.db-wal");
    let before = std::fs::metadata(&wal).unwrap().len();
    record_days(&store).unwrap();
    let (main, wal) = (std::fs::read(&path).unwrap(), std::fs::read(&wal).unwrap());

    let crashed = tempfile::tempdir().unwrap();
    for end in (before..=wal.len() as u64).step_by(512).chain([wal.len() as u64]) {
        std::fs::write(database::path_in(crashed.path()), &main).unwrap();
        std::fs::write(crashed.path().join("history.db-wal"), &wal[..end as usize]).unwrap();
        let store = MetricStore::open(Some(crashed.path()), at(START_S)).unwrap();
        let found = sums(&store, "a", START_S..START_S + 2 * DAY_S, 60);
        let all = [(START_S + 60, 3.0), (START_S + 180, 2.0), (START_S + DAY_S, 2.0)];
        match end == wal.len() as u64 {
            true => assert_eq!(found, all),
            false => assert_eq!(found, [(START_S + 60, 1.0)], "cut at {end}"),
        }
        drop(store);
        for file in std::fs::read_dir(crashed.path()).unwrap() {
            std::fs::remove_file(file.unwrap().path()).unwrap();
        }
    }
}

#[test]
fn a_read_holds_a_data_point_a_period_and_a_bounded_number_of_them() {
    let store = MetricStore::open(None, at(START_S)).unwrap();
    let entity = entity("a");
    let summary = || Summary::of(1.0);
    let minutes = (0..6_000).map(|minute| Record {
        entity: &entity,
        metric: "Sales",
        unit: Unit::Count,
        time_s: START_S + minute * 60,
        summary: summary(),
    });
    store.record(&minutes.collect::<Vec<_>>()).unwrap();
    let end_s = START_S + 6_000 * 60;
    let read = |count: usize, period_s: u64| {
        let periods = Periods { origin_s: START_S, period_s };
        store.points(&vec![sales(&entity, START_S..end_s, periods); count], at(end_s))
    };

    assert_eq!(read(1, 60).unwrap()[0].len(), 6_000);
    assert!(matches!(read(4, 60), Err(StoreError::TooManyPoints { most: 20_000 })));
    assert_eq!(read(4, 3_600).unwrap()[3].len(), 100);
}

#[test]
fn distributions_count_by_what_they_take() {
    let store = MetricStore::open(None, at(START_S)).unwrap();
    let entity = entity("a");
    let summary = Summary::of_values((0..64).map(|value| (f64::from(value), 1.0))).unwrap();
    let minutes = (0..1_440).map(|minute| Record {
        entity: &entity,
        metric: "Sales",
        unit: Unit::Count,
        time_s: START_S + minute * 60,
        summary: summary.clone(),
    });
    store.record(&minutes.collect::<Vec<_>>()).unwrap();
    let read = |count: usize, period_s: u64| {
        let periods = Periods { origin_s: START_S, period_s };
        let end_s = START_S + DAY_S;
        store.points(&vec![sales(&entity, START_S..end_s, periods); count], at(end_s))
    };

    assert_eq!(read(2, 60).unwrap()[0].len(), 1_440);
    assert!(matches!(read(3, 60), Err(StoreError::TooManyPoints { most: 20_000 })));
    assert_eq!(read(20, DAY_S).unwrap()[19].len(), 1);
}
