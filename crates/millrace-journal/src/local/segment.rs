//! A segment file: its name, its header, and the handle that readers share.
//!
//! ```text
//!  0        4       8        12        16       24      32        40         44              48..64
//!  ┌────────┬───────┬────────┬─────────┬────────┬───────┬─────────┬──────────┬───────────────┬─────┐
//!  │ CRC32C │ MRSG  │version │ segment │ salt   │ epoch │ counter │ previous │ segment_bytes │  0  │
//!  │ u32    │       │ u32    │ u32     │ u64    │ u64   │ u64     │ u32      │ u32           │     │
//!  └────────┴───────┴────────┴─────────┴────────┴───────┴─────────┴──────────┴───────────────┴─────┘
//!  little endian; the CRC covers what is behind it; epoch, counter and previous are the chain
//!  before the segment's first frame
//! ```

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::frame::{Chain, FRAME_HEADER_BYTES, SEGMENT_HEADER_BYTES};
use crate::fs::{BLOCK_BYTES, File};
use crate::position::SegmentId;

const MAGIC: [u8; 4] = *b"MRSG";
static ZEROS: [u8; FRAME_HEADER_BYTES + BLOCK_BYTES] = [0; FRAME_HEADER_BYTES + BLOCK_BYTES];
const VERSION: u32 = 1;

/// Zeros behind the last frame, written with it: what a frame header's place holds while no frame
/// was begun there. They go on to the end of a block, so that none needs to be read to be written.
/// The rest of a recycled file still has what it had.
pub(super) fn end_mark(end: u32, segment_bytes: u32) -> &'static [u8] {
    let marked = end.saturating_add(FRAME_HEADER_BYTES as u32);
    let whole = marked.checked_next_multiple_of(BLOCK_BYTES as u32).unwrap_or(marked);
    let length = whole.min(segment_bytes).saturating_sub(end) as usize;
    ZEROS.get(..length).unwrap_or(&ZEROS)
}

/// What a file in the journal's directory is, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileKind {
    Segment(SegmentId),
    Index(SegmentId),
    /// Left by a crash in the middle of making another file. Worth nothing.
    Temporary,
    Foreign,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub(super) segment: SegmentId,
    pub(super) salt: u64,
    /// Behind the last frame of the segment before.
    pub(super) start: Chain,
    pub(super) segment_bytes: u32,
}

/// An open segment.
pub(super) struct Segment {
    pub(super) header: SegmentHeader,
    pub(super) file: Arc<dyn File>,
    /// Committed bytes. Stored with Release after the commit.
    pub(super) end: AtomicU32,
    /// Bytes that the background has synced.
    pub(super) flushed: AtomicU32,
    pub(super) zeroed: Arc<Zeroed>,
}

/// How far a file's space was written to, and so is quick to sync, and the rule that keeps zeros
/// from meeting frames: zeros are only written at and above `to`, with `step` held, and `to`
/// follows once they are; frames are only written below `to`, which an appender that has outrun the
/// zeros first raises, with `step` held.
pub(super) struct Zeroed {
    /// Stored with Release by whoever holds `step`, loaded with Acquire before writing below it.
    to: AtomicU32,
    step: Mutex<()>,
}

impl Zeroed {
    pub(super) fn up_to(bytes: u32) -> Arc<Self> {
        Arc::new(Self { to: AtomicU32::new(bytes), step: Mutex::new(()) })
    }

    /// Claims everything below `end` for frames. Waits for a step of zeroing only if the appender
    /// has outrun it.
    pub(super) fn claim(&self, end: u32) {
        if self.to.load(Ordering::Acquire) < end {
            let _step = super::lock(&self.step);
            self.to.fetch_max(end, Ordering::AcqRel);
        }
    }

    /// Lets `zero` write zeros from where they are missing up to a place that it returns.
    pub(super) fn extend(&self, zero: impl FnOnce(u32) -> u32) {
        let _step = super::lock(&self.step);
        let end = zero(self.to.load(Ordering::Acquire));
        self.to.fetch_max(end, Ordering::AcqRel);
    }

    pub(super) fn to(&self) -> u32 {
        self.to.load(Ordering::Acquire)
    }
}

impl SegmentHeader {
    pub(super) fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        let mut at = 4;
        let mut put = |field: &[u8]| {
            bytes[at..at + field.len()].copy_from_slice(field);
            at += field.len();
        };
        put(&MAGIC);
        put(&VERSION.to_le_bytes());
        put(&self.segment.0.to_le_bytes());
        put(&self.salt.to_le_bytes());
        put(&self.start.encode());
        put(&self.segment_bytes.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[4..]);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The salt as a file has it, whether or not the header around it is whole.
    pub(super) fn read_salt(file: &dyn File) -> io::Result<u64> {
        let mut salt = [0; 8];
        file.read_at(&mut salt, 16)?;
        Ok(u64::from_le_bytes(salt))
    }

    /// None unless the bytes start with a whole header of this version.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..SEGMENT_HEADER_BYTES)?;
        let (crc, covered) = bytes.split_first_chunk::<4>()?;
        if crc32c::crc32c(covered) != u32::from_le_bytes(*crc) {
            return None;
        }
        let (magic, rest) = covered.split_first_chunk::<4>()?;
        let (version, rest) = rest.split_first_chunk::<4>()?;
        let (segment, rest) = rest.split_first_chunk::<4>()?;
        let (salt, rest) = rest.split_first_chunk::<8>()?;
        let (start, rest) = Chain::decode(rest)?;
        let (segment_bytes, _) = rest.split_first_chunk::<4>()?;
        let is_ours = *magic == MAGIC && u32::from_le_bytes(*version) == VERSION;
        is_ours.then(|| Self {
            segment: SegmentId(u32::from_le_bytes(*segment)),
            salt: u64::from_le_bytes(*salt),
            start,
            segment_bytes: u32::from_le_bytes(*segment_bytes),
        })
    }
}

impl FileKind {
    pub(super) fn of(name: &str) -> Self {
        if name.ends_with(".tmp") {
            return Self::Temporary;
        }
        let parsed = name.rsplit_once('.').and_then(|(stem, kind)| {
            let is_number = stem.len() == 8 && stem.bytes().all(|byte| byte.is_ascii_hexdigit());
            let number = u32::from_str_radix(stem, 16).ok().filter(|_| is_number)?;
            Some((SegmentId(number), kind))
        });
        match parsed {
            Some((id, "seg")) => Self::Segment(id),
            Some((id, "idx")) => Self::Index(id),
            _ => Self::Foreign,
        }
    }
}

pub(super) fn segment_path(dir: &Path, segment: SegmentId) -> PathBuf {
    dir.join(format!("{segment}.seg"))
}

pub(super) fn index_path(dir: &Path, segment: SegmentId) -> PathBuf {
    dir.join(format!("{segment}.idx"))
}

pub(super) fn temporary_path(dir: &Path, segment: SegmentId, what: &str) -> PathBuf {
    dir.join(format!("{segment}.{what}.tmp"))
}
