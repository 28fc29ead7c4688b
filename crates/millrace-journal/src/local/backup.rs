//! What `repair` changes or takes away is kept beside it, as `.bak`.

use std::io;
use std::path::{Path, PathBuf};

use super::segment::segment_path;
use super::unreadable;
use crate::fs::{File, FileSystem};
use crate::position::SegmentId;

const COPY_BYTES: usize = 1 << 20;

/// The copies that one repair has made.
pub(super) struct Backups<'a> {
    fs: &'a dyn FileSystem,
    dir: &'a Path,
    copied: Vec<SegmentId>,
    pub(super) paths: Vec<PathBuf>,
}

impl<'a> Backups<'a> {
    pub(super) fn new(fs: &'a dyn FileSystem, dir: &'a Path) -> Self {
        Self { fs, dir, copied: Vec::new(), paths: Vec::new() }
    }

    /// Copies a segment as it was before the repair, as far as it can be read. Durable when this
    /// returns.
    pub(super) fn copy(&mut self, id: SegmentId, file: &dyn File) -> io::Result<()> {
        if self.copied.contains(&id) {
            return Ok(());
        }
        let path = self.free_path(id)?;
        if let Err(error) = self.copy_to(&path, file) {
            // Half a copy looks like one, and takes the room that may be wanting.
            let _ = self.fs.remove(&path);
            return Err(error);
        }
        self.copied.push(id);
        self.paths.push(path);
        Ok(())
    }

    fn copy_to(&self, path: &Path, file: &dyn File) -> io::Result<()> {
        let target = self.fs.create(path)?;
        let size = file.size()?;
        let mut buffer = vec![0; COPY_BYTES];
        let mut offset = 0;
        while offset < size {
            let read = unreadable::read(file, &mut buffer, offset, &mut Vec::new())?;
            let Some(bytes) = buffer.get(..read).filter(|bytes| !bytes.is_empty()) else { break };
            target.write_at(&[bytes], offset)?;
            offset += read as u64;
        }
        target.sync_data()?;
        self.fs.sync_dir(self.dir)
    }

    /// Takes a segment out of the journal. Durable when this returns.
    pub(super) fn set_aside(&mut self, id: SegmentId) -> io::Result<()> {
        let path = self.free_path(id)?;
        self.fs.rename(&segment_path(self.dir, id), &path)?;
        self.fs.sync_dir(self.dir)?;
        self.paths.push(path);
        Ok(())
    }

    /// A name that no backup has: what an earlier or an interrupted repair kept stays.
    fn free_path(&self, id: SegmentId) -> io::Result<PathBuf> {
        let taken = self.fs.list(self.dir)?;
        let mut name = format!("{id}.seg.bak");
        let mut number = 1;
        while taken.contains(&name) {
            number += 1;
            name = format!("{id}.seg.{number}.bak");
        }
        Ok(self.dir.join(name))
    }
}
