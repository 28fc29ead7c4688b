//! Reading records, and ahead: whoever drains a backlog reads one after the other.
//!
//! What was written past the page cache is not in it, and the kernel's own reading ahead may be
//! set to megabytes, for which the next commit would have to wait.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;

use super::segment::{Segment, segment_path};
use super::{LocalJournal, lock};
use crate::error::ReadError;
use crate::fs::{BLOCK_BYTES, File, FileSystem, first_block};
use crate::position::{Durability, Position, SegmentId};

/// Read at once where records have been read one after the other for a while.
const RUN_BYTES: usize = 256 << 10;
/// Read at once where they begin to be: if it was chance, or there are more readers than are told
/// apart, little was read in vain.
const FIRST_RUN_BYTES: usize = 16 << 10;
/// How much longer each run is than the one before.
const GROWTH: usize = 4;
/// What lies between such records at most: those of other queues, and changes.
const GAP_BYTES: u64 = 64 << 10;
/// Longer records gain nothing.
const LONG_RECORD_BYTES: u32 = RUN_BYTES as u32 / 4;
/// Readers that are told apart: queues that are drained at the same time, and up to ten for each
/// FIFO queue whose groups were sent to in turns, since a receive takes several of one group.
/// Together they hold 8 MiB at most.
const READERS: usize = 32;

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
    /// To be read at once the next time.
    next_bytes: usize,
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
        let (segment, limit) = self.segment_of(position, record_len)?;
        // Where nothing is synced, what is in the page cache would have to be written first.
        if self.options.durability == Durability::Fsync {
            let place = Place { fs: &*self.fs, dir: &self.dir, limit };
            if let Some(bytes) = self.ahead.read(&place, position, record_len) {
                return Ok(bytes);
            }
        }
        read_alone(&segment, position, record_len)
    }

    /// Past what was read ahead, and past the page cache as far as it is clean.
    pub(super) fn read_from_disk(
        &self,
        position: Position,
        record_len: u32,
    ) -> Result<Bytes, ReadError> {
        let (segment, _) = self.segment_of(position, record_len)?;
        self.ahead.forget(position.segment());
        segment.file.forget_clean().map_err(|source| ReadError::Io { position, source })?;
        read_alone(&segment, position, record_len)
    }

    /// The segment that holds a committed record, and how many committed bytes it has.
    fn segment_of(
        &self,
        position: Position,
        record_len: u32,
    ) -> Result<(Arc<Segment>, u32), ReadError> {
        let segment = self.segment(position.segment()).ok_or(ReadError::Gone(position))?;
        let limit = segment.end.load(Ordering::Acquire);
        let end = u64::from(position.offset()) + u64::from(record_len);
        if end > u64::from(limit) {
            return Err(ReadError::Gone(position));
        }
        Ok((segment, limit))
    }
}

