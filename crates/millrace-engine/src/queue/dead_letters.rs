//! Messages that were received too often move to the dead-letter queue.

use std::sync::Arc;

use millrace_core::{QueueId, Timestamp};

use super::slab::{Entry, MessageState};
use super::{Origin, Queue};
use crate::definition::{Kind, Redrive};
use crate::record::{DecodeError, Input, MovedSlot, MovedSlots, Records, SlotSeq};
use crate::replay::Replay;

pub(crate) const MOVED: u8 = 6;

/// What to do with messages received too often.
#[derive(Debug)]
pub enum DeadLetters<'a> {
    /// No redrive policy, or its target does not exist: deliver them.
    Deliver,
    /// There is a target, but it is not at hand: stop before them, or fail with
    /// [`ReceiveError::NeedsDeadLetterQueue`](super::ReceiveError::NeedsDeadLetterQueue) if that is
    /// at once.
    Elsewhere,
    /// Move them to this queue.
    Move(&'a mut Queue),
}

impl Queue {
    /// The count is over all queues, but what was moved here is delivered here first: two queues
    /// that are each other's dead-letter queue would else pass a message back and forth unseen.
    pub(super) fn is_received_too_often(&self, slot: u32) -> bool {
        let entry = self.slab.at(slot);
        let is_too_often = |r: &Redrive| entry.receive_count() >= r.max_receive_count;
        entry.has(Entry::RECEIVED) && self.settings.redrive.as_ref().is_some_and(is_too_often)
    }

    /// Moves a message to the dead-letter queue: id, content, receive count and times stay. On
    /// standard queues retention goes on from the send, on FIFO queues it begins anew (developer
    /// guide, "Using dead-letter queues"). The caller records it.
    pub(super) fn move_to(&mut self, target: &mut Queue, slot: u32, now: Timestamp) -> MovedSlot {
        let from = SlotSeq { slot, seq: self.slab.at(slot).seq };
        let to = SlotSeq { slot: target.slab.take(), seq: target.next_seq };
        target.next_seq += 1;
        self.move_into(target, from, to, now);
        MovedSlot { from, to }
    }

    /// As [`Queue::move_to`], to a slot that is taken already.
    fn move_into(&mut self, target: &mut Queue, from: SlotSeq, to: SlotSeq, now: Timestamp) {
        let delivery = self.delivery(from.slot);
        let entry = self.slab.at(from.slot);
        let sent = if target.settings.kind == Kind::Fifo { now.0 } else { entry.sent };
        let source = self.arn.clone();
        self.remove(from.slot);
        target.insert(to, sent, delivery.group.as_deref(), MessageState::Ready, 0);
        let entry = target.slab.at_mut(to.slot);
        entry.position = delivery.position;
        entry.record_len = delivery.record_len;
        entry.set_receive_count(delivery.receive_count);
        target.live.add(delivery.position, delivery.record_len);
        target.set_origin(to.slot, source, delivery.sent.0, delivery.first_received.0);
    }

    pub(super) fn set_origin(
        &mut self,
        slot: u32,
        source: Arc<str>,
        sent: u64,
        first_received: u64,
    ) {
        self.slab.at_mut(slot).set(Entry::DEAD_LETTERED);
        self.origins.insert(slot, Origin { source, sent, first_received });
    }

    /// `Moved`, to this queue: what held those slots is gone, whether or not the messages are left
    /// that took them.
    pub(super) fn replay_taken(&mut self, slots: MovedSlots<'_>) {
        for moved in slots.iter() {
            self.vacate(moved.to.slot);
            self.next_seq = self.next_seq.max(moved.to.seq.saturating_add(1));
        }
    }

    /// `Moved`, from this queue to one where the slots [are free](Queue::replay_taken).
    pub(super) fn replay_moved(
        &mut self,
        target: &mut Queue,
        moved: &MovedRecord<'_, MovedSlots<'_>>,
    ) {
        self.arn = Arc::from(moved.source);
        for slots in moved.slots.iter() {
            if self.contains(slots.from) {
                target.slab.take_at(slots.to.slot);
                self.move_into(target, slots.from, slots.to, moved.at);
            }
        }
    }
}

/// Fields of `Moved`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedRecord<'a, S> {
    pub from: QueueId,
    pub to: QueueId,
    pub at: Timestamp,
    /// Key of the queue that they came from.
    pub source: &'a str,
    pub slots: S,
}

impl MovedRecord<'_, &[MovedSlot]> {
    pub(crate) fn write(&self, records: &mut Records<'_>) {
        let field_bytes = 24 + 2 + self.source.len() + 4 + 24 * self.slots.len();
        records.add(MOVED, field_bytes, &[], |out| {
            out.queue(self.from);
            out.queue(self.to);
            out.time(self.at);
            out.text(self.source);
            out.moved_slots(self.slots);
        });
    }
}

impl<'a> MovedRecord<'a, MovedSlots<'a>> {
    pub(crate) fn read(input: &mut Input<'a>) -> Result<Self, DecodeError> {
        let (from, to, at) = (input.queue()?, input.queue()?, input.time()?);
        Ok(MovedRecord { from, to, at, source: input.text()?, slots: input.moved_slots()? })
    }

    pub(crate) fn replay(&self, replay: &mut Replay) {
        replay.note_time(self.at);
        replay.change_both(self.from, self.to, |from, mut to| {
            if let Some(to) = &mut to {
                to.replay_taken(self.slots);
            }
            if let (Some(from), Some(to)) = (from, to) {
                from.replay_moved(to, self);
            }
        });
    }
}
