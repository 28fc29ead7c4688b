//! Queues by name: creating, changing, purging, deleting, listing. Every change is journaled.

mod sources;

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use hashbrown::Equivalent;
use millrace_core::{QueueId, QueueKey, Timestamp, limits};
use millrace_engine::record::{PurgedRecord, QueueDeletedRecord, Records};
use millrace_engine::{Counts, Definition, NewDefinition, Queue, ReplayedQueue, Settings};
use millrace_journal::record::RECORD_HEADER_BYTES;
use millrace_journal::{GroupCommit, Purpose, Reservation, Ticket};

use crate::append::{append_one, journal_records};
use crate::broker::Broker;
use crate::error::BrokerError;
use crate::figures::QueueTotals;
use crate::queue::{SharedQueue, State};
use sources::DeadLetterSources;

pub(crate) struct Catalog {
    /// One change of the set of queues at a time.
    changes: Mutex<Changes>,
    maps: RwLock<Maps>,
}

pub(crate) struct Changes {
    next_id: u64,
}

#[derive(Default)]
struct Maps {
    by_key: BTreeMap<QueueKey, Arc<SharedQueue>>,
    by_id: HashMap<QueueId, Arc<SharedQueue>>,
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
    /// Journals the definitions that are in no record yet. What finds no room is written by the
    /// first maintenance that moves definitions.
    pub(crate) fn new(
        log: &GroupCommit,
        first_id: u64,
        replayed: Vec<ReplayedQueue>,
    ) -> Result<Catalog, BrokerError> {
        let mut maps = Maps::default();
        for ReplayedQueue { definition, position, queue } in replayed {
            let position = match position {
                Some(position) => position,
                None => {
                    let mut records = Records::default();
                    new_definition(&definition)?.write(&mut records);
                    append_one(log, Purpose::Store, &records).map_or(0, |(_, position)| position)
                }
            };
            maps.insert(Arc::new(SharedQueue::new(queue, definition, position)));
        }
        Ok(Catalog { changes: Mutex::new(Changes { next_id: first_id }), maps: RwLock::new(maps) })
    }

    pub(crate) fn get(&self, key: &QueueKey) -> Option<Arc<SharedQueue>> {
        self.maps().by_key.get(key).cloned()
    }

    pub(crate) fn by_id(&self, id: QueueId) -> Option<Arc<SharedQueue>> {
        self.maps().by_id.get(&id).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<SharedQueue>> {
        self.maps().by_key.values().cloned().collect()
    }

    pub(crate) fn changes(&self) -> MutexGuard<'_, Changes> {
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

    fn remove(&mut self, queue: &SharedQueue, totals: QueueTotals) {
        if !queue.key().is_hidden() {
            self.totals_of_deleted += totals;
        }
        self.dead_letter_sources.forget(queue);
        self.by_parts.remove(queue.key());
        self.by_id.remove(&queue.id());
        self.by_key.remove(queue.key());
    }
}

impl Broker {
    /// The queue of that name.
    pub fn queue(&self, region: &str, account: &str, name: &str) -> Option<Arc<SharedQueue>> {
        self.catalog.maps().by_parts.get(&KeyParts { region, account, name }).cloned()
    }

    /// The queue of that key.
    pub fn queue_by_key(&self, key: &QueueKey) -> Option<Arc<SharedQueue>> {
        self.catalog.get(key)
    }

    /// Every queue that clients can name, by key.
    pub fn queues(&self) -> Vec<Arc<SharedQueue>> {
        self.catalog.maps().named().cloned().collect()
    }

    /// Every queue that clients can name, by key, and what all of those have done that were deleted
    /// since the process started, as of one moment: none is missing, and none is in both.
    pub fn queues_and_totals_of_deleted(&self) -> (Vec<Arc<SharedQueue>>, QueueTotals) {
        let maps = self.catalog.maps();
        (maps.named().cloned().collect(), maps.totals_of_deleted)
    }

