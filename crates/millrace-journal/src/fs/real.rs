//! The real disk.
//!
//! Files are opened under their own names only: who owns the directory could have a command of root
//! write, or give away, what a link there names. The directory itself may be behind links.

use std::fs::{DirBuilder, OpenOptions, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, IoSlice};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{Access, Advice, FallocateFlags, OFlags, SeekFrom, access};
use rustix::io::Errno;

use super::{File, FileSystem};

/// Linux files, through `pread`, `pwrite`, `pwritev`, `fallocate` and `fdatasync`.
pub struct RealFileSystem {
    origin: Instant,
    /// The directory synced last. Kept open, so that a name can be made durable however many files
    /// are open by then.
    dir: Mutex<Option<(PathBuf, Arc<std::fs::File>)>>,
    is_read_only: bool,
}

impl RealFileSystem {
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::new(Self { origin: Instant::now(), dir: Mutex::default(), is_read_only: false })
    }

    /// Opens files for reading alone, so that what is mounted read-only, or belongs to somebody
    /// else, can be read. Its locks hold against all but each other.
    #[must_use]
    pub fn read_only() -> Arc<Self> {
        Arc::new(Self { origin: Instant::now(), dir: Mutex::default(), is_read_only: true })
    }

    fn directory(&self, path: &Path) -> io::Result<Arc<std::fs::File>> {
        let mut kept = self.dir.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, dir)) = kept.as_ref().filter(|(kept, _)| kept == path) {
            return Ok(Arc::clone(dir));
        }
        let dir = Arc::new(std::fs::File::open(path)?);
        *kept = Some((path.to_owned(), Arc::clone(&dir)));
        Ok(dir)
    }

    /// That the file's directory is still the one that was synced: a backup that was put in its
    /// place has files of the same names, which are not ours to replace or remove.
    fn check_dir_of(&self, path: &Path) -> io::Result<()> {
        let kept = self.dir.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some((dir, kept)) = kept.filter(|(dir, _)| path.parent() == Some(dir)) else {
            return Ok(());
        };
        let (kept, now) = (kept.metadata()?, dir.metadata()?);
        if (kept.dev(), kept.ino()) != (now.dev(), now.ino()) {
            let text = format!("{} is another directory than before", dir.display());
            return Err(io::Error::other(text));
        }
        Ok(())
    }
}

/// A name is durable once the directory that it stands in is synced. One that may be written but
/// not read cannot be.
fn sync_name(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    match std::fs::File::open(parent.unwrap_or(Path::new("."))) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        opened => opened?.sync_all(),
    }
}

impl FileSystem for RealFileSystem {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let is_missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
        let missing: Vec<&Path> = dir.ancestors().take_while(is_missing).collect();
        // Messages are in it: for nobody else.
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        missing.into_iter().try_for_each(sync_name)?;
        // Files that are there may still be writable: then only the next segment would tell.
        let wanted = Access::WRITE_OK | Access::EXEC_OK;
        Ok(access(dir, wanted)?)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        std::fs::read_dir(dir)?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect()
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let mut options = no_link(OFlags::empty());
        let file = options.read(true).write(!self.is_read_only).open(path)?;
        Ok(Arc::new(RealFile { file }))
    }

    fn open_direct(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let file = no_link(OFlags::DIRECT).read(true).write(true).open(path)?;
        Ok(Arc::new(RealFile { file }))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.check_dir_of(path)?;
        // Never what is there: that may be somebody else's, by a link.
        self.remove_present(path)?;
        let file = create_new().read(true).open(path)?;
        give_to_owner_of_dir(&file, path);
        Ok(Arc::new(RealFile { file }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check_dir_of(to)?;
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.check_dir_of(path)?;
        std::fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.directory(dir)?.sync_all()
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        // flock: released by the kernel however the process ends.
        if self.is_read_only {
            let dir = lock_dir_of(path, std::fs::File::try_lock_shared)?;
            return match no_link(OFlags::empty()).read(true).open(path) {
                Ok(file) => {
                    file.try_lock_shared()?;
                    Ok(Box::new((dir, file)))
                }
                // Whoever writes makes it first.
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Box::new(dir)),
                Err(error) => Err(error),
            };
        }
        let dir = lock_dir_of(path, std::fs::File::try_lock)?;
        let file = match create_new().open(path) {
            Ok(file) => {
                give_to_owner_of_dir(&file, path);
                file
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                no_link(OFlags::empty()).write(true).open(path)?
            }
            Err(error) => return Err(error),
        };
        file.try_lock()?;
        Ok(Box::new((dir, file)))
    }

    fn random(&self) -> u64 {
        // Seeded by the operating system, once a thread; hashing the clock parts two calls.
        RandomState::new().hash_one(self.origin.elapsed())
    }

    fn now(&self) -> Duration {
        self.origin.elapsed()
    }
}

