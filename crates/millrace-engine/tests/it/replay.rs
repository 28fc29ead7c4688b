//! What a queue looks like from outside, to compare a live one with its replay.

use std::collections::BTreeMap;

use millrace_core::{MessageId, QueueId, QueueKey, Timestamp};
use millrace_engine::record::{MovedSlot, Record, Records, SlotSeq};
use millrace_engine::{
    ClaimError, Counts, DeduplicationScope, Definition, Delivery, Kind, MessageState, MessageView,
    Queue, Receive, Redrive, Relocate, Replay, Sent, Settings, StoredContent,
};

use crate::harness::{Broker, Journal, Member, NewMessage, START, remembered_to};
use crate::raw::{self, RawSent};

/// One message: all that clients can ever learn of it, and where it stands.
#[derive(Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) state: MessageState,
    pub(crate) receive_count: u32,
    pub(crate) sent: Timestamp,
    pub(crate) first_received: Option<Timestamp>,
    pub(crate) deadline: Option<Timestamp>,
    pub(crate) group: Option<String>,
    pub(crate) source: Option<String>,
    pub(crate) place: (u32, u64, u64, u32),
}

/// A queue's whole state, in an order that does not depend on its history.
#[derive(Debug, PartialEq)]
pub(crate) struct Snapshot {
    counts: Counts,
    sent_total: u64,
    pub(crate) messages: BTreeMap<String, Seen>,
    remembered: Vec<(u128, MessageId, u64, Timestamp)>,
    settings: Settings,
    oldest_sent: Option<Timestamp>,
    next_deadline: Timestamp,
    live_bytes: u64,
    oldest_segment: Option<u32>,
}

pub(crate) fn snapshot(member: &Member, journal: &Journal) -> Snapshot {
    member.queue.assert_consistent();
    let messages = member.queue.messages().map(|MessageView { delivery, state, deadline }| {
        let Delivery { at, position, record_len, receive_count, .. } = delivery;
        let seen = Seen {
            state,
            receive_count,
            sent: delivery.sent,
            first_received: (receive_count > 0).then_some(delivery.first_received),
            deadline: (state != MessageState::Ready).then_some(deadline),
            group: delivery.group.as_deref().map(str::to_owned),
            source: delivery.source.as_deref().map(str::to_owned),
            place: (at.slot, at.seq, position, record_len),
        };
        (journal.at(position).body.clone(), seen)
    });
    let messages: BTreeMap<_, _> = messages.collect();
    let remembered = remembered_to(&member.queue, u32::MAX).into_iter();
    let mut remembered: Vec<_> = remembered.map(|s| (s.key, s.id, s.seq, s.expires)).collect();
    remembered.sort_unstable();
    assert_eq!(messages.len(), member.queue.messages().count(), "no message is there twice");
    Snapshot {
        counts: member.queue.counts(),
        sent_total: member.queue.sent_total(),
        messages,
        remembered,
        settings: member.queue.settings().clone(),
        oldest_sent: member.queue.oldest_sent(),
        next_deadline: member.queue.next_deadline(),
        live_bytes: member.queue.live_bytes(),
        oldest_segment: member.queue.oldest_segment(),
    }
}

/// Panics unless the journal tells the state that the broker is in.
pub(crate) fn assert_replay_is_live(broker: &mut Broker) {
    broker.tick();
    let mut replayed = broker.replayed();
    assert_eq!(replayed.len(), broker.members.len(), "queues");
    for (live, replayed) in broker.members.iter().zip(&mut replayed) {
        assert_eq!(live.definition, replayed.definition);
        let mut expired = Records::default();
        while replayed.queue.next_deadline() <= broker.now {
            replayed.queue.tick(broker.now, 2);
            replayed.queue.expire(broker.now, 2, &mut expired);
        }
        assert!(expired.is_empty(), "what expired was journaled");
        let told = snapshot(replayed, &broker.journal);
        assert_eq!(snapshot(live, &broker.journal), told, "live and replayed");
    }
}

