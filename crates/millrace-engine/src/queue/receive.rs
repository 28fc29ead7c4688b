//! Receiving.

use std::sync::Arc;

use millrace_core::{QueueId, Timestamp};
use thiserror::Error;

use super::slab::{Entry, MessageState, NONE};
use super::{DeadLetters, MovedRecord, Queue, VisibilityRecord};
use crate::definition::Kind;
use crate::record::{DecodeError, Input, MovedSlot, Records, SlotSeq, Slots};
use crate::replay::Replay;

pub(crate) const RECEIVED: u8 = 2;

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

/// Why nothing was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ReceiveError {
    #[error("too many messages in flight")]
    OverLimit,
    #[error("the dead-letter queue is needed")]
    NeedsDeadLetterQueue,
}

/// The outcome of a receive.
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

impl Queue {
    /// Receives up to `receive.max` messages. Call [`Queue::tick`] and [`Queue::expire`] first.
    pub fn receive(
        &mut self,
        now: Timestamp,
        receive: &Receive,
        mut dead_letters: DeadLetters<'_>,
        records: &mut Records<'_>,
    ) -> Result<Received, ReceiveError> {
        let timeout_s = receive.visibility_timeout_s.unwrap_or(self.settings.visibility_timeout_s);
        let deadline = now.plus_seconds(u64::from(timeout_s));
        let mut done = Received { deadline, ..Received::default() };
        if let Some(key) = receive.attempt
            && self.repeat_attempt(key, now, receive.max, &mut done)
        {
            let slots = done.deliveries.iter().map(|delivery| delivery.at);
            VisibilityRecord { queue: self.id, at: now, deadline, slots }.write(records);
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
        if let DeadLetters::Move(target) = dead_letters
            && !done.moved.is_empty()
        {
            let (source, slots) = (&*self.arn, &done.moved[..]);
            MovedRecord { from: self.id, to: target.id, at: now, source, slots }.write(records);
        }
        if !done.deliveries.is_empty() {
            let slots = done.deliveries.iter().map(|delivery| delivery.at);
            ReceivedRecord { queue: self.id, at: now, deadline, slots }.write(records);
        }
        Ok(done)
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

/// Fields of `Received`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedRecord<S> {
    pub queue: QueueId,
    pub at: Timestamp,
    /// Not later than `at` if the messages stay visible.
    pub deadline: Timestamp,
    pub slots: S,
}

impl<S: ExactSizeIterator<Item = SlotSeq>> ReceivedRecord<S> {
    pub(crate) fn write(self, records: &mut Records<'_>) {
        records.add(RECEIVED, 24 + 4 + 12 * self.slots.len(), &[], |out| {
            out.queue(self.queue);
            out.time(self.at);
            out.time(self.deadline);
            out.slots(self.slots);
        });
    }
}

impl<'a> ReceivedRecord<Slots<'a>> {
    pub(crate) fn read(from: &mut Input<'a>) -> Result<Self, DecodeError> {
        let (queue, at, deadline) = (from.queue()?, from.time()?, from.time()?);
        Ok(ReceivedRecord { queue, at, deadline, slots: from.slots()? })
    }

    pub(crate) fn replay(&self, replay: &mut Replay) {
        replay.change(self.queue, self.at, |queue| {
            for message in self.slots.iter() {
                if queue.contains(message) {
                    queue.count_receive(message.slot, self.at);
                    queue.replay_deadline(message.slot, self.at, self.deadline);
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::message;
    use super::*;
    use crate::definition::Settings;
    use crate::receipt::Handle;

    const NOW: Timestamp = Timestamp(1_000);

    /// Long polls are woken for what is ready, not for what a tick would make so.
    #[test]
    fn message_that_is_shown_is_ready_at_once() {
        let mut queue = Queue::new(QueueId(1), "arn", Settings::default(), 1);
        queue.send_alone(NOW, &message(0, None));
        let one =
            Receive { max: 1, visibility_timeout_s: None, attempt: None, in_flight_limit: 10 };
        let received = queue.receive_alone(NOW, &one, DeadLetters::Deliver).unwrap();
        assert_eq!(queue.receivable(9), 0);

        let Delivery { at, receive_count, .. } = received.deliveries[0];
        let handle = Handle { queue: QueueId(1), seq: at.seq, slot: at.slot, receive_count };
        queue.change_visibility(NOW, &handle, 0, &mut Records::default()).unwrap();

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
                queue.send_alone(NOW, &message(number, group));
            }

            assert_eq!((queue.receivable(u64::MAX), queue.receivable(1)), (receives, 1));
        }
    }
}
