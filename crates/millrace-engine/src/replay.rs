//! Rebuilds all queues from a journal's records.

use std::collections::{BTreeMap, HashMap};

use millrace_core::{QueueId, QueueKey, Timestamp, limits};
use thiserror::Error;

use crate::definition::{Definition, Kind, Settings};
use crate::kept::KeptDocument;
use crate::queue::Queue;
use crate::record::{DecodeError, Record};

/// Why a record cannot be replayed: it was written by another version, or is damaged in a way that
/// its checksum does not show.
#[derive(Debug, Error)]
pub enum ReplayError {
    #[error("at {position:#x}: {source}")]
    Record { position: u64, source: DecodeError },
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

/// State under reconstruction. Feed all records in order, then call [`Replay::finish`].
#[derive(Debug, Default)]
pub struct Replay {
    queues: HashMap<QueueId, Partial>,
    /// The latest queue of each name.
    names: HashMap<QueueKey, QueueId>,
    pub(crate) kept: BTreeMap<(String, String), KeptDocument>,
    pub(crate) secret: Option<([u8; 16], u64)>,
    pub(crate) views: BTreeMap<String, u64>,
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
        let record =
            Record::decode(index).map_err(|source| ReplayError::Record { position, source })?;
        match record {
            Record::Sent(sent) => sent.replay(self, position, record_len),
            Record::Received(received) => received.replay(self),
            Record::Deleted(deleted) => deleted.replay(self),
            Record::VisibilityChanged(changed) => changed.replay(self),
            Record::Returned(returned) => returned.replay(self),
            Record::Released(released) => released.replay(self),
            Record::Moved(moved) => moved.replay(self),
            Record::Purged(purged) => purged.replay(self),
            Record::Defined(defined) => defined.replay(self, position)?,
            Record::QueueDeleted(deleted) => deleted.replay(self),
            Record::Relocated(relocated) => relocated.replay(self, position, record_len),
            Record::Remembered(remembered) => remembered.replay(self, position),
            Record::MoveTask(task) => task.replay(self, position)?,
            Record::Secret(secret) => secret.replay(self, position),
            Record::Kept(kept) => kept.replay(self, position),
            Record::KeptDeleted(deleted) => deleted.replay(self),
            Record::View(view) => view.replay(self, position),
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
            views: self.views,
            latest: self.latest,
            highest_queue: self.highest_queue,
        }
    }

    /// Notes a time that a record names.
    pub(crate) fn note_time(&mut self, at: Timestamp) {
        self.latest = self.latest.max(at);
    }

    /// The queue of a message, whose definition may be further on.
    pub(crate) fn queue(&mut self, id: QueueId, kind: Kind) -> &mut Queue {
        self.highest_queue = self.highest_queue.max(id.0);
        let partial = self.queues.entry(id).or_insert_with(|| {
            let settings = Settings { kind, ..Settings::default() };
            Partial { definition: None, queue: Queue::new(id, "", settings, 0) }
        });
        &mut partial.queue
    }

    /// Changes a queue, if it is there.
    pub(crate) fn change(&mut self, id: QueueId, at: Timestamp, change: impl FnOnce(&mut Queue)) {
        self.note_time(at);
        if let Some(partial) = self.queues.get_mut(&id) {
            change(&mut partial.queue);
        }
    }

    /// Changes two queues, as far as they are there; the first being there, the other one is.
    pub(crate) fn change_both(
        &mut self,
        from: QueueId,
        to: QueueId,
        change: impl FnOnce(Option<&mut Queue>, Option<&mut Queue>),
    ) {
        match self.queues.remove(&from) {
            Some(mut taken) => {
                let to = self.queue(to, taken.queue.settings().kind);
                change(Some(&mut taken.queue), Some(to));
                self.queues.insert(from, taken);
            }
            None => change(None, self.queues.get_mut(&to).map(|partial| &mut partial.queue)),
        }
    }

    pub(crate) fn drop_queue(&mut self, id: QueueId) {
        self.highest_queue = self.highest_queue.max(id.0);
        self.queues.remove(&id);
    }

    /// Takes a definition, which may stand further on than its queue's messages: definitions are
    /// relocated, too. `record`: where its record is, and how many messages the queue was sent before.
    pub(crate) fn define(&mut self, definition: Definition, record: Option<(u64, u64)>) {
        let modified = Timestamp(definition.modified_ms);
        self.note_time(modified);
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
            if let Some((_, sent_total)) = record {
                partial.queue.replay_sent_total(sent_total);
            }
            partial.definition = Some((definition, record.map(|(position, _)| position)));
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

/// What the records told.
#[derive(Debug)]
pub struct Finished {
    /// By ascending id.
    pub queues: Vec<ReplayedQueue>,
    /// Kept documents by collection and key.
    pub kept: BTreeMap<(String, String), KeptDocument>,
    pub secret: Option<([u8; 16], u64)>,
    /// Where the latest record of each view stands.
    pub views: BTreeMap<String, u64>,
    /// The latest time that any record tells.
    pub latest: Timestamp,
    pub highest_queue: u64,
}
