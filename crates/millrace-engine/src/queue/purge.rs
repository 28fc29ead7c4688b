//! Dropping all messages of a queue, or the queue with them.

use millrace_core::{QueueId, Timestamp};

use super::Queue;
use crate::record::{DecodeError, Input, Records};
use crate::replay::Replay;

pub(crate) const PURGED: u8 = 7;
pub(crate) const QUEUE_DELETED: u8 = 9;

/// Bytes of the index part of either record.
const INDEX_BYTES: usize = 1 + 8;

impl Queue {
    /// Drops all messages and the memory of sends; sequences go on. Returns the queue as it was:
    /// freeing a million groups takes a while, and need not be done here.
    pub fn purge(&mut self, records: &mut Records<'_>) -> Queue {
        PurgedRecord { queue: self.id }.write(records);
        self.emptied()
    }

    /// Drops all that the queue holds: it is deleted. Returns the queue as it was, as
    /// [`Queue::purge`] does.
    pub fn delete_queue(&mut self, records: &mut Records<'_>) -> Queue {
        QueueDeletedRecord { queue: self.id }.write(records);
        self.emptied()
    }

    fn emptied(&mut self) -> Queue {
        let emptied = Queue::new(self.id, &self.arn, self.settings.clone(), self.next_seq);
        let dedup = self.dedup.emptied();
        let (purged_to, sent_total) = (self.next_seq, self.sent_total);
        std::mem::replace(self, Queue { dedup, purged_to, sent_total, ..emptied })
    }
}

/// Fields of `Purged`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PurgedRecord {
    pub queue: QueueId,
}

impl PurgedRecord {
    /// Bytes of the index part.
    pub const INDEX_BYTES: usize = INDEX_BYTES;

    pub(crate) fn write(self, records: &mut Records<'_>) {
        records.add(PURGED, 8, &[], |out| out.queue(self.queue));
    }

    pub(crate) fn read(from: &mut Input<'_>) -> Result<PurgedRecord, DecodeError> {
        Ok(PurgedRecord { queue: from.queue()? })
    }

    pub(crate) fn replay(self, replay: &mut Replay) {
        replay.change(self.queue, Timestamp(0), |queue| drop(queue.emptied()));
    }
}

/// Fields of `QueueDeleted`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueDeletedRecord {
    pub queue: QueueId,
}

impl QueueDeletedRecord {
    /// Bytes of the index part.
    pub const INDEX_BYTES: usize = INDEX_BYTES;

    pub(crate) fn write(self, records: &mut Records<'_>) {
        records.add(QUEUE_DELETED, 8, &[], |out| out.queue(self.queue));
    }

    pub(crate) fn read(from: &mut Input<'_>) -> Result<QueueDeletedRecord, DecodeError> {
        Ok(QueueDeletedRecord { queue: from.queue()? })
    }

    pub(crate) fn replay(self, replay: &mut Replay) {
        replay.drop_queue(self.queue);
    }
}
