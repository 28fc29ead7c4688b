//! For tests: a log in memory that outlives stores, and can fail.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::store::{Known, Limits, Log, LogError, Options, Place, Tables, Visit};

/// A log in memory.
#[derive(Debug, Default)]
pub struct MemoryLog {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    records: BTreeMap<u64, Vec<u8>>,
    tail: u64,
    oldest: u64,
    known: Option<Known>,
    failures: Vec<Failure>,
}

/// What goes wrong with the next append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It is refused.
    Refused,
    /// The log ends before it, or behind it.
    EndedBefore,
    EndedBehind,
    /// It takes longer than clients wait.
    Overdue,
}

/// A store in memory with the usual limits.
pub fn memory_tables() -> Tables {
    match Tables::open(&Place::Memory, Arc::new(MemoryLog::default()), Options::default()) {
        Ok(tables) => tables,
        Err(error) => panic!("{error}"),
    }
}

/// A store in memory with these limits.
pub fn limited_tables(limits: Limits) -> Tables {
    let options = Options { limits, ..Options::default() };
    match Tables::open(&Place::Memory, Arc::new(MemoryLog::default()), options) {
        Ok(tables) => tables,
        Err(error) => panic!("{error}"),
    }
}

impl MemoryLog {
    /// The next append fails so.
    pub fn fail_next(&self, failure: Failure) {
        self.state().failures.push(failure);
    }

    /// Forgets the records before a position.
    pub fn truncate_before(&self, position: u64) {
        let mut state = self.state();
        state.records = state.records.split_off(&position);
        state.oldest = position;
    }

    /// Forgets all from a position on, as a log of an older backup does.
    pub fn cut_off(&self, position: u64) {
        let mut state = self.state();
        drop(state.records.split_off(&position));
        state.tail = position;
    }

    /// The positions of all records.
    pub fn positions(&self) -> Vec<u64> {
        self.state().records.keys().copied().collect()
    }

    /// Bytes of all records.
    pub fn size_bytes(&self) -> usize {
        self.state().records.values().map(Vec::len).sum()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log for MemoryLog {
    fn append(&self, record: &[u8], overdue: &mut dyn FnMut(&str)) -> Result<u64, LogError> {
        let mut state = self.state();
        let failure = state.failures.pop();
        match failure {
            Some(Failure::Refused) => return Err(LogError::Refused("refused".to_owned())),
            Some(Failure::EndedBefore) => return Err(LogError::Ended("ended".to_owned())),
            Some(Failure::Overdue) => overdue("overdue"),
            Some(Failure::EndedBehind) | None => {}
        }
        // As in a journal, something else may stand before it.
        state.tail += 7;
        let position = state.tail;
        state.tail += record.len() as u64;
        state.records.insert(position, record.to_vec());
        match failure {
            Some(Failure::EndedBehind) => Err(LogError::Ended("ended".to_owned())),
            _ => Ok(position),
        }
    }

    fn replay(&self, after: u64, visit: &mut Visit<'_>) -> Result<(), LogError> {
        let records = self.state().records.split_off(&(after + 1));
        let visited = records.iter().try_for_each(|(position, record)| visit(*position, record));
        self.state().records.extend(records);
        visited
    }

    fn oldest(&self) -> u64 {
        self.state().oldest
    }

    fn end(&self) -> u64 {
        self.state().tail
    }

    fn tail(&self) -> u64 {
        self.state().tail
    }

    fn known(&self) -> Result<Option<Known>, LogError> {
        Ok(self.state().known.clone())
    }

    fn remember(&self, known: &Known) -> Result<(), LogError> {
        self.state().known = Some(known.clone());
        Ok(())
    }

    fn hold(&self) -> (Box<dyn Send>, u64) {
        (Box::new(()), self.state().oldest)
    }
}
