//! A server with a fake service, and a client that sees every byte.

use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{Arc, mpsc},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use millrace_server::{Counters, Drain, Drained, Hooks, Options, Server, Totals};
use millrace_wire::{BodyStream, Judgement, Request, Response, Service, Tenant, Unsent};

/// Long enough for a busy machine; only a failing test waits that long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// What the fake service saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A call to `/hold` is waiting.
    Held,
    /// A waiting call was dropped before it had answered.
    Dropped,
    /// What the answer of `/big` handed out was taken back.
    TakenBack,
}

/// Answers by path: `/echo` with what it got, `/hold` when drained or released, `/big/N` with N
/// bytes, `/empty` with 204, `/stream` with what the test pushes, `/worker` with the name of its
/// thread, `/spin` likewise after keeping it busy, all else with `ok`.
pub(crate) struct Fake {
    drain: Drain,
    events: mpsc::Sender<Event>,
    release: tokio::sync::Semaphore,
    /// Pieces of the latest `/stream`.
    pieces: std::sync::Mutex<Option<tokio::sync::mpsc::Sender<Vec<u8>>>>,
}

/// A body of the pieces that the test pushes.
struct Pieces {
    pieces: tokio::sync::mpsc::Receiver<Vec<u8>>,
    events: mpsc::Sender<Event>,
}

impl BodyStream for Pieces {
    fn poll_next(&mut self, task: &mut std::task::Context<'_>) -> std::task::Poll<Option<Vec<u8>>> {
        self.pieces.poll_recv(task)
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        let _ = self.events.send(Event::Dropped);
    }
}

struct Guard<'a> {
    events: &'a mpsc::Sender<Event>,
    has_answered: bool,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if !self.has_answered {
            let _ = self.events.send(Event::Dropped);
        }
    }
}

impl Service for Fake {
    async fn call(&self, request: Request<'_>) -> Response {
        let tenant = tenant_of(&request);
        let admitted = request.header("x-stranger").is_none().then_some(tenant);
        Response { admitted, ..self.answer(request).await }
    }

    /// By `X-Stranger`: `refused` by the head alone, or `claimed`.
    fn judge(&self, head: &Request<'_>) -> Judgement {
        match head.header("x-stranger") {
            Some("refused") => {
                Judgement::Refused(Box::new(Response::new(403, "text/plain", "refused")))
            }
            Some(_) => Judgement::Claimed(tenant_of(head)),
            None => Judgement::Admitted,
        }
    }
}

/// As `X-Tenant` says.
fn tenant_of(request: &Request<'_>) -> Tenant {
    let number = request.header("x-tenant").and_then(|number| number.parse().ok());
    Tenant(number.unwrap_or_default())
}

impl Fake {
    async fn answer(&self, request: Request<'_>) -> Response {
        match request.path {
            "/echo" => echo(&request),
            "/hold" => self.hold().await,
            "/stream" => self.stream(),
            "/worker" => worker(),
            "/spin" => {
                let began = Instant::now();
                while began.elapsed() < Duration::from_micros(500) {
                    std::hint::spin_loop();
                }
                worker()
            }
            "/empty" => Response { status: 204, ..Response::default() },
            "/evil" => Response {
                headers: vec![("X-Evil", "a\r\nInjected: yes".into())],
                ..Response::new(200, "", "ok")
            },
            path => match path.strip_prefix("/big/").and_then(|size| size.parse().ok()) {
                Some(size) => {
                    let events = self.events.clone();
                    let unsent = Unsent::new(move || events.send(Event::TakenBack).unwrap());
                    let answer = Response::new(200, "text/plain", vec![b'x'; size]);
                    Response { unsent: Some(unsent), ..answer }
                }
                None => Response::new(200, "text/plain", "ok"),
            },
        }
    }