fn fifo(delay_s: u32) -> Settings {
    Settings { kind: Kind::Fifo, delay_s, ..Settings::default() }
}

fn message(group: &str) -> NewMessage<'_> {
    NewMessage { group: Some(group), ..NewMessage::default() }
}

const ANY: Receive =
    Receive { max: 10, visibility_timeout_s: None, attempt: None, in_flight_limit: u64::MAX };

/// The first definition that is left tells a delay that equals the default, yet an earlier one,
/// truncated, told another that the messages were sent with.
#[test]
fn relocated_definition_ends_delays_that_an_earlier_one_began() {
    let mut broker = Broker::new();
    let queue = broker.create("q.fifo", fifo(60));
    for name in ["a", "b", "c", "d", "e"] {
        broker.send(queue, name, message("g"));
    }
    broker.set(queue, fifo(0));

    // The definitions of segment 0 go, the message "d" of segment 1 stays where it is.
    broker.truncate(0);
    broker.truncate(1);

    assert_replay_is_live(&mut broker);
    assert_eq!(broker.members[queue].queue.counts().ready, 5);
}

#[test]
fn relocated_definition_applies_to_messages_that_replay_before_it() {
    for (before_s, after_s) in [(60, 0), (0, 60), (60, 30), (30, 60)] {
        let mut broker = Broker::new();
        let queue = broker.create("q.fifo", fifo(before_s));
        for name in ["a", "b", "c"] {
            broker.send(queue, name, message("g"));
        }
        broker.set(queue, fifo(after_s));
        broker.send(queue, "d", message("g"));
        broker.send(queue, "e", message("g"));
        assert_replay_is_live(&mut broker);

        // Only the definitions move; all messages but the first three keep their first record.
        broker.truncate(0);
        assert_replay_is_live(&mut broker);
        broker.truncate(1);

        assert_replay_is_live(&mut broker);
        broker.now = broker.now.plus_seconds(45);
        assert_replay_is_live(&mut broker);
    }
}

#[test]
fn reservations_are_as_they_were_after_a_restart() {
    for kind in [Kind::Standard, Kind::Fifo] {
        let mut broker = Broker::new();
        let queue = broker.create("q", Settings { kind, ..Settings::default() });
        for (name, group) in [("a", "1"), ("b", "2"), ("c", "3"), ("d", "4"), ("e", "5")] {
            broker.send(queue, name, message(group));
        }
        let received = broker.receive(queue, &ANY).unwrap().receipts;
        let [renewed, released, delayed, deleted, kept] = &received[..] else { panic!("five") };
        assert_eq!(broker.touch(renewed, 600), Ok(2));
        broker.release(released, 0).unwrap();
        broker.release(delayed, 90).unwrap();
        broker.delete_claimed(deleted).unwrap();
        assert_replay_is_live(&mut broker);

        for segment in 0..2 {
            broker.truncate(segment);
            assert_replay_is_live(&mut broker);
        }
        broker.restart();

        let ended = Err(ClaimError::Ended);
        for receipt in [renewed, released, delayed] {
            assert_eq!(broker.delete_claimed(receipt), ended, "{}", receipt.name);
        }
        assert_eq!(broker.delete_claimed(deleted), Ok(0));
        broker.delete_claimed(kept).unwrap();
        assert_eq!(broker.receive(queue, &ANY).unwrap().receipts[0].name, "b");
        broker.now = broker.now.plus_seconds(90);
        assert_replay_is_live(&mut broker);
        assert!(broker.receive(queue, &ANY).unwrap().receipts.iter().any(|it| it.name == "c"));
        assert_replay_is_live(&mut broker);
    }
}

#[test]
fn given_back_message_is_not_delayed_again_by_a_relocated_definition() {
    let mut broker = Broker::new();
    let queue = broker.create("q.fifo", fifo(0));
    broker.send(queue, "a", message("g"));
    let received = broker.receive(queue, &ANY).unwrap();
    broker.set(queue, fifo(900));
    broker.give_back(&received.receipts);
    assert_eq!(broker.members[queue].queue.counts().ready, 1);

    broker.truncate(0);

    assert_replay_is_live(&mut broker);
    assert_eq!(broker.members[queue].queue.counts().ready, 1);
}

