//! A changed delay of a FIFO queue, which also applies to messages that are there and were never
//! received (API reference, SetQueueAttributes: DelaySeconds).
//!
//! There may be millions, so they get it piece by piece: the first with the change, others with each
//! [`Queue::tick`]. A replay, for which nobody waits, gives it to all at once; what clients did
//! meanwhile comes out the same, as its records count whatever state a message is in.

use millrace_core::Timestamp;

use super::Queue;
use super::slab::{Entry, MessageState};
use crate::definition::{Kind, Settings};

/// Slots that are looked at with the change itself, so that small queues have it at once.
const AT_ONCE: usize = 1_000;

/// Messages in this slot and those behind it may still have the delay of before.
#[derive(Clone, Copy, Debug)]
pub(super) struct DelayChange {
    next: u32,
}

impl Queue {
    /// Changes the settings, which a definition records.
    pub(crate) fn set_settings(&mut self, settings: Settings, now: Timestamp) {
        let delay_changed = settings.delay_s != self.settings.delay_s;
        self.settings = settings;
        if delay_changed && self.settings.kind == Kind::Fifo {
            // One under way begins anew: it went by the delay of before.
            self.delay_change = Some(DelayChange { next: 0 });
            self.go_on_with_delay(now, AT_ONCE);
        }
    }

    /// Gives some more messages the changed delay, if it was changed.
    pub(super) fn go_on_with_delay(&mut self, now: Timestamp, budget: usize) {
        let Some(DelayChange { next }) = self.delay_change else { return };
        let budget = u32::try_from(budget).unwrap_or(u32::MAX);
        let end = next.saturating_add(budget).min(self.slab.len());
        for slot in next..end {
            self.apply_delay(slot, now);
        }
        self.delay_change = (end < self.slab.len()).then_some(DelayChange { next: end });
    }

    /// `Defined`, the first that is left: the delay was last changed by it or by one before it that
    /// no record tells of any more.
    pub(crate) fn replay_first_settings(&mut self, settings: Settings, modified: Timestamp) {
        self.settings = settings;
        self.apply_delay_to_all(modified);
    }

    /// `Defined`, a later one.
    pub(crate) fn replay_settings(&mut self, settings: Settings, modified: Timestamp) {
        let delay_changed = settings.delay_s != self.settings.delay_s;
        self.settings = settings;
        if delay_changed {
            self.apply_delay_to_all(modified);
        }
    }

    /// Gives all messages the queue's delay.
    fn apply_delay_to_all(&mut self, now: Timestamp) {
        if self.settings.kind == Kind::Fifo {
            (0..self.slab.len()).for_each(|slot| self.apply_delay(slot, now));
        }
        self.delay_change = None;
    }

    /// Sees to it that the message has the queue's delay, if one is being changed.
    pub(super) fn apply_changed_delay(&mut self, slot: u32, now: Timestamp) {
        if self.delay_change.is_some() {
            self.apply_delay(slot, now);
        }
    }

    /// Gives a message that was never received, from whatever queue, the queue's delay.
    fn apply_delay(&mut self, slot: u32, now: Timestamp) {
        if !self.slab.is_used(slot) {
            return;
        }
        let entry = self.slab.at(slot);
        let is_untouched = !entry.has(Entry::RECEIVED | Entry::DEAD_LETTERED)
            && matches!(entry.state(), MessageState::Ready | MessageState::Delayed);
        if !is_untouched {
            return;
        }
        let delay_ms = u64::from(self.settings.delay_s) * 1000;
        match entry.sent.saturating_add(delay_ms) {
            deadline if deadline > now.0 => self.change(slot, MessageState::Delayed, deadline),
            _ if entry.state() == MessageState::Delayed => {
                self.change(slot, MessageState::Ready, 0);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::QueueId;

    use super::super::testing::message;
    use super::super::{DeadLetters, Receive};
    use super::*;

    const NOW: Timestamp = Timestamp(1_000_000);
    const MESSAGES: u64 = 5_000;

    fn fifo(messages: u64) -> Queue {
        let settings = Settings { kind: Kind::Fifo, ..Settings::default() };
        let mut queue = Queue::new(QueueId(1), "arn", settings, 1);
        for group in 0..messages {
            queue.send_alone(NOW, &message(0, Some(&group.to_string())));
        }
        queue
    }

    fn set_delay(queue: &mut Queue, delay_s: u32) {
        queue.set_settings(Settings { delay_s, ..queue.settings().clone() }, NOW);
    }

    #[test]
    fn a_changed_delay_reaches_a_small_queue_at_once_and_a_large_one_piece_by_piece() {
        let mut small = fifo(100);
        set_delay(&mut small, 60);
        assert_eq!((small.counts().delayed, small.delay_change.is_some()), (100, false));

        let mut queue = fifo(MESSAGES);
        set_delay(&mut queue, 60);
        assert_eq!(queue.counts().delayed, AT_ONCE as u64);
        assert_eq!(queue.next_deadline(), Timestamp(0), "it wants a tick");
        queue.tick(NOW, 10);
        assert_eq!(queue.counts().delayed, AT_ONCE as u64 + 10, "no more than asked for");
        queue.tick(NOW, MESSAGES as usize);
        assert_eq!(queue.counts().delayed, MESSAGES);
        assert_eq!(queue.next_deadline(), NOW.plus_seconds(60));
        queue.assert_consistent();
    }

    #[test]
    fn a_delay_changed_again_meanwhile_is_that_of_all() {
        let mut queue = fifo(MESSAGES);
        set_delay(&mut queue, 900);
        queue.tick(NOW, 2_000);
        set_delay(&mut queue, 60);

        while queue.next_deadline() <= NOW {
            queue.tick(NOW, 100);
        }

        queue.tick(NOW.plus_seconds(60), MESSAGES as usize);
        assert_eq!(queue.counts().ready, MESSAGES);
        queue.assert_consistent();
    }

    #[test]
    fn what_is_received_and_sent_before_its_turn_comes_stays_as_it_is() {
        let mut queue = fifo(MESSAGES);
        set_delay(&mut queue, 60);
        let receive =
            Receive { max: 10, visibility_timeout_s: None, attempt: None, in_flight_limit: 100 };
        queue.receive_alone(NOW, &receive, DeadLetters::Deliver).unwrap();
        let later = NOW.plus_seconds(60);
        queue.send_alone(later, &message(0, Some("late")));

        queue.tick(NOW, 2 * MESSAGES as usize);

        assert_eq!((queue.counts().in_flight, queue.counts().delayed), (10, MESSAGES - 9));
        queue.tick(later, 2 * MESSAGES as usize);
        assert_eq!(queue.counts().delayed, 1, "the one sent later");
    }
}
