//! The index sidecar of a sealed segment: all that replay needs, without the bulk.
//!
//! ```text
//!  header, 96 bytes: CRC32C u32 │ MRIX │ version u32 │ segment u32 │ salt u64
//!                    │ start chain: epoch u64, counter u64, previous u32
//!                    │ end chain:   epoch u64, counter u64, previous u32
//!                    │ end offset u32 │ frames u32 │ records u64 │ zeros
//!  then per record:  offset u32 │ payload_len u32 │ index_len u32 │ index
//!  little endian; the CRC covers the entries and then the rest of the header
//! ```
//! Its entries are written to a temporary file while the segment fills, or as a start reads it, see
//! [`super::draft`]; where that was given up, the sealed segment is read once more. A sidecar that
//! is missing or wrong costs time, never data: but for a repaired segment, of whose damaged records
//! it still knows what they said.

use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use super::scan::{Stop, scan};
use super::segment::{SegmentHeader, index_path, temporary_path};
use crate::frame::Chain;
use crate::fs::{File, FileSystem, read_all};
use crate::journal::Visitor;
use crate::position::{Position, SegmentId};
use crate::record::{RECORD_HEADER_BYTES, Replayed};

const HEADER_BYTES: usize = 96;
const MAGIC: [u8; 4] = *b"MRIX";
const VERSION: u32 = 1;
/// Entries that are worth a write.
pub(super) const WRITE_BYTES: usize = 256 << 10;

/// A verified sidecar in memory.
pub(super) struct Sidecar {
    bytes: Vec<u8>,
    pub(super) end: Stop,
}

impl Sidecar {
    /// The sidecar of this segment, if there is one that is whole and of this log, and that ends
    /// where the next segment starts (if that is known).
    pub(super) fn load(
        fs: &dyn FileSystem,
        dir: &Path,
        header: &SegmentHeader,
        next_start: Option<Chain>,
    ) -> Option<Self> {
        let file = fs.open(&index_path(dir, header.segment)).ok()?;
        // An entry's header is no longer than a record's.
        let limit = u64::from(header.segment_bytes) + HEADER_BYTES as u64;
        let bytes = read_all(&*file, limit).ok()?;
        let end = decode(&bytes, header)?;
        let fits = next_start.is_none_or(|start| start == end.chain);
        fits.then_some(Self { bytes, end })
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub(super) fn replay(&self, segment: SegmentId, visitor: &mut Visitor<'_>) {
        let mut rest = self.bytes.get(HEADER_BYTES..).unwrap_or_default();
        while let Some((entry, behind)) = next_entry(rest, segment) {
            rest = behind;
            if visitor(entry).is_break() {
                return;
            }
        }
    }
}

/// A sidecar that is being written, under a temporary name.
pub(super) struct Writer {
    file: Arc<dyn File>,
    entries_crc: u32,
    offset: u64,
}

impl Writer {
    pub(super) fn create(fs: &dyn FileSystem, dir: &Path, segment: SegmentId) -> io::Result<Self> {
        let file = fs.create(&temporary_path(dir, segment, "idx"))?;
        Ok(Self { file, entries_crc: 0, offset: HEADER_BYTES as u64 })
    }

    /// Writes whole entries behind those before.
    pub(super) fn write(&mut self, entries: &[u8]) -> io::Result<()> {
        self.file.write_at(&[entries], self.offset)?;
        self.entries_crc = crc32c::crc32c_append(self.entries_crc, entries);
        self.offset += entries.len() as u64;
        Ok(())
    }

    pub(super) fn bytes(&self) -> u64 {
        self.offset
    }

