//! Files as they are at one time, to be copied while they are appended to.
//!
//! All files are only appended to, or replaced as a whole by others of the same name. So the first
//! bytes of an open file stay what they are; but for a torn end, which is cut off when a day is
//! first opened, and may be copied as zeros.

use std::fs::File;
use std::io;
use std::path::Path;

/// A file that is held open.
#[derive(Debug)]
pub struct PinnedFile {
    /// In the directory of the metrics.
    pub name: String,
    /// How many of its bytes count.
    pub bytes: u64,
    pub file: File,
}

impl PinnedFile {
    /// With the lock of those who append to the file.
    pub(crate) fn open(path: &Path) -> io::Result<PinnedFile> {
        let file = File::open(path).map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        })?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(PinnedFile { name, bytes: file.metadata()?.len(), file })
    }
}
