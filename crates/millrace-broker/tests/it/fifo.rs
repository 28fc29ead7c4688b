//! Receives of FIFO queues while they wait for their commit.

use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use millrace_broker::{BrokerError, Outgoing, ReceiveRequest, Shards, SharedQueue};
use millrace_core::QueueKey;
use millrace_engine::{Receive, Redrive};
use millrace_journal::{GroupCommit, SimFileSystem};

use crate::support::{ANY, content, create, message, open, poll, run};

fn start() -> (Arc<GroupCommit>, Arc<Shards>, Arc<SharedQueue>) {
    let (log, shards) = open(Arc::new(SimFileSystem::new(1)), Path::new("/journal"));
    let queue = create(&log, &shards, "jobs.fifo");
    for body in ["first", "second!"] {
        let content = content(body);
        let (group, deduplication_id) = (Some("g"), Some(body));
        let sent = Outgoing { group, deduplication_id, ..message(body, &content) };
        run(&log, queue.send(&[sent])).unwrap();
    }
    (log, shards, queue)
}

/// A new dead-letter queue, for messages that were received once.
fn dead_letter_to(
    log: &GroupCommit,
    shards: &Shards,
    queue: &SharedQueue,
    name: &str,
) -> Arc<SharedQueue> {
    let dead = create(log, shards, name);
    let QueueKey { region, account, name } = dead.key().clone();
    let set = shards.catalog().update_queue(queue, |definition| {
        definition.settings.redrive = Some(Redrive { region, account, name, max_receive_count: 1 });
        Ok::<_, ()>(())
    });
    run(log, set).unwrap().unwrap();
    dead
}

#[test]
fn messages_are_delivered_when_their_receive_is_committed() {
    let (log, _shards, queue) = start();
    let mut receive = pin!(queue.receive(&ANY));

    assert!(poll(receive.as_mut()).is_pending());
    assert!(log.commit_step());

    let Poll::Ready(received) = poll(receive) else { panic!("it is committed") };
    let bodies: Vec<_> = received.unwrap().iter().map(|m| m.content.body().to_vec()).collect();
    assert_eq!(bodies, [b"first".to_vec(), b"second!".to_vec()]);
}

#[test]
fn what_is_purged_meanwhile_is_not_delivered() {
    for is_last_receive in [false, true] {
        let (log, shards, queue) = start();
        if is_last_receive {
            dead_letter_to(&log, &shards, &queue, "dead.fifo");
        }
        let mut receive = pin!(queue.receive(&ANY));
        assert!(poll(receive.as_mut()).is_pending());

        run(&log, queue.purge()).unwrap();

        let Poll::Ready(received) = poll(receive) else { panic!("it is committed") };
        assert!(received.unwrap().is_empty(), "last receive: {is_last_receive}");
    }
}

#[test]
fn who_receives_from_a_queue_that_is_deleted_meanwhile_learns_that() {
    let (log, shards, queue) = start();
    let mut receive = pin!(queue.receive(&ANY));
    assert!(poll(receive.as_mut()).is_pending());

    run(&log, shards.catalog().delete_queue(&queue)).unwrap();

    let Poll::Ready(received) = poll(receive) else { panic!("it is committed") };
    assert!(matches!(received, Err(BrokerError::QueueDoesNotExist)));
}

/// Shown again at once, it is taken by the next receive, as one that was received too often.
#[test]
fn what_is_dead_lettered_meanwhile_is_delivered() {
    let (log, shards, queue) = start();
    let dead = dead_letter_to(&log, &shards, &queue, "dead.fifo");
    let shown = ReceiveRequest { visibility_timeout_s: Some(0), ..ANY };
    let mut receive = pin!(queue.receive(&shown));
    assert!(poll(receive.as_mut()).is_pending());

    let others = Receive { max: 1, visibility_timeout_s: None, attempt: None, in_flight_limit: 10 };
    assert!(queue.try_receive(&others).unwrap().is_none());
    assert_eq!(dead.counts().ready, 2);

    assert!(log.commit_step());
    let Poll::Ready(received) = poll(receive) else { panic!("it is committed") };
    let counts: Vec<_> = received.unwrap().iter().map(|m| m.delivery.receive_count).collect();
    assert_eq!(counts, [1, 1]);
}

#[test]
fn what_nobody_waits_for_any_more_comes_back_at_once() {
    let (log, _shards, queue) = start();
    {
        let mut receive = pin!(queue.receive(&ANY));
        assert!(poll(receive.as_mut()).is_pending());
    }

    let received = run(&log, queue.receive(&ANY)).unwrap();

    let counts: Vec<_> = received.iter().map(|m| m.delivery.receive_count).collect();
    assert_eq!(counts, [1, 1]);
}

#[test]
fn what_nobody_waits_for_any_more_goes_to_a_poll_that_waits() {
    let (log, _shards, queue) = start();
    let long = ReceiveRequest { wait_time_s: Some(20), ..ANY };
    let mut waiting = pin!(queue.receive(&long));
    {
        let mut receive = pin!(queue.receive(&ANY));
        assert!(poll(receive.as_mut()).is_pending());
        assert!(poll(waiting.as_mut()).is_pending(), "all is in flight");
    }

    // Woken, it receives, and waits for its commit.
    assert!(poll(waiting.as_mut()).is_pending());
    while log.commit_step() {}
    let Poll::Ready(received) = poll(waiting) else { panic!("it waits still") };

    assert_eq!(received.unwrap().len(), 2);
}

#[test]
fn short_poll_waits_a_moment_for_the_group_of_what_is_there() {
    let (log, shards, queue) = start();
    let one = ReceiveRequest { max: 1, ..ANY };
    let received = run(&log, queue.receive(&one)).unwrap();
    let handle = shards.open_receipt_handle(&received[0].receipt_handle).unwrap();
    let mut receive = pin!(queue.receive(&one));
    assert!(poll(receive.as_mut()).is_pending(), "the second is behind the first");

    run(&log, queue.delete(&[handle])).unwrap();

    // Woken, it lets others go first; then it receives, and waits for its commit.
    assert!(poll(receive.as_mut()).is_pending());
    assert!(poll(receive.as_mut()).is_pending());
    assert!(log.commit_step());
    let Poll::Ready(received) = poll(receive) else { panic!("it is committed") };
    assert_eq!(received.unwrap()[0].content.body(), b"second!");
    let Poll::Ready(left) = poll(pin!(queue.receive(&one))) else {
        panic!("there is nothing to wait for: all is in flight")
    };
    assert!(left.unwrap().is_empty());
}

#[test]
fn short_poll_gives_up_after_that_moment() {
    let (log, shards, queue) = start();
    let one = ReceiveRequest { max: 1, ..ANY };
    run(&log, queue.receive(&one)).unwrap();
    let mut receive = pin!(queue.receive(&one));
    assert!(poll(receive.as_mut()).is_pending());

    shards.advance_clock(Duration::from_millis(5));
    shards.run_due();

    let Poll::Ready(received) = poll(receive) else { panic!("it is over") };
    assert!(received.unwrap().is_empty());
}
