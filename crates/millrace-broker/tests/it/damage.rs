//! A message whose record the disk has damaged, or cannot read.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use millrace_broker::{
    Broker, Browse, BrowseCursor, BrowseFilter, MoveTaskStatus, ReceiveRequest, SharedQueue,
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
fn send_three(log: &GroupCommit, broker: &Broker) -> Arc<SharedQueue> {
    let queue = create(log, broker, "jobs");
    let bodies = ["first message", "second message!", "third message!!!"];
    let contents = bodies.map(content);
    let messages = [0, 1, 2].map(|number| message(bodies[number], &contents[number]));
    run(log, broker.send(&queue, &messages)).unwrap();
    queue
}

fn assert_all_but_the_second_are_received(
    log: &GroupCommit,
    broker: &Broker,
    queue: &Arc<SharedQueue>,
) {
    let received = run(log, broker.receive(queue, &ANY)).unwrap();

    let bodies: Vec<_> = received.iter().map(|message| message.content.body()).collect();
    assert_eq!(bodies, [b"first message".as_slice(), b"third message!!!"]);
    assert_eq!(queue.counts().in_flight, 3, "the damaged one is hidden, its receive counted");
}

#[test]
fn a_receive_looks_past_damaged_messages_for_others() {
    let dir = tempfile::tempdir().unwrap();
    let (log, broker) = open(RealFileSystem::new(), dir.path());
    let queue = send_three(&log, &broker);
    fill_segments(&log, &broker);
    damage(dir.path(), b"first message");
    damage(dir.path(), b"second message!");

    let one = ReceiveRequest { max: 1, ..ANY };
    let received = run(&log, broker.receive(&queue, &one)).unwrap();
    let nothing = run(&log, broker.receive(&queue, &one)).unwrap();

    assert_eq!(received.len(), 1);
    assert_eq!(received[0].content.body(), b"third message!!!");
    assert!(nothing.is_empty());
    assert_eq!(queue.counts().in_flight, 3, "hidden, their receives counted");
    assert_eq!(broker.queue_figures(&queue).totals.messages_left_out, 2);
}

#[test]
fn a_look_through_the_queue_counts_damaged_messages_and_shows_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let (log, broker) = open(RealFileSystem::new(), dir.path());
    let queue = send_three(&log, &broker);
    damage(dir.path(), b"second message!");

    let browse = Browse {
        filter: BrowseFilter::All,
        from: BrowseCursor::default(),
        limit: 10,
        max_visits: 10,
        max_bytes: 1 << 20,
    };
    let browsed = broker.browse(&queue, &browse).unwrap();

    assert_eq!((browsed.messages.len(), browsed.damaged), (2, 1));
    broker.close();
}

#[test]
fn unreadable_messages_are_hidden_as_damaged_ones_are() {
    let fs = SimFileSystem::new(1);
    let (log, broker) = open(Arc::new(fs.clone()), Path::new("/journal"));
    let queue = send_three(&log, &broker);
    fs.fail_next(Fault::PowerLoss);
    fs.create(Path::new("/any")).map(|_| ()).unwrap_err();

    let received = run(&log, broker.receive(&queue, &ANY)).unwrap();

    assert!(received.is_empty());
    assert_eq!(queue.counts().in_flight, 3, "hidden, their receives counted");
}

#[test]
fn damaged_message_does_not_stand_in_the_way_of_others() {
    let dir = tempfile::tempdir().unwrap();
    let (log, broker) = open(RealFileSystem::new(), dir.path());
    let queue = send_three(&log, &broker);
    damage(dir.path(), b"second message!");

    assert_all_but_the_second_are_received(&log, &broker, &queue);
    broker.close();
}

