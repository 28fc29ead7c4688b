//! Binding, accepting, running, draining.
//!
//! The calling thread accepts and hands each connection to the worker with the fewest, so that a
//! few connections spread evenly over the cores.

use std::{
    io::{self, Write},
    net::{SocketAddr, TcpListener},
    sync::Arc,
    thread,
    time::Duration,
};

use millrace_wire::Service;
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::{io::AsyncReadExt, net::TcpStream, sync::mpsc, task::JoinSet};
use tokio_rustls::TlsAcceptor;

use crate::{
    Closed, Counters, Drain, Hooks, Limits, Options, Timeouts,
    budget::BodyBudget,
    connection::Shared,
    options::Cors,
    policy::Policy,
    tls::{self, TlsError},
    worker::{self, Accepted, Worker},
};

/// Connections that the kernel completes before we accept them.
const BACKLOG: i32 = 4096;

/// Connections handed to a worker that it has not looked at. When full, accepting waits.
const HANDOVER: usize = 1024;

/// Refused connections that are told why at the same time; more are just closed.
const MAX_REFUSALS: usize = 64;

/// What a refused connection is told.
const REFUSAL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 21\r\n\
    Content-Type: text/plain\r\nRetry-After: 1\r\nConnection: close\r\n\r\ntoo many connections\n";

/// How long a refused connection is read until it is closed.
const REFUSAL_LINGER: Duration = Duration::from_secs(1);

/// How long accepting rests when the process is out of descriptors or memory.
const ACCEPT_REST: Duration = Duration::from_millis(100);

/// Finds peers that vanished without a word.
const TCP_KEEPALIVE: Duration = Duration::from_secs(60);

/// A server that listens and does not accept yet.
#[derive(Debug)]
pub struct Server {
    listeners: Vec<TcpListener>,
    addresses: Vec<SocketAddr>,
    workers: usize,
    counters: Arc<Counters>,
    tls: Option<Tls>,
    limits: Limits,
    timeouts: Timeouts,
    cors: Cors,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Connections that were still answering when the time for the drain was over.
    pub cut_off: usize,
}

