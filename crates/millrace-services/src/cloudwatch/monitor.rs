//! The threads that work on metrics, so that no request of another service waits for the disk.
//!
//! The thread "metrics" closes each minute and does what changes something; the threads
//! "metrics-read" answer clients and evaluate alarms, one job of an account at a time; the thread
//! "scrape" answers those who scrape, who wait for no client. A job whose client leaves is not run
//! any more, and ends soon if it runs.
//!
//! A panic is our bug and costs the request or the step that it is in. The threads go on: files
//! and the journal hold whole changes, and what is in memory is read from them or gathered anew.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use millrace_broker::{QueueTotals, Shards, SharedQueue, Ticket};
use millrace_core::Timestamp;
use millrace_metrics::alarm::{Owed, State};
use millrace_metrics::{Interrupt, MetricStore, StoreError};
use millrace_wire::ApiError;
use tokio::sync::oneshot;

use super::act::{Actions, QueueAccess, Topics};
use super::alarms::{SharedBook, lock};
use super::book::AlarmBook;
use super::error;
use super::jobs::{JOB_BYTES, Jobs};
use super::measured::Measured;
use super::queues::QueueMetrics;
use super::rounds::Rounds;
use super::topics::TopicMetrics;
use super::writer::Writer;
use crate::sns::TopicTallies;

/// Threads that answer clients: while the jobs of one account keep one busy, others have another.
const READERS: usize = 2;
const READER_NICENESS: i32 = 5;
/// Scrapes that may wait; beyond, they are told to come back.
const SCRAPES_WAITING: usize = 16;

/// Twice what expressions of metric math take that are nested as deep as may be.
const STACK_BYTES: usize = 4 << 20;

/// Account of what the server itself asks for, which is none of a client.
const OWN: &str = "";

/// What a job wants to happen after it has run.
pub(super) enum After {
    Nothing,
    /// To be told whether what it recorded is durable.
    Sync(Box<dyn FnOnce(bool) + Send>),
}

/// A job of the thread "metrics".
pub(super) enum Write {
    Job(Box<dyn FnOnce() -> After + Send>),
    /// Look at the clock now.
    Tick(oneshot::Sender<()>),
}

/// A job of a thread "metrics-read".
pub(super) enum Read {
    OfClient(Box<dyn FnOnce() + Send>),
    Own(Box<dyn FnOnce() + Send>),
}

type Scrape = Box<dyn FnOnce() + Send>;

/// Why a job was not done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MonitorError {
    #[error("too many requests about metrics wait")]
    Busy,
    #[error("the threads of metrics have ended")]
    Closed,
    #[error("a bug ended the request")]
    Panicked,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The store of metrics and the threads that work on it.
pub struct Monitor {
    shared: Arc<Shared>,
    writes: Arc<Jobs<Write>>,
    threads: Mutex<Threads>,
    scrapes: Mutex<Option<SyncSender<Scrape>>>,
    /// As it was when the alarms were last looked at.
    alarms_by_state: Mutex<[u64; 3]>,
    /// Likewise, those in alarm by account.
    in_alarm: Mutex<Arc<BTreeMap<String, u64>>>,
}

#[derive(Default)]
struct Threads {
    writer: Option<JoinHandle<()>>,
    others: Vec<JoinHandle<()>>,
}

/// What the threads share.
pub(super) struct Shared {
    pub store: Arc<MetricStore>,
    pub queues: Arc<QueueMetrics>,
    pub topics: Arc<TopicMetrics>,
    pub actions: Actions,
    pub reads: Arc<Jobs<Read>>,
    pub rounds: Rounds,
}

impl Monitor {
    /// Lets alarms publish to topics. The first call counts.
    pub(crate) fn publish_to(&self, topics: Arc<dyn Topics>) {
        let _ = self.shared.actions.topics.set(topics);
    }

    /// Gathers the metrics of these topics, too. The first call counts.
    pub(crate) fn watch(&self, topics: TopicTallies) {
        self.shared.topics.watch(topics);
    }

    /// Starts the threads, which gather the metrics of the broker's queues into `store` and
    /// evaluate the alarms that the broker keeps.
    pub fn start(
        shards: Arc<Shards>,
        store: Arc<MetricStore>,
        queue_access: QueueAccess,
    ) -> std::io::Result<Monitor> {
        let (queues, topics) = (QueueMetrics::new(shards.clone()), Arc::<TopicMetrics>::default());
        let measured = Measured { queues: queues.clone(), topics: topics.clone() };
        store.set_source(Arc::new(measured), shards.now());
        let waiting_bytes = store.memory_limits().waiting_bytes;
        let home = shards.home().map_err(std::io::Error::other)?;
        let book: SharedBook = Arc::new(Mutex::new(AlarmBook::open(home)));
        let shared = Arc::new(Shared {
            store,
            queues,
            topics,
            actions: Actions { shards, book, queue_access, topics: Arc::default() },
            reads: Arc::new(Jobs::new(waiting_bytes)),
            rounds: Rounds::default(),
        });
        let writes = Arc::new(Jobs::new(waiting_bytes));
        let (scrapes, waiting) = sync_channel(SCRAPES_WAITING);
        let monitor = Monitor {
            shared,
            writes,
            threads: Mutex::default(),
            scrapes: Mutex::new(Some(scrapes)),
            alarms_by_state: Mutex::default(),
            in_alarm: Mutex::default(),
        };
        // If one is refused, those before it end.
        monitor.start_threads(waiting).inspect_err(|_| monitor.close())?;
        Ok(monitor)
    }

