//! Files and directories that somebody removes or replaces while they are open.

use std::path::PathBuf;

use super::*;

/// Names and contents of a directory's files.
fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

#[test]
fn what_is_put_in_the_place_of_the_directory_is_left_alone_and_nothing_is_stored_any_more() {
    let above = tempfile::tempdir().unwrap();
    let (dir, moved) = (above.path().join("metrics"), above.path().join("moved"));
    let store = MetricStore::open(Some(&dir), at(START_S)).unwrap();
    for day in 0..3 {
        record(&store, "a", START_S + day * DAY_S, 1.0);
    }
    store.sync().unwrap();
    drop(store);
    let store = MetricStore::open(Some(&dir), at(START_S)).unwrap();
    record(&store, "a", START_S, 1.0);
    store.sync().unwrap();
    std::fs::rename(&dir, &moved).unwrap();
    std::fs::create_dir(&dir).unwrap();
    for file in contents(&moved).keys() {
        std::fs::copy(file, dir.join(file.file_name().unwrap())).unwrap();
    }
    let backup = contents(&dir);

    record(&store, "a", START_S, 1.0);
    let error = store.sync().unwrap_err().to_string();
    assert!(error.contains(dir.to_str().unwrap()), "{error}");
    assert!(matches!(store.record(&[]), Err(StoreError::Poisoned)));
    assert!(store.sync().is_err(), "nor is anything else claimed to be durable");
    assert!(store.expire(at(START_S + DAY_S + MINUTES_KEPT_S)).is_err());
    assert_eq!(sums(&store, "a", START_S..START_S + DAY_S, DAY_S), [(START_S, 3.0)], "it is open");
    let entity = entity("a");
    let periods = Periods { origin_s: 0, period_s: 60 };
    let query = sales(&entity, START_S..START_S + 2 * DAY_S, periods);
    let read = store.points(&[query], at(START_S));
    assert!(read.is_err(), "a day of the backup is not taken for ours");
    assert_eq!((contents(&dir), store.disk_bytes()), (backup, 0));
}

#[test]
fn a_directory_or_a_day_that_is_removed_is_noticed() {
    for is_day in [false, true] {
        let above = tempfile::tempdir().unwrap();
        let dir = above.path().join("metrics");
        let store = MetricStore::open(Some(&dir), at(START_S)).unwrap();
        record(&store, "a", START_S, 1.0);
        store.sync().unwrap();
        match is_day {
            true => std::fs::remove_file(day_path(&dir, START_S / DAY_S, Resolution::Minute)),
            false => std::fs::remove_dir_all(&dir),
        }
        .unwrap();

        record(&store, "a", START_S, 1.0);
        assert!(matches!(store.sync(), Err(StoreError::Io(_))));
        assert!(matches!(store.record(&[]), Err(StoreError::Poisoned)));
    }
}

#[test]
fn a_catalog_that_is_removed_is_written_anew() {
    let dir = tempfile::tempdir().unwrap();
    let store = MetricStore::open(Some(dir.path()), at(START_S)).unwrap();
    record(&store, "a", START_S, 1.0);
    store.sync().unwrap();
    std::fs::remove_file(dir.path().join("catalog.log")).unwrap();

    record(&store, "b", START_S, 2.0);
    store.sync().unwrap();
    drop(store);

    let store = MetricStore::open(Some(dir.path()), at(START_S)).unwrap();
    for (name, value) in [("a", 1.0), ("b", 2.0)] {
        assert_eq!(sums(&store, name, START_S..START_S + 60, 60), [(START_S, value)]);
    }
}

#[test]
fn without_its_catalog_a_day_lends_its_values_to_no_new_series() {
    let dir = tempfile::tempdir().unwrap();
    let store = MetricStore::open(Some(dir.path()), at(START_S)).unwrap();
    record(&store, "a", START_S, 1.0);
    record(&store, "b", START_S + DAY_S, 1.0);
    store.sync().unwrap();
    drop(store);
    std::fs::remove_file(dir.path().join("catalog.log")).unwrap();

    for _ in 0..2 {
        // The second time with a catalog that knows none.
        drop(MetricStore::open(Some(dir.path()), at(START_S)).unwrap());
    }
    let store = MetricStore::open(Some(dir.path()), at(START_S)).unwrap();
    for name in ["c", "d"] {
        record(&store, name, START_S, 2.0);
        assert_eq!(sums(&store, name, START_S..START_S + 2 * DAY_S, DAY_S), [(START_S, 2.0)]);
    }
}
