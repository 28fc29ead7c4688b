//! Kept documents: everything small and durable that is not a message, by collection and key.
//!
//! A collection belongs to one noun, such as move tasks or alarms, whose typed view
//! ([`Collection`]) knows what the bytes mean. Documents are in memory as a whole; each change is one record in the journal, and several
//! changes, with records of queues beside them, are one batch: after a crash all of it is there or
//! nothing. What is read may not be committed yet: a change is durable once its ticket is.
//!
//! The lock of the documents is taken last, after those of move tasks and queues.

mod collection;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millrace_engine::KeptDocument;
use millrace_engine::record::{KeptDeletedRecord, KeptRecord, Records};
use millrace_journal::{GroupCommit, Position, Purpose, Ticket};
use thiserror::Error;

use crate::append::journal_records;
use crate::error::BrokerError;
pub use collection::{Collection, Found};

/// Bytes of one document. A batch of them must fit into the journal's queue of changes.
pub const DOCUMENT_BYTES_MAX: usize = 1 << 20;
/// Bytes of the name of a collection, or of a key: an ARN of AWS has 2,048 characters at most.
pub const KEY_BYTES_MAX: usize = 2_048;

/// The collection of what the journal remembers of its views. Not of the state that is reset.
pub(crate) const VIEWS: &str = "views";

/// Documents that are appended again, or deleted, under one lock.
const DOCUMENTS_AT_A_TIME: usize = 500;
/// Bytes of a record beside its names and its content, rounded up.
const RECORD_OVERHEAD_BYTES: usize = 64;

/// A document as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    pub bytes: Arc<[u8]>,
    /// Differs from that of every earlier content of the key. Of this run of the server only.
    pub version: u64,
}

/// One change of a document.
#[derive(Clone, Debug)]
pub struct KeptChange<'a> {
    pub collection: &'a str,
    pub key: Cow<'a, str>,
    /// The state in which the document must be.
    pub expected: Expected,
    /// The new content; `None` deletes the document.
    pub to: Option<Cow<'a, [u8]>>,
}

/// The state in which a document must be for it to be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    Any,
    Absent,
    Version(u64),
}

/// Why documents were not changed.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum KeptError {
    /// The document is not in the state that was expected.
    #[error("{collection}/{key} was changed meanwhile")]
    Changed { collection: String, key: String },
    #[error("a document has {bytes} bytes, limit {DOCUMENT_BYTES_MAX}")]
    TooLarge { bytes: usize },
    #[error("the name of a collection or a key has 1 to {KEY_BYTES_MAX} bytes")]
    InvalidKey,
    /// A bug: a value that JSON cannot hold.
    #[error("{collection}: {error}")]
    NotEncoded { collection: &'static str, error: String },
    #[error(transparent)]
    Broker(#[from] BrokerError),
}

impl From<KeptError> for BrokerError {
    fn from(error: KeptError) -> BrokerError {
        match error {
            KeptError::Broker(error) => error,
            error => BrokerError::Internal(error.to_string()),
        }
    }
}

/// Called with each document of a collection that was changed, in order: key and new content.
/// It must not use the documents.
pub type KeptListener = Box<dyn Fn(&str, Option<&[u8]>) + Send + Sync>;

/// The size of a collection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptFigures {
    pub documents: u64,
    /// Keys and contents.
    pub bytes: u64,
}

/// All documents of a shard.
pub struct Kept {
    log: Arc<GroupCommit>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    collections: BTreeMap<String, Documents>,
    last_version: u64,
    listeners: Vec<(String, KeptListener)>,
}

/// The documents of a collection, by key.
#[derive(Default)]
struct Documents {
    by_key: BTreeMap<String, Stored>,
    /// Keys and contents.
    bytes: u64,
}

struct Stored {
    bytes: Arc<[u8]>,
    version: u64,
    /// Where its record stands.
    position: u64,
}

/// Changes that were checked, and are made once their records are appended.
pub(crate) struct Pending<'k, 'c> {
    state: MutexGuard<'k, State>,
    changes: &'c [KeptChange<'c>],
}

