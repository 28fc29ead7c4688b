//! One queue as many connections share it.

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use millrace_core::{QueueId, QueueKey, Timestamp, limits};
use millrace_engine::record::{PurgedRecord, Records};
use millrace_engine::{Counts, Definition, Delivery, Handle, Kind, NewDefinition, Queue};
use millrace_journal::record::RECORD_HEADER_BYTES;
use millrace_journal::{Purpose, Reservation, Ticket};

use crate::append::journal_records;
use crate::browse::Browser;
use crate::common::Common;
use crate::error::BrokerError;
use crate::figures::{Counters, QueueTotals, Sends};
use crate::waiter::Waiters;

/// How long who locks a queue again and again leaves it to others: some times what one that waits
/// takes to wake up.
const LEFT_TO_OTHERS: Duration = Duration::from_micros(100);

/// A queue behind its short lock. Kept alive by those who use it; a deleted queue refuses them.
pub struct SharedQueue {
    pub(crate) common: Arc<Common>,
    id: QueueId,
    key: QueueKey,
    arn: String,
    kind: Kind,
    /// Stored under the lock, loaded without it.
    definition: ArcSwap<Definition>,
    derived: ArcSwapOption<Derived>,
    state: Mutex<State>,
    /// Threads that wait for the lock.
    waiting: AtomicU32,
    pub(crate) counters: Counters,
}

/// A value that a floor above derived from a definition, such as a parsed policy.
#[derive(Debug)]
struct Derived {
    definition: Arc<Definition>,
    value: Arc<dyn Any + Send + Sync>,
}

#[derive(Debug)]
pub(crate) struct State {
    pub queue: Queue,
    /// Where the definition's record stands in the journal.
    pub definition_position: u64,
    pub waiters: Waiters,
    /// When the timers next visit the queue.
    pub armed_at: Timestamp,
    /// Ticket of the latest change: whoever repeats a change waits for the one it repeats.
    pub latest: Option<Ticket>,
    /// Ticket of the latest move of messages to this queue, until it is known to be committed.
    pub moved_in: Option<Ticket>,
    pub is_deleted: bool,
    pub sends: Sends,
    /// A deleted queue's totals at its end: what is counted later is not reported.
    pub last_totals: Option<Box<QueueTotals>>,
}

impl State {
    /// Wakes as many long polls as could receive something now, but at most so many.
    pub(crate) fn wake(&mut self, at_most: u64) {
        if !self.waiters.is_empty() {
            let at_most = at_most.min(self.waiters.len() as u64);
            self.waiters.wake(self.queue.receivable(at_most));
        }
    }
}

impl SharedQueue {
    pub(crate) fn new(
        common: Arc<Common>,
        queue: Queue,
        definition: Definition,
        definition_position: u64,
    ) -> Self {
        let key = definition.key();
        SharedQueue {
            common,
            id: queue.id(),
            arn: key.to_string(),
            key,
            kind: definition.settings.kind,
            definition: ArcSwap::from_pointee(definition),
            derived: ArcSwapOption::empty(),
            state: Mutex::new(State {
                queue,
                definition_position,
                waiters: Waiters::default(),
                armed_at: Timestamp::NEVER,
                latest: None,
                moved_in: None,
                is_deleted: false,
                sends: Sends::default(),
                last_totals: None,
            }),
            waiting: AtomicU32::new(0),
            counters: Counters::default(),
        }
    }

