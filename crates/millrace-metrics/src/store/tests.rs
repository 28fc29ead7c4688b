use std::collections::HashMap;
use std::sync::Mutex;

use proptest::prelude::*;

use super::files::{day_path, find_days};
use super::*;
use crate::catalog::SERIES_MAX;
use crate::day::{DAY_S, Resolution};
use crate::{FIVE_MINUTES_KEPT_S, HOURS_KEPT_S, MINUTES_KEPT_S, Statistic, Value};

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

fn sums(store: &MetricStore, name: &str, range_s: Range<u64>, period_s: u64) -> Vec<(u64, f64)> {
    let entity = entity(name);
    let periods = Periods { origin_s: range_s.start, period_s };
    let query = SeriesQuery { entity: &entity, metric: "Sales", unit: None, periods };
    let points = store.points(&[query], range_s.clone(), at(range_s.end)).unwrap().remove(0);
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
        let query = SeriesQuery { entity, metric, unit, periods };
        let points = store.points(&[query], START_S..START_S + 60, at(START_S)).unwrap().remove(0);
        assert_eq!(points.iter().map(|point| point.summary.sum).sum::<f64>(), expected);
    }
    let count = |namespace, metric, dimensions: &[(&str, Option<&str>)]| {
        let dimensions: Vec<_> =
            dimensions.iter().map(|(n, v)| ((*n).to_owned(), v.map(str::to_owned))).collect();
        let filter = ListFilter { namespace, metric, dimensions: &dimensions };
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

#[test]
fn a_sync_leaves_nothing_behind_and_more_may_be_stored_after_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("below").join("metrics");
    let store = MetricStore::open(Some(&path), at(START_S)).unwrap();
    let is_dirty = || {
        let mut inner = store.inner_mut();
        let catalog = inner.catalog.log().take_dirty().is_some();
        let is_dirty = |file: &mut super::files::DayFile| {
            file.opened.get_mut().unwrap().as_mut().unwrap().log().take_dirty().is_some()
        };
        let days = inner.days.values_mut().map(is_dirty).collect::<Vec<_>>();
        (catalog, days, inner.has_new_file)
    };
    record_days(&store).unwrap();
    assert_eq!(is_dirty(), (true, vec![true, true], true));
    record_days(&store).unwrap();

    store.sync().unwrap();
    assert_eq!(is_dirty(), (false, vec![false, false], false));
    record_days(&store).unwrap();
    assert_eq!(is_dirty(), (false, vec![true, true], false), "the series are known");
    let files = std::fs::read_dir(&path).unwrap().map(|file| file.unwrap().metadata().unwrap());
    assert_eq!(store.disk_bytes(), files.map(|file| file.len()).sum::<u64>());
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
    let filter = ListFilter { metric: Some("Returns"), ..ListFilter::default() };
    assert_eq!(names(&filter, START_S).len(), 0);
    let other = Scope { account: "111111111111".into(), ..scope.clone() };
    assert!(store.list(&other, &ListFilter::default(), at(START_S)).is_empty());
}

#[test]
fn series_are_forgotten_with_their_last_data_point_and_make_room() {
    let dir = tempfile::tempdir().unwrap();
    let store = MetricStore::open(Some(dir.path()), at(START_S)).unwrap();
    for number in 0..SERIES_MAX {
        record(&store, &number.to_string(), START_S, 1.0);
    }
    let end_s = START_S + DAY_S + HOURS_KEPT_S;
    let listed = || store.list(&entity("").scope, &ListFilter::default(), at(START_S)).len();

    store.expire(at(end_s)).unwrap();
    assert_eq!(listed(), SERIES_MAX);
    store.expire(at(end_s + 1)).unwrap();
    assert_eq!(listed(), 0);
    record(&store, "new", end_s, 2.0);
    record(&store, "1", end_s, 3.0);
    assert_eq!(listed(), 2);
    assert_eq!(sums(&store, "1", START_S..end_s + 60, 500 * DAY_S), [(START_S, 3.0)]);
    store.sync().unwrap();
    drop(store);

    let store = MetricStore::open(Some(dir.path()), at(end_s)).unwrap();
    assert_eq!(sums(&store, "new", end_s - DAY_S..end_s + 60, 2 * DAY_S).len(), 1);
    assert_eq!(sums(&store, "1", START_S..end_s + 60, 500 * DAY_S), [(START_S, 3.0)]);
}

