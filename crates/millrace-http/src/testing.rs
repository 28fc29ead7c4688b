//! An HTTP/1.1 server that goes wrong as told: closes after N requests, drops connections without a
//! word, answers late, or answers something else.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

/// The server. It ends, with all its connections, when dropped.
#[derive(Debug)]
pub struct FaultServer {
    address: SocketAddr,
    scheme: &'static str,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

/// One request as it came in.
#[derive(Clone, Debug, Default)]
pub struct Request {
    pub method: String,
    /// Path and query.
    pub target: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
    /// Which connection it came over, counted from 1, and which request on it this was.
    pub connection: u64,
    pub position: u64,
}

/// What the server answers.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: Bytes,
}

/// What goes wrong with every request.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServerFaults {
    pub close_after: Option<CloseAfter>,
    /// Every answer comes that much later.
    pub delay: Duration,
}

/// Connections end after that many requests.
#[derive(Clone, Copy, Debug)]
pub struct CloseAfter {
    pub requests: u64,
    pub ending: Ending,
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The last answer says `Connection: close`.
    Announced,
    /// Closed right after the last answer, without a word.
    Silent,
    /// Closed when the next request comes: the client has no way to know before.
    UnderRequest,
}

/// What goes wrong with one request.
#[derive(Clone, Debug)]
pub enum ServerFault {
    /// It is not carried out; this is the answer.
    Reply(Reply),
    /// It is not carried out, and the connection is closed instead of an answer.
    Drop,
    /// It is carried out, and the connection is closed instead of an answer.
    DropAnswer,
    /// It is carried out, and the connection is closed within the answer.
    CutAnswer,
    /// It is carried out, and no answer ever comes.
    Hang,
}

type Answering = Pin<Box<dyn Future<Output = Reply> + Send>>;
type Handler = dyn Fn(Request) -> Answering + Send + Sync;

struct Shared {
    handler: Box<Handler>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    faults: ServerFaults,
    planned: VecDeque<ServerFault>,
    requests: Vec<Request>,
    connections: u64,
    ended: u64,
}

impl FaultServer {
    /// Listens on a free port of 127.0.0.1 and answers with `handler`.
    ///
    /// # Errors
    ///
    /// If there is no free port.
    pub async fn start<F>(
        handler: impl Fn(Request) -> F + Send + Sync + 'static,
    ) -> io::Result<FaultServer>
    where
        F: Future<Output = Reply> + Send + 'static,
    {
        FaultServer::listen(None, handler).await
    }

    /// The same over TLS.
    ///
    /// # Errors
    ///
    /// If there is no free port.
    pub async fn start_tls<F>(
        config: Arc<rustls::ServerConfig>,
        handler: impl Fn(Request) -> F + Send + Sync + 'static,
    ) -> io::Result<FaultServer>
    where
        F: Future<Output = Reply> + Send + 'static,
    {
        FaultServer::listen(Some(TlsAcceptor::from(config)), handler).await
    }

    async fn listen<F>(
        tls: Option<TlsAcceptor>,
        handler: impl Fn(Request) -> F + Send + Sync + 'static,
    ) -> io::Result<FaultServer>
    where
        F: Future<Output = Reply> + Send + 'static,
    {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let handler: Box<Handler> = Box::new(move |request| Box::pin(handler(request)));
        let shared = Arc::new(Shared { handler, state: Mutex::default() });
        let task = tokio::spawn(accept(listener, tls, Arc::clone(&shared)));
        Ok(FaultServer { address, scheme, shared, task })
    }

    /// `http://127.0.0.1:PORT`, or `https://localhost:PORT`.
    pub fn url(&self) -> String {
        let host = if self.scheme == "https" { "localhost" } else { "127.0.0.1" };
        format!("{}://{host}:{}", self.scheme, self.address.port())
    }

    /// What goes wrong from now on.
    pub fn set_faults(&self, faults: ServerFaults) {
        self.shared.state().faults = faults;
    }

    /// Plans a fault for the next request that has none yet.
    pub fn plan(&self, fault: ServerFault) {
        self.shared.state().planned.push_back(fault);
    }

    /// All requests so far, faulty ones included.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.state().requests.clone()
    }

    /// Connections accepted so far.
    pub fn connections(&self) -> u64 {
        self.shared.state().connections
    }

    /// Connections so far that ended.
    pub fn ended(&self) -> u64 {
        self.shared.state().ended
    }
}