fn read_alone(segment: &Segment, position: Position, record_len: u32) -> Result<Bytes, ReadError> {
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

impl ReadAhead {
    /// The bytes of a record, if they were read ahead or follow closely on what was: then they are
    /// read together with what follows. Readers wait for one another meanwhile: they mostly want
    /// what is just being read. None: to be read alone.
    fn read(&self, place: &Place<'_>, position: Position, record_len: u32) -> Option<Bytes> {
        if record_len > LONG_RECORD_BYTES || self.is_refused.load(Ordering::Relaxed) {
            return None;
        }
        let mut runs = lock(&self.runs);
        let mut latest_first = runs.iter().enumerate().rev();
        let found =
            latest_first.find_map(|(index, run)| Some((index, run.find(position, record_len)?)));
        if let Some((index, bytes)) = found {
            runs[index..].rotate_left(1);
            return Some(bytes);
        }
        let leading = (0..runs.len()).filter(|index| runs[*index].leads_to(position));
        let Some(nearest) = leading.max_by_key(|index| runs[*index].end()) else {
            let direct = runs.iter().find(|run| run.start.segment() == position.segment());
            let direct = direct.and_then(|run| run.direct.clone());
            if runs.len() == READERS {
                runs.remove(0);
            }
            runs.push(Run::behind(position.plus(record_len), direct));
            return None;
        };
        let mut run = runs.remove(nearest);
        if let Err(error) = run.advance(place, position, record_len) {
            // Read alone, it shows what is wrong.
            let is_refused = error.kind() == io::ErrorKind::InvalidInput;
            self.is_refused.fetch_or(is_refused, Ordering::Relaxed);
            return None;
        }
        let bytes = run.find(position, record_len);
        runs.push(run);
        bytes
    }

    /// Forgets what was read of a segment.
    fn forget(&self, segment: SegmentId) {
        lock(&self.runs).retain(|run| run.start.segment() != segment);
    }

    /// Lets the files of truncated segments go: while one is open its space does not come back.
    pub(super) fn forget_before(&self, segment: SegmentId) {
        lock(&self.runs).retain(|run| run.start.segment() >= segment);
    }
}

impl Run {
    /// Nothing yet, in front of whoever reads on from there.
    fn behind(start: Position, direct: Option<Arc<dyn File>>) -> Run {
        Run { start, bytes: Bytes::new(), next_bytes: FIRST_RUN_BYTES, direct }
    }

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

    /// Reads from the block of `position` on, some records of this length at least.
    fn advance(
        &mut self,
        place: &Place<'_>,
        position: Position,
        record_len: u32,
    ) -> io::Result<()> {
        let segment = position.segment();
        let file = match &self.direct {
            Some(file) => Arc::clone(file),
            None => place.fs.open_direct(&segment_path(place.dir, segment))?,
        };
        let start = position.offset() - position.offset() % BLOCK_BYTES as u32;
        let some_records = (4 * record_len as usize).next_multiple_of(BLOCK_BYTES);
        let run_bytes = self.next_bytes.max(some_records);
        let mut memory = vec![0; run_bytes + BLOCK_BYTES];
        let first = first_block(&memory);
        let read = file.read_at(&mut memory[first..][..run_bytes], u64::from(start))?;
        self.next_bytes = (run_bytes * GROWTH).min(RUN_BYTES);
        let committed = place.limit.saturating_sub(start) as usize;
        self.start = Position::new(segment, start);
        self.bytes = Bytes::from(memory).slice(first..first + read.min(committed));
        self.direct = Some(file);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

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

    /// Reads in this order. How many came from what was read ahead, and by how many reads?
    fn read_in_order(positions: impl Iterator<Item = u32>) -> (usize, usize) {
        let (fs, contents) = disk();
        let ahead = ReadAhead::default();
        let place = Place { fs: &fs, dir: Path::new("/"), limit: BYTES };
        let (mut found, mut reads) = (0, HashSet::new());
        for at in positions {
            if let Some(bytes) = ahead.read(&place, Position::new(SEGMENT, at), RECORD) {
                assert_eq!(bytes, contents[at as usize..][..RECORD as usize]);
                found += 1;
            }
            let runs = lock(&ahead.runs);
            let read = runs.iter().filter(|run| !run.bytes.is_empty());
            reads.extend(read.map(|run| (run.start, run.bytes.len())));
        }
        (found, reads.len())
    }

    #[test]
    fn readers_close_to_one_another_share_what_is_read() {
        let (found, reads) =
            read_in_order((0..200).flat_map(|step| [50_000, 0].map(|first| first + step * RECORD)));

        assert_eq!(found, 398);
        assert!(reads <= 7, "{reads} reads");
    }

    #[test]
    fn one_who_lags_behind_does_not_take_away_what_is_read() {
        let lagging = |step: u32| [step + 10, step].map(|step| step * RECORD);
        let (found, reads) = read_in_order((0..800).flat_map(lagging));

        assert!(found >= 1_580, "{found} found");
        assert!(reads <= 15, "{reads} reads");
    }

    #[test]
    fn many_readers_in_turns_read_more_and_more_at_once() {
        let spaced = |step: u32| (0..10).map(move |reader| reader * 100_000 + step * RECORD);
        let (found, reads) = read_in_order((0..80).flat_map(spaced));

        assert_eq!(found, 10 * 79);
        assert!(reads <= 30, "{reads} reads");
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
