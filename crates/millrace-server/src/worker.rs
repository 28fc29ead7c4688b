//! One thread with one single-threaded runtime, and the connections that live there.
//!
//! The worker's main task takes connections from the acceptor (a task of the first worker's) and
//! from other workers, once a second sweeps deadlines and sends connections away if it has no time
//! for all of them, or another has (see `load`), reaps finished connections and, when we drain,
//! waits for the rest up to a bound.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use millrace_wire::Service;
use tokio::{
    net::TcpStream,
    runtime::Runtime,
    sync::mpsc,
    task::{JoinError, JoinSet},
    time::{Instant, MissedTickBehavior},
};

use crate::{
    BoxFuture, Closed, Counters,
    accept::Acceptor,
    clock::Clock,
    connection::{self, Context, Shared},
    connection_memory::Share,
    counters::Cell,
    idle_poll::IdlePolling,
    lanes::Lanes,
    load::{Load, Meter, SharedLoad, Times},
    scheduling::Scheduling,
};

/// Requests from one look to the next whether there are many.
const LOOKS_EVERY: u64 = 64;

/// What the acceptor and the connections know of a worker.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) index: usize,
    pub(crate) clock: Arc<Clock>,
    counters: Arc<Counters>,
    idle_polling: Arc<IdlePolling>,
    pub(crate) load: SharedLoad,
    open: AtomicUsize,
    /// How many connections are to leave, each after its present request.
    leaving: AtomicUsize,
}

/// A connection on its way from the acceptor to a worker.
pub(crate) struct Accepted {
    pub(crate) stream: Stream,
    pub(crate) peer: SocketAddr,
    pub(crate) place: Place,
    /// What was read of a connection that comes from another worker.
    pub(crate) unread: Option<Vec<u8>>,
}

/// How a connection ended, or where it goes on, with what was read of it.
pub(crate) enum Left {
    Closed(Closed),
    For(Destination, TcpStream, Vec<u8>),
}

/// The worker that is to go on with a connection.
pub(crate) enum Destination {
    /// See [`Balance`].
    AsLoadsWant,
    /// The one with the fewest connections.
    Fewest,
}

/// How connections come to a worker, and leave it.
pub(crate) struct Ways {
    pub(crate) accepted: mpsc::Receiver<Accepted>,
    pub(crate) acceptor: Option<Acceptor>,
    pub(crate) lanes: Lanes,
}

/// A connection that leaves its worker.
struct Leaving {
    connection: Accepted,
    destination: Destination,
}

/// A connection, watched by the runtime of the worker that accepts or by none.
pub(crate) enum Stream {
    Watched(TcpStream),
    Unwatched(std::net::TcpStream),
}

/// A connection's place among the open ones; given back when dropped.
pub(crate) struct Place {
    worker: Arc<Worker>,
    pub(crate) share: Arc<Share>,
    /// Why it is closed, when it is.
    reason: Closed,
}

impl Worker {
    pub(crate) fn new(
        index: usize,
        counters: Arc<Counters>,
        idle_polling: Arc<IdlePolling>,
    ) -> Worker {
        Worker {
            index,
            clock: Clock::new(),
            counters,
            idle_polling,
            load: SharedLoad::default(),
            open: AtomicUsize::new(0),
            leaving: AtomicUsize::new(0),
        }
    }

    /// Counts one more connection.
    pub(crate) fn place(self: &Arc<Worker>, share: Arc<Share>) -> Place {
        self.open.fetch_add(1, Relaxed);
        self.cell().opened();
        Place { worker: Arc::clone(self), share, reason: Closed::Drain }
    }

    pub(crate) fn open(&self) -> usize {
        self.open.load(Relaxed)
    }

    pub(crate) fn cell(&self) -> &Cell {
        self.counters.cell(self.index)
    }

    /// Counts a request that is answered.
    pub(crate) fn request(&self) {
        if self.cell().request().is_multiple_of(LOOKS_EVERY) {
            self.idle_polling.look();
        }
    }

    /// Whether the connection that asks is to leave. For the worker's own thread.
    pub(crate) fn sends_away(&self) -> bool {
        let leaving = self.leaving.load(Relaxed);
        if leaving > 0 {
            self.leaving.store(leaving - 1, Relaxed);
        }
        leaving > 0
    }
}

impl Place {
    /// Counts the connection among another worker's; returns the one before.
    pub(crate) fn move_to(&mut self, worker: &Arc<Worker>) -> Arc<Worker> {
        worker.open.fetch_add(1, Relaxed);
        self.worker.open.fetch_sub(1, Relaxed);
        std::mem::replace(&mut self.worker, Arc::clone(worker))
    }

    fn end(mut self, reason: Closed) {
        self.reason = reason;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.worker.open.fetch_sub(1, Relaxed);
        self.worker.cell().closed(self.reason);
        self.share.leave();
    }
}

/// Runs until drained, and accepts if it is the worker that does. Returns how many connections had
/// to be cut off.
pub(crate) fn run<S: Service>(
    runtime: &Runtime,
    worker: &Arc<Worker>,
    shared: &Arc<Shared<S>>,
    ways: Ways,
    companion: impl FnOnce() -> Option<BoxFuture>,
) -> io::Result<usize> {
    runtime.block_on(async {
        let Ways { accepted, acceptor, lanes } = ways;
        let accepting = acceptor.map(|acceptor| tokio::spawn(acceptor.run()));
        let mut companions = JoinSet::new();
        if let Some(companion) = companion() {
            companions.spawn(companion);
        }
        let cut_off = serve(worker, shared, accepted, lanes).await;
        // Connections may have needed the companion until now.
        companions.shutdown().await;
        if let Some(accepting) = accepting {
            accepting.await.map_err(io::Error::other)??;
        }
        Ok(cut_off)
    })
}

