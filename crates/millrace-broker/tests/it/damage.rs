//! A message whose record the disk has damaged, or cannot read.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use millrace_broker::{
    Browse, BrowseCursor, BrowseFilter, MoveTaskStatus, QueueFigures, ReceiveRequest, Shards,
    SharedQueue,
};
use millrace_core::{Clock, SystemClock};
use millrace_journal::{Fault, FileSystem, GroupCommit, RealFileSystem, SimFileSystem};

use crate::support::{
    ANY, content, create, drain_ten, fill_segments, key, message, move_task, open, open_at, run,
};

/// Changes one byte of `needle` in the files of `dir`.
fn damage(dir: &Path, needle: &[u8]) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        if let Some(at) = bytes.windows(needle.len()).position(|window| window == needle) {
            bytes[at] ^= 1;
            std::fs::write(&path, bytes).unwrap();
            return;
        }
    }
    panic!("not found");
}

/// A queue of three messages.
fn send_three(log: &GroupCommit, shards: &Shards) -> Arc<SharedQueue> {
    let queue = create(log, shards, "jobs");
    let bodies = ["first message", "second message!", "third message!!!"];
    let contents = bodies.map(content);
    let messages = [0, 1, 2].map(|number| message(bodies[number], &contents[number]));
    run(log, queue.send(&messages)).unwrap();
    queue
}

fn assert_all_but_the_second_are_received(log: &GroupCommit, queue: &Arc<SharedQueue>) {
    let received = run(log, queue.receive(&ANY)).unwrap();

    let bodies: Vec<_> = received.iter().map(|message| message.content.body()).collect();
    assert_eq!(bodies, [b"first message".as_slice(), b"third message!!!"]);
    assert_eq!(queue.counts().in_flight, 3, "the damaged one is hidden, its receive counted");
}

#[test]
fn a_receive_looks_past_damaged_messages_for_others() {
    let dir = tempfile::tempdir().unwrap();
    let (log, shards) = open(RealFileSystem::new(), dir.path());
    let queue = send_three(&log, &shards);
    fill_segments(&log, &shards);
    damage(dir.path(), b"first message");
    damage(dir.path(), b"second message!");

    let one = ReceiveRequest { max: 1, ..ANY };
    let received = run(&log, queue.receive(&one)).unwrap();
    let nothing = run(&log, queue.receive(&one)).unwrap();

    assert_eq!(received.len(), 1);
    assert_eq!(received[0].content.body(), b"third message!!!");
    assert!(nothing.is_empty());
    assert_eq!(queue.counts().in_flight, 3, "hidden, their receives counted");
    assert_eq!(QueueFigures::of(&queue).totals.messages_left_out, 2);
}

#[test]
fn a_look_through_the_queue_counts_damaged_messages_and_shows_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let (log, shards) = open(RealFileSystem::new(), dir.path());
    let queue = send_three(&log, &shards);
    damage(dir.path(), b"second message!");

    let browse = Browse {
        filter: BrowseFilter::All,
        from: BrowseCursor::default(),
        limit: 10,
        max_visits: 10,
        max_bytes: 1 << 20,
    };
    let browsed = queue.browser().page(&browse).unwrap();

    assert_eq!((browsed.messages.len(), browsed.damaged), (2, 1));
    shards.close();
}

#[test]
fn unreadable_messages_are_hidden_as_damaged_ones_are() {
    let fs = SimFileSystem::new(1);
    let (log, shards) = open(Arc::new(fs.clone()), Path::new("/journal"));
    let queue = send_three(&log, &shards);
    fs.fail_next(Fault::PowerLoss);
    fs.create(Path::new("/any")).map(|_| ()).unwrap_err();

    let received = run(&log, queue.receive(&ANY)).unwrap();

    assert!(received.is_empty());
    assert_eq!(queue.counts().in_flight, 3, "hidden, their receives counted");
}

#[test]
fn damaged_message_does_not_stand_in_the_way_of_others() {
    let dir = tempfile::tempdir().unwrap();
    let (log, shards) = open(RealFileSystem::new(), dir.path());
    let queue = send_three(&log, &shards);
    damage(dir.path(), b"second message!");

    assert_all_but_the_second_are_received(&log, &queue);
    shards.close();
}