    /// Up to `limit` queues of an account and region whose names begin with `prefix`, in order of
    /// name, after the one named `after`.
    pub fn list_queues(
        &self,
        region: &str,
        account: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Vec<Arc<SharedQueue>> {
        let from = match after {
            Some(after) if after >= prefix => {
                Bound::Excluded(QueueKey::new(region, account, after))
            }
            _ => Bound::Included(QueueKey::new(region, account, prefix)),
        };
        let maps = self.catalog.maps();
        let matching = maps.by_key.range((from, Bound::Unbounded)).take_while(|(key, _)| {
            key.region == region && key.account == account && key.name.starts_with(prefix)
        });
        matching.take(limit).map(|(_, queue)| queue.clone()).collect()
    }

    /// Up to `limit` queues whose dead-letter queue is `target`, by key, after the one of the key
    /// `after`.
    pub fn dead_letter_sources(
        &self,
        target: &QueueKey,
        after: Option<&QueueKey>,
        limit: usize,
    ) -> Vec<Arc<SharedQueue>> {
        let maps = self.catalog.maps();
        maps.dead_letter_sources.of(target, after).take(limit).cloned().collect()
    }

    /// Creates a queue unless there is one of that name. Resolves after the commit.
    pub async fn create_queue(&self, new: &NewQueue) -> Result<Creation, BrokerError> {
        let (creation, ticket) = self.begin_create_queue(new)?;
        self.committed(ticket).await?;
        Ok(creation)
    }

    /// Changes memory and appends; what it returns may be told once the ticket is committed.
    pub fn begin_create_queue(
        &self,
        new: &NewQueue,
    ) -> Result<(Creation, Option<Ticket>), BrokerError> {
        let mut changes = self.catalog.changes();
        if let Some(existing) = self.catalog.get(&new.key) {
            let latest = existing.lock().latest;
            return Ok((Creation::Existing(existing), latest));
        }
        let id = QueueId(changes.next_id);
        let mut definition = Definition::new(id, &new.key, new.settings.clone(), self.now());
        definition.attributes.clone_from(&new.attributes);
        definition.tags.clone_from(&new.tags);
        let arn = new.key.to_string();
        let engine = Queue::new(id, &arn, new.settings.clone(), self.first_seq);
        let mut records = Records::default();
        new_definition(&definition)?.write(&mut records);
        let (ticket, position) = append_one(&self.log, Purpose::Store, &records)?;
        let queue = Arc::new(SharedQueue::new(engine, definition, position));
        queue.lock().latest = Some(ticket);
        changes.next_id += 1;
        self.catalog.maps_mut().insert(queue.clone());
        Ok((Creation::Created(queue), Some(ticket)))
    }

    /// Changes a queue's definition in one step with reading it. Resolves after the commit.
    pub async fn update_queue<T, E>(
        &self,
        queue: &SharedQueue,
        change: impl FnOnce(&mut Definition) -> Result<T, E>,
    ) -> Result<Result<T, E>, BrokerError> {
        // A longer retention must not bring back what has expired.
        self.catch_up(queue).await;
        let (value, ticket, redrive_changed) = {
            let mut state = self.lock_up_to_date(queue);
            if state.is_deleted {
                return Err(BrokerError::QueueDoesNotExist);
            }
            let now = self.now();
            self.tick_whole(queue, &mut state, now)?;
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
                let reservation = self.log.reserve(bytes, Purpose::Store)?;
                let mut records = Records::default();
                state.queue.define(&new, now, &mut records);
                let ticket = self.append_definition(&mut state, reservation, &records);
                queue.set_definition(&mut state, definition);
                state.wake(u64::MAX);
                self.arm(queue, &mut state);
                (value, Some(ticket), redrive_changed)
            }
        };
        // The maps are not locked with a queue.
        if redrive_changed {
            self.catalog.redrive_changed(queue.id());
        }
        self.committed(ticket).await?;
        Ok(Ok(value))
    }

