//! Receiving, and what the holder of a receipt handle may do.

use std::sync::Arc;

use millrace_core::{Timestamp, limits};
use thiserror::Error;

use super::Queue;
use super::slab::{Entry, MessageState, NONE};
use crate::definition::{Kind, Redrive};
use crate::receipt::Handle;
use crate::record::{MovedSlot, SlotSeq};

/// Dead-letter moves in one receive; the next goes on where it stopped.
const MOVES_PER_RECEIVE: usize = 64;

/// Deliveries that room is made for before it is known how many there are.
const DELIVERIES_AT_ONCE: usize = 10;

/// A receive.
#[derive(Clone, Copy, Debug)]
pub struct Receive {
    /// Messages wanted.
    pub max: usize,
    /// Overrides the queue's visibility timeout.
    pub visibility_timeout_s: Option<u32>,
    /// FIFO: hashed ReceiveRequestAttemptId.
    pub attempt: Option<u128>,
    /// Messages of the queue that may be in flight.
    pub in_flight_limit: u64,
}

/// What to do with messages received too often.
#[derive(Debug)]
pub enum DeadLetters<'a> {
    /// No redrive policy, or its target does not exist: deliver them.
    Deliver,
    /// There is a target, but it is not at hand: stop before them, or fail with
    /// [`ReceiveError::NeedsDeadLetterQueue`] if that is at once.
    Elsewhere,
    /// Move them to this queue.
    Move(&'a mut Queue),
}

/// Why nothing was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ReceiveError {
    #[error("too many messages in flight")]
    OverLimit,
    #[error("the dead-letter queue is needed")]
    NeedsDeadLetterQueue,
}

/// What a receive did; all of it is to be journaled.
#[derive(Debug, Default)]
pub struct Received {
    pub deliveries: Vec<Delivery>,
    /// End of the visibility timeout; not later than the receive if the messages stay visible.
    pub deadline: Timestamp,
    /// The deliveries repeat those of an earlier attempt: only their deadline changed.
    pub is_repeated: bool,
    /// Messages moved to the dead-letter queue.
    pub moved: Vec<MovedSlot>,
}

/// One received message.
#[derive(Clone, Debug)]
pub struct Delivery {
    pub at: SlotSeq,
    /// Where its record is.
    pub position: u64,
    pub record_len: u32,
    /// Including this receive.
    pub receive_count: u32,
    pub sent: Timestamp,
    /// Meaningless before the first receive.
    pub first_received: Timestamp,
    pub group: Option<Arc<str>>,
    /// ARN of the queue that it was dead-lettered from.
    pub source: Option<Arc<str>>,
}

/// The receipt handle of a FIFO message is no longer the one of its current receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the receipt handle has expired")]
pub struct Expired;

/// Why a visibility timeout was not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum VisibilityError {
    /// Deleted or, on a FIFO queue, no longer hidden by the receive of the handle.
    #[error("message does not exist or is not available for visibility timeout change")]
    NotAvailable,
    /// More than 12 hours after the receive.
    #[error("total visibility timeout is beyond the limit")]
    BeyondLimit,
}