/// Messages that the change has not come to yet are given the delay by their relocation, whose record
/// stands behind the one of the change.
#[test]
fn messages_relocated_amid_a_change_of_delay_have_the_delay_of_after() {
    /// More than have the delay with the change itself.
    const MESSAGES: u64 = 1_200;
    for (before_s, after_s) in [(0, 60), (60, 0), (60, 30), (30, 60)] {
        let mut broker = Broker::new();
        let queue = broker.create("q.fifo", fifo(before_s));
        for number in 0..MESSAGES {
            let name = number.to_string();
            broker.send(queue, &name, message(&name));
        }
        let is_amid = |broker: &Broker| broker.members[queue].queue.next_deadline() == Timestamp(0);
        let have_it = |broker: &Broker| {
            let deadline = START.plus_seconds(u64::from(after_s));
            let messages = broker.members[queue].queue.messages();
            messages
                .filter(|it| match it.state {
                    MessageState::Ready => after_s == 0,
                    _ => it.deadline == deadline,
                })
                .count()
        };
        broker.set(queue, fifo(after_s));
        assert!(is_amid(&broker));
        assert_eq!(have_it(&broker), 1_000);

        // The definition's new record and what is beside it stay.
        broker.truncate_amid_work(broker.journal.tail_segment() - 1);

        assert_replay_is_live(&mut broker);
        assert_eq!(have_it(&broker), MESSAGES as usize);
        broker.restart();
        assert_eq!(have_it(&broker), MESSAGES as usize);
    }
}

#[test]
fn remembered_sends_are_kept_once_and_in_order_however_often_they_are_relocated() {
    let mut broker = Broker::new();
    let queue = broker.create("q.fifo", fifo(0));
    let dedup = |id| NewMessage { group: Some("g"), dedup: Some(id), delay_s: None };
    broker.send(queue, "a", dedup("first"));
    broker.now = broker.now.plus_seconds(10);
    for name in ["b", "c", "d", "e", "f", "g"] {
        broker.send(queue, name, dedup(name));
    }

    for _ in 0..3 {
        broker.truncate(0);
        broker.restart();
        let remembered = remembered_to(&broker.members[queue].queue, u32::MAX);
        assert_eq!(remembered.len(), 7);
        assert_replay_is_live(&mut broker);
    }

    broker.purge(queue);
    broker.send(queue, "h", dedup("first"));
    let due = START.plus_seconds(310);
    assert_eq!(broker.members[queue].queue.next_deadline(), due);
}

#[test]
fn message_moved_from_a_queue_that_is_gone_survives() {
    let mut broker = Broker::new();
    let redrive = Redrive {
        region: "us-east-1".to_owned(),
        account: "000000000000".to_owned(),
        name: "dead".to_owned(),
        max_receive_count: 1,
    };
    let settings =
        Settings { visibility_timeout_s: 0, redrive: Some(redrive), ..Settings::default() };
    let source = broker.create("jobs", settings);
    let dead = broker.create("dead", Settings::default());
    broker.send(source, "a", NewMessage::default());
    broker.receive(source, &ANY).unwrap();
    assert_eq!(broker.receive(source, &ANY).unwrap().moved, ["a"]);

    assert_replay_is_live(&mut broker);
    broker.delete_queue(source);
    let dead = dead - 1;
    assert_replay_is_live(&mut broker);
    broker.truncate(0);
    broker.restart();

    let received = broker.receive(dead, &ANY).unwrap();
    assert_eq!(received.receipts[0].name, "a");
    assert_eq!(
        received.receipts[0].delivery.source.as_deref(),
        Some("arn:aws:sqs:us-east-1:000000000000:jobs")
    );
}

