//! Chunks of segments, read whole: whoever drains a backlog reads one record after the other.
//!
//! ```text
//!  first record in a chunk     noticed: the record is read alone
//!  second                      a part of the chunk is read
//!  beyond that part,           the whole chunk is read, and the next one before it is asked for
//!  or behind such a chunk
//! ```
//! So that little is read in vain where records that are close to one another were so by chance,
//! and nobody waits for the disk where they were not. Several queues, and the groups of a FIFO
//! queue that was sent to in turns, have each their own chunks.
//!
//! Past the page cache: what was written past it is not in it, and the kernel's own reading ahead
//! may be set to megabytes, for which the next commit would have to wait.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::chunks::{ChunkId, Chunks, Contents, Part};
use super::lock;
use super::segment::segment_path;
use crate::fs::{BLOCK_BYTES, File, FileSystem, first_block};
use crate::position::{Position, SegmentId};

/// Of large segments; a chunk is a sixteenth of a small one.
const MOST_CHUNK_BYTES: u32 = 128 << 10;
/// Read of a chunk of which a second record is wanted.
const FIRST_PART_BYTES: u32 = 16 << 10;

/// The chunks of which something was wanted of late.
pub(super) struct ReadAhead {
    chunk_bytes: u32,
    chunks: Mutex<Chunks>,
    /// With `chunks`: something was read, or could not be.
    read: Condvar,
    /// A chunk is to be read ahead. Changed with `chunks` held.
    has_wanted: AtomicBool,
    /// The file system does not read past the page cache.
    is_refused: AtomicBool,
}

/// Where a segment's bytes are.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) fs: &'a dyn FileSystem,
    pub(super) dir: &'a Path,
    /// Committed bytes of the segment.
    pub(super) limit: u32,
}

impl ReadAhead {
    /// For segments of this size.
    pub(super) fn new(segment_bytes: u32) -> Self {
        let blocks = (segment_bytes / 16).min(MOST_CHUNK_BYTES) / BLOCK_BYTES as u32;
        Self {
            chunk_bytes: blocks.max(1) * BLOCK_BYTES as u32,
            chunks: Mutex::default(),
            read: Condvar::new(),
            has_wanted: AtomicBool::new(false),
            is_refused: AtomicBool::new(false),
        }
    }

    /// The bytes of a record. None: to be read alone, which also shows what is wrong.
    pub(super) fn read(&self, place: Place<'_>, at: Position, record_len: u32) -> Option<Bytes> {
        // Longer ones gain nothing.
        if record_len > self.chunk_bytes / 2 || self.is_refused.load(Ordering::Relaxed) {
            return None;
        }
        let start = at.offset();
        let range = start..start.checked_add(record_len)?;
        let id = ChunkId { segment: at.segment(), index: start / self.chunk_bytes };
        let boundary = self.start(id.next());
        if range.end <= boundary {
            return self.find(place, id, range);
        }
        let head = self.find(place, id, start..boundary)?;
        let tail = self.find(place, id.next(), boundary..range.end)?;
        Some([head, tail].concat().into())
    }

    /// Whether a `step` would read something.
    pub(super) fn has_wanted(&self) -> bool {
        self.has_wanted.load(Ordering::Relaxed)
    }

