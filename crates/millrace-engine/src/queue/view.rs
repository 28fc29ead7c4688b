//! Looking at messages without receiving them.

use std::iter::successors;
use std::ops::Range;

use millrace_core::Timestamp;

use super::slab::{Entry, MessageState, linked};
use super::{Delivery, Queue};
use crate::record::SlotSeq;

/// A message as seen without receiving it.
#[derive(Clone, Debug)]
pub struct MessageView {
    /// As it was last received.
    pub delivery: Delivery,
    pub state: MessageState,
    /// End of delay or visibility timeout.
    pub deadline: Timestamp,
}

impl Queue {
    /// Messages from the oldest to the newest, then those moved here out of order.
    pub fn messages(&self) -> impl Iterator<Item = MessageView> + '_ {
        let out_of_order = self.out_of_order.iter().map(|(_, slot)| *slot);
        self.by_age().chain(out_of_order).map(|slot| self.view(slot))
    }

    /// Slots of the messages from the oldest to the newest, but for those moved here out of order.
    pub(super) fn by_age(&self) -> impl Iterator<Item = u32> + '_ {
        successors(linked(self.oldest), |slot| linked(self.slab.at(*slot).newer))
    }

    /// Behind the highest slot that a message stands in.
    pub fn slots(&self) -> u32 {
        self.slab.len()
    }

    /// Messages in those slots whose records stand in that journal segment, with their positions.
    pub fn in_segment(
        &self,
        segment: u32,
        slots: Range<u32>,
    ) -> impl Iterator<Item = (SlotSeq, u64)> + '_ {
        slots.filter(|slot| self.slab.is_used(*slot)).filter_map(move |slot| {
            let Entry { seq, position, .. } = *self.slab.at(slot);
            (position >> 32 == u64::from(segment)).then_some((SlotSeq { slot, seq }, position))
        })
    }

    /// The message that the next receive would get.
    pub fn first_ready(&self) -> Option<Delivery> {
        let group = self.groups.first()?;
        Some(self.delivery(self.groups.at(group).head))
    }

    /// Whether the message still is in the queue.
    pub fn contains(&self, at: SlotSeq) -> bool {
        self.slab.find(at.slot, at.seq).is_some()
    }

    /// Whether the queue was purged since the message was in it. A start forgets purges.
    pub fn is_purged(&self, at: SlotSeq) -> bool {
        at.seq < self.purged_to
    }

    /// The message, if it still is in the queue.
    pub fn find(&self, at: SlotSeq) -> Option<MessageView> {
        self.contains(at).then(|| self.view(at.slot))
    }

    pub(super) fn view(&self, slot: u32) -> MessageView {
        let entry = self.slab.at(slot);
        MessageView {
            delivery: self.delivery(slot),
            state: entry.state(),
            deadline: Timestamp(entry.deadline_at()),
        }
    }
}
