//! A directory as the store of a journal, and a local log before it has an owner.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::recover::{recover, start_epoch};
use super::scan::owner_in;
use super::{LocalJournal, LocalOptions, lock};
use crate::error::{OpenError, ReadError};
use crate::frame::Chain;
use crate::fs::FileSystem;
use crate::journal::Journal;
use crate::owner::Owner;
use crate::position::{Epoch, Position, SegmentId};
use crate::record::Replayed;
use crate::store::{End, JournalStore, Unowned};

/// A directory that holds a journal, or will. One process at a time has it open.
pub struct LocalStore {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    options: LocalOptions,
}

/// A local log that was recovered, or a copy of a log that is kept elsewhere.
pub struct UnownedLocal {
    journal: LocalJournal,
}

/// Where a copy of another log begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The other log's.
    pub salt: u64,
    /// Its oldest segment.
    pub segment: SegmentId,
    /// The chain before the first frame of that segment.
    pub start: Chain,
}

impl Origin {
    /// Of a log that nothing is in yet.
    pub(super) fn new_log(salt: u64) -> Self {
        Self { salt, segment: SegmentId(1), start: Chain::default() }
    }
}

impl LocalStore {
    #[must_use]
    pub fn new(fs: Arc<dyn FileSystem>, dir: &Path, options: LocalOptions) -> Self {
        Self { fs, dir: dir.to_owned(), options }
    }
}

impl JournalStore for LocalStore {
    fn recover(
        &self,
        visitor: &mut dyn FnMut(Replayed<'_>),
    ) -> Result<Box<dyn Unowned>, OpenError> {
        let fs = Arc::clone(&self.fs);
        Ok(Box::new(UnownedLocal::recover(fs, &self.dir, self.options, visitor)?))
    }
}

impl UnownedLocal {
    /// Recovers the journal in `dir`, which is made if need be, and shows every record that is
    /// kept to the visitor, in order. Cuts a torn tail off; refuses any other damage.
    pub fn recover(
        fs: Arc<dyn FileSystem>,
        dir: &Path,
        options: LocalOptions,
        visitor: &mut dyn FnMut(Replayed<'_>),
    ) -> Result<Self, OpenError> {
        Ok(Self { journal: recover(fs, dir, options, None, visitor)? })
    }

    /// The same for a copy of the log that begins at `origin`, to which that log's frames are
    /// appended as they are. A copy that is begun keeps its beginning; one of another log is
    /// refused.
    pub fn copy(
        fs: Arc<dyn FileSystem>,
        dir: &Path,
        options: LocalOptions,
        origin: Origin,
        visitor: &mut dyn FnMut(Replayed<'_>),
    ) -> Result<Self, OpenError> {
        Ok(Self { journal: recover(fs, dir, options, Some(origin), visitor)? })
    }

    /// The log as it is, to be read, and to have another's frames appended. Its epoch is the last
    /// one that was found.
    #[must_use]
    pub fn journal(&self) -> &LocalJournal {
        &self.journal
    }

    /// Where the log ends now.
    #[must_use]
    pub fn end(&self) -> End {
        let active = lock(&self.journal.active);
        End { chain: active.chain, tail: active.tail }
    }

    /// Appends the OPEN frame that makes `owner` the owner of a new epoch.
    pub fn start_epoch(self, owner: &Owner) -> Result<LocalJournal, OpenError> {
        start_epoch(self.journal, owner, Epoch::default())
    }
}

impl Unowned for UnownedLocal {
    fn end(&self) -> End {
        self.end()
    }

    fn owner(&self) -> Result<Option<Owner>, ReadError> {
        let epoch = self.end().chain.epoch;
        // The OPEN frame is in the last segment that an earlier epoch had begun.
        let begun = {
            let state = self.journal.state();
            let earlier = state.segments.values().rev();
            earlier.map(Arc::clone).find(|segment| segment.header.start.epoch < epoch)
        };
        let Some(segment) = begun else { return Ok(None) };
        let position = Position::new(segment.header.segment, 0);
        owner_in(&*segment.file, &segment.header)
            .map_err(|source| ReadError::Io { position, source })
    }

    fn start_epoch(self: Box<Self>, owner: &Owner) -> Result<Box<dyn Journal>, OpenError> {
        Ok(Box::new((*self).start_epoch(owner)?))
    }
}
