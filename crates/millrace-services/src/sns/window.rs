//! What a FIFO topic has accepted: deduplication ids of the last five minutes, and the next
//! sequence number.
//!
//! Each id is a kept document, appended with the messages that it lets through. One that is over is
//! deleted with one that comes later.

use std::collections::{HashMap, VecDeque};

use millrace_broker::{Collection, KeptChange, KeptError, Ticket};
use millrace_core::{Timestamp, limits, sha256_hex};
use serde::{Deserialize, Serialize};

/// SNS: sequence numbers have 20 digits; this is added to our own.
const SEQUENCE_BASE: u128 = 10_000_000_000_000_000_000;
/// Ids that are forgotten with each that is added, so that they become fewer.
const FORGOTTEN_AT_ONCE: usize = 2;

/// An accepted message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AcceptedId {
    pub topic: String,
    /// The digest of the deduplication id, and of the group if ids are the group's.
    pub digest: String,
    pub message_id: String,
    pub sequence: u64,
    pub at_ms: u64,
}

pub(super) const ACCEPTED: Collection<AcceptedId> =
    Collection::new("sns-accepted", |it| accepted_key(&it.topic, &it.digest));

fn accepted_key(topic: &str, digest: &str) -> String {
    format!("{topic}/{digest}")
}

/// Of one topic.
#[derive(Default)]
pub(super) struct Window {
    by_digest: HashMap<String, AcceptedId>,
    /// By age.
    order: VecDeque<(u64, String)>,
    next_sequence: u64,
    /// Of the latest append: a repeat may be answered once it is committed.
    pub latest: Option<Ticket>,
}

impl Window {
    /// The window of a topic, with what was kept of it.
    pub(super) fn new(first_sequence: u64, mut known: Vec<AcceptedId>) -> Window {
        known.sort_by_key(|it| it.sequence);
        let mut window = Window { next_sequence: first_sequence, ..Window::default() };
        known.into_iter().for_each(|it| window.add(it));
        window
    }

    /// The message that was accepted with that id, if the window has it.
    pub(super) fn find(&self, digest: &str, now: Timestamp) -> Option<&AcceptedId> {
        self.by_digest.get(digest).filter(|it| !is_over(it.at_ms, now))
    }

    /// The sequence number that comes after so many new ones.
    pub(super) fn next_sequence(&self, new: usize) -> u64 {
        self.next_sequence + new as u64
    }

    /// The changes of documents that new ids make. The ids that are over go with them.
    pub(super) fn changes(
        &self,
        new: &[AcceptedId],
        now: Timestamp,
    ) -> Result<Vec<KeptChange<'static>>, KeptError> {
        let over = self.order.iter().take(new.len() * FORGOTTEN_AT_ONCE);
        let over = over.take_while(|(at_ms, _)| is_over(*at_ms, now));
        // One that comes again is put below.
        let is_again = |digest: &str| new.iter().any(|it| it.digest == digest);
        let deleted = over.filter(|(_, digest)| !is_again(digest)).filter_map(|(at_ms, digest)| {
            let known = self.by_digest.get(digest).filter(|it| it.at_ms == *at_ms)?;
            Some(Ok(ACCEPTED.delete(accepted_key(&known.topic, digest))))
        });
        deleted.chain(new.iter().map(|it| ACCEPTED.put(it))).collect()
    }

    /// Notes new ids, whose changes were appended.
    pub(super) fn appended(&mut self, new: Vec<AcceptedId>, now: Timestamp) {
        for _ in 0..new.len() * FORGOTTEN_AT_ONCE {
            let Some((at_ms, _)) = self.order.front() else { break };
            if !is_over(*at_ms, now) {
                break;
            }
            if let Some((at_ms, digest)) = self.order.pop_front()
                && self.by_digest.get(&digest).is_some_and(|it| it.at_ms == at_ms)
            {
                self.by_digest.remove(&digest);
            }
        }
        new.into_iter().for_each(|it| self.add(it));
    }

    /// The keys of all documents.
    pub(super) fn keys(&self) -> Vec<String> {
        self.by_digest.values().map(|it| accepted_key(&it.topic, &it.digest)).collect()
    }

    fn add(&mut self, accepted: AcceptedId) {
        self.next_sequence = self.next_sequence.max(accepted.sequence + 1);
        self.order.push_back((accepted.at_ms, accepted.digest.clone()));
        self.by_digest.insert(accepted.digest.clone(), accepted);
    }
}

/// The digest of a deduplication id, and of its group where ids are the group's.
pub(super) fn digest(group: Option<&str>, deduplication_id: &str) -> String {
    match group {
        // No id has a line break.
        Some(group) => sha256_hex(format!("{group}\n{deduplication_id}").as_bytes()),
        None => sha256_hex(deduplication_id.as_bytes()),
    }
}

/// A sequence number as clients see it.
pub(super) fn sequence_text(sequence: u64) -> String {
    (SEQUENCE_BASE + u128::from(sequence)).to_string()
}

fn is_over(at_ms: u64, now: Timestamp) -> bool {
    now >= Timestamp(at_ms).plus_seconds(limits::DEDUPLICATION_WINDOW_S)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(digest: &str, sequence: u64, at_s: u64) -> AcceptedId {
        let (topic, message_id) = ("t".into(), format!("id-{sequence}"));
        AcceptedId { topic, digest: digest.into(), message_id, sequence, at_ms: at_s * 1000 }
    }

    fn keys(changes: &[KeptChange<'_>]) -> Vec<(String, bool)> {
        changes.iter().map(|it| (it.key.to_string(), it.to.is_some())).collect()
    }

    #[test]
    fn an_id_is_known_for_five_minutes_and_forgotten_with_later_ones() {
        let mut window = Window::new(7, vec![accepted("b", 9, 1), accepted("a", 8, 0)]);
        assert_eq!(window.next_sequence(0), 10);
        assert!(window.find("a", Timestamp(299_999)).is_some());
        assert!(window.find("a", Timestamp(300_000)).is_none(), "over");

        let (new, now) = (vec![accepted("c", 10, 300)], Timestamp(300_000));
        let changes = window.changes(&new, now).unwrap();
        assert_eq!(keys(&changes), [("t/a".to_owned(), false), ("t/c".to_owned(), true)]);
        window.appended(new, now);
        assert_eq!(window.keys().len(), 2);

        // It comes again after its time: its document is put, not deleted.
        let (again, now) = (vec![accepted("b", 11, 301)], Timestamp(301_000));
        let changes = window.changes(&again, now).unwrap();
        assert_eq!(keys(&changes), [("t/b".to_owned(), true)]);
        window.appended(again, now);
        assert_eq!(window.find("b", now).unwrap().sequence, 11);
        assert_eq!(window.next_sequence(0), 12);
    }

    #[test]
    fn sequence_numbers_have_twenty_digits() {
        assert_eq!(sequence_text(1), "10000000000000000001");
        assert_eq!(sequence_text(u64::MAX >> 8).len(), 20);
    }
}
