//! What is to be told to the server about finished messages, gathered into batches, and told again
//! where an entry failed.
//!
//! A batch goes out when it is full, when something in it is urgent, or when its oldest entry has
//! waited for the linger time. Failed entries come back alone, after a growing pause.
//!
//! Calls under way are bounded, those of each outbox apart: a server that is slow to delete must
//! leave connections for the extensions of leases.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use tokio::time::Instant;

use crate::{backoff, held::Key};

/// What the server is to be told about a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Settlement {
    /// Handled.
    Delete,
    /// To be received again after this time; zero gives it back at once.
    Hide(Duration),
    /// To be copied into the dead-letter queue for this reason, then deleted.
    DeadLetter(String),
    /// The same without the attributes that tell its story, which that queue did not take.
    BareDeadLetter,
}

/// Whether an entry may wait for others to share its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// Up to the linger time.
    Linger,
    /// Somebody waits for it: its lane, another worker, or the end of this one.
    Urgent,
}

/// Entries of one kind on their way to the server.
#[derive(Debug)]
pub(crate) struct Outbox {
    linger: Duration,
    ready: VecDeque<Entry>,
    /// Entries that failed, by the time of their next attempt.
    failed: BTreeMap<(Instant, Key), Entry>,
    urgent: usize,
    /// Calls under way.
    open: usize,
}

/// One message to be told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: Key,
    /// When it was finished.
    pub(crate) since: Instant,
    /// Attempts that failed.
    pub(crate) failures: u32,
    urgency: Urgency,
}

/// Calls of one outbox under way at a time; what is more waits, and shares its calls. A worker has
/// three outboxes, and a lane of the transport 64 connections: a quarter of them is left.
const CALLS_OPEN: usize = 16;

/// Pauses between attempts grow from this …
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// … to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

impl Outbox {
    /// Entries wait for `linger` at most unless they are urgent.
    pub(crate) fn new(linger: Duration) -> Outbox {
        Outbox { linger, ready: VecDeque::new(), failed: BTreeMap::new(), urgent: 0, open: 0 }
    }

    pub(crate) fn push(&mut self, key: Key, urgency: Urgency, now: Instant) {
        self.make_ready(Entry { key, since: now, failures: 0, urgency });
    }

    /// A call with entries that were taken is sent.
    pub(crate) fn call_sent(&mut self) {
        self.open += 1;
    }

    /// A call is answered, or given up.
    pub(crate) fn call_ended(&mut self) {
        self.open = self.open.saturating_sub(1);
    }

    /// An attempt failed: tries again after a pause.
    pub(crate) fn retry(&mut self, entry: Entry, now: Instant) {
        let failures = entry.failures.saturating_add(1);
        let entry = Entry { failures, urgency: Urgency::Urgent, ..entry };
        let next = now + backoff::call_delay(FIRST_PAUSE, failures, LONGEST_PAUSE);
        self.failed.insert((next, entry.key), entry);
    }

    /// The next batch of at most `most` entries that `may_send` allows; empty if none is due, or if
    /// so many calls are under way that it has to wait for the end of one. Entries that may not be sent yet stay. With `Urgent` nothing lingers.
    pub(crate) fn take(
        &mut self,
        most: usize,
        urgency: Urgency,
        now: Instant,
        may_send: impl Fn(Key) -> bool,
    ) -> Vec<Entry> {
        if self.open >= CALLS_OPEN {
            return Vec::new();
        }
        while let Some(first) = self.failed.first_entry() {
            if first.key().0 > now {
                break;
            }
            let entry = first.remove();
            self.make_ready(entry);
        }
        let lingered = |entry: &Entry| now >= entry.since + self.linger;
        let is_due = urgency == Urgency::Urgent
            || self.urgent > 0
            || self.ready.len() >= most
            || self.ready.front().is_some_and(lingered);
        if !is_due {
            return Vec::new();
        }
        let mut taken = Vec::new();
        let mut kept = VecDeque::new();
        while taken.len() < most {
            match self.ready.pop_front() {
                Some(entry) if may_send(entry.key) => taken.push(entry),
                Some(entry) => kept.push_back(entry),
                None => break,
            }
        }
        kept.append(&mut self.ready);
        self.ready = kept;
        self.urgent -= taken.iter().filter(|entry| entry.urgency == Urgency::Urgent).count();
        taken
    }