    fn stream(&self) -> Response {
        let (sender, pieces) = tokio::sync::mpsc::channel(8);
        *self.pieces.lock().unwrap() = Some(sender);
        self.events.send(Event::Held).unwrap();
        Response {
            stream: Some(Box::new(Pieces { pieces, events: self.events.clone() })),
            ..Response::new(200, "text/event-stream", "")
        }
    }

    async fn hold(&self) -> Response {
        let mut guard = Guard { events: &self.events, has_answered: false };
        self.events.send(Event::Held).unwrap();
        tokio::select! {
            () = self.drain.started() => {}
            permit = self.release.acquire() => permit.unwrap().forget(),
        }
        guard.has_answered = true;
        Response::new(200, "text/plain", "released")
    }
}

fn worker() -> Response {
    Response::new(200, "text/plain", std::thread::current().name().unwrap_or_default())
}

fn echo(request: &Request<'_>) -> Response {
    let mut body = format!("{} {} {}\n", request.method, request.path, request.query).into_bytes();
    body.extend_from_slice(request.body);
    Response {
        headers: vec![
            ("X-Host", request.header("HOST").unwrap_or("none").to_owned()),
            ("X-Tls", request.is_tls.to_string()),
        ],
        ..Response::new(200, "text/plain", body)
    }
}

/// A running server. Stopped when dropped.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) drain: Drain,
    pub(crate) counters: Arc<Counters>,
    pub(crate) service: Arc<Fake>,
    pub(crate) events: mpsc::Receiver<Event>,
    thread: Option<JoinHandle<Drained>>,
}

/// Options for a test: one worker, a free port, precise deadlines. No body or answer makes room for
/// others because it stands still, as it may where the machine is slow.
pub(crate) fn options() -> Options {
    let mut options =
        Options { listen: vec!["127.0.0.1:0".parse().unwrap()], workers: 1, ..Options::default() };
    options.timeouts.sweep = Duration::from_millis(5);
    options.timeouts.still = Duration::from_secs(3600);
    options.timeouts.long = Duration::from_secs(3600);
    options
}

pub(crate) fn start() -> Running {
    start_with(options(), Hooks::default())
}

/// With other options than [`options`].
pub(crate) fn start_where(change: impl FnOnce(&mut Options)) -> Running {
    let mut options = options();
    change(&mut options);
    start_with(options, Hooks::default())
}

pub(crate) fn start_with(options: Options, hooks: Hooks) -> Running {
    let server = Server::bind(options).unwrap();
    let drain = Drain::new();
    let (sender, events) = mpsc::channel();
    let service = Arc::new(Fake {
        drain: drain.clone(),
        events: sender,
        release: tokio::sync::Semaphore::new(0),
        pieces: std::sync::Mutex::default(),
    });
    let addresses = server.addresses().to_vec();
    let counters = server.counters();
    let for_run = (Arc::clone(&service), drain.clone());
    let thread = std::thread::spawn(move || server.run(for_run.0, for_run.1, hooks).unwrap());
    Running {
        address: addresses[0],
        addresses,
        drain,
        counters,
        service,
        events,
        thread: Some(thread),
    }
}

impl Running {
    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    pub(crate) fn event(&self) -> Event {
        self.events.recv_timeout(PATIENCE).unwrap()
    }

