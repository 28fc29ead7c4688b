//! Copies of a database that goes on meanwhile.

use std::io::Read;

use super::*;

#[test]
fn a_copy_has_what_was_recorded_and_nothing_later() {
    let dir = tempfile::tempdir().unwrap();
    let store = MetricStore::open(Some(dir.path()), at(START_S)).unwrap();
    for day in 0..3 {
        record(&store, "a", START_S + day * DAY_S, 1.0);
    }
    let mut file = store.copy(|| true).unwrap().unwrap();
    record(&store, "a", START_S, 2.0);
    record(&store, "b", START_S, 4.0);
    let mut contents = Vec::new();
    file.read_to_end(&mut contents).unwrap();
    let names = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(!names.into_iter().any(|name| name.to_string_lossy().contains("copy")));

    let other = tempfile::tempdir().unwrap();
    std::fs::write(database::path_in(other.path()), contents).unwrap();
    let copy = MetricStore::open(Some(other.path()), at(START_S)).unwrap();
    let all = START_S..START_S + 3 * DAY_S;
    let days = (0..3).map(|day| (START_S + day * DAY_S, 1.0)).collect::<Vec<_>>();
    assert_eq!(sums(&copy, "a", all.clone(), DAY_S), days);
    assert_eq!(sums(&copy, "b", all.clone(), DAY_S), []);
    record(&copy, "b", START_S, 8.0);
    assert_eq!(sums(&copy, "b", all, DAY_S), [(START_S, 8.0)]);
    assert!(MetricStore::open(None, at(START_S)).unwrap().copy(|| true).unwrap().is_none());
}

#[test]
fn a_copy_that_nobody_wants_is_given_up_and_one_that_a_crash_left_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let store = MetricStore::open(Some(dir.path()), at(START_S)).unwrap();
    let fill = "WITH RECURSIVE n(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < 9999) \
                INSERT INTO points SELECT 20000, 1, n, 0, 0, x'00' FROM n";
    store.inner_mut().writer.connection().execute_batch(fill).unwrap();
    let error = store.copy(|| false).unwrap_err().to_string();
    assert!(error.contains("history.db"), "{error}");
    drop(store);
    let left = dir.path().join("history.copy-7");
    std::fs::write(&left, b"half").unwrap();

    drop(MetricStore::open(Some(dir.path()), at(START_S)).unwrap());

    let names = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(!names.into_iter().any(|name| name.to_string_lossy().contains("copy")));
}