    /// Makes it durable and gives it its name. Returns its size.
    pub(super) fn finish(
        self,
        fs: &dyn FileSystem,
        dir: &Path,
        header: &SegmentHeader,
        stop: &Stop,
    ) -> io::Result<u64> {
        self.file.write_at(&[&encode_header(header, stop, self.entries_crc)], 0)?;
        self.file.sync_data()?;
        let id = header.segment;
        fs.rename(&temporary_path(dir, id, "idx"), &index_path(dir, id))?;
        fs.sync_dir(dir)?;
        Ok(self.offset)
    }
}

/// Appends one record's entry.
pub(super) fn push_entry(entries: &mut Vec<u8>, offset: u32, payload_len: u32, index: &[u8]) {
    entries.extend_from_slice(&offset.to_le_bytes());
    entries.extend_from_slice(&payload_len.to_le_bytes());
    entries.extend_from_slice(&(index.len() as u32).to_le_bytes());
    entries.extend_from_slice(index);
}

/// Reads a sealed segment, whose chain must end where the next segment starts, and writes its
/// sidecar. Returns the sidecar's size.
pub(super) fn build(
    fs: &dyn FileSystem,
    dir: &Path,
    header: &SegmentHeader,
    segment: &dyn File,
    next_start: Chain,
) -> io::Result<u64> {
    let mut writer = Writer::create(fs, dir, header.segment)?;
    let mut entries = Vec::new();
    let mut written = Ok(());
    let stop = scan(segment, header, u64::MAX, &mut |record| {
        push_entry(&mut entries, record.position.offset(), record.payload_len, record.index);
        if entries.len() >= WRITE_BYTES {
            written = writer.write(&entries);
            entries.clear();
        }
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    written?;
    if stop.chain != next_start {
        let reason = format!("chain breaks at offset {}", stop.offset);
        return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
    }
    writer.write(&entries)?;
    writer.finish(fs, dir, header, &stop)
}

fn encode_header(header: &SegmentHeader, stop: &Stop, entries_crc: u32) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    let mut at = 4;
    let mut put = |field: &[u8]| {
        bytes[at..at + field.len()].copy_from_slice(field);
        at += field.len();
    };
    put(&MAGIC);
    put(&VERSION.to_le_bytes());
    put(&header.segment.0.to_le_bytes());
    put(&header.salt.to_le_bytes());
    put(&header.start.encode());
    put(&stop.chain.encode());
    put(&stop.offset.to_le_bytes());
    put(&(stop.frames as u32).to_le_bytes());
    put(&stop.records.to_le_bytes());
    let crc = crc32c::crc32c_append(entries_crc, &bytes[4..]);
    bytes[..4].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Checks the whole sidecar, entries included. None if anything is wrong with it.
fn decode(bytes: &[u8], header: &SegmentHeader) -> Option<Stop> {
    let (head, entries) = bytes.split_at_checked(HEADER_BYTES)?;
    let (crc, covered) = head.split_first_chunk::<4>()?;
    let sum = crc32c::crc32c_append(crc32c::crc32c(entries), covered);
    if sum != u32::from_le_bytes(*crc) {
        return None;
    }
    let (magic, rest) = covered.split_first_chunk::<4>()?;
    let (version, rest) = rest.split_first_chunk::<4>()?;
    let (segment, rest) = rest.split_first_chunk::<4>()?;
    let (salt, rest) = rest.split_first_chunk::<8>()?;
    let (start, rest) = Chain::decode(rest)?;
    let (chain, rest) = Chain::decode(rest)?;
    let (offset, rest) = rest.split_first_chunk::<4>()?;
    let (frames, rest) = rest.split_first_chunk::<4>()?;
    let (records, _) = rest.split_first_chunk::<8>()?;
    let is_ours = *magic == MAGIC
        && u32::from_le_bytes(*version) == VERSION
        && u32::from_le_bytes(*segment) == header.segment.0
        && u64::from_le_bytes(*salt) == header.salt
        && start == header.start;
    let stop = Stop {
        offset: u32::from_le_bytes(*offset),
        chain,
        frames: u64::from(u32::from_le_bytes(*frames)),
        records: u64::from_le_bytes(*records),
    };
    (is_ours && entries_are_whole(entries, header.segment, stop.records)).then_some(stop)
}

fn entries_are_whole(entries: &[u8], segment: SegmentId, records: u64) -> bool {
    let mut rest = entries;
    let mut seen = 0;
    while let Some((_, behind)) = next_entry(rest, segment) {
        rest = behind;
        seen += 1;
    }
    rest.is_empty() && seen == records
}

fn next_entry(bytes: &[u8], segment: SegmentId) -> Option<(Replayed<'_>, &[u8])> {
    let (offset, rest) = bytes.split_first_chunk::<4>()?;
    let (payload_len, rest) = rest.split_first_chunk::<4>()?;
    let (index_len, rest) = rest.split_first_chunk::<4>()?;
    let payload_len = u32::from_le_bytes(*payload_len);
    let (index, rest) = rest.split_at_checked(u32::from_le_bytes(*index_len) as usize)?;
    let record_len = (RECORD_HEADER_BYTES as u32)
        .checked_add(u32::try_from(index.len()).ok()?)?
        .checked_add(payload_len)?;
    let position = Position::new(segment, u32::from_le_bytes(*offset));
    Some((Replayed { position, index, payload_len, record_len }, rest))
}
