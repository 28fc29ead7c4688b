//! Rebuilds all queues from a journal's records.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use millrace_core::{QueueId, QueueKey, Timestamp, limits};
use thiserror::Error;

use crate::definition::{Definition, Kind, Settings};
use crate::queue::Queue;
use crate::record::Record;

/// Why a record cannot be replayed: it was written by another version, or is damaged in a way that
/// its checksum does not show.
#[derive(Debug, Error)]
pub enum ReplayError {
    #[error("record at {position:#x} is of an unknown kind or malformed")]
    Malformed { position: u64 },
    #[error("record at {position:#x} holds a malformed document")]
    Document { position: u64, source: serde_json::Error },
}

/// A queue as its records tell it.
#[derive(Debug)]
pub struct ReplayedQueue {
    pub definition: Definition,
    /// Where the definition's latest record stands. None: that was lost, and this one is in no record.
    pub position: Option<u64>,
    pub queue: Queue,
}

/// The collection of move tasks. They had records of their own before documents were kept.
pub const MOVE_TASKS: &str = "move-tasks";

/// A kept document as its records tell it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptDocument {
    pub bytes: Arc<[u8]>,
    /// Where its latest record stands.
    pub position: u64,
}

/// State under reconstruction. Feed all records in order, then call [`Replay::finish`].
#[derive(Debug, Default)]
pub struct Replay {
    queues: HashMap<QueueId, Partial>,
    /// The latest queue of each name.
    names: HashMap<QueueKey, QueueId>,
    kept: BTreeMap<(String, String), KeptDocument>,
    secret: Option<([u8; 16], u64)>,
    latest: Timestamp,
    highest_queue: u64,
}

/// A queue whose definition may stand further on: definitions are relocated, too.
#[derive(Debug)]
struct Partial {
    definition: Option<(Definition, Option<u64>)>,
    queue: Queue,
}

impl Replay {
    /// Applies one record.
    pub fn apply(
        &mut self,
        index: &[u8],
        position: u64,
        record_len: u32,
    ) -> Result<(), ReplayError> {
        let malformed = ReplayError::Malformed { position };
        match Record::decode(index).ok_or(malformed)? {
            Record::Sent(sent) => {
                self.latest = self.latest.max(sent.sent);
                self.queue(sent.queue, sent.kind).replay_sent(&sent, position, record_len);
            }
            Record::Relocated(relocated) => {
                let message = &relocated.message;
                self.latest = self.latest.max(message.sent).max(relocated.last_received);
                self.queue(message.queue, message.kind)
                    .replay_relocated(&relocated, position, record_len);
            }
            Record::Received { queue, at, deadline, slots } => {
                self.change(queue, at, |queue| queue.replay_received(at, deadline, slots));
            }
            Record::VisibilityChanged { queue, at, deadline, slots } => {
                self.change(queue, at, |queue| queue.replay_visibility(at, deadline, slots));
            }
            Record::Returned { queue, at, slots } => {
                self.change(queue, at, |queue| queue.replay_returned(slots));
            }
            Record::Deleted { queue, slots } => {
                self.change(queue, Timestamp(0), |queue| queue.replay_deleted(slots));
            }
            Record::Purged { queue } => {
                self.change(queue, Timestamp(0), |queue| drop(queue.purge()));
            }
            Record::Moved { from, to, at, source, slots } => {
                self.latest = self.latest.max(at);
                match self.queues.remove(&from) {
                    Some(mut taken) => {
                        let target = self.queue(to, taken.queue.settings().kind);
                        target.replay_taken(slots);
                        taken.queue.replay_moved(target, at, source, slots);
                        self.queues.insert(from, taken);
                    }
                    None => {
                        if let Some(target) = self.queues.get_mut(&to) {
                            target.queue.replay_taken(slots);
                        }
                    }
                }
            }
            Record::Remembered { queue, expires, seq, id, dedup } => {
                self.queue(queue, Kind::Fifo).replay_remembered(dedup, seq, id, expires, position);
            }
            Record::Defined { json } => {
                let definition = serde_json::from_slice(json)
                    .map_err(|source| ReplayError::Document { position, source })?;
                self.define(definition, Some(position));
            }
            Record::QueueDeleted { queue } => {
                self.highest_queue = self.highest_queue.max(queue.0);
                self.queues.remove(&queue);
            }
            Record::MoveTask { json } => {
                let task: TaskId = serde_json::from_slice(json)
                    .map_err(|source| ReplayError::Document { position, source })?;
                self.keep(MOVE_TASKS, &task.id, json, position);
            }
            Record::Kept { collection, key, bytes } => self.keep(collection, key, bytes, position),
            Record::KeptDeleted { collection, key } => {
                self.kept.remove(&(collection.to_owned(), key.to_owned()));
            }
            Record::Secret(secret) => self.secret = Some((secret, position)),
        }
        Ok(())
    }

