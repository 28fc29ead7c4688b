//! The fields that index parts are made of: written, and read back.
//!
//! The input may be anything: each read says whether the field is there and whole.

use millrace_core::{MessageId, QueueId, Timestamp};

use super::{DecodeError, MovedSlot, SlotSeq};
use crate::content::ContentVersion;
use crate::definition::Kind;
use crate::queue::MessageState;

/// The length of a group id that is not there.
const NO_GROUP: u16 = u16::MAX;
const SLOT_BYTES: usize = 12;

/// Index parts, one behind the other.
#[derive(Debug, Default)]
pub(crate) struct Output(pub(super) Vec<u8>);

impl Output {
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    pub(crate) fn u32(&mut self, number: u32) {
        self.bytes(&number.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, number: u64) {
        self.bytes(&number.to_le_bytes());
    }

    pub(crate) fn u128(&mut self, number: u128) {
        self.bytes(&number.to_le_bytes());
    }

    pub(crate) fn queue(&mut self, queue: QueueId) {
        self.u64(queue.0);
    }

    pub(crate) fn time(&mut self, time: Timestamp) {
        self.u64(time.0);
    }

    pub(crate) fn id(&mut self, id: MessageId) {
        self.bytes(&id.0);
    }

    pub(crate) fn kind(&mut self, kind: Kind) {
        self.byte(u8::from(kind == Kind::Fifo));
    }

    pub(crate) fn state(&mut self, state: MessageState) {
        self.byte(state as u8);
    }

    pub(crate) fn content_version(&mut self, version: ContentVersion) {
        self.byte(version as u8);
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.bytes(&(text.len() as u16).to_le_bytes());
        self.bytes(text.as_bytes());
    }

    pub(crate) fn group(&mut self, group: Option<&str>) {
        match group {
            Some(group) => self.text(group),
            None => self.bytes(&NO_GROUP.to_le_bytes()),
        }
    }

    pub(crate) fn slot(&mut self, at: SlotSeq) {
        self.u32(at.slot);
        self.u64(at.seq);
    }

    pub(crate) fn slots(&mut self, slots: impl ExactSizeIterator<Item = SlotSeq>) {
        self.u32(slots.len() as u32);
        slots.for_each(|at| self.slot(at));
    }

    pub(crate) fn moved_slots(&mut self, slots: &[MovedSlot]) {
        self.u32(slots.len() as u32);
        for MovedSlot { from, to } in slots {
            self.slot(*from);
            self.slot(*to);
        }
    }
}

/// The rest of an index part.
pub(crate) struct Input<'a>(pub(super) &'a [u8]);

impl<'a> Input<'a> {
    /// All that is left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (part, rest) = self.0.split_first_chunk::<N>().ok_or(DecodeError::Malformed)?;
        self.0 = rest;
        Ok(*part)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, DecodeError> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, DecodeError> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn u128(&mut self) -> Result<u128, DecodeError> {
        self.array().map(u128::from_le_bytes)
    }

    pub(crate) fn queue(&mut self) -> Result<QueueId, DecodeError> {
        self.u64().map(QueueId)
    }

    pub(crate) fn time(&mut self) -> Result<Timestamp, DecodeError> {
        self.u64().map(Timestamp)
    }

    pub(crate) fn id(&mut self) -> Result<MessageId, DecodeError> {
        self.array().map(MessageId)
    }

    pub(crate) fn kind(&mut self) -> Result<Kind, DecodeError> {
        self.byte().map(|byte| if byte == 0 { Kind::Standard } else { Kind::Fifo })
    }

    pub(crate) fn state(&mut self) -> Result<MessageState, DecodeError> {
        let known = [MessageState::Delayed, MessageState::Ready, MessageState::InFlight];
        let byte = self.byte()?;
        let state = known.into_iter().find(|state| *state as u8 == byte);
        state.ok_or(DecodeError::Malformed)
    }

    pub(crate) fn content_version(&mut self) -> Result<ContentVersion, DecodeError> {
        let version = self.byte()?;
        ContentVersion::known(version).ok_or(DecodeError::ContentVersion(version))
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, DecodeError> {
        let len = u16::from_le_bytes(self.array()?);
        self.text_of(usize::from(len))
    }

    pub(crate) fn group(&mut self) -> Result<Option<&'a str>, DecodeError> {
        match u16::from_le_bytes(self.array()?) {
            NO_GROUP => Ok(None),
            len => self.text_of(usize::from(len)).map(Some),
        }
    }

    pub(crate) fn slot(&mut self) -> Result<SlotSeq, DecodeError> {
        Ok(SlotSeq { slot: self.u32()?, seq: self.u64()? })
    }

    pub(crate) fn slots(&mut self) -> Result<Slots<'a>, DecodeError> {
        self.list(SLOT_BYTES).map(Slots)
    }

    pub(crate) fn moved_slots(&mut self) -> Result<MovedSlots<'a>, DecodeError> {
        self.list(2 * SLOT_BYTES).map(MovedSlots)
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let (part, rest) = self.0.split_at_checked(len).ok_or(DecodeError::Malformed)?;
        self.0 = rest;
        Ok(part)
    }

    fn text_of(&mut self, len: usize) -> Result<&'a str, DecodeError> {
        str::from_utf8(self.take(len)?).map_err(|_| DecodeError::Malformed)
    }

    fn list(&mut self, item_len: usize) -> Result<&'a [u8], DecodeError> {
        let count = self.u32()? as usize;
        self.take(count.checked_mul(item_len).ok_or(DecodeError::Malformed)?)
    }
}

/// An undecoded list of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots<'a>(&'a [u8]);

impl<'a> Slots<'a> {
    /// The messages in the order written.
    pub fn iter(self) -> impl Iterator<Item = SlotSeq> + 'a {
        self.0.chunks_exact(SLOT_BYTES).filter_map(slot_seq)
    }
}

/// An undecoded list of moved messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MovedSlots<'a>(&'a [u8]);

impl<'a> MovedSlots<'a> {
    /// The messages in the order written.
    pub fn iter(self) -> impl Iterator<Item = MovedSlot> + 'a {
        self.0.chunks_exact(2 * SLOT_BYTES).filter_map(|moved| {
            let (from, to) = moved.split_at_checked(SLOT_BYTES)?;
            Some(MovedSlot { from: slot_seq(from)?, to: slot_seq(to)? })
        })
    }
}

fn slot_seq(bytes: &[u8]) -> Option<SlotSeq> {
    let slot = u32::from_le_bytes(*bytes.first_chunk()?);
    Some(SlotSeq { slot, seq: u64::from_le_bytes(*bytes.get(4..)?.first_chunk()?) })
}