#[test]
fn replay_tells_the_highest_queue_and_the_latest_time_of_what_is_left() {
    let mut broker = Broker::new();
    let kept = broker.create("kept", Settings::default());
    let gone = broker.create("gone", Settings::default());
    broker.now = broker.now.plus_seconds(5);
    broker.send(kept, "a", NewMessage::default());
    broker.send(kept, "b", NewMessage::default());
    broker.delete_queue(gone);
    broker.truncate(0);

    let mut replay = millrace_engine::Replay::default();
    for stored in &broker.journal.records {
        replay.apply(&stored.index, stored.position, stored.len()).unwrap();
    }
    let finished = replay.finish(0);

    assert_eq!(finished.highest_queue, 2);
    assert_eq!(finished.latest, broker.now);
}

#[test]
fn replay_tells_the_time_of_whatever_was_done_last() {
    let mut broker = Broker::new();
    let queue = broker.create("q", Settings::default());
    let assert_told = |broker: &mut Broker| {
        let mut replay = millrace_engine::Replay::default();
        for stored in &broker.journal.records {
            replay.apply(&stored.index, stored.position, stored.len()).unwrap();
        }
        assert_eq!(replay.finish(0).latest, broker.now);
        broker.now = broker.now.plus_seconds(1);
    };

    assert_told(&mut broker);
    broker.send(queue, "a", NewMessage::default());
    assert_told(&mut broker);
    let received = broker.receive(queue, &ANY).unwrap().receipts;
    assert_told(&mut broker);
    broker.change_visibility(&received[0].handle, 60).unwrap();
    assert_told(&mut broker);
    assert_eq!(broker.give_back(&received), ["a"]);
    assert_told(&mut broker);
}

/// A queue's first message, in slot 0 with sequence 1.
fn first_sent_to(queue: QueueId) -> RawSent<'static> {
    let at = SlotSeq { slot: 0, seq: 1 };
    RawSent { queue, at, sent: START, kind: Kind::Standard, group: None }
}

/// The limit of 12 hours counts from the receive, and not from one before it, or from the send.
#[test]
fn a_receive_that_a_crash_has_forgotten_may_be_prolonged() {
    let mut broker = Broker::new();
    let queue = broker.create("q", Settings::default());
    broker.send(queue, "old", NewMessage::default());
    broker.now = broker.now.plus_seconds(13 * 3_600);
    let received = broker.receive(queue, &ANY).unwrap();
    broker.journal.records.pop();
    broker.restart();

    let changed = broker.change_visibility(&received.receipts[0].handle, 30);

    assert_eq!(changed, Ok(()));
    assert_eq!(broker.members[queue].queue.counts().in_flight, 1);
}

#[test]
fn queue_whose_end_is_lost_does_not_come_back_and_one_without_beginning_gets_another_name() {
    let mut broker = Broker::new();
    let deleted = broker.create("deleted", Settings::default());
    broker.send(deleted, "a", NewMessage::default());
    broker.delete_queue(deleted);
    let again = broker.create("deleted", Settings::default());
    broker.send(again, "b", NewMessage::default());
    broker.create("recovered-4.fifo", fifo(0));
    let lost = broker.create("lost.fifo", fifo(0));
    broker.send(lost, "c", message("g"));
    broker.send(lost, "d", message("g"));
    broker.create("empty", Settings::default());
    // Two definitions, and the deletion.
    for lost in [9, 6, 2] {
        broker.journal.records.remove(lost);
    }

    let mut replay = millrace_engine::Replay::default();
    for stored in &broker.journal.records {
        replay.apply(&stored.index, stored.position, stored.len()).unwrap();
    }
    replay.recover_definitions("us-east-1", "000000000000");
    let finished = replay.finish(0);

    let queues = finished.queues.iter();
    let known: Vec<_> = queues
        .map(|queue| (queue.definition.id, queue.queue.counts().total(), queue.position.is_some()))
        .collect();
    assert_eq!(known, [(2, 1, true), (3, 0, true), (4, 2, false)]);
    let recovered = &finished.queues[2].definition;
    assert_eq!(
        recovered.key().to_string(),
        "arn:aws:sqs:us-east-1:000000000000:recovered-4-2.fifo"
    );
    let expected = Settings { retention_s: 1_209_600, kind: Kind::Fifo, ..Settings::default() };
    assert_eq!((&recovered.settings, finished.queues[2].queue.settings()), (&expected, &expected));
    assert_eq!(recovered.modified_ms, finished.latest.0);
}