    fn start_threads(&self, scrapes: Receiver<Scrape>) -> std::io::Result<()> {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let thread =
            |name: &str| std::thread::Builder::new().name(name.to_owned()).stack_size(STACK_BYTES);
        for _ in 0..READERS {
            let reads = self.shared.reads.clone();
            threads.others.push(thread("metrics-read").spawn(move || run_reads(&reads))?);
        }
        threads.others.push(thread("scrape").spawn(move || scrapes.into_iter().for_each(|s| s()))?);
        let writer = Writer::new(self.shared.clone(), self.writes.clone());
        threads.writer = Some(thread("metrics").spawn(|| writer.run())?);
        Ok(())
    }

    /// The store, for those who may wait for the disk.
    pub fn store(&self) -> &Arc<MetricStore> {
        &self.shared.store
    }

    /// How many alarms are in each state; a moment ago, while they are being changed.
    pub(crate) fn alarms_by_state(&self) -> [(&'static str, u64); 3] {
        let mut known = self.alarms_by_state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(book) = self.alarms().try_lock() {
            *known = State::ALL
                .map(|state| book.all().filter(|alarm| alarm.state == state).count() as u64);
        }
        let mut counts = known.iter();
        State::ALL.map(|state| (state.name(), counts.next().copied().unwrap_or_default()))
    }

    /// What a queue had done a minute or two ago, and when that was: what it did since then says
    /// how fast it goes.
    pub(crate) fn earlier(&self, queue: &SharedQueue) -> (QueueTotals, Timestamp) {
        self.shared.queues.earlier(queue)
    }

    /// How many alarms of each account are in alarm; a moment ago, while they are being changed.
    pub(crate) fn in_alarm(&self) -> Arc<BTreeMap<String, u64>> {
        let mut known = self.in_alarm.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(book) = self.alarms().try_lock() {
            let mut counts = BTreeMap::new();
            for alarm in book.all().filter(|alarm| alarm.state == State::Alarm) {
                let account = alarm.scope.account.clone();
                *counts.entry(account).or_default() += 1;
            }
            *known = Arc::new(counts);
        }
        known.clone()
    }

    /// The alarms.
    pub(super) fn alarms(&self) -> &SharedBook {
        &self.shared.actions.book
    }

    /// Runs a job of a client of that account and returns what it says. Dropped, the job is not run
    /// any more, or interrupted.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        account: &str,
        job: impl FnOnce(&Interrupt) -> T + Send + 'static,
    ) -> Result<T, MonitorError> {
        self.run_large((account, JOB_BYTES), job).await
    }

