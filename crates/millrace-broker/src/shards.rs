//! The shards of this process, and the threads that serve them all.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use millrace_core::{Clock, ShardId, Timestamp};
use millrace_engine::{Handle, SealedHandle};
use millrace_journal::Unavailable;

use crate::catalog::{Catalog, Creation, NewQueue};
use crate::error::BrokerError;
use crate::maintenance::{PAUSE, Wake, give_back};
use crate::queue::SharedQueue;
use crate::shard::{OpenShard, Process, Shard};
use crate::timers::Due;

/// New queues and kept documents are in this shard.
const HOME: ShardId = ShardId(0);

/// The directory of shards. Each is opened and closed while the others go on.
pub struct Shards {
    process: Process,
    /// By id.
    open: ArcSwap<Vec<Arc<Shard>>>,
    /// One change of `open` at a time.
    changes: Mutex<()>,
    is_draining: AtomicBool,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Shards {
    /// No shards. Nothing runs until [`Shards::spawn_threads`]; simulations call
    /// [`Shards::run_due`] and [`Shards::maintain`].
    pub fn new(clock: Arc<dyn Clock>) -> Arc<Shards> {
        let (catalog, timers, maintenance) = Default::default();
        Arc::new(Shards {
            process: Process { clock, catalog, timers, maintenance },
            open: ArcSwap::default(),
            changes: Mutex::default(),
            is_draining: AtomicBool::new(false),
            threads: Mutex::default(),
        })
    }

    /// A directory with one shard.
    pub fn of_one(clock: Arc<dyn Clock>, open: OpenShard) -> Result<Arc<Shards>, BrokerError> {
        let shards = Shards::new(clock);
        shards.open(open)?;
        Ok(shards)
    }

    /// Opens a shard over a journal. Its queues can be found from now on.
    pub fn open(&self, open: OpenShard) -> Result<Arc<Shard>, BrokerError> {
        let _changes = self.changes();
        if self.shard(open.id).is_some() {
            return Err(BrokerError::Internal(format!("shard {} is open", open.id)));
        }
        let shard = Arc::new(Shard::open(self.process.clone(), open)?);
        if self.is_draining() {
            shard.drain();
        }
        let mut shards = self.all();
        shards.push(shard.clone());
        shards.sort_by_key(|shard| shard.id());
        self.open.store(Arc::new(shards));
        self.process.maintenance.hurry();
        Ok(shard)
    }

    /// Closes a shard and its journal: everything appended is committed on return. Its queues
    /// cannot be found any more.
    pub fn close_shard(&self, id: ShardId) {
        let _changes = self.changes();
        let Some(shard) = self.shard(id) else { return };
        // Until it is closed, so that nobody is told that its queues do not exist who could use them.
        shard.close();
        let others = self.all().into_iter().filter(|other| other.id() != id);
        self.open.store(Arc::new(others.collect()));
        self.catalog().remove_all(&shard.queues());
    }

    /// Starts the threads "timers" and "maintenance".
    pub fn spawn_threads(self: &Arc<Shards>) -> std::io::Result<()> {
        let shards = self.clone();
        let timers = std::thread::Builder::new().name("timers".into()).spawn(move || {
            while shards.process.timers.sleep(|| shards.now()) {
                shards.run_due();
            }
        })?;
        let shards = self.clone();
        let maintenance = std::thread::Builder::new()
            .name("maintenance".into())
            .spawn(move || shards.run_maintenance())?;
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.extend([timers, maintenance]);
        Ok(())
    }

    /// The server's time.
    pub fn now(&self) -> Timestamp {
        self.process.clock.now()
    }

    /// Moves the server's clock forward and does at once what thereby is due (test mode).
    pub fn advance_clock(&self, by: Duration) {
        self.process.clock.advance(by);
        for queue in self.catalog().all() {
            // All that is over, however much: a visit alone would leave some for a second later.
            queue.count_messages();
            queue.visit(self.now());
        }
        self.clock_leapt();
    }

    /// Has the threads look at the clock again, which somebody has moved forward: they sleep until
    /// what they expect would be due by the old one.
    pub fn clock_leapt(&self) {
        self.process.timers.poke();
        self.process.maintenance.hurry();
    }

    /// From now on long polls are answered at once: the server drains.
    pub fn drain(&self) {
        self.is_draining.store(true, Ordering::SeqCst);
        self.all().iter().for_each(|shard| shard.drain());
    }

    /// Returns true once the server is about to stop.
    pub fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::SeqCst)
    }

    /// Ends the threads and closes all journals: everything appended is committed on return. Queues
    /// can still be found, and refuse changes.
    pub fn close(&self) {
        self.drain();
        self.process.timers.close();
        self.process.maintenance.close();
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a broker thread panicked");
            }
        }
        self.all().iter().for_each(|shard| shard.close());
    }

    /// The queues of all shards.
    pub fn catalog(&self) -> &Catalog {
        &self.process.catalog
    }

    /// The open shards, by id.
    pub fn all(&self) -> Vec<Arc<Shard>> {
        Vec::clone(&self.open.load())
    }

    /// The shard of that id, if it is open.
    pub fn shard(&self, id: ShardId) -> Option<Arc<Shard>> {
        self.open.load().iter().find(|shard| shard.id() == id).cloned()
    }

    /// The shard of a queue.
    pub fn shard_of(&self, queue: &SharedQueue) -> Result<Arc<Shard>, BrokerError> {
        self.shard(queue.id().shard()).ok_or(Unavailable::Closed.into())
    }

    /// The shard of new queues and kept documents.
    pub fn home(&self) -> Result<Arc<Shard>, BrokerError> {
        self.shard(HOME).ok_or(Unavailable::Closed.into())
    }

    /// Returns true if every journal takes changes and commits them in time.
    pub fn take_changes(&self) -> bool {
        self.open
            .load()
            .iter()
            .all(|shard| shard.log().ended().is_none() && !shard.log().is_stalled())
    }

    /// Ends waits for commits that take too long, in all journals. Returns the pause before the
    /// next call. Call it from threads that do not wait for a disk.
    pub fn end_overdue_waits(&self) -> Duration {
        let shards = self.open.load();
        shards.iter().for_each(|shard| shard.log().end_overdue_waits());
        shards.iter().map(|shard| shard.log().overdue_pause()).min().unwrap_or(PAUSE)
    }

    /// Creates a queue unless there is one of that name. Resolves after the commit.
    pub async fn create_queue(&self, new: &NewQueue) -> Result<Creation, BrokerError> {
        self.home()?.create_queue(new).await
    }

    /// The handle that this text is, if an open shard sealed it. It may be of any queue.
    pub fn open_receipt_handle(&self, text: &str) -> Option<Handle> {
        let sealed = SealedHandle::parse(text)?;
        let shards = self.open.load();
        let shard = shards.iter().find(|shard| shard.id() == sealed.shard())?;
        sealed.open(shard.receipts())
    }

    /// Gives messages back whose answer was not sent after all, if they are still in flight.
    pub fn give_back_received(&self, handles: &[Handle]) {
        for handles in handles.chunk_by(|one, next| one.queue == next.queue) {
            let of = handles.first().map(|handle| handle.queue);
            if let Some(queue) = of.and_then(|id| self.catalog().queue_by_id(id)) {
                queue.give_back_received(handles);
            }
        }
    }

    /// Forgets everything (test mode). Resolves after the commit.
    pub async fn reset(&self) -> Result<(), BrokerError> {
        for queue in self.catalog().all() {
            match self.catalog().delete_queue(&queue).await {
                Ok(()) | Err(BrokerError::QueueDoesNotExist) => {}
                Err(error) => return Err(error),
            }
        }
        for shard in self.all() {
            shard.forget().await?;
        }
        Ok(())
    }

    /// Visits everything that is due now and returns when something will be next.
    pub fn run_due(&self) -> Timestamp {
        let now = self.now();
        while let Some(due) = self.process.timers.pop(now) {
            match due {
                Due::Waiter(waiter) => waiter.wake(),
                Due::Queue(id) => {
                    if let Some(queue) = self.catalog().queue_by_id(id) {
                        queue.visit(now);
                    }
                }
            }
        }
        self.process.timers.next()
    }

    /// Does a piece of the work behind: of each shard, tasks, then the log. Returns how soon
    /// to come back even if nothing calls.
    pub fn maintain(&self) -> Duration {
        self.process.maintenance.free_unneeded();
        let pauses = self.all().into_iter().map(|shard| shard.maintain());
        pauses.min().unwrap_or(PAUSE)
    }

    /// Does the work behind until closed. Tasks may be due hundreds of times a second; a look
    /// at a log, which goes over all its queues, is not.
    fn run_maintenance(&self) {
        let in_a = |pause: Duration| Instant::now() + pause;
        let mut logs_due: BTreeMap<ShardId, Instant> = BTreeMap::new();
        let mut tasks_due = None;
        let mut freed_at = None;
        loop {
            let given_back_due = freed_at.and_then(|freed_at| give_back(freed_at, Instant::now()));
            if given_back_due.is_none() {
                freed_at = None;
            }
            let due = [tasks_due, given_back_due, logs_due.values().min().copied()];
            let wake = self.process.maintenance.sleep(due.into_iter().flatten().min());
            let shards = self.all();
            match wake {
                Wake::Closed => return,
                // Of shards that are new, too.
                Wake::Urgent => {
                    let now = Instant::now();
                    logs_due = shards.iter().map(|shard| (shard.id(), now)).collect();
                }
                Wake::Wanted => {
                    for shard in shards.iter().filter(|shard| shard.is_maintenance_wanted()) {
                        let due = logs_due.entry(shard.id()).or_insert_with(Instant::now);
                        *due = in_a(PAUSE).min(*due);
                    }
                }
                Wake::Due => {}
            }
            tasks_due = shards.iter().filter_map(|shard| shard.run_tasks()).min().map(in_a);
            for shard in &shards {
                let due = logs_due.entry(shard.id()).or_insert_with(Instant::now);
                if *due <= Instant::now() {
                    if self.process.maintenance.free_unneeded() {
                        freed_at = Some(Instant::now());
                    }
                    *due = in_a(shard.look_after_log());
                }
            }
            logs_due.retain(|id, _| shards.iter().any(|shard| shard.id() == *id));
        }
    }

    fn changes(&self) -> MutexGuard<'_, ()> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
