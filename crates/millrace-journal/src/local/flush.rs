//! Syncs ahead of the seal, where commits do not sync.
//!
//! A segment must be on disk before the header of the next, whatever the durability. Whoever commits
//! waits for that, and everybody with him: for a whole segment that is as long as hundreds of
//! commits. So the background has most of it written while it fills.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::segment::{Segment, segment_path};
use super::{LocalJournal, State};
use crate::position::Durability;

/// Parts of a segment that are synced one after the other.
const PARTS: u32 = 32;

impl LocalJournal {
    /// The active segment, if a part of it should be synced. With `Fsync` every commit does.
    pub(super) fn flush_due(&self, state: &State) -> Option<Arc<Segment>> {
        if self.options.durability == Durability::Fsync {
            return None;
        }
        let (_, active) = state.segments.last_key_value()?;
        let written = active.end.load(Ordering::Acquire);
        let waiting = written.saturating_sub(active.flushed.load(Ordering::Relaxed));
        (waiting >= active.header.segment_bytes / PARTS).then(|| Arc::clone(active))
    }

    pub(super) fn flush_step(&self, segment: &Segment) -> bool {
        self.flush(segment);
        true
    }

    /// Syncs what was committed so far. What a truncated segment held and is still needed was
    /// appended again; if that is not on disk, the segment must not go. False if it cannot be now.
    pub(super) fn flush_before_removal(&self) -> bool {
        if self.options.durability == Durability::Fsync {
            return true;
        }
        // All older ones were synced when they were sealed.
        let active = self.state().segments.last_key_value().map(|(_, active)| Arc::clone(active));
        active.is_some_and(|active| self.flush(&active))
    }

    fn flush(&self, segment: &Segment) -> bool {
        let written = segment.end.load(Ordering::Acquire);
        // Done or failed, nobody is to try it again; the seal is another sync.
        segment.flushed.fetch_max(written, Ordering::Relaxed);
        // The kernel reports an error once a handle; through this one the seal still sees it.
        let file = match self.fs.open(&segment_path(&self.dir, segment.header.segment)) {
            Ok(file) => file,
            Err(error) => {
                tracing::warn!(%error, "journal segment was not synced ahead");
                return false;
            }
        };
        let synced = file.sync_data();
        if let Err(error) = &synced {
            tracing::error!(%error, "syncing a journal segment failed");
            self.has_failed.store(true, Ordering::Release);
        }
        synced.is_ok()
    }
}