/// Why the server cannot listen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// No address was given.
    #[error("no address to listen on")]
    NoAddress,
    /// The address is taken or is not ours.
    #[error("cannot listen on {0}: {1}")]
    Address(SocketAddr, #[source] io::Error),
    /// Certificate or key are not usable.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A thread or its runtime cannot be started.
    #[error("cannot start a worker: {0}")]
    Start(#[from] io::Error),
    /// A worker panicked.
    #[error("worker {0} ended by a bug")]
    Worker(usize),
}

#[derive(Clone)]
struct Tls(TlsAcceptor);

impl Server {
    /// Reads the TLS files and starts listening.
    pub fn bind(options: Options) -> Result<Server, BindError> {
        let tls = options.tls.as_ref().map(tls::acceptor).transpose()?.map(Tls);
        if options.listen.is_empty() {
            return Err(BindError::NoAddress);
        }
        let mut listeners = Vec::with_capacity(options.listen.len());
        let mut addresses = Vec::with_capacity(options.listen.len());
        for address in options.listen {
            let (listener, bound) =
                listen(address).map_err(|error| BindError::Address(address, error))?;
            listeners.push(listener);
            addresses.push(bound);
        }
        let workers = match options.workers {
            0 => thread::available_parallelism().map_or(1, usize::from),
            workers => workers,
        };
        Ok(Server {
            listeners,
            addresses,
            workers,
            counters: Arc::new(Counters::new(workers)),
            tls,
            limits: options.limits,
            timeouts: options.timeouts,
            cors: options.cors,
        })
    }

    /// The addresses listened on, in the order of the options, with the ports chosen.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// How many workers there will be.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// What has been done so far, also after the run.
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    /// Serves on the calling thread and the workers' until `drain` is started and all connections
    /// are closed or the time for that is over.
    pub fn run<S: Service>(
        self,
        service: Arc<S>,
        drain: Drain,
        hooks: Hooks,
    ) -> Result<Drained, RunError> {
        let shared = Arc::new(Shared {
            service,
            policy: Policy::new(self.cors, hooks.clone(), drain.clone()),
            bodies: BodyBudget::new(self.limits.max_unfinished_bytes),
            limits: self.limits,
            timeouts: self.timeouts,
            drain: drain.clone(),
            tls: self.tls.map(|tls| tls.0),
        });
        let mut threads = Vec::with_capacity(self.workers);
        let mut lanes = Vec::with_capacity(self.workers);
        for index in 0..self.workers {
            let worker = Arc::new(Worker::new(index, Arc::clone(&self.counters)));
            let (sender, receiver) = mpsc::channel(HANDOVER);
            lanes.push(Lane { worker: Arc::clone(&worker), sender });
            let shared = Arc::clone(&shared);
            let per_worker = hooks.per_worker.clone();
            let stops_all = StopsAll(drain.clone());
            let thread = thread::Builder::new().name(format!("worker-{index}"));
            threads.push(thread.spawn(move || {
                let _stops_all = stops_all;
                let companion = || per_worker.map(|per_worker| per_worker(index));
                worker::run(&worker, &shared, receiver, companion)
            })?);
        }
        let acceptor =
            Acceptor { lanes, turn: 0, max_connections: shared.limits.max_connections, drain };
        let accepting = accept_all(self.listeners, acceptor, shared.tls.is_some());
        if accepting.is_err() {
            shared.drain.start();
        }
        let mut drained = Drained { cut_off: 0 };
        for (index, thread) in threads.into_iter().enumerate() {
            drained.cut_off += thread.join().map_err(|_| RunError::Worker(index))??;
        }
        accepting?;
        Ok(drained)
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Tls")
    }
}

/// When a worker ends, all end: normally we drain by then, and otherwise something is wrong that
/// must not leave every other connection unanswered.
struct StopsAll(Drain);

impl Drop for StopsAll {
    fn drop(&mut self) {
        self.0.start();
    }
}

/// The way to one worker.
struct Lane {
    worker: Arc<Worker>,
    sender: mpsc::Sender<Accepted>,
}

/// Hands connections out.
struct Acceptor {
    lanes: Vec<Lane>,
    turn: usize,
    max_connections: usize,
    drain: Drain,
}

impl Acceptor {
    /// Hands a connection to the worker with the fewest; gives it back if there are too many.
    async fn hand_over(&mut self, stream: TcpStream, peer: SocketAddr) -> Option<TcpStream> {
        let open: usize = self.lanes.iter().map(|lane| lane.worker.open()).sum();
        if open >= self.max_connections {
            return Some(stream);
        }
        self.turn = self.turn.wrapping_add(1);
        let count = self.lanes.len();
        let turn = self.turn;
        // Among equals, the next in turn.
        let next = (0..count)
            .map(|step| turn.wrapping_add(step) % count)
            .min_by_key(|index| self.lanes[*index].worker.open());
        let lane = &self.lanes[next?];
        let place = lane.worker.place();
        match stream.into_std() {
            Ok(stream) => {
                // Fails only when the worker is gone, and then run() is about to say so.
                let _ = lane.sender.send(Accepted { stream, peer, place }).await;
            }
            Err(error) => tracing::warn!(%peer, %error, "connection cannot be handed over"),
        }
        None
    }
}

fn listen(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    #[cfg(unix)]
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    let listener = TcpListener::from(socket);
    let bound = listener.local_addr()?;
    Ok((listener, bound))
}

/// Accepts on all listeners until drained; then closes them.
fn accept_all(listeners: Vec<TcpListener>, mut acceptor: Acceptor, is_tls: bool) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (sender, mut accepted) = mpsc::channel(HANDOVER);
        let mut accepting = JoinSet::new();
        for listener in listeners {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            accepting.spawn(accept(listener, sender.clone()));
        }
        drop(sender);
        let mut refusals = JoinSet::new();
        let drain = acceptor.drain.clone();
        let started = drain.started();
        tokio::pin!(started);
        loop {
            let (stream, peer) = tokio::select! {
                () = &mut started => break,
                Some(ended) = refusals.join_next() => { let _: Result<(), _> = ended; continue }
                next = accepted.recv() => match next {
                    Some(next) => next,
                    None => break,
                },
            };
            if let Some(stream) = acceptor.hand_over(stream, peer).await {
                let worker = &acceptor.lanes[0].worker;
                worker.cell().opened();
                worker.cell().closed(Closed::Refused);
                if !is_tls && refusals.len() < MAX_REFUSALS {
                    refusals.spawn(refuse(stream));
                }
            }
        }
        accepting.shutdown().await;
        // What was accepted before the drain is still served if a request is there.
        while let Ok((stream, peer)) = accepted.try_recv() {
            acceptor.hand_over(stream, peer).await;
        }
        refusals.shutdown().await;
        Ok(())
    })
}

async fn accept(
    listener: tokio::net::TcpListener,
    accepted: mpsc::Sender<(TcpStream, SocketAddr)>,
) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                tune(&stream);
                if accepted.send((stream, peer)).await.is_err() {
                    return;
                }
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_REST).await;
            }
        }
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

/// A connection works without either, only less well.
fn tune(stream: &TcpStream) {
    let _ = stream.set_nodelay(true);
    let _ = SockRef::from(stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(TCP_KEEPALIVE));
}

/// Says why, and gives the client time to read it: closing at once could reset the connection
/// before the answer is seen.
async fn refuse(stream: TcpStream) {
    let Ok(stream) = stream.into_std() else { return };
    if (&stream).write_all(REFUSAL).is_err() || stream.shutdown(std::net::Shutdown::Write).is_err()
    {
        return;
    }
    let Ok(mut stream) = TcpStream::from_std(stream) else { return };
    let mut bytes = [0; 4096];
    let drain = async { while stream.read(&mut bytes).await.is_ok_and(|count| count > 0) {} };
    let _ = tokio::time::timeout(REFUSAL_LINGER, drain).await;
}
