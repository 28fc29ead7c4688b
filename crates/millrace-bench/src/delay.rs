//! A round-trip time between us and the endpoint: a TCP proxy of our own on loopback, which holds
//! back what passes by half of it each way.
//!
//! Many experiments are about waiting for a network; on one machine there is none. Opening a
//! connection is not delayed, what goes over it is, TLS handshakes included. Timers make it up to
//! two milliseconds more. At most [`CHUNKS`] chunks are on their way in a direction; beyond them
//! the sender waits.

use std::{
    net::SocketAddr,
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Context, Result};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{Notify, mpsc},
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};

use crate::{load::Endpoint, process::ExcludedThread};

const CHUNKS: usize = 256;
const CHUNK_BYTES: usize = 64 << 10;
/// As finely as CPU is told.
const ACCOUNT_TURN: Duration = Duration::from_millis(10);

/// Ends when dropped.
pub(crate) struct Delay {
    /// Connect here instead of to the endpoint.
    pub(crate) address: SocketAddr,
    stop: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

impl Delay {
    /// Sends what goes to `endpoint` from now on by way of a delay, unless the round trip is zero.
    pub(crate) fn put_before(
        endpoint: &mut Endpoint,
        round_trip: Duration,
    ) -> Result<Option<Delay>> {
        if round_trip.is_zero() {
            return Ok(None);
        }
        let delay = Delay::start(endpoint.address, round_trip)?;
        endpoint.address = delay.address;
        Ok(Some(delay))
    }

    pub(crate) fn start(endpoint: SocketAddr, round_trip: Duration) -> Result<Delay> {
        let runtime = crate::runtime::current_thread()?;
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"));
        let listener = listener.context("listening for the delay")?;
        let address = listener.local_addr().context("local address")?;
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        let thread = thread::Builder::new().name("delay".to_owned()).spawn(move || {
            let mut account = ExcludedThread::new();
            runtime.block_on(async {
                tokio::select! {
                    () = accept(listener, endpoint, round_trip / 2) => {}
                    () = stopped.notified() => {}
                    () = keep(&mut account) => {}
                }
            });
            account.note();
        });
        Ok(Delay { address, stop, thread: Some(thread.context("starting the delay")?) })
    }
}

impl Drop for Delay {
    fn drop(&mut self) {
        self.stop.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The way is no part of the client that it is measured with.
async fn keep(account: &mut ExcludedThread) {
    loop {
        sleep(ACCOUNT_TURN).await;
        account.note();
    }
}

async fn accept(listener: TcpListener, endpoint: SocketAddr, half: Duration) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        connections.spawn(async move {
            let Ok(server) = TcpStream::connect(endpoint).await else { return };
            if client.set_nodelay(true).is_err() || server.set_nodelay(true).is_err() {
                return;
            }
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            tokio::join!(pass(from_client, to_server, half), pass(from_server, to_client, half));
        });
    }
}

/// Passes everything on after `half`, the end as well.
async fn pass(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, half: Duration) {
    let (chunks, mut due) = mpsc::channel::<(Instant, Vec<u8>)>(CHUNKS);
    let read = async move {
        loop {
            let mut chunk = Vec::with_capacity(CHUNK_BYTES);
            if !from.read_buf(&mut chunk).await.is_ok_and(|count| count > 0) {
                return;
            }
            if chunks.send((Instant::now() + half, chunk)).await.is_err() {
                return;
            }
        }
    };
    let write = async move {
        while let Some((at, chunk)) = due.recv().await {
            sleep_until(at).await;
            if to.write_all(&chunk).await.is_err() {
                return;
            }
        }
        let _ = to.shutdown().await;
    };
    tokio::join!(read, write);
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::{TcpListener, TcpStream},
    };

    use super::*;
    use crate::process::excluded_cpu_time;

    #[test]
    fn an_answer_takes_the_round_trip_and_the_end_passes_too() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let echo = thread::spawn(move || {
            let (mut socket, _) = server.accept().unwrap();
            let mut word = [0; 4];
            socket.read_exact(&mut word).unwrap();
            socket.write_all(&word).unwrap();
        });
        let delay = Delay::start(address, Duration::from_millis(20)).unwrap();

        let started = std::time::Instant::now();
        let before = excluded_cpu_time();
        let mut socket = TcpStream::connect(delay.address).unwrap();
        socket.write_all(b"ping").unwrap();
        let mut answer = Vec::new();
        socket.read_to_end(&mut answer).unwrap();

        assert_eq!(answer, b"ping");
        assert!(started.elapsed() >= Duration::from_millis(20));
        echo.join().unwrap();

        // It ends with its account.
        drop(delay);
        assert!(excluded_cpu_time() > before);
    }
}
