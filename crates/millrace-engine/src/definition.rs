//! What a queue is, apart from its messages.

use std::collections::BTreeMap;

use millrace_core::{QueueId, QueueKey, Timestamp, limits};
use serde::{Deserialize, Serialize};

use crate::queue::Queue;
use crate::record::{Input, Records};
use crate::replay::{Replay, ReplayError};

pub(crate) const DEFINED: u8 = 8;

/// Standard or FIFO; fixed at creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// At least once, best-effort order, groups only for fairness.
    #[default]
    Standard,
    /// In order within a group, each message accepted once per deduplication window.
    Fifo,
}

/// Where a deduplication id must be unique.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeduplicationScope {
    /// In the whole queue.
    #[default]
    Queue,
    /// Among messages of one group.
    MessageGroup,
}

/// When and where messages are dead-lettered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redrive {
    /// The dead-letter queue; it may not exist (any more).
    pub region: String,
    /// Its account.
    pub account: String,
    /// Its name.
    pub name: String,
    /// A message received this often is moved when its turn comes again.
    pub max_receive_count: u32,
}

impl Redrive {
    /// The dead-letter queue's key.
    pub fn target(&self) -> QueueKey {
        QueueKey::new(&self.region, &self.account, &self.name)
    }
}

/// What the engine and the broker act upon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    pub kind: Kind,
    pub visibility_timeout_s: u32,
    pub delay_s: u32,
    pub retention_s: u32,
    /// Long-poll time of receives that name none.
    pub wait_time_s: u32,
    pub maximum_message_size_bytes: u32,
    pub content_based_deduplication: bool,
    pub deduplication_scope: DeduplicationScope,
    pub redrive: Option<Redrive>,
}

impl Default for Settings {
    /// The defaults of Amazon SQS.
    fn default() -> Settings {
        Settings {
            kind: Kind::Standard,
            visibility_timeout_s: 30,
            delay_s: 0,
            retention_s: 345_600,
            wait_time_s: 0,
            maximum_message_size_bytes: limits::MESSAGE_SIZE_BYTES as u32,
            content_based_deduplication: false,
            deduplication_scope: DeduplicationScope::Queue,
            redrive: None,
        }
    }
}

/// A queue's catalog entry, as journaled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    pub id: u64,
    pub region: String,
    pub account: String,
    pub name: String,
    pub created_ms: u64,
    pub modified_ms: u64,
    /// The last purge, for the cool-down.
    #[serde(default)]
    pub purged_ms: u64,
    pub settings: Settings,
    /// Attributes that only the service floor understands, by its names.
    #[serde(default)]
    pub attributes: BTreeMap<String, String>,
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
}

impl Definition {
    /// A new queue without attributes or tags.
    pub fn new(id: QueueId, key: &QueueKey, settings: Settings, now: Timestamp) -> Definition {
        Definition {
            id: id.0,
            region: key.region.clone(),
            account: key.account.clone(),
            name: key.name.clone(),
            created_ms: now.0,
            modified_ms: now.0,
            purged_ms: 0,
            settings,
            attributes: BTreeMap::new(),
            tags: BTreeMap::new(),
        }
    }

    /// This incarnation's id.
    pub fn queue_id(&self) -> QueueId {
        QueueId(self.id)
    }

    /// What names the queue.
    pub fn key(&self) -> QueueKey {
        QueueKey::new(&self.region, &self.account, &self.name)
    }
}

/// A definition that is about to be journaled. How long its record is shows before anything
/// changes, so that room for it can be had.
#[derive(Debug)]
pub struct NewDefinition<'d> {
    definition: &'d Definition,
    json: Vec<u8>,
}

impl<'d> NewDefinition<'d> {
    /// The definition of a queue that was sent so many messages.
    pub fn new(
        definition: &'d Definition,
        sent_total: u64,
    ) -> Result<NewDefinition<'d>, serde_json::Error> {
        let json = serde_json::to_vec(&Journaled { definition, sent_total })?;
        Ok(NewDefinition { definition, json })
    }

    /// Bytes of the record's index part.
    pub fn index_bytes(&self) -> usize {
        1 + self.json.len()
    }

    /// Adds the record of a queue that is new, or whose settings stay.
    pub fn write(&self, records: &mut Records<'_>) {
        records.add(DEFINED, self.json.len(), &[], |out| out.bytes(&self.json));
    }
}

impl Queue {
    /// Gives the queue the settings of its new definition.
    pub fn define(&mut self, new: &NewDefinition<'_>, now: Timestamp, records: &mut Records<'_>) {
        self.set_settings(new.definition.settings.clone(), now);
        new.write(records);
    }
}

/// A definition and what the queue has counted before it: the records that tell of it may go.
#[derive(Serialize, Deserialize)]
struct Journaled<D> {
    #[serde(flatten)]
    definition: D,
    #[serde(default)]
    sent_total: u64,
}

/// Fields of `Defined`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefinedRecord<'a> {
    pub json: &'a [u8],
}

impl<'a> DefinedRecord<'a> {
    pub(crate) fn read(from: &mut Input<'a>) -> DefinedRecord<'a> {
        DefinedRecord { json: from.rest() }
    }

    pub(crate) fn replay(&self, replay: &mut Replay, position: u64) -> Result<(), ReplayError> {
        let Journaled { definition, sent_total } = serde_json::from_slice(self.json)
            .map_err(|source| ReplayError::Document { position, source })?;
        replay.define(definition, Some((position, sent_total)));
        Ok(())
    }
}
