//! Domains and items: the tables over a view of the journal.

use std::path::Path;
use std::sync::Arc;

use millrace_broker::{Position, ReadError, Shard, View, ViewError};
use millrace_journal::Durability;
use millrace_tables::store::{Known, Log, LogError, Visit};
use millrace_tables::{Limits, OpenError, Options, Place, Tables};
use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::memory::Bounds;

/// The name of the view in records, and of the directory.
const NAME: &str = "tables";

/// The journal as the tables need it.
struct TablesLog(View);

/// What the journal remembers of the database.
#[derive(Serialize, Deserialize)]
struct Remembered {
    database: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    born: Option<u64>,
    checkpointed: u64,
}

/// The tables, or what the journal keeps for them until a start that can open them.
pub(crate) enum Opened {
    Open(Arc<Tables>),
    NoRoom {
        #[expect(dead_code, reason = "its hold on the journal is what it is for")]
        view: View,
    },
}

impl Opened {
    pub(crate) fn tables(&self) -> Option<&Arc<Tables>> {
        match self {
            Opened::Open(tables) => Some(tables),
            Opened::NoRoom { .. } => None,
        }
    }
}

/// Opens the tables over a shard whose journal ended there, before anything is dropped from it. A
/// full disk costs the domains until the next start, and not the queues.
pub(crate) fn open(config: &Config, shard: &Shard, end: Position) -> anyhow::Result<Opened> {
    match open_tables(config, shard, end) {
        Ok(tables) => Ok(Opened::Open(tables)),
        Err(error) if error.is_for_room() => {
            tracing::error!(%error, "the disk is full: domains are not served until the next start");
            Ok(Opened::NoRoom { view: shard.view(NAME, end) })
        }
        Err(error) => Err(anyhow::Error::from(error).context("opening the domains")),
    }
}

fn open_tables(config: &Config, shard: &Shard, end: Position) -> Result<Arc<Tables>, OpenError> {
    let log = TablesLog(shard.view(NAME, end));
    let place = match config.durability {
        Durability::Memory => Place::Memory,
        Durability::Fsync | Durability::Os => Place::Directory(config.data.join(NAME)),
    };
    let limits = Limits {
        domains: config.limits.domains,
        domain_bytes: config.limits.domain_bytes,
        ..Limits::default()
    };
    let waiting_bytes = Bounds::of(config.limits.memory_bytes).tables_waiting_bytes();
    let options = Options { limits, waiting_bytes, ..Options::default() };
    Ok(Arc::new(Tables::open(&place, Arc::new(log), options)?))
}

/// Makes the next start take the domains as they are.
pub(crate) fn accept(data: &Path) -> anyhow::Result<bool> {
    Ok(millrace_tables::store::accept(&data.join(NAME))?)
}

impl Log for TablesLog {
    fn append(&self, record: &[u8], overdue: &mut dyn FnMut(&str)) -> Result<u64, LogError> {
        let appended = self.0.append(record, &mut |reason| overdue(&reason.to_string()));
        appended.map(|position| position.0).map_err(|error| match error {
            ViewError::Refused(_) => LogError::Refused(error.to_string()),
            error => LogError::Ended(error.to_string()),
        })
    }

    fn replay(&self, after: u64, visit: &mut Visit<'_>) -> Result<(), LogError> {
        struct Failure(LogError);
        impl From<ReadError> for Failure {
            fn from(error: ReadError) -> Failure {
                Failure(LogError::Damaged(error.to_string()))
            }
        }
        let replayed = self.0.replay(Position(after), &mut |position, record| {
            visit(position.0, record).map_err(Failure)
        });
        replayed.map_err(|Failure(error)| error)
    }

    fn oldest(&self) -> u64 {
        self.0.oldest().0
    }

    fn end(&self) -> u64 {
        self.0.end().0
    }

    fn tail(&self) -> u64 {
        self.0.tail().0
    }

    fn known(&self) -> Result<Option<Known>, LogError> {
        let Some(document) = self.0.remembered() else { return Ok(None) };
        let remembered = serde_json::from_slice(&document);
        let Remembered { database, born, checkpointed } = remembered.map_err(|error| {
            LogError::Damaged(format!("what is remembered of the database: {error}"))
        })?;
        Ok(Some(Known { database, born, checkpointed }))
    }

    fn remember(&self, known: &Known) -> Result<(), LogError> {
        let Known { database, born, checkpointed } = known.clone();
        let document = serde_json::to_vec(&Remembered { database, born, checkpointed });
        let document = document.map_err(|error| LogError::Refused(error.to_string()))?;
        self.0.remember(&document).map_err(|error| LogError::Refused(error.to_string()))
    }

    fn hold(&self) -> (Box<dyn Send>, u64) {
        let (hold, from) = self.0.hold_for_copy();
        (Box::new(hold), from.0)
    }
}
