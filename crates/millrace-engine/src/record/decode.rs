//! Reading records' index parts.

use millrace_core::{MessageId, QueueId, Timestamp};

use super::{MovedSlots, NO_GROUP, Record, RelocatedRecord, SentRecord, SlotSeq, Slots};
use crate::definition::Kind;
use crate::queue::MessageState;

impl<'a> Record<'a> {
    /// Decodes a record's index part; `None` if it is not one that this version knows.
    pub fn decode(index: &'a [u8]) -> Option<Record<'a>> {
        let (kind, rest) = index.split_first()?;
        let mut input = Input(rest);
        let record = match kind {
            1 => Record::Sent(input.message()?),
            2 => Record::Received {
                queue: input.queue()?,
                at: input.time()?,
                deadline: input.time()?,
                slots: Slots(input.list(12)?),
            },
            3 => Record::Deleted { queue: input.queue()?, slots: Slots(input.list(12)?) },
            4 => Record::VisibilityChanged {
                queue: input.queue()?,
                at: input.time()?,
                deadline: input.time()?,
                slots: Slots(input.list(12)?),
            },
            5 => Record::Returned {
                queue: input.queue()?,
                at: input.time()?,
                slots: Slots(input.list(12)?),
            },
            6 => Record::Moved {
                from: input.queue()?,
                to: input.queue()?,
                at: input.time()?,
                source: input.text()?,
                slots: MovedSlots(input.list(24)?),
            },
            7 => Record::Purged { queue: input.queue()? },
            8 => return Some(Record::Defined { json: rest }),
            9 => Record::QueueDeleted { queue: input.queue()? },
            10 => Record::Relocated(RelocatedRecord {
                message: input.message()?,
                first_received: input.time()?,
                last_received: input.time()?,
                receive_count: u32::from_le_bytes(input.array()?),
                state: input.state()?,
                source: input.text()?,
                original_sent: input.time()?,
            }),
            11 => Record::Remembered {
                queue: input.queue()?,
                expires: input.time()?,
                seq: input.u64()?,
                id: MessageId(input.array()?),
                dedup: u128::from_le_bytes(input.array()?),
            },
            12 => return Some(Record::MoveTask { json: rest }),
            13 => Record::Secret(input.array()?),
            14 => {
                let (collection, key) = (input.text()?, input.text()?);
                return Some(Record::Kept { collection, key, bytes: input.0 });
            }
            15 => Record::KeptDeleted { collection: input.text()?, key: input.text()? },
            _ => return None,
        };
        input.0.is_empty().then_some(record)
    }
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (part, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(part)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (part, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*part)
    }

    fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    fn state(&mut self) -> Option<MessageState> {
        let known = [MessageState::Delayed, MessageState::Ready, MessageState::InFlight];
        let byte = self.byte()?;
        known.into_iter().find(|state| *state as u8 == byte)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn queue(&mut self) -> Option<QueueId> {
        self.u64().map(QueueId)
    }

    fn time(&mut self) -> Option<Timestamp> {
        self.u64().map(Timestamp)
    }

    fn text(&mut self) -> Option<&'a str> {
        let len = u16::from_le_bytes(self.array()?);
        str::from_utf8(self.take(usize::from(len))?).ok()
    }

    fn group(&mut self) -> Option<Option<&'a str>> {
        match u16::from_le_bytes(self.array()?) {
            NO_GROUP => Some(None),
            len => Some(Some(str::from_utf8(self.take(usize::from(len))?).ok()?)),
        }
    }

    fn list(&mut self, item_len: usize) -> Option<&'a [u8]> {
        let count = u32::from_le_bytes(self.array()?) as usize;
        self.take(count.checked_mul(item_len)?)
    }

    fn message(&mut self) -> Option<SentRecord<'a>> {
        Some(SentRecord {
            queue: self.queue()?,
            at: SlotSeq { slot: u32::from_le_bytes(self.array()?), seq: self.u64()? },
            sent: self.time()?,
            deadline: self.time()?,
            id: MessageId(self.array()?),
            kind: if self.byte()? == 0 { Kind::Standard } else { Kind::Fifo },
            group: self.group()?,
            dedup: u128::from_le_bytes(self.array()?),
        })
    }
}
