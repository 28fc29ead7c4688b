//! A group whose first message is a dead letter keeps its turn until that can be moved.

use millrace_engine::{Kind, Receive, Redrive, Settings};

use crate::harness::{Broker, NewMessage};

const BATCH: usize = 2;
const HIDDEN: Receive =
    Receive { max: BATCH, visibility_timeout_s: None, attempt: None, in_flight_limit: u64::MAX };

fn message(group: &str) -> NewMessage<'_> {
    NewMessage { group: Some(group), ..NewMessage::default() }
}

/// Sends a batch to other groups for each that is received and deleted, until the message "behind" a
/// dead letter of group "a" comes; returns what was received before that, and what was moved.
fn received_before_what_is_behind_a_dead_letter(kind: Kind) -> (Vec<String>, Vec<String>) {
    let settings = Settings { kind, ..Settings::default() };
    let mut broker = Broker::new();
    broker.create("dead", settings.clone());
    let redrive = Redrive {
        region: "us-east-1".to_owned(),
        account: "000000000000".to_owned(),
        name: "dead".to_owned(),
        max_receive_count: 1,
    };
    let queue = broker.create("jobs", Settings { redrive: Some(redrive), ..settings });
    broker.send(queue, "poison", message("a"));
    broker.receive(queue, &Receive { visibility_timeout_s: Some(0), ..HIDDEN }).unwrap();
    broker.send(queue, "behind", message("a"));

    let (mut received, mut moved) = (Vec::new(), Vec::new());
    for number in 0..20 {
        for group in ["b", "c"] {
            broker.send(queue, &format!("{group}{number}"), message(group));
        }
        let outcome = broker.receive_reluctantly(queue, &HIDDEN).unwrap();
        moved.extend(outcome.moved);
        for receipt in outcome.receipts {
            if receipt.name == "behind" {
                return (received, moved);
            }
            broker.delete(&receipt.handle).unwrap();
            received.push(receipt.name);
        }
    }
    panic!("{moved:?} moved, then {received:?}");
}

#[test]
fn dead_letter_does_not_keep_its_group_waiting_for_ever() {
    for kind in [Kind::Standard, Kind::Fifo] {
        let (received, moved) = received_before_what_is_behind_a_dead_letter(kind);

        assert_eq!(moved, ["poison"], "{kind:?}");
        assert!(received.len() <= BATCH, "{kind:?}: {received:?}");
    }
}
