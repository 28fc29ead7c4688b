//! Queues by name: creating, changing, deleting, listing. Every change is journaled.

mod sources;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::Ordering;
use std::sync::{
    Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
};

use hashbrown::Equivalent;
use millrace_core::{Arn, QueueId, QueueKey, ShardId};
use millrace_engine::record::{QueueDeletedRecord, Records};
use millrace_engine::{Definition, Queue, Settings};
use millrace_journal::record::RECORD_HEADER_BYTES;
use millrace_journal::{Purpose, Ticket};

use crate::append::{append_one, journal_records};
use crate::common::Common;
use crate::error::BrokerError;
use crate::figures::QueueTotals;
use crate::queue::{SharedQueue, new_definition};
use sources::DeadLetterSources;

/// The queues of all shards.
#[derive(Default)]
pub struct Catalog {
    /// One change of the set of queues at a time.
    changes: Mutex<()>,
    maps: RwLock<Maps>,
    on_delete: OnceLock<OnDelete>,
}

/// Told of a queue that was just deleted, while nobody can find it any more.
pub type OnDelete = Box<dyn Fn(&SharedQueue) + Send + Sync>;

#[derive(Default)]
struct Maps {
    by_key: BTreeMap<QueueKey, Arc<SharedQueue>>,
    /// The queues of a shard are next to each other.
    by_id: BTreeMap<QueueId, Arc<SharedQueue>>,
    /// By key as well, but found without building one.
    by_parts: hashbrown::HashMap<QueueKey, Arc<SharedQueue>>,
    dead_letter_sources: DeadLetterSources,
    /// Totals of deleted queues, each added in the step that removes its queue from the maps.
    totals_of_deleted: QueueTotals,
}

/// A key, borrowed. Hashes as [`QueueKey`] does: the same parts in the same order.
#[derive(Hash)]
struct KeyParts<'a> {
    region: &'a str,
    account: &'a str,
    name: &'a str,
}

impl Equivalent<QueueKey> for KeyParts<'_> {
    fn equivalent(&self, key: &QueueKey) -> bool {
        self.name == key.name && self.account == key.account && self.region == key.region
    }
}

/// A queue to be created.
#[derive(Clone, Debug)]
pub struct NewQueue {
    pub key: QueueKey,
    pub settings: Settings,
    pub attributes: BTreeMap<String, String>,
    pub tags: BTreeMap<String, String>,
}

/// What a creation found.
#[derive(Clone, Debug)]
pub enum Creation {
    Created(Arc<SharedQueue>),
    /// There is one of that name; nothing was changed.
    Existing(Arc<SharedQueue>),
}

impl Catalog {
    /// The queue of that name.
    pub fn queue(&self, region: &str, account: &str, name: &str) -> Option<Arc<SharedQueue>> {
        self.maps().by_parts.get(&KeyParts { region, account, name }).cloned()
    }

    /// The queue of that key.
    pub fn queue_by_key(&self, key: &QueueKey) -> Option<Arc<SharedQueue>> {
        self.maps().by_key.get(key).cloned()
    }

    /// The queue of that ARN.
    pub(crate) fn queue_by_arn(&self, arn: &str) -> Option<Arc<SharedQueue>> {
        self.queue_by_key(&Arn::parse(arn)?.queue()?)
    }

    /// The queue of that id.
    pub fn queue_by_id(&self, id: QueueId) -> Option<Arc<SharedQueue>> {
        self.maps().by_id.get(&id).cloned()
    }

    /// Every queue that clients can name, by key.
    pub fn queues(&self) -> Vec<Arc<SharedQueue>> {
        self.maps().named().cloned().collect()
    }

    /// Every queue that clients can name, by key, and what all of those have done that were deleted
    /// since the process started, as of one moment: none is missing, and none is in both.
    pub fn queues_and_totals_of_deleted(&self) -> (Vec<Arc<SharedQueue>>, QueueTotals) {
        let maps = self.maps();
        (maps.named().cloned().collect(), maps.totals_of_deleted)
    }

