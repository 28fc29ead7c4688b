//! One HTTP/1.1 connection with one request under way: one write, and as a rule one read.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context, Result, bail};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use super::response::{self, Answer};

/// Longer than the longest long poll, 20 s.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Holds a receive of ten messages of 1 KB.
const INPUT_BYTES: usize = 32 << 10;

pub(crate) struct Connection {
    address: SocketAddr,
    socket: Option<TcpStream>,
    input: Vec<u8>,
    /// How often the server ended the connection, whether it said so or not.
    closed_by_server: u64,
}

impl Connection {
    pub(crate) fn new(address: SocketAddr) -> Connection {
        Connection { address, socket: None, input: Vec::new(), closed_by_server: 0 }
    }

    /// Opens the connection, unless it is open.
    pub(crate) async fn connect(&mut self) -> Result<()> {
        if self.socket.is_none() {
            let socket = timeout(TIMEOUT, TcpStream::connect(self.address)).await;
            let socket = socket.context("connecting takes too long")?.context("connecting")?;
            socket.set_nodelay(true).context("TCP_NODELAY")?;
            self.socket = Some(socket);
        }
        Ok(())
    }

    /// Sends a request and returns status and body. After an error, and when dropped while it
    /// waits, the connection is gone and the next request opens another.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> Result<(u16, &[u8])> {
        self.connect().await?;
        let Some(mut socket) = self.socket.take() else { bail!("not connected") };
        let outcome = timeout(TIMEOUT, self.answer(&mut socket, request)).await;
        let answer = outcome.context("no answer in time")??;
        if answer.closes {
            self.closed_by_server += 1;
        } else {
            self.socket = Some(socket);
        }
        Ok((answer.status, self.input.get(answer.body).unwrap_or_default()))
    }

    /// The number of closes since it was last asked.
    pub(crate) fn take_closed_by_server(&mut self) -> u64 {
        std::mem::take(&mut self.closed_by_server)
    }

    async fn answer(&mut self, socket: &mut TcpStream, request: &[u8]) -> Result<Answer> {
        if let Err(error) = socket.write_all(request).await {
            self.closed_by_server += 1;
            return Err(error).context("sending");
        }
        self.input.clear();
        loop {
            self.input.reserve(INPUT_BYTES);
            match socket.read_buf(&mut self.input).await {
                Ok(0) => {
                    self.closed_by_server += 1;
                    bail!("the server closed the connection instead of answering");
                }
                Ok(_) => {}
                Err(error) => {
                    self.closed_by_server += 1;
                    return Err(error).context("receiving");
                }
            }
            if let Some(answer) = response::parse(&mut self.input)? {
                return Ok(answer);
            }
        }
    }
}