#[test]
fn a_crash_while_rolling_up_leaves_one_file_of_the_day() {
    let dir = tempfile::tempdir().unwrap();
    let store = MetricStore::open(Some(dir.path()), at(START_S)).unwrap();
    record(&store, "a", START_S, 7.0);
    store.sync().unwrap();
    let finer = dir.path().join("20000-1m.log");
    let copy = std::fs::read(&finer).unwrap();
    store.expire(at(START_S + DAY_S + MINUTES_KEPT_S)).unwrap();
    assert!(!finer.exists());
    std::fs::write(&finer, copy).unwrap();
    drop(store);

    let store = MetricStore::open(Some(dir.path()), at(START_S + DAY_S + MINUTES_KEPT_S)).unwrap();

    assert_eq!(sums(&store, "a", START_S..START_S + DAY_S, 300), [(START_S, 7.0)]);
    assert!(!finer.exists());
}

#[test]
fn of_two_files_of_a_day_the_coarser_stays_and_what_is_no_day_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: String| dir.path().join(name);
    for day in 1..=9 {
        std::fs::write(path(format!("{day}-1m.log")), b"").unwrap();
        std::fs::write(path(format!("{day}-1h.log")), b"").unwrap();
    }
    let others = [
        "10-1m.new",
        "11-2m.log",
        "x-1m.log",
        "alarms.log",
        "12-1m",
        "13.log",
        "4294967296-1m.log",
    ];
    others.iter().for_each(|name| std::fs::write(path((*name).to_owned()), b"").unwrap());

    let days = find_days(dir.path()).unwrap();
    let found = days.iter().map(|(day, file)| (*day, file.resolution)).collect::<Vec<_>>();
    assert_eq!(found, (1..=9).map(|day| (day, Resolution::Hour)).collect::<Vec<_>>());
    assert!((1..=9).all(|day| !path(format!("{day}-1m.log")).exists()));
    assert!(others.iter().all(|name| path((*name).to_owned()).exists()));
}

#[test]
fn data_points_are_as_far_apart_as_their_age_says() {
    for dir in [None, Some(tempfile::tempdir().unwrap())] {
        let path = dir.as_ref().map(|dir| dir.path());
        let store = MetricStore::open(path, at(START_S)).unwrap();
        // Two hours from 01:00 on, and the last minute of the day.
        for minute in (60..180).chain([1_439]) {
            record(&store, "a", START_S + minute * 60, 1.0);
        }
        let found_after = |age_s: u64| {
            store.expire(at(START_S + DAY_S + age_s)).unwrap();
            let found = sums(&store, "a", START_S..START_S + DAY_S, 60);
            let starts: Vec<u64> =
                found.iter().map(|(time_s, _)| (time_s - START_S) / 60).collect();
            let values: Vec<f64> = found.iter().map(|(_, sum)| *sum).collect();
            (starts, values)
        };
        let every = |step: usize, last: u64| -> Vec<u64> {
            (60..180).step_by(step).chain([last]).collect()
        };
        let sums = |sum: usize| [vec![sum as f64; 120 / sum], vec![1.0]].concat();

        assert_eq!(found_after(MINUTES_KEPT_S - 1), (every(1, 1_439), sums(1)));
        assert_eq!(found_after(MINUTES_KEPT_S), (every(5, 1_435), sums(5)));
        assert_eq!(found_after(FIVE_MINUTES_KEPT_S - 1), (every(5, 1_435), sums(5)));
        assert_eq!(found_after(FIVE_MINUTES_KEPT_S), (every(60, 1_380), sums(60)));
    }
}

