//! The typed view of a collection: its name, the key of a value, and JSON for its bytes.
//!
//! A noun of which documents are kept needs a type that serde knows, and one line:
//!
//! ```text
//! const TOPICS: Collection<Topic> = Collection::new("topics", |topic| topic.arn.clone());
//!
//! TOPICS.get(shard.kept(), arn)                                         Option<Found<Topic>>
//! TOPICS.scan(shard.kept(), "arn:aws:sns:us-east-1:", None, 100)        Vec<Topic>
//! shard.kept().change(&[TOPICS.put(&topic)?, USERS.delete(name)], Purpose::Store)   all or nothing
//! ```
//! Fields that a later version adds to the type need a default, for documents of earlier ones.

use std::borrow::Cow;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Document, Kept, KeptChange, KeptError};

/// A collection of values of one type.
#[derive(Debug)]
pub struct Collection<T> {
    name: &'static str,
    key: fn(&T) -> String,
}

/// A value as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found<T> {
    pub value: T,
    /// For [`super::Expected::Version`].
    pub version: u64,
}

impl<T: Serialize + DeserializeOwned> Collection<T> {
    /// The collection of that name, which no other noun may have. `key` names a value within it.
    pub const fn new(name: &'static str, key: fn(&T) -> String) -> Collection<T> {
        Collection { name, key }
    }

    /// The name, as [`Kept::watch`] and the figures have it.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The change that stores a value, whatever is there.
    pub fn put(&self, value: &T) -> Result<KeptChange<'static>, KeptError> {
        let bytes = serde_json::to_vec(value).map_err(|error| KeptError::NotEncoded {
            collection: self.name,
            error: error.to_string(),
        })?;
        Ok(KeptChange::put(self.name, (self.key)(value), bytes))
    }

    /// The change that deletes the value of that key, if it is there.
    pub fn delete<'a>(&self, key: impl Into<Cow<'a, str>>) -> KeptChange<'a> {
        KeptChange::delete(self.name, key)
    }

    /// The value of that key.
    pub fn get(&self, kept: &Kept, key: &str) -> Option<Found<T>> {
        let document = kept.get(self.name, key)?;
        self.decode(key, &document)
    }

    /// Up to `limit` values whose keys begin with `prefix`, by key, from behind `after` on.
    pub fn scan(&self, kept: &Kept, prefix: &str, after: Option<&str>, limit: usize) -> Vec<T> {
        let documents = kept.scan(self.name, prefix, after, limit).into_iter();
        documents.filter_map(|(key, document)| Some(self.decode(&key, &document)?.value)).collect()
    }

    /// A document that cannot be read stays where it is, and is left out.
    fn decode(&self, key: &str, document: &Document) -> Option<Found<T>> {
        match serde_json::from_slice(&document.bytes) {
            Ok(value) => Some(Found { value, version: document.version }),
            Err(error) => {
                tracing::error!(collection = self.name, key, %error, "a document cannot be read");
                None
            }
        }
    }
}
