//! Zeros, written ahead of the frames: see [`super::space`].

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::blocks::BlockFile;
use super::segment::{Zeroed, segment_path};
use super::{LocalJournal, State};
use crate::fs::{BLOCK_BYTES, File, is_out_of_space};
use crate::position::{Durability, SegmentId};

/// Written between two looks at what else there is to do. Appends to the file may have to wait for
/// it.
const ZERO_STEP_BYTES: u32 = 256 << 10;
/// The same for a spare, past the page cache: a step takes next to no time but makes the thread
/// wait twice: for the disk and, when others keep the cores busy, for one of them.
const SPARE_STEP_BYTES: u32 = 1 << 20;
/// Appended bytes between two bursts of zeroing. Following each append instead would add a sync to
/// every commit.
const ZERO_PACE_BYTES: u32 = 1 << 20;
/// A segment's file that was not zeroed before use is zeroed so many times as fast as it is used.
const ZERO_LEAD: u32 = 4;
/// A spare's likewise, from when the active one is a quarter full: done when it is three quarters
/// full.
const ZERO_SPARE_LEAD: u32 = 2;

/// Aligned as direct writes need it.
#[repr(align(4096))]
struct Zeros([u8; ZERO_STEP_BYTES as usize]);
const _: () = assert!(align_of::<Zeros>() == BLOCK_BYTES);
static ZEROS: Zeros = Zeros([0; ZERO_STEP_BYTES as usize]);

impl LocalJournal {
    /// Zeros only shorten syncs, so none are written where commits do not sync.
    pub(super) fn zero_goal(&self, state: &State) -> Option<ZeroGoal> {
        if self.options.durability != Durability::Fsync {
            return None;
        }
        zero_goals(state, self.options.segment_bytes).next()
    }

    pub(super) fn zero_step(&self, goal: &ZeroGoal) -> bool {
        let mut written = Ok(None);
        goal.zeroed.extend(|start| {
            let step = if goal.is_spare { SPARE_STEP_BYTES } else { ZERO_STEP_BYTES };
            let end = goal.to.min(start.saturating_add(step));
            if start < end {
                written = self.write_step(goal, start, end);
            }
            // Written or not, nobody needs to try again: unzeroed space is slower, not wrong.
            end
        });
        let synced = written.and_then(|file| file.map_or(Ok(()), |file| file.sync_data()));
        if let Err(error) = synced {
            if goal.is_spare && is_out_of_space(&error) && self.give_up_spare(goal.segment, &error)
            {
                return true;
            }
            // The same file holds frames: after a failed sync no later one can be believed.
            tracing::error!(%error, "zeroing a journal segment failed");
            self.fail(format!("zeroing a segment: {error}").into());
        }
        true
    }

    /// Writes zeros through another handle than the one that the committer syncs, and returns it if
    /// it is to be synced: so the committer's next sync does not carry them, and does not miss an
    /// error, which the kernel reports once a handle.
    fn write_step(
        &self,
        goal: &ZeroGoal,
        start: u32,
        end: u32,
    ) -> io::Result<Option<Arc<dyn File>>> {
        let zeros = zeros(end - start);
        if let Some(file) = goal.blocks.write_direct(&zeros, u64::from(start))? {
            // In a spare, one sync for the whole file has the file system note that it was written
            // to.
            let is_due = !goal.is_spare || end == self.options.segment_bytes;
            return Ok(is_due.then(|| Arc::clone(file)));
        }
        let Ok(file) = self.fs.open(&segment_path(&self.dir, goal.segment)) else {
            // Nothing was written, so nothing is in doubt.
            return Ok(None);
        };
        file.write_at(&zeros, u64::from(start))?;
        Ok(Some(file))
    }
}

pub(super) struct ZeroGoal {
    segment: SegmentId,
    /// No frames are in it.
    is_spare: bool,
    blocks: Arc<BlockFile>,
    zeroed: Arc<Zeroed>,
    to: u32,
}

/// Files that are not zeroed as far as they should be: the active one, if it was not before use,
/// and spares once the active one is a quarter full.
fn zero_goals(state: &State, segment_bytes: u32) -> impl Iterator<Item = ZeroGoal> {
    let paced = |used: u32, lead: u32| {
        (used / ZERO_PACE_BYTES + 1).saturating_mul(ZERO_PACE_BYTES).saturating_mul(lead)
    };
    let active = state.segments.last_key_value().map(|(_, segment)| Arc::clone(segment));
    let used = active.as_ref().map_or(0, |segment| segment.end.load(Ordering::Relaxed));
    let ahead = active.map(|segment| ZeroGoal {
        segment: segment.header.segment,
        is_spare: false,
        blocks: Arc::clone(&state.active_blocks),
        zeroed: Arc::clone(&segment.zeroed),
        to: paced(used, ZERO_LEAD).min(segment.header.segment_bytes),
    });
    let spare_to = used
        .checked_sub(segment_bytes / 4)
        .map_or(0, |used| paced(used, ZERO_SPARE_LEAD).min(segment_bytes));
    let spares = state.spares.iter().map(move |(id, spare)| ZeroGoal {
        segment: *id,
        is_spare: true,
        blocks: Arc::clone(&spare.blocks),
        zeroed: Arc::clone(&spare.zeroed),
        to: spare_to,
    });
    ahead.into_iter().chain(spares).filter(|goal| goal.zeroed.to() < goal.to)
}

/// Writes zeros over a part of a file and syncs it, in steps.
pub(super) fn write_zeros(file: &dyn File, from: u32, to: u32) -> io::Result<()> {
    for start in (from..to).step_by(ZERO_STEP_BYTES as usize) {
        file.write_at(&zeros((to - start).min(ZERO_STEP_BYTES)), u64::from(start))?;
        file.sync_data()?;
    }
    Ok(())
}

/// So many zeros, in parts.
fn zeros(length: u32) -> Vec<&'static [u8]> {
    let parts = (0..length).step_by(ZERO_STEP_BYTES as usize);
    let part = |start| ZEROS.0.get(..(length - start) as usize).unwrap_or(&ZEROS.0);
    parts.map(part).collect()
}
