//! Writing to segments: in whole blocks past the page cache, where the file system takes that.
//!
//! Bytes that go through the page cache are copied into pages that must be found first, marked, and
//! looked for at the next sync. That is half of what a group's sync costs the processor, and more
//! in a virtual machine whose host has to find the pages too. Readers seldom miss them: what was
//! written recently is in memory anyway (`group/gather.rs`).
//!
//! Either all writes to a file go past the page cache or none does while it has frames added: a
//! page that a write through the cache has left there, not synced yet, would hide what a write past
//! it puts below. (Reading through the cache is fine: such writes take pages out of it.)

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::fs::{BLOCK_BYTES, File, FileSystem, first_block, is_out_of_files};
use crate::position::Durability;

/// Kept from one write to the next at most, beside what the last one needed.
const KEPT_BYTES: usize = 1 << 20;

/// A segment's file, as those who write to it share it.
pub(super) struct BlockFile {
    /// Through the page cache.
    cached: Arc<dyn File>,
    /// Past it.
    direct: Option<Arc<dyn File>>,
    /// Where commits do not sync, what others sync with: the kernel reports an error once a handle,
    /// so that whoever seals the segment still sees it.
    ahead: Option<Arc<dyn File>>,
    /// A file system may open a file for direct writes and then take none.
    is_refused: AtomicBool,
}

/// The block that the tail is in, which is written again with what follows.
pub(super) struct TailBlock {
    block: [u8; BLOCK_BYTES],
    /// Bytes of it that are in front of the tail.
    used: usize,
    /// What is written is put together in here, from its first block on.
    memory: Vec<u8>,
}

impl BlockFile {
    /// For a file that is open for reading. Where commits are not synced the page cache is where
    /// they are to go.
    pub(super) fn open(
        fs: &dyn FileSystem,
        path: &Path,
        cached: &Arc<dyn File>,
        durability: Durability,
    ) -> io::Result<Arc<Self>> {
        let (direct, ahead) = match durability {
            Durability::Fsync => match fs.open_direct(path) {
                Err(error) if is_out_of_files(&error) => return Err(error),
                opened => (opened.ok(), None),
            },
            Durability::Os | Durability::Memory => (None, Some(fs.open(path)?)),
        };
        let is_refused = AtomicBool::new(false);
        Ok(Arc::new(Self { cached: Arc::clone(cached), direct, ahead, is_refused }))
    }

    /// Makes what was written so far durable, where commits do not.
    pub(super) fn sync_ahead(&self) -> io::Result<()> {
        self.ahead.as_ref().map_or(Ok(()), |file| file.sync_data())
    }

    fn is_direct(&self) -> bool {
        self.direct.is_some() && !self.is_refused.load(Ordering::Relaxed)
    }