impl<'a> KeptChange<'a> {
    /// Stores a document, whatever is there.
    pub fn put(
        collection: &'a str,
        key: impl Into<Cow<'a, str>>,
        bytes: impl Into<Cow<'a, [u8]>>,
    ) -> KeptChange<'a> {
        let (key, to) = (key.into(), Some(bytes.into()));
        KeptChange { collection, key, expected: Expected::Any, to }
    }

    /// Deletes a document, if it is there.
    pub fn delete(collection: &'a str, key: impl Into<Cow<'a, str>>) -> KeptChange<'a> {
        KeptChange { collection, key: key.into(), expected: Expected::Any, to: None }
    }

    /// The same, only if the document is in that state.
    #[must_use]
    pub fn if_it_is(self, expected: Expected) -> KeptChange<'a> {
        KeptChange { expected, ..self }
    }

    fn write(&self, records: &mut Records<'_>) {
        let KeptChange { collection, key, to, .. } = self;
        match to {
            Some(bytes) => KeptRecord { collection, key, bytes }.write(records),
            None => KeptDeletedRecord { collection, key }.write(records),
        }
    }

    /// Bytes of its record at most.
    pub fn record_bytes(&self) -> usize {
        let content = self.to.as_ref().map_or(0, |bytes| bytes.len());
        self.collection.len() + self.key.len() + content + RECORD_OVERHEAD_BYTES
    }
}

impl Kept {
    pub(crate) fn new(
        log: Arc<GroupCommit>,
        replayed: BTreeMap<(String, String), KeptDocument>,
    ) -> Kept {
        let mut state = State::default();
        for ((collection, key), KeptDocument { bytes, position }) in replayed {
            state.last_version += 1;
            let stored = Stored { bytes, version: state.last_version, position };
            state.collections.entry(collection).or_default().put(key, stored);
        }
        Kept { log, state: Mutex::new(state) }
    }

    /// The document of that key.
    pub fn get(&self, collection: &str, key: &str) -> Option<Document> {
        let state = self.lock();
        let stored = state.collections.get(collection)?.by_key.get(key)?;
        Some(stored.document())
    }

    /// Up to `limit` documents whose keys begin with `prefix`, by key, from behind `after` on.
    pub fn scan(
        &self,
        collection: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Vec<(String, Document)> {
        let state = self.lock();
        let Some(documents) = state.collections.get(collection) else { return Vec::new() };
        let first = after.map_or(prefix, |after| after.max(prefix));
        let found = documents.by_key.range::<str, _>((Bound::Included(first), Bound::Unbounded));
        let found = found.skip_while(|(key, _)| after.is_some_and(|after| key.as_str() <= after));
        let found = found.take_while(|(key, _)| key.starts_with(prefix)).take(limit);
        found.map(|(key, stored)| (key.clone(), stored.document())).collect()
    }

    /// Makes all changes, or none, as one batch. They are durable once the ticket is committed.
    pub fn change(
        &self,
        changes: &[KeptChange<'_>],
        purpose: Purpose,
    ) -> Result<Ticket, KeptError> {
        let bytes = changes.iter().map(KeptChange::record_bytes).sum();
        let reservation = self.log.reserve(bytes, purpose).map_err(BrokerError::from)?;
        let pending = self.begin(changes)?;
        let mut records = Records::default();
        pending.write(&mut records);
        let mut positions = Vec::with_capacity(changes.len());
        let ticket = self.log.append(reservation, &journal_records(&records), &mut positions);
        pending.appended(&positions);
        Ok(ticket)
    }

    /// Calls `listener` after each change of a collection from now on.
    pub fn watch(&self, collection: &str, listener: KeptListener) {
        self.lock().listeners.push((collection.to_owned(), listener));
    }

    /// Returns the size of each collection.
    pub fn figures(&self) -> BTreeMap<String, KeptFigures> {
        let state = self.lock();
        let figures = state.collections.iter().map(|(collection, documents)| {
            let count = documents.by_key.len() as u64;
            (collection.clone(), KeptFigures { documents: count, bytes: documents.bytes })
        });
        figures.collect()
    }

    /// Deletes all documents of a collection, a batch at a time. Those before the ticket's commit
    /// may be gone alone.
    pub fn clear(&self, collection: &str) -> Result<Option<Ticket>, KeptError> {
        let mut latest = None;
        let documents = self.scan(collection, "", None, usize::MAX);
        for documents in documents.chunks(DOCUMENTS_AT_A_TIME) {
            let deleted = documents.iter().map(|(key, _)| KeptChange::delete(collection, key));
            latest = Some(self.change(&deleted.collect::<Vec<_>>(), Purpose::Reclaim)?);
        }
        Ok(latest)
    }

    /// Deletes all documents but those of views, which are not reset by it (test mode).
    pub(crate) fn forget(&self) -> Result<Option<Ticket>, KeptError> {
        let collections: Vec<String> = self.lock().collections.keys().cloned().collect();
        let mut latest = None;
        for collection in collections.into_iter().filter(|collection| collection != VIEWS) {
            latest = self.clear(&collection)?.or(latest);
        }
        Ok(latest)
    }

    /// Checks changes. Nobody else changes documents until they are made.
    pub(crate) fn begin<'c>(
        &self,
        changes: &'c [KeptChange<'c>],
    ) -> Result<Pending<'_, 'c>, KeptError> {
        let state = self.lock();
        changes.iter().try_for_each(|change| state.check(change))?;
        Ok(Pending { state, changes })
    }

