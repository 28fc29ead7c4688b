//! Records: what callers append and read back. Opaque here.
//!
//! ```text
//!  0        4            8              12              12+index_len
//!  ┌────────┬────────────┬──────────────┬───────────────┬──────────────┐
//!  │ CRC32C │ index_len  │ payload_len  │ index         │ payload      │
//!  │ u32 LE │ u32 LE     │ u32 LE       │               │              │
//!  └────────┴────────────┴──────────────┴───────────────┴──────────────┘
//!  the CRC covers everything behind it
//! ```
//! The record's own CRC lets one record be read from the disk and trusted without its frame.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::position::Position;

/// Bytes before the index.
pub const RECORD_HEADER_BYTES: usize = 12;

/// A record to append.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// What replay needs. Goes into the segment's index sidecar too.
    pub index: &'a [u8],
    /// Bulk, such as a message body; only ever read by position.
    pub payload: &'a [u8],
}

impl Record<'_> {
    /// What the record takes in the journal.
    #[must_use]
    pub const fn encoded_bytes(&self) -> usize {
        RECORD_HEADER_BYTES + self.index.len() + self.payload.len()
    }

    /// Computed by the appender outside every lock.
    pub(crate) fn header(&self) -> [u8; RECORD_HEADER_BYTES] {
        let mut header = [0; RECORD_HEADER_BYTES];
        let (crc, lengths) = header.split_at_mut(4);
        let (index_len, payload_len) = lengths.split_at_mut(4);
        // Admission bounds a batch by the segment, which is less than 4 GiB.
        index_len.copy_from_slice(&(self.index.len() as u32).to_le_bytes());
        payload_len.copy_from_slice(&(self.payload.len() as u32).to_le_bytes());
        let sum = crc32c::crc32c(lengths);
        let sum = crc32c::crc32c_append(sum, self.index);
        let sum = crc32c::crc32c_append(sum, self.payload);
        crc.copy_from_slice(&sum.to_le_bytes());
        header
    }

    pub(crate) fn encode(&self, header: &[u8; RECORD_HEADER_BYTES], buffer: &mut BytesMut) {
        buffer.put_slice(header);
        buffer.put_slice(self.index);
        buffer.put_slice(self.payload);
    }
}

/// A record as replay shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replayed<'a> {
    pub position: Position,
    pub index: &'a [u8],
    pub payload_len: u32,
    /// What `read` takes.
    pub record_len: u32,
}

/// A record read by position. It has one buffer, shared with its group if that is in memory still:
/// counting who shares a group is what readers on several cores hinder one another with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordBytes {
    /// Index and payload.
    data: Bytes,
    index_len: usize,
}

/// A record found in trusted or untrusted bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decoded<'a> {
    crc: u32,
    covered: &'a [u8],
    pub(crate) index: &'a [u8],
    pub(crate) payload: &'a [u8],
}

impl<'a> Decoded<'a> {
    /// The record at the start of `bytes`, or None if it does not fit into them.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (crc, rest) = bytes.split_first_chunk::<4>()?;
        let (index_len, lengths_rest) = rest.split_first_chunk::<4>()?;
        let (payload_len, data) = lengths_rest.split_first_chunk::<4>()?;
        let index_len = u32::from_le_bytes(*index_len) as usize;
        let payload_len = u32::from_le_bytes(*payload_len) as usize;
        let (index, data) = data.split_at_checked(index_len)?;
        let payload = data.get(..payload_len)?;
        let covered = rest.get(..8 + index_len + payload_len)?;
        Some(Self { crc: u32::from_le_bytes(*crc), covered, index, payload })
    }

    pub(crate) fn record_len(&self) -> usize {
        4 + self.covered.len()
    }

    pub(crate) fn is_intact(&self) -> bool {
        crc32c::crc32c(self.covered) == self.crc
    }
}

/// The records in the body of a frame and where they start in it, as far as they can be told apart
/// by their lengths. Behind the last may be padding, which is not told from a record: callers know
/// how many there are.
pub(crate) fn records(body: &[u8]) -> impl Iterator<Item = (usize, Decoded<'_>)> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let record = Decoded::parse(body.get(start..)?)?;
        let found = (start, record);
        start += record.record_len();
        Some(found)
    })
}

impl RecordBytes {
    /// See [`Record::index`].
    #[must_use]
    pub fn index(&self) -> &[u8] {
        &self.data[..self.index_len]
    }

    /// See [`Record::payload`].
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.data[self.index_len..]
    }

    /// The payload alone, in the same buffer.
    #[must_use]
    pub fn into_payload(mut self) -> Bytes {
        self.data.advance(self.index_len);
        self.data
    }

    /// Cuts the record out of bytes that this process wrote itself: lengths only, no checksum.
    pub(crate) fn trust(mut bytes: Bytes) -> Option<Self> {
        let decoded = Decoded::parse(&bytes).filter(|it| it.record_len() == bytes.len())?;
        let index_len = decoded.index.len();
        bytes.advance(RECORD_HEADER_BYTES);
        Some(Self { data: bytes, index_len })
    }

    /// The same for bytes that come from a disk.
    pub(crate) fn verify(bytes: Bytes) -> Option<Self> {
        Decoded::parse(&bytes).filter(Decoded::is_intact)?;
        Self::trust(bytes)
    }
}
