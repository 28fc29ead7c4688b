//! The database of the history, in a file or in memory, and connections to it.
//!
//! ```text
//! metrics/history.db        entities and their series, data points
//! metrics/history.db-wal    commits that are not in it yet
//! ```
//! One connection writes; reads have their own and see what was committed when they began. A commit
//! survives the end of the process at once, and a power loss once [`Database::sync`] returned.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::directory::{Directory, free_name, sync_dir};

const FILE: &str = "history.db";
/// Prefix of the names of copies that are being made.
const COPY: &str = "history.copy-";
/// Version of the layout below, in `user_version`.
const VERSION: i64 = 1;
const LAYOUT: &str = "
CREATE TABLE state (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE entities (
    id INTEGER PRIMARY KEY,
    region TEXT NOT NULL, account TEXT NOT NULL, namespace TEXT NOT NULL,
    dimensions TEXT NOT NULL -- JSON: [[name, value], …]
);
CREATE TABLE series (
    entity INTEGER NOT NULL, number INTEGER NOT NULL,
    metric TEXT NOT NULL, -- empty: the series was removed, its number stays taken
    unit INTEGER NOT NULL, last_day INTEGER NOT NULL,
    PRIMARY KEY (entity, number)
) WITHOUT ROWID;
CREATE TABLE points (
    day INTEGER NOT NULL, -- since 1970
    resolution INTEGER NOT NULL, -- minutes: 1, 5, 60
    part INTEGER NOT NULL, -- entities by thousands
    minute INTEGER NOT NULL, -- of the day
    number INTEGER NOT NULL, -- counts the rows of that minute
    rows BLOB NOT NULL,
    PRIMARY KEY (day, resolution, part, minute, number)
) WITHOUT ROWID;";

/// Page cache of each connection, in KiB.
const CACHE_KIB: i32 = 4 << 10;
/// SQLite cuts a longer write-ahead file to this size when it starts it again.
const WAL_BYTES: i64 = 16 << 20;
/// Idle connections that are kept for the next reads.
const READERS_KEPT: usize = 4;
/// Free pages that the file keeps.
const FREE_PAGES_KEPT: i64 = 4_096;
/// Free pages that are given back at a time, since other writes wait meanwhile.
const PAGES_PER_SHRINK: i64 = 32_768;

pub(crate) struct Database {
    location: Location,
    readers: Mutex<Vec<Connection>>,
}

enum Location {
    File {
        dir: Directory,
        path: PathBuf,
        wal: File,
    },
    /// SQLite has no snapshots in memory, so reads and writes take turns.
    Memory {
        name: String,
        turns: RwLock<()>,
    },
}

/// The only connection that writes.
pub(crate) struct Writer(Mutex<Connection>);

/// A read of what was committed when it began.
pub(crate) struct Snapshot<'a> {
    database: &'a Database,
    connection: Connection,
    _turn: Option<RwLockReadGuard<'a, ()>>,
}

