//! Receives of what was just moved to their queue: until the move is committed, a crash undoes it.

use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use millrace_broker::{
    Broker, MoveTaskError, MoveTaskStatus, NewQueue, ReceiveRequest, Redrive, Settings, SharedQueue,
};
use millrace_core::{QueueKey, SystemClock};
use millrace_engine::Replay;
use millrace_journal::{GroupCommit, GroupOptions, MemoryJournal, SimFileSystem};

use crate::support::{
    ANY, content, create, created, message, move_task, new_queue, open, over, poll, run,
};

const DIR: &str = "/journal";

fn send(log: &GroupCommit, broker: &Broker, queue: &SharedQueue) {
    let content = content("m");
    run(log, broker.send(queue, &[message("m", &content)])).unwrap();
}

/// A receive waits for the commit of the move before it; the next one no longer does.
fn assert_waits_for_the_move(log: &GroupCommit, broker: &Broker, queue: &Arc<SharedQueue>) {
    let again = ReceiveRequest { visibility_timeout_s: Some(0), ..ANY };
    {
        let mut receive = pin!(broker.receive(queue, &again));
        assert!(poll(receive.as_mut()).is_pending());
        while log.commit_step() {}
        let Poll::Ready(received) = poll(receive) else { panic!("it is committed") };
        assert_eq!(received.unwrap().len(), 1);
    }
    let Poll::Ready(received) = poll(pin!(broker.receive(queue, &again))) else {
        panic!("the move is committed")
    };
    assert_eq!(received.unwrap().len(), 1);
}

/// A broker with a task that is to move the one message of the first queue to the second.
fn with_move_task() -> (Arc<GroupCommit>, Arc<Broker>, [Arc<SharedQueue>; 2]) {
    let (log, broker) = open(Arc::new(SimFileSystem::new(1)), Path::new(DIR));
    let [source, target] = ["dead", "jobs"].map(|name| create(&log, &broker, name));
    send(&log, &broker, &source);
    let start = move_task(source.key(), target.key());
    run(&log, broker.start_move_task(&start)).unwrap();
    (log, broker, [source, target])
}

#[test]
fn dead_letters_are_delivered_when_their_move_is_committed() {
    let (log, broker) = open(Arc::new(SimFileSystem::new(1)), Path::new(DIR));
    let jobs = create(&log, &broker, "jobs");
    let dead = create(&log, &broker, "dead");
    let redrive = Redrive {
        region: "us-east-1".to_owned(),
        account: "000000000000".to_owned(),
        name: "dead".to_owned(),
        max_receive_count: 1,
    };
    let update = broker.update_queue(&jobs, |definition| {
        definition.settings.redrive = Some(redrive);
        Ok::<_, ()>(())
    });
    run(&log, update).unwrap().unwrap();
    send(&log, &broker, &jobs);
    let at_once = ReceiveRequest { visibility_timeout_s: Some(0), ..ANY };
    assert_eq!(run(&log, broker.receive(&jobs, &at_once)).unwrap().len(), 1);
    while log.commit_step() {}

    let Poll::Ready(received) = poll(pin!(broker.receive(&jobs, &ANY))) else { panic!("none") };

    assert!(received.unwrap().is_empty(), "it is a dead letter now");
    assert_waits_for_the_move(&log, &broker, &dead);
}

#[test]
fn what_a_move_task_brings_is_delivered_when_the_move_is_committed() {
    let (log, broker, [_, target]) = with_move_task();
    while log.commit_step() {}

    broker.maintain();

    assert_waits_for_the_move(&log, &broker, &target);
}

/// Whoever started it chose a queue, not a name.
#[test]
fn a_move_task_fails_when_its_destination_was_made_anew() {
    let (log, broker, [source, target]) = with_move_task();
    run(&log, broker.delete_queue(&target)).unwrap();
    let anew = create(&log, &broker, "jobs");

    broker.maintain();

    assert_eq!((source.counts().ready, anew.counts().ready), (1, 0));
    let status = broker.move_tasks(source.key(), 1).into_iter().map(|task| task.status).next();
    assert_eq!(status, Some(MoveTaskStatus::Failed));
}

/// A task that went on would leave no room for what clients send.
#[test]
fn large_messages_wait_for_the_commit_of_those_moved_before_them() {
    let journal = MemoryJournal::new(64 << 20);
    let log = GroupCommit::new(Box::new(journal), GroupOptions::default());
    let broker = over(&log, Replay::default(), Arc::new(SystemClock::new()));
    let source = create(&log, &broker, "dead");
    let target = create(&log, &broker, "jobs");
    let large = content(&"x".repeat(1 << 20));
    for _ in 0..12 {
        run(&log, broker.send(&source, &[message("x", &large)])).unwrap();
    }
    let start = move_task(source.key(), target.key());
    run(&log, broker.start_move_task(&start)).unwrap();

    for moved in [4, 8, 12, 12] {
        (0..3).for_each(|_| _ = broker.maintain());
        assert_eq!(target.counts().ready, moved);
        while log.commit_step() {}
    }
}

#[test]
fn the_tasks_of_one_account_leave_room_for_those_of_others() {
    let (log, broker) = open(Arc::new(SimFileSystem::new(1)), Path::new(DIR));
    let target = create(&log, &broker, "jobs");
    let queue = |account: &str, number: usize| {
        let key = QueueKey::new("us-east-1", account, &format!("dead{number}"));
        let new = NewQueue { key, ..new_queue("dead", Settings::default()) };
        let queue = created(run(&log, broker.create_queue(&new)).unwrap());
        send(&log, &broker, &queue);
        queue
    };
    let starts = |account: &str, number: usize| {
        let source = queue(account, number);
        let start = move_task(source.key(), target.key());
        run(&log, broker.start_move_task(&start)).map(|_| source)
    };

    // Amazon: 100 tasks of an account.
    let of_first: Vec<_> = (0..100).map(|number| starts("111111111111", number).unwrap()).collect();
    let refused = starts("111111111111", 100).unwrap_err();
    assert!(matches!(refused, MoveTaskError::TooManyRunning));
    assert!(starts("222222222222", 0).is_ok() && starts("333333333333", 0).is_ok());

    let task = broker.move_tasks(of_first[0].key(), 1).remove(0);
    run(&log, broker.cancel_move_task(&task.id)).unwrap();
    assert!(starts("222222222222", 1).is_ok(), "there is room again");
}