    /// Drops all messages of a queue. Resolves after the commit.
    pub async fn purge_queue(&self, queue: &SharedQueue) -> Result<(), BrokerError> {
        let ticket = {
            let mut state = queue.lock();
            if state.is_deleted {
                return Err(BrokerError::QueueDoesNotExist);
            }
            let now = self.now();
            let mut definition = Definition::clone(&queue.definition());
            let last = Timestamp(definition.purged_ms);
            let is_cooling = last.0 > 0 && now < last.plus_seconds(limits::COOL_DOWN_S);
            if self.options.purge_cool_down && is_cooling {
                return Err(BrokerError::PurgeInProgress);
            }
            definition.purged_ms = now.0;
            let new = new_definition(&definition)?;
            let bytes = 2 * RECORD_HEADER_BYTES + PurgedRecord::INDEX_BYTES + new.index_bytes();
            let reservation = self.log.reserve(bytes, Purpose::Reclaim)?;
            let mut records = Records::default();
            self.maintenance.free(state.queue.purge(&mut records));
            new.write(&mut records);
            let ticket = self.append_definition(&mut state, reservation, &records);
            queue.set_definition(&mut state, definition);
            ticket
        };
        self.maintenance.want();
        self.committed(Some(ticket)).await
    }

    /// Deletes a queue and its messages. Resolves after the commit.
    pub async fn delete_queue(&self, queue: &SharedQueue) -> Result<(), BrokerError> {
        let ticket = {
            let _changes = self.catalog.changes();
            let mut state = queue.lock();
            if state.is_deleted {
                return Err(BrokerError::QueueDoesNotExist);
            }
            let bytes = RECORD_HEADER_BYTES + QueueDeletedRecord::INDEX_BYTES;
            let reservation = self.log.reserve(bytes, Purpose::Reclaim)?;
            let mut records = Records::default();
            self.maintenance.free(state.queue.delete_queue(&mut records));
            let records = journal_records(&records);
            let ticket = self.log.append(reservation, &records, &mut Vec::new());
            state.latest = Some(ticket);
            state.is_deleted = true;
            self.timers.disarm_queue(queue.id(), state.armed_at);
            state.waiters.wake_all();
            let totals = state.close_totals(queue);
            drop(state);
            self.catalog.maps_mut().remove(queue, totals);
            ticket
        };
        if let Some(listener) = self.on_delete.get()
            && !queue.key().is_hidden()
        {
            listener(queue);
        }
        self.maintenance.want();
        self.committed(Some(ticket)).await
    }

    /// Messages by state as of now, and when the oldest was sent. While the journal takes no
    /// changes, messages that have expired are counted.
    pub fn count_messages(&self, queue: &SharedQueue) -> (Counts, Option<Timestamp>) {
        let state = self.lock_up_to_date(queue);
        (state.queue.counts(), state.queue.oldest_sent())
    }

    /// Forgets everything (test mode). Resolves after the commit.
    pub async fn reset(&self) -> Result<(), BrokerError> {
        for queue in self.catalog.all() {
            match self.delete_queue(&queue).await {
                Ok(()) | Err(BrokerError::QueueDoesNotExist) => {}
                Err(error) => return Err(error),
            }
        }
        self.move_tasks.forget();
        self.committed(self.forget_kept().map_err(BrokerError::from)?).await
    }

    /// Appends records, the last of which is a definition, and notes where that stands.
    fn append_definition(
        &self,
        state: &mut State,
        reservation: Reservation<'_>,
        records: &Records<'_>,
    ) -> Ticket {
        let mut positions = Vec::new();
        let ticket = self.log.append(reservation, &journal_records(records), &mut positions);
        state.definition_position = positions.last().map_or(0, |position| position.0);
        state.latest = Some(ticket);
        ticket
    }
}

/// The definition, ready to be journaled.
pub(crate) fn new_definition(definition: &Definition) -> Result<NewDefinition<'_>, BrokerError> {
    NewDefinition::new(definition)
        .map_err(|error| BrokerError::Internal(format!("definition: {error}")))
}
