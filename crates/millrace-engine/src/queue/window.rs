//! What a FIFO queue remembers for five minutes: deduplication ids and receive attempts.

use std::collections::{HashMap, VecDeque};

use millrace_core::{MessageId, Timestamp, limits};

/// A send that a later one with the same deduplication id repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Remembered {
    pub seq: u64,
    pub id: MessageId,
    pub expires: u64,
    /// Of the record that remembers it.
    pub position: u64,
}

/// Deduplication ids (hashed) accepted within the window, oldest first.
#[derive(Debug, Default)]
pub(super) struct DedupWindow {
    sends: HashMap<u128, Remembered>,
    order: VecDeque<(u64, u128)>,
}

impl DedupWindow {
    pub(super) fn get(&self, key: u128, now: Timestamp) -> Option<&Remembered> {
        self.sends.get(&key).filter(|send| send.expires > now.0)
    }

    pub(super) fn insert(&mut self, key: u128, send: Remembered) {
        self.order.push_back((send.expires, key));
        self.sends.insert(key, send);
    }

    /// Notes where the record stands.
    pub(super) fn place(&mut self, key: u128, position: u64) {
        if let Some(send) = self.sends.get_mut(&key) {
            send.position = position;
        }
    }

    /// Forgets up to `budget` of what is older than the window.
    pub(super) fn expire(&mut self, now: Timestamp, mut budget: usize) {
        while let Some((expires, key)) = self.order.front().copied() {
            if expires > now.0 || budget == 0 {
                return;
            }
            budget -= 1;
            self.order.pop_front();
            if self.sends.get(&key).is_some_and(|send| send.expires <= now.0) {
                self.sends.remove(&key);
            }
        }
    }

    /// Restores the order, oldest first and each once: records that remember sends again stand
    /// behind those of later sends.
    pub(super) fn sort(&mut self) {
        let is_current = |(expires, key): &(u64, u128)| {
            self.sends.get(key).is_some_and(|send| send.expires == *expires)
        };
        let mut order: Vec<_> = self.order.iter().copied().filter(is_current).collect();
        order.sort_unstable();
        order.dedup();
        self.order = order.into();
    }

    pub(super) fn clear(&mut self) {
        *self = DedupWindow::default();
    }

    pub(super) fn next_expiry(&self) -> Option<u64> {
        self.order.front().map(|(expires, _)| *expires)
    }

    /// What is remembered by records in `segment` or before, in the order sent.
    pub(super) fn in_segments_to(
        &self,
        segment: u32,
    ) -> impl Iterator<Item = (u128, &Remembered)> + '_ {
        self.order.iter().filter_map(move |(expires, key)| {
            let send = self.sends.get(key)?;
            (send.expires == *expires && (send.position >> 32) as u32 <= segment)
                .then_some((*key, send))
        })
    }

    /// The oldest segment that a remembered send needs. What is relocated is remembered again by
    /// a later record, so this reads all: call it when segments are to be dropped, not per message.
    pub(super) fn oldest_segment(&self) -> Option<u32> {
        self.sends.values().map(|send| (send.position >> 32) as u32).min()
    }
}

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
/// receive, and finds its group locked.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    receives: HashMap<u128, Attempt>,
    order: VecDeque<(u64, u128)>,
}

impl Attempts {
    pub(super) fn get(&self, key: u128, now: Timestamp) -> Option<&Attempt> {
        self.receives.get(&key).filter(|attempt| attempt.expires > now.0)
    }

    /// Forgets what is over, `budget` at most.
    pub(super) fn expire(&mut self, now: Timestamp, budget: usize) {
        for _ in 0..budget {
            let Some((expires, old)) = self.order.front().copied() else { return };
            if expires > now.0 {
                return;
            }
            self.order.pop_front();
            if self.receives.get(&old).is_some_and(|attempt| attempt.expires <= now.0) {
                self.receives.remove(&old);
            }
        }
    }

    pub(super) fn insert(&mut self, key: u128, now: Timestamp, messages: Vec<Given>) {
        let expires = now.plus_seconds(limits::DEDUPLICATION_WINDOW_S).0;
        self.order.push_back((expires, key));
        self.receives.insert(key, Attempt { expires, messages });
    }

    pub(super) fn clear(&mut self) {
        *self = Attempts::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
