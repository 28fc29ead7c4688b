//! One thread with one single-threaded runtime, and the connections that live there.
//!
//! A connection never changes its worker. The worker's main task takes connections from the
//! acceptor (a task of the first worker's), sweeps deadlines once a second, reaps finished
//! connections and, when we drain, waits for the rest up to a bound.

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
    counters::Cell,
    scheduling::Scheduling,
};

/// What the acceptor and the connections know of a worker.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) index: usize,
    pub(crate) clock: Arc<Clock>,
    counters: Arc<Counters>,
    open: AtomicUsize,
}

/// A connection on its way from the acceptor to a worker.
pub(crate) struct Accepted {
    pub(crate) stream: Stream,
    pub(crate) peer: SocketAddr,
    pub(crate) place: Place,
}

/// A connection, watched by the runtime of the worker that accepts or by none.
pub(crate) enum Stream {
    Watched(TcpStream),
    Unwatched(std::net::TcpStream),
}

/// A connection's place among the open ones; given back when dropped.
pub(crate) struct Place {
    worker: Arc<Worker>,
    reason: Closed,
}

impl Worker {
    pub(crate) fn new(index: usize, counters: Arc<Counters>) -> Worker {
        Worker { index, clock: Clock::new(), counters, open: AtomicUsize::new(0) }
    }

    /// Counts one more connection.
    pub(crate) fn place(self: &Arc<Worker>) -> Place {
        self.open.fetch_add(1, Relaxed);
        self.cell().opened();
        Place { worker: Arc::clone(self), reason: Closed::Drain }
    }

    pub(crate) fn open(&self) -> usize {
        self.open.load(Relaxed)
    }

    pub(crate) fn cell(&self) -> &Cell {
        self.counters.cell(self.index)
    }
}

impl Place {
    fn end(mut self, reason: Closed) {
        self.reason = reason;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.worker.open.fetch_sub(1, Relaxed);
        self.worker.cell().closed(self.reason);
    }
}

/// Runs until drained, and accepts if it is the worker that does. Returns how many connections had
/// to be cut off.
pub(crate) fn run<S: Service>(
    runtime: &Runtime,
    worker: &Arc<Worker>,
    shared: &Arc<Shared<S>>,
    accepted: mpsc::Receiver<Accepted>,
    acceptor: Option<Acceptor>,
    companion: impl FnOnce() -> Option<BoxFuture>,
) -> io::Result<usize> {
    runtime.block_on(async {
        let accepting = acceptor.map(|acceptor| tokio::spawn(acceptor.run()));
        let mut companions = JoinSet::new();
        if let Some(companion) = companion() {
            companions.spawn(companion);
        }
        let cut_off = serve(worker, shared, accepted).await;
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
) -> usize {
    let mut connections = JoinSet::new();
    let mut sweep = tokio::time::interval(shared.timeouts.sweep);
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
            Some(ended) = connections.join_next() => report(ended),
            _ = sweep.tick() => scheduling.observe(worker.clock.sweep()),
            () = shared.drain.started(), if !is_draining => {
                is_draining = true;
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
    connections: &mut JoinSet<()>,
) {
    let Accepted { stream, peer, place } = accepted;
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
    let context = Context::new(Arc::clone(shared), Arc::clone(worker), peer);
    // Two futures of different size: a plain connection does not pay for TLS.
    match shared.tls.clone() {
        None => connections.spawn(async move {
            place.end(connection::serve(stream, context).await);
        }),
        Some(tls) => connections.spawn(async move {
            place.end(connection::serve_tls(stream, tls, context).await);
        }),
    };
}

fn report(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "connection ended by a bug");
    }
}
