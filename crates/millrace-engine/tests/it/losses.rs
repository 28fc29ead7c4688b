//! Records that are missing, as after a repair of the journal: queues are whole without them, and go on.

use millrace_engine::{DeduplicationScope, Kind, Receive, Settings};
use proptest::prelude::*;

use crate::harness::{Broker, NewMessage};
use crate::props::{Command, Pair, cases_or, command, redrive};
use crate::replay::assert_replay_is_live;

/// Receives and deletes all that is there, however long that takes.
fn drain(broker: &mut Broker) {
    let receive = Receive {
        max: 3,
        visibility_timeout_s: Some(10),
        attempt: None,
        in_flight_limit: u64::MAX,
    };
    for queue in 0..broker.members.len() {
        for round in 0..2_000 {
            if broker.members[queue].queue.live_bytes() == 0 {
                break;
            }
            let receipts = broker.receive(queue, &receive).expect("no limit").receipts;
            let (first, others) = receipts.split_at(receipts.len().min(round % 2));
            broker.give_back(first);
            for receipt in others {
                assert_eq!(broker.delete(&receipt.handle), Ok(true));
            }
            broker.now = broker.now.plus_seconds(if receipts.is_empty() { 3_600 } else { 1 });
        }
        assert_eq!(broker.members[queue].queue.live_bytes(), 0);
    }
}

fn without_records(kind: Kind, commands: &[Command], lost: &[bool]) {
    let mut pair = Pair::new(kind, DeduplicationScope::Queue);
    commands.iter().for_each(|command| pair.run(command));
    let mut broker = pair.broker;
    let mut lost = lost.iter().cycle();
    // A journal may be damaged and repaired more than once.
    for _ in 0..2 {
        broker.journal.records.retain(|_| !lost.next().is_some_and(|lost| *lost));
        broker.restart();
        assert_replay_is_live(&mut broker);
        broker.truncate(broker.journal.tail_segment() / 2);
    }
    drain(&mut broker);
    assert_replay_is_live(&mut broker);
}

#[test]
fn a_queue_whose_deletion_is_lost_stays_away_even_when_its_successor_is_deleted() {
    let mut broker = Broker::new();
    let deleted = broker.create("q", Settings::default());
    broker.send(deleted, "a", NewMessage::default());
    broker.delete_queue(deleted);
    let successor = broker.create("q", Settings::default());
    broker.send(successor, "b", NewMessage::default());
    let deletion = 2;
    broker.journal.records.remove(deletion);

    broker.restart();
    let left: Vec<_> = broker.members.iter().map(|member| member.queue.counts().total()).collect();
    assert_eq!((left, broker.members[0].definition.id), (vec![1], 2));

    broker.delete_queue(0);
    broker.restart();
    assert!(broker.members.is_empty());
}

/// Its first record is truncated, and its queue's name is told of further on only.
#[test]
fn what_was_in_the_slot_of_a_moved_message_stays_away_when_that_is_gone() {
    let mut broker = Broker::new();
    let settings =
        Settings { visibility_timeout_s: 0, redrive: Some(redrive(1)), ..Settings::default() };
    let source = broker.create("jobs", settings);
    let dead = broker.create("dead", Settings::default());
    broker.send(source, "moved", NewMessage::default());
    broker.create("fills the segment", Settings::default());
    broker.send(dead, "deleted", NewMessage::default());
    assert_eq!(broker.journal.tail_segment(), 1);
    broker.take_oldest(dead);
    let deletion = broker.journal.records.len() - 1;
    let receive =
        Receive { max: 1, visibility_timeout_s: None, attempt: None, in_flight_limit: u64::MAX };
    broker.receive(source, &receive).expect("no limit");
    assert_eq!(broker.receive(source, &receive).expect("no limit").moved, ["moved"]);
    broker.take_oldest(dead);
    broker.journal.records.remove(deletion);

    for _ in 0..2 {
        broker.restart();
        assert_replay_is_live(&mut broker);
        assert_eq!(broker.members[dead].queue.counts().total(), 0);
        broker.truncate(0);
    }
}

/// The purge between two sends of one deduplication id in the same millisecond: the later counts.
#[test]
fn a_send_behind_a_lost_purge_is_another_send() {
    let send = |dedup| Command::Send { queue: 0, group: 0, dedup, delay_s: None };
    let purge = Command::Purge { queue: 0 };
    let sends = [None, None, Some(1), None, None].map(send);
    let commands: Vec<Command> = sends.into_iter().chain([purge, send(Some(1))]).collect();

    without_records(
        Kind::Fifo,
        &commands,
        &[false, false, false, false, false, false, false, false, true, false],
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases_or(150), failure_persistence: None, ..Default::default() })]

    #[test]
    fn queues_without_some_of_their_records_are_consistent(
        commands in proptest::collection::vec(command(), 1..70),
        lost in proptest::collection::vec(proptest::bool::weighted(0.2), 1..40),
        is_fifo in any::<bool>(),
    ) {
        without_records(if is_fifo { Kind::Fifo } else { Kind::Standard }, &commands, &lost);
    }
}
