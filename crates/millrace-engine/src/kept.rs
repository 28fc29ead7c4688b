//! Kept documents, as the journal has them: small and durable, and no messages.

use std::sync::Arc;

use crate::record::{DecodeError, Input, Records};
use crate::replay::{Replay, ReplayError};

pub(crate) const MOVE_TASK: u8 = 12;
pub(crate) const KEPT: u8 = 14;
pub(crate) const KEPT_DELETED: u8 = 15;

/// The collection of move tasks. They had records of their own before documents were kept.
pub const MOVE_TASKS: &str = "move-tasks";

/// A kept document as its records tell it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptDocument {
    pub bytes: Arc<[u8]>,
    /// Where its latest record stands.
    pub position: u64,
}

/// A document's new content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptRecord<'a> {
    pub collection: &'a str,
    pub key: &'a str,
    pub bytes: &'a [u8],
}

impl<'a> KeptRecord<'a> {
    /// Adds the record.
    pub fn write(&self, records: &mut Records<'_>) {
        let field_bytes = 4 + self.collection.len() + self.key.len() + self.bytes.len();
        records.add(KEPT, field_bytes, &[], |out| {
            out.text(self.collection);
            out.text(self.key);
            out.bytes(self.bytes);
        });
    }

    pub(crate) fn read(from: &mut Input<'a>) -> Result<KeptRecord<'a>, DecodeError> {
        Ok(KeptRecord { collection: from.text()?, key: from.text()?, bytes: from.rest() })
    }

    pub(crate) fn replay(&self, replay: &mut Replay, position: u64) {
        let document = KeptDocument { bytes: self.bytes.into(), position };
        replay.kept.insert((self.collection.to_owned(), self.key.to_owned()), document);
    }
}

/// A document's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptDeletedRecord<'a> {
    pub collection: &'a str,
    pub key: &'a str,
}

impl<'a> KeptDeletedRecord<'a> {
    /// Adds the record.
    pub fn write(&self, records: &mut Records<'_>) {
        let field_bytes = 4 + self.collection.len() + self.key.len();
        records.add(KEPT_DELETED, field_bytes, &[], |out| {
            out.text(self.collection);
            out.text(self.key);
        });
    }

    pub(crate) fn read(from: &mut Input<'a>) -> Result<KeptDeletedRecord<'a>, DecodeError> {
        Ok(KeptDeletedRecord { collection: from.text()?, key: from.text()? })
    }

    pub(crate) fn replay(&self, replay: &mut Replay) {
        replay.kept.remove(&(self.collection.to_owned(), self.key.to_owned()));
    }
}

/// A move task, as it was journaled before documents were kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoveTaskRecord<'a> {
    pub json: &'a [u8],
}

impl<'a> MoveTaskRecord<'a> {
    pub(crate) fn read(from: &mut Input<'a>) -> MoveTaskRecord<'a> {
        MoveTaskRecord { json: from.rest() }
    }

    pub(crate) fn replay(&self, replay: &mut Replay, position: u64) -> Result<(), ReplayError> {
        #[derive(serde::Deserialize)]
        struct Task {
            id: String,
        }
        let Task { id } = serde_json::from_slice(self.json)
            .map_err(|source| ReplayError::Document { position, source })?;
        KeptRecord { collection: MOVE_TASKS, key: &id, bytes: self.json }.replay(replay, position);
        Ok(())
    }
}