    /// Takes the lock. A panic inside it is our bug and may have left half a change; what is
    /// journaled is sound, so the process ends and recovers from there.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::WouldBlock) => self.wait_for_lock(),
            Err(TryLockError::Poisoned(_)) => self.abort(),
        }
    }

    #[cold]
    fn wait_for_lock(&self) -> MutexGuard<'_, State> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let state = self.state.lock().unwrap_or_else(|_| self.abort());
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        state
    }

    /// To be called, without the lock, by who will take it again at once: a lock that was given up
    /// is free to be taken before one that waits has woken up, so they would wait until all is
    /// done.
    pub(crate) fn let_others_in(&self) {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            std::thread::sleep(LEFT_TO_OTHERS);
        }
    }

    fn abort(&self) -> ! {
        tracing::error!(queue = %self.key, "a change to the queue panicked");
        std::process::abort()
    }

    /// This incarnation.
    pub fn id(&self) -> QueueId {
        self.id
    }

    pub fn key(&self) -> &QueueKey {
        &self.key
    }

    /// `arn:<partition>:sqs:<region>:<account>:<name>`.
    pub fn arn(&self) -> &str {
        &self.arn
    }

    /// The queue's definition as it is now.
    pub fn definition(&self) -> Arc<Definition> {
        self.definition.load_full()
    }

    /// Returns what `derive` makes of the definition, and keeps it until the definition changes. Only
    /// one value is kept, so all callers should ask for the same type.
    pub fn derived<T: Any + Send + Sync>(&self, derive: impl FnOnce(&Definition) -> T) -> Arc<T> {
        let definition = self.definition();
        let known = self.derived.load();
        let known = known.as_ref().filter(|known| Arc::ptr_eq(&known.definition, &definition));
        let known = known.map(|known| known.value.clone().downcast());
        if let Some(Ok(value)) = known {
            return value;
        }
        let value = Arc::new(derive(&definition));
        self.derived.store(Some(Arc::new(Derived { definition, value: value.clone() })));
        value
    }

    /// Standard or FIFO, which never changes.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns true once the queue is deleted, even while it can still be found.
    pub fn is_deleted(&self) -> bool {
        self.lock().is_deleted
    }

    /// Panics if the queue's inner state disagrees with itself. Reads every message: for
    /// simulations.
    pub fn assert_consistent(&self) {
        self.lock().queue.assert_consistent();
    }

    /// Changes the definition, as the holder of the lock.
    pub(crate) fn set_definition(&self, state: &mut State, definition: Definition) {
        assert_eq!(state.queue.id(), self.id, "state of another queue");
        self.definition.store(Arc::new(definition));
        self.derived.store(None);
    }

    /// Messages by state, as of the last command or timer.
    pub fn counts(&self) -> Counts {
        self.lock().queue.counts()
    }

    /// Messages by state as of now, and when the oldest was sent. While the journal takes no
    /// changes, messages that have expired are counted.
    pub fn count_messages(&self) -> (Counts, Option<Timestamp>) {
        let state = self.lock_up_to_date();
        (state.queue.counts(), state.queue.oldest_sent())
    }

    /// Looks at messages without receiving them.
    pub fn browser(&self) -> Browser<'_> {
        Browser(self)
    }

    /// The sealed receipt handle of a delivery.
    pub fn receipt_handle(&self, delivery: &Delivery) -> String {
        self.common.receipts.seal(&Handle {
            queue: self.id,
            seq: delivery.at.seq,
            slot: delivery.at.slot,
            receive_count: delivery.receive_count,
        })
    }

    /// Drops all messages, as SQS does: once a minute at the most. Resolves after the commit.
    pub async fn purge(&self) -> Result<(), BrokerError> {
        self.drop_all(self.common.options.purge_cool_down).await
    }

    /// Drops all messages, whenever. Resolves after the commit.
    pub async fn clear(&self) -> Result<(), BrokerError> {
        self.drop_all(false).await
    }

    async fn drop_all(&self, has_cool_down: bool) -> Result<(), BrokerError> {
        let ticket = {
            let mut state = self.lock();
            if state.is_deleted {
                return Err(BrokerError::QueueDoesNotExist);
            }
            let now = self.common.now();
            let mut definition = Definition::clone(&self.definition());
            let last = Timestamp(definition.purged_ms);
            let is_cooling = last.0 > 0 && now < last.plus_seconds(limits::COOL_DOWN_S);
            if has_cool_down && is_cooling {
                return Err(BrokerError::PurgeInProgress);
            }
            definition.purged_ms = now.0;
            let new = new_definition(&definition, &state.queue)?;
            let bytes = 2 * RECORD_HEADER_BYTES + PurgedRecord::INDEX_BYTES + new.index_bytes();
            let reservation = self.common.log.reserve(bytes, Purpose::Reclaim)?;
            let mut records = Records::default();
            self.common.free(state.queue.purge(&mut records));
            new.write(&mut records);
            let ticket = self.append_definition(&mut state, reservation, &records);
            self.set_definition(&mut state, definition);
            ticket
        };
        self.common.want_maintenance();
        self.committed(Some(ticket)).await
    }

    /// Resolves when the ticket, which a change of this queue gave, is committed. Cancel safe.
    pub async fn committed(&self, ticket: Option<Ticket>) -> Result<(), BrokerError> {
        self.common.committed(ticket).await
    }

    /// Appends records, the last of which is a definition, and notes where that stands.
    pub(crate) fn append_definition(
        &self,
        state: &mut State,
        reservation: Reservation<'_>,
        records: &Records<'_>,
    ) -> Ticket {
        let mut positions = Vec::new();
        let records = journal_records(records);
        let ticket = self.common.log.append(reservation, &records, &mut positions);
        state.definition_position = positions.last().map_or(0, |position| position.0);
        state.latest = Some(ticket);
        ticket
    }
}