    /// Defines anew the queues whose definitions a repaired journal has lost, if they have messages:
    /// named `recovered-` and their id, with the longest retention, all else as by default. They are of
    /// the region and account that all other queues are of, or else of these.
    pub fn recover_definitions(&mut self, region: &str, account: &str) {
        let (region, account) = self.only_home().unwrap_or((region, account));
        let (region, account) = (region.to_owned(), account.to_owned());
        let is_lost =
            |partial: &Partial| partial.definition.is_none() && partial.queue.counts().total() > 0;
        let lost = self.queues.iter().filter(|(_, partial)| is_lost(partial));
        let mut lost: Vec<(QueueId, Kind)> =
            lost.map(|(id, partial)| (*id, partial.queue.settings().kind)).collect();
        lost.sort_unstable_by_key(|(id, _)| *id);
        for (id, kind) in lost {
            let retention_s = *limits::RETENTION_S.end() as u32;
            let settings = Settings { kind, retention_s, ..Settings::default() };
            let key = self.free_key(&region, &account, id, kind);
            self.define(Definition::new(id, &key, settings, self.latest), None);
        }
    }

    /// Region and account of all queues, if they have the same.
    fn only_home(&self) -> Option<(&str, &str)> {
        let known = self.queues.values().filter_map(|partial| partial.definition.as_ref());
        let mut homes = known.map(|(known, _)| (known.region.as_str(), known.account.as_str()));
        let first = homes.next()?;
        homes.all(|home| home == first).then_some(first)
    }

    /// The queues by id. Sequences begin at `first_seq` or above.
    ///
    /// Where a repaired journal has lost a queue's definition, that queue is gone, unless it was
    /// [defined anew](Replay::recover_definitions).
    pub fn finish(self, first_seq: u64) -> Finished {
        let mut queues = Vec::new();
        for Partial { definition, mut queue } in self.queues.into_values() {
            let Some((definition, position)) = definition else { continue };
            queue.finish_replay(first_seq);
            queues.push(ReplayedQueue { definition, position, queue });
        }
        queues.sort_by_key(|queue| queue.definition.id);
        Finished {
            queues,
            kept: self.kept,
            secret: self.secret,
            latest: self.latest,
            highest_queue: self.highest_queue,
        }
    }

    fn keep(&mut self, collection: &str, key: &str, bytes: &[u8], position: u64) {
        let document = KeptDocument { bytes: bytes.into(), position };
        self.kept.insert((collection.to_owned(), key.to_owned()), document);
    }

    fn queue(&mut self, id: QueueId, kind: Kind) -> &mut Queue {
        self.highest_queue = self.highest_queue.max(id.0);
        let partial = self.queues.entry(id).or_insert_with(|| {
            let settings = Settings { kind, ..Settings::default() };
            Partial { definition: None, queue: Queue::new(id, "", settings, 0) }
        });
        &mut partial.queue
    }

    fn change(&mut self, id: QueueId, at: Timestamp, change: impl FnOnce(&mut Queue)) {
        self.latest = self.latest.max(at);
        if let Some(partial) = self.queues.get_mut(&id) {
            change(&mut partial.queue);
        }
    }

    fn define(&mut self, definition: Definition, position: Option<u64>) {
        let modified = Timestamp(definition.modified_ms);
        self.latest = self.latest.max(modified);
        let id = definition.queue_id();
        // A repaired journal may have lost that the earlier queue of this name was deleted.
        if let Some(earlier) = self.names.insert(definition.key(), id).filter(|other| *other != id)
        {
            self.queues.remove(&earlier);
        }
        self.queue(id, definition.settings.kind);
        if let Some(partial) = self.queues.get_mut(&id) {
            partial.queue.set_arn(&definition.key().to_string());
            let settings = definition.settings.clone();
            match partial.definition {
                None => partial.queue.replay_first_settings(settings, modified),
                Some(_) => partial.queue.replay_settings(settings, modified),
            }
            partial.definition = Some((definition, position));
        }
    }

    /// One that no queue has, or had.
    fn free_key(&self, region: &str, account: &str, id: QueueId, kind: Kind) -> QueueKey {
        let suffix = if kind == Kind::Fifo { ".fifo" } else { "" };
        let mut name = format!("recovered-{}{suffix}", id.0);
        let mut again = 1;
        loop {
            let key = QueueKey::new(region, account, &name);
            if !self.names.contains_key(&key) {
                return key;
            }
            again += 1;
            name = format!("recovered-{}-{again}{suffix}", id.0);
        }
    }
}

#[derive(serde::Deserialize)]
struct TaskId {
    id: String,
}

/// What the records told.
#[derive(Debug)]
pub struct Finished {
    /// By ascending id.
    pub queues: Vec<ReplayedQueue>,
    /// Kept documents by collection and key.
    pub kept: BTreeMap<(String, String), KeptDocument>,
    pub secret: Option<([u8; 16], u64)>,
    /// The latest time that any record tells.
    pub latest: Timestamp,
    pub highest_queue: u64,
}
