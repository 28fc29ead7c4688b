//! When sidecars are written: drafts whenever there is enough of them, the sidecar when its segment
//! is some segments old. A queue that is drained as fast as it fills never needs one.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::draft::Draft;
use super::segment::{Segment, index_path, temporary_path};
use super::{LocalJournal, State, sidecar};
use crate::frame::Chain;
use crate::position::SegmentId;

impl LocalJournal {
    /// The oldest segment that should have a sidecar and has none.
    pub(super) fn sidecar_due(&self, state: &State) -> Option<SegmentId> {
        let oldest = state.unindexed.front().copied();
        oldest.filter(|_| state.unindexed.len() > self.options.unindexed_segments)
    }

    /// Writes what there is of a draft.
    pub(super) fn write_draft(&self, id: SegmentId, draft: &Draft) -> bool {
        match draft.write(&*self.fs, &self.dir, id) {
            Ok(bytes) => {
                let mut state = self.state_mut();
                if state.drafts.contains_key(&id) {
                    state.index_bytes.insert(id, bytes);
                }
            }
            Err(error) => tracing::debug!(%error, segment = %id, "sidecar draft was given up"),
        }
        true
    }

    /// Writes the sidecar of a sealed segment, unless that is truncated.
    pub(super) fn write_sidecar(&self, id: SegmentId) -> bool {
        let (segment, next) = {
            let state = self.state();
            let next = state.segments.get(&id.next()).map(|next| next.header.start);
            (state.segments.get(&id).map(Arc::clone), next)
        };
        if let (Some(segment), Some(next_start)) = (segment, next) {
            // What it describes is durable: the segment was synced before the next one's header.
            match self.make_sidecar(&segment, next_start) {
                Ok(bytes) => self.note_sidecar(id, bytes),
                // The next start reads the segment itself, or finds out what is wrong with it.
                Err(error) => {
                    tracing::warn!(%error, segment = %id, "no sidecar was written");
                    self.state_mut().index_bytes.remove(&id);
                    // A leftover is removed at the next start too.
                    let _ = self.fs.remove(&temporary_path(&self.dir, id, "idx"));
                }
            }
        }
        self.state_mut().unindexed.retain(|waiting| *waiting != id);
        true
    }

    /// A sidecar has its name. Others may have removed the segment meanwhile, and with it what
    /// there was of its sidecar: then this one goes, too.
    fn note_sidecar(&self, id: SegmentId, bytes: u64) {
        let mut state = self.state_mut();
        let is_doomed = || state.doomed.iter().any(|segment| segment.header.segment == id);
        if state.segments.contains_key(&id) || is_doomed() {
            state.index_bytes.insert(id, bytes);
            return;
        }
        drop(state);
        // If that fails, the next start finds it.
        if let Err(error) = self.fs.remove_present(&index_path(&self.dir, id)) {
            tracing::warn!(%error, segment = %id, "sidecar of a removed segment could not be removed");
        }
    }

    fn make_sidecar(&self, segment: &Segment, next_start: Chain) -> io::Result<u64> {
        let (fs, dir, header) = (&*self.fs, &*self.dir, &segment.header);
        let end = segment.end.load(Ordering::Acquire);
        let draft = self.state_mut().drafts.remove(&header.segment);
        let drafted = draft.and_then(|draft| draft.finish(fs, dir, header, end, next_start));
        drafted.unwrap_or_else(|| sidecar::build(fs, dir, header, &*segment.file, next_start))
    }
}

/// The oldest draft of which enough waits to be written.
pub(super) fn due_draft(state: &State) -> Option<(SegmentId, Arc<Draft>)> {
    let mut drafts = state.drafts.iter();
    drafts.find(|(_, draft)| draft.is_due()).map(|(id, draft)| (*id, Arc::clone(draft)))
}
