//! Accepting, as a task of the first worker: a connection that stays there costs no other thread's
//! waking, which the first request of a connection would wait for.
//!
//! Each connection goes to the first worker that has time (see `load`), if it can move on when that
//! turns out wrong; with TLS it cannot, and goes to the worker with the fewest.

use std::{
    future::poll_fn,
    io::{self, Write},
    net::SocketAddr,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::AsyncReadExt,
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

use crate::{
    Closed, Drain,
    connection_memory::ConnectionMemory,
    lanes::Lanes,
    worker::{Accepted, Stream},
};

/// The worker that accepts.
pub(crate) const HERE: usize = 0;

/// Refused connections that are told why at the same time; more are just closed.
const MAX_REFUSALS: usize = 64;

/// What a refused connection is told.
const REFUSAL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 21\r\n\
    Content-Type: text/plain\r\nRetry-After: 1\r\nConnection: close\r\n\r\ntoo many connections\n";

/// How long a refused connection is read until it is closed.
const REFUSAL_LINGER: Duration = Duration::from_secs(1);

/// How long accepting rests when the process is out of descriptors or memory.
const ACCEPT_REST: Duration = Duration::from_millis(100);

/// Connections that may be open beyond the limit for a moment: others were cut off for them.
const LEAVING_MAX: usize = 16;

/// The length of a rest while more than that are about to close, and the maximum number of rests.
const LEAVING_REST: Duration = Duration::from_millis(1);
const LEAVING_RESTS: usize = 1_000;

/// What a connection takes of memory by being there, measured with a margin: its task, its entries
/// in the tables of worker and runtime.
const PLAIN_BYTES: usize = 8 * 1024;
/// The same with TLS: keys, and buffers of records both ways.
const TLS_BYTES: usize = 24 * 1024;

/// Accepts on all listeners and hands the connections out.
pub(crate) struct Acceptor {
    pub(crate) listeners: Vec<std::net::TcpListener>,
    pub(crate) lanes: Lanes,
    pub(crate) max_connections: usize,
    pub(crate) memory: Arc<ConnectionMemory>,
    pub(crate) is_tls: bool,
    pub(crate) drain: Drain,
}

impl Acceptor {
    /// Runs until drained; closes the listeners then. Starts the drain if it fails.
    pub(crate) async fn run(mut self) -> io::Result<()> {
        let accepted = self.accept_all().await;
        if accepted.is_err() {
            self.drain.start();
        }
        accepted
    }

    async fn accept_all(&mut self) -> io::Result<()> {
        let listeners = self.listeners.drain(..).map(TcpListener::from_std);
        let listeners: Vec<_> = listeners.collect::<io::Result<_>>()?;
        let drain = self.drain.clone();
        let started = drain.started();
        tokio::pin!(started);
        let mut refusals = JoinSet::new();
        let mut first = 0;
        loop {
            first = (first + 1) % listeners.len().max(1);
            let next = tokio::select! {
                () = &mut started => break,
                Some(ended) = refusals.join_next() => { let _: Result<(), _> = ended; continue }
                next = poll_fn(|task| poll_accept(&listeners, first, task)) => next,
            };
            match next {
                Ok((stream, peer)) => self.take(stream, peer, &mut refusals).await,
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_REST).await;
                }
            }
        }
        refusals.shutdown().await;
        Ok(())
    }

    async fn take(&self, stream: TcpStream, peer: SocketAddr, refusals: &mut JoinSet<()>) {
        if let Some(stream) = self.hand_over(stream, peer).await {
            if let Some(lane) = self.lanes.0.first() {
                lane.worker.cell().opened();
                lane.worker.cell().closed(Closed::Refused);
            }
            if !self.is_tls && refusals.len() < MAX_REFUSALS {
                refusals.spawn(refuse(stream));
            }
        }
    }

    /// How many connections there would be beyond the limit with one more. Those that were cut off
    /// close in a moment, on a busy machine in a longer one.
    async fn wait_for_leaving(&self) -> usize {
        let over = || (self.lanes.open() + 1).saturating_sub(self.max_connections);
        for _ in 0..LEAVING_RESTS {
            if over() <= LEAVING_MAX {
                break;
            }
            tokio::time::sleep(LEAVING_REST).await;
        }
        over()
    }

    /// Hands a connection to a worker; gives it back if there are too many.
    async fn hand_over(&self, stream: TcpStream, peer: SocketAddr) -> Option<TcpStream> {
        let over = self.wait_for_leaving().await;
        if over > LEAVING_MAX || (over > 0 && !self.memory.cut_a_stranger()) {
            return Some(stream);
        }
        let lane = if self.is_tls { self.lanes.fewest() } else { self.lanes.first_with_time() }?;
        let bytes = if self.is_tls { TLS_BYTES } else { PLAIN_BYTES };
        let Some(share) = self.memory.admit(bytes) else { return Some(stream) };
        let place = lane.worker.place(share);
        let stream = match lane.worker.index {
            HERE => Stream::Watched(stream),
            _ => match stream.into_std() {
                Ok(stream) => Stream::Unwatched(stream),
                Err(error) => {
                    tracing::warn!(%peer, %error, "connection cannot be handed over");
                    return None;
                }
            },
        };
        // Fails only when the worker is gone, and then the server is about to say so.
        let _ = lane.sender.send(Accepted { stream, peer, place, unread: None }).await;
        None
    }
}

/// The next connection of any listener; all have their turn to be first.
fn poll_accept(
    listeners: &[TcpListener],
    first: usize,
    task: &mut Context<'_>,
) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
    let (before, from) = listeners.split_at(first);
    for listener in from.iter().chain(before) {
        if let Poll::Ready(accepted) = listener.poll_accept(task) {
            return Poll::Ready(accepted);
        }
    }
    Poll::Pending
}

fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
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
