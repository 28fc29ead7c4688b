//! A log to be damaged and repaired, and what may be lost by that.
#![allow(dead_code, reason = "each test file uses a part")]

use std::ops::Range;
use std::sync::Arc;

use millrace_journal::{Durability, RepairReport, SegmentId, SimFileSystem, check, repair};

use super::{
    Opening, SEGMENT_BYTES, Seen, assert_readable, dir, open, open_with, segment_path, store,
};

/// Segments with groups of one to three records, and what replay shows of them.
pub(crate) struct Log {
    pub(crate) fs: SimFileSystem,
    pub(crate) all: Vec<Seen>,
    pub(crate) active: SegmentId,
}

impl Log {
    pub(crate) fn new(batches: u64) -> Self {
        Self::of(batches, SEGMENT_BYTES)
    }

    pub(crate) fn of(batches: u64, segment_bytes: u32) -> Self {
        let fs = SimFileSystem::new(1);
        let open = |fs: &SimFileSystem| open_with(fs, Durability::Fsync, segment_bytes);
        let Opening { group_commit, .. } = open(&fs).unwrap();
        let mut next = 0;
        for batch in 0..batches {
            let ids: Vec<u64> = (next..=next + batch % 3).collect();
            next += ids.len() as u64;
            store(&group_commit, batch, &ids).unwrap();
        }
        let active = group_commit.tail().segment();
        drop(group_commit);
        let all = open(&fs.fork()).unwrap().seen;
        assert_eq!(all.len() as u64, next);
        Self { fs, all, active }
    }

    /// The same with other bytes in a segment.
    pub(crate) fn with(&self, segment: u32, change: impl FnOnce(&mut [u8])) -> SimFileSystem {
        let fs = self.fs.fork();
        alter(&fs, segment, change);
        fs
    }

    /// The bytes of the frame that a record stands in.
    pub(crate) fn frame_of(&self, victim: &Seen) -> Range<usize> {
        let mut batch = self.all.iter().filter(|seen| seen.batch == victim.batch);
        let first = batch.next().unwrap();
        let last = batch.next_back().unwrap_or(first);
        let end = last.position.offset() + last.record_len;
        first.position.offset() as usize - 48..end.next_multiple_of(8) as usize
    }

    /// Records whose frames these bytes meet.
    pub(crate) fn hit(&self, segment: u32, bytes: &Range<usize>) -> Vec<Seen> {
        let is_hit = |seen: &&Seen| {
            let frame = self.frame_of(seen);
            seen.position.segment().0 == segment
                && frame.start < bytes.end
                && bytes.start < frame.end
        };
        self.all.iter().filter(is_hit).cloned().collect()
    }
}

/// Changes bytes of a segment.
pub(crate) fn alter(fs: &SimFileSystem, segment: u32, change: impl FnOnce(&mut [u8])) {
    let mut bytes = fs.contents(&segment_path(segment)).unwrap();
    change(&mut bytes);
    fs.plant(&segment_path(segment), &bytes);
}

/// Repairs, and opens what that leaves after a loss of power. Whatever is there can be read, has its
/// place, and can be written to.
pub(crate) fn repaired(fs: &SimFileSystem) -> (RepairReport, Vec<Seen>) {
    let report = repair(Arc::new(fs.clone()), dir()).unwrap();
    let after = check(fs, dir()).unwrap();
    assert!(after.is_sound(), "{report:?}\n{after:?}");
    let again = repair(Arc::new(fs.fork()), dir()).unwrap();
    assert!(again.gaps.is_empty() && again.headers.is_empty() && again.cut.is_none(), "{again:?}");
    let opening = open(&fs.crashed(1)).unwrap();
    assert_readable(&opening);
    store(&opening.group_commit, 1000, &[1000]).unwrap();
    (report, opening.seen)
}

pub(crate) fn without(all: &[Seen], lost: &[Seen]) -> Vec<Seen> {
    all.iter().filter(|seen| !lost.contains(seen)).cloned().collect()
}