#[test]
fn recovered_queue_is_where_all_others_are_if_they_are_in_one_place() {
    let home_of_recovered = |accounts: &[&str]| {
        let mut replay = millrace_engine::Replay::default();
        for (number, account) in accounts.iter().enumerate() {
            let key = QueueKey::new("eu-west-1", account, &format!("known-{number}"));
            let id = QueueId(number as u64 + 2);
            let known = Definition::new(id, &key, Settings::default(), START);
            replay.apply(&raw::defined(&known), number as u64, 100).unwrap();
        }
        replay.apply(&first_sent_to(QueueId(1)).index(0), 100, 100).unwrap();
        replay.recover_definitions("us-east-1", "000000000000");
        let recovered = replay.finish(2).queues.swap_remove(0).definition;
        (recovered.region, recovered.account)
    };

    let there = ("eu-west-1".to_owned(), "111122223333".to_owned());
    assert_eq!(home_of_recovered(&["111122223333", "111122223333"]), there);
    assert_eq!(home_of_recovered(&["111122223333"]), there);
    let configured = ("us-east-1".to_owned(), "000000000000".to_owned());
    assert_eq!(home_of_recovered(&["111122223333", "444455556666"]), configured);
    assert_eq!(home_of_recovered(&[]), configured);
}

/// [`millrace_engine::Queue::first_ready`] asks the group whose turn it is; the one without a name
/// had its turn still, though its last message was gone.
#[test]
fn queue_emptied_of_ready_messages_has_no_first() {
    let mut broker = Broker::new();
    let queue = broker.create("q", Settings::default());
    broker.send(queue, "a", NewMessage::default());

    broker.take_oldest(queue);

    assert!(broker.members[queue].queue.first_ready().is_none());
    broker.members[queue].queue.assert_consistent();
}

/// The record of its receive does so too, but a repaired journal may have lost that.
#[test]
fn a_move_tells_the_time() {
    let (mut replay, at) = (Replay::default(), START.plus_seconds(1));

    replay.apply(&raw::moved(QueueId(1), QueueId(2), at, &[]), 0, 0).unwrap();

    assert_eq!(replay.finish(1).latest, at);
}

/// A queue's definition may have been appended again behind what was moved to it.
#[test]
fn sequences_go_on_behind_what_was_moved_to_a_queue_not_yet_defined() {
    let (from, to) = (QueueId(1), QueueId(2));
    let at = |seq| SlotSeq { slot: 0, seq };
    let sent = first_sent_to(from).index(0);
    let moved = raw::moved(from, to, START, &[MovedSlot { from: at(1), to: at(9) }]);
    let definitions = [(from, "jobs"), (to, "dead")].map(|(id, name)| {
        let key = QueueKey::new("us-east-1", "000000000000", name);
        raw::defined(&Definition::new(id, &key, Settings::default(), START))
    });
    let mut replay = Replay::default();
    for (index, number) in [sent, moved].iter().chain(&definitions).zip(0..) {
        replay.apply(index, number, 100).unwrap();
    }

    let mut dead = replay.finish(3).queues.pop().unwrap().queue;

    assert_eq!(dead.counts().ready, 1);
    let id = MessageId([1; 16]);
    let content = StoredContent::default();
    let send = millrace_engine::Send { id, content, group: None, dedup: None, delay_s: None };
    let sent = dead.send(START, &send, &mut Records::default());
    assert!(matches!(sent, Sent::Stored { at, .. } if at.seq == 10));
}

