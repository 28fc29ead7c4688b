//! Sends that a FIFO queue remembers, taken out of segments that are about to go.

use millrace_core::{MessageId, QueueId, Timestamp};

use super::Queue;
use super::dedup::Remembered;
use crate::definition::Kind;
use crate::record::{DecodeError, Input, Records};
use crate::replay::Replay;

pub(crate) const REMEMBERED: u8 = 11;

const FIELD_BYTES: usize = 24 + 16 + 16;

/// A send that a FIFO queue remembers.
#[derive(Clone, Copy, Debug)]
pub struct RememberedSend {
    /// Where the queue remembers it, as long as nothing else is done there.
    number: u64,
    /// Hashed deduplication id.
    pub key: u128,
    pub id: MessageId,
    pub seq: u64,
    pub expires: Timestamp,
}

impl Queue {
    /// How many sends are remembered by records in `segment` or before; expired ones that
    /// [`Queue::tick`] has not come to count.
    pub fn remembered_count_to(&self, segment: u32) -> u64 {
        self.dedup.count_to(segment)
    }

    /// Some of those sends, `most` at most, in the order sent. `next` is where to begin, at first
    /// 0, and moved on. None: there are no more. Takes as long for few as for millions.
    pub fn remembered_to(
        &self,
        segment: u32,
        next: &mut u64,
        most: usize,
    ) -> Option<Vec<RememberedSend>> {
        let found = self.dedup.in_segments_to(segment, next, most)?;
        let send = |(number, send): (u64, &Remembered)| {
            let Remembered { id, seq, expires, .. } = *send;
            RememberedSend { number, key: send.key(), id, seq, expires: Timestamp(expires) }
        };
        Some(found.into_iter().map(send).collect())
    }

    /// Records a send again, which [`Queue::remembered_to`] has just given. Once that is appended,
    /// call [`Queue::remembered_at`].
    pub fn remember_again(&self, send: &RememberedSend, records: &mut Records<'_>) {
        let RememberedSend { key: dedup, id, seq, expires, .. } = *send;
        RememberedRecord { queue: self.id, expires, seq, id, dedup }.write(records);
    }

    /// Notes that a send, which [`Queue::remembered_to`] has just given, is remembered by another
    /// record.
    pub fn remembered_at(&mut self, send: &RememberedSend, position: u64) {
        self.dedup.place_at(send.number, position);
    }

    /// `Remembered`, and the memory of `Sent`.
    pub(super) fn replay_remembered(
        &mut self,
        key: u128,
        seq: u64,
        id: MessageId,
        expires: Timestamp,
        position: u64,
    ) {
        self.dedup.insert(Remembered::new(key, id, seq, expires), Some(position));
        self.next_seq = self.next_seq.max(seq.saturating_add(1));
    }
}

/// Fields of `Remembered`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RememberedRecord {
    pub queue: QueueId,
    pub expires: Timestamp,
    pub seq: u64,
    pub id: MessageId,
    pub dedup: u128,
}

impl RememberedRecord {
    /// Bytes of the index part.
    pub const INDEX_BYTES: usize = 1 + FIELD_BYTES;

    pub(crate) fn write(&self, records: &mut Records<'_>) {
        records.add(REMEMBERED, FIELD_BYTES, &[], |out| {
            out.queue(self.queue);
            out.time(self.expires);
            out.u64(self.seq);
            out.id(self.id);
            out.u128(self.dedup);
        });
    }

    pub(crate) fn read(from: &mut Input<'_>) -> Result<RememberedRecord, DecodeError> {
        Ok(RememberedRecord {
            queue: from.queue()?,
            expires: from.time()?,
            seq: from.u64()?,
            id: from.id()?,
            dedup: from.u128()?,
        })
    }

    pub(crate) fn replay(&self, replay: &mut Replay, position: u64) {
        let RememberedRecord { queue, expires, seq, id, dedup } = *self;
        replay.queue(queue, Kind::Fifo).replay_remembered(dedup, seq, id, expires, position);
    }
}
