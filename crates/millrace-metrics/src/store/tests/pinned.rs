//! Copies of the files of a store that goes on meanwhile.

use std::io::Read;

use super::*;

/// What a start finds on what was pinned.
fn copied(files: Vec<PinnedFile>) -> (tempfile::TempDir, MetricStore) {
    let dir = tempfile::tempdir().unwrap();
    for PinnedFile { name, bytes, file } in files {
        let mut contents = Vec::new();
        file.take(bytes).read_to_end(&mut contents).unwrap();
        assert_eq!(contents.len() as u64, bytes, "{name}");
        std::fs::write(dir.path().join(name), contents).unwrap();
    }
    let store = MetricStore::open(Some(dir.path()), at(START_S)).unwrap();
    (dir, store)
}

#[test]
fn a_copy_has_what_was_recorded_and_nothing_later() {
    let dir = tempfile::tempdir().unwrap();
    let store = MetricStore::open(Some(dir.path()), at(START_S)).unwrap();
    for day in 0..3 {
        record(&store, "a", START_S + day * DAY_S, 1.0);
    }
    let pinned = store.pin().unwrap();
    record(&store, "a", START_S, 2.0);
    record(&store, "b", START_S, 4.0);

    assert_eq!(pinned.len(), 4, "the catalog and three days");
    let (_dir, copy) = copied(pinned);

    let all = START_S..START_S + 3 * DAY_S;
    let days = (0..3).map(|day| (START_S + day * DAY_S, 1.0)).collect::<Vec<_>>();
    assert_eq!(sums(&copy, "a", all.clone(), DAY_S), days);
    assert_eq!(sums(&copy, "b", all, DAY_S), []);
    assert!(MetricStore::open(None, at(START_S)).unwrap().pin().unwrap().is_empty());
}

#[test]
fn days_that_are_rolled_up_meanwhile_are_copied_as_they_were() {
    let dir = tempfile::tempdir().unwrap();
    let store = MetricStore::open(Some(dir.path()), at(START_S)).unwrap();
    record(&store, "a", START_S + 60, 1.0);
    let pinned = store.pin().unwrap();
    store.expire(at(START_S + DAY_S + MINUTES_KEPT_S)).unwrap();
    assert!(!dir.path().join(&pinned[1].name).exists());

    let (_dir, copy) = copied(pinned);

    assert_eq!(sums(&copy, "a", START_S..START_S + 600, 60), [(START_S + 60, 1.0)]);
}
