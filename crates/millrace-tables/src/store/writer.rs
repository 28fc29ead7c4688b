//! The writer: the thread that makes all changes, a transaction of everything that waits at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode};
use tokio::sync::oneshot;

use super::clear::clear_piece;
use super::database::{Database, is_damage};
use super::log::{Known, LogError};
use super::open::Session;
use super::recovery::apply_record;
use super::rows::Rows;
use super::transaction::Transaction;
use super::waiting::{Asked, Found, Waiting};
use crate::write::WriteError;

/// Bytes of writes in one transaction, unless one is larger: its record is to fit into a frame.
const TRANSACTION_BYTES: usize = 1 << 20;
/// Pages of the write-ahead file from which on it is brought back into the database.
const WAL_PAGES: u32 = 2_000;
/// Until what SQLite has not synced yet is synced, so that the journal need not keep it.
const CHECKPOINT_PAUSE: Duration = Duration::from_secs(1);
/// Between two pieces of deleted domains while writes wait.
const CLEAR_PAUSE: Duration = Duration::from_millis(100);
/// Until a committed record is applied again, where SQLite could not.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// The clients of a transaction.
type Answers = Vec<(Option<oneshot::Sender<Result<(), WriteError>>>, Result<(), WriteError>)>;

/// See the module.
pub(super) struct Writer {
    session: Session,
    database: Arc<Database>,
    waiting: Arc<Waiting>,
}

/// The writer while it runs.
struct Run<'s> {
    transaction: Transaction<'s>,
    session: &'s Session,
    database: &'s Database,
    waiting: &'s Waiting,
    applied: u64,
    known: Option<Known>,
    wal_pages: Arc<AtomicU32>,
    /// Nothing is to be removed of deleted domains.
    is_clear: bool,
    cleared_at: Instant,
    checkpointed_at: Instant,
    /// Since when something is not checkpointed.
    is_dirty: bool,
    has_warned: bool,
}

impl Writer {
    pub(super) fn new(session: Session, database: Arc<Database>, waiting: Arc<Waiting>) -> Writer {
        Writer { session, database, waiting }
    }

    /// Runs until closed and nothing waits.
    pub(super) fn run(mut self) {
        let wal_pages = Arc::new(AtomicU32::new(0));
        let counter = wal_pages.clone();
        let hook = move |_: &mut _, pages: i32| {
            counter.store(pages.unsigned_abs(), Ordering::Relaxed);
            Ok(())
        };
        let hooked = self.session.connection.wal_hook(Some(hook));
        let Writer { session, database, waiting } = &self;
        let _refuse = RefuseAtEnd(waiting);
        let rows = hooked.and_then(|()| Rows::new(&session.connection));
        let rows = match rows {
            Ok(rows) => rows,
            Err(error) => {
                tracing::error!(%error, "domains cannot be changed");
                return waiting.refuse(Some(WriteError::Failed(error.to_string())));
            }
        };
        let now = Instant::now();
        Run {
            transaction: Transaction::new(rows, session.limits),
            session,
            database,
            waiting,
            applied: session.applied,
            known: session.known.clone(),
            wal_pages,
            is_clear: false,
            cleared_at: now,
            checkpointed_at: now,
            is_dirty: true,
            has_warned: false,
        }
        .run();
    }
}

