//! The deliveries of the process: which queues are drained, and the thread that does it.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use millrace_broker::{Shards, SharedQueue};
use millrace_core::QueueId;
use millrace_http::{AddressCheck, TlsOptions, TransportError};
use rustls::ClientConfig;
use tokio::runtime;
use tokio::sync::watch;
use tokio::task;

use crate::drain::Drain;
use crate::endpoint::Deliveries;
use crate::figures::{Counters, EndpointCounters, EndpointFigures, PushFigures};
use crate::lanes::Lanes;
use crate::network::{NetworkPolicy, is_own};

/// Settings of deliveries.
#[derive(Clone, Debug)]
pub struct PushOptions {
    /// Attempts at a time, of all endpoints: half of them for those that answer promptly, a quarter
    /// for those that have not been tried yet, a quarter for those that are slow or fail.
    pub connections: usize,
    /// Attempts at a time of one endpoint that answers promptly.
    pub connections_per_endpoint: usize,
    pub network: NetworkPolicy,
    pub tls: TlsOptions,
    /// Time that attempts under way may take when the server stops.
    pub grace: Duration,
}

impl PushOptions {
    /// The defaults, with that network policy.
    pub fn new(network: NetworkPolicy) -> PushOptions {
        PushOptions {
            connections: 512,
            connections_per_endpoint: 16,
            network,
            tls: TlsOptions::default(),
            grace: Duration::from_secs(2),
        }
    }
}

/// Drains hidden queues on a thread of its own, called "push".
pub struct Push {
    shared: Arc<Shared>,
    runtime: runtime::Handle,
    stop: watch::Sender<bool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// State that the drains share.
pub(crate) struct Shared {
    pub(crate) shards: Arc<Shards>,
    pub(crate) options: PushOptions,
    pub(crate) lanes: Lanes,
    pub(crate) address_check: AddressCheck,
    tls: OnceLock<Arc<ClientConfig>>,
    counters: Arc<Counters>,
    stopping: watch::Receiver<bool>,
    /// A lock because services begin drains and read figures; held for a look or a change.
    drains: Mutex<HashMap<QueueId, Entry>>,
}

struct Entry {
    counters: Arc<EndpointCounters>,
    /// Grows each time that somebody wants the queue drained.
    wishes: u64,
    task: task::JoinHandle<()>,
}

impl Push {
    /// Starts the thread. Nothing is drained yet.
    ///
    /// # Errors
    ///
    /// If the system gives no thread.
    pub fn start(options: PushOptions, shards: Arc<Shards>) -> io::Result<Push> {
        let (stop, stopping) = watch::channel(false);
        let network = options.network.clone();
        let shared = Arc::new(Shared {
            lanes: Lanes::new(options.connections),
            address_check: AddressCheck::new(move |address| network.allows(address, is_own)),
            shards,
            options,
            tls: OnceLock::new(),
            counters: Arc::default(),
            stopping,
            drains: Mutex::default(),
        });
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let running = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("push".to_owned())
            .spawn(move || runtime.block_on(running.run()))?;
        Ok(Push { shared, runtime: handle, stop, thread: Mutex::new(Some(thread)) })
    }

    /// Drains the queue from now on, unless that is done already. `deliveries` must know its
    /// endpoint. It ends when the queue is deleted or its endpoint is gone.
    pub fn drain(&self, queue: &Arc<SharedQueue>, deliveries: &Arc<dyn Deliveries>) {
        let mut drains = self.shared.drains();
        if self.shared.is_stopping() {
            return;
        }
        if let Some(entry) = drains.get_mut(&queue.id()) {
            entry.wishes += 1;
            if !entry.task.is_finished() {
                return;
            }
        }
        let known = drains.remove(&queue.id());
        let wishes = known.as_ref().map_or(0, |entry| entry.wishes);
        let counters = known.map_or_else(
            || Arc::new(EndpointCounters::new(&self.shared.counters)),
            |entry| entry.counters,
        );
        let (shared, queue) = (Arc::clone(&self.shared), Arc::clone(queue));
        let id = queue.id();
        let drain = Drain::new(shared, queue, Arc::clone(deliveries), Arc::clone(&counters));
        let task = self.runtime.spawn(drain.run());
        drains.insert(id, Entry { counters, wishes, task });
    }

    /// Runs a task of a service on the thread of deliveries, which it must not block, until it ends
    /// or the server stops.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut stopping = self.shared.stopping();
        self.runtime.spawn(async move {
            tokio::select! {
                // An error is the end of the sender, and as good as a stop.
                _ = stopping.wait_for(|is_stopping| *is_stopping) => {}
                () = task => {}
            }
        });
    }

    /// Counts of all endpoints since the process started.
    pub fn figures(&self) -> PushFigures {
        self.shared.counters.figures()
    }

    /// The figures of the endpoint of a queue that is drained.
    pub fn endpoint_figures(&self, queue: QueueId) -> Option<EndpointFigures> {
        let counters = self.shared.drains().get(&queue).map(|entry| Arc::clone(&entry.counters));
        counters.map(|counters| counters.figures())
    }

    /// Ends all drains and the thread. Attempts under way have the options' grace to end; messages
    /// of those that do not are given back. To be called before [`Shards::close`].
    pub fn close(&self) {
        self.stop.send_replace(true);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of deliveries panicked");
        }
    }
}

impl Drop for Push {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    /// The thread's future: lives as long as drains may.
    async fn run(self: Arc<Shared>) {
        // An error is the end of the sender, and as good as a stop.
        let _ = self.stopping().wait_for(|is_stopping| *is_stopping).await;
        let entries = std::mem::take(&mut *self.drains());
        let all_end = async {
            for (_, entry) in entries {
                // What panicked has been reported.
                let _ = entry.task.await;
            }
        };
        // The others are dropped with the runtime.
        let _ = tokio::time::timeout(self.options.grace, all_end).await;
    }

    pub(crate) fn stopping(&self) -> watch::Receiver<bool> {
        self.stopping.clone()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// The configuration of TLS, made at the first use: that reads the system's authorities.
    pub(crate) fn tls(&self) -> Result<Arc<ClientConfig>, TransportError> {
        if let Some(config) = self.tls.get() {
            return Ok(Arc::clone(config));
        }
        let config = self.options.tls.client_config()?;
        Ok(Arc::clone(self.tls.get_or_init(|| config)))
    }

    /// Number of times that somebody wanted the queue drained.
    pub(crate) fn wishes(&self, queue: QueueId) -> u64 {
        self.drains().get(&queue).map_or(0, |entry| entry.wishes)
    }

    /// The queue has no endpoint: its entry goes, unless somebody wanted the queue drained since
    /// `wishes` was read.
    pub(crate) fn has_ended(&self, queue: QueueId, wishes: u64) -> bool {
        let mut drains = self.drains();
        if drains.get(&queue).is_some_and(|entry| entry.wishes != wishes) {
            return false;
        }
        drains.remove(&queue);
        true
    }

    /// The queue is deleted.
    pub(crate) fn forget(&self, queue: QueueId) {
        self.drains().remove(&queue);
    }

    fn drains(&self) -> MutexGuard<'_, HashMap<QueueId, Entry>> {
        self.drains.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
