//! Binding, running, draining.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    sync::Arc,
    thread,
    time::Duration,
};

use millrace_wire::Service;
use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};
use tokio::{
    runtime::{self, Runtime},
    sync::mpsc,
};

use crate::{
    Counters, Drain, Hooks, Options,
    accept::{self, Acceptor},
    budget::Budget,
    connection::Shared,
    connection_memory::ConnectionMemory,
    idle_poll::IdlePolling,
    lanes::{Lane, Lanes},
    policy::Policy,
    tls::{Tls, TlsError},
    worker::{self, Accepted, Ways, Worker},
};

/// Connections that the kernel completes before we accept them.
const BACKLOG: i32 = 4096;

/// Connections handed to a worker that it has not looked at. When full, accepting waits.
const HANDOVER: usize = 1024;

/// Finds peers that vanished without a word.
const TCP_KEEPALIVE: Duration = Duration::from_secs(60);

/// A server that listens and does not accept yet.
#[derive(Debug)]
pub struct Server {
    listeners: Vec<TcpListener>,
    addresses: Vec<SocketAddr>,
    counters: Arc<Counters>,
    tls: Option<Tls>,
    /// Where to listen is taken from it; the number of workers is never 0.
    options: Options,
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
    #[error("cannot listen on {0}")]
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
    #[error("cannot start a worker")]
    Start(#[from] io::Error),
    /// A worker panicked.
    #[error("worker {0} ended by a bug")]
    Worker(usize),
}

impl Server {
    /// Reads the TLS files and starts listening.
    pub fn bind(options: Options) -> Result<Server, BindError> {
        Server::bind_inheriting(options, &mut Vec::new())
    }

    /// The same, where a listener that is there for an address takes the place of a new one. Those
    /// of other addresses are left.
    pub fn bind_inheriting(
        mut options: Options,
        inherited: &mut Vec<TcpListener>,
    ) -> Result<Server, BindError> {
        if options.workers == 0 {
            options.workers = thread::available_parallelism().map_or(1, usize::from);
        }
        let counters = Arc::new(Counters::new(options.workers));
        let tls = options.tls.as_ref().map(|files| Tls::new(files, &counters)).transpose()?;
        if options.listen.is_empty() {
            return Err(BindError::NoAddress);
        }
        let mut listeners = Vec::with_capacity(options.listen.len());
        let mut addresses = Vec::with_capacity(options.listen.len());
        for address in std::mem::take(&mut options.listen) {
            let is_for = |listener: &TcpListener| listener.local_addr().ok() == Some(address);
            let listening = match inherited.iter().position(is_for) {
                Some(index) => take_over(inherited.swap_remove(index)),
                None => listen(address),
            };
            let (listener, bound) =
                listening.map_err(|error| BindError::Address(address, error))?;
            listeners.push(listener);
            addresses.push(bound);
        }
        Ok(Server { listeners, addresses, counters, tls, options })
    }

    /// The addresses listened on, in the order of the options, with the ports chosen.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// How many workers there will be.
    pub fn workers(&self) -> usize {
        self.options.workers
    }

