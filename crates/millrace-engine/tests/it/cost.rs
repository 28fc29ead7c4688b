//! Commands cost the same however long the backlog is and however many groups there are.
//!
//! Measured on a short queue and a long one in turn, so that a machine that becomes slower meanwhile
//! does so for both. The fastest of many rounds counts, so that other work on the machine disturbs
//! neither, and a disturbed measurement is repeated.

use std::time::{Duration, Instant};

use millrace_core::{MessageId, QueueId, Timestamp};
use millrace_engine::record::{Records, SlotSeq};
use millrace_engine::{
    DeadLetters, Handle, Kind, Queue, Receive, Replay, Send, Sent, Settings, StoredContent,
};

use crate::raw::RawSent;

const NOW: Timestamp = Timestamp(1_700_000_000_000);
const SHORT: usize = 1_000;
const LONG: usize = 1_000_000;
const ROUNDS: usize = 60;
const MEASUREMENTS: usize = 6;
const RECEIVES_PER_ROUND: usize = 20;

struct Backlog {
    queue: Queue,
    groups: Vec<String>,
    sent: usize,
}

impl Backlog {
    fn new(kind: Kind, groups: usize) -> Backlog {
        let settings = Settings { kind, ..Settings::default() };
        let groups = (0..groups).map(|group| format!("group-{group}")).collect();
        Backlog { queue: Queue::new(QueueId(1), "arn", settings, 0), groups, sent: 0 }
    }

    fn send(&mut self) {
        let group = match self.groups.len() {
            0 => None,
            groups => Some(self.groups[self.sent % groups].as_str()),
        };
        let content = StoredContent::default();
        let send = Send { id: MessageId([0; 16]), content, group, dedup: None, delay_s: None };
        let sent = self.queue.send(NOW, &send, &mut Records::default());
        let Sent::Stored { at, .. } = sent else { panic!("duplicate") };
        self.queue.stored(at, None, (self.sent as u64) << 10, 100);
        self.sent += 1;
    }

    fn grow_to(&mut self, messages: usize) {
        while self.queue.counts().ready < messages as u64 {
            self.send();
        }
    }

    /// The time of some receives of ten, each followed by ten deletes and ten sends.
    fn round(&mut self) -> Duration {
        let receive = Receive {
            max: 10,
            visibility_timeout_s: None,
            attempt: None,
            in_flight_limit: 120_000,
        };
        let begun = Instant::now();
        for _ in 0..RECEIVES_PER_ROUND {
            let queue = &mut self.queue;
            queue.tick(NOW, 10);
            let mut records = Records::default();
            let received = queue.receive(NOW, &receive, DeadLetters::Deliver, &mut records);
            let deliveries = received.unwrap().deliveries;
            let handles = deliveries.iter().map(|delivery| Handle {
                queue: QueueId(1),
                seq: delivery.at.seq,
                slot: delivery.at.slot,
                receive_count: delivery.receive_count,
            });
            let handles: Vec<_> = handles.collect();
            assert_eq!(queue.delete(&handles, &mut records)[..], [Ok(true); 10]);
            (0..10).for_each(|_| self.send());
        }
        begun.elapsed()
    }
}

/// Fails if rounds of one backlog cost three times as much as those of the other: more cache misses
/// are allowed for.
fn assert_close(plain: &mut Backlog, other: &mut Backlog, what: &str) {
    let [mut of_plain, mut of_other] = [Duration::MAX; 2];
    for _ in 0..MEASUREMENTS {
        for _ in 0..ROUNDS {
            of_plain = of_plain.min(plain.round());
            of_other = of_other.min(other.round());
        }
        if of_other < of_plain * 3 {
            return;
        }
    }
    panic!("{of_plain:?}, and {of_other:?} {what}");
}

/// A thousand times the backlog costs the same.
fn assert_same_cost(kind: Kind, groups: usize) {
    let [mut short, mut long] = [SHORT, LONG].map(|messages| {
        let mut backlog = Backlog::new(kind, groups);
        backlog.grow_to(messages);
        backlog
    });

    assert_close(&mut short, &mut long, "with a thousand times the backlog");
}

#[test]
fn standard_receive_does_not_depend_on_the_backlog() {
    assert_same_cost(Kind::Standard, 0);
}

#[test]
fn fifo_receive_does_not_depend_on_the_length_of_a_group() {
    assert_same_cost(Kind::Fifo, 1);
}

#[test]
fn fifo_receive_does_not_depend_on_the_number_of_groups() {
    assert_same_cost(Kind::Fifo, 10_000);
}

#[test]
fn fair_receive_does_not_depend_on_the_number_of_groups() {
    assert_same_cost(Kind::Standard, 10_000);
}

/// Time per message of a replay of messages that stand in the log in this order of their sequences.
fn replay_cost(order: &[u64]) -> Duration {
    let groups = ["a", "b"];
    let mut replay = Replay::default();
    let begun = Instant::now();
    for &seq in order {
        let sent = RawSent {
            queue: QueueId(1),
            at: SlotSeq { slot: seq as u32, seq },
            sent: NOW,
            kind: Kind::Fifo,
            group: Some(groups[seq as usize / 2 % 2]),
        };
        replay.apply(&sent.index(0), seq << 10, 100).unwrap();
    }
    let finished = replay.finish(order.len() as u64);
    let took = begun.elapsed() / order.len() as u32;
    drop(finished);
    took
}

fn assert_same_replay_cost(order: impl Fn(u64) -> Vec<u64>) {
    let [short, long] = [2_000, 32_000].map(order);
    // As many messages at a time as the long one, so that other work on the machine disturbs both alike.
    let shorts = || (0..16).map(|_| replay_cost(&short)).sum::<Duration>() / 16;
    let mut costs = Vec::new();
    // Each beside short ones before and after it, as the machine may become slower.
    let is_as_quick = (0..5).any(|_| {
        let (before, long, after) = (shorts(), replay_cost(&long), shorts());
        costs.push([before, long, after]);
        long < before.min(after) * 5
    });
    assert!(is_as_quick, "2,000, 32,000 and again 2,000: {costs:?}");
}

#[test]
fn replay_of_relocated_messages_does_not_depend_on_the_length_of_their_group() {
    assert_same_replay_cost(|messages| (messages..messages + 4).chain(0..messages).collect());
}

/// What was sent while they were relocated stands between them, and is relocated with them then.
#[test]
fn replay_of_messages_relocated_twice_does_not_depend_on_the_length_of_their_group() {
    assert_same_replay_cost(|messages| {
        let later = 2 * messages..2 * messages + 4;
        later.chain((0..messages).flat_map(|seq| [seq, messages + seq])).collect()
    });
}

/// Blocked groups, in-flight messages and delayed ones are not looked at.
#[test]
fn receive_does_not_depend_on_what_is_hidden() {
    for kind in [Kind::Standard, Kind::Fifo] {
        let mut backlog = Backlog::new(kind, 50_000);
        backlog.grow_to(100_000);
        let all = Receive {
            max: 50_000,
            visibility_timeout_s: Some(43_200),
            attempt: None,
            in_flight_limit: 120_000,
        };
        let mut records = Records::default();
        backlog.queue.receive(NOW, &all, DeadLetters::Deliver, &mut records).unwrap();
        backlog.groups = (0..100).map(|group| format!("other-{group}")).collect();
        let ready = backlog.queue.counts().ready as usize;
        backlog.grow_to(ready + SHORT);
        let mut alone = Backlog::new(kind, 50_000);
        alone.grow_to(SHORT);

        assert_close(&mut alone, &mut backlog, &format!("of {kind:?} beside 50,000 hidden"));
    }
}
