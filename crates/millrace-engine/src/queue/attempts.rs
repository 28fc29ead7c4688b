//! The receives that a FIFO queue remembers for five minutes, by their attempt ids.

use std::collections::{BTreeMap, BTreeSet};

use millrace_core::{Timestamp, limits};

/// Slot, sequence, receive count and visibility deadline of a message given to an attempt.
pub(super) type Given = (u32, u64, u32, u64);

/// One receive that a client may ask for again (ReceiveRequestAttemptId).
#[derive(Debug)]
pub(super) struct Attempt {
    pub expires: u64,
    /// What it was given.
    pub messages: Vec<Given>,
}

/// Receives by hashed attempt id. Not journaled: after a restart a repeated attempt is a new
/// receive, and finds its group locked. In trees, since they grow and shrink by nodes: a table is copied
/// whole, with the queue locked, and keeps the memory that it once had.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    receives: BTreeMap<u128, Attempt>,
    /// By their ends.
    order: BTreeSet<(u64, u128)>,
}

impl Attempts {
    pub(super) fn get(&self, key: u128, now: Timestamp) -> Option<&Attempt> {
        self.receives.get(&key).filter(|attempt| attempt.expires > now.0)
    }

    /// Forgets what is over, `budget` at most.
    pub(super) fn expire(&mut self, now: Timestamp, budget: usize) {
        for _ in 0..budget {
            let Some((expires, old)) = self.order.first().copied() else { return };
            if expires > now.0 {
                return;
            }
            self.order.pop_first();
            if self.receives.get(&old).is_some_and(|attempt| attempt.expires <= now.0) {
                self.receives.remove(&old);
            }
        }
    }

    /// When [`Attempts::expire`] next has something to do.
    pub(super) fn next_end(&self) -> Option<u64> {
        self.order.first().map(|(expires, _)| *expires)
    }

    /// Its end stays noted until it comes.
    pub(super) fn forget(&mut self, key: u128) {
        self.receives.remove(&key);
    }

    pub(super) fn insert(&mut self, key: u128, now: Timestamp, messages: Vec<Given>) {
        let expires = now.plus_seconds(limits::DEDUPLICATION_WINDOW_S).0;
        self.order.insert((expires, key));
        self.receives.insert(key, Attempt { expires, messages });
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::QueueId;

    use super::super::Queue;
    use super::*;
    use crate::definition::{Kind, Settings};

    #[test]
    fn attempts_are_over_in_time_and_forgotten_piece_by_piece() {
        let mut attempts = Attempts::default();
        for key in 0..10 {
            attempts.insert(key, Timestamp(0), Vec::new());
        }
        let over = Timestamp(0).plus_seconds(limits::DEDUPLICATION_WINDOW_S);
        attempts.insert(0, over, Vec::new());

        assert!(attempts.get(1, Timestamp(over.0 - 1)).is_some());
        assert!(attempts.get(1, over).is_none());
        attempts.expire(over, 4);
        assert_eq!((attempts.receives.len(), attempts.order.len()), (7, 7));
        attempts.expire(over, 100);
        assert_eq!((attempts.receives.len(), attempts.order.len()), (1, 1));
        assert!(attempts.get(0, over).is_some(), "asked for again meanwhile");
    }

    #[test]
    fn a_queue_forgets_attempts_with_time() {
        let settings = Settings { kind: Kind::Fifo, ..Settings::default() };
        let mut queue = Queue::new(QueueId(1), "arn", settings, 1);
        queue.attempts.insert(1, Timestamp(0), Vec::new());

        queue.tick(Timestamp(0).plus_seconds(limits::DEDUPLICATION_WINDOW_S), 10);

        assert!(queue.attempts.receives.is_empty());
    }
}