#[test]
fn damaged_message_does_not_hold_a_move_task_up() {
    let dir = tempfile::tempdir().unwrap();
    let (log, broker) = open(RealFileSystem::new(), dir.path());
    let queue = send_three(&log, &broker);
    let destination = create(&log, &broker, "others");
    damage(dir.path(), b"second message!");
    let start = move_task(&key("jobs"), &key("others"));
    run(&log, broker.start_move_task(&start)).unwrap();

    broker.maintain();

    let [task] = &broker.move_tasks(&key("jobs"), 10)[..] else { panic!("one task") };
    assert_eq!((task.status, task.moved), (MoveTaskStatus::Completed, 2));
    assert_eq!(destination.counts().ready, 2);
    assert_eq!(queue.counts().in_flight, 1, "the damaged one is hidden, its receive counted");
    broker.close();
}

#[test]
fn damaged_message_does_not_keep_the_journal_from_growing_shorter() {
    let dir = tempfile::tempdir().unwrap();
    let (log, broker) = open(RealFileSystem::new(), dir.path());
    let queue = send_three(&log, &broker);
    let filler = fill_segments(&log, &broker);
    damage(dir.path(), b"second message!");
    run(&log, broker.delete_queue(&filler)).unwrap();

    for _ in 0..20 {
        broker.maintain();
        while log.commit_step() {}
    }

    let first = log.segments()[0].id;
    assert!(first.0 > 1, "the first segment is gone: {first}");
    assert_eq!(queue.counts().ready, 3);
    broker.close();
    drop((queue, filler, broker, log));
    let (log, broker) = open(RealFileSystem::new(), dir.path());
    let queue = broker.queue("us-east-1", "000000000000", "jobs").unwrap();
    assert_all_but_the_second_are_received(&log, &broker, &queue);
    broker.close();
}

#[test]
fn message_that_cannot_be_read_does_not_keep_the_journal_for_ever() {
    let (fs, dir) = (SimFileSystem::new(1), Path::new("/journal"));
    let clock = Arc::new(SystemClock::new());
    let (log, broker) = open_at(Arc::new(fs.clone()), dir, clock.clone());
    let queue = send_three(&log, &broker);
    let filler = fill_segments(&log, &broker);
    let first = dir.join("00000001.seg");
    let bytes = fs.contents(&first).unwrap();
    let place = bytes.windows(15).position(|window| window == b"second message!").unwrap();
    fs.fail_reads_at(&first, place as u64);
    run(&log, broker.delete_queue(&filler)).unwrap();
    let oldest_after = |time| {
        clock.advance(Duration::from_secs(time));
        for _ in 0..20 {
            broker.maintain();
            while log.commit_step() {}
        }
        log.segments()[0].id.0
    };

    assert_eq!(oldest_after(0), 1, "the disk may read it the next time");
    assert_eq!(oldest_after(599), 1);
    assert!(oldest_after(1) > 1, "it never will");

    assert_eq!(queue.counts().ready, 3);
    assert_all_but_the_second_are_received(&log, &broker, &queue);
}

#[test]
fn queue_whose_definition_is_damaged_is_there_by_another_name() {
    let dir = tempfile::tempdir().unwrap();
    let (log, broker) = open(RealFileSystem::new(), dir.path());
    let id = send_three(&log, &broker).id();
    broker.close();
    drop((broker, log));
    // What the next run begins with shows that all before it was on the disk.
    let (log, broker) = open(RealFileSystem::new(), dir.path());
    broker.close();
    drop((broker, log));
    damage(dir.path(), br#""name":"jobs""#);
    millrace_journal::repair(RealFileSystem::new(), dir.path()).unwrap();
    let name = format!("recovered-{}", id.0);

    let (log, broker) = open(RealFileSystem::new(), dir.path());
    assert!(broker.queue("us-east-1", "000000000000", "jobs").is_none());
    let queue = broker.queue("us-east-1", "000000000000", &name).unwrap();
    assert_eq!(queue.counts().ready, 3);
    drain_ten(&log, &broker, &queue);
    broker.close();
    drop((queue, broker, log));

    // It is a queue like others by then: there although it is empty.
    let (_log, broker) = open(RealFileSystem::new(), dir.path());
    let queue = broker.queue("us-east-1", "000000000000", &name).unwrap();
    assert_eq!(queue.counts().total(), 0);
    broker.close();
}
