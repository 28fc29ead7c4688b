//! A disk in memory that forgets what was not synced, and fails on demand.
//!
//! Each file has a live image, which the running program sees, and a durable one, which is all
//! that a crash leaves, together with a seeded, arbitrary part of the unsynced writes, cut at
//! sectors. A failed sync loses some of what the page cache holds, which goes on to show it, as
//! Linux does. Names become durable with `sync_dir`; of the renames since, a crash keeps a prefix,
//! as a journaling file system does. Two runs with the same seed and calls see the same.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::world::{Image, NameChange, World, bounded, keep_some, next_random};
use super::{BLOCK_BYTES, File, FileSystem};

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Fails with EIO; a write leaves half of itself.
    Io,
    /// Fails with ENOSPC, without effect.
    NoSpace,
    /// Fails with ENOMEM; a write leaves half of itself.
    NoMemory,
    /// A write past the page cache fails with EINVAL and leaves a part of itself.
    Refusal,
    /// As if the machine had lost power in the middle of the call: it and all later calls fail.
    PowerLoss,
}

/// The simulated disk. Clones share it.
#[derive(Clone)]
pub struct SimFileSystem {
    world: Arc<Mutex<World>>,
}

impl SimFileSystem {
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let world = World {
            random: seed,
            now: Duration::ZERO,
            calls: 0,
            faults: BTreeMap::new(),
            is_off: false,
            syncs_fail: false,
            refuses_direct: false,
            is_out_of_files: false,
            unreadable: None,
            sync_time: Duration::ZERO,
            capacity_bytes: u64::MAX,
            files: Vec::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            pending_names: Vec::new(),
            locks: Vec::new(),
        };
        Self { world: Arc::new(Mutex::new(world)) }
    }

    /// Plans a fault for the mutating call with this number, counted from 0.
    pub fn fail_call(&self, number: u64, fault: Fault) {
        self.world().faults.insert(number, fault);
    }

    /// Plans a fault for the next mutating call.
    pub fn fail_next(&self, fault: Fault) {
        let mut world = self.world();
        let number = world.calls;
        world.faults.insert(number, fault);
    }

    /// From now on every `sync_data` fails and makes nothing durable.
    pub fn fail_syncs(&self) {
        self.world().syncs_fail = true;
    }

    /// From now on reads of this byte of a file fail, as of a bad sector, until it is written to.
    pub fn fail_reads_at(&self, path: &Path, offset: u64) {
        let mut world = self.world();
        world.unreadable = world.names.get(path).map(|id| (*id, offset));
    }

    /// From now on nothing is read or written past the page cache, as by a file system that cannot.
    pub fn refuse_direct(&self) {
        self.world().refuses_direct = true;
    }

    /// Whether files can still be opened; if not, that fails with EMFILE.
    pub fn allow_opening(&self, is_allowed: bool) {
        self.world().is_out_of_files = !is_allowed;
    }

    /// From now on the clock advances by so much at every `sync_data`.
    pub fn set_sync_time(&self, time: Duration) {
        self.world().sync_time = time;
    }

    /// Bounds the space that files may set aside together.
    pub fn set_capacity(&self, bytes: u64) {
        self.world().capacity_bytes = bytes;
    }

    pub fn advance(&self, by: Duration) {
        self.world().now += by;
    }

    /// Mutating calls so far: creations, writes, changes of length, syncs, renames, removals.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.world().calls
    }

    /// Space that files have set aside together.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.world().used_bytes()
    }

    /// What the machine finds after losing power now: synced data, and a seeded part of the rest.
    #[must_use]
    pub fn crashed(&self, seed: u64) -> Self {
        let old = self.world();
        let new = Self::new(seed);
        {
            let mut world = new.world();
            world.random = old.random ^ seed;
            world.now = old.now;
            world.capacity_bytes = old.capacity_bytes;
            world.files = old.files.iter().map(|image| image.torn(&mut world.random)).collect();
            let mut names = old.durable_names.clone();
            keep_some(&old.pending_names, &mut names, &mut world.random);
            world.names = names.clone();
            world.durable_names = names;
        }
        new
    }

    /// What the next process finds after this one was killed: everything written, synced or not.
    /// It stays as unsynced as it was.
    #[must_use]
    pub fn killed(&self) -> Self {
        {
            let mut world = self.world();
            world.locks.clear();
            world.is_off = false;
            world.faults.clear();
        }
        self.clone()
    }

    /// A copy of the live contents, for tests that damage bytes.
    #[must_use]
    pub fn contents(&self, path: &Path) -> Option<Vec<u8>> {
        let world = self.world();
        let id = world.names.get(path)?;
        world.files.get(*id).map(|image| image.live.clone())
    }

    /// Puts these contents, durably, under `path`.
    pub fn plant(&self, path: &Path, contents: &[u8]) {
        let mut world = self.world();
        let image = Image {
            live: contents.to_vec(),
            durable: contents.to_vec(),
            unsynced: Vec::new(),
            allocated_bytes: contents.len() as u64,
        };
        let id = world.files.len();
        world.files.push(image);
        world.names.insert(path.to_owned(), id);
        world.durable_names.insert(path.to_owned(), id);
    }

    /// An independent disk with the same live contents, all durable.
    #[must_use]
    pub fn fork(&self) -> Self {
        let old = self.world();
        let new = Self::new(old.random);
        for (path, id) in &old.names {
            if let Some(image) = old.files.get(*id) {
                new.plant(path, &image.live);
            }
        }
        new.world().capacity_bytes = old.capacity_bytes;
        new.world().now = old.now;
        new
    }

    fn open_file(&self, path: &Path) -> io::Result<SimFile> {
        let world = self.world();
        world.check_power()?;
        world.check_files()?;
        let id = *world.names.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(SimFile { world: Arc::clone(&self.world), id, is_direct: false })
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FileSystem for SimFileSystem {
    fn create_dir_all(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let world = self.world();
        world.check_power()?;
        Ok(world
            .names
            .keys()
            .filter(|path| path.parent() == Some(dir))
            .filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
            .collect())
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(self.open_file(path)?))
    }

    fn open_direct(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(SimFile { is_direct: true, ..self.open_file(path)? }))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let mut world = self.world();
        world.begin_call()?;
        world.check_files()?;
        let id = world.files.len();
        world.files.push(Image::default());
        world.change_name(NameChange::Set(path.to_owned(), id));
        Ok(Arc::new(SimFile { world: Arc::clone(&self.world), id, is_direct: false }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut world = self.world();
        world.begin_call()?;
        let id = *world.names.get(from).ok_or(io::ErrorKind::NotFound)?;
        // One change, as rename is atomic: a crash never sees both names or neither.
        world.change_name(NameChange::Rename(from.to_owned(), to.to_owned(), id));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut world = self.world();
        world.begin_call()?;
        let id = *world.names.get(path).ok_or(io::ErrorKind::NotFound)?;
        world.change_name(NameChange::Remove(path.to_owned(), id));
        Ok(())
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        let mut world = self.world();
        world.begin_call()?;
        world.durable_names = world.names.clone();
        world.pending_names.clear();
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        let mut world = self.world();
        world.check_power()?;
        if world.locks.iter().any(|held| held == path) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        world.locks.push(path.to_owned());
        Ok(Box::new(SimLock { world: Arc::clone(&self.world), path: path.to_owned() }))
    }

    fn random(&self) -> u64 {
        next_random(&mut self.world().random)
    }

    fn now(&self) -> Duration {
        self.world().now
    }
}

struct SimFile {
    world: Arc<Mutex<World>>,
    id: usize,
    is_direct: bool,
}

/// What reads and writes past the page cache must keep to. Real ones may be refused, or take
/// another way.
fn assert_aligned(parts: &[&[u8]], offset: u64) {
    let is_whole = |part: &&[u8]| {
        part.len().is_multiple_of(BLOCK_BYTES) && part.as_ptr().align_offset(BLOCK_BYTES) == 0
    };
    assert!(parts.iter().all(is_whole), "direct access to parts that are no blocks");
    assert!(offset.is_multiple_of(BLOCK_BYTES as u64), "direct access at {offset}");
}

impl SimFile {
    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SimFile {
    fn check_direct(&self, world: &World) -> io::Result<()> {
        let is_refused = self.is_direct && world.refuses_direct;
        if is_refused { Err(io::ErrorKind::InvalidInput.into()) } else { Ok(()) }
    }
}

impl File for SimFile {
    fn size(&self) -> io::Result<u64> {
        let world = self.world();
        world.check_power()?;
        Ok(world.files.get(self.id).map_or(0, |image| image.live.len() as u64))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let world = self.world();
        world.check_power()?;
        if self.is_direct {
            assert_aligned(&[buffer], offset);
        }
        self.check_direct(&world)?;
        let is_hit = |at| (offset..offset + buffer.len() as u64).contains(&at);
        if world.unreadable.is_some_and(|(id, at)| id == self.id && is_hit(at)) {
            return Err(rustix::io::Errno::IO.into());
        }
        let rest = world.files.get(self.id).and_then(|image| image.live.get(offset as usize..));
        let rest = rest.unwrap_or_default();
        let length = rest.len().min(buffer.len());
        if let (Some(target), Some(source)) = (buffer.get_mut(..length), rest.get(..length)) {
            target.copy_from_slice(source);
        }
        Ok(length)
    }

    fn next_data(&self, offset: u64) -> io::Result<u64> {
        let world = self.world();
        world.check_power()?;
        let rest = world.files.get(self.id).and_then(|image| image.live.get(offset as usize..));
        let rest = rest.unwrap_or_default();
        let zeros = rest.iter().take_while(|byte| **byte == 0).count();
        Ok(offset + zeros as u64)
    }

    fn write_at(&self, parts: &[&[u8]], offset: u64) -> io::Result<()> {
        if self.is_direct {
            assert_aligned(parts, offset);
        }
        let bytes = parts.concat();
        let mut world = self.world();
        world.check_power()?;
        self.check_direct(&world)?;
        let began = world.begin_call();
        let written = match &began {
            Ok(()) => bytes.as_slice(),
            // A failed or interrupted write leaves an arbitrary beginning of itself.
            Err(error) if error.kind() != io::ErrorKind::StorageFull && !bytes.is_empty() => {
                let length = bounded(&mut world.random, bytes.len() as u64);
                bytes.get(..length as usize).unwrap_or_default()
            }
            Err(_) => &[],
        };
        if !written.is_empty() {
            let is_hit = |at| (offset..offset + written.len() as u64).contains(&at);
            world.unreadable.take_if(|(id, at)| *id == self.id && is_hit(*at));
            world.grow(self.id, offset + written.len() as u64)?;
            if let Some(image) = world.files.get_mut(self.id) {
                image.write(offset as usize, written, self.is_direct);
            }
        }
        began
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        let mut world = self.world();
        world.begin_call()?;
        world.grow(self.id, bytes)
    }

    fn shorten(&self, bytes: u64) -> io::Result<()> {
        let mut world = self.world();
        world.begin_call()?;
        if let Some(image) = world.files.get_mut(self.id) {
            image.shorten(bytes);
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut world = self.world();
        world.check_power()?;
        let began = world.begin_call();
        let World { files, random, now, sync_time, syncs_fail, is_off, .. } = &mut *world;
        *now += *sync_time;
        let image = files.get_mut(self.id).ok_or(io::ErrorKind::NotFound)?;
        if began.is_ok() && !*syncs_fail {
            image.sync();
        } else if !*is_off {
            image.lose(random);
        }
        match began {
            Ok(()) if *syncs_fail => Err(io::Error::other("simulated sync failure")),
            began => began,
        }
    }

    fn forget_clean(&self) -> io::Result<()> {
        let mut world = self.world();
        world.check_power()?;
        if let Some(image) = world.files.get_mut(self.id) {
            image.forget_clean();
        }
        Ok(())
    }
}

struct SimLock {
    world: Arc<Mutex<World>>,
    path: PathBuf,
}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut world = self.world.lock().unwrap_or_else(PoisonError::into_inner);
        world.locks.retain(|held| *held != self.path);
    }
}
