//! Which version of a file is there, for those who look again for a newer one.

use std::{fs, os::unix::fs::MetadataExt, path::Path};

/// What tells one version of a file from another: its inode, and when that last changed. A file
/// that is not there has a version, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileVersion(Option<(u64, i64, i64)>);

impl FileVersion {
    /// That of the file at `path` now.
    pub fn of(path: &Path) -> FileVersion {
        let version = |found: fs::Metadata| (found.ino(), found.ctime(), found.ctime_nsec());
        FileVersion(fs::metadata(path).ok().map(version))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writing_replacing_and_removing_a_file_make_another_version() {
        let directory = tempfile::TempDir::new().unwrap();
        let [file, new] = ["file", "new"].map(|name| directory.path().join(name));
        let version_after = |change: &dyn Fn()| {
            change();
            FileVersion::of(&file)
        };

        let none = version_after(&|| {});
        let first = version_after(&|| fs::write(&file, "1").unwrap());
        let same = version_after(&|| drop(fs::read(&file).unwrap()));
        let replaced = version_after(&|| {
            fs::write(&new, "1").unwrap();
            fs::rename(&new, &file).unwrap();
        });
        let removed = version_after(&|| fs::remove_file(&file).unwrap());

        assert_eq!((first, none), (same, removed));
        assert_ne!(none, first);
        assert_ne!(first, replaced);
    }
}
