//! Holds: the journal keeps what somebody still needs.

use std::path::Path;
use std::sync::Arc;

use millrace_broker::Position;
use millrace_journal::SimFileSystem;

use crate::support::{fill_segments, open, run};

#[test]
fn the_journal_keeps_what_is_held_and_no_more() {
    let (log, shards) = open(Arc::new(SimFileSystem::new(1)), Path::new("/journal"));
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
    let hold = shards.home().unwrap().hold_from(Position::new(start, 0));
    let other = shards.home().unwrap().hold_from(Position::new(start.next(), 0));

    shorten();
    assert_eq!(first(), start);
    drop(hold);
    shorten();
    assert_eq!(first(), start.next());
    let later = log.segments()[3].id;
    other.move_to(Position::new(later, 7));
    shorten();
    assert_eq!(first(), later);
    drop(other);
    shorten();
    assert!(first() > later);
    shards.close();
}
