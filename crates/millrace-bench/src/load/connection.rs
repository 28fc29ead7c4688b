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
    /// How often the server ended the connection, whether it said so or not.
    closed_by_server: u64,
    /// How often it was opened.
    opened: u64,
    /// Requests that may have reached the server, and had no answer.
    unanswered: u64,
}

/// What happened to a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Events {
    pub(crate) opened: u64,
    pub(crate) closed_by_server: u64,
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
            closed_by_server: 0,
            opened: 0,
            unanswered: 0,
        }
    }

    /// Opens the connection, unless it is open.
    pub(crate) async fn connect(&mut self) -> Result<()> {
        if self.socket.is_none() {
            let socket = timeout(TIMEOUT, Socket::connect(self.address, self.tls.as_ref())).await;
            self.socket = Some(socket.context("connecting takes too long")??);
            self.opened += 1;
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
                self.unanswered += 1;
                return Err(error);
            }
        };
        if answer.closes {
            self.closed_by_server += 1;
        } else {
            self.socket = Some(socket);
        }
        Ok((answer.status, self.input.get(answer.body).unwrap_or_default()))
    }

    /// A server may end a connection that is idle: then the next request opens another, as it does with
    /// any client. Whatever comes unasked is nothing to go on with either.
    fn leave_if_ended(&mut self) {
        let Some(socket) = &mut self.socket else { return };
        self.input.clear();
        let mut nobody = Context::from_waker(Waker::noop());
        if pin!(socket.read_buf(&mut self.input)).poll(&mut nobody).is_ready() {
            self.closed_by_server += 1;
            self.socket = None;
        }
    }

    /// What has happened since it was last asked.
    pub(crate) fn take_events(&mut self) -> Events {
        Events {
            opened: std::mem::take(&mut self.opened),
            closed_by_server: std::mem::take(&mut self.closed_by_server),
            unanswered: std::mem::take(&mut self.unanswered),
        }
    }

    async fn answer(&mut self, socket: &mut Socket, request: &[u8]) -> Result<Answer> {
        if let Err(error) = socket.write_all(request).await {
            self.closed_by_server += 1;
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
                    self.closed_by_server += 1;
                    bail!("the server closed the connection instead of answering");
                }
                Ok(_) => {}
                Err(error) => {
                    self.closed_by_server += 1;
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
    use tokio::net::TcpListener;

    use super::*;
    use crate::{access::Access, tls::Trust};

    #[tokio::test]
    async fn a_connection_that_the_server_ended_while_it_was_idle_is_opened_anew() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let endpoint = Endpoint::new(&url, &Access::open(), &Trust::default()).unwrap();
        let mut connection = Connection::new(&endpoint);
        let answer_once = async || {
            let (mut socket, _) = listener.accept().await.unwrap();
            socket.read_exact(&mut [0; 2]).await.unwrap();
            socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await.unwrap();
        };

        for _ in 0..2 {
            let asked = async { connection.exchange(b"hi").await.map(|(status, _)| status) };
            let (status, ()) = tokio::join!(asked, answer_once());
            assert_eq!(status.unwrap(), 200);
            // The end arrives.
            tokio::time::sleep(Duration::from_millis(50)).await;
        }

        let events = Events { opened: 2, closed_by_server: 1, unanswered: 0 };
        assert_eq!(connection.take_events(), events);
    }

    #[tokio::test]
    async fn a_request_without_its_whole_answer_is_unanswered_and_one_that_never_left_is_not() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let endpoint = Endpoint::new(&url, &Access::open(), &Trust::default()).unwrap();
        let mut connection = Connection::new(&endpoint);
        let cut = async {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut input = [0; 64];
            socket.read_exact(&mut input[..2]).await.unwrap();
            socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf").await.unwrap();
            drop((socket, listener));
        };

        let (outcome, ()) = tokio::join!(async { connection.exchange(b"hi").await.is_err() }, cut);
        assert!(outcome);
        assert_eq!(connection.take_events().unanswered, 1);

        assert!(connection.exchange(b"hi").await.is_err());
        assert_eq!(connection.take_events(), Events::default());
    }
}