    /// As [`Running::event`], letting the client's tasks go on meanwhile.
    pub(crate) async fn event_meanwhile(&self) -> Event {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Ok(event) = self.events.try_recv() {
                return event;
            }
            assert!(Instant::now() < until, "no event");
            tokio::task::yield_now().await;
        }
    }

    /// Lets one held call answer.
    pub(crate) fn release(&self) {
        self.service.release.add_permits(1);
    }

    /// Pushes a piece into the latest `/stream`; none ends it.
    pub(crate) fn push(&self, piece: Option<&str>) {
        let mut pieces = self.service.pieces.lock().unwrap();
        match piece {
            Some(piece) => pieces.as_ref().unwrap().try_send(piece.into()).unwrap(),
            None => *pieces = None,
        }
    }

    pub(crate) fn stop(mut self) -> Drained {
        self.drain.start();
        self.thread.take().unwrap().join().unwrap()
    }

    /// Waits until all connections that there were are closed, and returns the totals.
    pub(crate) fn wait_until_closed(&self) -> Totals {
        self.wait_until(|totals| totals.opened > 0 && totals.open == 0)
    }

    /// Waits until the totals are such, and returns them.
    pub(crate) fn wait_until(&self, are_such: impl Fn(&Totals) -> bool) -> Totals {
        let until = Instant::now() + PATIENCE;
        loop {
            let totals = self.counters.totals();
            if are_such(&totals) {
                return totals;
            }
            assert!(Instant::now() < until, "still {totals:?}");
            std::thread::yield_now();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.drain.start();
    }
}

/// A client that writes what it is told and parses responses strictly.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    buffer: Vec<u8>,
    sent_bytes: u64,
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(found, _)| found.eq_ignore_ascii_case(name))?;
        Some(&found.1)
    }

    pub(crate) fn text(&self) -> &str {
        str::from_utf8(&self.body).unwrap()
    }
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Client { stream, buffer: Vec::new(), sent_bytes: 0 }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
        self.sent_bytes += bytes.as_ref().len() as u64;
    }

    /// Waits until the server has read all that this client, the only one, has sent.
    pub(crate) fn wait_until_read(&self, server: &Running) {
        server.wait_until(|totals| totals.bytes_in >= self.sent_bytes);
    }

    pub(crate) fn get(&mut self, path: &str) -> Reply {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n"));
        self.reply()
    }

    /// Nothing if the server has closed the connection before it had the request.
    pub(crate) fn get_unless_closed(&mut self, path: &str) -> Option<Reply> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n");
        let is_open = self.stream.write_all(request.as_bytes()).is_ok() && self.read_some() > 0;
        is_open.then(|| self.reply())
    }

    pub(crate) fn ask(&mut self, bytes: impl AsRef<[u8]>) -> Reply {
        self.send(bytes);
        self.reply()
    }

    pub(crate) fn reply(&mut self) -> Reply {
        self.read_reply(true)
    }

    /// The reply to a HEAD request.
    pub(crate) fn reply_without_body(&mut self) -> Reply {
        self.read_reply(false)
    }

    fn read_reply(&mut self, has_body: bool) -> Reply {
        let head_bytes = loop {
            if let Some(at) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            assert!(self.read_some() > 0, "closed inside a head: {:?}", self.buffer);
        };
        let head = String::from_utf8(self.buffer.drain(..head_bytes).collect()).unwrap();
        let mut lines = head.trim_end().split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers: Vec<(String, String)> = lines
            .map(|line| line.split_once(": ").unwrap())
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let mut reply = Reply { status, headers, body: Vec::new() };
        let length = reply.header("content-length").map_or(0, |length| length.parse().unwrap());
        if has_body {
            while self.buffer.len() < length {
                assert!(self.read_some() > 0, "closed inside a body");
            }
            reply.body = self.buffer.drain(..length).collect();
        }
        reply
    }

    /// The next so many bytes, of a body without a length.
    pub(crate) fn bytes(&mut self, count: usize) -> String {
        while self.buffer.len() < count {
            assert!(self.read_some() > 0, "closed inside a body");
        }
        String::from_utf8(self.buffer.drain(..count).collect()).unwrap()
    }

    pub(crate) fn is_closed(&mut self) -> bool {
        assert!(self.buffer.is_empty(), "unexpected bytes: {:?}", self.buffer);
        self.read_some() == 0
    }

    /// 0 when closed or reset.
    fn read_some(&mut self) -> usize {
        let mut bytes = [0; 16 * 1024];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(count) => {
                    self.buffer.extend_from_slice(&bytes[..count]);
                    return count;
                }
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return 0,
                // A process that was stopped and continued: signal(7), as the read has a timeout.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}
