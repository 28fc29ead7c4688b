//! The space of removed segments, given back in parts.
//!
//! Where the file system tells the disk at once what is free (mount option `discard`), removing a
//! segment may keep the disk for 10 ms and longer, and every commit meanwhile; a purged or drained
//! queue has hundreds of them. So a file that has lost its name in the log is shortened step by
//! step before it is removed.

use std::path::PathBuf;
use std::sync::Arc;

use super::{LocalJournal, lock};
use crate::fs::File;

/// Of a segment, each a step: takes half a millisecond where all of it takes ten.
const PARTS: u64 = 32;

/// A file that is no part of the log any more, under a temporary name.
pub(super) struct Released {
    pub(super) path: PathBuf,
    pub(super) file: Arc<dyn File>,
    pub(super) bytes: u64,
}

impl LocalJournal {
    pub(super) fn has_released(&self) -> bool {
        !self.state().released.is_empty()
    }

    /// Shortens the oldest file, or removes what is left of it.
    pub(super) fn release_step(&self) -> bool {
        // Whoever needs the space at once waits for this step, and finds the rest.
        let _preparing = lock(&self.preparing);
        let Some(mut released) = self.state_mut().released.pop_front() else { return true };
        let part = u64::from(self.options.segment_bytes) / PARTS;
        released.bytes = released.bytes.saturating_sub(part);
        if released.bytes > 0 && released.file.shorten(released.bytes).is_ok() {
            self.state_mut().released.push_front(released);
        } else {
            self.remove_released(released);
        }
        true
    }

    /// Removes all such files. With `preparing` held.
    pub(super) fn release_all(&self) {
        let all = std::mem::take(&mut self.state_mut().released);
        all.into_iter().for_each(|released| self.remove_released(released));
    }

    fn remove_released(&self, released: Released) {
        // If that fails, the next start finds it.
        if let Err(error) = self.fs.remove_present(&released.path) {
            let path = released.path.display();
            tracing::warn!(%error, %path, "file of a removed segment could not be removed");
        }
    }
}
