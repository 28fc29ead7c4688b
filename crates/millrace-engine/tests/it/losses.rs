//! Records that are missing, as after a repair of the journal: queues are whole without them, and go on.

use millrace_engine::{DeduplicationScope, Kind, Receive};
use proptest::prelude::*;

use crate::harness::Broker;
use crate::props::{Command, Pair, command};
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
    broker.journal.records.retain(|_| !lost.next().is_some_and(|lost| *lost));
    broker.restart();
    assert_replay_is_live(&mut broker);
    broker.truncate(broker.journal.tail_segment() / 2);
    drain(&mut broker);
    assert_replay_is_live(&mut broker);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..Default::default() })]

    #[test]
    fn queues_without_some_of_their_records_are_consistent(
        commands in proptest::collection::vec(command(), 1..70),
        lost in proptest::collection::vec(proptest::bool::weighted(0.2), 1..40),
        is_fifo in any::<bool>(),
    ) {
        without_records(if is_fifo { Kind::Fifo } else { Kind::Standard }, &commands, &lost);
    }
}