#[test]
fn damaged_message_does_not_hold_a_move_task_up() {
    let dir = tempfile::tempdir().unwrap();
    let (log, shards) = open(RealFileSystem::new(), dir.path());
    let queue = send_three(&log, &shards);
    let destination = create(&log, &shards, "others");
    damage(dir.path(), b"second message!");
    let start = move_task(&key("jobs"), &key("others"));
    run(&log, shards.home().unwrap().move_tasks().start(&start)).unwrap();

    shards.maintain();

    let [task] = &shards.home().unwrap().move_tasks().of_source(&key("jobs"), 10)[..] else {
        panic!("one task")
    };
    assert_eq!((task.status, task.moved), (MoveTaskStatus::Completed, 2));
    assert_eq!(destination.counts().ready, 2);
    assert_eq!(queue.counts().in_flight, 1, "the damaged one is hidden, its receive counted");
    shards.close();
}

#[test]
fn damaged_message_does_not_keep_the_journal_from_growing_shorter() {
    let dir = tempfile::tempdir().unwrap();
    let (log, shards) = open(RealFileSystem::new(), dir.path());
    let queue = send_three(&log, &shards);
    let filler = fill_segments(&log, &shards);
    damage(dir.path(), b"second message!");
    run(&log, shards.catalog().delete_queue(&filler)).unwrap();

    for _ in 0..20 {
        shards.maintain();
        while log.commit_step() {}
    }

    let first = log.segments()[0].id;
    assert!(first.0 > 1, "the first segment is gone: {first}");
    assert_eq!(queue.counts().ready, 3);
    shards.close();
    drop((queue, filler, shards, log));
    let (log, shards) = open(RealFileSystem::new(), dir.path());
    let queue = shards.catalog().queue("us-east-1", "000000000000", "jobs").unwrap();
    assert_all_but_the_second_are_received(&log, &queue);
    shards.close();
}

#[test]
fn message_that_cannot_be_read_does_not_keep_the_journal_for_ever() {
    let (fs, dir) = (SimFileSystem::new(1), Path::new("/journal"));
    let clock = Arc::new(SystemClock::new());
    let (log, shards) = open_at(Arc::new(fs.clone()), dir, clock.clone());
    let queue = send_three(&log, &shards);
    let filler = fill_segments(&log, &shards);
    let first = dir.join("00000001.seg");
    let bytes = fs.contents(&first).unwrap();
    let place = bytes.windows(15).position(|window| window == b"second message!").unwrap();
    fs.fail_reads_at(&first, place as u64);
    run(&log, shards.catalog().delete_queue(&filler)).unwrap();
    let oldest_after = |time| {
        clock.advance(Duration::from_secs(time));
        for _ in 0..20 {
            shards.maintain();
            while log.commit_step() {}
        }
        log.segments()[0].id.0
    };

    assert_eq!(oldest_after(0), 1, "the disk may read it the next time");
    assert_eq!(oldest_after(599), 1);
    assert!(oldest_after(1) > 1, "it never will");

    assert_eq!(queue.counts().ready, 3);
    assert_all_but_the_second_are_received(&log, &queue);
}

#[test]
fn queue_whose_definition_is_damaged_is_there_by_another_name() {
    let dir = tempfile::tempdir().unwrap();
    let (log, shards) = open(RealFileSystem::new(), dir.path());
    let id = send_three(&log, &shards).id();
    shards.close();
    drop((shards, log));
    // What the next run begins with shows that all before it was on the disk.
    let (log, shards) = open(RealFileSystem::new(), dir.path());
    shards.close();
    drop((shards, log));
    damage(dir.path(), br#""name":"jobs""#);
    millrace_journal::repair(RealFileSystem::new(), dir.path()).unwrap();
    let name = format!("recovered-{}", id.0);

    let (log, shards) = open(RealFileSystem::new(), dir.path());
    assert!(shards.catalog().queue("us-east-1", "000000000000", "jobs").is_none());
    let queue = shards.catalog().queue("us-east-1", "000000000000", &name).unwrap();
    assert_eq!(queue.counts().ready, 3);
    drain_ten(&log, &shards, &queue);
    shards.close();
    drop((queue, shards, log));

    // It is a queue like others by then: there although it is empty.
    let (_log, shards) = open(RealFileSystem::new(), dir.path());
    let queue = shards.catalog().queue("us-east-1", "000000000000", &name).unwrap();
    assert_eq!(queue.counts().total(), 0);
    shards.close();
}
