//! A node's copy of the log: a directory with a local journal, unsynced, and a mark.
//!
//! The mark, an empty file `copy`, is made before anything else. Only what has it is ever thrown
//! away: a directory that holds a node's own journal is refused, or left as it is.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use millrace_journal::{Durability, FileSystem, LocalOptions, OpenError, Origin, UnownedLocal};

use crate::log::LogFormat;

const MARK: &str = "copy";

/// Where a node keeps its copy.
#[derive(Clone)]
pub struct CopyPlace {
    pub fs: Arc<dyn FileSystem>,
    pub dir: PathBuf,
}

impl CopyPlace {
    #[must_use]
    pub fn new(fs: Arc<dyn FileSystem>, dir: &Path) -> Self {
        Self { fs, dir: dir.to_owned() }
    }

    /// Opens the copy, which begins at `origin` if there is none, and shows nothing of it. One that
    /// is damaged, as a power failure may leave it, or of another log is thrown away first.
    pub(crate) fn open(
        &self,
        format: LogFormat,
        origin: Origin,
    ) -> Result<UnownedLocal, OpenError> {
        self.mark()?;
        match self.open_as_is(format, origin) {
            Err(error @ (OpenError::Corrupt(_) | OpenError::OtherLog { .. }))
                if self.is_marked()? =>
            {
                self.throw_away(&error)?;
                self.open_as_is(format, origin)
            }
            opened => opened,
        }
    }

    /// Removes what is in the copy, which must not be open.
    pub(crate) fn throw_away(&self, reason: &dyn std::fmt::Display) -> Result<(), OpenError> {
        let removing = |source| OpenError::Io { doing: "removing the copy".into(), source };
        if !self.is_marked()? {
            let reason = format!("{} is not marked as a copy: {reason}", self.dir.display());
            return Err(removing(io::Error::new(io::ErrorKind::InvalidData, reason)));
        }
        tracing::warn!(%reason, dir = %self.dir.display(), "copy is thrown away");
        let _lock = self.fs.lock(&self.dir.join("lock")).map_err(removing)?;
        for name in self.fs.list(&self.dir).map_err(removing)? {
            // Interrupted half-way it leaves damage, and is thrown away again.
            if [".seg", ".idx", ".tmp"].iter().any(|kind| name.ends_with(kind)) {
                self.fs.remove(&self.dir.join(name)).map_err(removing)?;
            }
        }
        self.fs.sync_dir(&self.dir).map_err(removing)
    }

    fn open_as_is(&self, format: LogFormat, origin: Origin) -> Result<UnownedLocal, OpenError> {
        let options = LocalOptions {
            durability: Durability::Os,
            segment_bytes: format.segment_bytes,
            ..LocalOptions::default()
        };
        UnownedLocal::copy(Arc::clone(&self.fs), &self.dir, options, origin, &mut |_| {})
    }

    /// Marks a directory in which no journal is.
    fn mark(&self) -> Result<(), OpenError> {
        let marking = |source| OpenError::Io { doing: "marking the copy".into(), source };
        self.fs.create_dir_all(&self.dir).map_err(marking)?;
        let names = self.fs.list(&self.dir).map_err(marking)?;
        if names.iter().any(|name| name == MARK || name.ends_with(".seg")) {
            return Ok(());
        }
        self.fs.create(&self.dir.join(MARK)).map_err(marking)?;
        self.fs.sync_dir(&self.dir).map_err(marking)
    }

    fn is_marked(&self) -> Result<bool, OpenError> {
        let names = self.fs.list(&self.dir);
        let listing = |source| OpenError::Io { doing: "listing the copy".into(), source };
        Ok(names.map_err(listing)?.iter().any(|name| name == MARK))
    }
}