impl Queue {
    /// Receives up to `receive.max` messages. Call [`Queue::tick`] and [`Queue::expire`] first.
    pub fn receive(
        &mut self,
        now: Timestamp,
        receive: &Receive,
        mut dead_letters: DeadLetters<'_>,
    ) -> Result<Received, ReceiveError> {
        let timeout_s = receive.visibility_timeout_s.unwrap_or(self.settings.visibility_timeout_s);
        let deadline = now.plus_seconds(u64::from(timeout_s));
        let mut done = Received { deadline, ..Received::default() };
        if let Some(key) = receive.attempt
            && self.repeat_attempt(key, now, receive.max, &mut done)
        {
            return Ok(done);
        }
        let room = receive.in_flight_limit.saturating_sub(self.counts.in_flight);
        if room == 0 {
            return Err(ReceiveError::OverLimit);
        }
        let max = receive.max.min(usize::try_from(room).unwrap_or(usize::MAX));
        if self.groups.first().is_some() {
            done.deliveries.reserve_exact(max.min(DELIVERIES_AT_ONCE));
        }
        while done.deliveries.len() < max && done.moved.len() < MOVES_PER_RECEIVE {
            let Some(group) = self.groups.first() else { break };
            // What is left of the group enters at the end of its ring again.
            self.groups.leave_ring(group);
            let goes_on = self.receive_from(group, now, max, &mut dead_letters, &mut done);
            // A group ends when its last message moves.
            if done.moved.is_empty() || self.groups.has_members(group) {
                self.refresh(group);
            }
            if !goes_on {
                // Behind others it would never find the dead-letter queue at hand.
                self.groups.keep_turn(group);
                break;
            }
        }
        if done.deliveries.is_empty()
            && done.moved.is_empty()
            && self.groups.first().is_some()
            && matches!(dead_letters, DeadLetters::Elsewhere)
        {
            return Err(ReceiveError::NeedsDeadLetterQueue);
        }
        if timeout_s == 0 {
            for delivery in &done.deliveries {
                self.change(delivery.at.slot, MessageState::Ready, 0);
            }
        }
        if let Some(key) = receive.attempt
            && !done.deliveries.is_empty()
        {
            match timeout_s {
                // What is shown again at once is never given to the same attempt again.
                0 => self.attempts.forget(key),
                _ => self.remember_attempt(key, now, &done),
            }
        }
        Ok(done)
    }

    /// Deletes the message that a handle names. `None`: it is gone already, which is fine. Call
    /// [`Queue::tick`] first.
    ///
    /// Standard queues take any handle that the message ever had; FIFO queues only that of its
    /// current receive (developer guide, DeleteMessage).
    pub fn delete(&mut self, handle: &Handle) -> Result<Option<SlotSeq>, Expired> {
        let Some(entry) = self.slab.find(handle.slot, handle.seq) else { return Ok(None) };
        if self.settings.kind == Kind::Fifo && !is_current(entry, handle) {
            return Err(Expired);
        }
        self.remove(handle.slot);
        Ok(Some(SlotSeq { slot: handle.slot, seq: handle.seq }))
    }

    /// Hides the message that a handle names for `timeout_s` from now, 0: shows it. Returns the
    /// new deadline. Call [`Queue::tick`] first.
    ///
    /// Standard queues take any handle that the message ever had, as Amazon's do; FIFO queues only
    /// that of its current receive.
    pub fn change_visibility(
        &mut self,
        now: Timestamp,
        handle: &Handle,
        timeout_s: u32,
    ) -> Result<Timestamp, VisibilityError> {
        let is_fifo = self.settings.kind == Kind::Fifo;
        let entry = self
            .slab
            .find(handle.slot, handle.seq)
            .filter(|entry| !is_fifo || entry.receive_count() == handle.receive_count)
            .ok_or(VisibilityError::NotAvailable)?;
        let can_hide_again =
            self.settings.kind == Kind::Standard && entry.state() == MessageState::Ready;
        if entry.state() != MessageState::InFlight && !can_hide_again {
            return Err(VisibilityError::NotAvailable);
        }
        let deadline = now.plus_seconds(u64::from(timeout_s));
        // When a receive was that a crash has forgotten, nobody knows. The limit of an earlier
        // receive's handle is that of the latest receive, whose message it hides.
        let is_known = entry.receive_count() >= handle.receive_count;
        let received = entry.sent + u64::from(entry.last_received);
        if is_known
            && deadline.millis_since(Timestamp(received))
                > limits::VISIBILITY_TIMEOUT_S.end() * 1000
        {
            return Err(VisibilityError::BeyondLimit);
        }
        match (timeout_s, entry.state()) {
            (0, MessageState::Ready) => {}
            (0, _) => self.change(handle.slot, MessageState::Ready, 0),
            _ => self.change(handle.slot, MessageState::InFlight, deadline.0),
        }
        Ok(deadline)
    }

