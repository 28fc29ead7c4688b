//! One HTTP/1.1 connection with one request under way: one write, and as a rule one read.

use std::{
    io,
    net::SocketAddr,
    pin::pin,
    sync::Arc,
    task::{Context, Waker},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::{
    endpoint::{Endpoint, Tls},
    response::{self, Answer, Input},
};

/// Longer than the longest long poll, 20 s.
pub(super) const TIMEOUT: Duration = Duration::from_secs(60);
/// Holds a receive of ten messages of 1 KB.
const INPUT_BYTES: usize = 32 << 10;

pub(crate) struct Connection {
    address: SocketAddr,
    tls: Option<Tls>,
    socket: Option<Socket>,
    input: Vec<u8>,
    /// Since it was last asked.
    events: Events,
}

/// What happened to a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Events {
    pub(crate) opened: u64,
    /// How often the server ended it, whether it said so or not.
    pub(crate) closed_by_server: u64,
    /// Requests that may have reached the server, and had no answer.
    pub(crate) unanswered: u64,
}

enum Socket {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Connection {
    pub(crate) fn new(endpoint: &Endpoint) -> Connection {
        Connection {
            address: endpoint.address,
            tls: endpoint.tls.clone(),
            socket: None,
            input: Vec::new(),
            events: Events::default(),
        }
    }

    /// Opens the connection, unless it is open.
    pub(crate) async fn connect(&mut self) -> Result<()> {
        if self.socket.is_none() {
            let socket = timeout(TIMEOUT, Socket::connect(self.address, self.tls.as_ref())).await;
            self.socket = Some(socket.context("connecting takes too long")??);
            self.events.opened += 1;
        }
        Ok(())
    }

    /// Sends a request and returns status and body. After an error, and when dropped while it
    /// waits, the connection is gone and the next request opens another.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> Result<(u16, &[u8])> {
        self.leave_if_ended();
        self.connect().await?;
        let Some(mut socket) = self.socket.take() else { bail!("not connected") };
        let outcome = timeout(TIMEOUT, self.answer(&mut socket, request)).await;
        let answer = match outcome.context("no answer in time").flatten() {
            Ok(answer) => answer,
            Err(error) => {
                self.events.unanswered += 1;
                return Err(error);
            }
        };
        if answer.closes {
            self.events.closed_by_server += 1;
        } else {
            self.socket = Some(socket);
        }
        Ok((answer.status, self.input.get(answer.body).unwrap_or_default()))
    }

    /// A server may end a connection that is idle: then the next request opens another, as it does
    /// with any client. Whatever comes unasked is nothing to go on with either.
    fn leave_if_ended(&mut self) {
        let Some(socket) = &mut self.socket else { return };
        self.input.clear();
        let mut nobody = Context::from_waker(Waker::noop());
        if pin!(socket.read_buf(&mut self.input)).poll(&mut nobody).is_ready() {
            self.events.closed_by_server += 1;
            self.socket = None;
        }
    }

    /// What has happened since it was last asked.
    pub(crate) fn take_events(&mut self) -> Events {
        std::mem::take(&mut self.events)
    }

    async fn answer(&mut self, socket: &mut Socket, request: &[u8]) -> Result<Answer> {
        if let Err(error) = socket.write_all(request).await {
            self.events.closed_by_server += 1;
            return Err(error).context("sending");
        }
        self.input.clear();
        loop {
            self.input.reserve(INPUT_BYTES);
            match socket.read_buf(&mut self.input).await {
                Ok(0) => {
                    if let Some(answer) = response::parse(&mut self.input, Input::Ended)? {
                        return Ok(answer);
                    }
                    self.events.closed_by_server += 1;
                    bail!("the server closed the connection instead of answering");
                }
                Ok(_) => {}
                Err(error) => {
                    self.events.closed_by_server += 1;
                    return Err(error).context("receiving");
                }
            }
            if let Some(answer) = response::parse(&mut self.input, Input::Open)? {
                return Ok(answer);
            }
        }
    }
}

impl Socket {
    async fn connect(address: SocketAddr, tls: Option<&Tls>) -> Result<Socket> {
        let socket = TcpStream::connect(address).await.context("connecting")?;
        socket.set_nodelay(true).context("TCP_NODELAY")?;
        let Some(tls) = tls else { return Ok(Socket::Plain(socket)) };
        let connector = TlsConnector::from(Arc::clone(&tls.config));
        let socket = connector.connect(tls.name.clone(), socket).await.context("TLS handshake")?;
        Ok(Socket::Tls(Box::new(socket)))
    }

    async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Socket::Plain(socket) => socket.write_all(bytes).await,
            Socket::Tls(socket) => {
                socket.write_all(bytes).await?;
                socket.flush().await
            }
        }
    }

    async fn read_buf(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        match self {
            Socket::Plain(socket) => socket.read_buf(buffer).await,
            Socket::Tls(socket) => socket.read_buf(buffer).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use millrace_client::testing::{
        CloseAfter, Ending, FaultServer, Reply, ServerFault, ServerFaults,
    };
    use tokio::task::yield_now;

    use super::*;

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\n\r\n";

    async fn server() -> FaultServer {
        FaultServer::start(|_| async { Reply::json(200, "x".repeat(1000)) }).await.unwrap()
    }

    #[tokio::test]
    async fn a_connection_that_the_server_ended_while_it_was_idle_is_opened_anew() {
        let server = server().await;
        let close_after = Some(CloseAfter { requests: 1, ending: Ending::Silent });
        server.set_faults(ServerFaults { close_after, ..ServerFaults::default() });
        let mut connection = Connection::new(&Endpoint::open(&server.url()));

        for ended in 1..=2 {
            assert_eq!(connection.exchange(REQUEST).await.unwrap().0, 200);
            while server.ended() < ended {
                yield_now().await;
            }
            // The runtime looks at its sockets before it goes on here.
            yield_now().await;
        }

        let events = Events { opened: 2, closed_by_server: 1, unanswered: 0 };
        assert_eq!(connection.take_events(), events);
    }

    #[tokio::test]
    async fn a_request_without_its_whole_answer_is_unanswered_and_one_that_never_left_is_not() {
        let server = server().await;
        let mut connection = Connection::new(&Endpoint::open(&server.url()));
        server.plan(ServerFault::CutAnswer);

        assert!(connection.exchange(REQUEST).await.is_err());
        assert_eq!(connection.take_events().unanswered, 1);

        drop(server);
        yield_now().await;
        assert!(connection.exchange(REQUEST).await.is_err());
        assert_eq!(connection.take_events(), Events::default());
    }
}
