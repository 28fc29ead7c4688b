//! The directory of the files, which has to stay the one that was opened: what is put in its place
//! has files of the same names, which are not ours to read, replace or remove.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    /// Kept open, so that no other gets its inode.
    opened: File,
}

impl Directory {
    /// Opens a directory; creates it and those above it that are missing. Names of queues are in
    /// it: for nobody else.
    pub(crate) fn open(path: &Path) -> io::Result<Directory> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        Ok(Directory { path: path.to_owned(), opened: File::open(path)? })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// That it is still where it was.
    pub(crate) fn check(&self) -> io::Result<()> {
        let kept = self.opened.metadata()?;
        let is_kept = |now: std::fs::Metadata| (now.dev(), now.ino()) == (kept.dev(), kept.ino());
        if std::fs::metadata(&self.path).is_ok_and(is_kept) {
            return Ok(());
        }
        let text = format!("{} is gone or another directory than before", self.path.display());
        Err(io::Error::other(text))
    }
}

pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// A name that no file has, for one that cannot be used: `history.db.damaged-1`.
pub(crate) fn free_name(path: &Path, what: &str) -> io::Result<PathBuf> {
    let name = |number: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{what}-{number}"));
        PathBuf::from(name)
    };
    let mut names = (1..=u32::MAX).map(name);
    names.find(|name| !name.exists()).ok_or_else(|| io::ErrorKind::AlreadyExists.into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn directory_is_for_nobody_else() {
        let above = tempfile::tempdir().unwrap();
        let dir = above.path().join("data").join("metrics");

        Directory::open(&dir).unwrap();
        Directory::open(&dir).unwrap();

        for made in [&*dir, dir.parent().unwrap()] {
            assert_eq!(made.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        }
    }

    #[test]
    fn another_directory_of_the_same_name_is_told_from_it() {
        let above = tempfile::tempdir().unwrap();
        let (path, moved) = (above.path().join("metrics"), above.path().join("moved"));
        let dir = Directory::open(&path).unwrap();
        dir.check().unwrap();

        std::fs::rename(&path, &moved).unwrap();
        assert!(dir.check().is_err(), "gone");
        std::fs::create_dir(&path).unwrap();
        assert!(dir.check().is_err(), "another");
        std::fs::remove_dir(&path).unwrap();
        std::fs::rename(&moved, &path).unwrap();
        dir.check().unwrap();
    }
}
