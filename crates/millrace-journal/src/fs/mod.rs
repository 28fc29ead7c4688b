//! The disk, the clock and randomness, as the journal sees them.
//!
//! Everything that the journal knows of the outside comes through [`FileSystem`], so that a
//! simulation can lose, tear and refuse at will. Contract: what `sync_data` covered survives a
//! crash; what it did not may survive in any part. Creating, renaming and removing survive once
//! `sync_dir` has returned.

mod real;
mod sim;
mod world;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub use real::RealFileSystem;
pub use sim::{Fault, SimFileSystem};

/// What disks and file systems write at once: bytes of a block that are not written must be read
/// first, unless they are in memory. Larger ones are rare, and then it costs a read.
pub(crate) const BLOCK_BYTES: usize = 4096;

/// The first place in memory that is aligned as blocks are.
pub(crate) fn first_block(memory: &[u8]) -> usize {
    memory.as_ptr().align_offset(BLOCK_BYTES)
}

/// A directory tree with a clock.
pub trait FileSystem: Send + Sync {
    /// Makes the directory, if need be. One in which no file can be made is refused.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// Names, without the directory, in no order.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Opens an existing file for reading and writing.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>>;
    /// The same for reads and writes past the page cache: their parts start at multiples of
    /// `BLOCK_BYTES`, in memory and in the file, and are whole multiples long. `InvalidInput`, here
    /// or from one of them, where there is no such thing.
    fn open_direct(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.open(path)
    }
    /// Creates an empty file, replacing what has that name.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>>;
    /// Replaces what has the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Removes a file, if it is there.
    fn remove_present(&self, path: &Path) -> io::Result<()> {
        match self.remove(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }
    /// Makes created, renamed and removed names durable. Opens no file for the directory that was
    /// the last one.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Holds `path` against every other holder until dropped. `WouldBlock` if it is held.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>>;
    /// Not for secrets that outlive the log: a salt that clients cannot guess.
    fn random(&self) -> u64;
    /// Monotonic, from any origin.
    fn now(&self) -> Duration;
}

/// An open file. Reads and writes name their place; there is no cursor.
pub trait File: Send + Sync {
    fn size(&self) -> io::Result<u64>;
    /// Reads up to the buffer's length; less only at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// The first place at or behind `offset` that may hold anything but zeros; the file's end, or
    /// behind it, if there is none.
    fn next_data(&self, offset: u64) -> io::Result<u64> {
        Ok(offset)
    }
    /// Writes all parts, one behind the other, in one system call if the kernel takes them.
    fn write_at(&self, parts: &[&[u8]], offset: u64) -> io::Result<()>;
    /// Makes the file at least `bytes` long, with zeros, and sets the space for it aside.
    fn allocate(&self, bytes: u64) -> io::Result<()>;
    /// Makes the file `bytes` long, which is no longer than it is, and gives the rest back.
    fn shorten(&self, bytes: u64) -> io::Result<()>;
    /// Makes what was written, and the length, durable. Never call it again after it failed.
    fn sync_data(&self) -> io::Result<()>;
    /// Has the next read show what the disk has, except where something still waits to be written.
    /// Memory may claim more: what a failed sync has lost.
    fn forget_clean(&self) -> io::Result<()>;
}

/// Whether an error says that space is missing.
pub(crate) fn is_out_of_space(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

/// Whether an error says that no further file can be opened: EMFILE or ENFILE, or ENOMEM where the
/// system, or a container's limit, leaves none for it.
pub(crate) fn is_out_of_files(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM))
}

/// The whole file, which must not be longer than `limit_bytes`.
pub(crate) fn read_all(file: &dyn File, limit_bytes: u64) -> io::Result<Vec<u8>> {
    let size = file.size()?;
    if size > limit_bytes {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "file is longer than it can be"));
    }
    let mut bytes = vec![0; size as usize];
    let read = file.read_at(&mut bytes, 0)?;
    bytes.truncate(read);
    Ok(bytes)
}