impl Drop for FaultServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Request {
    /// The first header of that name, given in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl Reply {
    /// An answer of JSON.
    pub fn json(status: u16, body: impl Into<Bytes>) -> Reply {
        let headers = vec![("content-type", "application/json".to_owned())];
        Reply { status, headers, body: body.into() }
    }

    fn bytes(&self, ending: Option<Ending>) -> Vec<u8> {
        let mut out = format!("HTTP/1.1 {} x\r\n", self.status).into_bytes();
        for (name, value) in &self.headers {
            out.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        if ending == Some(Ending::Announced) {
            out.extend_from_slice(b"connection: close\r\n");
        }
        out.extend_from_slice(format!("content-length: {}\r\n\r\n", self.body.len()).as_bytes());
        out.extend_from_slice(&self.body);
        out
    }
}

impl Shared {
    /// A lock because connections and the test share it; never held across an await.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Shared").field("state", &self.state).finish_non_exhaustive()
    }
}

async fn accept(listener: TcpListener, tls: Option<TlsAcceptor>, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        connections.spawn(secure(stream, tls.clone(), Arc::clone(&shared)));
    }
}

/// Whatever ends a connection is the client's business.
async fn secure(stream: TcpStream, tls: Option<TlsAcceptor>, shared: Arc<Shared>) {
    let _ = stream.set_nodelay(true);
    let _ended = match tls {
        None => serve(stream, &shared).await,
        Some(tls) => match tls.accept(stream).await {
            Ok(stream) => serve(stream, &shared).await,
            Err(error) => Err(error),
        },
    };
    shared.state().ended += 1;
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    shared: &Shared,
) -> io::Result<()> {
    let connection = {
        let mut state = shared.state();
        state.connections += 1;
        state.connections
    };
    let mut input = BytesMut::new();
    let mut position = 0;
    while let Some(request) = read_request(&mut stream, &mut input).await? {
        position += 1;
        let request = Request { connection, position, ..request };
        let (faults, planned) = {
            let mut state = shared.state();
            state.requests.push(request.clone());
            (state.faults, state.planned.pop_front())
        };
        let ending = match faults.close_after {
            Some(CloseAfter { requests, ending: Ending::UnderRequest }) if position > requests => {
                return Ok(());
            }
            Some(close) if position >= close.requests && close.ending != Ending::UnderRequest => {
                Some(close.ending)
            }
            _ => None,
        };
        let reply = match &planned {
            Some(ServerFault::Drop) => return Ok(()),
            Some(ServerFault::Reply(reply)) => reply.clone(),
            _ => (shared.handler)(request).await,
        };
        tokio::time::sleep(faults.delay).await;
        let bytes = reply.bytes(ending);
        match planned {
            Some(ServerFault::DropAnswer) => return Ok(()),
            Some(ServerFault::CutAnswer) => {
                let half = bytes.get(..bytes.len() / 2).unwrap_or_default();
                return stream.write_all(half).await;
            }
            Some(ServerFault::Hang) => std::future::pending().await,
            _ => stream.write_all(&bytes).await?,
        }
        stream.flush().await?;
        if ending.is_some() {
            return stream.shutdown().await;
        }
    }
    Ok(())
}

/// The next request; `None` at the end of the connection.
async fn read_request<S: AsyncRead + Unpin>(
    stream: &mut S,
    input: &mut BytesMut,
) -> io::Result<Option<Request>> {
    loop {
        if let Some((request, head_bytes, body_bytes)) = parse_head(input)?
            && input.len() >= head_bytes + body_bytes
        {
            input.advance(head_bytes);
            return Ok(Some(Request { body: input.split_to(body_bytes).freeze(), ..request }));
        }
        if stream.read_buf(input).await? == 0 {
            return Ok(None);
        }
    }
}

/// The request without its body, and the bytes of both.
fn parse_head(input: &[u8]) -> io::Result<Option<(Request, usize, usize)>> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut parsed = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(head_bytes) = parsed.parse(input).map_err(io::Error::other)?
    else {
        return Ok(None);
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let headers: Vec<_> = parsed
        .headers
        .iter()
        .map(|header| (header.name.to_ascii_lowercase(), text(header.value)))
        .collect();
    let request = Request {
        method: parsed.method.unwrap_or_default().to_owned(),
        target: parsed.path.unwrap_or_default().to_owned(),
        headers,
        ..Request::default()
    };
    let length = request.header("content-length").map_or(Ok(0), str::parse);
    Ok(Some((request, head_bytes, length.map_err(io::Error::other)?)))
}
