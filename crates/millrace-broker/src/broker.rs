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
use crate::kept::Kept;
use crate::maintenance::Maintenance;
use crate::move_task::MoveTasks;
use crate::queue::SharedQueue;
use crate::timers::Timers;

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
            purge_cool_down: false,
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
    pub(crate) kept: Kept,
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
        let move_tasks = MoveTasks::new(&replayed.kept, clock.now())?;
        let broker = Broker {
            catalog: Catalog::new(&log, first_id, replayed.queues)?,
            commits: Arc::default(),
            timers: Timers::default(),
            receipts: ReceiptKey::new(secret.0),
            kept: Kept::new(replayed.kept),
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
            if log.ended().is_some()
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

    /// Sequences of queues begin at this in the epoch that is open: for
    /// [`millrace_engine::Replay`].
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
        self.clock_leapt();
    }

    /// Has the threads look at the clock again, which somebody has moved forward: they sleep until
    /// what they expect would be due by the old one.
    pub fn clock_leapt(&self) {
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

    /// Returns true once the server is about to stop.
    pub fn is_draining(&self) -> bool {
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
    pub async fn committed(&self, ticket: Option<Ticket>) -> Result<(), BrokerError> {
        match ticket {
            Some(ticket) => Ok(self.commits.wait(&self.log, ticket).await?),
            None => Ok(()),
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
