//! The journal, as the store needs it.

use thiserror::Error;

/// What the journal keeps of the database beside its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Which database the records are of.
    pub database: String,
    /// Where the journal ended when the database was empty. `None` if it did not begin empty, so
    /// that records alone do not make it.
    pub born: Option<u64>,
    /// Records up to this position are in the database for good. The journal may have lost them.
    pub checkpointed: u64,
}

/// Called with position and bytes of each record.
pub type Visit<'a> = dyn FnMut(u64, &[u8]) -> Result<(), LogError> + 'a;

/// A durable log of records, which only the store writes to. All methods may block.
pub trait Log: Send + Sync {
    /// Appends a record and waits until it is committed. Returns its position, which is behind all
    /// earlier ones. Calls `overdue` once if that takes longer than clients wait.
    fn append(&self, record: &[u8], overdue: &mut dyn FnMut(&str)) -> Result<u64, LogError>;

    /// Shows the records behind `after` that are kept, in order.
    fn replay(&self, after: u64, visit: &mut Visit<'_>) -> Result<(), LogError>;

    /// The beginning of what is kept: no record from here on is missing.
    fn oldest(&self) -> u64;

    /// Where the log ended when it was opened.
    fn end(&self) -> u64;

    /// The first position that nothing has been written to.
    fn tail(&self) -> u64;

    /// What was last remembered.
    fn known(&self) -> Result<Option<Known>, LogError>;

    /// Remembers this, durably, and lets go of all records up to `checkpointed`, which is the
    /// latest of all or of all before the first.
    fn remember(&self, known: &Known) -> Result<(), LogError>;

    /// Keeps what a copy of the database needs that is made from now on, until what is returned is
    /// dropped. Up to the position, too, the copy is known to hold everything.
    fn hold(&self) -> (Box<dyn Send>, u64);
}

/// Why the log did not do as it was asked.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogError {
    /// Certainly not appended. May pass, as a full disk does.
    #[error("{0}")]
    Refused(String),
    /// Perhaps appended, and nothing further is until the server is started again.
    #[error("{0}")]
    Ended(String),
    /// A record cannot be read, or means nothing.
    #[error("{0}")]
    Damaged(String),
}
