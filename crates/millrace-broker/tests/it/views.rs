//! Views: their records come back in order, stay while they are needed, and go then.

use std::path::Path;
use std::sync::Arc;

use millrace_broker::{Position, ReadError, View};
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

#[test]
fn the_journal_keeps_records_until_the_view_holds_them_itself() {
    let (log, shards) = open(Arc::new(SimFileSystem::new(1)), Path::new("/journal"));
    let home = shards.home().unwrap();
    let view = home.view("tables", end(&log));
    let first = || log.segments()[0].id;
    let shorten = || {
        let filler = fill_segments(&log, &shards);
        run(&log, shards.catalog().delete_queue(&filler)).unwrap();
        for _ in 0..30 {
            shards.maintain();
            while log.commit_step() {}
        }
    };
    let start = first();

    shorten();
    assert_eq!(first(), start, "nothing goes before the view has said what it has");
    view.remember(b"all").unwrap();
    shorten();
    assert!(first() > start);

    let held = append(&view, b"record").segment();
    shorten();
    assert_eq!(first(), held);
    let (for_copy, from) = view.hold_for_copy();
    assert_eq!(from.segment(), held);
    view.remember(b"all, and the record").unwrap();
    shorten();
    assert_eq!(first(), held, "a copy may be without the record");
    drop(for_copy);
    shorten();
    assert!(first() > held);
    assert_eq!(&*view.remembered().unwrap(), b"all, and the record");
    shards.close();
}
