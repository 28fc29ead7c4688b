//! Messages that leave the queue for good: deleted by the holder of a receipt handle, expired, or
//! taken out.

use millrace_core::{QueueId, Timestamp};
use smallvec::SmallVec;
use thiserror::Error;

use super::Queue;
use crate::definition::Kind;
use crate::receipt::Handle;
use crate::record::{DecodeError, Input, Records, SlotSeq, Slots};
use crate::replay::Replay;

pub(crate) const DELETED: u8 = 3;

/// The receipt handle of a FIFO message is no longer the one of its current receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the receipt handle has expired")]
pub struct Expired;

impl Queue {
    /// Deletes the messages that handles name. Returns for each whether it was there: one that is
    /// gone already is fine. Call [`Queue::tick`] first.
    ///
    /// Standard queues take any handle that the message ever had; FIFO queues only that of its
    /// current receive (developer guide, DeleteMessage).
    pub fn delete(
        &mut self,
        handles: &[Handle],
        records: &mut Records<'_>,
    ) -> SmallVec<[Result<bool, Expired>; 10]> {
        let mut deleted: SmallVec<[SlotSeq; 10]> = SmallVec::new();
        let outcomes = handles.iter().map(|handle| {
            let Some(entry) = self.slab.find(handle.slot, handle.seq) else { return Ok(false) };
            if self.settings.kind == Kind::Fifo && !entry.is_current(handle) {
                return Err(Expired);
            }
            self.remove(handle.slot);
            deleted.push(SlotSeq { slot: handle.slot, seq: handle.seq });
            Ok(true)
        });
        let outcomes = outcomes.collect();
        self.record_deleted(&deleted, records);
        outcomes
    }

    /// Drops messages older than the retention period, `budget` at most; returns how many. Ask for
    /// room in the journal first: a message that only memory has lost would come back with the next
    /// start.
    pub fn expire(&mut self, now: Timestamp, budget: usize, records: &mut Records<'_>) -> usize {
        let mut expired = Vec::new();
        while expired.len() < budget && self.has_expired(now) {
            let Some((_, slot)) = self.oldest_message() else { break };
            expired.push(SlotSeq { slot, seq: self.slab.at(slot).seq });
            self.remove(slot);
        }
        self.record_deleted(&expired, records);
        expired.len()
    }

    /// Whether messages older than the retention period are left for [`Queue::expire`] to drop.
    /// They are not to be delivered.
    pub fn has_expired(&self, now: Timestamp) -> bool {
        let retention_ms = u64::from(self.settings.retention_s) * 1000;
        self.oldest_message().is_some_and(|(sent, _)| sent.saturating_add(retention_ms) <= now.0)
    }

    /// Takes a message out, in whatever state it is; false if it is gone.
    pub fn take(&mut self, at: SlotSeq, records: &mut Records<'_>) -> bool {
        let is_there = self.drop_message(at);
        if is_there {
            self.record_deleted(&[at], records);
        }
        is_there
    }

    fn drop_message(&mut self, at: SlotSeq) -> bool {
        let is_there = self.contains(at);
        if is_there {
            self.remove(at.slot);
        }
        is_there
    }

    fn record_deleted(&self, slots: &[SlotSeq], records: &mut Records<'_>) {
        if !slots.is_empty() {
            DeletedRecord { queue: self.id, slots }.write(records);
        }
    }
}

/// Fields of `Deleted`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedRecord<S> {
    pub queue: QueueId,
    pub slots: S,
}

impl DeletedRecord<&[SlotSeq]> {
    pub(crate) fn write(&self, records: &mut Records<'_>) {
        records.add(DELETED, 8 + 4 + 12 * self.slots.len(), &[], |out| {
            out.queue(self.queue);
            out.slots(self.slots.iter().copied());
        });
    }
}

impl<'a> DeletedRecord<Slots<'a>> {
    pub(crate) fn read(from: &mut Input<'a>) -> Result<Self, DecodeError> {
        Ok(DeletedRecord { queue: from.queue()?, slots: from.slots()? })
    }

    pub(crate) fn replay(&self, replay: &mut Replay) {
        replay.change(self.queue, Timestamp(0), |queue| {
            for at in self.slots.iter() {
                queue.drop_message(at);
            }
        });
    }
}
