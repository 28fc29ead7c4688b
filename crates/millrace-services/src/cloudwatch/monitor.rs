//! The thread "metrics": it closes each minute and does everything about metrics that may wait for
//! the disk, so that no request of another service does.
//!
//! A panic is our bug and costs the request or the step that it is in. The thread goes on: files
//! hold whole frames, and what is in memory is read from them or gathered anew.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use millrace_broker::Broker;
use millrace_core::Timestamp;
use millrace_metrics::alarm::{AlarmBook, Owed, State};
use millrace_metrics::{MetricStore, StoreError};
use tokio::sync::oneshot;

use super::act::{Actions, QueueAccess};
use super::alarms::{SharedBook, lock};
use super::evaluate::evaluate;
use super::queues::QueueMetrics;

/// Requests that may wait for the thread; beyond, clients are told to come back.
const JOBS_WAITING: usize = 1_024;
/// Jobs that share one sync.
const JOBS_PER_SYNC: usize = 64;
/// How often old data points are looked for.
const EXPIRE_MS: u64 = 3_600_000;

/// Twice what expressions of metric math take that are nested as deep as may be.
const STACK_BYTES: usize = 4 << 20;

/// What a job wants to happen after it has run.
enum After {
    Nothing,
    /// To be told whether what it recorded is durable.
    Sync(Box<dyn FnOnce(bool) + Send>),
}

enum Message {
    Job(Box<dyn FnOnce() -> After + Send>),
    /// Look at the clock now.
    Tick(oneshot::Sender<()>),
    Close,
}

/// Why a job was not done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MonitorError {
    #[error("too many requests about metrics wait")]
    Busy,
    #[error("the thread \"metrics\" has ended")]
    Closed,
    #[error("a bug ended the request")]
    Panicked,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The alarms that a [`Monitor`] evaluates.
pub struct Alarms {
    pub book: AlarmBook,
    pub queue_access: QueueAccess,
}

/// The store of metrics and the thread that works on it.
pub struct Monitor {
    store: Arc<MetricStore>,
    actions: Actions,
    sender: SyncSender<Message>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Worker {
    store: Arc<MetricStore>,
    queues: Arc<QueueMetrics>,
    actions: Actions,
    receiver: Receiver<Message>,
    next_tick: Timestamp,
    next_expiry: Timestamp,
    /// When alarms were evaluated last.
    evaluated_at: Option<Timestamp>,
    is_closing: bool,
}

impl Monitor {
    /// Starts the thread, which gathers the metrics of the broker's queues into `store` and
    /// evaluates `alarms`.
    pub fn start(
        broker: Arc<Broker>,
        store: Arc<MetricStore>,
        alarms: Alarms,
    ) -> std::io::Result<Monitor> {
        let now = broker.now();
        let queues = QueueMetrics::new(broker.clone());
        store.set_source(queues.clone(), now);
        let (sender, receiver) = sync_channel(JOBS_WAITING);
        let Alarms { book, queue_access } = alarms;
        let book: SharedBook = Arc::new(Mutex::new(book));
        let actions = Actions { broker, book, queue_access };
        let worker = Worker {
            store: store.clone(),
            queues,
            actions: actions.clone(),
            receiver,
            next_tick: now,
            next_expiry: now,
            evaluated_at: None,
            is_closing: false,
        };
        let thread = std::thread::Builder::new().name("metrics".into()).stack_size(STACK_BYTES);
        let thread = thread.spawn(|| worker.run())?;
        Ok(Monitor { store, actions, sender, thread: Mutex::new(Some(thread)) })
    }

    /// The store, for those who may wait for the disk.
    pub fn store(&self) -> &Arc<MetricStore> {
        &self.store
    }

    /// How many alarms are in each state.
    pub(crate) fn alarms_by_state(&self) -> [(&'static str, u64); 3] {
        let book = lock(&self.actions.book);
        State::ALL.map(|state| {
            let count = book.all().filter(|alarm| alarm.state == state).count();
            (state.name(), count as u64)
        })
    }

    /// The alarms, which only the thread changes.
    pub(super) fn alarms(&self) -> &SharedBook {
        &self.actions.book
    }

    pub(super) fn actions(&self) -> &Actions {
        &self.actions
    }

    /// Runs a job on the thread and returns what it says.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, MonitorError> {
        let (reply, answer) = oneshot::channel();
        self.send(Message::Job(Box::new(move || {
            // Nobody waits any more: the client has left.
            let _ = reply.send(caught("a request", job));
            After::Nothing
        })))?;
        answer.await.map_err(|_| MonitorError::Closed)?
    }

    /// Runs a job that records something and returns when that is durable.
    pub(crate) async fn run_durably<T: Send + 'static, E: From<MonitorError> + Send + 'static>(
        &self,
        job: impl FnOnce() -> Result<T, E> + Send + 'static,
    ) -> Result<T, E> {
        let (reply, answer) = oneshot::channel();
        let job = move || caught("a request", job).map_err(E::from)?;
        self.send(Message::Job(Box::new(move || match job() {
            Err(error) => {
                let _ = reply.send(Err(error));
                After::Nothing
            }
            Ok(value) => After::Sync(Box::new(move |is_durable| {
                let poisoned = || MonitorError::Store(StoreError::Poisoned).into();
                let _ = reply.send(is_durable.then_some(value).ok_or_else(poisoned));
            })),
        })))?;
        answer.await.map_err(|_| MonitorError::Closed)?
    }

