//! The broker as a whole: how it opens, its clock, its threads and its end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use millrace_core::{Clock, QueueId, Timestamp, limits};
use millrace_engine::{Finished, ReceiptKey, record};
use millrace_journal::{GroupCommit, Purpose, Record, Ticket, Unavailable};

use crate::catalog::Catalog;
use crate::commit::CommitWaits;
use crate::error::BrokerError;
use crate::maintenance::Maintenance;
use crate::move_task::MoveTasks;
use crate::queue::{SharedQueue, State};
use crate::timers::{Due, Timers};

/// Ends of delays, visibility timeouts and lives that whoever comes for them handles at a time,
/// before others may have the queue.
pub(crate) const VISIT_BUDGET: usize = 1_000;
/// The same for whoever comes for something else, such as a receive: its client is waiting.
pub(crate) const PASSING_BUDGET: usize = 256;
/// A queue that nobody waits for is visited at most this often.
const UNWATCHED_VISIT_MS: u64 = 1_000;
/// Until a queue is visited again whose expired messages the journal had no room to tell of.
const REFUSED_VISIT_MS: u64 = 1_000;
/// The same if somebody waits and only too much waits for its commit, which is over soon.
const BACKLOG_VISIT_MS: u64 = 5;
/// Messages that expire by one record, and what that takes: 12 bytes each, and headers.
const EXPIRED_AT_A_TIME: usize = 256;
const EXPIRY_BYTES: usize = 64 + 12 * EXPIRED_AT_A_TIME;
/// Queue ids of one epoch; sequences of one epoch.
const EPOCH_SHIFT: u32 = 40;

/// What the broker may decide.
#[derive(Clone, Debug)]
pub struct Options {
    /// Messages of one queue that may be in flight.
    pub in_flight_limit: u64,
    /// Whether a queue may be purged only once in 60 seconds.
    pub purge_cool_down: bool,
    /// Log bytes beyond twice the live bytes before stragglers are moved out of old segments.
    pub slack_bytes: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            in_flight_limit: limits::IN_FLIGHT,
            purge_cool_down: true,
            slack_bytes: 160 << 20,
        }
    }
}

/// A source of unguessable bits.
pub type Random = Box<dyn FnMut() -> u128 + Send>;

/// Told of a queue that was just deleted, while nobody can find it any more.
pub type OnDelete = Box<dyn Fn(&SharedQueue) + Send + Sync>;

/// Queues by name over one journal.
pub struct Broker {
    pub(crate) log: Arc<GroupCommit>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) options: Options,
    pub(crate) catalog: Catalog,
    pub(crate) commits: Arc<CommitWaits>,
    pub(crate) timers: Timers,
    pub(crate) receipts: ReceiptKey,
    pub(crate) move_tasks: MoveTasks,
    pub(crate) maintenance: Maintenance,
    /// Sequences of this run begin here, above all of earlier runs.
    pub(crate) first_seq: u64,
    pub(crate) random: Mutex<Random>,
    is_draining: AtomicBool,
    threads: Mutex<Vec<JoinHandle<()>>>,
    pub(crate) on_delete: OnceLock<OnDelete>,
}