    /// Takes back deliveries that never reached their client, each with its receive count: ready
    /// again, as if not received. Returns those that were still in flight, to be journaled.
    pub fn give_back(&mut self, deliveries: &[(SlotSeq, u32)]) -> Vec<SlotSeq> {
        let mut returned = Vec::new();
        for &(at, receive_count) in deliveries.iter().rev() {
            let is_ours = self.slab.find(at.slot, at.seq).is_some_and(|entry| {
                entry.receive_count() == receive_count && entry.state() == MessageState::InFlight
            });
            if is_ours {
                self.slab.at_mut(at.slot).set_receive_count(receive_count.saturating_sub(1));
                self.change_to_ready_first(at.slot);
                returned.push(at);
            }
        }
        returned
    }

    /// Receives from one group, whose ring it has left. False: stop receiving.
    fn receive_from(
        &mut self,
        group: u32,
        now: Timestamp,
        max: usize,
        dead_letters: &mut DeadLetters<'_>,
        done: &mut Received,
    ) -> bool {
        // Groups of a standard queue take turns message by message.
        let at_a_time = if self.settings.kind == Kind::Fifo { max } else { 1 };
        let mut slot = self.groups.at(group).head;
        let mut taken = 0;
        while slot != NONE
            && taken < at_a_time
            && done.deliveries.len() < max
            && done.moved.len() < MOVES_PER_RECEIVE
        {
            let entry = self.slab.at(slot);
            let next = entry.next;
            if entry.state() != MessageState::Ready {
                break;
            }
            match dead_letters {
                DeadLetters::Elsewhere if self.is_received_too_often(slot) => return false,
                DeadLetters::Move(target) if self.is_received_too_often(slot) => {
                    // With the last, the group ends.
                    done.moved.push(self.move_to(target, slot, now));
                }
                _ => {
                    done.deliveries.push(self.deliver(slot, now, done.deadline));
                    taken += 1;
                }
            }
            slot = next;
        }
        true
    }

    /// The count is over all queues, but what was moved here is delivered here first: two queues
    /// that are each other's dead-letter queue would else pass a message back and forth unseen.
    fn is_received_too_often(&self, slot: u32) -> bool {
        let entry = self.slab.at(slot);
        let is_too_often = |r: &Redrive| entry.receive_count() >= r.max_receive_count;
        entry.has(Entry::RECEIVED) && self.settings.redrive.as_ref().is_some_and(is_too_often)
    }

    fn deliver(&mut self, slot: u32, now: Timestamp, deadline: Timestamp) -> Delivery {
        self.count_receive(slot, now);
        self.change_outside(slot, MessageState::InFlight, deadline.0);
        self.delivery(slot)
    }

    pub(super) fn count_receive(&mut self, slot: u32, now: Timestamp) {
        let entry = self.slab.at_mut(slot);
        let offset = entry.offset(now.0);
        if entry.receive_count() == 0 {
            entry.first_received = offset;
        }
        entry.last_received = offset;
        entry.set(Entry::RECEIVED);
        entry.set_receive_count(entry.receive_count() + 1);
    }

    pub(super) fn delivery(&self, slot: u32) -> Delivery {
        let entry = self.slab.at(slot);
        let origin = entry.has(Entry::DEAD_LETTERED).then(|| self.origins.get(&slot)).flatten();
        let first = entry.sent + u64::from(entry.first_received);
        Delivery {
            at: SlotSeq { slot, seq: entry.seq },
            position: entry.position,
            record_len: entry.record_len,
            receive_count: entry.receive_count(),
            sent: Timestamp(origin.map_or(entry.sent, |origin| origin.sent)),
            first_received: Timestamp(origin.map_or(first, |origin| origin.first_received)),
            group: self.groups.at(entry.group).name.clone(),
            source: origin.map(|origin| origin.source.clone()),
        }
    }

