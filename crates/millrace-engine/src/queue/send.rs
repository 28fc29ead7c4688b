//! Accepting messages.

use millrace_core::{MessageId, QueueId, Timestamp, limits};

use super::Queue;
use super::dedup::Remembered;
use super::slab::MessageState;
use crate::content::{ContentVersion, StoredContent};
use crate::definition::Kind;
use crate::record::{DecodeError, Input, Output, Records, SlotSeq};
use crate::replay::Replay;

pub(crate) const SENT: u8 = 16;
/// Without a version of the content, which is plain.
pub(crate) const SENT_BEFORE_VERSIONS: u8 = 1;

/// Bytes of the fields besides the group id.
const FIELD_BYTES: usize = 1 + 8 + 12 + 16 + 16 + 1 + 2 + 16;

/// A message to be accepted.
#[derive(Clone, Copy, Debug)]
pub struct Send<'a> {
    pub id: MessageId,
    pub content: StoredContent<'a>,
    pub group: Option<&'a str>,
    /// Hashed deduplication key; see [`Queue::dedup_key`].
    pub dedup: Option<u128>,
    /// Standard queues: overrides the queue's delay.
    pub delay_s: Option<u32>,
}

/// The outcome of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// A new message; `deadline` is the end of its delay, 0 if it is ready.
    Stored { at: SlotSeq, sent: Timestamp, deadline: Timestamp },
    /// The deduplication window holds an earlier one: nothing is stored.
    Duplicate { id: MessageId, seq: u64 },
}

impl Queue {
    /// Accepts a message, or recognises a repeated one. After its record is appended, call
    /// [`Queue::stored`].
    pub fn send<'a>(&mut self, now: Timestamp, send: &Send<'a>, records: &mut Records<'a>) -> Sent {
        if let Some(earlier) = send.dedup.and_then(|key| self.dedup.get(key, now)) {
            return Sent::Duplicate { id: earlier.id, seq: earlier.seq };
        }
        let at = SlotSeq { slot: self.slab.take(), seq: self.next_seq };
        self.next_seq += 1;
        self.sent_total += 1;
        let kind = self.settings.kind;
        let delay_s = match kind {
            Kind::Standard => send.delay_s.unwrap_or(self.settings.delay_s),
            Kind::Fifo => self.settings.delay_s,
        };
        let deadline =
            if delay_s == 0 { Timestamp(0) } else { now.plus_seconds(u64::from(delay_s)) };
        let state = if delay_s == 0 { MessageState::Ready } else { MessageState::Delayed };
        self.insert(at, now.0, send.group, state, deadline.0);
        if let Some(key) = send.dedup {
            let expires = now.plus_seconds(limits::DEDUPLICATION_WINDOW_S);
            self.dedup.insert(Remembered::new(key, send.id, at.seq, expires), None);
        }
        let Send { id, content, group, dedup, .. } = *send;
        let (queue, sent, dedup) = (self.id, now, dedup.unwrap_or_default());
        let version = content.version;
        SentRecord { version, queue, at, sent, deadline, id, kind, group, dedup }
            .write(content.bytes, records);
        Sent::Stored { at, sent, deadline }
    }

    /// Notes where the record of an accepted message stands in the journal.
    pub fn stored(&mut self, at: SlotSeq, dedup: Option<u128>, position: u64, record_len: u32) {
        if let Some(key) = dedup {
            self.dedup.place(key, position);
        }
        if self.contains(at) {
            let entry = self.slab.at_mut(at.slot);
            (entry.position, entry.record_len) = (position, record_len);
            self.live.add(position, record_len);
        }
    }

    /// Sets the number that the records so far add up to.
    pub(crate) fn replay_sent_total(&mut self, total: u64) {
        self.sent_total = total;
    }

    /// `Sent`, and what `Relocated` has in common with it.
    pub(super) fn replay_sent(&mut self, sent: &SentRecord<'_>, position: u64, record_len: u32) {
        self.vacate(sent.at.slot);
        self.slab.take_at(sent.at.slot);
        let is_ready = sent.deadline.0 == 0;
        let state = if is_ready { MessageState::Ready } else { MessageState::Delayed };
        self.insert(sent.at, sent.sent.0, sent.group, state, sent.deadline.0);
        if sent.dedup != 0 {
            let expires = sent.sent.plus_seconds(limits::DEDUPLICATION_WINDOW_S);
            self.replay_remembered(sent.dedup, sent.at.seq, sent.id, expires, position);
            // Memory of sends stays as small as it was when they were accepted.
            self.dedup.expire(sent.sent, 2);
        }
        self.stored(sent.at, None, position, record_len);
        self.next_seq = self.next_seq.max(sent.at.seq.saturating_add(1));
    }
}

/// Fields of `Sent`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentRecord<'a> {
    /// Of the content, which is the payload.
    pub version: ContentVersion,
    pub queue: QueueId,
    pub at: SlotSeq,
    pub sent: Timestamp,
    /// End of the delay; 0 if the message is ready at once.
    pub deadline: Timestamp,
    pub id: MessageId,
    pub kind: Kind,
    pub group: Option<&'a str>,
    /// 0 if the send is not remembered for deduplication.
    pub dedup: u128,
}

impl<'a> SentRecord<'a> {
    pub(crate) fn write<'p>(&self, content: &'p [u8], records: &mut Records<'p>) {
        records.add(SENT, self.field_bytes(), content, |out| self.put(out));
    }

    pub(super) fn field_bytes(&self) -> usize {
        FIELD_BYTES + self.group.map_or(0, str::len)
    }

    pub(super) fn put(&self, out: &mut Output) {
        out.content_version(self.version);
        out.queue(self.queue);
        out.slot(self.at);
        out.time(self.sent);
        out.time(self.deadline);
        out.id(self.id);
        out.kind(self.kind);
        out.group(self.group);
        out.u128(self.dedup);
    }

    pub(crate) fn read(kind: u8, from: &mut Input<'a>) -> Result<SentRecord<'a>, DecodeError> {
        let version = match kind {
            SENT => from.content_version()?,
            _ => ContentVersion::Plain,
        };
        SentRecord::read_behind_version(version, from)
    }

    pub(super) fn read_behind_version(
        version: ContentVersion,
        from: &mut Input<'a>,
    ) -> Result<SentRecord<'a>, DecodeError> {
        Ok(SentRecord {
            version,
            queue: from.queue()?,
            at: from.slot()?,
            sent: from.time()?,
            deadline: from.time()?,
            id: from.id()?,
            kind: from.kind()?,
            group: from.group()?,
            dedup: from.u128()?,
        })
    }

    pub(crate) fn replay(&self, replay: &mut Replay, position: u64, record_len: u32) {
        replay.note_time(self.sent);
        let queue = replay.queue(self.queue, self.kind);
        queue.replay_sent(self, position, record_len);
        queue.replay_sent_total(queue.sent_total() + 1);
    }
}
