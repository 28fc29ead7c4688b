//! From what recovery found to the journal that goes on.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Mutex, OnceLock, RwLock};

use super::ahead::ReadAhead;
use super::blocks::{BlockFile, TailBlock};
use super::draft::Draft;
use super::recover::{End, no_segment};
use super::sealed::Sealed;
use super::segment::{Segment, Zeroed, segment_path};
use super::survey::Found;
use super::{Active, LocalJournal, LocalOptions, Removals, Spare, State, placement_in};
use crate::error::OpenError;
use crate::fs::{BLOCK_BYTES, FileSystem};
use crate::position::{Opened, Position, SegmentId};

/// The log as it was found and mended.
pub(super) struct Recovered {
    /// In order, without a gap.
    pub(super) segments: Vec<Found>,
    pub(super) spares: BTreeMap<SegmentId, Spare>,
    /// Of all segments but the last.
    pub(super) sealed: Sealed,
    /// The last segment's.
    pub(super) draft: Draft,
    pub(super) end: End,
}

impl Recovered {
    /// The journal that goes on at its end; its epoch is still the last one's.
    pub(super) fn into_journal(
        self,
        fs: Arc<dyn FileSystem>,
        dir: &Path,
        options: LocalOptions,
        lock: Box<dyn Send + Sync>,
    ) -> Result<LocalJournal, OpenError> {
        let Self { segments: found, spares, sealed, draft, end } = self;
        let placement = placement_in(options.segment_bytes);
        let ends = sealed.ends.into_iter().chain([end.stop.offset]);
        let segments: Vec<Arc<Segment>> = found
            .into_iter()
            .zip(ends)
            .map(|(found, end)| Arc::new(Segment::found(found, end)))
            .collect();
        let first = segments.first().ok_or_else(no_segment)?.header.segment;
        let last = Arc::clone(segments.last().ok_or_else(no_segment)?);
        let last_id = last.header.segment;
        let tail = Position::new(last_id, end.stop.offset);
        let ready_until = spares.keys().next_back().map_or(last_id, |id| *id);
        let salt = last.header.salt;
        let last_path = segment_path(dir, last_id);
        let blocks = BlockFile::open(&*fs, &last_path, &last.file, options.durability)
            .map_err(OpenError::io("opening the last segment"))?;
        let draft = Arc::new(draft);
        let mut drafts = sealed.drafts;
        drafts.insert(last_id, Arc::clone(&draft));
        let mut index_bytes = sealed.index_bytes;
        index_bytes.extend(drafts.iter().map(|(id, draft)| (*id, draft.file_bytes())));
        let tail_block = TailBlock::read(&*last.file, tail.offset())
            .map_err(OpenError::io("reading the last block"))?;
        Ok(LocalJournal {
            fs,
            dir: dir.to_owned(),
            options,
            placement,
            salt,
            opened: Opened {
                epoch: end.stop.chain.epoch,
                first: placement.start(first),
                tail,
                torn_tail: end.torn_tail,
            },
            opened_chain: end.stop.chain,
            active: Mutex::new(Active {
                segment: last,
                chain: end.stop.chain,
                tail,
                blocks: Arc::clone(&blocks),
                tail_block,
                draft: Arc::clone(&draft),
            }),
            preparing: Mutex::default(),
            state: RwLock::new(State {
                segments: segments
                    .into_iter()
                    .map(|segment| (segment.header.segment, segment))
                    .collect(),
                active_blocks: blocks,
                spares,
                unindexed: sealed.unindexed,
                drafts,
                doomed: VecDeque::new(),
                released: VecDeque::new(),
                removals: Removals::default(),
                index_bytes,
            }),
            ahead: ReadAhead::new(options.segment_bytes),
            ready_until: AtomicU32::new(ready_until.0),
            is_full: AtomicBool::new(false),
            failed: OnceLock::new(),
            _lock: lock,
        })
    }
}

impl Segment {
    fn found(found: Found, end: u32) -> Self {
        Self {
            header: found.header,
            file: found.file,
            end: AtomicU32::new(end),
            flushed: AtomicU32::new(end),
            // Frames reach this far; what is behind may be zeroed or only set aside. The block in
            // which they end is written whole with the next.
            zeroed: Zeroed::up_to(end.next_multiple_of(BLOCK_BYTES as u32)),
        }
    }
}