impl fmt::Debug for SharedQueue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SharedQueue").field("key", &self.key).finish_non_exhaustive()
    }
}

/// The definition of a queue, ready to be journaled.
pub(crate) fn new_definition<'d>(
    definition: &'d Definition,
    queue: &Queue,
) -> Result<NewDefinition<'d>, BrokerError> {
    NewDefinition::new(definition, queue.sent_total())
        .map_err(|error| BrokerError::Internal(format!("definition: {error}")))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::time::Instant;

    use millrace_engine::Settings;

    use super::*;

    /// What a step takes under the lock.
    const STEP: Duration = Duration::from_micros(50);

    #[test]
    fn what_is_derived_is_kept_until_the_definition_changes() {
        let (_log, shards) = crate::testing::open(1 << 20);
        let queue = crate::testing::create(&shards, "jobs", Settings::default());
        let policy = |definition: &Definition| definition.attributes.get("Policy").cloned();

        assert_eq!(*queue.derived(policy), None);
        assert_eq!(*queue.derived(|_| -> Option<String> { unreachable!("it is known") }), None);

        let mut definition = Definition::clone(&queue.definition());
        definition.attributes.insert("Policy".to_owned(), "{}".to_owned());
        queue.set_definition(&mut queue.lock(), definition);
        assert_eq!(queue.derived(policy).as_deref(), Some("{}"));
        assert_eq!(*queue.derived(|_| 1), 1, "of another type");
    }

    /// How many steps one who locks again and again gets done before another, who waits, is in.
    fn steps_before_another() -> u32 {
        let (_log, shards) = crate::testing::open(1 << 20);
        let queue = crate::testing::create(&shards, "jobs", Settings::default());
        let is_in = AtomicBool::new(false);

        std::thread::scope(|scope| {
            let first = queue.lock();
            scope.spawn(|| {
                let _state = queue.lock();
                is_in.store(true, Ordering::Relaxed);
            });
            while queue.waiting.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            std::thread::sleep(STEP);
            drop(first);
            let mut steps = 0;
            while !is_in.load(Ordering::Relaxed) {
                queue.let_others_in();
                let _state = queue.lock();
                let begun = Instant::now();
                while begun.elapsed() < STEP {}
                steps += 1;
            }
            steps
        })
    }

    /// Once in some times, as other tests may keep the other from running; without being let in it
    /// is some hundred steps each time.
    #[test]
    fn who_locks_again_and_again_lets_others_in_between() {
        let least = (0..5).map(|_| steps_before_another()).min();

        assert!(least < Some(50), "{least:?}");
    }
}