    /// Reads a chunk before it is asked for. False if none is wanted. `place_of` says where a
    /// segment is, unless it is gone.
    pub(super) fn step<'a>(&self, place_of: impl Fn(SegmentId) -> Option<Place<'a>>) -> bool {
        let mut chunks = lock(&self.chunks);
        self.has_wanted.store(false, Ordering::Relaxed);
        let Some(id) = chunks.longest_wanted() else { return false };
        if let Some(place) = place_of(id.segment) {
            self.load(chunks, place, id, self.start(id)..self.start(id.next()));
        } else {
            chunks.by_place.remove(&id);
        }
        true
    }

    /// Forgets what was read of a segment.
    pub(super) fn forget(&self, segment: SegmentId) {
        lock(&self.chunks).by_place.retain(|id, _| id.segment != segment);
    }

    /// Lets the files of truncated segments go.
    pub(super) fn forget_before(&self, segment: SegmentId) {
        lock(&self.chunks).forget_before(segment);
    }

    fn start(&self, id: ChunkId) -> u32 {
        id.index.saturating_mul(self.chunk_bytes)
    }

    /// A part of a segment that is in this chunk.
    fn find(&self, place: Place<'_>, id: ChunkId, range: Range<u32>) -> Option<Bytes> {
        let whole = self.start(id)..self.start(id.next());
        let mut chunks = lock(&self.chunks);
        chunks.note_record(id);
        let to_read = loop {
            // A reader may come late: it found the segment just before that was truncated.
            if !chunks.is_kept(id.segment) {
                return None;
            }
            let Some(chunk) = chunks.by_place.get_mut(&id) else {
                if chunks.leads_on(id.previous()) {
                    break whole;
                }
                chunks.insert(id, Contents::Noticed);
                return None;
            };
            match &chunk.contents {
                Contents::Noticed => {
                    if chunks.leads_on(id.previous()) {
                        break whole;
                    }
                    let some_records = FIRST_PART_BYTES.max(4 * (range.end - range.start));
                    let first = range.start - range.start % BLOCK_BYTES as u32;
                    break first..whole.end.min(first.saturating_add(some_records));
                }
                Contents::Wanted => break whole,
                Contents::Unreadable => return None,
                Contents::Reading => {
                    chunks = self.read.wait(chunks).unwrap_or_else(PoisonError::into_inner);
                }
                Contents::Read(part) => {
                    let Some(bytes) = part.find(&range) else { break whole };
                    let is_whole = part.start + part.bytes.len() as u32 >= whole.end;
                    if is_whole && chunk.is_leading() && whole.end < place.limit {
                        chunk.is_next_wanted = true;
                        self.want(&mut chunks, id.next());
                    }
                    return Some(bytes);
                }
            }
        };
        self.load(chunks, place, id, to_read)?.find(&range)
    }

    fn want(&self, chunks: &mut Chunks, id: ChunkId) {
        let known = chunks.by_place.get(&id).map(|chunk| &chunk.contents);
        if matches!(known, None | Some(Contents::Noticed)) {
            chunks.insert(id, Contents::Wanted);
            self.has_wanted.store(true, Ordering::Relaxed);
        }
    }

    /// Reads a part of a chunk, with the lock released, and shares it.
    fn load(
        &self,
        mut chunks: MutexGuard<'_, Chunks>,
        place: Place<'_>,
        id: ChunkId,
        range: Range<u32>,
    ) -> Option<Part> {
        let file = chunks.file(id.segment);
        chunks.insert(id, Contents::Reading);
        drop(chunks);
        let mut reading = ReadingEnds { ahead: self, id, is_shared: false };
        let opened = match file {
            Some(file) => Ok(file),
            None => place.fs.open_direct(&segment_path(place.dir, id.segment)),
        };
        let file = opened.inspect_err(|error| self.note_refusal(error)).ok()?;
        let read = read_part(&*file, place.limit, range);
        let mut chunks = lock(&self.chunks);
        // Unless it was forgotten meanwhile.
        let chunk = chunks.by_place.get_mut(&id);
        match read {
            Ok(part) => {
                if let Some(chunk) = chunk {
                    chunk.contents = Contents::Read(part.clone());
                    chunk.file = Some(file);
                    reading.is_shared = true;
                }
                Some(part)
            }
            Err(error) => {
                self.note_refusal(&error);
                if let Some(chunk) = chunk {
                    chunk.contents = Contents::Unreadable;
                }
                None
            }
        }
    }

    fn note_refusal(&self, error: &io::Error) {
        let is_refused = error.kind() == io::ErrorKind::InvalidInput;
        self.is_refused.fetch_or(is_refused, Ordering::Relaxed);
    }
}

/// Whoever waits goes on, however a reading ends.
struct ReadingEnds<'a> {
    ahead: &'a ReadAhead,
    id: ChunkId,
    /// It has ended: what is being read there now, if anything, others read.
    is_shared: bool,
}

impl Drop for ReadingEnds<'_> {
    fn drop(&mut self) {
        let mut chunks = lock(&self.ahead.chunks);
        let chunk = chunks.by_place.get(&self.id);
        if !self.is_shared && chunk.is_some_and(|chunk| chunk.contents.is_reading()) {
            chunks.by_place.remove(&self.id);
        }
        drop(chunks);
        self.ahead.read.notify_all();
    }
}

/// Reads whole blocks of a segment, of which so many bytes are committed.
fn read_part(file: &dyn File, limit: u32, range: Range<u32>) -> io::Result<Part> {
    let committed = range.end.min(limit).saturating_sub(range.start) as usize;
    let length = committed.next_multiple_of(BLOCK_BYTES);
    let mut memory = vec![0; length + BLOCK_BYTES];
    let first = first_block(&memory);
    let read = file.read_at(&mut memory[first..][..length], u64::from(range.start))?;
    let bytes = Bytes::from(memory).slice(first..first + read.min(committed));
    Ok(Part { start: range.start, bytes })
}

#[cfg(test)]
mod tests;
