//! The tables as their users see them.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::database::Database;
use super::log::Log;
use super::open::{OpenError, Opened, Place, open};
use super::reader::{ReadError, Readers};
use super::reads;
use super::waiting::Waiting;
use super::writer::Writer;
use crate::domain::{DomainFigures, DomainKey};
use crate::item::Attribute;
use crate::write::{Write, WriteError};

/// Threads for queries.
const QUERIES_AT_A_TIME: usize = 2;

/// Most of what there may be of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Domains of an account in a region.
    pub domains: u64,
    /// Names of items and attributes, and values, of a domain.
    pub domain_bytes: u64,
    pub domain_pairs: u64,
    pub item_pairs: u64,
}

impl Default for Limits {
    /// Those of SimpleDB: developer guide, "Amazon SimpleDB limits".
    fn default() -> Limits {
        Limits {
            domains: 250,
            domain_bytes: 10 << 30,
            domain_pairs: 1_000_000_000,
            item_pairs: 256,
        }
    }
}

/// Settings of a store.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub limits: Limits,
    /// Writes that may wait.
    pub waiting_writes: usize,
    /// Bytes of writes that may wait.
    pub waiting_bytes: usize,
    /// Reads of each kind that may wait.
    pub waiting_reads: usize,
    /// How long a read may take.
    pub read_limit: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            limits: Limits::default(),
            waiting_writes: 8_192,
            waiting_bytes: 32 << 20,
            waiting_reads: 1_024,
            // SimpleDB: a query runs for 5 s at most.
            read_limit: Duration::from_secs(5),
        }
    }
}

/// Domains and items. Cheap to share behind an `Arc`.
pub struct Tables {
    waiting: Arc<Waiting>,
    /// For reads that take microseconds, which wait for no query.
    lookups: Arc<Readers>,
    queries: Arc<Readers>,
    readers: Mutex<Vec<JoinHandle<()>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    database: Arc<Database>,
    log: Arc<dyn Log>,
}

/// A copy of the database in a file without a name.
pub struct Copy {
    pub file: std::fs::File,
    _hold: Box<dyn Send>,
}

impl Tables {
    /// Opens the database, brings it up to date from the log, and starts the threads "tables",
    /// "tables-get" and "tables-read".
    pub fn open(place: &Place, log: Arc<dyn Log>, options: Options) -> Result<Tables, OpenError> {
        let Opened { database, session } = open(place, log.clone(), options.limits)?;
        let database = Arc::new(database);
        let waiting = Arc::new(Waiting::new(options));
        let lookups = Arc::new(Readers::new(&options));
        let queries = Arc::new(Readers::new(&options));
        let tables = Tables {
            waiting: waiting.clone(),
            lookups: lookups.clone(),
            queries: queries.clone(),
            readers: Mutex::default(),
            writer: Mutex::default(),
            database: database.clone(),
            log,
        };
        let mut readers = tables.readers.lock().unwrap_or_else(PoisonError::into_inner);
        readers.push(lookups.spawn("tables-get", &database)?);
        for _ in 0..QUERIES_AT_A_TIME {
            readers.push(queries.spawn("tables-read", &database)?);
        }
        drop(readers);
        let writer = Writer::new(session, database, waiting);
        let writer = spawn("tables", move || writer.run())?;
        *tables.writer.lock().unwrap_or_else(PoisonError::into_inner) = Some(writer);
        Ok(tables)
    }

    /// Makes a change. Resolves once it is durable and reads see it. Dropped, the change may be
    /// made all the same.
    pub async fn write(&self, write: Write) -> Result<(), WriteError> {
        let (answer, answered) = oneshot::channel();
        self.waiting.push(write, answer)?;
        let ended = || WriteError::Failed("the writer has ended".to_owned());
        answered.await.unwrap_or_else(|_| Err(ended()))
    }

    /// Up to `limit` names of domains, by their bytes, from behind `after` on. Cancel safe, as all
    /// reads.
    pub async fn list_domains(
        &self,
        region: &str,
        account: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<String>, ReadError> {
        let (region, owner, after) =
            (region.to_owned(), account.to_owned(), after.map(str::to_owned));
        let job = move |connection: &Connection| {
            reads::list_domains(connection, &region, &owner, after.as_deref(), limit)
        };
        Ok(self.lookups.read(account, job).await??)
    }

    /// All domains of all accounts.
    pub async fn all_domains(&self) -> Result<Vec<DomainKey>, ReadError> {
        Ok(self.lookups.read("", reads::all_domains).await??)
    }

    /// How many domains there are in all accounts.
    pub async fn domain_count(&self) -> Result<u64, ReadError> {
        Ok(self.lookups.read("", reads::domain_count).await??)
    }

    /// The size of a domain. `None` if there is no such domain.
    pub async fn figures(&self, domain: &DomainKey) -> Result<Option<DomainFigures>, ReadError> {
        let key = domain.clone();
        let job = move |connection: &Connection| reads::figures(connection, &key);
        Ok(self.lookups.read(&domain.account, job).await??)
    }

    /// The attributes of an item, or those of the names given, none if it does not exist. `None`
    /// if there is no such domain.
    pub async fn item(
        &self,
        domain: &DomainKey,
        item: &str,
        names: Option<Vec<String>>,
    ) -> Result<Option<Vec<Attribute>>, ReadError> {
        let (key, item) = (domain.clone(), item.to_owned());
        let job =
            move |connection: &Connection| reads::item(connection, &key, &item, names.as_deref());
        Ok(self.lookups.read(&domain.account, job).await??)
    }

    /// Runs a query of an account on a connection that can only read. Each statement of it sees
    /// all writes that were answered before. It is interrupted when it takes too long
    /// ([`ReadError::TimedOut`]) and when the future is dropped.
    pub async fn read<T: Send + 'static>(
        &self,
        account: &str,
        job: impl FnOnce(&Connection) -> T + Send + 'static,
    ) -> Result<T, ReadError> {
        self.queries.read(account, job).await
    }

    /// Writes and reads that wait now, for metrics.
    pub fn waiting(&self) -> (usize, usize) {
        (self.waiting.count(), self.lookups.count() + self.queries.count())
    }

    /// Makes a copy of the database as it is now, to be read from its beginning. The journal keeps
    /// what the copy needs until the [`Copy`] is dropped. To be called by a thread that may block;
    /// `is_wanted` is asked now and then.
    pub fn copy(&self, is_wanted: impl Fn() -> bool + Send + 'static) -> Result<Copy, ReadError> {
        let (hold, applied) = self.log.hold();
        let file = self.database.copy(applied, is_wanted)?;
        Ok(Copy { file, _hold: hold })
    }

    /// Ends the threads. Writes that wait are made first; later ones are refused.
    pub fn close(&self) {
        let join = |thread: JoinHandle<()>| {
            if thread.join().is_err() {
                tracing::error!("a thread of the tables panicked");
            }
        };
        self.lookups.close();
        self.queries.close();
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        readers.drain(..).for_each(join);
        // Last, so that SQLite removes the files beside the database: only a connection that can
        // write does.
        self.waiting.close();
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        writer.into_iter().for_each(join);
    }
}

impl Drop for Tables {
    fn drop(&mut self) {
        self.close();
    }
}

pub(super) fn spawn(
    name: &str,
    run: impl FnOnce() + Send + 'static,
) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(run)
}