impl Run<'_> {
    fn run(&mut self) {
        loop {
            let pause = match (self.is_clear, self.is_dirty) {
                (false, _) => Some(Duration::ZERO),
                (true, true) => Some(CHECKPOINT_PAUSE),
                (true, false) => None,
            };
            match self.waiting.take(TRANSACTION_BYTES, pause) {
                Found::Writes(asked) => {
                    self.write(asked);
                    if !self.is_clear && self.cleared_at.elapsed() >= CLEAR_PAUSE {
                        self.clear();
                    }
                }
                Found::Nothing if !self.is_clear => self.clear(),
                Found::Nothing => {}
                Found::Closed => break,
            }
            let is_due = self.checkpointed_at.elapsed() >= CHECKPOINT_PAUSE;
            let is_long = self.wal_pages.load(Ordering::Relaxed) >= WAL_PAGES;
            if self.is_dirty && (is_due || is_long) {
                self.checkpoint();
            }
        }
        self.checkpoint();
    }

    /// Makes all these writes in one transaction, and answers.
    fn write(&mut self, asked: Vec<Asked>) {
        let database = self.database;
        let writing = database.writing();
        let mut answers = Answers::with_capacity(asked.len());
        let mut writes = Vec::with_capacity(asked.len());
        for Asked { write, answer, .. } in asked {
            writes.push(write);
            answers.push((Some(answer), Ok(())));
        }
        let decided = self.transaction.begin().and_then(|()| {
            for (write, (_, decided)) in writes.iter().zip(&mut answers) {
                *decided = self.transaction.decide(write)?;
            }
            self.transaction.finish()?;
            match self.transaction.record.bytes().is_empty() {
                true => self.transaction.rows.commit_own(),
                false => Ok(()),
            }
        });
        let outcome = match decided {
            Ok(()) if self.transaction.record.bytes().is_empty() => Ok(()),
            // What finds no room on the disk is to find out before it is in the journal.
            Ok(()) => match self.session.connection.cache_flush() {
                Ok(()) => self.commit(&mut answers),
                Err(error) => Err(self.undo(&error)),
            },
            Err(error) => Err(self.undo(&error)),
        };
        drop(writing);
        for (answer, decided) in answers {
            let answer = answer.map(|answer| {
                let outcome = match &outcome {
                    Ok(()) => decided,
                    Err(error) => Err(error.clone()),
                };
                answer.send(outcome)
            });
            // The client may have left.
            drop(answer);
        }
    }

    /// Appends the record, then commits it here.
    fn commit(&mut self, answers: &mut Answers) -> Result<(), WriteError> {
        self.remember_birth()?;
        let waiting = self.waiting;
        let mut is_overdue = false;
        let appended = self.session.log.append(self.transaction.record.bytes(), &mut |reason| {
            is_overdue = true;
            waiting.refuse(Some(WriteError::Unavailable(reason.to_owned())));
            end_unknown(answers, reason);
        });
        if is_overdue {
            self.waiting.refuse(None);
        }
        match appended {
            Ok(position) => self.commit_here(position, answers),
            Err(LogError::Refused(reason)) => {
                self.roll_back()?;
                Err(WriteError::Unavailable(reason))
            }
            Err(error) => {
                self.roll_back()?;
                self.waiting.refuse(Some(WriteError::Unavailable(error.to_string())));
                Err(WriteError::Failed(error.to_string()))
            }
        }
    }

    /// Commits what is in the journal. It has to be in the database before anything else is: where
    /// SQLite cannot, the record is applied again until it can, and nobody waits for that.
    fn commit_here(&mut self, position: u64, answers: &mut Answers) -> Result<(), WriteError> {
        let record = std::mem::take(&mut self.transaction.record);
        let mut committed = self.transaction.rows.commit(position);
        let mut is_refusing = false;
        while let Err(error) = committed {
            if !is_refusing {
                is_refusing = true;
                tracing::error!(%error, "a change of domains is in the journal and not in SQLite");
                self.waiting.refuse(Some(unavailable(&error)));
                end_unknown(answers, &error.to_string());
            }
            if is_damage(&error) || self.waiting.sleep(RETRY_PAUSE) {
                // The next start applies it.
                let ended = WriteError::Failed(error.to_string());
                self.waiting.refuse(Some(ended.clone()));
                return Err(ended);
            }
            committed = self.apply_again(record.bytes(), position);
        }
        if is_refusing {
            tracing::info!("changes of domains are in SQLite again");
            self.waiting.refuse(None);
        }
        self.applied = position;
        self.is_dirty = true;
        // A domain may have been deleted.
        self.is_clear = false;
        Ok(())
    }

    fn apply_again(&mut self, record: &[u8], position: u64) -> rusqlite::Result<()> {
        self.transaction.roll_back()?;
        self.transaction.rows.begin()?;
        match apply_record(&mut self.transaction.rows, record) {
            Ok(()) => self.transaction.rows.commit(position),
            Err(error) => {
                let other = rusqlite::Error::ToSqlConversionFailure(Box::new(error));
                Err(other)
            }
        }
    }

    /// The journal remembers which database its records are of before it has the first.
    fn remember_birth(&mut self) -> Result<(), WriteError> {
        if self.known.is_some() {
            return Ok(());
        }
        let tail = self.session.log.tail();
        let database = self.session.database.clone();
        let known = Known { database, born: Some(tail), checkpointed: tail };
        if let Err(error) = self.session.log.remember(&known) {
            self.roll_back()?;
            return Err(WriteError::Unavailable(error.to_string()));
        }
        self.known = Some(known);
        Ok(())
    }

    /// Undoes the transaction, in which SQLite failed: nothing of it is in the journal.
    fn undo(&mut self, error: &rusqlite::Error) -> WriteError {
        tracing::warn!(%error, "changes of domains are not made");
        if let Err(rolled_back) = self.roll_back() {
            return rolled_back;
        }
        if is_damage(error) {
            let failed = WriteError::Failed(error.to_string());
            self.waiting.refuse(Some(failed.clone()));
            return failed;
        }
        unavailable(error)
    }

    fn roll_back(&mut self) -> Result<(), WriteError> {
        self.transaction.roll_back().map_err(|error| {
            tracing::error!(%error, "changes of domains cannot be undone");
            let failed = WriteError::Failed(error.to_string());
            self.waiting.refuse(Some(failed.clone()));
            failed
        })
    }

    /// Removes a piece of what deleted domains held.
    fn clear(&mut self) {
        let database = self.database;
        let _writing = database.writing();
        let cleared = self.transaction.rows.begin().and_then(|()| {
            let is_left = clear_piece(&self.session.connection)?;
            self.transaction.rows.commit_own()?;
            Ok(is_left)
        });
        self.cleared_at = Instant::now();
        match cleared {
            Ok(is_left) => {
                self.is_clear = !is_left;
                self.is_dirty |= is_left;
            }
            Err(error) => {
                // With the next write.
                self.is_clear = true;
                tracing::warn!(%error, "what deleted domains held is not removed");
                let _ = self.roll_back();
            }
        }
    }

    /// Brings what is in the write-ahead file into the database, synced, and lets the journal go of
    /// its records. What a reader still needs stays for the next time.
    fn checkpoint(&mut self) {
        self.checkpointed_at = Instant::now();
        match checkpoint(&self.session.connection) {
            Ok(true) => self.has_warned = false,
            Ok(false) => return,
            Err(error) => {
                if !std::mem::replace(&mut self.has_warned, true) {
                    tracing::warn!(%error, "SQLite cannot sync what it holds of domains");
                }
                return;
            }
        }
        self.is_dirty = false;
        let Some(known) = &self.known else { return };
        let known = Known { checkpointed: self.applied, ..known.clone() };
        match self.session.log.remember(&known) {
            Ok(()) => self.known = Some(known),
            Err(error) => {
                tracing::debug!(%error, "the journal keeps records of domains for longer");
                self.is_dirty = true;
            }
        }
    }
}

/// Refuses all that waits when the writer ends, however it does.
struct RefuseAtEnd<'w>(&'w Waiting);

impl Drop for RefuseAtEnd<'_> {
    fn drop(&mut self) {
        self.0.refuse(Some(WriteError::Unavailable("the writer has ended".to_owned())));
    }
}

/// Returns true if all of the write-ahead file is in the database.
fn checkpoint(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
        let (pages, done): (i64, i64) = (row.get(1)?, row.get(2)?);
        Ok(pages == done)
    })
}

/// What SQLite could not store, as clients are told.
fn unavailable(error: &rusqlite::Error) -> WriteError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => WriteError::Unavailable("the disk is full".to_owned()),
        _ => WriteError::Unavailable(error.to_string()),
    }
}

/// Tells all who wait that it is not known what becomes of their changes.
fn end_unknown(answers: &mut Answers, reason: &str) {
    for (answer, _) in answers.iter_mut() {
        let unknown = Err(WriteError::Failed(reason.to_owned()));
        drop(answer.take().map(|answer| answer.send(unknown)));
    }
}
