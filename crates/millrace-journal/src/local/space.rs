//! Space: segments made ahead of use, and zeroed ahead of the tail.
//!
//! Overwriting what is on disk costs half the sync time of writing into space that was only set
//! aside (the file system then need not record where the data went). So:
//!
//! * The segment after the active one is made while the active one fills. Making it sets the
//!   space aside, which is quick and is what admission needs; zeroing follows at the pace of
//!   the appends.
//! * A first segment is appended to at once, and zeroed some way ahead.
//! * A truncated segment's file is kept, one at most, and becomes a later spare. Its older frames stay
//!   and do not count, for their place names another segment.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::blocks::BlockFile;
use super::index::due_draft;
use super::segment::{Segment, Zeroed, segment_path, temporary_path};
use super::{LocalJournal, Spare, lock};
use crate::error::Unavailable;
use crate::fs::{File, is_out_of_files, is_out_of_space};
use crate::journal::Journal;
use crate::position::SegmentId;

/// A full disk is asked again, and for a file where too many are open, no more often than this, and
/// only when somebody needs it.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A file and the segment that it was.
pub(super) type NamedFile = (SegmentId, Arc<dyn File>);

/// What only one at a time does.
#[derive(Default)]
pub(super) struct Preparing {
    /// A file without a header under a temporary name.
    pub(super) recycled: Option<NamedFile>,
    pub(super) failed_at: Option<(Duration, Unavailable)>,
    /// Whether the log has told that there is no further segment, and not yet that there is.
    is_told: bool,
}

impl LocalJournal {
    /// Makes spares up to and including `segment`.
    pub(super) fn prepare_until(&self, segment: SegmentId) -> Result<(), Unavailable> {
        if self.ready_until.load(Ordering::Acquire) >= segment.0 {
            return Ok(());
        }
        if let Some(reason) = self.failure() {
            return Err(Unavailable::Poisoned(reason));
        }
        let mut preparing = lock(&self.preparing);
        while self.ready_until.load(Ordering::Acquire) < segment.0 {
            let next = SegmentId(self.ready_until.load(Ordering::Acquire)).next();
            self.check_retry(&preparing)?;
            let mut made = self.make_spare(&mut preparing, next);
            if made.as_ref().is_err_and(is_out_of_space)
                && (self.has_doomed() || self.has_released())
            {
                self.remove_all(&mut preparing);
                made = self.make_spare(&mut preparing, next);
            }
            match made {
                Ok(spare) => {
                    preparing.failed_at = None;
                    self.is_full.store(false, Ordering::Relaxed);
                    if std::mem::take(&mut preparing.is_told) {
                        tracing::info!("another journal segment is there, changes are accepted");
                    }
                    self.state_mut().spares.insert(next, spare);
                    self.ready_until.store(next.0, Ordering::Release);
                }
                Err(error) => return Err(self.note_failure(&mut preparing, &error)),
            }
        }
        Ok(())
    }

    pub(super) fn space_held(&self) -> u64 {
        let recycled = u64::from(lock(&self.preparing).recycled.is_some());
        let spare_bytes = u64::from(self.options.segment_bytes);
        let state = self.state();
        let bytes = |segment: &Arc<Segment>| u64::from(segment.header.segment_bytes);
        state.segments.values().map(bytes).sum::<u64>()
            + state.doomed.iter().map(bytes).sum::<u64>()
            + state.released.iter().map(|released| released.bytes).sum::<u64>()
            + state.index_bytes.values().sum::<u64>()
            + (state.spares.len() as u64 + recycled) * spare_bytes
    }

    pub(super) fn wants_background(&self) -> bool {
        if self.has_failed() {
            return false;
        }
        if self.has_doomed() || self.has_released() {
            return true;
        }
        let state = self.state();
        self.sidecar_due(&state).is_some()
            || self.wanted_spare(&state).is_some()
            || self.zero_goal(&state).is_some()
            || self.is_flush_due(&state)
            || due_draft(&state).is_some()
    }

    /// One step: space for those who wait first, then what takes memory, then what keeps syncs
    /// short, then sidecars.
    pub(super) fn do_background(&self) -> bool {
        if self.has_failed() {
            return false;
        }
        let (wanted, goal, flush, draft, unindexed) = {
            let state = self.state();
            let goal = self.zero_goal(&state);
            let flush = self.is_flush_due(&state);
            (self.wanted_spare(&state), goal, flush, due_draft(&state), self.sidecar_due(&state))
        };
        if let Some(wanted) = wanted
            && (self.prepare_until(wanted).is_ok() || self.failure().is_some())
        {
            return true;
        }
        if self.has_released() {
            return self.release_step();
        }
        if self.has_doomed() {
            return self.recycle_step();
        }
        if let Some((segment, draft)) = draft {
            return self.write_draft(segment, &draft);
        }
        if let Some(goal) = goal {
            return self.zero_step(&goal);
        }
        if flush {
            self.flush();
            return true;
        }
        unindexed.is_some_and(|segment| self.write_sidecar(segment))
    }

    /// What the next start would have to make up for: removals and sidecars.
    pub(super) fn do_what_must_not_wait(&self) {
        if self.has_failed() {
            return;
        }
        let mut preparing = lock(&self.preparing);
        self.remove_all(&mut preparing);
        drop(preparing);
        loop {
            let Some(segment) = self.state().unindexed.front().copied() else { return };
            self.write_sidecar(segment);
        }
    }

