//! Deliveries that never reached their client.

use millrace_core::{QueueId, Timestamp};

use super::Queue;
use super::slab::MessageState;
use crate::record::{DecodeError, Input, Records, SlotSeq, Slots};
use crate::replay::Replay;

pub(crate) const RETURNED: u8 = 5;

impl Queue {
    /// Takes back deliveries that never reached their client, each with its receive count: ready
    /// again, as if not received. Returns those that were still in flight.
    pub fn give_back(
        &mut self,
        now: Timestamp,
        deliveries: &[(SlotSeq, u32)],
        records: &mut Records<'_>,
    ) -> Vec<SlotSeq> {
        let mut returned = Vec::new();
        for &(at, receive_count) in deliveries.iter().rev() {
            let is_ours = self.slab.find(at.slot, at.seq).is_some_and(|entry| {
                entry.receive_count() == receive_count && entry.state() == MessageState::InFlight
            });
            if is_ours {
                self.uncount_receive(at);
                returned.push(at);
            }
        }
        if !returned.is_empty() {
            ReturnedRecord { queue: self.id, at: now, slots: &returned[..] }.write(records);
        }
        returned
    }

    fn uncount_receive(&mut self, at: SlotSeq) {
        let entry = self.slab.at_mut(at.slot);
        entry.set_receive_count(entry.receive_count().saturating_sub(1));
        self.change_to_ready_first(at.slot);
    }
}

/// Fields of `Returned`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReturnedRecord<S> {
    pub queue: QueueId,
    pub at: Timestamp,
    pub slots: S,
}

impl ReturnedRecord<&[SlotSeq]> {
    pub(crate) fn write(&self, records: &mut Records<'_>) {
        records.add(RETURNED, 16 + 4 + 12 * self.slots.len(), &[], |out| {
            out.queue(self.queue);
            out.time(self.at);
            out.slots(self.slots.iter().copied());
        });
    }
}

impl<'a> ReturnedRecord<Slots<'a>> {
    pub(crate) fn read(from: &mut Input<'a>) -> Result<Self, DecodeError> {
        Ok(ReturnedRecord { queue: from.queue()?, at: from.time()?, slots: from.slots()? })
    }

    pub(crate) fn replay(&self, replay: &mut Replay) {
        replay.change(self.queue, self.at, |queue| {
            for message in self.slots.iter() {
                if queue.contains(message) {
                    queue.uncount_receive(message);
                }
            }
        });
    }
}
