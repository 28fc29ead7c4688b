//! Looking through queues that change meanwhile.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use millrace_broker::{Browse, BrowseCursor, BrowseFilter};
use millrace_journal::SimFileSystem;

use crate::support::{content, create, fill_segments, message, open, run};

/// Their records are appended again, and the segments that they were in are dropped.
#[test]
fn messages_whose_records_are_moved_on_meanwhile_are_shown() {
    let (log, shards) = open(Arc::new(SimFileSystem::new(1)), Path::new("/journal"));
    let queue = create(&log, &shards, "kept");
    let body = content("kept");
    for _ in 0..100 {
        run(&log, queue.send(&[message("kept", &body)])).unwrap();
    }
    let all = Browse {
        filter: BrowseFilter::All,
        from: BrowseCursor::default(),
        limit: 1_000,
        max_visits: 10_000,
        max_bytes: 1 << 20,
    };
    let (begun, is_done) = (log.segments()[0].id, AtomicBool::new(false));

    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                let browsed = queue.browser().page(&all).unwrap();
                assert_eq!((browsed.messages.len(), browsed.damaged), (100, 0));
                assert!(browsed.next.is_none());
            }
        });
        for _ in 0..20 {
            let filler = fill_segments(&log, &shards);
            run(&log, shards.catalog().delete_queue(&filler)).unwrap();
            for _ in 0..20 {
                shards.maintain();
                while log.commit_step() {}
            }
        }
        is_done.store(true, Ordering::Relaxed);
    });

    assert!(log.segments()[0].id.0 > begun.0 + 20, "{:?}", log.segments());
    shards.close();
}