impl Database {
    pub(crate) fn in_memory() -> io::Result<(Database, Writer)> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("file:/millrace-metrics-{number}?vfs=memdb");
        let location = Location::Memory { name, turns: RwLock::default() };
        let database = Database { location, readers: Mutex::default() };
        let connection = database.connect(flags(true)).map_err(io_error)?;
        connection.execute_batch(LAYOUT).map_err(io_error)?;
        Ok((database, Writer(Mutex::new(connection))))
    }

    /// Opens or creates the file and loads what the caller needs from it. A file that is no
    /// database, or too damaged to be loaded, is kept under another name, and a new one begins.
    pub(crate) fn open<T>(
        dir: Directory,
        load: impl Fn(&Connection) -> rusqlite::Result<T>,
    ) -> io::Result<(Database, Writer, T)> {
        let path = path_in(dir.path());
        remove_copies(dir.path())?;
        let open = || {
            let connection = open_file(&path)?;
            let loaded = load(&connection).map_err(io_error)?;
            Ok((connection, loaded))
        };
        let (connection, loaded) = match open() {
            Err(error) if is_damage(&error) => {
                set_aside(&path, &error)?;
                open()
            }
            opened => opened,
        }?;
        let wal = File::open(wal_of(&path))?;
        // The names of both files.
        sync_dir(dir.path())?;
        let database =
            Database { location: Location::File { dir, path, wal }, readers: Mutex::default() };
        Ok((database, Writer(Mutex::new(connection)), loaded))
    }

    /// Makes durable what was committed before.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.check()?;
        let Location::File { path, wal, .. } = &self.location else { return Ok(()) };
        wal.sync_data()?;
        let is_kept = std::fs::metadata(wal_of(path)).is_ok_and(|now| {
            wal.metadata().is_ok_and(|kept| (now.dev(), now.ino()) == (kept.dev(), kept.ino()))
        });
        if !is_kept || !path.exists() {
            return Err(io::Error::other(format!("{} was removed", path.display())));
        }
        Ok(())
    }

    /// Fails if the directory is no longer the one that was opened.
    pub(crate) fn check(&self) -> io::Result<()> {
        match &self.location {
            Location::File { dir, .. } => dir.check(),
            Location::Memory { .. } => Ok(()),
        }
    }

    pub(crate) fn snapshot(&self) -> io::Result<Snapshot<'_>> {
        let turn = match &self.location {
            Location::Memory { turns, .. } => {
                Some(turns.read().unwrap_or_else(PoisonError::into_inner))
            }
            Location::File { .. } => None,
        };
        let kept = self.readers().pop();
        let connection = match kept {
            Some(connection) => connection,
            None => {
                self.check()?;
                self.connect(flags(false)).map_err(io_error)?
            }
        };
        // The second statement takes the snapshot.
        let begin = "BEGIN; SELECT count(*) FROM state;";
        connection.execute_batch(begin).map_err(io_error)?;
        Ok(Snapshot { database: self, connection, _turn: turn })
    }

    /// A guard that the writer holds during a change.
    pub(crate) fn turn(&self) -> Option<RwLockWriteGuard<'_, ()>> {
        match &self.location {
            Location::Memory { turns, .. } => {
                Some(turns.write().unwrap_or_else(PoisonError::into_inner))
            }
            Location::File { .. } => None,
        }
    }

    /// Makes a copy of the file as it is now and removes its name; returns `None` in memory. The
    /// copy is given up once `is_wanted` returns false.
    pub(crate) fn copy(
        &self,
        is_wanted: impl Fn() -> bool + Send + 'static,
    ) -> io::Result<Option<File>> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let Location::File { dir, path, .. } = &self.location else { return Ok(None) };
        dir.check()?;
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let copy = path.with_file_name(format!("{COPY}{number}"));
        let text = copy.to_str().ok_or_else(|| io::Error::other("the path is not UTF-8"))?;
        let mut connection = self.connect(flags(false)).map_err(io_error)?;
        let stop = move || !is_wanted();
        connection.progress_handler(10_000, Some(stop)).map_err(io_error)?;
        let copied = connection.execute("VACUUM INTO ?", [text]).map_err(io_error);
        let file = copied.and_then(|_| File::open(&copy));
        match std::fs::remove_file(&copy) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%error, path = %copy.display(), "a copy of the history is left");
            }
            _ => {}
        }
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("copying {}: {error}", path.display()))
        };
        file.map(Some).map_err(named)
    }

    /// Bytes of all files in the directory.
    pub(crate) fn disk_bytes(&self) -> u64 {
        let Location::File { dir, .. } = &self.location else { return 0 };
        if dir.check().is_err() {
            return 0;
        }
        let entries = std::fs::read_dir(dir.path()).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
    }

    fn readers(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connect(&self, flags: OpenFlags) -> rusqlite::Result<Connection> {
        let connection = match &self.location {
            Location::File { path, .. } => Connection::open_with_flags(path, flags)?,
            Location::Memory { name, .. } => {
                Connection::open_with_flags(name, flags | OpenFlags::SQLITE_OPEN_URI)?
            }
        };
        connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
        Ok(connection)
    }
}

