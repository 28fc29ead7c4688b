//! The database file, or the memory that stands for it, and connections to it.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};

use super::reader::ReadError;

/// Instructions of SQLite between two looks at the clock: some tens of microseconds.
pub(super) const INSTRUCTIONS: i32 = 4_000;
/// Pages in memory, in KiB, of the writer and of each reader.
const WRITER_CACHE_KIB: i32 = 16 << 10;
const READER_CACHE_KIB: i32 = 4 << 10;
/// The write-ahead file is cut to this when it begins again.
const WAL_BYTES: i64 = 32 << 20;

/// Copies are written under such names.
pub(super) const COPY_PREFIX: &str = "copy-";

/// Where connections go.
pub(super) struct Database {
    location: Location,
    /// In memory there are no snapshots: readers and the writer take turns.
    turns: Option<RwLock<()>>,
}

enum Location {
    File(PathBuf),
    Memory(String),
}

impl Database {
    pub(super) fn in_file(path: PathBuf) -> Database {
        Database { location: Location::File(path), turns: None }
    }

    pub(super) fn in_memory() -> Database {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("file:/millrace-tables-{number}?vfs=memdb");
        Database { location: Location::Memory(name), turns: Some(RwLock::default()) }
    }

    pub(super) fn is_in_memory(&self) -> bool {
        self.turns.is_some()
    }

    /// Opens the one connection that writes.
    pub(super) fn writer(&self) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let connection = self.connect(flags)?;
        if !self.is_in_memory() {
            connection.pragma_update(None, "journal_mode", "wal")?;
        }
        // The journal syncs what is answered; checkpoints sync for themselves, and are run by the
        // writer, not by its commits.
        connection.pragma_update(None, "synchronous", "normal")?;
        connection.pragma_update(None, "wal_autocheckpoint", 0)?;
        connection.pragma_update(None, "journal_size_limit", WAL_BYTES)?;
        connection.pragma_update(None, "cache_size", -WRITER_CACHE_KIB)?;
        Ok(connection)
    }

    pub(super) fn reader(&self) -> rusqlite::Result<Connection> {
        let connection = self.connect(OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        connection.pragma_update(None, "cache_size", -READER_CACHE_KIB)?;
        connection.pragma_update(None, "query_only", true)?;
        Ok(connection)
    }

    /// To be held over a transaction of the writer.
    pub(super) fn writing(&self) -> Option<RwLockWriteGuard<'_, ()>> {
        let turns = self.turns.as_ref()?;
        Some(turns.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// To be held over a read.
    pub(super) fn reading(&self) -> Option<RwLockReadGuard<'_, ()>> {
        let turns = self.turns.as_ref()?;
        Some(turns.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Writes a copy of what is committed, which says that it holds all records up to `applied`, too,
    /// to a file that has no name any more.
    pub(super) fn copy(
        &self,
        applied: u64,
        is_wanted: impl Fn() -> bool + Send + 'static,
    ) -> Result<File, ReadError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let Location::File(path) = &self.location else {
            return Err(ReadError::Failed("it is in memory".to_owned()));
        };
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let copy = path.with_file_name(format!("{COPY_PREFIX}{number}.db"));
        let written = (|| {
            let mut connection = self.connect(OpenFlags::SQLITE_OPEN_READ_ONLY)?;
            connection.progress_handler(INSTRUCTIONS, Some(move || !is_wanted()))?;
            connection.execute("VACUUM INTO ?", [copy.to_string_lossy()])?;
            let connection = Connection::open(&copy)?;
            connection.pragma_update(None, "journal_mode", "off")?;
            connection.pragma_update(None, "synchronous", "off")?;
            let sql = "UPDATE state SET applied = max(applied, ?)";
            connection.execute(sql, [applied as i64])?;
            connection.close().map_err(|(_, error)| error)
        })();
        let file = written
            .map_err(ReadError::from)
            .and_then(|()| File::open(&copy).map_err(|error| ReadError::Failed(error.to_string())));
        match std::fs::remove_file(&copy) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%error, path = %copy.display(), "a copy is left");
            }
            _ => {}
        }
        file
    }

    fn connect(&self, flags: OpenFlags) -> rusqlite::Result<Connection> {
        let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        match &self.location {
            Location::File(path) => Connection::open_with_flags(path, flags),
            Location::Memory(name) => {
                Connection::open_with_flags(name, flags | OpenFlags::SQLITE_OPEN_URI)
            }
        }
    }
}

/// Looks for damage, for as long as that. Returns what was found.
pub(super) fn find_damage(
    connection: &mut Connection,
    limit: Option<Duration>,
) -> rusqlite::Result<Option<String>> {
    if let Some(limit) = limit {
        let until = Instant::now() + limit;
        connection.progress_handler(INSTRUCTIONS, Some(move || Instant::now() >= until))?;
    }
    let found = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
    connection.progress_handler(0, None::<fn() -> bool>)?;
    match found {
        Ok(found) if found == "ok" => Ok(None),
        Ok(found) => Ok(Some(found.replace('\n', " "))),
        Err(error) if is_interrupted(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) fn is_interrupted(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::OperationInterrupted)
}

/// Returns true if the file is no sound database, and another try would find the same.
pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode;
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}