/// Locks the directory of `path` itself: a file in it could be removed, and made again by another
/// holder. Earlier versions lock the file alone, and some file systems no directories.
fn lock_dir_of(
    path: &Path,
    lock: impl Fn(&std::fs::File) -> Result<(), TryLockError>,
) -> io::Result<std::fs::File> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let dir = std::fs::File::open(parent.unwrap_or(Path::new(".")))?;
    match lock(&dir) {
        Err(TryLockError::Error(error)) => {
            tracing::debug!(path = %path.display(), %error, "the directory cannot be locked");
        }
        locked => locked?,
    }
    Ok(dir)
}

/// Opens what has the name itself: a symbolic link is refused.
fn no_link(flags: OFlags) -> OpenOptions {
    let mut options = std::fs::File::options();
    options.custom_flags((flags | OFlags::NOFOLLOW).bits() as i32);
    options
}

/// Makes files for nobody else, wherever they are copied: messages are in them.
fn create_new() -> OpenOptions {
    let mut options = std::fs::File::options();
    options.write(true).create_new(true).mode(0o600);
    options
}

/// What root makes, as by a repair, is to be used by the server's user, who owns the directory. The
/// file must be new: one that was there may have another name elsewhere.
fn give_to_owner_of_dir(file: &std::fs::File, path: &Path) {
    let Some(dir) = path.parent().and_then(|dir| dir.metadata().ok()) else { return };
    let Ok(own) = file.metadata() else { return };
    if own.uid() == dir.uid() {
        return;
    }
    if let Err(error) = fchown(file, Some(dir.uid()), Some(dir.gid())) {
        tracing::debug!(path = %path.display(), %error, "file stays with who made it");
    }
}

struct RealFile {
    file: std::fs::File,
}

