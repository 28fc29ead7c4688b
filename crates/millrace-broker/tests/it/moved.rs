//! Receives of what was just moved to their queue: until the move is committed, a crash undoes it.

use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use millrace_broker::{
    MoveTaskError, MoveTaskStatus, NewQueue, ReceiveRequest, Redrive, Settings, Shards, SharedQueue,
};
use millrace_core::{QueueKey, SystemClock};
use millrace_engine::Replay;
use millrace_journal::{GroupCommit, GroupOptions, MemoryJournal, SimFileSystem};

use crate::support::{
    ANY, content, create, created, message, move_task, new_queue, open, over, poll, run,
};

const DIR: &str = "/journal";

fn send(log: &GroupCommit, queue: &SharedQueue) {
    let content = content("m");
    run(log, queue.send(&[message("m", &content)])).unwrap();
}

/// A receive waits for the commit of the move before it; the next one no longer does.
fn assert_waits_for_the_move(log: &GroupCommit, queue: &Arc<SharedQueue>) {
    let again = ReceiveRequest { visibility_timeout_s: Some(0), ..ANY };
    {
        let mut receive = pin!(queue.receive(&again));
        assert!(poll(receive.as_mut()).is_pending());
        while log.commit_step() {}
        let Poll::Ready(received) = poll(receive) else { panic!("it is committed") };
        assert_eq!(received.unwrap().len(), 1);
    }
    let Poll::Ready(received) = poll(pin!(queue.receive(&again))) else {
        panic!("the move is committed")
    };
    assert_eq!(received.unwrap().len(), 1);
}

/// A broker with a task that is to move the one message of the first queue to the second.
fn with_move_task() -> (Arc<GroupCommit>, Arc<Shards>, [Arc<SharedQueue>; 2]) {
    let (log, shards) = open(Arc::new(SimFileSystem::new(1)), Path::new(DIR));
    let [source, target] = ["dead", "jobs"].map(|name| create(&log, &shards, name));
    send(&log, &source);
    let start = move_task(source.key(), target.key());
    run(&log, shards.home().unwrap().move_tasks().start(&start)).unwrap();
    (log, shards, [source, target])
}

#[test]
fn dead_letters_are_delivered_when_their_move_is_committed() {
    let (log, shards) = open(Arc::new(SimFileSystem::new(1)), Path::new(DIR));
    let jobs = create(&log, &shards, "jobs");
    let dead = create(&log, &shards, "dead");
    let redrive = Redrive {
        region: "us-east-1".to_owned(),
        account: "000000000000".to_owned(),
        name: "dead".to_owned(),
        max_receive_count: 1,
    };
    let update = shards.catalog().update_queue(&jobs, |definition| {
        definition.settings.redrive = Some(redrive);
        Ok::<_, ()>(())
    });
    run(&log, update).unwrap().unwrap();
    send(&log, &jobs);
    let at_once = ReceiveRequest { visibility_timeout_s: Some(0), ..ANY };
    assert_eq!(run(&log, jobs.receive(&at_once)).unwrap().len(), 1);
    while log.commit_step() {}

    let Poll::Ready(received) = poll(pin!(jobs.receive(&ANY))) else { panic!("none") };

    assert!(received.unwrap().is_empty(), "it is a dead letter now");
    assert_waits_for_the_move(&log, &dead);
}

#[test]
fn what_a_move_task_brings_is_delivered_when_the_move_is_committed() {
    let (log, shards, [_, target]) = with_move_task();
    while log.commit_step() {}

    shards.maintain();

    assert_waits_for_the_move(&log, &target);
}

/// Whoever started it chose a queue, not a name.
#[test]
fn a_move_task_fails_when_its_destination_was_made_anew() {
    let (log, shards, [source, target]) = with_move_task();
    run(&log, shards.catalog().delete_queue(&target)).unwrap();
    let anew = create(&log, &shards, "jobs");

    shards.maintain();

    assert_eq!((source.counts().ready, anew.counts().ready), (1, 0));
    let status = shards
        .home()
        .unwrap()
        .move_tasks()
        .of_source(source.key(), 1)
        .into_iter()
        .map(|task| task.status)
        .next();
    assert_eq!(status, Some(MoveTaskStatus::Failed));
}

/// A task that went on would leave no room for what clients send.
#[test]
fn large_messages_wait_for_the_commit_of_those_moved_before_them() {
    let journal = MemoryJournal::new(64 << 20);
    let log = GroupCommit::new(Box::new(journal), GroupOptions::default());
    let shards = over(&log, Replay::default(), Arc::new(SystemClock::new()));
    let source = create(&log, &shards, "dead");
    let target = create(&log, &shards, "jobs");
    let large = content(&"x".repeat(1 << 20));
    for _ in 0..12 {
        run(&log, source.send(&[message("x", &large)])).unwrap();
    }
    let start = move_task(source.key(), target.key());
    run(&log, shards.home().unwrap().move_tasks().start(&start)).unwrap();

    for moved in [4, 8, 12, 12] {
        (0..3).for_each(|_| _ = shards.maintain());
        assert_eq!(target.counts().ready, moved);
        while log.commit_step() {}
    }
}

#[test]
fn the_tasks_of_one_account_leave_room_for_those_of_others() {
    let (log, shards) = open(Arc::new(SimFileSystem::new(1)), Path::new(DIR));
    let target = create(&log, &shards, "jobs");
    let queue = |account: &str, number: usize| {
        let key = QueueKey::new("us-east-1", account, &format!("dead{number}"));
        let new = NewQueue { key, ..new_queue("dead", Settings::default()) };
        let queue = created(run(&log, shards.create_queue(&new)).unwrap());
        send(&log, &queue);
        queue
    };
    let starts = |account: &str, number: usize| {
        let source = queue(account, number);
        let start = move_task(source.key(), target.key());
        run(&log, shards.home().unwrap().move_tasks().start(&start)).map(|_| source)
    };

    // Amazon: 100 tasks of an account.
    let of_first: Vec<_> = (0..100).map(|number| starts("111111111111", number).unwrap()).collect();
    let refused = starts("111111111111", 100).unwrap_err();
    assert!(matches!(refused, MoveTaskError::TooManyRunning));
    assert!(starts("222222222222", 0).is_ok() && starts("333333333333", 0).is_ok());

    let task = shards.home().unwrap().move_tasks().of_source(of_first[0].key(), 1).remove(0);
    run(&log, shards.home().unwrap().move_tasks().cancel(&task.id)).unwrap();
    assert!(starts("222222222222", 1).is_ok(), "there is room again");
}
