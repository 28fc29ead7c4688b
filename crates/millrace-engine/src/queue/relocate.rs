//! Messages whose records are written again at the journal's end.

use std::sync::Arc;

use millrace_core::{MessageId, Timestamp};

use super::slab::{Entry, MessageState};
use super::{Delivery, Queue, SentRecord};
use crate::content::{ContentVersion, StoredContent};
use crate::record::{DecodeError, Input, Records, SlotSeq};
use crate::replay::Replay;

pub(crate) const RELOCATED: u8 = 17;
/// Without a version of the content, which is plain.
pub(crate) const RELOCATED_BEFORE_VERSIONS: u8 = 10;

/// A message to be recorded again, as its present record has it.
#[derive(Clone, Copy, Debug)]
pub struct Relocate<'a> {
    pub id: MessageId,
    pub message: &'a Delivery,
    pub content: StoredContent<'a>,
}

impl Queue {
    /// Records all that restores a message without its earlier records. Once that is appended, call
    /// [`Queue::relocated`].
    pub fn relocate<'a>(
        &mut self,
        now: Timestamp,
        relocate: &Relocate<'a>,
        records: &mut Records<'a>,
    ) {
        let Relocate { id, message, content } = *relocate;
        // The record stands behind the one of the change.
        self.apply_changed_delay(message.at.slot, now);
        let entry = self.slab.at(message.at.slot);
        let is_ready = entry.state() == MessageState::Ready;
        let deadline = if is_ready { 0 } else { entry.deadline_at() };
        let last_received = match entry.has(Entry::RECEIVED) {
            true => entry.sent + u64::from(entry.last_received),
            false => 0,
        };
        let relocated = RelocatedRecord {
            message: SentRecord {
                version: content.version,
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
        };
        relocated.write(content.bytes, records);
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

    /// `Relocated`: the message as it is from here on.
    fn replay_relocated(
        &mut self,
        relocated: &RelocatedRecord<'_>,
        position: u64,
        record_len: u32,
    ) {
        let message = &relocated.message;
        if self.contains(message.at) {
            self.relocated(message.at, position, record_len);
            return;
        }
        let not_remembered = SentRecord { dedup: 0, deadline: Timestamp(0), ..message.clone() };
        self.replay_sent(&not_remembered, position, record_len);
        let slot = message.at.slot;
        let entry = self.slab.at_mut(slot);
        entry.set_receive_count(relocated.receive_count);
        entry.first_received = entry.offset(relocated.first_received.0);
        if relocated.last_received.0 != 0 {
            entry.last_received = entry.offset(relocated.last_received.0);
            entry.set(Entry::RECEIVED);
        }
        match relocated.state {
            state @ (MessageState::Delayed | MessageState::InFlight) => {
                self.change(slot, state, message.deadline.0);
            }
            MessageState::Ready | MessageState::Free => {}
        }
        if !relocated.source.is_empty() {
            let source = Arc::from(relocated.source);
            let first_received = relocated.first_received.0;
            self.set_origin(slot, source, relocated.original_sent.0, first_received);
        }
    }
}

/// Fields of `Relocated`: a message's whole state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelocatedRecord<'a> {
    pub message: SentRecord<'a>,
    pub first_received: Timestamp,
    /// 0 if it never was from this queue.
    pub last_received: Timestamp,
    pub receive_count: u32,
    /// Never free; its deadline is `message.deadline`.
    pub state: MessageState,
    /// The queue that it was dead-lettered from, empty if none.
    pub source: &'a str,
    /// SentTimestamp, if it differs from when retention began.
    pub original_sent: Timestamp,
}

impl<'a> RelocatedRecord<'a> {
    pub(crate) fn write<'p>(&self, content: &'p [u8], records: &mut Records<'p>) {
        let field_bytes = self.message.field_bytes() + 16 + 4 + 1 + 2 + self.source.len() + 8;
        records.add(RELOCATED, field_bytes, content, |out| {
            self.message.put(out);
            out.time(self.first_received);
            out.time(self.last_received);
            out.u32(self.receive_count);
            out.state(self.state);
            out.text(self.source);
            out.time(self.original_sent);
        });
    }

    pub(crate) fn read(kind: u8, from: &mut Input<'a>) -> Result<RelocatedRecord<'a>, DecodeError> {
        let version = match kind {
            RELOCATED => from.content_version()?,
            _ => ContentVersion::Plain,
        };
        Ok(RelocatedRecord {
            message: SentRecord::read_behind_version(version, from)?,
            first_received: from.time()?,
            last_received: from.time()?,
            receive_count: from.u32()?,
            state: from.state()?,
            source: from.text()?,
            original_sent: from.time()?,
        })
    }

    pub(crate) fn replay(&self, replay: &mut Replay, position: u64, record_len: u32) {
        let message = &self.message;
        replay.note_time(message.sent.max(self.last_received));
        replay.queue(message.queue, message.kind).replay_relocated(self, position, record_len);
    }
}
