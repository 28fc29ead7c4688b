//! What is no message and stands in segments that go: a restart still knows of it.

use std::path::Path;
use std::sync::Arc;

use millrace_broker::{Broker, MoveTaskStatus, Outgoing, SharedQueue, StartMoveTask};
use millrace_core::MessageId;
use millrace_journal::{GroupCommit, SimFileSystem};

use crate::support::{content, create, drain_ten, fill_segments, message, open, run};

const DIR: &str = "/journal";
/// More than are appended again under one lock.
const SENDS: u32 = 150;

/// Sends messages whose deduplication ids are numbers; returns the ids that are answered.
fn send_all(
    log: &GroupCommit,
    broker: &Broker,
    queue: &SharedQueue,
    first: u128,
) -> Vec<MessageId> {
    let content = content("x");
    let send = |number: u32| {
        let (deduplication_id, id) = (number.to_string(), first + u128::from(number));
        let sent = Outgoing {
            id: MessageId::from_random(id),
            group: Some("g"),
            deduplication_id: Some(&deduplication_id),
            ..message("x", &content)
        };
        run(log, broker.send(queue, &[sent])).unwrap()[0].id
    };
    (0..SENDS).map(send).collect()
}

/// Makes the segments go that hold what was done so far.
fn drop_segments(log: &GroupCommit, broker: &Broker) {
    let before = log.tail().segment();
    let filler = fill_segments(log, broker);
    run(log, broker.delete_queue(&filler)).unwrap();
    for _ in 0..20 {
        broker.maintain();
        while log.commit_step() {}
    }
    assert!(log.segments()[0].id > before, "{before} is gone");
}

fn restart(
    fs: &SimFileSystem,
    log: Arc<GroupCommit>,
    broker: Arc<Broker>,
) -> (Arc<GroupCommit>, Arc<Broker>) {
    broker.close();
    drop((log, broker));
    open(Arc::new(fs.clone()), Path::new(DIR))
}

#[test]
fn sends_are_remembered_though_their_segments_are_gone() {
    const NAMES: [&str; 2] = ["a.fifo", "b.fifo"];
    let fs = SimFileSystem::new(1);
    let (log, broker) = open(Arc::new(fs.clone()), Path::new(DIR));
    let sent = NAMES.map(|name| {
        let queue = create(&log, &broker, name);
        let sent = send_all(&log, &broker, &queue, 0);
        while queue.counts().total() > 0 {
            drain_ten(&log, &broker, &queue);
        }
        sent
    });
    drop_segments(&log, &broker);

    let (log, broker) = restart(&fs, log, broker);

    for (name, sent) in NAMES.into_iter().zip(sent) {
        let queue = broker.queue("us-east-1", "000000000000", name).unwrap();
        assert_eq!(send_all(&log, &broker, &queue, 1_000), sent, "{name}");
        assert_eq!(queue.counts().total(), 0, "{name}");
    }
}

#[test]
fn a_move_task_goes_on_though_its_segment_is_gone() {
    let fs = SimFileSystem::new(1);
    let (log, broker) = open(Arc::new(fs.clone()), Path::new(DIR));
    let [dead, jobs] = ["dead", "jobs"].map(|name| create(&log, &broker, name));
    for body in ["first", "second"] {
        run(&log, broker.send(&dead, &[message(body, &content(body))])).unwrap();
    }
    let (source, destination) = (dead.key().clone(), Some(jobs.key().clone()));
    let start = StartMoveTask { source, destination, max_per_second: Some(1) };
    run(&log, broker.start_move_task(&start)).unwrap();
    broker.maintain();
    drop_segments(&log, &broker);

    let (_log, broker) = restart(&fs, log, broker);

    let [task] = &broker.move_tasks(&start.source, 10)[..] else { panic!("one task") };
    assert_eq!((task.status, task.moved), (MoveTaskStatus::Running, 1));
}