impl Writer {
    pub(crate) fn connection(&mut self) -> &mut Connection {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives some pages back to the file system if more than a quarter of the file is free.
    pub(crate) fn shrink(&mut self) -> rusqlite::Result<()> {
        let connection = self.connection();
        let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let (free, all) = (pragma("freelist_count")?, pragma("page_count")?);
        if free > FREE_PAGES_KEPT && free > all / 4 {
            let count = (free - FREE_PAGES_KEPT).min(PAGES_PER_SHRINK);
            let statement = format!("PRAGMA incremental_vacuum({count})");
            // Each step gives one page back.
            let mut vacuum = connection.prepare(&statement)?;
            let mut steps = vacuum.query([])?;
            while steps.next()?.is_some() {}
        }
        Ok(())
    }
}

impl Snapshot<'_> {
    /// The connection, within a transaction.
    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Ends the read and keeps its connection for the next one. Without this call the connection is
    /// closed.
    pub(crate) fn end(self) {
        let Snapshot { database, connection, .. } = self;
        let is_ended = connection.execute_batch("COMMIT").is_ok();
        let mut readers = database.readers();
        if is_ended && readers.len() < READERS_KEPT {
            readers.push(connection);
        }
    }
}

/// Turns an error of SQLite into an I/O error, which is what callers know.
pub(crate) fn io_error(error: rusqlite::Error) -> io::Error {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => io::Error::new(io::ErrorKind::StorageFull, error),
        _ => io::Error::other(error),
    }
}

pub(crate) fn path_in(dir: &Path) -> PathBuf {
    dir.join(FILE)
}

/// Creates a database under another name, to be filled and then put in place. It writes no journal
/// and syncs nothing, since a crash may leave half of it.
pub(crate) fn create(path: &Path) -> io::Result<Connection> {
    private_file(path)?;
    let connection = Connection::open_with_flags(path, flags(true)).map_err(io_error)?;
    let create = |connection: &Connection| {
        connection.pragma_update(None, "journal_mode", "off")?;
        connection.pragma_update(None, "synchronous", "off")?;
        lay_out(connection)
    };
    create(&connection).map_err(io_error)?;
    Ok(connection)
}

fn open_file(path: &Path) -> io::Result<Connection> {
    private_file(path)?;
    let connection = Connection::open_with_flags(path, flags(true)).map_err(io_error)?;
    let version = connection.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0));
    let version = version.map_err(io_error)?;
    if !(0..=VERSION).contains(&version) {
        let what = format!("{} was written by a later version", path.display());
        return Err(io::Error::other(what));
    }
    let set_up = || {
        if version == 0 {
            lay_out(&connection)?;
        }
        connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        // A sync follows each change that must survive a power loss.
        connection.pragma_update(None, "synchronous", "normal")?;
        connection.pragma_update(None, "journal_size_limit", WAL_BYTES)?;
        // The first read opens the write-ahead file.
        connection.query_row("SELECT count(*) FROM state", [], |_| Ok(()))
    };
    set_up().map_err(io_error)?;
    Ok(connection)
}

fn lay_out(connection: &Connection) -> rusqlite::Result<()> {
    // Must come before the first table.
    connection.pragma_update(None, "auto_vacuum", "incremental")?;
    connection.execute_batch(&format!("BEGIN; {LAYOUT} PRAGMA user_version = {VERSION}; COMMIT;"))
}

/// Keeps a database that cannot be used, with its write-ahead file, under another name.
fn set_aside(path: &Path, error: &io::Error) -> io::Result<()> {
    let aside = free_name(path, "damaged")?;
    std::fs::rename(path, &aside)?;
    match std::fs::rename(wal_of(path), wal_of(&aside)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    tracing::error!(%error, kept_as = %aside.display(), "the history of metrics begins again");
    Ok(())
}

/// Removes copies that a crash has left.
fn remove_copies(dir: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(COPY) {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Returns true if another try would find the same: the file is no sound database, or holds values
/// that this code cannot have written.
fn is_damage(error: &io::Error) -> bool {
    use rusqlite::Error::{FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType};
    let error = error.get_ref().and_then(|error| error.downcast_ref::<rusqlite::Error>());
    error.is_some_and(|error| match error {
        FromSqlConversionFailure(..) | IntegralValueOutOfRange(..) | InvalidColumnType(..) => true,
        _ => matches!(
            error.sqlite_error_code(),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
        ),
    })
}

fn flags(is_writer: bool) -> OpenFlags {
    let access = match is_writer {
        true => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
        false => OpenFlags::SQLITE_OPEN_READ_ONLY,
    };
    access | OpenFlags::SQLITE_OPEN_NO_MUTEX
}

fn wal_of(path: &Path) -> PathBuf {
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    wal.into()
}

/// Creates the file if it is missing, readable by its owner only. SQLite gives the files beside it
/// the same mode.
fn private_file(path: &Path) -> io::Result<()> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path).map(drop)
}