async fn serve<S: Service>(
    worker: &Arc<Worker>,
    shared: &Arc<Shared<S>>,
    mut accepted: mpsc::Receiver<Accepted>,
    lanes: Lanes,
) -> usize {
    // Dropped when we drain: as long as somebody may pass connections on, all wait for them.
    let mut lanes = Some(lanes);
    let mut meter = Meter::new();
    let mut balance = Balance::new();
    if meter.is_none() {
        worker.load.set(Load::UNKNOWN);
    }
    let mut connections = JoinSet::new();
    let begins = Instant::now() + shared.timeouts.sweep;
    let mut sweep = tokio::time::interval_at(begins, shared.timeouts.sweep);
    sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let drain_ends = tokio::time::sleep_until(Instant::now());
    tokio::pin!(drain_ends);
    let mut scheduling = Scheduling::new(worker.index, worker.counters.workers());
    let mut is_draining = false;
    let mut is_accepting = true;
    while is_accepting || !is_draining || !connections.is_empty() {
        tokio::select! {
            connection = accepted.recv(), if is_accepting => match connection {
                Some(connection) => adopt(worker, shared, connection, &mut connections),
                None => is_accepting = false,
            },
            Some(ended) = connections.join_next() => {
                let left = report(ended).and_then(|leaving| match &lanes {
                    Some(lanes) => balance.pass(leaving, lanes),
                    None => Some(leaving.connection),
                });
                if let Some(stays) = left {
                    adopt(worker, shared, stays, &mut connections);
                }
            }
            _ = sweep.tick() => {
                let active = worker.clock.sweep();
                let times = meter.as_mut().and_then(Meter::measure);
                scheduling.observe(active, times);
                balance.observe(worker, active, times, lanes.as_ref());
                if worker.index == 0 {
                    worker.idle_polling.sweep();
                }
            }
            () = shared.drain.started(), if !is_draining => {
                is_draining = true;
                lanes = None;
                drain_ends.as_mut().reset(Instant::now() + shared.timeouts.drain);
                worker.clock.wake_all();
            }
            () = &mut drain_ends, if is_draining => break,
        }
    }
    let cut_off = connections.len();
    connections.shutdown().await;
    cut_off
}

fn adopt<S: Service>(
    worker: &Arc<Worker>,
    shared: &Arc<Shared<S>>,
    accepted: Accepted,
    connections: &mut JoinSet<Option<Leaving>>,
) {
    let Accepted { stream, peer, place, unread } = accepted;
    let stream = match stream {
        Stream::Watched(stream) => Ok(stream),
        Stream::Unwatched(stream) => TcpStream::from_std(stream),
    };
    let stream = match stream {
        Ok(stream) => stream,
        Err(error) => {
            tracing::warn!(%peer, %error, "connection cannot be watched");
            return;
        }
    };
    let share = Arc::clone(&place.share);
    let context = Context::new(Arc::clone(shared), Arc::clone(worker), peer, share);
    // Two futures of different size: a plain connection does not pay for TLS.
    match shared.tls.clone() {
        None => connections.spawn(async move {
            match connection::serve(stream, unread, context).await {
                Left::Closed(reason) => {
                    place.end(reason);
                    None
                }
                Left::For(destination, stream, unread) => {
                    let (stream, unread) = (Stream::Watched(stream), Some(unread));
                    let connection = Accepted { stream, peer, place, unread };
                    Some(Leaving { connection, destination })
                }
            }
        }),
        Some(tls) => connections.spawn(async move {
            place.end(connection::serve_tls(stream, tls, context).await);
            None
        }),
    };
}

fn report(ended: Result<Option<Leaving>, JoinError>) -> Option<Leaving> {
    ended
        .inspect_err(|error| {
            if error.is_panic() {
                tracing::error!(%error, "connection ended by a bug");
            }
        })
        .ok()
        .flatten()
}

/// Measures the worker's load, and sends connections away when it is full, or when another worker
/// has time for all of them.
struct Balance {
    of_each: Load,
    /// The worker that all connections are for, if so; otherwise those that leave are for the one
    /// with the most time.
    joins: Option<usize>,
}

impl Balance {
    fn new() -> Balance {
        Balance { of_each: Load::UNKNOWN, joins: None }
    }

    /// Once a second, with how many connections had requests since.
    fn observe(
        &mut self,
        worker: &Worker,
        active: usize,
        times: Option<Times>,
        lanes: Option<&Lanes>,
    ) {
        let load = times.map_or(Load::UNKNOWN, Times::load);
        worker.load.set(load);
        self.joins = lanes
            .and_then(|lanes| load.joins(lanes.loads_before(worker), lanes.loads_behind(worker)));
        let leaving = match (self.joins, lanes) {
            (Some(_), _) => active,
            (None, Some(lanes)) => {
                let others = lanes.loads_before(worker).chain(lanes.loads_behind(worker));
                load.to_leave(active, others)
            }
            (None, None) => 0,
        };
        worker.leaving.store(leaving, Relaxed);
        self.of_each = load.of_each(active);
    }

    /// Passes a connection on; gives back what stays.
    fn pass(&self, leaving: Leaving, lanes: &Lanes) -> Option<Accepted> {
        let Leaving { connection, destination } = leaving;
        let lane = match (destination, self.joins) {
            (Destination::Fewest, _) => lanes.fewest(),
            (Destination::AsLoadsWant, Some(index)) => lanes.0.get(index),
            (Destination::AsLoadsWant, None) => lanes.idlest(self.of_each),
        };
        match lane {
            Some(lane) => lane.pass(connection).err(),
            None => Some(connection),
        }
    }
}
