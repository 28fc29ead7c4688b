//! Opening: which database belongs to the journal, and whether it can be brought up to date.
//!
//! ```text
//!  journal        ├─ oldest ────────── records ──────────── tail ┤
//!  database  born ┊        applied ▲      replayed from here on
//! ```
//! The journal remembers the database's id, where it was empty (`born`), and up to where it is
//! known to be synced (`checkpointed`). Records from `oldest` on are all there.
//!
//! | found | done |
//! |---|---|
//! | `oldest <= applied`, or `checkpointed <= applied` | the records behind are applied |
//! | missing, damaged or another one, `oldest <= born` | made again from all records |
//! | missing, damaged or another one, else | refused |
//! | `applied` behind the tail of the journal | refused: the journal is older |
//! | older than `checkpointed`, records between are gone | refused |
//!
//! A file that is replaced is kept beside the new one.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension};
use thiserror::Error;

use super::database::{COPY_PREFIX, Database, find_damage, is_damage};
use super::log::{Known, Log, LogError};
use super::recovery::catch_up;
use super::rows::{Rows, unsigned};
use super::tables::Limits;
use crate::schema::TABLES;

/// The database's file in its directory.
const FILE: &str = "tables.db";
/// What a start looks for damage at most.
const CHECK_LIMIT: Duration = Duration::from_secs(5);

/// Where the database is kept.
#[derive(Clone, Debug)]
pub enum Place {
    /// In this directory, which is made if it is not there.
    Directory(PathBuf),
    /// Nowhere: it is gone with the store.
    Memory,
}

