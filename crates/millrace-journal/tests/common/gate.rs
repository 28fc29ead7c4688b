//! A file system behind a gate that can be shut: for whole processes, or for what needs space.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use millrace_journal::FileSystem;
use millrace_journal::fs::File;

/// The state that all processes of one place share.
#[derive(Default)]
pub(crate) struct Gate {
    shared: Arc<Shared>,
    /// Of each process so far: whether nothing of it arrives any more.
    processes: Mutex<Vec<Arc<AtomicBool>>>,
}

#[derive(Default)]
struct Shared {
    is_full: AtomicBool,
    ahead_ms: AtomicU64,
}

#[derive(Clone)]
struct Gated<T> {
    inner: T,
    shared: Arc<Shared>,
    is_cut_off: Arc<AtomicBool>,
}

impl Gate {
    /// What a new process sees of `fs`.
    pub(crate) fn before(&self, fs: Arc<dyn FileSystem>) -> Arc<dyn FileSystem> {
        let is_cut_off = Arc::new(AtomicBool::new(false));
        self.processes.lock().unwrap().push(Arc::clone(&is_cut_off));
        Arc::new(Gated { inner: fs, shared: Arc::clone(&self.shared), is_cut_off })
    }

    /// Nothing of the processes so far arrives any more.
    pub(crate) fn cut_off(&self) {
        for is_cut_off in self.processes.lock().unwrap().iter() {
            is_cut_off.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn fill(&self) {
        self.shared.is_full.store(true, Ordering::Relaxed);
    }

    /// There is space again, and time passes until a journal looks for it.
    pub(crate) fn free(&self) {
        self.shared.is_full.store(false, Ordering::Relaxed);
        self.shared.ahead_ms.fetch_add(10_000, Ordering::Relaxed);
    }
}

impl<T> Gated<T> {
    fn change(&self) -> io::Result<&T> {
        if self.is_cut_off.load(Ordering::Relaxed) {
            return Err(io::Error::other("cut off"));
        }
        Ok(&self.inner)
    }

    fn with<U>(&self, inner: U) -> Gated<U> {
        let (shared, is_cut_off) = (Arc::clone(&self.shared), Arc::clone(&self.is_cut_off));
        Gated { inner, shared, is_cut_off }
    }

    fn file(&self, opened: io::Result<Arc<dyn File>>) -> io::Result<Arc<dyn File>>
    where
        T: Send + Sync,
    {
        Ok(Arc::new(self.with(opened?)))
    }
}

impl FileSystem for Gated<Arc<dyn FileSystem>> {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.change()?.create_dir_all(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.inner.list(dir)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.file(self.inner.open(path))
    }

    fn open_direct(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.file(self.inner.open_direct(path))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.file(self.change()?.create(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change()?.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.change()?.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.change()?.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        self.inner.lock(path)
    }

    fn random(&self) -> u64 {
        self.inner.random()
    }

    fn now(&self) -> Duration {
        self.inner.now() + Duration::from_millis(self.shared.ahead_ms.load(Ordering::Relaxed))
    }
}

impl File for Gated<Arc<dyn File>> {
    fn size(&self) -> io::Result<u64> {
        self.inner.size()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read_at(buffer, offset)
    }

    fn next_data(&self, offset: u64) -> io::Result<u64> {
        self.inner.next_data(offset)
    }

    fn write_at(&self, parts: &[&[u8]], offset: u64) -> io::Result<()> {
        self.change()?.write_at(parts, offset)
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        if self.shared.is_full.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.change()?.allocate(bytes)
    }

    fn shorten(&self, bytes: u64) -> io::Result<()> {
        self.change()?.shorten(bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.change()?.sync_data()
    }

    fn forget_clean(&self) -> io::Result<()> {
        self.inner.forget_clean()
    }
}