#[test]
fn data_points_are_dropped_after_455_days() {
    for dir in [None, Some(tempfile::tempdir().unwrap())] {
        let path = dir.as_ref().map(|dir| dir.path());
        let store = MetricStore::open(path, at(START_S)).unwrap();
        record(&store, "a", START_S + 3_700, 7.0);
        let all = START_S..START_S + DAY_S;

        store.expire(at(START_S + DAY_S + HOURS_KEPT_S - 1)).unwrap();
        assert_eq!(sums(&store, "a", all.clone(), 3_600), [(START_S + 3_600, 7.0)]);
        store.expire(at(START_S + DAY_S + HOURS_KEPT_S)).unwrap();
        assert_eq!(sums(&store, "a", all, 3_600), []);
        let files = path.into_iter().flat_map(|path| std::fs::read_dir(path).unwrap());
        let names: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
        assert!(names.iter().all(|name| name == "catalog.log"), "{names:?}");
    }
}

proptest! {
    /// What was recorded is what is found, in periods of any length, before and after roll-ups.
    #[test]
    fn roll_ups_keep_sums_counts_and_extremes(
        values in proptest::collection::vec((0..3_u8, 0..2 * DAY_S, -50..50_i32), 1..80),
    ) {
        let store = MetricStore::open(None, at(START_S)).unwrap();
        let mut model: HashMap<(u8, u64), Vec<i32>> = HashMap::new();
        for (name, time_s, value) in &values {
            record(&store, &name.to_string(), START_S + time_s, f64::from(*value));
            model.entry((*name, START_S + time_s - time_s % 3_600)).or_default().push(*value);
        }
        let end_s = START_S + 2 * DAY_S;
        for kept_s in [0, MINUTES_KEPT_S, FIVE_MINUTES_KEPT_S] {
            store.expire(at(end_s + kept_s)).unwrap();
            let mut found = HashMap::new();
            for name in 0..3_u8 {
                let entity = entity(&name.to_string());
                let periods = Periods { origin_s: START_S, period_s: 3_600 };
                let query = SeriesQuery { entity: &entity, metric: "Sales", unit: None, periods };
                let points = store.points(&[query], START_S..end_s, at(end_s)).unwrap().remove(0);
                for point in points {
                    found.insert((name, point.time_s), point.summary);
                }
            }
            prop_assert_eq!(found.len(), model.len());
            for (key, values) in &model {
                let summary = &found[key];
                let numbers = (summary.count, summary.sum, summary.min, summary.max);
                let sum: i32 = values.iter().sum();
                let extremes = (values.iter().min().unwrap(), values.iter().max().unwrap());
                let expected = (values.len() as f64, f64::from(sum), f64::from(*extremes.0), f64::from(*extremes.1));
                prop_assert_eq!(numbers, expected);
            }
        }
    }
}

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
    // Cannot be opened as a file.
    let blocked = day_path(dir.path(), START_S / DAY_S, Resolution::Minute);
    std::fs::create_dir(&blocked).unwrap();
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
    std::fs::remove_dir(&blocked).unwrap();
    assert_eq!(close(71).unwrap(), at(START_S + 72 * 60));
    assert!(store.inner().unwritten.is_empty());
    assert_eq!(found(), minutes(11, 71));
}