    /// Has the thread look at the clock, which was moved. Resolves when it has.
    pub(crate) async fn tick(&self) {
        let (reply, answer) = oneshot::channel();
        if self.send(Message::Tick(reply)).is_ok() {
            let _ = answer.await;
        }
    }

    /// Stores what was gathered in the minute that has not ended, and ends the thread.
    pub fn close(&self) {
        let _ = self.sender.send(Message::Close);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread \"metrics\" panicked");
        }
    }

    fn send(&self, message: Message) -> Result<(), MonitorError> {
        self.sender.try_send(message).map_err(|error| match error {
            TrySendError::Full(_) => MonitorError::Busy,
            TrySendError::Disconnected(_) => MonitorError::Closed,
        })
    }
}

impl Worker {
    fn run(mut self) {
        let _ = caught("the look at what was active", || self.queues.resume(&self.store));
        // At once, however soon the end comes: what an earlier process owes is done.
        self.tick();
        while !self.is_closing {
            let wait_ms = self.next_tick.millis_since(self.now());
            if wait_ms == 0 {
                // First: jobs may come without a pause.
                self.tick();
                continue;
            }
            match self.receiver.recv_timeout(Duration::from_millis(wait_ms)) {
                Ok(Message::Close) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(Message::Tick(reply)) => {
                    self.tick();
                    let _ = reply.send(());
                }
                Ok(Message::Job(job)) => self.work(job),
                Err(RecvTimeoutError::Timeout) => self.tick(),
            }
        }
        if let Err(error) = self.store.flush(self.now()) {
            tracing::error!(%error, "the metrics of the last minute are lost");
        }
    }

    /// Runs this job and those that wait, and syncs once for all of them.
    fn work(&mut self, first: Box<dyn FnOnce() -> After + Send>) {
        let mut job = Some(first);
        let (mut waiting, mut ticks) = (Vec::new(), Vec::new());
        let mut done = 0;
        while let Some(run) = job.take() {
            if let After::Sync(reply) = run() {
                waiting.push(reply);
            }
            done += 1;
            if done == JOBS_PER_SYNC {
                break;
            }
            match self.receiver.try_recv() {
                Ok(Message::Job(next)) => job = Some(next),
                Ok(Message::Tick(reply)) => ticks.push(reply),
                Ok(Message::Close) => self.is_closing = true,
                Err(_) => {}
            }
        }
        if !waiting.is_empty() {
            let synced = self.sync();
            if let Err(error) = &synced {
                tracing::error!(%error, "metrics are not durable");
            }
            waiting.into_iter().for_each(|reply| reply(synced.is_ok()));
        }
        if !ticks.is_empty() {
            self.tick();
            for reply in ticks {
                let _ = reply.send(());
            }
        }
    }

    /// Makes metrics and alarms durable.
    fn sync(&self) -> Result<(), StoreError> {
        self.store.sync()?;
        let alarms = lock(&self.actions.book).take_dirty()?;
        let synced = alarms.map_or(Ok(()), |file| file.sync_data());
        if synced.is_err() {
            lock(&self.actions.book).sync_failed();
        }
        Ok(synced?)
    }

    fn now(&self) -> Timestamp {
        self.actions.broker.now()
    }

    /// Closes the minute if it has ended.
    fn tick(&mut self) {
        let now = self.now();
        if now < self.next_tick {
            return;
        }
        // Also if a bug ends what follows.
        self.next_tick = now.plus_seconds(millrace_metrics::BASE_PERIOD_S);
        let _ = caught("the end of a minute", || self.close_minute(now));
        let _ = caught("the evaluation of alarms", || self.evaluate(now));
        if now >= self.next_expiry {
            self.next_expiry = now.plus_millis(EXPIRE_MS);
            let _ = caught("the roll-up of old metrics", || self.expire(now));
        }
    }

    fn close_minute(&mut self, now: Timestamp) {
        let closed = self.store.close_minute(now);
        match closed.and_then(|next| self.store.sync().map(|()| next)) {
            Ok(next) => self.next_tick = next,
            Err(error) => tracing::error!(%error, "metrics of a minute are not stored yet"),
        }
    }

    fn evaluate(&mut self, now: Timestamp) {
        let since = self.evaluated_at.replace(now);
        let has_changed = evaluate(&self.store, &self.actions.book, since, now);
        let owed: Vec<Owed> = lock(&self.actions.book).owed().cloned().collect();
        if has_changed || !owed.is_empty() {
            let acted = self.sync().and_then(|()| {
                self.actions.act(&owed);
                self.sync()
            });
            if let Err(error) = acted {
                tracing::error!(%error, "states and actions of alarms are not durable");
            }
        }
    }

    fn expire(&self, now: Timestamp) {
        lock(&self.actions.book).forget(now);
        if let Err(error) = self.store.expire(now) {
            tracing::error!(%error, "old metrics are not rolled up");
        }
    }
}

/// What something returns, unless a panic ends it.
fn caught<T>(what: &str, run: impl FnOnce() -> T) -> Result<T, MonitorError> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|_| {
        tracing::error!(what, "ended by a bug");
        MonitorError::Panicked
    })
}

#[cfg(test)]
mod tests;
