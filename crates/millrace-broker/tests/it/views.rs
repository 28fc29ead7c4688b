//! Views: their records come back in order, stay while they are needed, and go then.

use std::path::Path;
use std::sync::Arc;

use millrace_broker::{Position, ReadError, Shards, View};
use millrace_journal::{GroupCommit, SimFileSystem};

use crate::support::{fill_segments, open, run};

/// Positions and bytes of the records behind `after`.
fn replayed(view: &View, after: Position) -> Vec<(Position, Vec<u8>)> {
    let mut records = Vec::new();
    let mut visit = |position, record: &[u8]| {
        records.push((position, record.to_vec()));
        Ok::<(), ReadError>(())
    };
    view.replay(after, &mut visit).unwrap();
    records
}

fn append(view: &View, record: &[u8]) -> Position {
    view.append(record, &mut |reason| panic!("{reason}")).unwrap()
}

fn end(log: &GroupCommit) -> Position {
    log.opened().tail
}

#[test]
fn records_behind_a_position_come_back_in_order_and_only_those_of_the_view() {
    let fs = Arc::new(SimFileSystem::new(1));
    let (log, shards) = open(fs.clone(), Path::new("/journal"));
    // It commits what begins a segment.
    let committer = log.spawn_committer().unwrap();
    let home = shards.home().unwrap();
    let (view, other) = (home.view("tables", end(&log)), home.view("other", end(&log)));
    let mut appended = Vec::new();
    for number in 0..40_u8 {
        let record = vec![number; 5_000];
        appended.push((append(&view, &record), record));
        append(&other, b"not of this one");
    }
    shards.close();
    committer.join().unwrap();
    drop((view, other, home, shards, log));

    let (log, shards) = open(fs, Path::new("/journal"));
    let view = shards.home().unwrap().view("tables", end(&log));
    assert!(log.segments().len() > 3);
    assert_eq!(replayed(&view, Position(0)), appended);
    assert_eq!(replayed(&view, appended[20].0), appended[21..]);
    assert_eq!(replayed(&view, appended[39].0), []);
    assert_eq!(replayed(&shards.home().unwrap().view("third", end(&log)), Position(0)), []);
    shards.close();
}

/// Fills segments with what is then deleted, and shortens the journal as far as that goes.
fn shorten(log: &GroupCommit, shards: &Shards) {
    let filler = fill_segments(log, shards);
    run(log, shards.catalog().delete_queue(&filler)).unwrap();
    for _ in 0..30 {
        shards.maintain();
        while log.commit_step() {}
    }
}

#[test]
fn a_view_without_records_does_not_keep_the_journal_from_being_shortened() {
    let (log, shards) = open(Arc::new(SimFileSystem::new(1)), Path::new("/journal"));
    let _view = shards.home().unwrap().view("tables", end(&log));
    let start = log.segments()[0].id;

    shorten(&log, &shards);

    assert!(log.segments()[0].id > start);
    shards.close();
}

#[test]
fn the_journal_keeps_records_until_the_view_holds_them_itself() {
    let fs = Arc::new(SimFileSystem::new(1));
    let (log, shards) = open(fs.clone(), Path::new("/journal"));
    let home = shards.home().unwrap();
    let view = home.view("tables", end(&log));
    view.remember(b"nothing").unwrap();
    let held = append(&view, b"record").segment();
    shorten(&log, &shards);
    assert_eq!(log.segments()[0].id, held);
    shards.close();
    drop((view, home, shards, log));

    let (log, shards) = open(fs, Path::new("/journal"));
    let home = shards.home().unwrap();
    let view = home.view("tables", end(&log));
    let first = || log.segments()[0].id;
    shorten(&log, &shards);
    assert_eq!(first(), held, "nothing goes before the view has said what it has");
    view.remember(b"all").unwrap();
    shorten(&log, &shards);
    assert!(first() > held);

    let held = append(&view, b"record").segment();
    shorten(&log, &shards);
    assert_eq!(first(), held);
    let (for_copy, from) = view.hold_for_copy();
    assert_eq!(from.segment(), held);
    view.remember(b"all, and the record").unwrap();
    shorten(&log, &shards);
    assert_eq!(first(), held, "a copy may be without the record");
    drop(for_copy);
    shorten(&log, &shards);
    assert!(first() > held);
    assert_eq!(&*view.remembered().unwrap(), b"all, and the record");
    shards.close();
}
