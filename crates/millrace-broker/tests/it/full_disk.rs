//! A disk without room for another segment.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use millrace_broker::{BrokerError, ReceiveRequest, Shards, SharedQueue};
use millrace_journal::{GroupCommit, Purpose, SimFileSystem, Unavailable};

use crate::support::{ANY, content, create, drain_ten, message, open, run};

#[test]
fn segment_that_cannot_be_emptied_leaves_the_room_to_its_consumers() {
    let fs = SimFileSystem::new(1);
    fs.set_capacity(12 * (64 << 10));
    let (log, shards) = open(Arc::new(fs), Path::new("/journal"));
    let kept = create(&log, &shards, "kept");
    let filler = create(&log, &shards, "filler");
    let large = content(&"x".repeat(1_000));
    for _ in 0..150 {
        run(&log, kept.send(&[message("x", &large)])).unwrap();
    }
    let refusal = loop {
        if let Err(refusal) = run(&log, filler.send(&[message("x", &large)])) {
            break refusal;
        }
    };
    assert!(matches!(refusal, BrokerError::Unavailable(Unavailable::DiskFull)), "{refusal}");
    // Most of the log is dead, but behind two segments that are live.
    run(&log, shards.catalog().delete_queue(&filler)).unwrap();
    // What is left of the last segment is less than the first holds.
    let again = ReceiveRequest { visibility_timeout_s: Some(0), ..ANY };
    while log.tail().offset() < 16 << 10 {
        run(&log, kept.receive(&again)).unwrap();
    }
    let tail = log.tail();

    for _ in 0..20 {
        shards.maintain();
        while log.commit_step() {}
    }

    assert!(log.tail().0 < tail.0 + 1_000, "a part of a segment frees nothing");
    for _ in 0..15 {
        drain_ten(&log, &shards, &kept);
        maintain(&log, &shards);
    }
    run(&log, kept.send(&[message("x", &large)])).unwrap();
}

/// A disk of twelve segments that sends have filled.
fn fill(log: &GroupCommit, queue: &SharedQueue) {
    let large = content(&"x".repeat(1_000));
    while run(log, queue.send(&[message("x", &large)])).is_ok() {}
    assert!(log.stats().is_full);
}

/// Looks after the log until there is nothing more to do for now.
fn maintain(log: &GroupCommit, shards: &Shards) {
    while shards.maintain() < Duration::from_secs(1) {
        while log.background_step() || log.commit_step() {}
    }
}

#[test]
fn room_that_comes_back_is_seen_though_nobody_sends_and_nothing_can_go() {
    let fs = Arc::new(SimFileSystem::new(1));
    let (log, shards) = open(fs.clone(), Path::new("/journal"));
    let queue = create(&log, &shards, "queue");
    fs.set_capacity(1);
    fill(&log, &queue);
    run(&log, queue.purge()).unwrap();
    maintain(&log, &shards);
    fill(&log, &queue);
    assert_eq!(log.segments().len(), 1);

    fs.set_capacity(u64::MAX);
    fs.advance(Duration::from_secs(1));
    maintain(&log, &shards);

    assert!(!log.stats().is_full);
}

#[test]
fn message_that_nobody_wants_does_not_keep_a_full_disk_full() {
    let fs = SimFileSystem::new(1);
    fs.set_capacity(12 * (64 << 10));
    let (log, shards) = open(Arc::new(fs), Path::new("/journal"));
    let (idle, filler) = (create(&log, &shards, "idle"), create(&log, &shards, "filler"));
    let large = content(&"x".repeat(5_000));
    run(&log, idle.send(&[message("x", &large)])).unwrap();
    fill(&log, &filler);
    // Most of the log stays live, and leases take what they may.
    for _ in 0..20 {
        drain_ten(&log, &shards, &filler);
    }
    let again = ReceiveRequest { visibility_timeout_s: Some(0), ..ANY };
    while run(&log, filler.receive(&again)).is_ok() {}

    maintain(&log, &shards);

    assert_eq!(idle.counts().ready, 1);
    run(&log, filler.send(&[message("x", &large)])).unwrap();
}

#[test]
fn definitions_that_do_not_fit_leave_room_for_deletes() {
    let fs = SimFileSystem::new(1);
    fs.set_capacity(12 * (64 << 10));
    let (log, shards) = open(Arc::new(fs), Path::new("/journal"));
    let filler = create(&log, &shards, "filler");
    let large = content(&"x".repeat(1_000));
    // Some in each of the first segments, in all more than is left.
    while log.tail().segment().0 < 8 {
        create(&log, &shards, &format!("queue-{}", log.tail().0));
        for _ in 0..8 {
            run(&log, filler.send(&[message("x", &large)])).unwrap();
        }
    }
    fill(&log, &filler);
    while log.reserve(5 << 10, Purpose::Reclaim).is_ok() {
        shards.advance_clock(Duration::from_secs(61));
        run(&log, filler.purge()).unwrap();
    }

    for _ in 0..12 {
        maintain(&log, &shards);
        shards.advance_clock(Duration::from_secs(11));
    }

    run(&log, filler.send(&[message("x", &large)])).unwrap();
}

/// Their records grow by a quarter when they are moved, and deleting one takes as much as it frees.
#[test]
fn small_messages_on_a_full_disk_can_be_received_one_at_a_time() {
    let fs = SimFileSystem::new(1);
    fs.set_capacity(12 * (64 << 10));
    let (log, shards) = open(Arc::new(fs), Path::new("/journal"));
    let queue = create(&log, &shards, "queue");
    let small = content(&"x".repeat(100));
    while run(&log, queue.send(&[message("x", &small)])).is_ok() {}
    assert!(log.stats().is_full);
    let one = ReceiveRequest { max: 1, ..ANY };

    let mut refusals = 0;
    while queue.counts().ready > 0 && refusals < 10 {
        match run(&log, queue.receive(&one)) {
            Ok(received) => {
                let handle = shards.open_receipt_handle(&received[0].receipt_handle).unwrap();
                run(&log, queue.delete(&[handle])).unwrap();
                refusals = 0;
            }
            Err(_) => refusals += 1,
        }
        maintain(&log, &shards);
    }

    assert_eq!(queue.counts().ready, 0);
}
