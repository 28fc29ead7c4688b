//! Reading records, and ahead: whoever drains a backlog reads one after the other.
//!
//! What was written past the page cache is not in it, and the kernel's own reading ahead may be
//! set to megabytes, for which the next commit would have to wait.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;

use super::segment::segment_path;
use super::{LocalJournal, lock};
use crate::error::ReadError;
use crate::fs::{BLOCK_BYTES, File, FileSystem, first_block};
use crate::position::{Durability, Position, SegmentId};

/// Read at once where records are read one after the other.
const RUN_BYTES: usize = 256 << 10;
/// What lies between such records at most: those of other queues, and changes.
const GAP_BYTES: u64 = 64 << 10;
/// Longer records gain nothing.
const LONG_RECORD_BYTES: u32 = RUN_BYTES as u32 / 4;
/// Readers that are told apart: queues that are drained at the same time.
const READERS: usize = 8;

/// What each of some readers has in front of it.
#[derive(Default)]
pub(super) struct ReadAhead {
    /// The one used last comes last.
    runs: Mutex<Vec<Run>>,
    /// The file system does not read past the page cache.
    is_refused: AtomicBool,
}

/// A part of a segment, and how to read what follows it.
struct Run {
    start: Position,
    bytes: Bytes,
    /// Past the page cache; none before the first reading ahead.
    direct: Option<Arc<dyn File>>,
}

/// Where a segment's bytes are.
struct Place<'a> {
    fs: &'a dyn FileSystem,
    dir: &'a Path,
    /// Committed bytes of the segment.
    limit: u32,
}

impl LocalJournal {
    pub(super) fn read_record(
        &self,
        position: Position,
        record_len: u32,
    ) -> Result<Bytes, ReadError> {
        let segment = self.segment(position.segment()).ok_or(ReadError::Gone(position))?;
        let limit = segment.end.load(Ordering::Acquire);
        let end = u64::from(position.offset()) + u64::from(record_len);
        if end > u64::from(limit) {
            return Err(ReadError::Gone(position));
        }
        // Where nothing is synced, what is in the page cache would have to be written first.
        if self.options.durability == Durability::Fsync {
            let place = Place { fs: &*self.fs, dir: &self.dir, limit };
            if let Some(bytes) = self.ahead.read(&place, position, record_len) {
                return Ok(bytes);
            }
        }
        let mut bytes = vec![0; record_len as usize];
        let read = segment
            .file
            .read_at(&mut bytes, u64::from(position.offset()))
            .map_err(|source| ReadError::Io { position, source })?;
        if read < bytes.len() {
            return Err(ReadError::Damaged(position));
        }
        Ok(bytes.into())
    }
}

impl ReadAhead {
    /// The bytes of a record, if they were read ahead or follow closely on what was: then they are
    /// read together with what follows. Readers wait for one another meanwhile: they mostly want
    /// what is just being read. None: to be read alone.
    fn read(&self, place: &Place<'_>, position: Position, record_len: u32) -> Option<Bytes> {
        if record_len > LONG_RECORD_BYTES || self.is_refused.load(Ordering::Relaxed) {
            return None;
        }
        let mut runs = lock(&self.runs);
        let found = runs.iter().rposition(|run| run.leads_to(position));
        let Some(mut run) = found.map(|index| runs.remove(index)) else {
            if runs.len() == READERS {
                runs.remove(0);
            }
            let start = position.plus(record_len);
            runs.push(Run { start, bytes: Bytes::new(), direct: None });
            return None;
        };
        let mut bytes = run.find(position, record_len);
        if bytes.is_none() {
            match run.advance(place, position) {
                Ok(()) => bytes = run.find(position, record_len),
                // Read alone, it shows what is wrong.
                Err(error) => {
                    let is_refused = error.kind() == io::ErrorKind::InvalidInput;
                    self.is_refused.fetch_or(is_refused, Ordering::Relaxed);
                    return None;
                }
            }
        }
        runs.push(run);
        bytes
    }

    /// Lets the files of truncated segments go: while one is open its space does not come back.
    pub(super) fn forget_before(&self, segment: SegmentId) {
        lock(&self.runs).retain(|run| run.start.segment() >= segment);
    }
}

impl Run {
    fn end(&self) -> Position {
        self.start.plus(self.bytes.len() as u32)
    }

    fn leads_to(&self, position: Position) -> bool {
        position >= self.start
            && position.segment() == self.start.segment()
            && position.0 <= self.end().0 + GAP_BYTES
    }

