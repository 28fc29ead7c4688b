//! Appending: one frame, one write, one sync.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::blocks::{BlockFile, TailBlock};
use super::draft::Draft;
use super::segment::{Segment, SegmentHeader, end_mark};
use super::{LocalJournal, lock};
use crate::error::AppendError;
use crate::frame::{Chain, Frame, SEGMENT_HEADER_BYTES, Verdict};
use crate::fs::File;
use crate::journal::Journal;
use crate::position::{Durability, Position, SegmentId};

/// What only the appender touches.
pub(super) struct Active {
    pub(super) segment: Arc<Segment>,
    pub(super) chain: Chain,
    pub(super) tail: Position,
    pub(super) blocks: Arc<BlockFile>,
    pub(super) tail_block: TailBlock,
    /// Of the segment's sidecar.
    pub(super) draft: Arc<Draft>,
}

impl LocalJournal {
    pub(super) fn append_frame(&self, frame: &Frame) -> Result<(), AppendError> {
        let mut active = lock(&self.active);
        if let Some(reason) = self.failure() {
            return Err(AppendError::Unknown(reason));
        }
        let appended = self.append_behind(&mut active, frame);
        if let Err(AppendError::Unknown(reason)) = &appended {
            self.fail(Arc::clone(reason));
        }
        appended
    }

    /// Appends what follows what is there.
    fn append_behind(&self, active: &mut Active, frame: &Frame) -> Result<(), AppendError> {
        let Verdict::Valid(chain) = active.chain.judge(&frame.header, frame.crc) else {
            return Err(AppendError::Fenced(active.chain.epoch));
        };
        let place = frame.header.place;
        if place.segment() != active.segment.header.segment {
            let next = active.segment.header.segment.next();
            assert!(place == self.placement.start(next), "frame at {place} skips a segment");
            self.activate(active, next)?;
        }
        assert!(place == active.tail, "frame at {place} does not follow {}", active.tail);
        let segment_bytes = active.segment.header.segment_bytes;
        assert!(frame.end().offset() <= segment_bytes, "frame exceeds its segment");
        let mark = end_mark(frame.end().offset(), segment_bytes);
        active.segment.zeroed.claim(frame.end().offset() + mark.len() as u32);
        let Active { blocks, tail_block, .. } = active;
        tail_block
            .write(blocks, place.offset(), [&frame.head, &frame.body], mark)
            .map_err(|error| unknown(&error))?;
        self.sync(&*active.segment.file)?;
        if let Some(reason) = self.failure() {
            // A sync in the background has failed meanwhile: this one may have nothing to tell.
            return Err(AppendError::Unknown(reason));
        }
        active.chain = chain;
        active.tail = frame.end();
        active.segment.end.store(active.tail.offset(), Ordering::Release);
        active.draft.add(frame);
        Ok(())
    }

    /// Starts the segment after the active one: its header is durable before any frame is in it,
    /// so an unreadable header with frames behind it is damage, not a crash.
    fn activate(&self, active: &mut Active, next: SegmentId) -> Result<(), AppendError> {
        self.prepare(next).map_err(|refusal| unavailable(&refusal))?;
        let spare = self.state_mut().spares.remove(&next);
        let spare = spare.ok_or_else(|| unavailable(&"segment was not prepared"))?;
        let header = SegmentHeader {
            segment: next,
            salt: self.salt,
            start: active.chain,
            segment_bytes: self.options.segment_bytes,
        };
        if self.options.durability != Durability::Fsync {
            // The new header says where the old segment ends, so that must not be lost.
            active.segment.file.sync_data().map_err(|error| unknown(&error))?;
        }
        let mark = end_mark(SEGMENT_HEADER_BYTES as u32, header.segment_bytes);
        spare.zeroed.claim((SEGMENT_HEADER_BYTES + mark.len()) as u32);
        active.tail_block.clear();
        active
            .tail_block
            .write(&spare.blocks, 0, [&header.encode(), &[]], mark)
            .map_err(|error| unknown(&error))?;
        spare.file.sync_data().map_err(|error| unknown(&error))?;
        let segment = Arc::new(Segment {
            header,
            file: spare.file,
            end: AtomicU32::new(SEGMENT_HEADER_BYTES as u32),
            flushed: AtomicU32::new(0),
            zeroed: spare.zeroed,
        });
        let mut state = self.state_mut();
        state.unindexed.push_back(active.segment.header.segment);
        state.segments.insert(next, Arc::clone(&segment));
        state.active_blocks = Arc::clone(&spare.blocks);
        let draft = Arc::new(Draft::new());
        state.drafts.insert(next, Arc::clone(&draft));
        drop(state);
        active.draft = draft;
        active.segment = segment;
        active.blocks = spare.blocks;
        active.tail = self.placement.start(next);
        Ok(())
    }

    fn sync(&self, file: &dyn File) -> Result<(), AppendError> {
        match self.options.durability {
            Durability::Fsync => file.sync_data().map_err(|error| unknown(&error)),
            Durability::Os | Durability::Memory => Ok(()),
        }
    }
}

fn unknown(reason: &dyn std::fmt::Display) -> AppendError {
    AppendError::Unknown(reason.to_string().into())
}

fn unavailable(reason: &dyn std::fmt::Display) -> AppendError {
    AppendError::Unavailable(reason.to_string().into())
}