    /// Bytes of the records of documents that stand before some position.
    pub(crate) fn bytes_before(&self, is_before: impl Fn(u64) -> bool) -> u64 {
        let state = self.lock();
        let stored = state.collections.values().flat_map(|documents| &documents.by_key);
        let stored = stored.filter(|(_, stored)| is_before(stored.position));
        stored.map(|(key, stored)| (key.len() + stored.bytes.len()) as u64).sum()
    }

    /// Appends documents again whose records are about to go.
    pub(crate) fn append_again(
        &self,
        is_before: impl Fn(u64) -> bool,
        append: impl Fn(&Records<'_>) -> Result<u64, BrokerError>,
    ) -> Result<(), BrokerError> {
        // Others get the lock between two pieces.
        loop {
            let mut appended = 0;
            let mut state = self.lock();
            for (collection, documents) in &mut state.collections {
                let documents = documents.by_key.iter_mut();
                for (key, stored) in documents.filter(|(_, stored)| is_before(stored.position)) {
                    if appended == DOCUMENTS_AT_A_TIME {
                        break;
                    }
                    let mut records = Records::default();
                    KeptChange::put(collection, key, &*stored.bytes).write(&mut records);
                    stored.position = append(&records)?;
                    appended += 1;
                }
            }
            if appended < DOCUMENTS_AT_A_TIME {
                return Ok(());
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn check(&self, change: &KeptChange<'_>) -> Result<(), KeptError> {
        let KeptChange { collection, key, expected, to } = change;
        let is_named = |name: &str| (1..=KEY_BYTES_MAX).contains(&name.len());
        if !is_named(collection) || !is_named(key) {
            return Err(KeptError::InvalidKey);
        }
        let bytes = to.as_ref().map(|bytes| bytes.len());
        if let Some(bytes) = bytes.filter(|bytes| *bytes > DOCUMENT_BYTES_MAX) {
            return Err(KeptError::TooLarge { bytes });
        }
        let documents = self.collections.get(*collection);
        let stored = documents.and_then(|documents| documents.by_key.get(&**key));
        let is_as_expected = match *expected {
            Expected::Any => true,
            Expected::Absent => stored.is_none(),
            Expected::Version(version) => stored.is_some_and(|stored| stored.version == version),
        };
        if !is_as_expected {
            let (collection, key) = ((*collection).to_owned(), key.clone().into_owned());
            return Err(KeptError::Changed { collection, key });
        }
        Ok(())
    }

    fn make(&mut self, change: &KeptChange<'_>, position: u64) {
        let KeptChange { collection, key, to, .. } = change;
        match to {
            Some(bytes) => {
                self.last_version += 1;
                let bytes = Arc::from(&**bytes);
                let stored = Stored { bytes, version: self.last_version, position };
                if !self.collections.contains_key(*collection) {
                    self.collections.insert((*collection).to_owned(), Documents::default());
                }
                if let Some(documents) = self.collections.get_mut(*collection) {
                    documents.put(key.clone().into_owned(), stored);
                }
            }
            None => {
                if let Some(documents) = self.collections.get_mut(*collection) {
                    documents.remove(key);
                    if documents.by_key.is_empty() {
                        self.collections.remove(*collection);
                    }
                }
            }
        }
        let listeners = self.listeners.iter().filter(|(of, _)| of == collection);
        listeners.for_each(|(_, listener)| listener(key, to.as_deref()));
    }
}

impl Documents {
    fn put(&mut self, key: String, stored: Stored) {
        self.remove(&key);
        self.bytes += (key.len() + stored.bytes.len()) as u64;
        self.by_key.insert(key, stored);
    }

    fn remove(&mut self, key: &str) {
        if let Some(stored) = self.by_key.remove(key) {
            self.bytes -= (key.len() + stored.bytes.len()) as u64;
        }
    }
}

impl Stored {
    fn document(&self) -> Document {
        Document { bytes: self.bytes.clone(), version: self.version }
    }
}

impl Pending<'_, '_> {
    /// Adds the records of the changes, one each, in their order.
    pub(crate) fn write(&self, records: &mut Records<'_>) {
        self.changes.iter().for_each(|change| change.write(records));
    }

    /// Makes the changes, whose records stand there.
    pub(crate) fn appended(mut self, positions: &[Position]) {
        for (change, position) in self.changes.iter().zip(positions) {
            self.state.make(change, position.0);
        }
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Kept").finish_non_exhaustive()
    }
}