    fn find(&self, position: Position, record_len: u32) -> Option<Bytes> {
        let start = usize::try_from(position.0.checked_sub(self.start.0)?).ok()?;
        let end = start.checked_add(record_len as usize)?;
        (end <= self.bytes.len()).then(|| self.bytes.slice(start..end))
    }

    /// Reads from the block of `position` on.
    fn advance(&mut self, place: &Place<'_>, position: Position) -> io::Result<()> {
        let segment = position.segment();
        let file = match &self.direct {
            Some(file) => Arc::clone(file),
            None => place.fs.open_direct(&segment_path(place.dir, segment))?,
        };
        let start = position.offset() - position.offset() % BLOCK_BYTES as u32;
        let mut memory = vec![0; RUN_BYTES + BLOCK_BYTES];
        let first = first_block(&memory);
        let read = file.read_at(&mut memory[first..][..RUN_BYTES], u64::from(start))?;
        let committed = place.limit.saturating_sub(start) as usize;
        self.start = Position::new(segment, start);
        self.bytes = Bytes::from(memory).slice(first..first + read.min(committed));
        self.direct = Some(file);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::SimFileSystem;

    const SEGMENT: SegmentId = SegmentId(7);
    const BYTES: u32 = 1 << 20;
    const RECORD: u32 = 1_100;

    fn disk() -> (SimFileSystem, Vec<u8>) {
        let fs = SimFileSystem::new(1);
        let contents: Vec<u8> = (0..BYTES).map(|at| (at / 7) as u8).collect();
        fs.plant(&segment_path(Path::new("/"), SEGMENT), &contents);
        (fs, contents)
    }

    /// Reads one record after the other, each `gap` behind the last. How many came from what was
    /// read ahead?
    fn read_all(fs: &SimFileSystem, contents: &[u8], gap: u32, limit: u32) -> u32 {
        let ahead = ReadAhead::default();
        let place = Place { fs, dir: Path::new("/"), limit };
        let (mut at, mut found) = (64, 0);
        while at + RECORD <= limit {
            if let Some(bytes) = ahead.read(&place, Position::new(SEGMENT, at), RECORD) {
                assert_eq!(bytes, contents[at as usize..][..RECORD as usize]);
                found += 1;
            }
            at += RECORD + gap;
        }
        found
    }

    #[test]
    fn all_but_the_first_of_a_sequence_are_read_ahead() {
        let (fs, contents) = disk();

        assert_eq!(read_all(&fs, &contents, 0, BYTES), (BYTES - 64) / RECORD - 1);
        assert_eq!(read_all(&fs, &contents, 60_000, BYTES), 17);
        assert_eq!(read_all(&fs, &contents, 0, 9_999), 8);
    }

    #[test]
    fn what_is_far_apart_is_read_alone() {
        let (fs, contents) = disk();

        assert_eq!(read_all(&fs, &contents, 70_000, BYTES), 0);
    }

    #[test]
    fn readers_do_not_disturb_one_another() {
        let (fs, contents) = disk();
        let ahead = ReadAhead::default();
        let place = Place { fs: &fs, dir: Path::new("/"), limit: BYTES };
        let mut found = 0;
        for step in 0..50 {
            for reader in 0..4 {
                let at = reader * 200_000 + step * RECORD;
                if let Some(bytes) = ahead.read(&place, Position::new(SEGMENT, at), RECORD) {
                    assert_eq!(bytes, contents[at as usize..][..RECORD as usize]);
                    found += 1;
                }
            }
        }

        assert_eq!(found, 4 * 49);
    }

    #[test]
    fn files_of_truncated_segments_are_let_go() {
        let (fs, _) = disk();
        let ahead = ReadAhead::default();
        let place = Place { fs: &fs, dir: Path::new("/"), limit: BYTES };
        for at in [64, 64 + RECORD] {
            ahead.read(&place, Position::new(SEGMENT, at), RECORD);
        }

        ahead.forget_before(SEGMENT);
        assert_eq!(lock(&ahead.runs).len(), 1);
        ahead.forget_before(SEGMENT.next());
        assert_eq!(lock(&ahead.runs).len(), 0);
    }

    #[test]
    fn where_it_cannot_be_done_records_are_read_alone() {
        let (fs, contents) = disk();
        fs.refuse_direct();

        assert_eq!(read_all(&fs, &contents, 0, BYTES), 0);
    }
}