    /// Up to `limit` queues of an account and region whose names begin with `prefix` and are wanted,
    /// in order of name, after the one named `after`.
    pub fn list_queues(
        &self,
        (region, account): (&str, &str),
        prefix: &str,
        after: Option<&str>,
        limit: usize,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Vec<Arc<SharedQueue>> {
        let from = match after {
            Some(after) if after >= prefix => {
                Bound::Excluded(QueueKey::new(region, account, after))
            }
            _ => Bound::Included(QueueKey::new(region, account, prefix)),
        };
        let maps = self.maps();
        let matching = maps.by_key.range((from, Bound::Unbounded)).take_while(|(key, _)| {
            key.region == region && key.account == account && key.name.starts_with(prefix)
        });
        let matching = matching.filter(|(key, _)| is_wanted(&key.name));
        matching.take(limit).map(|(_, queue)| queue.clone()).collect()
    }

    /// Up to `limit` queues whose dead-letter queue is `target`, by key, after the one of the key
    /// `after`. Hidden ones are left out.
    pub fn dead_letter_sources(
        &self,
        target: &QueueKey,
        after: Option<&QueueKey>,
        limit: usize,
    ) -> Vec<Arc<SharedQueue>> {
        let maps = self.maps();
        let sources = maps.dead_letter_sources.of(target, after);
        sources.filter(|queue| !queue.key().is_hidden()).take(limit).cloned().collect()
    }

    /// Creates a queue in a shard. Changes memory and appends; what it returns may be told once the
    /// ticket is committed.
    pub(crate) fn begin_create_queue(
        &self,
        common: &Arc<Common>,
        new: &NewQueue,
    ) -> Result<(Creation, Option<Ticket>), BrokerError> {
        let _changes = self.changes();
        if let Some(existing) = self.queue_by_key(&new.key) {
            let latest = existing.lock().latest;
            return Ok((Creation::Existing(existing), latest));
        }
        let id = QueueId(common.next_queue.load(Ordering::Relaxed));
        let mut definition = Definition::new(id, &new.key, new.settings.clone(), common.now());
        definition.attributes.clone_from(&new.attributes);
        definition.tags.clone_from(&new.tags);
        let engine = Queue::new(id, &new.key.to_string(), new.settings.clone(), common.first_seq);
        let mut records = Records::default();
        new_definition(&definition)?.write(&mut records);
        let (ticket, position) = append_one(&common.log, Purpose::Store, &records)?;
        let queue = Arc::new(SharedQueue::new(common.clone(), engine, definition, position));
        queue.lock().latest = Some(ticket);
        common.next_queue.store(id.0 + 1, Ordering::Relaxed);
        self.maps_mut().insert(queue.clone());
        Ok((Creation::Created(queue), Some(ticket)))
    }

    /// Has `listener` told of each queue that is deleted: its last figures would be lost with it.
    /// The first listener stays.
    pub fn on_delete(&self, listener: OnDelete) {
        let _ = self.on_delete.set(listener);
    }

    /// Changes a queue's definition in one step with reading it. Resolves after the commit.
    pub async fn update_queue<T, E>(
        &self,
        queue: &SharedQueue,
        change: impl FnOnce(&mut Definition) -> Result<T, E>,
    ) -> Result<Result<T, E>, BrokerError> {
        // A longer retention must not bring back what has expired.
        queue.catch_up().await;
        let (value, ticket, redrive_changed) = {
            let mut state = queue.lock_up_to_date();
            if state.is_deleted {
                return Err(BrokerError::QueueDoesNotExist);
            }
            let now = queue.common.now();
            queue.tick_whole(&mut state, now)?;
            let before = queue.definition();
            let mut definition = Definition::clone(&before);
            let value = match change(&mut definition) {
                Ok(value) => value,
                Err(refusal) => return Ok(Err(refusal)),
            };
            if definition == *before {
                (value, state.latest, false)
            } else {
                let redrive_changed = definition.settings.redrive != before.settings.redrive;
                definition.modified_ms = now.0;
                let new = new_definition(&definition)?;
                let bytes = RECORD_HEADER_BYTES + new.index_bytes();
                let reservation = queue.common.log.reserve(bytes, Purpose::Store)?;
                let mut records = Records::default();
                state.queue.define(&new, now, &mut records);
                let ticket = queue.append_definition(&mut state, reservation, &records);
                queue.set_definition(&mut state, definition);
                state.wake(u64::MAX);
                queue.arm(&mut state);
                (value, Some(ticket), redrive_changed)
            }
        };
        // The maps are not locked with a queue.
        if redrive_changed {
            self.redrive_changed(queue.id());
        }
        queue.committed(ticket).await?;
        Ok(Ok(value))
    }

    /// Deletes a queue and its messages. Resolves after the commit.
    pub async fn delete_queue(&self, queue: &SharedQueue) -> Result<(), BrokerError> {
        let ticket = {
            let _changes = self.changes();
            let mut state = queue.lock();
            if state.is_deleted {
                return Err(BrokerError::QueueDoesNotExist);
            }
            let bytes = RECORD_HEADER_BYTES + QueueDeletedRecord::INDEX_BYTES;
            let reservation = queue.common.log.reserve(bytes, Purpose::Reclaim)?;
            let mut records = Records::default();
            queue.common.free(state.queue.delete_queue(&mut records));
            let records = journal_records(&records);
            let ticket = queue.common.log.append(reservation, &records, &mut Vec::new());
            state.latest = Some(ticket);
            state.is_deleted = true;
            queue.disarm(&mut state);
            state.waiters.wake_all();
            let totals = state.close_totals(queue);
            drop(state);
            let mut maps = self.maps_mut();
            maps.remove(queue);
            if !queue.key().is_hidden() {
                maps.totals_of_deleted += totals;
            }
            ticket
        };
        if let Some(listener) = self.on_delete.get()
            && !queue.key().is_hidden()
        {
            listener(queue);
        }
        queue.common.want_maintenance();
        queue.committed(Some(ticket)).await
    }

    /// Adds the queues of a shard.
    pub(crate) fn add(&self, queues: &[Arc<SharedQueue>]) -> Result<(), BrokerError> {
        let _changes = self.changes();
        let mut maps = self.maps_mut();
        if let Some(twice) = queues.iter().find(|queue| maps.by_key.contains_key(queue.key())) {
            let text = format!("two shards have a queue {}", twice.key());
            return Err(BrokerError::Internal(text));
        }
        queues.iter().for_each(|queue| maps.insert(queue.clone()));
        Ok(())
    }

    /// Forgets the queues of a shard that was closed.
    pub(crate) fn remove_all(&self, queues: &[Arc<SharedQueue>]) {
        let _changes = self.changes();
        let mut maps = self.maps_mut();
        queues.iter().for_each(|queue| maps.remove(queue));
    }

    /// Every queue, hidden ones included.
    pub(crate) fn all(&self) -> Vec<Arc<SharedQueue>> {
        self.maps().by_id.values().cloned().collect()
    }

    /// Every queue of a shard, by id, hidden ones included.
    pub(crate) fn of_shard(&self, shard: ShardId) -> Vec<Arc<SharedQueue>> {
        let first = u64::from(shard.0) << 56;
        let ids = QueueId(first)..=QueueId(first | (u64::MAX >> 8));
        self.maps().by_id.range(ids).map(|(_, queue)| queue.clone()).collect()
    }

    pub(crate) fn changes(&self) -> MutexGuard<'_, ()> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// To be called once a queue has another dead-letter queue. Looks at its definition again: of
    /// two changes the later one counts, whichever gets here first.
    fn redrive_changed(&self, id: QueueId) {
        let mut maps = self.maps_mut();
        if let Some(queue) = maps.by_id.get(&id).cloned() {
            maps.dead_letter_sources.note(&queue);
        }
    }

    fn maps(&self) -> RwLockReadGuard<'_, Maps> {
        self.maps.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn maps_mut(&self) -> RwLockWriteGuard<'_, Maps> {
        self.maps.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Maps {
    fn insert(&mut self, queue: Arc<SharedQueue>) {
        self.dead_letter_sources.note(&queue);
        self.by_parts.insert(queue.key().clone(), queue.clone());
        self.by_id.insert(queue.id(), queue.clone());
        self.by_key.insert(queue.key().clone(), queue);
    }

    fn named(&self) -> impl Iterator<Item = &Arc<SharedQueue>> {
        self.by_key.values().filter(|queue| !queue.key().is_hidden())
    }

    fn remove(&mut self, queue: &SharedQueue) {
        self.dead_letter_sources.forget(queue);
        self.by_parts.remove(queue.key());
        self.by_id.remove(&queue.id());
        self.by_key.remove(queue.key());
    }
}
