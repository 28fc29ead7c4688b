//! When a received message is seen again, as the holder of its receipt handle wants it.

use millrace_core::{QueueId, Timestamp, limits};
use thiserror::Error;

use super::Queue;
use super::slab::MessageState;
use crate::definition::Kind;
use crate::receipt::Handle;
use crate::record::{DecodeError, Input, Records, SlotSeq, Slots};
use crate::replay::Replay;

pub(crate) const VISIBILITY_CHANGED: u8 = 4;

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
    /// Hides the message that a handle names for `timeout_s` from now, 0: shows it. Call
    /// [`Queue::tick`] first.
    ///
    /// Standard queues take any handle that the message ever had, as Amazon's do; FIFO queues only
    /// that of its current receive.
    pub fn change_visibility(
        &mut self,
        now: Timestamp,
        handle: &Handle,
        timeout_s: u32,
        records: &mut Records<'_>,
    ) -> Result<(), VisibilityError> {
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
        let slots = std::iter::once(SlotSeq { slot: handle.slot, seq: handle.seq });
        VisibilityRecord { queue: self.id, at: now, deadline, slots }.write(records);
        Ok(())
    }

    /// Hides or shows a message until a deadline, whatever state it is in.
    pub(super) fn replay_deadline(&mut self, slot: u32, at: Timestamp, deadline: Timestamp) {
        if deadline > at {
            self.change(slot, MessageState::InFlight, deadline.0);
        } else {
            self.change(slot, MessageState::Ready, 0);
        }
    }
}

/// Fields of `VisibilityChanged`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VisibilityRecord<S> {
    pub queue: QueueId,
    pub at: Timestamp,
    /// Not later than `at` if the messages are shown.
    pub deadline: Timestamp,
    pub slots: S,
}

impl<S: ExactSizeIterator<Item = SlotSeq>> VisibilityRecord<S> {
    pub(crate) fn write(self, records: &mut Records<'_>) {
        records.add(VISIBILITY_CHANGED, 24 + 4 + 12 * self.slots.len(), &[], |out| {
            out.queue(self.queue);
            out.time(self.at);
            out.time(self.deadline);
            out.slots(self.slots);
        });
    }
}

impl<'a> VisibilityRecord<Slots<'a>> {
    pub(crate) fn read(from: &mut Input<'a>) -> Result<Self, DecodeError> {
        let (queue, at, deadline) = (from.queue()?, from.time()?, from.time()?);
        Ok(VisibilityRecord { queue, at, deadline, slots: from.slots()? })
    }

    pub(crate) fn replay(&self, replay: &mut Replay) {
        replay.change(self.queue, self.at, |queue| {
            for message in self.slots.iter() {
                if queue.contains(message) {
                    queue.replay_deadline(message.slot, self.at, self.deadline);
                }
            }
        });
    }
}
