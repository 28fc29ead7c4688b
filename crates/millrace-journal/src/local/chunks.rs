//! The chunks that are known: what was wanted of them, and what was read.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::fs::File;
use crate::position::SegmentId;

/// Records wanted of a chunk that lead to the next one.
const LEADING_RECORDS: u32 = 2;
/// Kept in memory: 12 MiB.
pub(super) const CHUNKS: usize = 96;

#[derive(Default)]
pub(super) struct Chunks {
    pub(super) by_place: BTreeMap<ChunkId, Chunk>,
    /// Segments before this one were truncated.
    first_kept: SegmentId,
    /// Grows by one with each use of a chunk.
    uses: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ChunkId {
    pub(super) segment: SegmentId,
    pub(super) index: u32,
}

pub(super) struct Chunk {
    pub(super) contents: Contents,
    /// Wanted of it so far.
    records: u32,
    /// The next one was, too.
    pub(super) is_next_wanted: bool,
    /// The number of its last use.
    used: u64,
    /// Past the page cache; none before the first reading.
    pub(super) file: Option<Arc<dyn File>>,
}

pub(super) enum Contents {
    /// A record was read alone.
    Noticed,
    /// To be read ahead.
    Wanted,
    /// Somebody reads it.
    Reading,
    /// The disk has an error in it: records are read alone.
    Unreadable,
    Read(Part),
}

/// Committed bytes of a chunk.
#[derive(Clone)]
pub(super) struct Part {
    /// In the segment.
    pub(super) start: u32,
    pub(super) bytes: Bytes,
}

impl Chunks {
    /// A record of this chunk is wanted.
    pub(super) fn note_record(&mut self, id: ChunkId) {
        if let Some(chunk) = self.by_place.get_mut(&id) {
            self.uses += 1;
            chunk.used = self.uses;
            chunk.records = chunk.records.saturating_add(1);
        }
    }

    /// Whether enough was wanted of a chunk to expect that of the next.
    pub(super) fn leads_on(&self, id: Option<ChunkId>) -> bool {
        let chunk = id.and_then(|id| self.by_place.get(&id));
        chunk.is_some_and(|chunk| chunk.records >= LEADING_RECORDS)
    }

    pub(super) fn longest_wanted(&self) -> Option<ChunkId> {
        let wanted = self.by_place.iter().filter(|(_, chunk)| chunk.contents.is_wanted());
        wanted.min_by_key(|(_, chunk)| chunk.used).map(|(id, _)| *id)
    }

    /// Forgets truncated segments, for good: while a file is open its space does not come back.
    pub(super) fn forget_before(&mut self, segment: SegmentId) {
        self.by_place = self.by_place.split_off(&ChunkId { segment, index: 0 });
        self.first_kept = segment;
    }

    pub(super) fn is_kept(&self, segment: SegmentId) -> bool {
        segment >= self.first_kept
    }

    /// An open file of the segment.
    pub(super) fn file(&self, segment: SegmentId) -> Option<Arc<dyn File>> {
        let of_segment = ChunkId { segment, index: 0 }..=ChunkId { segment, index: u32::MAX };
        self.by_place.range(of_segment).find_map(|(_, chunk)| chunk.file.clone())
    }

    /// Sets what is known of a chunk. The one not used for longest makes room.
    pub(super) fn insert(&mut self, id: ChunkId, contents: Contents) {
        if let Some(chunk) = self.by_place.get_mut(&id) {
            chunk.contents = contents;
            return;
        }
        if self.by_place.len() >= CHUNKS {
            let idle = self.by_place.iter().filter(|(_, chunk)| !chunk.contents.is_reading());
            let oldest = idle.min_by_key(|(_, chunk)| chunk.used).map(|(id, _)| *id);
            oldest.and_then(|oldest| self.by_place.remove(&oldest));
        }
        self.uses += 1;
        let records = u32::from(!contents.is_wanted());
        let used = self.uses;
        self.by_place
            .insert(id, Chunk { contents, records, is_next_wanted: false, used, file: None });
    }
}

impl Chunk {
    /// Whether the next one is to be read ahead now.
    pub(super) fn is_leading(&self) -> bool {
        self.records >= LEADING_RECORDS && !self.is_next_wanted
    }
}

impl ChunkId {
    pub(super) fn next(self) -> ChunkId {
        ChunkId { index: self.index.saturating_add(1), ..self }
    }

    pub(super) fn previous(self) -> Option<ChunkId> {
        Some(ChunkId { index: self.index.checked_sub(1)?, ..self })
    }
}

impl Contents {
    pub(super) fn is_wanted(&self) -> bool {
        matches!(self, Contents::Wanted)
    }

    pub(super) fn is_reading(&self) -> bool {
        matches!(self, Contents::Reading)
    }
}

impl Part {
    pub(super) fn find(&self, range: &Range<u32>) -> Option<Bytes> {
        let from = range.start.checked_sub(self.start)? as usize;
        let to = range.end.checked_sub(self.start)? as usize;
        (to <= self.bytes.len()).then(|| self.bytes.slice(from..to))
    }
}