    /// Writes whole blocks past the page cache, and returns the handle that has written them. None
    /// if that is not possible: then all of them are to be written the other way.
    pub(super) fn write_direct(
        &self,
        parts: &[&[u8]],
        offset: u64,
    ) -> io::Result<Option<&Arc<dyn File>>> {
        let Some(direct) = self.direct.as_ref().filter(|_| self.is_direct()) else {
            return Ok(None);
        };
        match direct.write_at(parts, offset) {
            Ok(()) => Ok(Some(direct)),
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                self.is_refused.store(true, Ordering::Relaxed);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

impl TailBlock {
    /// Of a file that is written up to `tail`.
    pub(super) fn read(file: &dyn File, tail: u32) -> io::Result<Self> {
        let used = tail as usize % BLOCK_BYTES;
        let mut block = [0; BLOCK_BYTES];
        if file.read_at(&mut block[..used], u64::from(tail) - used as u64)? < used {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Self { block, used, memory: Vec::new() })
    }

    /// The next write is the first to its file.
    pub(super) fn clear(&mut self) {
        self.used = 0;
    }

    /// Writes both parts where the tail is, and moves it behind them; behind that zeros up to the
    /// end of a block.
    pub(super) fn write(
        &mut self,
        file: &BlockFile,
        tail: u32,
        parts: [&[u8]; 2],
        zeros: &[u8],
    ) -> io::Result<()> {
        if file.is_direct() {
            let used = self.used;
            debug_assert_eq!(used, tail as usize % BLOCK_BYTES);
            let [head, body] = parts;
            let written = [&self.block[..used], head, body, zeros];
            let blocks = gather(&mut self.memory, &written);
            if file.write_direct(&[blocks], u64::from(tail) - used as u64)?.is_some() {
                let end = blocks.len() - zeros.len();
                self.used = end % BLOCK_BYTES;
                self.block[..self.used].copy_from_slice(&blocks[end - self.used..end]);
                if self.memory.len() > KEPT_BYTES + BLOCK_BYTES {
                    self.memory = Vec::new();
                }
                return Ok(());
            }
        }
        let [head, body] = parts;
        file.cached.write_at(&[head, body, zeros], u64::from(tail))
    }
}

/// Copies the parts into memory, one behind the other, the first aligned.
fn gather<'a>(memory: &'a mut Vec<u8>, parts: &[&[u8]]) -> &'a mut [u8] {
    let bytes: usize = parts.iter().map(|part| part.len()).sum();
    if memory.len() < bytes + BLOCK_BYTES {
        *memory = vec![0; bytes.next_power_of_two() + BLOCK_BYTES];
    }
    let start = first_block(memory);
    let gathered = &mut memory[start..][..bytes];
    let mut rest = &mut *gathered;
    for part in parts {
        let (place, behind) = rest.split_at_mut(part.len());
        place.copy_from_slice(part);
        rest = behind;
    }
    gathered
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::{Fault, SimFileSystem};

    const PATH: &str = "/segment";
    const BYTES: usize = 1 << 20;

    fn file(fs: &SimFileSystem, durability: Durability) -> (Arc<dyn File>, Arc<BlockFile>) {
        let path = Path::new(PATH);
        let cached = fs.create(path).unwrap();
        cached.allocate(BYTES as u64).unwrap();
        let blocks = BlockFile::open(fs, path, &cached, durability).unwrap();
        (cached, blocks)
    }

    /// Writes frames of many lengths; `between` is called before each.
    fn write_frames(
        cached: &dyn File,
        blocks: &BlockFile,
        mut between: impl FnMut(u32, &mut TailBlock),
    ) -> Vec<u8> {
        let mut tail = TailBlock::read(cached, 0).unwrap();
        let mut written = Vec::new();
        for number in 0..60_u32 {
            let at = written.len() as u32;
            between(at, &mut tail);
            let body = vec![number as u8 + 1; (number as usize * 997) % 9_000];
            let end = at as usize + 48 + body.len();
            let zeros = vec![0; (end + 48).next_multiple_of(BLOCK_BYTES) - end];
            tail.write(blocks, at, [&[number as u8; 48], &body], &zeros).unwrap();
            written.extend([number as u8; 48]);
            written.extend(body);
        }
        written.resize(BYTES, 0);
        written
    }

    #[test]
    fn blocks_hold_what_was_written_before() {
        let fs = SimFileSystem::new(1);
        let (cached, blocks) = file(&fs, Durability::Fsync);

        let written = write_frames(&*cached, &blocks, |_, _| {});

        assert!(blocks.is_direct());
        assert!(fs.contents(Path::new(PATH)) == Some(written));
    }

    #[test]
    fn the_tails_block_is_found_again_after_a_start() {
        let fs = SimFileSystem::new(1);
        let (cached, blocks) = file(&fs, Durability::Fsync);

        let written = write_frames(&*cached, &blocks, |at, tail| {
            *tail = TailBlock::read(&*cached, at).unwrap();
        });

        assert!(fs.contents(Path::new(PATH)) == Some(written));
    }

    #[test]
    fn a_refusal_leads_through_the_page_cache_from_then_on() {
        let fs = SimFileSystem::new(1);
        let (cached, blocks) = file(&fs, Durability::Fsync);

        let written = write_frames(&*cached, &blocks, |at, _| {
            if at > 100_000 {
                fs.refuse_direct();
            }
        });

        assert!(!blocks.is_direct());
        assert!(fs.contents(Path::new(PATH)) == Some(written));
    }

    #[test]
    fn what_a_refused_write_has_left_is_written_over() {
        let fs = SimFileSystem::new(1);
        let (cached, blocks) = file(&fs, Durability::Fsync);
        let mut is_refused = false;

        let written = write_frames(&*cached, &blocks, |at, _| {
            if at > 100_000 && !std::mem::replace(&mut is_refused, true) {
                fs.fail_next(Fault::Refusal);
            }
        });

        assert!(!blocks.is_direct());
        assert!(fs.contents(Path::new(PATH)) == Some(written));
    }

    #[test]
    fn what_is_not_synced_goes_through_the_page_cache() {
        let fs = SimFileSystem::new(1);
        let (cached, blocks) = file(&fs, Durability::Os);

        let written = write_frames(&*cached, &blocks, |_, _| {});

        assert!(!blocks.is_direct());
        assert!(fs.contents(Path::new(PATH)) == Some(written));
    }
}