    /// The segment that should be made now: the next one, once an eighth of the active one is
    /// used. An idle journal holds no spare.
    fn wanted_spare(&self, state: &super::State) -> Option<SegmentId> {
        let (active, segment) = state.segments.last_key_value()?;
        let is_due = segment.end.load(Ordering::Relaxed) >= self.options.segment_bytes / 8;
        let is_missing = self.ready_until.load(Ordering::Relaxed) <= active.0;
        (is_due && is_missing && !self.is_full.load(Ordering::Relaxed)).then(|| active.next())
    }

    fn check_retry(&self, preparing: &Preparing) -> Result<(), Unavailable> {
        match &preparing.failed_at {
            Some((at, failure))
                if preparing.recycled.is_none()
                    && !self.has_doomed()
                    && !self.has_released()
                    && self.fs.now().saturating_sub(*at) < RETRY_AFTER =>
            {
                Err(failure.clone())
            }
            _ => Ok(()),
        }
    }

    fn note_failure(&self, preparing: &mut Preparing, error: &io::Error) -> Unavailable {
        let is_told = std::mem::replace(&mut preparing.is_told, true);
        let failure = if is_out_of_space(error) {
            if !is_told {
                tracing::warn!(%error, "no space for another journal segment, changes are refused");
            }
            Unavailable::DiskFull
        } else if is_out_of_files(error) {
            // So far nothing of the disk has failed: it was not asked.
            if !is_told {
                tracing::error!(%error, "no file for another journal segment, changes are refused");
            }
            Unavailable::TooManyFiles
        } else {
            // Nothing was appended to that file, so nothing is in doubt; but the disk is.
            tracing::error!(%error, "journal segment could not be prepared");
            let reason: Arc<str> = format!("preparing a segment: {error}").into();
            self.fail(Arc::clone(&reason));
            Unavailable::Poisoned(reason)
        };
        preparing.failed_at = Some((self.fs.now(), failure.clone()));
        self.is_full.store(true, Ordering::Relaxed);
        failure
    }

    /// Takes away the last spare, whose space was set aside and is not there after all, as on a
    /// volume that promises more than it has. False if there is no such spare: frames may be in it
    /// by now.
    pub(super) fn give_up_spare(&self, id: SegmentId, error: &io::Error) -> bool {
        let mut preparing = lock(&self.preparing);
        {
            let mut state = self.state_mut();
            if state.spares.last_key_value().is_none_or(|(last, _)| *last != id) {
                return false;
            }
            state.spares.remove(&id);
            self.ready_until.store(id.0.saturating_sub(1), Ordering::Release);
        }
        // If that fails, the next start finds spares.
        if let Err(error) = self.remove_spare(id) {
            tracing::warn!(%error, segment = %id, "spare segment could not be removed");
        }
        self.note_failure(&mut preparing, error);
        true
    }

    /// A file under the segment's name, durable name included.
    fn make_spare(&self, preparing: &mut Preparing, id: SegmentId) -> io::Result<Spare> {
        if id == SegmentId::END {
            return Err(io::Error::other("segment numbers end before ffffffff"));
        }
        let path = segment_path(&self.dir, id);
        let recycled = preparing.recycled.take();
        let temporary = match &recycled {
            Some((old, _)) => temporary_path(&self.dir, *old, "old"),
            None => temporary_path(&self.dir, id, "seg"),
        };
        let made = self.make_file(recycled, &temporary, &path);
        let spare = made.and_then(|(file, zeroed)| self.spare(&path, file, zeroed));
        if spare.is_err() {
            // Gives its space back, whichever name it has by now. A leftover is removed at the next
            // start too.
            let _ = self.remove_spare(id);
            let _ = self.fs.remove_present(&temporary);
        }
        spare
    }

    /// Behind it may be what is left of one that could not be made or removed: that goes first, for
    /// a hole before it would be damage.
    fn remove_spare(&self, id: SegmentId) -> io::Result<()> {
        self.fs.remove_present(&segment_path(&self.dir, id.next()))?;
        // Also if it was removed before: nothing says that this is on disk.
        self.fs.sync_dir(&self.dir)?;
        self.fs.remove_present(&segment_path(&self.dir, id))
    }

    /// The recycled file, or else a new one, and how far it holds zeros.
    fn make_file(
        &self,
        recycled: Option<NamedFile>,
        temporary: &Path,
        path: &Path,
    ) -> io::Result<(Arc<dyn File>, u32)> {
        let size = self.options.segment_bytes;
        let (file, zeroed) = match recycled {
            Some((_, file)) => (file, size),
            None => {
                let file = self.fs.create(temporary)?;
                file.allocate(u64::from(size))?;
                file.sync_data()?;
                (file, 0)
            }
        };
        self.fs.rename(temporary, path)?;
        self.fs.sync_dir(&self.dir)?;
        Ok((file, zeroed))
    }

    fn spare(&self, path: &Path, file: Arc<dyn File>, zeroed: u32) -> io::Result<Spare> {
        let blocks = BlockFile::open(&*self.fs, path, &file, self.options.durability)?;
        Ok(Spare { file, blocks, zeroed: Zeroed::up_to(zeroed) })
    }
}
