//! What is journaled: the index part of every record.
//!
//! A record's first byte is its kind; integers are little-endian. `slots` is a count u32 followed
//! by that many (slot u32, sequence u64). Payloads: [`Content`](crate::Content) for `Sent` and
//! `Relocated`, the view's own for `View`, empty for all others, and for `Relocated` if the content
//! could not be read any more. The layouts are part of the journal's format; kinds are never reused. The file of a kind
//! has the change that it records, its writer, its reader and its replay.
//!
//! | kind | name | file | fields after the kind |
//! |--:|---|---|---|
//! | 1 | Sent | `queue/send` | as 16 without content version, which is 0: no longer written |
//! | 2 | Received | `queue/receive` | queue u64, at u64, deadline u64, slots |
//! | 3 | Deleted | `queue/delete` | queue u64, slots |
//! | 4 | VisibilityChanged | `queue/visibility` | queue u64, at u64, deadline u64 (at: ready), slots |
//! | 5 | Returned | `queue/give_back` | queue u64, at u64, slots: a receive that never reached its client |
//! | 6 | Moved | `queue/dead_letters` | source u64, target u64, at u64, source key text, (slot u32, seq u64, slot u32, seq u64) |
//! | 7 | Purged | `queue/purge` | queue u64 |
//! | 8 | Defined | `definition` | definition as JSON |
//! | 9 | QueueDeleted | `queue/purge` | queue u64 |
//! | 10 | Relocated | `queue/relocate` | as 17 without content version, which is 0: no longer written |
//! | 11 | Remembered | `queue/remember` | queue u64, expires u64, seq u64, id 16, dedup key u128 |
//! | 12 | MoveTask | `kept` | task as JSON: written before documents were kept, replayed as one |
//! | 13 | Secret | `receipt` | 16 bytes |
//! | 14 | Kept | `kept` | collection text, key text, the document |
//! | 15 | KeptDeleted | `kept` | collection text, key text |
//! | 16 | Sent | `queue/send` | content version u8, queue u64, slot u32, seq u64, sent u64, deadline u64 (0: ready), id 16, is FIFO u8, group, dedup key u128 (0: none) |
//! | 17 | Relocated | `queue/relocate` | as 16, then first received u64, last received u64 (0: never from this queue), receive count u32, state u8, source key text, original sent u64 |
//! | 18 | View | `view` | view text |
//! | 19 | Released | `queue/reservation` | queue u64, at u64, until u64 (at: ready), slots |
//!
//! `group` and texts are length u16 and bytes; an absent group is length 65535. A state is 1 for
//! delayed, 2 for ready, 3 for in flight. A content version is 0 for a plain content.

mod fields;
mod records;

use thiserror::Error;

pub use crate::definition::DefinedRecord;
pub use crate::kept::{KeptDeletedRecord, KeptRecord, MoveTaskRecord};
pub use crate::queue::{
    DeletedRecord, MovedRecord, PurgedRecord, QueueDeletedRecord, ReceivedRecord, ReleasedRecord,
    RelocatedRecord, RememberedRecord, ReturnedRecord, SentRecord, VisibilityRecord,
};
pub use crate::receipt::SecretRecord;
pub use crate::view::ViewRecord;
pub(crate) use fields::{Input, Output};
pub use fields::{MovedSlots, Slots};
pub use records::Records;

use crate::{definition, kept, queue, receipt, view};

/// A message by place and identity; slots are reused, sequences are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SlotSeq {
    pub slot: u32,
    pub seq: u64,
}

/// A message that left for the dead-letter queue, and its place there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MovedSlot {
    pub from: SlotSeq,
    pub to: SlotSeq,
}