    /// When, after `now`, [`Outbox::take`] may have more to give by itself. What `may_send` holds
    /// back waits for whatever lets it go.
    pub(crate) fn next_due(&self, now: Instant) -> Option<Instant> {
        let lingering = self.ready.front().map(|entry| entry.since + self.linger);
        let failed = self.failed.first_key_value().map(|((next, _), _)| *next);
        lingering.into_iter().chain(failed).filter(|due| *due > now).min()
    }

    fn make_ready(&mut self, entry: Entry) {
        self.urgent += usize::from(entry.urgency == Urgency::Urgent);
        self.ready.push_back(entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: [u64; 0] = [];
    const LINGER: Duration = Duration::from_millis(100);

    fn take(outbox: &mut Outbox, now: Instant) -> Vec<u64> {
        let taken = outbox.take(10, Urgency::Linger, now, |_| true);
        taken.iter().map(|entry| entry.key.0).collect()
    }

    #[test]
    fn full_batch_goes_at_once_and_the_rest_lingers() {
        let now = Instant::now();
        let mut outbox = Outbox::new(LINGER);
        for key in 0..9 {
            outbox.push(Key(key), Urgency::Linger, now);
        }
        assert_eq!(take(&mut outbox, now), NOTHING);

        outbox.push(Key(9), Urgency::Linger, now);
        outbox.push(Key(10), Urgency::Linger, now);

        assert_eq!(take(&mut outbox, now), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(take(&mut outbox, now), NOTHING);
        assert_eq!(outbox.next_due(now), Some(now + LINGER));
        assert_eq!(take(&mut outbox, now + LINGER), [10]);
    }

    #[test]
    fn urgent_entry_takes_the_others_along() {
        let now = Instant::now();
        let mut outbox = Outbox::new(LINGER);
        outbox.push(Key(1), Urgency::Linger, now);
        outbox.push(Key(2), Urgency::Urgent, now);

        assert_eq!(take(&mut outbox, now), [1, 2]);

        outbox.push(Key(3), Urgency::Linger, now);
        assert_eq!(take(&mut outbox, now), NOTHING);
    }

    #[test]
    fn failed_entry_returns_alone_after_a_pause() {
        let now = Instant::now();
        let mut outbox = Outbox::new(LINGER);
        outbox.push(Key(1), Urgency::Urgent, now);
        let entry = outbox.take(10, Urgency::Linger, now, |_| true)[0];

        outbox.retry(entry, now);

        let next = outbox.next_due(now).unwrap();
        assert!(next > now && next <= now + FIRST_PAUSE, "{:?}", next - now);
        assert_eq!(take(&mut outbox, now), NOTHING);
        let again = outbox.take(10, Urgency::Linger, next, |_| true);
        assert_eq!((again.len(), again[0].failures, again[0].since), (1, 1, now));
    }

    #[test]
    fn entry_that_is_held_back_hides_no_later_attempt_of_another() {
        let now = Instant::now();
        let mut outbox = Outbox::new(LINGER);
        outbox.push(Key(1), Urgency::Urgent, now);
        let failed = outbox.take(10, Urgency::Urgent, now, |_| true)[0];
        outbox.push(Key(2), Urgency::Urgent, now - LINGER);
        outbox.retry(failed, now);

        assert_eq!(outbox.take(10, Urgency::Urgent, now, |key| key != Key(2)), []);

        let next = outbox.next_due(now).unwrap();
        assert!(next > now && next <= now + FIRST_PAUSE, "{:?}", next - now);
    }

    #[test]
    fn entries_wait_while_many_calls_are_under_way() {
        let now = Instant::now();
        let mut outbox = Outbox::new(Duration::ZERO);
        for key in 0..100 {
            outbox.push(Key(key), Urgency::Urgent, now);
        }
        for key in 0..CALLS_OPEN as u64 {
            assert_eq!(outbox.take(1, Urgency::Urgent, now, |_| true)[0].key, Key(key));
            outbox.call_sent();
        }
        assert_eq!(outbox.take(1, Urgency::Urgent, now, |_| true), []);

        outbox.call_ended();

        assert_eq!(outbox.take(1, Urgency::Urgent, now, |_| true).len(), 1);
    }

    #[test]
    fn entry_that_may_not_be_sent_keeps_its_place() {
        let now = Instant::now();
        let mut outbox = Outbox::new(Duration::ZERO);
        for key in 1..4 {
            outbox.push(Key(key), Urgency::Linger, now);
        }

        let taken = outbox.take(10, Urgency::Linger, now, |key| key != Key(1));

        assert_eq!(taken.iter().map(|entry| entry.key.0).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(take(&mut outbox, now), [1]);
    }
}
