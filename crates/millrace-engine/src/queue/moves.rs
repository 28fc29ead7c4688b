//! Messages that change place: to a dead-letter queue, to a later part of the journal, or out of
//! the queue by a message move task.

use std::sync::Arc;

use millrace_core::{MessageId, Timestamp};

use super::dedup::Remembered;
use super::slab::{Entry, MessageState};
use super::{Delivery, Origin, Queue};
use crate::definition::Kind;
use crate::record::{MovedSlot, RelocatedRecord, SentRecord, SlotSeq};

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
    /// Takes a message out, in whatever state it is; false if it is gone.
    pub fn take(&mut self, at: SlotSeq) -> bool {
        let is_there = self.contains(at);
        if is_there {
            self.remove(at.slot);
        }
        is_there
    }

    /// All that a record must say to restore the message of that id without its earlier records.
    pub fn relocation<'a>(
        &mut self,
        id: MessageId,
        message: &'a Delivery,
        now: Timestamp,
    ) -> RelocatedRecord<'a> {
        // The record stands behind the one of the change.
        self.apply_changed_delay(message.at.slot, now);
        let entry = self.slab.at(message.at.slot);
        let is_ready = entry.state() == MessageState::Ready;
        let deadline = if is_ready { 0 } else { entry.deadline_at() };
        let last_received = match entry.has(Entry::RECEIVED) {
            true => entry.sent + u64::from(entry.last_received),
            false => 0,
        };
        RelocatedRecord {
            message: SentRecord {
                queue: self.id,
                at: message.at,
                sent: Timestamp(entry.sent),
                deadline: Timestamp(deadline),
                id,
                kind: self.settings.kind,
                group: message.group.as_deref(),
                dedup: 0,
            },
            first_received: message.first_received,
            last_received: Timestamp(last_received),
            receive_count: entry.receive_count(),
            state: entry.state(),
            source: message.source.as_deref().unwrap_or_default(),
            original_sent: message.sent,
        }
    }

    /// Notes that a message's record now stands elsewhere.
    pub fn relocated(&mut self, at: SlotSeq, position: u64, record_len: u32) {
        if !self.contains(at) {
            return;
        }
        let entry = self.slab.at_mut(at.slot);
        let (old_position, old_len) = (entry.position, entry.record_len);
        (entry.position, entry.record_len) = (position, record_len);
        self.live.remove(old_position, old_len);
        self.live.add(position, record_len);
    }

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

    /// Notes that a send, which [`Queue::remembered_to`] has just given, is remembered by another
    /// record.
    pub fn remembered_at(&mut self, send: &RememberedSend, position: u64) {
        self.dedup.place_at(send.number, position);
    }

    /// Moves a message to the dead-letter queue: id, content, receive count and times stay. On
    /// standard queues retention goes on from the send, on FIFO queues it begins anew (developer
    /// guide, "Using dead-letter queues").
    pub(super) fn move_to(&mut self, target: &mut Queue, slot: u32, now: Timestamp) -> MovedSlot {
        let from = SlotSeq { slot, seq: self.slab.at(slot).seq };
        let to = SlotSeq { slot: target.slab.take(), seq: target.next_seq };
        target.next_seq += 1;
        self.move_into(target, from, to, now);
        MovedSlot { from, to }
    }

    /// As [`Queue::move_to`], to a slot that is taken already.
    pub(super) fn move_into(
        &mut self,
        target: &mut Queue,
        from: SlotSeq,
        to: SlotSeq,
        now: Timestamp,
    ) {
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
}