    /// What has been done so far, also after the run.
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    /// Serves on the workers' threads until `drain` is started and all connections
    /// are closed or the time for that is over. Starts the drain if it fails.
    pub fn run<S: Service>(
        self,
        service: Arc<S>,
        drain: Drain,
        hooks: Hooks,
    ) -> Result<Drained, RunError> {
        // Also where not even a worker can be started: others may serve until the drain.
        let _stops_all = StopsAll(drain.clone());
        let Options { workers: count, limits, timeouts, cors, refuses_other_pages, .. } =
            self.options;
        if let Some(tls) = &self.tls {
            tls.watch(timeouts.certificates)?;
        }
        let shared = Arc::new(Shared {
            service,
            policy: Policy {
                cors,
                refuses_other_pages,
                hooks: hooks.clone(),
                drain: drain.clone(),
            },
            memory: ConnectionMemory::new(limits.max_connection_bytes, limits.max_connections),
            bodies: Budget::new(limits.max_unfinished_bytes, &timeouts),
            answers: Budget::new(limits.max_untaken_bytes, &timeouts),
            limits,
            timeouts,
            drain: drain.clone(),
            tls: self.tls.map(|tls| tls.acceptor),
        });
        let has_polling = self.options.has_idle_cores_poll;
        let idle_polling = IdlePolling::new(has_polling, Arc::clone(&self.counters));
        let (workers, lanes) = prepared(count, &self.counters, &Arc::new(idle_polling))?;
        let mut acceptor = Some(Acceptor {
            listeners: self.listeners,
            lanes: lanes.clone(),
            max_connections: shared.limits.max_connections,
            memory: Arc::clone(&shared.memory),
            is_tls: shared.tls.is_some(),
            drain: drain.clone(),
        });
        let mut threads = Vec::with_capacity(count);
        for (index, prepared) in workers.into_iter().enumerate() {
            let Prepared { runtime, worker, accepted } = prepared;
            let shared = Arc::clone(&shared);
            let per_worker = hooks.per_worker.clone();
            let stops_all = StopsAll(drain.clone());
            let acceptor = acceptor.take_if(|_| index == accept::HERE);
            let lanes = lanes.clone();
            let thread = thread::Builder::new().name(format!("worker-{index}"));
            threads.push(thread.spawn(move || {
                let _stops_all = stops_all;
                let companion = || per_worker.map(|per_worker| per_worker(index));
                let ways = Ways { accepted, acceptor, lanes };
                worker::run(&runtime, &worker, &shared, ways, companion)
            })?);
        }
        drop(lanes);
        let mut drained = Drained { cut_off: 0 };
        for (index, thread) in threads.into_iter().enumerate() {
            drained.cut_off += thread.join().map_err(|_| RunError::Worker(index))??;
        }
        Ok(drained)
    }
}

/// A worker without a thread yet.
struct Prepared {
    runtime: Runtime,
    worker: Arc<Worker>,
    /// Connections that are given to it.
    accepted: mpsc::Receiver<Accepted>,
}

/// Workers, and the lanes to them. Before anything is accepted: a runtime takes descriptors, and
/// may not get them.
fn prepared(
    count: usize,
    counters: &Arc<Counters>,
    idle_polling: &Arc<IdlePolling>,
) -> io::Result<(Vec<Prepared>, Lanes)> {
    let mut workers = Vec::with_capacity(count);
    let mut lanes = Vec::with_capacity(count);
    for index in 0..count {
        let worker = Worker::new(index, Arc::clone(counters), Arc::clone(idle_polling));
        let worker = Arc::new(worker);
        let (sender, accepted) = mpsc::channel(HANDOVER);
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        lanes.push(Lane { worker: Arc::clone(&worker), sender });
        workers.push(Prepared { runtime, worker, accepted });
    }
    Ok((workers, Lanes(lanes)))
}

/// When a worker ends, or none can be started, all end: normally we drain by then, and otherwise
/// something is wrong that must not leave every other connection unanswered.
struct StopsAll(Drain);

impl Drop for StopsAll {
    fn drop(&mut self) {
        self.0.start();
    }
}

fn listen(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    ready(socket)
}

fn take_over(listener: TcpListener) -> io::Result<(TcpListener, SocketAddr)> {
    let socket = Socket::from(listener);
    if !socket.is_listener()? {
        let what = "the socket that was handed over does not listen: systemd's Accept= must be no";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    ready(socket)
}

fn ready(socket: Socket) -> io::Result<(TcpListener, SocketAddr)> {
    socket.set_nonblocking(true)?;
    // Connections have these from their listener. They work without either, only less well.
    let _ = socket.set_tcp_nodelay(true);
    let _ = socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(TCP_KEEPALIVE));
    let listener = TcpListener::from(socket);
    let bound = listener.local_addr()?;
    Ok((listener, bound))
}
