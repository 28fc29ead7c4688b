//! The broker as a whole: how it opens, its clock, its threads and its end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use millrace_core::{Clock, QueueId, Timestamp, limits};
use millrace_engine::record::{Records, SecretRecord};
use millrace_engine::{Finished, ReceiptKey};
use millrace_journal::{GroupCommit, Position, Purpose, Ticket};

use crate::append::append_one;
use crate::catalog::Catalog;
use crate::commit::Commits;
use crate::error::BrokerError;
use crate::holds::{Hold, Holds};
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
    pub(crate) commits: Arc<Commits>,
    pub(crate) timers: Timers,
    pub(crate) receipts: ReceiptKey,
    pub(crate) kept: Kept,
    pub(crate) move_tasks: MoveTasks,
    pub(crate) maintenance: Maintenance,
    pub(crate) holds: Arc<Holds>,
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
                let mut records = Records::default();
                SecretRecord { secret }.write(&mut records);
                let (_, position) = append_one(&log, Purpose::Store, &records)?;
                (secret, position)
            }
        };
        let move_tasks = MoveTasks::new(&replayed.kept, clock.now())?;
        let broker = Broker {
            catalog: Catalog::new(&log, first_id, replayed.queues)?,
            commits: Commits::new(log.clone()),
            timers: Timers::default(),
            receipts: ReceiptKey::new(secret.0),
            kept: Kept::new(replayed.kept),
            move_tasks,
            maintenance: Maintenance::new(secret),
            holds: Arc::default(),
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
        let poisoned = Arc::downgrade(&broker);
        broker.log.on_commit(Box::new(move || {
            // Whatever comes, long polls would be refused it: that they learn now.
            if let Some(broker) = poisoned.upgrade()
                && broker.log.poison().is_some()
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
        self.commits.close();
    }

    /// The journal's state and figures, for health and metrics.
    pub fn log(&self) -> &GroupCommit {
        &self.log
    }

    /// Keeps all records from `position` on in the journal for as long as the hold is there. What
    /// is before the first hold may be gone.
    pub fn hold_from(&self, position: Position) -> Hold {
        self.holds.hold_from(position)
    }

    /// Resolves when the ticket is committed. Cancel safe.
    pub async fn committed(&self, ticket: Option<Ticket>) -> Result<(), BrokerError> {
        match ticket {
            Some(ticket) => Ok(self.commits.wait(ticket).await?),
            None => Ok(()),
        }
    }

    /// The queue of that id.
    pub fn queue_by_id(&self, id: QueueId) -> Option<Arc<SharedQueue>> {
        self.catalog.by_id(id)
    }
}
