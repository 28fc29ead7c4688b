//! An endpoint, and the few calls around a run that nobody measures. They block.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream, ToSocketAddrs},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use millrace_core::Url;
use rustls::{ClientConfig, ClientConnection, StreamOwned, pki_types::ServerName};

use super::{
    dialect::{Dialect, NewQueue},
    response::{self, Input},
};
use crate::{access::Access, progress::Progress, tls::Trust};

const TIMEOUT: Duration = Duration::from_secs(60);
/// Of several addresses, one that takes longer is not waited for.
const REACHED_WITHIN: Duration = Duration::from_secs(3);
/// How soon it is seen that the run is to end early.
const TURN: Duration = Duration::from_millis(100);

/// A queue that is gone at the latest when this is dropped; if it cannot be deleted, its name is
/// told at the end of the run.
pub(crate) struct OwnQueue {
    endpoint: Endpoint,
    progress: Progress,
    /// As the endpoint calls it.
    pub(crate) name: String,
}

/// A socket whose reads are given up when nothing comes, or when nobody wants it any more.
struct Patient<F> {
    socket: TcpStream,
    longest: Duration,
    is_ending: F,
}

/// Where requests go and how they are written.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    pub(crate) dialect: Dialect,
    pub(crate) tls: Option<Tls>,
}

/// What a connection needs besides the address, if it is TLS.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) name: ServerName<'static>,
}

impl Endpoint {
    /// Looks the host up.
    pub(crate) fn new(url: &Url, access: &Access, trust: &Trust) -> Result<Endpoint> {
        let host = url.host();
        let addresses = (host, url.port()).to_socket_addrs();
        let addresses = addresses.with_context(|| format!("resolving {host}"))?;
        let addresses: Vec<SocketAddr> = addresses.collect();
        let address = reachable(&addresses).with_context(|| format!("{host} is unknown"))?;
        let tls = if url.is_tls() {
            let name = ServerName::try_from(host.to_owned());
            let name = name.with_context(|| format!("host {host}"))?;
            Some(Tls { config: trust.config()?, name })
        } else {
            None
        };
        Ok(Endpoint { address, dialect: Dialect::new(access, url), tls })
    }

    /// Creates a queue and returns what it is called. Gives up if the run is to end early.
    pub(crate) fn create_queue(&self, queue: &NewQueue<'_>, progress: &Progress) -> Result<String> {
        let mut request = Vec::new();
        self.dialect.create_queue(queue, &mut request);
        let answer = self.call(&request, || progress.go_on().is_err());
        let answer = answer.with_context(|| format!("creating queue {}", queue.name))?;
        self.dialect.created(queue, &answer)
    }

    pub(crate) fn delete_queue(&self, queue: &str) -> Result<()> {
        let mut request = Vec::new();
        self.dialect.delete_queue(queue, &mut request);
        // Also if the run is to end early: that is when it is to be deleted.
        self.call(&request, || false).map(drop).context("deleting the queue")
    }

    /// A queue with the attributes that all have, created over an open connection.
    pub(crate) fn create_queue_over(
        &self,
        socket: &mut (impl Read + Write),
        name: &str,
    ) -> Result<String> {
        let queue = NewQueue { name, ..NewQueue::default() };
        let mut request = Vec::new();
        self.dialect.create_queue(&queue, &mut request);
        let answer = call_over(socket, &request);
        let answer = answer.with_context(|| format!("creating queue {name}"))?;
        self.dialect.created(&queue, &answer)
    }

    /// Any action of SQS.
    pub(crate) fn call_sqs(&self, action: &str, body: &[u8]) -> Result<Vec<u8>> {
        let mut request = Vec::new();
        self.dialect.sqs()?.write(action, body, &mut request);
        self.call(&request, || false).with_context(|| action.to_owned())
    }

    /// One call over a connection of its own, given up as soon as the run `is_ending`.
    fn call(&self, request: &[u8], is_ending: impl Fn() -> bool) -> Result<Vec<u8>> {
        let socket = TcpStream::connect(self.address).context("connecting")?;
        socket.set_read_timeout(Some(TURN)).context("setting a timeout")?;
        let mut socket = Patient { socket, longest: TIMEOUT, is_ending };
        let Some(tls) = &self.tls else { return call_over(&mut socket, request) };
        let session = ClientConnection::new(Arc::clone(&tls.config), tls.name.clone());
        let session = session.context("starting TLS")?;
        call_over(&mut StreamOwned::new(session, socket), request)
    }
}

impl OwnQueue {
    pub(crate) fn new(endpoint: &Endpoint, name: String, progress: &Progress) -> OwnQueue {
        OwnQueue { endpoint: endpoint.clone(), progress: progress.clone(), name }
    }
}

impl Drop for OwnQueue {
    fn drop(&mut self) {
        // What was measured there counts even if this fails.
        if let Err(error) = self.endpoint.delete_queue(&self.name) {
            self.progress.leave(format!("the queue {} is left: {error:#}", self.name));
        }
    }
}