    /// The same for a job that holds so many bytes of memory while it waits.
    pub(crate) async fn run_large<T: Send + 'static>(
        &self,
        (account, bytes): (&str, usize),
        job: impl FnOnce(&Interrupt) -> T + Send + 'static,
    ) -> Result<T, MonitorError> {
        let (reply, answer) = oneshot::channel();
        let _claim = self.shared.reads.add((account, bytes), |interrupt| {
            let interrupt = interrupt.clone();
            Read::OfClient(Box::new(move || {
                let _ = reply.send(caught("a request", || job(&interrupt)));
            }))
        })?;
        answer.await.map_err(|_| MonitorError::Closed)?
    }

    /// Runs a job that records something for that account and returns when that is durable. Dropped
    /// before the job runs, it is not run.
    pub(crate) async fn run_durably<T: Send + 'static, E: From<MonitorError> + Send + 'static>(
        &self,
        account: &str,
        job: impl FnOnce() -> Result<T, E> + Send + 'static,
    ) -> Result<T, E> {
        self.run_large_durably((account, JOB_BYTES), job).await
    }

    /// The same for a job that holds so many bytes of memory while it waits.
    pub(crate) async fn run_large_durably<
        T: Send + 'static,
        E: From<MonitorError> + Send + 'static,
    >(
        &self,
        (account, bytes): (&str, usize),
        job: impl FnOnce() -> Result<T, E> + Send + 'static,
    ) -> Result<T, E> {
        let (reply, answer) = oneshot::channel();
        let job = move || caught("a request", job).map_err(E::from)?;
        let run = move || match job() {
            Err(error) => {
                let _ = reply.send(Err(error));
                After::Nothing
            }
            Ok(value) => After::Sync(Box::new(move |is_durable| {
                let poisoned = || MonitorError::Store(StoreError::Poisoned).into();
                let _ = reply.send(is_durable.then_some(value).ok_or_else(poisoned));
            })),
        };
        let _claim = self.writes.add((account, bytes), |_| Write::Job(Box::new(run)))?;
        answer.await.map_err(|_| MonitorError::Closed)?
    }

    /// Runs a job of that account that changes something else than files, in turn with those that
    /// record. Dropped before the job runs, it is not run.
    pub(crate) async fn run_change<T: Send + 'static>(
        &self,
        account: &str,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, MonitorError> {
        let (reply, answer) = oneshot::channel();
        let run = move || {
            let _ = reply.send(caught("a request", job));
            After::Nothing
        };
        let _claim = self.writes.add((account, JOB_BYTES), |_| Write::Job(Box::new(run)))?;
        answer.await.map_err(|_| MonitorError::Closed)?
    }

    /// Does what is owed for a change of an alarm's state that is durable. That it is done is
    /// durable with the ticket.
    pub(super) async fn act(&self, owed: Owed) -> Result<Option<Ticket>, MonitorError> {
        let account = owed.alarm().scope.account.clone();
        let actions = self.shared.actions.clone();
        let act = move |_: &Interrupt| {
            actions.act(&[owed]);
            lock(&actions.book).latest()
        };
        self.run(&account, act).await
    }

    /// Runs a job for those who scrape; no client's job is waited for.
    pub(crate) async fn run_scrape<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, MonitorError> {
        let (reply, answer) = oneshot::channel();
        let job = move || {
            if !reply.is_closed() {
                let _ = reply.send(caught("a scrape", job));
            }
        };
        let sent = {
            let scrapes = self.scrapes.lock().unwrap_or_else(PoisonError::into_inner);
            let scrapes = scrapes.as_ref().ok_or(MonitorError::Closed)?;
            scrapes.try_send(Box::new(job))
        };
        sent.map_err(|error| match error {
            TrySendError::Full(_) => MonitorError::Busy,
            TrySendError::Disconnected(_) => MonitorError::Closed,
        })?;
        answer.await.map_err(|_| MonitorError::Closed)?
    }

    /// Forgets all metrics and alarms, once the queues are gone.
    pub(crate) async fn reset(&self) -> Result<(), ApiError> {
        let shared = self.shared.clone();
        let cleared = self.run_durably(OWN, move || {
            lock(&shared.actions.book).clear().map_err(error::of_alarm)?;
            shared.queues.forget();
            shared.topics.forget();
            shared.store.clear(shared.now()).map_err(|error| error::of_store(&error))?;
            Ok(lock(&shared.actions.book).latest())
        });
        let ticket: Result<_, ApiError> = cleared.await;
        let home = self.shared.actions.shards.home().map_err(error::of_broker)?;
        home.committed(ticket?).await.map_err(error::of_broker)
    }

    /// Has the thread look at the clock, which was moved. Resolves when alarms are evaluated.
    pub(crate) async fn tick(&self) {
        let (reply, answer) = oneshot::channel();
        if let Ok(_claim) = self.writes.add((OWN, JOB_BYTES), |_| Write::Tick(reply)) {
            let _ = answer.await;
        }
    }

    /// Stores what was gathered in the minute that has not ended, and ends the threads.
    pub fn close(&self) {
        let Threads { writer, others } =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        self.writes.close(|_| false);
        writer.into_iter().for_each(join);
        // What an earlier process owes is done, however soon the end comes.
        self.shared.reads.close(|job| matches!(job, Read::Own(_)));
        self.scrapes.lock().unwrap_or_else(PoisonError::into_inner).take();
        others.into_iter().for_each(join);
    }
}

impl Shared {
    pub(super) fn now(&self) -> Timestamp {
        self.actions.shards.now()
    }
}

/// Lowers the priority of the calling thread, so that those that serve queues go first: answers
/// about metrics may take seconds of computing.
fn give_way() {
    // On Linux it applies to the calling thread alone.
    if let Err(error) = rustix::process::setpriority_process(None, READER_NICENESS) {
        tracing::debug!(%error, "reads of metrics keep their priority");
    }
}

fn run_reads(reads: &Jobs<Read>) {
    give_way();
    while let Some(taken) = reads.take() {
        match taken.job {
            Read::OfClient(run) | Read::Own(run) => run(),
        }
        reads.done(&taken.account);
    }
}

fn join(thread: JoinHandle<()>) {
    let name = thread.thread().name().unwrap_or_default().to_owned();
    if thread.join().is_err() {
        tracing::error!(name, "a thread of metrics panicked");
    }
}

/// What something returns, unless a panic ends it.
pub(super) fn caught<T>(what: &str, run: impl FnOnce() -> T) -> Result<T, MonitorError> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|_| {
        tracing::error!(what, "ended by a bug");
        MonitorError::Panicked
    })
}

#[cfg(test)]
mod tests;