#[test]
fn a_day_that_cannot_be_read_keeps_no_other_from_being_rolled_up() {
    let dir = tempfile::tempdir().unwrap();
    let store = MetricStore::open(Some(dir.path()), at(START_S)).unwrap();
    for day in 0..3 {
        record(&store, "a", START_S + day * DAY_S, 1.0);
    }
    store.sync().unwrap();
    drop(store);
    let path = |day: u64, resolution| day_path(dir.path(), START_S / DAY_S + day, resolution);
    let damaged = path(1, Resolution::Minute);
    std::fs::write(&damaged, b"no file of metrics").unwrap();
    let store = MetricStore::open(Some(dir.path()), at(START_S)).unwrap();

    let expired = store.expire(at(START_S + 3 * DAY_S + MINUTES_KEPT_S));
    assert!(matches!(expired, Err(StoreError::Io(_))), "it is told");
    let rolled_up = [0, 1, 2].map(|day| path(day, Resolution::FiveMinutes).exists());
    assert_eq!(rolled_up, [true, false, true]);
    // It goes with its time, or it would stay for ever.
    store.expire(at(START_S + 2 * DAY_S + HOURS_KEPT_S)).unwrap();
    assert!(!damaged.exists() && path(2, Resolution::Hour).exists());
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
    record(&store, "a", START_S + 60, 1.0);
    // Cannot be opened as a file.
    let blocked = day_path(dir.path(), START_S / DAY_S + 1, Resolution::Minute);
    std::fs::create_dir(&blocked).unwrap();
    let all = START_S..START_S + 2 * DAY_S;

    assert!(matches!(record_days(&store), Err(StoreError::Io(_))));
    assert_eq!(sums(&store, "a", all.clone(), 60), [(START_S + 60, 1.0)]);
    std::fs::remove_dir(&blocked).unwrap();
    record_days(&store).unwrap();
    store.sync().unwrap();
    drop(store);

    let store = MetricStore::open(Some(dir.path()), at(START_S)).unwrap();
    let expected = [(START_S + 60, 3.0), (START_S + 180, 2.0), (START_S + DAY_S, 2.0)];
    assert_eq!(sums(&store, "a", all, 60), expected);
}

#[test]
fn a_crash_leaves_all_or_none_of_a_days_minutes() {
    let dir = tempfile::tempdir().unwrap();
    let store = MetricStore::open(Some(dir.path()), at(START_S)).unwrap();
    record(&store, "a", START_S + 60, 1.0);
    let path = day_path(dir.path(), START_S / DAY_S, Resolution::Minute);
    let before = std::fs::metadata(&path).unwrap().len();
    record_days(&store).unwrap();
    drop(store);
    let bytes = std::fs::read(&path).unwrap();

    for end in before..=bytes.len() as u64 {
        std::fs::write(&path, &bytes[..end as usize]).unwrap();
        let store = MetricStore::open(Some(dir.path()), at(START_S)).unwrap();
        let found = sums(&store, "a", START_S..START_S + DAY_S, 60);
        match end == bytes.len() as u64 {
            true => assert_eq!(found, [(START_S + 60, 3.0), (START_S + 180, 2.0)]),
            false => assert_eq!(found, [(START_S + 60, 1.0)], "cut at {end}"),
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
        let query = SeriesQuery { entity: &entity, metric: "Sales", unit: None, periods };
        store.points(&vec![query; count], START_S..end_s, at(end_s))
    };

    assert_eq!(read(1, 60).unwrap()[0].len(), 6_000);
    assert!(matches!(read(4, 60), Err(StoreError::TooManyPoints)));
    assert_eq!(read(4, 3_600).unwrap()[3].len(), 100);
}

#[test]
fn nothing_is_written_after_a_failed_sync_and_the_last_hour_can_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let store = MetricStore::open(Some(dir.path()), at(START_S)).unwrap();
    record(&store, "a", START_S, 1.0);
    let tally = Arc::new(Tally(Mutex::new(2.0)));
    store.set_source(tally.clone(), at(START_S));
    let path = day_path(dir.path(), START_S / DAY_S, Resolution::Minute);
    let bytes = std::fs::metadata(&path).unwrap().len();
    store.is_poisoned.store(true, Ordering::Relaxed);

    for minute in 1..=70 {
        let closed = store.close_minute(at(START_S + minute * 60));
        assert!(matches!(closed, Err(StoreError::Poisoned)));
        *tally.0.lock().unwrap() = 2.0;
    }
    assert!(matches!(record_days(&store), Err(StoreError::Poisoned)));
    assert_eq!(std::fs::metadata(&path).unwrap().len(), bytes);
    let kept = sums(&store, "a", START_S + 60..START_S + 70 * 60, 60);
    assert_eq!(kept.len(), 60);
    assert!(kept.iter().all(|(_, sum)| *sum == 2.0));
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