impl<F: Fn() -> bool> Read for Patient<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let start = Instant::now();
        loop {
            match self.socket.read(buffer) {
                Err(error) if is_nothing_yet(&error) => {}
                outcome => return outcome,
            }
            if (self.is_ending)() {
                return Err(io::Error::other("the run was ended early"));
            }
            if start.elapsed() >= self.longest {
                let text = format!("no answer within {:?}", self.longest);
                return Err(io::Error::new(ErrorKind::TimedOut, text));
            }
        }
    }
}

impl<F> Write for Patient<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

/// Of a read that was given up after a while, or by a signal.
pub(crate) fn is_nothing_yet(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// One call over an open connection.
fn call_over(socket: &mut (impl Read + Write), request: &[u8]) -> Result<Vec<u8>> {
    socket.write_all(request).context("sending")?;
    let (mut buffer, mut chunk) = (Vec::new(), [0; 16 << 10]);
    let answer = loop {
        let count = socket.read(&mut chunk).context("waiting for the answer")?;
        buffer.extend_from_slice(chunk.get(..count).unwrap_or_default());
        let input = if count == 0 { Input::Ended } else { Input::Open };
        if let Some(answer) = response::parse(&mut buffer, input)? {
            break answer;
        }
        if count == 0 {
            bail!("the server closed the connection instead of answering");
        }
    };
    let body = buffer.get(answer.body).unwrap_or_default();
    if !response::is_success(answer.status) {
        bail!("{}", response::refusal(answer.status, body));
    }
    Ok(body.to_vec())
}

/// The first address that takes a connection, or the first: `localhost` is often two, and a server
/// listens at one. An only one is not tried.
fn reachable(addresses: &[SocketAddr]) -> Option<SocketAddr> {
    let is_reachable =
        |address: &&SocketAddr| TcpStream::connect_timeout(address, REACHED_WITHIN).is_ok();
    let found = if addresses.len() > 1 { addresses.iter().find(is_reachable) } else { None };
    found.or(addresses.first()).copied()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use anyhow::anyhow;

    use super::*;
    use crate::access::given_url;

    #[test]
    fn why_there_is_no_answer_is_told_in_words() {
        // Takes connections, and says nothing.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let told = |longest, is_ending| {
            let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
            let mut socket = Patient { socket, longest, is_ending: || is_ending };
            format!("{:#}", call_over(&mut socket, b"x").unwrap_err())
        };

        let (short, long) = (Duration::from_millis(20), Duration::from_secs(60));
        assert_eq!(told(short, false), "waiting for the answer: no answer within 20ms");
        assert_eq!(told(long, true), "waiting for the answer: the run was ended early");
    }

    #[test]
    fn a_queue_that_cannot_be_deleted_is_named_however_the_run_ends() {
        let progress = Progress::default();

        drop(OwnQueue::new(&Endpoint::open("http://127.0.0.1:1"), "q".to_owned(), &progress));

        let error = progress.with_left(anyhow!("failed"));
        assert!(error.to_string().starts_with("failed; the queue q is left: deleting"), "{error}");
    }

    #[test]
    fn of_several_addresses_one_that_takes_connections_is_measured() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (there, nowhere) = (listener.local_addr().unwrap(), "127.0.0.1:1".parse().unwrap());

        assert_eq!(reachable(&[nowhere, there]), Some(there));
        assert_eq!(reachable(&[nowhere, nowhere]), Some(nowhere));
        assert_eq!((reachable(&[nowhere]), reachable(&[])), (Some(nowhere), None));
    }

    impl Endpoint {
        /// Of a server that lets everybody in.
        pub(crate) fn open(url: &str) -> Endpoint {
            endpoint(url).unwrap()
        }
    }

    fn endpoint(url: &str) -> Result<Endpoint> {
        Endpoint::new(&given_url("--endpoint", url)?, &Access::open(), &Trust::anyone())
    }

    #[test]
    fn endpoints_name_host_and_path() {
        let plain = endpoint("http://127.0.0.1:9324").unwrap();
        let sqs = plain.dialect.sqs().unwrap();
        assert_eq!((sqs.host.as_str(), sqs.path.as_str()), ("127.0.0.1:9324", "/"));
        assert!(plain.tls.is_none());

        let plain = endpoint("http://127.0.0.1/sqs/").unwrap();
        let sqs = plain.dialect.sqs().unwrap();
        assert_eq!((plain.address.port(), sqs.path.as_str()), (80, "/sqs/"));

        let queried = endpoint("http://127.0.0.1?key=1").unwrap();
        assert_eq!(queried.dialect.sqs().unwrap().path, "/?key=1");

        let tls = endpoint("https://[::1]").unwrap();
        assert_eq!((tls.address.port(), tls.tls.is_some()), (443, true));
        assert_eq!(endpoint("https://127.0.0.1:8443").unwrap().address.port(), 8443);

        assert!(endpoint("ftp://127.0.0.1").is_err());
        assert!(endpoint("127.0.0.1:9324").is_err());
    }
}
