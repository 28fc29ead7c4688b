//! Moves stragglers out of the oldest segment: their messages are appended again.

use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use millrace_core::{MessageId, Timestamp};
use millrace_engine::record::{Record as EngineRecord, Records, SentRecord, SlotSeq};
use millrace_engine::{ContentVersion, Relocate, StoredContent};
use millrace_journal::{Position, Purpose, ReadError, Record, Replayed, SegmentId};

use super::Truncation;
use crate::append::journal_records;
use crate::error::BrokerError;
use crate::queue::{SharedQueue, State};

/// Messages relocated before their commit is awaited: clients' records wait behind them.
const RELOCATED_BYTES: usize = 4 << 20;
/// What a message's record may grow by when it is relocated, besides the ARN of its source.
const RELOCATION_BYTES: usize = 64;
/// A disk that fails to read may do so the next time; one that does not for so long will not.
const UNREADABLE_S: u64 = 600;
/// Slots that are looked through under a queue's lock at a time, for what to relocate.
const SLOTS_AT_A_TIME: u32 = 1 << 13;

impl Truncation {
    /// Appends live messages of a segment again, not too many at a time.
    pub(super) fn relocate_messages(
        &self,
        segment: SegmentId,
        unreadable: &mut Option<(SegmentId, Timestamp)>,
    ) -> Result<(), BrokerError> {
        let mut found: Vec<(Arc<SharedQueue>, SlotSeq, Position)> = Vec::new();
        let mut collect = |replayed: Replayed<'_>| {
            if let Some(message) = message_of(replayed.index) {
                let queue = self.catalog.queue_by_id(message.queue);
                found.extend(queue.map(|queue| (queue, message.at, replayed.position)));
            }
            ControlFlow::Continue(())
        };
        let replayed = self.common.log.replay_segment(segment, &mut collect);
        replayed.map_err(|error| BrokerError::Internal(format!("segment: {error}")))?;
        let mut relocated_bytes = 0;
        for (queue, at, position) in found {
            relocated_bytes += self.relocate_message(&queue, at, position, unreadable)?;
            if relocated_bytes > RELOCATED_BYTES {
                return Ok(());
            }
        }
        // What was dead-lettered stands in another queue than its record says.
        for queue in self.queues() {
            let mut next = 0;
            while let Some(moved) = messages_in(&queue, segment, &mut next) {
                queue.let_others_in();
                for (at, position) in moved {
                    relocated_bytes +=
                        self.relocate_message(&queue, at, Position(position), unreadable)?;
                    if relocated_bytes > RELOCATED_BYTES {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// Appends one message again, if it still is the one whose record stands there. Returns how
    /// many bytes that took.
    fn relocate_message(
        &self,
        queue: &SharedQueue,
        at: SlotSeq,
        position: Position,
        unreadable: &mut Option<(SegmentId, Timestamp)>,
    ) -> Result<usize, BrokerError> {
        let find = |state: &State| {
            let found = state.queue.find(at).map(|view| view.delivery);
            found.filter(|message| message.position == position.0)
        };
        // Read without the lock: old records come from the disk.
        let Some(message) = find(&queue.lock()) else { return Ok(0) };
        let (id, version, payload) =
            self.stored_message(queue, position, message.record_len, unreadable)?;
        let source_bytes = message.source.as_ref().map_or(0, |source| source.len());
        let bytes = message.record_len as usize + RELOCATION_BYTES + source_bytes;
        // As long as there is no further segment, the last of this one is left to deletes.
        let reservation = self.common.log.reserve(bytes, Purpose::Relocate)?;
        let mut state = queue.lock();
        let Some(message) = find(&state) else { return Ok(0) };
        let mut records = Records::default();
        let content = StoredContent { version, bytes: &payload };
        let relocate = Relocate { id, message: &message, content };
        state.queue.relocate(self.common.now(), &relocate, &mut records);
        let records = journal_records(&records);
        let mut positions = Vec::new();
        self.common.log.append(reservation, &records, &mut positions);
        let record_bytes = records.iter().map(Record::encoded_bytes).sum();
        if let Some(position) = positions.first() {
            state.queue.relocated(at, position.0, record_bytes as u32);
        }
        Ok(record_bytes)
    }

    /// Id and content of a message, as it is stored. A content that the disk has damaged, or has failed to read for
    /// long, is gone; the message goes on without one, or its segment and all behind it would have
    /// to stay until it expires.
    fn stored_message(
        &self,
        queue: &SharedQueue,
        position: Position,
        record_len: u32,
        unreadable: &mut Option<(SegmentId, Timestamp)>,
    ) -> Result<(MessageId, ContentVersion, Bytes), BrokerError> {
        match self.common.log.read(position, record_len) {
            Ok(stored) => {
                let message = message_of(stored.index());
                let (id, version) = message
                    .map(|message| (message.id, message.version))
                    .ok_or_else(|| BrokerError::Internal("record holds no message".into()))?;
                Ok((id, version, stored.into_payload()))
            }
            Err(error) if self.is_gone(&error, position, unreadable) => {
                tracing::error!(queue = %queue.key(), %error, "message relocated without its content");
                Ok((self.indexed_id(position)?, ContentVersion::Plain, Bytes::new()))
            }
            Err(error) => Err(crate::deliver::unreadable(&error)),
        }
    }

    fn is_gone(
        &self,
        error: &ReadError,
        position: Position,
        unreadable: &mut Option<(SegmentId, Timestamp)>,
    ) -> bool {
        let ReadError::Io { .. } = error else { return matches!(error, ReadError::Damaged(_)) };
        let (segment, now) = (position.segment(), self.common.now());
        let since = match *unreadable {
            Some((of, since)) if of == segment => since,
            _ => unreadable.insert((segment, now)).1,
        };
        now >= since.plus_seconds(UNREADABLE_S)
    }

    /// The id of a message as its segment's index repeats it.
    fn indexed_id(&self, position: Position) -> Result<MessageId, BrokerError> {
        let mut id = None;
        let mut look = |replayed: Replayed<'_>| {
            if replayed.position < position {
                return ControlFlow::Continue(());
            }
            let message = message_of(replayed.index).filter(|_| replayed.position == position);
            id = message.map(|message| message.id);
            ControlFlow::Break(())
        };
        let replayed = self.common.log.replay_segment(position.segment(), &mut look);
        replayed.map_err(|error| BrokerError::Internal(format!("segment: {error}")))?;
        id.ok_or_else(|| BrokerError::Internal(format!("no message at {position}")))
    }
}

fn message_of(index: &[u8]) -> Option<SentRecord<'_>> {
    EngineRecord::decode(index).ok().and_then(EngineRecord::into_message)
}

/// Messages of a segment that is the queue's oldest, in the order sent, among some slots from
/// `next` on; none: there are no more. Others get the lock between two calls.
fn messages_in(
    queue: &SharedQueue,
    segment: SegmentId,
    next: &mut u32,
) -> Option<Vec<(SlotSeq, u64)>> {
    let state = queue.lock();
    let slots = *next..state.queue.slots().min(next.saturating_add(SLOTS_AT_A_TIME));
    if slots.is_empty() || state.queue.oldest_segment() != Some(segment.0) {
        return None;
    }
    *next = slots.end;
    let mut found: Vec<_> = state.queue.in_segment(segment.0, slots).collect();
    found.sort_unstable_by_key(|(at, _)| at.seq);
    Some(found)
}
