use std::any::Any;
use std::task::{Context, Waker};

use millrace_core::MessageId;
use millrace_engine::{
    DeadLetters, NewContent, Queue, Receive, Redrive, Send as EngineSend, Sent, Settings,
    StoredContent,
};

use super::*;
use crate::Outgoing;
use crate::deliver::Contents;
use crate::testing::{create, open};

const SEGMENT_BYTES: u32 = 64 << 10;

fn send(queue: &SharedQueue, id: u128, body: &[u8]) {
    let mut content = Vec::new();
    NewContent { body, ..NewContent::default() }.encode(&mut content);
    let message = Outgoing {
        id: MessageId::from_random(id),
        content: &content,
        size_bytes: body.len(),
        group: None,
        deduplication_id: None,
        delay_s: None,
    };
    queue.begin_send(&[message]).unwrap();
}

/// The queue that a message moves to may be made when the list of queues has been taken.
#[test]
fn a_message_that_moves_to_a_new_queue_keeps_its_segment() {
    let (log, shards) = open(SEGMENT_BYTES);
    let commit = || while log.commit_step() {};
    let redrive = Redrive {
        region: "us-east-1".to_owned(),
        account: "000000000000".to_owned(),
        name: "dead".to_owned(),
        max_receive_count: 1,
    };
    let source = Settings { redrive: Some(redrive), ..Settings::default() };
    let queue = create(&shards, "source", source);
    send(&queue, 1, b"precious");
    let receive =
        Receive { max: 1, visibility_timeout_s: Some(0), attempt: None, in_flight_limit: u64::MAX };
    assert!(queue.try_receive(&receive).unwrap().is_some());
    let other = create(&shards, "other", Settings::default());
    for id in 2..200 {
        send(&other, id, &[b'x'; 1_000]);
        commit();
    }
    let mut deleted = Box::pin(shards.catalog().delete_queue(&other));
    let _ = deleted.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    commit();

    let shard = shards.home().unwrap();
    let (segments, queues) = shard.truncation().log_and_queues();
    let dead = create(&shards, "dead", Settings::default());
    assert!(queue.try_receive(&receive).unwrap().is_none(), "moved");
    commit();

    assert_eq!(dead.counts().ready, 1);
    let [oldest, _, .., active] = segments.as_slice() else { panic!("{segments:?}") };
    assert_eq!(shard.truncation().live(&queues, active.id).1, oldest.id);
}

/// Not by the request, nor under a lock.
#[test]
fn what_is_purged_or_deleted_is_freed_by_the_maintenance() {
    let (log, shards) = open(SEGMENT_BYTES);
    let queues = ["purged", "deleted"].map(|name| create(&shards, name, Settings::default()));
    for (id, queue) in [1, 2].into_iter().zip(&queues) {
        send(queue, id, b"body");
    }

    let mut purged = Box::pin(queues[0].purge());
    let mut deleted = Box::pin(shards.catalog().delete_queue(&queues[1]));
    let mut context = Context::from_waker(Waker::noop());
    assert!(purged.as_mut().poll(&mut context).is_pending());
    assert!(deleted.as_mut().poll(&mut context).is_pending());
    while log.commit_step() {}

    let maintenance = &queues[0].common.maintenance;
    let counted = |unneeded: &Box<dyn Any + Send>| {
        unneeded.downcast_ref::<Queue>().map_or(0, |queue| queue.counts().total())
    };
    let held = || maintenance.unneeded().iter().map(counted).sum();
    assert_eq!((held(), queues.iter().map(|queue| queue.counts().total()).sum()), (2_u64, 0_u64));
    shards.maintain();
    assert!(maintenance.unneeded().is_empty());
}

#[test]
fn the_table_of_a_large_backlog_that_is_gone_is_freed_by_the_maintenance() {
    let (_log, shards) = open(SEGMENT_BYTES);
    let queue = create(&shards, "drained", Settings::default());
    let send = || {
        let (id, content) = (MessageId::from_random(0), StoredContent::default());
        let send = EngineSend { id, content, group: None, dedup: None, delay_s: None };
        let sent = queue.lock().queue.send(shards.now(), &send, &mut Records::default());
        let Sent::Stored { at, .. } = sent else { panic!("there is no deduplication") };
        at
    };
    let sent: Vec<_> = (0..40_000).map(|_| send()).collect();
    assert!(sent.into_iter().all(|at| queue.lock().queue.take(at, &mut Records::default())));

    queue.count_messages();

    assert_eq!(queue.common.maintenance.unneeded().len(), 1);
}

/// Between a receive and the reading of what it received.
#[test]
fn a_message_is_read_where_its_record_has_moved() {
    let (log, shards) = open(SEGMENT_BYTES);
    let commit = || while log.commit_step() {};
    let queue = create(&shards, "queue", Settings::default());
    send(&queue, 1, b"precious");
    let other = create(&shards, "other", Settings::default());
    for id in 2..200 {
        send(&other, id, &[b'x'; 1_000]);
        commit();
    }
    let receive =
        Receive { max: 1, visibility_timeout_s: None, attempt: None, in_flight_limit: u64::MAX };
    let now = shards.now();
    let mut records = Records::default();
    let received = queue.lock().queue.receive(now, &receive, DeadLetters::Deliver, &mut records);
    let received = received.unwrap();
    let mut deleted = Box::pin(shards.catalog().delete_queue(&other));
    let _ = deleted.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    let oldest = log.segments()[0].id;

    shards.home().unwrap().truncation().relocate_messages(oldest, &mut None).unwrap();
    while log.segments()[0].id == oldest {
        commit();
        shards.maintain();
    }

    let (incoming, left_out) = Contents(&queue).read(&received.deliveries);
    let bodies: Vec<_> = incoming.iter().map(|incoming| incoming.content.body()).collect();
    assert_eq!((bodies, left_out), (vec![&b"precious"[..]], 0));
}