impl Broker {
    /// A broker over an opened journal whose records were replayed into `replayed`. `random` gives
    /// unguessable bits for message ids and, if the journal holds none yet, the secret that seals
    /// receipt handles. Nothing runs until
    /// [`Broker::spawn_threads`]; simulations call [`Broker::run_due`] and [`Broker::maintain`].
    pub fn new(
        log: Arc<GroupCommit>,
        clock: Arc<dyn Clock>,
        options: Options,
        replayed: Finished,
        mut random: Random,
    ) -> Result<Arc<Broker>, BrokerError> {
        let epoch = log.opened().epoch.0;
        let first_id = (epoch << EPOCH_SHIFT).max(replayed.highest_queue + 1);
        let secret = match replayed.secret {
            Some((known, position)) => (known, position),
            None => {
                let secret = random().to_le_bytes();
                let mut index = Vec::new();
                record::secret(&mut index, &secret);
                let (_, position) = append_index(&log, Purpose::Store, &index)?;
                (secret, position)
            }
        };
        let move_tasks = MoveTasks::new(replayed.tasks, clock.now())?;
        let broker = Broker {
            catalog: Catalog::new(&log, first_id, replayed.queues)?,
            commits: Arc::default(),
            timers: Timers::default(),
            receipts: ReceiptKey::new(secret.0),
            move_tasks,
            maintenance: Maintenance::new(secret),
            first_seq: epoch << EPOCH_SHIFT,
            is_draining: AtomicBool::new(false),
            threads: Mutex::default(),
            on_delete: OnceLock::new(),
            random: Mutex::new(random),
            log,
            clock,
            options,
        };
        let broker = Arc::new(broker);
        let (commits, log) = (broker.commits.clone(), Arc::downgrade(&broker.log));
        let poisoned = Arc::downgrade(&broker);
        broker.log.on_commit(Box::new(move || {
            let Some(log) = log.upgrade() else { return };
            commits.committed(&log);
            // Whatever comes, long polls would be refused it: that they learn now.
            if log.poison().is_some()
                && let Some(broker) = poisoned.upgrade()
            {
                broker.wake_long_polls();
            }
        }));
        for queue in broker.catalog.all() {
            broker.arm(&queue, &mut queue.lock());
        }
        Ok(broker)
    }

    /// Sequences of queues begin at this in the epoch that is open: for [`millrace_engine::Replay`].
    pub fn first_seq(epoch: u64) -> u64 {
        epoch << EPOCH_SHIFT
    }

    /// Starts the threads "timers" and "maintenance".
    pub fn spawn_threads(self: &Arc<Broker>) -> std::io::Result<()> {
        let broker = self.clone();
        let timers = std::thread::Builder::new().name("timers".into()).spawn(move || {
            while broker.timers.sleep(|| broker.now()) {
                broker.run_due();
            }
        })?;
        let broker = self.clone();
        let maintenance = std::thread::Builder::new()
            .name("maintenance".into())
            .spawn(move || broker.run_maintenance())?;
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.extend([timers, maintenance]);
        Ok(())
    }

    /// A future to be run by each single-threaded runtime whose tasks call the broker: it commits,
    /// and wakes those that wait for commits. Never resolves. Without it they are woken one by one.
    /// `pause` is to resolve when the runtime has looked for whatever else is ready.
    pub fn commit_driver<P: Future<Output = ()> + Send + 'static>(
        &self,
        pause: impl Fn() -> P + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static {
        self.commits.driver(self.log.clone(), pause)
    }

    /// Visits everything that is due now and returns when something will be next.
    pub fn run_due(&self) -> Timestamp {
        let now = self.now();
        while let Some(due) = self.timers.pop(now) {
            match due {
                Due::Waiter(waiter) => waiter.wake(),
                Due::Queue(id) => {
                    if let Some(queue) = self.catalog.by_id(id) {
                        self.visit(&queue, now);
                    }
                }
            }
        }
        self.timers.next()
    }

    /// Has `listener` told of each queue that is deleted: its last figures would be lost with it.
    /// The first listener stays.
    pub fn on_delete(&self, listener: OnDelete) {
        let _ = self.on_delete.set(listener);
    }

    /// The server's time.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Moves the server's clock forward and does at once what thereby is due (test mode).
    pub fn advance_clock(&self, by: Duration) {
        self.clock.advance(by);
        for queue in self.catalog.all() {
            // All that is over, however much: a visit alone would leave some for a second later.
            self.count_messages(&queue);
            self.visit(&queue, self.now());
        }
        self.timers.poke();
        self.maintenance.hurry();
    }

    /// From now on long polls are answered at once: the server drains.
    pub fn drain(&self) {
        self.is_draining.store(true, Ordering::SeqCst);
        self.wake_long_polls();
    }

