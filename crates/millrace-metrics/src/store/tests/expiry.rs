//! What age does to days: rolled up, dropped, series forgotten.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::catalog::SERIES_MAX;
use crate::points;
use crate::{FIVE_MINUTES_KEPT_S, HOURS_KEPT_S, MINUTES_KEPT_S};

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
fn data_points_are_as_far_apart_as_their_age_says() {
    for dir in [None, Some(tempfile::tempdir().unwrap())] {
        let path = dir.as_ref().map(|dir| dir.path());
        let store = MetricStore::open(path, at(START_S)).unwrap();
        // Two hours from 01:00 on, and the last minute of the day.
        for minute in (60..180).chain([1_439]) {
            record(&store, "a", START_S + minute * 60, 1.0);
        }
        let found_after = |age_s: u64, period_s: u64| {
            store.expire(at(START_S + DAY_S + age_s)).unwrap();
            let found = sums(&store, "a", START_S..START_S + DAY_S, period_s);
            let starts: Vec<u64> =
                found.iter().map(|(time_s, _)| (time_s - START_S) / 60).collect();
            let values: Vec<f64> = found.iter().map(|(_, sum)| *sum).collect();
            (starts, values)
        };
        let every = |step: usize, last: u64| -> Vec<u64> {
            (60..180).step_by(step).chain([last]).collect()
        };
        let sums = |sum: usize| [vec![sum as f64; 120 / sum], vec![1.0]].concat();

        let nothing = (Vec::new(), Vec::new());

        assert_eq!(found_after(MINUTES_KEPT_S - 1, 60), (every(1, 1_439), sums(1)));
        assert_eq!(found_after(MINUTES_KEPT_S, 300), (every(5, 1_435), sums(5)));
        assert_eq!(found_after(MINUTES_KEPT_S, 60), nothing);
        assert_eq!(found_after(MINUTES_KEPT_S, 420), nothing, "they are not of one period");
        assert_eq!(found_after(FIVE_MINUTES_KEPT_S - 1, 300), (every(5, 1_435), sums(5)));
        assert_eq!(found_after(FIVE_MINUTES_KEPT_S, 3_600), (every(60, 1_380), sums(60)));
        assert_eq!(found_after(FIVE_MINUTES_KEPT_S, 300), nothing);
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
        let mut inner = store.inner_mut();
        assert_eq!(points::days(inner.writer.connection()).unwrap(), None, "they take no room");
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
                let query = sales(&entity, START_S..end_s, periods);
                let points = store.points(&[query], at(end_s)).unwrap().remove(0);
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
#[test]
fn a_day_that_cannot_be_rolled_up_keeps_no_other_from_it() {
    let store = MetricStore::open(None, at(START_S)).unwrap();
    for day in 0..3 {
        record(&store, "a", START_S + day * DAY_S, 1.0);
    }
    let statement = "CREATE TRIGGER refusal BEFORE INSERT ON points WHEN new.day = 20001 \
                     BEGIN SELECT raise(ABORT, 'refused'); END";
    store.inner_mut().writer.connection().execute_batch(statement).unwrap();
    let all = START_S..START_S + 3 * DAY_S;
    let days = |period_s| -> Vec<u64> {
        let found = sums(&store, "a", all.clone(), period_s);
        found.iter().map(|(time_s, _)| (time_s - START_S) / DAY_S).collect()
    };

    let expired = store.expire(at(START_S + 3 * DAY_S + MINUTES_KEPT_S));
    assert!(expired.unwrap_err().to_string().contains("refused"));
    assert_eq!((days(60), days(300)), (vec![1], vec![0, 1, 2]));
    // It goes with its time, or it would stay for ever.
    store.expire(at(START_S + 2 * DAY_S + HOURS_KEPT_S)).unwrap();
    assert_eq!(days(3_600), [2]);
}

#[test]
fn values_of_a_day_that_is_rolled_up_are_left_out() {
    let store = MetricStore::open(None, at(START_S)).unwrap();
    record(&store, "a", START_S, 1.0);
    store.expire(at(START_S + DAY_S + MINUTES_KEPT_S)).unwrap();

    record(&store, "a", START_S, 2.0);
    record(&store, "a", START_S + DAY_S, 4.0);

    let found = sums(&store, "a", START_S..START_S + 2 * DAY_S, DAY_S);
    assert_eq!(found, [(START_S, 1.0), (START_S + DAY_S, 4.0)]);
}

#[test]
fn a_file_that_is_mostly_free_becomes_smaller() {
    let dir = tempfile::tempdir().unwrap();
    let store = MetricStore::open(Some(dir.path()), at(START_S)).unwrap();
    let fill = "WITH RECURSIVE n(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < 999) \
                INSERT INTO points SELECT 20000, 1, n, 0, 0, zeroblob(40000) FROM n";
    store.inner_mut().writer.connection().execute_batch(fill).unwrap();
    let bytes = || {
        let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
        store.inner_mut().writer.connection().query_row(checkpoint, [], |_| Ok(())).unwrap();
        store.disk_bytes()
    };
    let before = bytes();

    store.clear(at(START_S)).unwrap();

    let after = bytes();
    assert!(before > 40_000_000 && after < before / 2, "{before} bytes, then {after}");
}
