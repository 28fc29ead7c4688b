//! Truncated segments leave one by one from the oldest, each removal durable before the next, so
//! that a crash never leaves a hole.
//!
//! A file first loses its name, and if it is to be a [spare](super::space) its header. Others go
//! [bit by bit](super::release).

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::release::Released;
use super::segment::{Segment, index_path, segment_path, temporary_path};
use super::space::{NamedFile, Preparing};
use super::zero::write_zeros;
use super::{LocalJournal, Removals, lock};
use crate::frame::SEGMENT_HEADER_BYTES;

/// A segment that could not be removed is tried again no sooner than this.
const REMOVE_AGAIN_AFTER: Duration = Duration::from_secs(10);

/// Why a truncated segment was not removed.
enum NotRemoved {
    /// Nothing happened to it.
    Kept(Arc<Segment>, io::Error),
    /// Its name is gone, but maybe not on disk.
    InDoubt(io::Error),
}

/// How a truncated segment is removed.
#[derive(Clone, Copy)]
enum Removal {
    /// It only loses its name: its file is used again, or goes bit by bit.
    Gentle,
    AtOnce,
}

/// What was a truncated segment, under a temporary name.
struct Removed {
    file: NamedFile,
    bytes: u64,
    /// As a spare.
    is_wanted: bool,
}

impl LocalJournal {
    /// Whether a truncated segment is there that may go now.
    pub(super) fn has_doomed(&self) -> bool {
        let state = self.state();
        !state.doomed.is_empty()
            && match state.removals {
                Removals::Possible => true,
                Removals::NotBefore(time) => self.fs.now() >= time,
                Removals::InDoubt => false,
            }
    }

    /// Takes the oldest truncated segment away, and its header off its file if that is to be used
    /// again.
    pub(super) fn recycle_step(&self) -> bool {
        // Held until the file is where whoever needs its space finds it.
        let mut preparing = lock(&self.preparing);
        let removed = self.remove_doomed(&mut preparing, Removal::Gentle);
        let Some(Some(Removed { file: (id, file), bytes, is_wanted })) = removed else {
            return true;
        };
        if is_wanted {
            match write_zeros(&*file, 0, SEGMENT_HEADER_BYTES as u32) {
                Ok(()) => {
                    preparing.recycled = Some((id, file));
                    return true;
                }
                Err(error) => tracing::warn!(%error, segment = %id, "file was not recycled"),
            }
        }
        let path = temporary_path(&self.dir, id, "old");
        self.state_mut().released.push_back(Released { path, file, bytes });
        true
    }

    /// Removes all truncated segments that may go, and what is left of others, for those who need
    /// space or time at once.
    pub(super) fn remove_all(&self, preparing: &mut Preparing) {
        self.release_all();
        while self.remove_doomed(preparing, Removal::AtOnce).is_some() {}
    }

    /// Removes the oldest truncated segment. None if there is none, or it cannot go now; what is
    /// left of it, if it only lost its name.
    fn remove_doomed(
        &self,
        preparing: &mut Preparing,
        removal: Removal,
    ) -> Option<Option<Removed>> {
        if !self.has_doomed() {
            return None;
        }
        // What is still needed of it was appended again; if that is not on disk it must not go.
        self.flush();
        if self.has_failed() {
            return None;
        }
        let segment = self.state_mut().doomed.pop_front()?;
        let id = segment.header.segment;
        // Until it has gone nothing younger may: the next start must not find a hole.
        let removed = match self.remove_segment(preparing, segment, removal) {
            Ok(removed) => removed,
            Err(NotRemoved::Kept(segment, error)) => {
                tracing::warn!(%error, segment = %id, "truncated segment could not be removed yet");
                let mut state = self.state_mut();
                state.doomed.push_front(segment);
                state.removals = Removals::NotBefore(self.fs.now() + REMOVE_AGAIN_AFTER);
                return None;
            }
            Err(NotRemoved::InDoubt(error)) => {
                tracing::error!(%error, segment = %id, "segments are removed again after a restart");
                self.state_mut().removals = Removals::InDoubt;
                None
            }
        };
        self.state_mut().index_bytes.remove(&id);
        // Space may have come back.
        preparing.failed_at = None;
        self.is_full.store(false, Ordering::Relaxed);
        Some(removed)
    }

    fn remove_segment(
        &self,
        preparing: &Preparing,
        mut segment: Arc<Segment>,
        removal: Removal,
    ) -> Result<Option<Removed>, NotRemoved> {
        let id = segment.header.segment;
        let path = segment_path(&self.dir, id);
        let draft = self.state_mut().drafts.remove(&id);
        if draft.is_some_and(|draft| draft.give_up()) {
            // A leftover is removed at the next start too.
            let _ = self.fs.remove(&temporary_path(&self.dir, id, "idx"));
        }
        if let Err(error) = self.fs.remove_present(&index_path(&self.dir, id)) {
            return Err(NotRemoved::Kept(segment, error));
        }
        let (has_spare, is_short) = {
            let state = self.state();
            (!state.spares.is_empty(), state.segments.len() == 1)
        };
        // Beside a spare only where the active segment is all there is, as when messages are
        // deleted as fast as they come: three files take turns then.
        let is_wanted = preparing.recycled.is_none()
            && (!has_spare || is_short)
            && segment.header.segment_bytes == self.options.segment_bytes;
        // A reader that still holds the segment must keep finding its bytes: then the file is
        // unlinked. None can come anew, since it is in no list any more.
        let only_loses_name =
            matches!(removal, Removal::Gentle) && Arc::get_mut(&mut segment).is_some();
        let removed = if only_loses_name {
            self.fs.rename(&path, &temporary_path(&self.dir, id, "old"))
        } else {
            self.fs.remove_present(&path)
        };
        if let Err(error) = removed {
            return Err(NotRemoved::Kept(segment, error));
        }
        self.fs.sync_dir(&self.dir).map_err(NotRemoved::InDoubt)?;
        Ok(only_loses_name.then(|| Removed {
            file: (id, Arc::clone(&segment.file)),
            bytes: u64::from(segment.header.segment_bytes),
            is_wanted,
        }))
    }
}
