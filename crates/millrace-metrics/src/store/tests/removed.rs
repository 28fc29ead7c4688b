//! Files and directories that somebody removes or replaces while they are open.

use std::collections::BTreeMap;
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
    assert!(store.copy(|| true).is_err());
    let entity = entity("a");
    let periods = Periods { origin_s: 0, period_s: 60 };
    let query = sales(&entity, START_S..START_S + DAY_S, periods);
    assert!(store.points(&[query], at(START_S)).is_err(), "the backup is not taken for ours");
    assert_eq!((contents(&dir), store.disk_bytes()), (backup.clone(), 0));
    drop(store);
    assert_eq!(contents(&dir), backup, "nor is it tidied up");
}

#[test]
fn a_directory_or_a_file_that_is_removed_is_noticed() {
    for removed in ["", "history.db", "history.db-wal"] {
        let above = tempfile::tempdir().unwrap();
        let dir = above.path().join("metrics");
        let store = MetricStore::open(Some(&dir), at(START_S)).unwrap();
        record(&store, "a", START_S, 1.0);
        store.sync().unwrap();
        match removed {
            "" => std::fs::remove_dir_all(&dir),
            file => std::fs::remove_file(dir.join(file)),
        }
        .unwrap();

        record(&store, "a", START_S, 1.0);
        assert!(matches!(store.sync(), Err(StoreError::Io(_))), "{removed}");
        assert!(matches!(store.record(&[]), Err(StoreError::Poisoned)));
    }
}

#[test]
fn files_are_for_nobody_else() {
    use std::os::unix::fs::PermissionsExt;

    let dir = tempfile::tempdir().unwrap();
    let store = MetricStore::open(Some(dir.path()), at(START_S)).unwrap();
    record(&store, "a", START_S, 1.0);

    for file in contents(dir.path()).keys() {
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{file:?}");
    }
}