/// Why the store does not open.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The database cannot be had again from the journal, which no longer holds all that made it.
    #[error(
        "the database of domains {path} {reason}, and the journal does not hold all that made it"
    )]
    Lost { path: PathBuf, reason: String },
    #[error(
        "the database of domains {path} is ahead of the journal: one of them is from another backup"
    )]
    Ahead { path: PathBuf },
    #[error(
        "the database of domains {path} is older than the journal remembers, and the records \
         between are gone: one of them is from another backup"
    )]
    Behind { path: PathBuf },
    #[error("the database of domains {path} belongs to another journal")]
    Foreign { path: PathBuf },
    #[error("the database of domains: {doing}: {source}")]
    Sqlite { doing: &'static str, source: rusqlite::Error },
    #[error("{doing} {path}: {source}")]
    Io { doing: &'static str, path: PathBuf, source: io::Error },
    #[error("starting a thread of the tables: {0}")]
    Thread(#[from] io::Error),
    #[error("the records of domains in the journal: {0}")]
    Log(#[from] LogError),
}

impl OpenError {
    /// Returns true if there is no room on the disk.
    #[must_use]
    pub fn is_for_room(&self) -> bool {
        const IOERR_WRITE: i32 = 778;
        const IOERR_SHMSIZE: i32 = 4874;
        match self {
            OpenError::Sqlite { source: rusqlite::Error::SqliteFailure(error, _), .. } => {
                error.code == rusqlite::ErrorCode::DiskFull
                    || matches!(error.extended_code, IOERR_WRITE | IOERR_SHMSIZE)
            }
            OpenError::Io { source, .. } => source.kind() == io::ErrorKind::StorageFull,
            OpenError::Log(LogError::Refused(_)) => true,
            _ => false,
        }
    }

    pub(super) fn sqlite(doing: &'static str) -> impl Fn(rusqlite::Error) -> OpenError {
        move |source| OpenError::Sqlite { doing, source }
    }

    /// Returns true if the server can be made to take the database as it is: see [`accept`].
    pub fn is_mismatch(&self) -> bool {
        use OpenError::{Ahead, Behind, Foreign, Log, Lost};
        let is_log = matches!(self, Log(LogError::Damaged(_)));
        is_log || matches!(self, Lost { .. } | Ahead { .. } | Behind { .. } | Foreign { .. })
    }
}

/// An open database, up to date.
pub(super) struct Opened {
    pub database: Database,
    pub session: Session,
}

/// What the writer works with.
pub(super) struct Session {
    pub connection: Connection,
    pub log: Arc<dyn Log>,
    pub limits: Limits,
    /// The position up to which records are in the database.
    pub applied: u64,
    pub database: String,
    /// As the journal has it. None until the first record.
    pub known: Option<Known>,
}

/// The row of `state`.
#[derive(Clone, Debug)]
struct State {
    database: String,
    applied: u64,
    is_accepted: bool,
}

/// A file as it was found.
enum Found {
    Missing,
    Sound(Connection, State),
    Damaged(String),
}

pub(super) fn open(place: &Place, log: Arc<dyn Log>, limits: Limits) -> Result<Opened, OpenError> {
    let sqlite = OpenError::sqlite;
    let (database, connection, state, known) = match place {
        Place::Memory => {
            let database = Database::in_memory();
            let connection = database.writer().map_err(sqlite("opening it in memory"))?;
            let state = create(&connection, &new_id()?, 0)?;
            (database, connection, state, None)
        }
        Place::Directory(directory) => {
            make_directory(directory)?;
            remove_copies(directory)?;
            let path = directory.join(FILE);
            let (connection, state, known) = open_file(&path, &*log)?;
            (Database::in_file(path), connection, state, known)
        }
    };
    let mut rows = Rows::new(&connection).map_err(sqlite("reading its tables"))?;
    let (records, applied) = catch_up(&mut rows, &*log, state.applied)?;
    drop(rows);
    if records > 0 {
        tracing::info!(records, "domains brought up to date from the journal");
    }
    let database_id = state.database;
    let session = Session { connection, log, limits, applied, database: database_id, known };
    Ok(Opened { database, session })
}

/// Makes the next start take the database of a directory as it is, whatever the journal says; or
/// begin with an empty one, if there is none that can be read. The server must not run.
pub fn accept(directory: &Path) -> Result<bool, OpenError> {
    make_directory(directory)?;
    let path = directory.join(FILE);
    let (connection, has_data) = match find(&path)? {
        Found::Sound(connection, _) => (connection, true),
        Found::Missing => (fresh(&path)?, false),
        Found::Damaged(_) => {
            set_aside(&path)?;
            (fresh(&path)?, false)
        }
    };
    let accepted = connection.execute("UPDATE state SET is_accepted = 1", []);
    accepted.map_err(OpenError::sqlite("accepting it"))?;
    Ok(has_data)
}

/// Looks for damage in a database that no server uses. Returns what was found.
pub fn check(directory: &Path) -> Result<Option<String>, OpenError> {
    let sqlite = OpenError::sqlite("checking it");
    let path = directory.join(FILE);
    if !path.exists() {
        return Ok(None);
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let mut connection = Connection::open_with_flags(&path, flags).map_err(&sqlite)?;
    match find_damage(&mut connection, None) {
        Err(error) if is_damage(&error) => Ok(Some(error.to_string())),
        found => found.map_err(&sqlite),
    }
}

fn open_file(path: &Path, log: &dyn Log) -> Result<(Connection, State, Option<Known>), OpenError> {
    let known = log.known()?;
    let owned = || path.to_owned();
    let (reason, is_missing) = match (find(path)?, &known) {
        (Found::Sound(connection, state), _) if state.is_accepted => {
            return accepted(connection, log);
        }
        (Found::Sound(connection, state), None) if state.applied == 0 => {
            return Ok((connection, state, None));
        }
        // A backup of a server that has never had a domain: the copy has a position, and the
        // journal knows of no database.
        (Found::Sound(connection, state), None) if has_no_domains(&connection)? => {
            let reset = connection.execute("UPDATE state SET applied = 0", []);
            reset.map_err(OpenError::sqlite("resetting its position"))?;
            return Ok((connection, State { applied: 0, ..state }, None));
        }
        (Found::Sound(..), None) => return Err(OpenError::Foreign { path: owned() }),
        (Found::Sound(connection, state), Some(known)) if state.database == known.database => {
            if state.applied > log.end() {
                return Err(OpenError::Ahead { path: owned() });
            }
            if log.oldest() > state.applied && known.checkpointed > state.applied {
                return Err(OpenError::Behind { path: owned() });
            }
            return Ok((connection, state, Some(known.clone())));
        }
        (Found::Sound(..), Some(_)) => ("is another one".to_owned(), false),
        (Found::Missing, None) => {
            let connection = connect(path)?;
            let state = create(&connection, &new_id()?, 0)?;
            return Ok((connection, state, None));
        }
        (Found::Missing, Some(_)) => ("is missing".to_owned(), true),
        (Found::Damaged(reason), _) => (format!("is damaged ({reason})"), false),
    };
    let born = known.as_ref().and_then(|known| known.born);
    let (Some(known), Some(born)) = (known, born.filter(|born| log.oldest() <= *born)) else {
        return Err(OpenError::Lost { path: owned(), reason });
    };
    tracing::warn!(
        path = %path.display(),
        reason,
        "the database of domains is made again from the journal"
    );
    if !is_missing {
        set_aside(path)?;
    }
    let connection = connect(path)?;
    let state = create(&connection, &known.database, born)?;
    Ok((connection, state, Some(known)))
}

/// Takes the database as it is, under a new id: what the journal has is not for it.
fn accepted(
    connection: Connection,
    log: &dyn Log,
) -> Result<(Connection, State, Option<Known>), OpenError> {
    let sqlite = OpenError::sqlite("accepting it");
    let tail = log.tail();
    let is_empty = has_no_domains(&connection)?;
    let state = State { database: new_id()?, applied: tail, is_accepted: false };
    let born = is_empty.then_some(tail);
    let known = Known { database: state.database.clone(), born, checkpointed: tail };
    log.remember(&known)?;
    let sql = "UPDATE state SET database = ?, applied = ?, is_accepted = 0";
    connection.execute(sql, (&state.database, tail as i64)).map_err(&sqlite)?;
    tracing::warn!("the database of domains is taken as it is");
    Ok((connection, state, Some(known)))
}

fn has_no_domains(connection: &Connection) -> Result<bool, OpenError> {
    let sql = "SELECT NOT EXISTS (SELECT 1 FROM domains)";
    let is_empty = connection.query_row(sql, [], |row| row.get(0));
    is_empty.map_err(OpenError::sqlite("looking for domains"))
}

fn find(path: &Path) -> Result<Found, OpenError> {
    match path.symlink_metadata() {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Missing),
        Err(source) => {
            return Err(OpenError::Io { doing: "looking for", path: path.to_owned(), source });
        }
    }
    let found = (|| {
        let mut connection = Database::in_file(path.to_owned()).writer()?;
        let sql = "SELECT count(*) FROM sqlite_schema";
        // The file was made, and the process ended before its tables were.
        if connection.query_row(sql, [], |row| row.get::<_, i64>(0))? == 0 {
            return Ok(Found::Missing);
        }
        if let Some(damage) = find_damage(&mut connection, Some(CHECK_LIMIT))? {
            return Ok(Found::Damaged(damage));
        }
        let sql = "SELECT database, applied, is_accepted FROM state";
        let state = connection.query_row(sql, [], |row| {
            let (applied, is_accepted) = (unsigned(row, 1)?, row.get(2)?);
            Ok(State { database: row.get(0)?, applied, is_accepted })
        });
        Ok(match state.optional()? {
            Some(state) => Found::Sound(connection, state),
            None => Found::Damaged("its state is missing".to_owned()),
        })
    })();
    match found {
        Ok(found) => Ok(found),
        Err(error) if is_damage(&error) => Ok(Found::Damaged(error.to_string())),
        // Tables that are not ours.
        Err(error @ rusqlite::Error::SqlInputError { .. }) => Ok(Found::Damaged(error.to_string())),
        Err(source) => Err(OpenError::Sqlite { doing: "opening it", source }),
    }
}

fn fresh(path: &Path) -> Result<Connection, OpenError> {
    let connection = connect(path)?;
    create(&connection, &new_id()?, 0)?;
    Ok(connection)
}

fn connect(path: &Path) -> Result<Connection, OpenError> {
    Database::in_file(path.to_owned()).writer().map_err(OpenError::sqlite("opening it"))
}

fn create(connection: &Connection, id: &str, applied: u64) -> Result<State, OpenError> {
    let created = (|| {
        connection.execute_batch("BEGIN IMMEDIATE")?;
        connection.execute_batch(TABLES)?;
        let sql = "INSERT INTO state (id, database, applied) VALUES (0, ?, ?)";
        connection.execute(sql, (id, applied as i64))?;
        connection.execute_batch("COMMIT")
    })();
    created.map_err(OpenError::sqlite("creating its tables"))?;
    Ok(State { database: id.to_owned(), applied, is_accepted: false })
}

/// Renames a database that is to be replaced, with what belongs to it.
fn set_aside(path: &Path) -> Result<(), OpenError> {
    let beside = |ending: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(ending);
        PathBuf::from(name)
    };
    let is_free = |number: &u32| !beside(&format!(".replaced-{number}")).exists();
    let number = (1..).find(is_free).unwrap_or_default();
    for ending in ["", "-wal"] {
        let from = beside(ending);
        let to = beside(&format!(".replaced-{number}{ending}"));
        match std::fs::rename(&from, to) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(OpenError::Io { doing: "renaming", path: from, source }),
            Ok(()) => {}
        }
    }
    // It is of the files that were renamed.
    match std::fs::remove_file(beside("-shm")) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(OpenError::Io { doing: "removing", path: beside("-shm"), source })
        }
        _ => Ok(()),
    }
}

fn make_directory(directory: &Path) -> Result<(), OpenError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(|source| OpenError::Io { doing: "making", path: directory.to_owned(), source })
}

/// Removes what a copy left when the process ended.
fn remove_copies(directory: &Path) -> Result<(), OpenError> {
    let removed = directory.read_dir().and_then(|files| {
        for file in files {
            let file = file?;
            if file.file_name().to_string_lossy().starts_with(COPY_PREFIX) {
                std::fs::remove_file(file.path())?;
            }
        }
        Ok(())
    });
    removed.map_err(|source| OpenError::Io {
        doing: "removing old copies in",
        path: directory.to_owned(),
        source,
    })
}

fn new_id() -> Result<String, OpenError> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).map_err(|error| OpenError::Io {
        doing: "making an id for",
        path: FILE.into(),
        source: io::Error::other(error.to_string()),
    })?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bits)))
}