impl File for RealFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match self.file.read_at(rest, offset + done as u64) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn next_data(&self, offset: u64) -> io::Result<u64> {
        // Moves the cursor, which nothing else uses.
        match rustix::fs::seek(&self.file, SeekFrom::Data(offset)) {
            Ok(place) => Ok(place.max(offset)),
            Err(Errno::NXIO) => Ok(self.size()?.max(offset)),
            Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(offset),
            Err(errno) => Err(errno.into()),
        }
    }

    fn write_at(&self, parts: &[&[u8]], offset: u64) -> io::Result<()> {
        if let [part] = parts {
            return self.file.write_all_at(part, offset);
        }
        let total: usize = parts.iter().map(|part| part.len()).sum();
        let mut slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
        let mut rest = slices.as_mut_slice();
        let mut done = 0;
        while done < total {
            match rustix::io::pwritev(&self.file, rest, offset + done as u64) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    done += written;
                    IoSlice::advance_slices(&mut rest, written);
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        let allocate = || rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, bytes);
        match rustix::io::retry_on_intr(allocate) {
            Ok(()) => Ok(()),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                // No way to ask for space but to take it.
                const STEP: usize = 1 << 20;
                let zeros = vec![0; STEP];
                for start in (self.size()?..bytes).step_by(STEP) {
                    let length = (bytes - start).min(STEP as u64) as usize;
                    self.file.write_all_at(&zeros[..length], start)?;
                }
                Ok(())
            }
            Err(errno) => Err(errno.into()),
        }
    }

    fn shorten(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(rustix::fs::fdatasync(&self.file)?)
    }

    fn forget_clean(&self) -> io::Result<()> {
        // The whole file: of a part, pages that are not wholly in it would be kept.
        match rustix::fs::fadvise(&self.file, 0, None, Advice::DontNeed) {
            // Not every system takes advice.
            Ok(()) | Err(Errno::NOSYS | Errno::INVAL | Errno::OPNOTSUPP) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    #[test]
    fn what_root_makes_belongs_to_the_owner_of_the_directory() {
        const OWNER: u32 = 65_534;
        let dir = tempfile::tempdir().unwrap();
        // As anybody else this cannot be.
        if chown(dir.path(), Some(OWNER), Some(OWNER)).is_err() {
            return;
        }
        let fs = RealFileSystem::new();

        let _file = fs.create(&dir.path().join("file")).unwrap();
        let _lock = fs.lock(&dir.path().join("lock")).unwrap();

        for name in ["file", "lock"] {
            let made = dir.path().join(name).metadata().unwrap();
            assert_eq!((made.uid(), made.gid()), (OWNER, OWNER), "{name}");
        }
    }

    #[test]
    fn files_are_for_nobody_else() {
        let dir = tempfile::tempdir().unwrap();
        let fs = RealFileSystem::new();

        let _file = fs.create(&dir.path().join("file")).unwrap();
        let _lock = fs.lock(&dir.path().join("lock")).unwrap();

        for name in ["file", "lock"] {
            assert_eq!(dir.path().join(name).metadata().unwrap().mode() & 0o777, 0o600, "{name}");
        }
    }

    #[test]
    fn nothing_is_opened_or_given_away_through_a_link() {
        const OWNER: u32 = 65_534;
        let outside = tempfile::tempdir().unwrap();
        let victim = outside.path().join("victim");
        std::fs::write(&victim, "untouched").unwrap();
        let dir = tempfile::tempdir().unwrap();
        // As anybody else the rest still holds.
        let _ = chown(dir.path(), Some(OWNER), Some(OWNER));
        let link = |name: &str| {
            let path = dir.path().join(name);
            symlink(&victim, &path).unwrap();
            path
        };
        let (lock, segment, new) = (link("lock"), link("1.seg"), link("1.seg.tmp"));
        let hard = dir.path().join("hard");
        std::fs::hard_link(&victim, &hard).unwrap();
        let before = victim.metadata().unwrap();

        for fs in [RealFileSystem::new(), RealFileSystem::read_only()] {
            assert!(fs.lock(&lock).is_err());
            assert!(fs.open(&segment).is_err());
            assert!(fs.open_direct(&segment).is_err());
        }
        let fs = RealFileSystem::new();
        drop(fs.lock(&hard).unwrap());
        fs.create(&new).unwrap().write_at(&[b"written"], 0).unwrap();
        fs.create(&hard).unwrap().write_at(&[b"written"], 0).unwrap();

        let after = victim.metadata().unwrap();
        assert_eq!((after.uid(), after.gid()), (before.uid(), before.gid()));
        assert_eq!(std::fs::read(&victim).unwrap(), b"untouched");
        for made in [new, hard] {
            assert!(made.symlink_metadata().unwrap().is_file());
            assert_eq!(std::fs::read(made).unwrap(), b"written");
        }
    }

    #[test]
    fn what_is_put_in_the_place_of_the_directory_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (ours, backup) = (dir.path().join("journal"), dir.path().join("backup"));
        let fs = RealFileSystem::new();
        for made in [&ours, &backup] {
            fs.create_dir_all(made).unwrap();
            std::fs::write(made.join("1.seg"), "backup").unwrap();
        }
        fs.create(&ours.join("1.seg")).unwrap();
        fs.sync_dir(&ours).unwrap();
        std::fs::rename(&ours, dir.path().join("moved")).unwrap();
        std::fs::rename(&backup, &ours).unwrap();

        let path = ours.join("1.seg");
        assert!(fs.create(&path).is_err());
        assert!(fs.remove(&path).is_err());
        assert!(fs.rename(&path, &ours.join("2.seg")).is_err());

        assert_eq!(std::fs::read(path).unwrap(), b"backup");
    }

    #[test]
    fn a_directory_that_takes_no_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let journal = dir.path().join("journal");
        let fs = RealFileSystem::new();
        fs.create_dir_all(&journal).unwrap();
        let allow = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        allow(dir.path(), 0o755);
        // Root may always: in this test it is a thread of somebody else.
        let create = || {
            std::thread::scope(|scope| {
                let thread = scope.spawn(|| {
                    if rustix::process::geteuid().is_root() {
                        rustix::thread::set_thread_uid(rustix::fs::Uid::from_raw(65534)).unwrap();
                    }
                    fs.create_dir_all(&journal).map_err(|error| error.kind())
                });
                thread.join().unwrap()
            })
        };

        allow(&journal, 0o777);
        assert_eq!(create(), Ok(()));
        allow(&journal, 0o555);
        assert_eq!(create(), Err(io::ErrorKind::PermissionDenied));
    }

    #[test]
    fn the_directory_may_be_behind_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let linked = dir.path().join("linked");
        let real = dir.path().join("real");
        symlink(&real, &linked).unwrap();
        let fs = RealFileSystem::new();
        fs.create_dir_all(&real).unwrap();

        let path = linked.join("file");
        fs.create(&path).unwrap().write_at(&[b"data"], 0).unwrap();
        drop(fs.lock(&linked.join("lock")).unwrap());
        fs.rename(&path, &linked.join("other")).unwrap();
        fs.sync_dir(&linked).unwrap();

        assert_eq!(fs.open(&linked.join("other")).unwrap().size().unwrap(), 4);
        assert!(real.join("lock").exists());
    }

    #[test]
    fn reading_alone_writes_nothing_and_respects_who_writes() {
        let dir = tempfile::tempdir().unwrap();
        let (file, lock) = (dir.path().join("file"), dir.path().join("lock"));
        let (writing, reading) = (RealFileSystem::new(), RealFileSystem::read_only());
        writing.create(&file).unwrap();

        drop(reading.lock(&lock).unwrap());
        assert!(!lock.exists());
        assert!(reading.open(&file).unwrap().write_at(&[b"data"], 0).is_err());

        let writers = writing.lock(&lock).unwrap();
        let refused = reading.lock(&lock).err().map(|error| error.kind());
        assert_eq!(refused, Some(io::ErrorKind::WouldBlock));
        drop(writers);
        let (_one, _other) = (reading.lock(&lock).unwrap(), reading.lock(&lock).unwrap());
        assert!(writing.lock(&lock).is_err());
    }

    #[test]
    fn a_lock_holds_though_its_file_is_removed_or_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let lock = dir.path().join("lock");
        let kind = |fs: &RealFileSystem| fs.lock(&lock).err().map(|error| error.kind());
        let (writing, reading) = (RealFileSystem::new(), RealFileSystem::read_only());
        let blocked = Some(io::ErrorKind::WouldBlock);

        let held = writing.lock(&lock).unwrap();
        std::fs::remove_file(&lock).unwrap();
        assert_eq!((kind(&writing), kind(&reading)), (blocked, blocked));
        std::fs::write(&lock, "").unwrap();
        assert_eq!((kind(&writing), kind(&reading)), (blocked, blocked));
        // By another name of the directory, too.
        let other = dir.path().join("..").join(dir.path().file_name().unwrap()).join("lock");
        assert!(writing.lock(&other).is_err());
        drop(held);
        assert_eq!((kind(&writing), kind(&reading)), (None, None));

        // An earlier version holds the file alone.
        let file = std::fs::File::options().write(true).open(&lock).unwrap();
        file.try_lock().unwrap();
        assert_eq!(kind(&writing), blocked);
    }

    #[test]
    fn holes_are_skipped_and_data_never() {
        const DATA: u64 = 3_000_000;
        const END: u64 = 8 << 20;
        let dir = tempfile::tempdir().unwrap();
        let file = RealFileSystem::new().create(&dir.path().join("file")).unwrap();
        file.allocate(END).unwrap();
        file.write_at(&[b"data"], DATA).unwrap();

        for from in [0, 1, DATA - 1, DATA, DATA + 3] {
            let next = file.next_data(from).unwrap();
            assert!(next >= from && next <= DATA.max(from), "{from}: {next}");
        }
        // Not every file system knows its holes.
        let behind = file.next_data(DATA + (1 << 20)).unwrap();
        assert!((DATA + (1 << 20)..=END).contains(&behind), "{behind}");
        assert!(file.next_data(END + 1).unwrap() > END);
    }
}