    /// ReceiveRequestAttemptId: the same messages again, hidden anew, unless one of them was
    /// deleted, has become visible or had its visibility changed. Who asks for fewer than they are
    /// asks for something else: nobody is given more than asked for.
    fn repeat_attempt(
        &mut self,
        key: u128,
        now: Timestamp,
        max: usize,
        done: &mut Received,
    ) -> bool {
        let attempt = self.attempts.get(key, now).filter(|attempt| attempt.messages.len() <= max);
        let Some(attempt) = attempt else { return false };
        let messages = attempt.messages.clone();
        let is_unchanged = messages.iter().all(|&(slot, seq, count, deadline)| {
            self.slab.find(slot, seq).is_some_and(|entry| {
                entry.state() == MessageState::InFlight
                    && entry.receive_count() == count
                    && entry.deadline_at() == deadline
            })
        });
        if !is_unchanged {
            return false;
        }
        for (slot, ..) in messages {
            self.change(slot, MessageState::InFlight, done.deadline.0);
            done.deliveries.push(self.delivery(slot));
        }
        done.is_repeated = true;
        self.remember_attempt(key, now, done);
        true
    }

    fn remember_attempt(&mut self, key: u128, now: Timestamp, done: &Received) {
        let message = |delivery: &Delivery| {
            let deadline = self.slab.at(delivery.at.slot).deadline_at();
            (delivery.at.slot, delivery.at.seq, delivery.receive_count, deadline)
        };
        let messages = done.deliveries.iter().map(message).collect();
        self.attempts.insert(key, now, messages);
    }
}

fn is_current(entry: &Entry, handle: &Handle) -> bool {
    entry.state() == MessageState::InFlight && entry.receive_count() == handle.receive_count
}

#[cfg(test)]
mod tests {
    use millrace_core::{MessageId, QueueId};

    use super::super::Send;
    use super::*;
    use crate::definition::Settings;

    const NOW: Timestamp = Timestamp(1_000);

    /// Long polls are woken for what is ready, not for what a tick would make so.
    #[test]
    fn message_that_is_shown_is_ready_at_once() {
        let mut queue = Queue::new(QueueId(1), "arn", Settings::default(), 1);
        let id = MessageId::from_random(0);
        queue.send(NOW, &Send { id, group: None, dedup: None, delay_s: None });
        let one =
            Receive { max: 1, visibility_timeout_s: None, attempt: None, in_flight_limit: 10 };
        let received = queue.receive(NOW, &one, DeadLetters::Deliver).unwrap();
        assert_eq!(queue.receivable(9), 0);

        let Delivery { at, receive_count, .. } = received.deliveries[0];
        let handle = Handle { queue: QueueId(1), seq: at.seq, slot: at.slot, receive_count };
        assert_eq!(queue.change_visibility(NOW, &handle, 0), Ok(NOW));

        assert_eq!(queue.receivable(9), 1);
    }

    /// All others would be woken in vain, each time that the group is free again.
    #[test]
    fn a_group_of_a_fifo_queue_is_for_one_receive_at_a_time_however_long_it_is() {
        for (kind, receives) in [(Kind::Fifo, 2), (Kind::Standard, 20)] {
            let settings = Settings { kind, ..Settings::default() };
            let mut queue = Queue::new(QueueId(1), "arn", settings, 1);
            for number in 0..20 {
                let group = Some(if number % 2 == 0 { "a" } else { "b" });
                let id = MessageId::from_random(number);
                queue.send(NOW, &Send { id, group, dedup: None, delay_s: None });
            }

            assert_eq!((queue.receivable(u64::MAX), queue.receivable(1)), (receives, 1));
        }
    }
}