/// A decoded record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    Sent(SentRecord<'a>),
    Received(ReceivedRecord<Slots<'a>>),
    Deleted(DeletedRecord<Slots<'a>>),
    VisibilityChanged(VisibilityRecord<Slots<'a>>),
    Returned(ReturnedRecord<Slots<'a>>),
    Released(ReleasedRecord<Slots<'a>>),
    Moved(MovedRecord<'a, MovedSlots<'a>>),
    Purged(PurgedRecord),
    Defined(DefinedRecord<'a>),
    QueueDeleted(QueueDeletedRecord),
    Relocated(RelocatedRecord<'a>),
    Remembered(RememberedRecord),
    MoveTask(MoveTaskRecord<'a>),
    Secret(SecretRecord),
    Kept(KeptRecord<'a>),
    KeptDeleted(KeptDeletedRecord<'a>),
    View(ViewRecord<'a>),
}

/// Why an index part cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    #[error("record is of an unknown kind or malformed")]
    Malformed,
    /// The record is of a message, written by a later version of the server.
    #[error("message content is of version {0}, which this version of the server cannot read")]
    ContentVersion(u8),
}

impl<'a> Record<'a> {
    /// Decodes a record's index part.
    pub fn decode(index: &'a [u8]) -> Result<Record<'a>, DecodeError> {
        let (kind, fields) = index.split_first().ok_or(DecodeError::Malformed)?;
        let mut input = Input(fields);
        let from = &mut input;
        let record = match *kind {
            queue::SENT | queue::SENT_BEFORE_VERSIONS => {
                Record::Sent(SentRecord::read(*kind, from)?)
            }
            queue::RECEIVED => Record::Received(ReceivedRecord::read(from)?),
            queue::DELETED => Record::Deleted(DeletedRecord::read(from)?),
            queue::VISIBILITY_CHANGED => Record::VisibilityChanged(VisibilityRecord::read(from)?),
            queue::RETURNED => Record::Returned(ReturnedRecord::read(from)?),
            queue::RELEASED => Record::Released(ReleasedRecord::read(from)?),
            queue::MOVED => Record::Moved(MovedRecord::read(from)?),
            queue::PURGED => Record::Purged(PurgedRecord::read(from)?),
            definition::DEFINED => Record::Defined(DefinedRecord::read(from)),
            queue::QUEUE_DELETED => Record::QueueDeleted(QueueDeletedRecord::read(from)?),
            queue::RELOCATED | queue::RELOCATED_BEFORE_VERSIONS => {
                Record::Relocated(RelocatedRecord::read(*kind, from)?)
            }
            queue::REMEMBERED => Record::Remembered(RememberedRecord::read(from)?),
            kept::MOVE_TASK => Record::MoveTask(MoveTaskRecord::read(from)),
            receipt::SECRET => Record::Secret(SecretRecord::read(from)?),
            kept::KEPT => Record::Kept(KeptRecord::read(from)?),
            kept::KEPT_DELETED => Record::KeptDeleted(KeptDeletedRecord::read(from)?),
            view::VIEW => Record::View(ViewRecord::read(from)?),
            _ => return Err(DecodeError::Malformed),
        };
        if input.0.is_empty() { Ok(record) } else { Err(DecodeError::Malformed) }
    }

    /// The message that the record brings, content excepted; only `Sent` and `Relocated` do.
    pub fn into_message(self) -> Option<SentRecord<'a>> {
        match self {
            Record::Sent(message) | Record::Relocated(RelocatedRecord { message, .. }) => {
                Some(message)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::{MessageId, QueueId, Timestamp};

    use super::*;
    use crate::content::ContentVersion;
    use crate::definition::Kind;
    use crate::queue::MessageState;

    const AT: SlotSeq = SlotSeq { slot: 5, seq: 1 << 40 };
    const MOVED: MovedSlot = MovedSlot { from: AT, to: AT };
    const QUEUE: QueueId = QueueId(77);
    const NOW: Timestamp = Timestamp(20);
    const KEPT: KeptRecord<'_> = KeptRecord { collection: "topics", key: "a", bytes: b"document" };

    fn message() -> SentRecord<'static> {
        SentRecord {
            version: ContentVersion::Plain,
            queue: QUEUE,
            at: AT,
            sent: Timestamp(10),
            deadline: Timestamp(0),
            id: MessageId([3; 16]),
            kind: Kind::Fifo,
            group: Some("g"),
            dedup: 99,
        }
    }

    fn relocated_record() -> RelocatedRecord<'static> {
        RelocatedRecord {
            message: SentRecord { group: None, ..message() },
            first_received: Timestamp(11),
            last_received: Timestamp(12),
            receive_count: 2,
            state: MessageState::InFlight,
            source: "arn",
            original_sent: Timestamp(4),
        }
    }

    /// One of each kind that is written, then those that are no longer.
    fn one_of_each() -> Vec<Vec<u8>> {
        let mut records = Records::default();
        let (all, slots) = (&mut records, [AT, AT]);
        let (queue, at, deadline) = (QUEUE, NOW, NOW);
        message().write(b"content", all);
        ReceivedRecord { queue, at, deadline, slots: slots.into_iter() }.write(all);
        DeletedRecord { queue, slots: &slots[..] }.write(all);
        VisibilityRecord { queue, at, deadline, slots: slots.into_iter() }.write(all);
        ReturnedRecord { queue, at, slots: &slots[..] }.write(all);
        MovedRecord { from: queue, to: QueueId(78), at, source: "arn", slots: &[MOVED][..] }
            .write(all);
        PurgedRecord { queue }.write(all);
        QueueDeletedRecord { queue }.write(all);
        relocated_record().write(b"content", all);
        RememberedRecord { queue, expires: NOW, seq: 4, id: MessageId([1; 16]), dedup: 5 }
            .write(all);
        SecretRecord { secret: [9; 16] }.write(all);
        KEPT.write(all);
        KeptDeletedRecord { collection: "topics", key: "a" }.write(all);
        ViewRecord { view: "tables" }.write(b"change", all);
        ReleasedRecord { queue, at, until: NOW, slots: slots.into_iter() }.write(all);
        let mut all: Vec<Vec<u8>> = records.iter().map(|(index, _)| index.to_vec()).collect();
        for (versioned, kind) in [(0, 1), (8, 10)] {
            all.push([&[kind], &all[versioned][2..]].concat());
        }
        all.extend([8, 12].map(|kind| [&[kind], &b"{}"[..]].concat()));
        all
    }

    #[test]
    fn records_round_trip() {
        let all = one_of_each();
        let decoded = |kind: u8| {
            let of_kind = all.iter().find(|index| index[0] == kind).unwrap();
            Record::decode(of_kind).unwrap()
        };
        for kind in [1, 16] {
            assert_eq!(decoded(kind), Record::Sent(message()));
        }
        for kind in [10, 17] {
            assert_eq!(decoded(kind), Record::Relocated(relocated_record()));
        }
        let Record::Moved(moved) = decoded(6) else { panic!("moved") };
        assert_eq!((moved.from, moved.to, moved.source), (QUEUE, QueueId(78), "arn"));
        assert_eq!(moved.slots.iter().collect::<Vec<_>>(), [MOVED]);
        assert_eq!(decoded(14), Record::Kept(KEPT));
        assert_eq!(decoded(18), Record::View(ViewRecord { view: "tables" }));
        for kind in 1..=19 {
            decoded(kind);
        }
    }

    #[test]
    fn a_relocated_message_is_in_a_state() {
        let mut records = Records::default();
        relocated_record().write(&[], &mut records);
        let mut index = records.iter().next().unwrap().0.to_vec();
        // Behind it are a text and a time.
        let state = index.len() - (2 + 3) - 8 - 1;

        for unknown in [0, 4] {
            index[state] = unknown;
            assert_eq!(Record::decode(&index), Err(DecodeError::Malformed));
        }
    }

    #[test]
    fn a_content_of_a_later_version_is_told_from_a_malformed_record() {
        for mut index in one_of_each().into_iter().filter(|index| matches!(index[0], 16 | 17)) {
            for version in [1, 255] {
                index[1] = version;
                assert_eq!(Record::decode(&index), Err(DecodeError::ContentVersion(version)));
            }
        }
    }

    #[test]
    fn truncated_records_are_refused() {
        for record in one_of_each() {
            if matches!(record[0], 8 | 12) {
                continue; // JSON: its own parser refuses it.
            }
            let document_bytes = if record[0] == 14 { KEPT.bytes.len() } else { 0 };
            for len in 0..record.len() - document_bytes {
                let found = Record::decode(&record[..len]);
                assert_eq!(found, Err(DecodeError::Malformed), "kind {} length {len}", record[0]);
            }
        }
    }
}