    fn wake_long_polls(&self) {
        for queue in self.catalog.all() {
            queue.lock().waiters.wake_all();
        }
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::SeqCst)
    }

    /// Ends the threads and closes the journal: everything appended is committed on return.
    pub fn close(&self) {
        self.drain();
        self.timers.close();
        self.maintenance.close();
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a broker thread panicked");
            }
        }
        self.log.close();
    }

    /// The journal's state and figures, for health and metrics.
    pub fn log(&self) -> &GroupCommit {
        &self.log
    }

    /// Resolves when the ticket is committed. Cancel safe.
    pub(crate) async fn committed(&self, ticket: Option<Ticket>) -> Result<(), BrokerError> {
        match ticket {
            Some(ticket) => Ok(self.commits.wait(&self.log, ticket).await?),
            None => Ok(()),
        }
    }

    /// Ends delays, visibility timeouts and lives that are over, and wakes those who wait.
    fn visit(&self, queue: &SharedQueue, now: Timestamp) {
        let mut state = queue.lock();
        state.armed_at = Timestamp::NEVER;
        if let Err(error) = self.tick(queue, &mut state, now, VISIT_BUDGET) {
            tracing::debug!(queue = %queue.key(), %error, "expiry has to wait");
            // Who waits for a message would be refused, too.
            let is_over_soon =
                matches!(error, Unavailable::Backlog { .. }) && !state.waiters.is_empty();
            let wait_ms = if is_over_soon { BACKLOG_VISIT_MS } else { REFUSED_VISIT_MS };
            let again_at = now.plus_millis(wait_ms);
            self.timers.arm_queue(queue.id(), again_at, state.armed_at);
            state.armed_at = again_at;
            return;
        }
        state.wake(u64::MAX);
        self.arm(queue, &mut state);
    }

    /// Ticks the queue, drops what expired and journals that. If the journal refuses, the expired
    /// messages stay: memory never runs ahead of what a restart would show. They must not be
    /// delivered, so receiving fails with the same error.
    pub(crate) fn tick(
        &self,
        queue: &SharedQueue,
        state: &mut State,
        now: Timestamp,
        budget: usize,
    ) -> Result<(), Unavailable> {
        state.queue.tick(now, budget);
        if !state.queue.has_expired(now) {
            return Ok(());
        }
        let reservation = self.log.reserve(EXPIRY_BYTES, Purpose::Reclaim)?;
        let expired = state.queue.expire(now, budget.min(EXPIRED_AT_A_TIME));
        crate::figures::Counters::add(&queue.counters.messages_expired, expired.len());
        let mut index = Vec::with_capacity(32 + 12 * expired.len());
        record::deleted(&mut index, queue.id(), expired.into_iter());
        let record = Record { index: &index, payload: &[] };
        state.latest = Some(self.log.append(reservation, &[record], &mut Vec::new()));
        self.maintenance.want();
        Ok(())
    }

    /// As [`Broker::tick`], however much has expired.
    pub(crate) fn tick_whole(
        &self,
        queue: &SharedQueue,
        state: &mut State,
        now: Timestamp,
    ) -> Result<(), Unavailable> {
        loop {
            self.tick(queue, state, now, VISIT_BUDGET)?;
            if !state.queue.has_expired(now) {
                return Ok(());
            }
        }
    }

    /// Sees to it that the timers visit the queue when it next has something to do.
    pub(crate) fn arm(&self, queue: &SharedQueue, state: &mut State) {
        if state.is_deleted {
            return;
        }
        let next = state.queue.next_deadline();
        if next >= state.armed_at {
            return;
        }
        let now = self.now();
        let at = if next <= now {
            // More is due than one visit does; others that are due come first.
            now.plus_millis(1)
        } else if state.waiters.is_empty() {
            next.max(now.plus_millis(UNWATCHED_VISIT_MS))
        } else {
            next
        };
        if at < state.armed_at {
            self.timers.arm_queue(queue.id(), at, state.armed_at);
            state.armed_at = at;
        }
    }

    /// The queue of that id.
    pub fn queue_by_id(&self, id: QueueId) -> Option<Arc<SharedQueue>> {
        self.catalog.by_id(id)
    }
}

/// Appends one record without a payload; returns also its position.
pub(crate) fn append_index(
    log: &GroupCommit,
    purpose: Purpose,
    index: &[u8],
) -> Result<(Ticket, u64), Unavailable> {
    let record = Record { index, payload: &[] };
    let reservation = log.reserve(record.encoded_bytes(), purpose)?;
    let mut positions = Vec::new();
    let ticket = log.append(reservation, &[record], &mut positions);
    Ok((ticket, positions.first().map_or(0, |position| position.0)))
}
