//! Syncs ahead of the seal, where commits do not sync.
//!
//! A segment must be on disk before the header of the next, whatever the durability. Whoever
//! commits waits for that, and everybody with him: for a whole segment that is as long as hundreds
//! of commits. So the background has most of it written while it fills.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{LocalJournal, State};
use crate::position::Durability;

/// Parts of a segment that are synced one after the other.
const PARTS: u32 = 32;

impl LocalJournal {
    /// Whether a part of the active segment should be synced. With `Fsync` every commit does.
    pub(super) fn is_flush_due(&self, state: &State) -> bool {
        let Some((_, active)) = state.segments.last_key_value() else { return false };
        let written = active.end.load(Ordering::Acquire);
        let waiting = written.saturating_sub(active.flushed.load(Ordering::Relaxed));
        self.options.durability != Durability::Fsync
            && waiting >= active.header.segment_bytes / PARTS
    }

    /// Makes what was committed so far durable, where commits do not: all older segments were
    /// synced when they were sealed.
    pub(super) fn flush(&self) {
        let (active, blocks) = {
            let state = self.state();
            let Some((_, active)) = state.segments.last_key_value() else { return };
            (Arc::clone(active), Arc::clone(&state.active_blocks))
        };
        let written = active.end.load(Ordering::Acquire);
        let synced = blocks.sync_ahead();
        // Done or failed, nobody is to try it again.
        active.flushed.fetch_max(written, Ordering::Relaxed);
        if let Err(error) = synced {
            tracing::error!(%error, "syncing a journal segment failed");
            self.fail(format!("syncing a segment: {error}").into());
        }
    }
}
