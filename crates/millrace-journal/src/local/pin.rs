//! Copies of a running journal: what is committed at one time, held until it is copied.
//!
//! A pin holds the segments' files, not their names: a segment that is truncated meanwhile loses its
//! name at once, and its space when the pin lets go of it. Its file is never used again before, and
//! what is in front of the committed end of the last segment is never written to. So the copy is a
//! prefix of the log that ends with a whole frame, and neither appends nor maintenance wait for it.
//! It reads past the page cache, a little at a time, for the reasons that [`super::ahead`] gives.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::LocalJournal;
use super::segment::{Segment, SegmentHeader, index_path, segment_path};
use crate::fs::{BLOCK_BYTES, File, FileSystem, first_block};
use crate::journal::{Pin, PutFile};
use crate::position::{Durability, Position, SegmentId};

/// Read at once: a commit may have to wait for it.
const READ_BYTES: usize = 128 << 10;

/// Segments as they were at one time. See the module.
pub(super) struct PinnedSegments {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    durability: Durability,
    /// Oldest first, with the committed bytes of each.
    segments: VecDeque<(Arc<Segment>, u32)>,
    tail: Position,
}

/// The length of the file of a segment that begins so: a copy holds only the bytes in use. None if
/// that is no segment's header.
#[must_use]
pub fn segment_file_bytes(start: &[u8]) -> Option<u64> {
    SegmentHeader::decode(start).map(|header| u64::from(header.segment_bytes))
}

impl LocalJournal {
    pub(super) fn pin_segments(&self) -> PinnedSegments {
        let state = self.state();
        let committed =
            |segment: &Arc<Segment>| (Arc::clone(segment), segment.end.load(Ordering::Acquire));
        let segments: VecDeque<_> = state.segments.values().map(committed).collect();
        drop(state);
        let tail = segments.back().map(|(last, end)| Position::new(last.header.segment, *end));
        PinnedSegments {
            fs: Arc::clone(&self.fs),
            dir: self.dir.clone(),
            durability: self.options.durability,
            segments,
            tail: tail.unwrap_or(self.opened.tail),
        }
    }
}

impl Pin for PinnedSegments {
    fn tail(&self) -> Position {
        self.tail
    }

    fn segments(&self) -> usize {
        self.segments.len()
    }

    fn copy(mut self: Box<Self>, put: &mut PutFile<'_>) -> io::Result<()> {
        while let Some((segment, end)) = self.segments.pop_front() {
            let id = segment.header.segment;
            // Without its sidecar, a start on the copy would read the segment.
            if !self.segments.is_empty() {
                self.copy_sidecar(id, put)?;
            }
            let mut reader = PinnedReader::new(self.file(&segment), end);
            put(&format!("{id}.seg"), u64::from(end), &mut reader)?;
        }
        Ok(())
    }
}

impl PinnedSegments {
    fn copy_sidecar(&self, id: SegmentId, put: &mut PutFile<'_>) -> io::Result<()> {
        let file = match self.fs.open(&index_path(&self.dir, id)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let bytes = file.size()?;
        let end = u32::try_from(bytes).map_err(io::Error::other)?;
        put(&format!("{id}.idx"), bytes, &mut PinnedReader::new(file, end))
    }

    /// Past the page cache if that is possible; but not where commits leave changes in it.
    fn file(&self, segment: &Segment) -> Arc<dyn File> {
        let path = segment_path(&self.dir, segment.header.segment);
        let direct = match self.durability {
            Durability::Fsync => self.fs.open_direct(&path).ok(),
            Durability::Os | Durability::Memory => None,
        };
        let is_read = |file: &Arc<dyn File>| PinnedReader::new(Arc::clone(file), 1).fill().is_ok();
        direct.filter(is_read).unwrap_or_else(|| Arc::clone(&segment.file))
    }
}

/// The first bytes of a file, all of which are there.
struct PinnedReader {
    file: Arc<dyn File>,
    end: u64,
    /// Of what was read last.
    start: u64,
    memory: Vec<u8>,
    /// In `memory`: what was read and not taken yet.
    unread: std::ops::Range<usize>,
}

impl PinnedReader {
    fn new(file: Arc<dyn File>, end: u32) -> Self {
        let memory = vec![0; READ_BYTES + BLOCK_BYTES];
        Self { file, end: u64::from(end), start: 0, memory, unread: 0..0 }
    }

    /// Reads whole blocks: the last one beyond the end.
    fn fill(&mut self) -> io::Result<()> {
        let wanted = (self.end - self.start).min(READ_BYTES as u64) as usize;
        let first = first_block(&self.memory);
        let blocks = &mut self.memory[first..][..wanted.next_multiple_of(BLOCK_BYTES)];
        if self.file.read_at(blocks, self.start)? < wanted {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.start += wanted as u64;
        self.unread = first..first + wanted;
        Ok(())
    }
}

impl Read for PinnedReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.unread.is_empty() && self.start < self.end {
            self.fill()?;
        }
        let length = self.unread.len().min(buffer.len());
        let taken = self.unread.start..self.unread.start + length;
        buffer[..length].copy_from_slice(&self.memory[taken]);
        self.unread.start += length;
        Ok(length)
    }
}