#[test]
fn tick_does_at_most_its_budget_and_says_that_more_is_due() {
    let mut broker = Broker::new();
    let settings = Settings { delay_s: 1, retention_s: 60, ..Settings::default() };
    let queue = broker.create("q", settings);
    for name in ["a", "b", "c"] {
        broker.send(queue, name, NewMessage::default());
    }
    let queue = &mut broker.members[queue].queue;

    let due = START.plus_seconds(1);
    queue.tick(due, 2);
    assert_eq!((queue.counts().ready, queue.counts().delayed), (2, 1));
    assert_eq!(queue.next_deadline(), due);
    queue.tick(due, 2);
    assert_eq!(queue.counts().ready, 3);
    let records = &mut Records::default();
    assert_eq!((queue.expire(due, 2, records), records.len()), (0, 0));

    let over = START.plus_seconds(60);
    assert_eq!(queue.next_deadline(), over);
    queue.tick(over, 2);
    assert_eq!(queue.counts().ready, 3, "a tick alone drops nothing");
    assert_eq!((queue.expire(over, 2, records), queue.next_deadline()), (2, over));
    assert_eq!((queue.expire(over, 2, records), queue.next_deadline()), (1, Timestamp::NEVER));
    assert_eq!(records.len(), 2);
}

#[test]
fn group_scope_key_differs_by_group_and_queue_scope_key_does_not() {
    let key = millrace_engine::ReceiptKey::new([1; 16]);
    let mut broker = Broker::new();
    let by_queue = broker.create("a.fifo", fifo(0));
    let settings = Settings { deduplication_scope: DeduplicationScope::MessageGroup, ..fifo(0) };
    let by_group = broker.create("b.fifo", settings);
    let of = |queue: usize, group| broker.members[queue].queue.dedup_key(&key, group, "d");

    assert_eq!(of(by_queue, "g"), of(by_queue, "h"));
    assert_ne!(of(by_group, "g"), of(by_group, "h"));
}

/// Messages of a journal that an earlier version has written, and their later relocation.
#[test]
fn messages_of_before_contents_had_versions_are_replayed_and_relocated() {
    let queue = QueueId(1);
    let message = |slot| RawSent {
        at: SlotSeq { slot, seq: u64::from(slot) + 1 },
        group: Some("g"),
        ..first_sent_to(queue)
    };
    let old = [message(0).index_before_versions(), message(1).relocated_before_versions()];
    let new = [message(0).index(0), message(1).relocated(0)];
    let replayed = |records: &[Vec<u8>; 2]| {
        let mut replay = Replay::default();
        let key = QueueKey::new("us-east-1", "000000000000", "q");
        let definition = Definition::new(queue, &key, Settings::default(), START);
        replay.apply(&raw::defined(&definition), 0, 100).unwrap();
        for (index, position) in records.iter().zip(1..) {
            replay.apply(index, position, 100).unwrap();
        }
        replay.finish(9).queues.pop().unwrap().queue
    };

    let mut queue = replayed(&old);

    let views = |queue: &Queue| format!("{:?}", queue.messages().collect::<Vec<_>>());
    assert_eq!(views(&queue), views(&replayed(&new)));
    assert_eq!(queue.counts().ready, 2);
    let deliveries: Vec<_> = queue.messages().map(|view| view.delivery).collect();
    let mut records = Records::default();
    for message in &deliveries {
        let content = StoredContent::plain(b"content");
        let relocate = Relocate { id: MessageId([0; 16]), message, content };
        queue.relocate(START, &relocate, &mut records);
    }
    let relocated: Vec<_> = records.iter().collect();
    let expected = [message(0), message(1)].map(|message| message.relocated(0));
    let [(first, content), (second, _)] = relocated[..] else { panic!("{relocated:?}") };
    assert_eq!((content, second), (&b"content"[..], &expected[1][..]));
    assert_eq!(Record::decode(first), Record::decode(&expected[0]));
}

#[test]
fn a_journal_with_contents_of_a_later_version_is_refused_and_says_so() {
    let message = first_sent_to(QueueId(1));
    for index in [message.index(1), message.relocated(1)] {
        let refused = Replay::default().apply(&index, 0x1_0000_0030, 100).unwrap_err();

        assert_eq!(
            refused.to_string(),
            "at 0x100000030: message content is of version 1, which this version of the server \
             cannot read"
        );
    }
}
