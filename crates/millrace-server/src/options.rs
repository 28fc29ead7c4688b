//! What the server can be told.

use std::{net::SocketAddr, path::PathBuf, pin::Pin, sync::Arc, time::Duration};

/// A future without a name, for hooks.
pub type BoxFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Everything that [`Server::bind`](crate::Server::bind) needs.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where to listen; port 0 lets the system choose.
    pub listen: Vec<SocketAddr>,
    /// Worker threads; 0 means one per core.
    pub workers: usize,
    /// Cores without work poll instead of sleeping, while there are many requests. It takes the
    /// right to write to `/dev/cpu_dma_latency`, and concerns all cores of the machine.
    pub has_idle_cores_poll: bool,
    /// Every listener speaks TLS if set, plain text if not.
    pub tls: Option<TlsFiles>,
    /// Bounds of size and number.
    pub limits: Limits,
    /// Bounds of time.
    pub timeouts: Timeouts,
    /// Which web pages may read our answers.
    pub cors: Cors,
    /// Requests of pages that may not read the answers get a 403. To be set where requests need no
    /// signature: the pages could change things all the same.
    pub refuses_other_pages: bool,
}

/// PEM files of a certificate chain and its private key. They are read again when they change;
/// connections that are open keep what they have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The chain, the server's own certificate first.
    pub certificate: PathBuf,
    /// PKCS#8, PKCS#1 or SEC1.
    pub key: PathBuf,
}

/// Bounds of size and number.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Open connections; one more gets a 503 and is closed.
    pub max_connections: usize,
    /// Request line and headers; beyond: 431.
    pub max_head_bytes: usize,
    /// A request's body; beyond: 413.
    pub max_body_bytes: usize,
    /// All connections together, with their heads, streams, small bodies and small answers.
    /// Strangers have half of it; beyond, those of them that came first are closed.
    pub max_connection_bytes: usize,
    /// All bodies together that came in pieces and whose requests are not answered; beyond, large
    /// ones that stand still are closed, or else the next gets a 503. Callers that are only claimed
    /// have half of it.
    pub max_unfinished_bytes: usize,
    /// All answers together that clients have not taken; beyond, connections of large ones that
    /// stand still are closed, or else the next large one becomes a 503.
    pub max_untaken_bytes: usize,
    /// Concurrent streams on one HTTP/2 connection.
    pub max_streams: u32,
    /// Those of them that a stranger may have open beside one another before their heads are
    /// judged.
    pub max_strange_streams: u32,
}

/// Bounds of time.
#[derive(Clone, Debug)]
pub struct Timeouts {
    /// A TLS handshake.
    pub handshake: Duration,
    /// From the first byte of a request to the end of its headers.
    pub head: Duration,
    /// Between two pieces of a body, which must come at a byte a millisecond on average.
    pub body: Duration,
    /// Head and body of connections whose callers the service has not let in yet, if those above
    /// are longer.
    pub strange: Duration,
    /// Between two pieces of a response that the client takes. A stream of HTTP/2 that is not read
    /// ends its connection.
    pub write: Duration,
    /// A large body or answer that has made no progress for so long makes room if others need it.
    pub still: Duration,
    /// The same for one that takes longer than this in all.
    pub long: Duration,
    /// From the start of a connection to the first byte of its first request.
    pub first: Duration,
    /// Between a response and the next request.
    pub idle: Duration,
    /// From the start of a drain to the end of the slowest request.
    pub drain: Duration,
    /// Meanwhile, from an HTTP/2 connection's goodbye, or the end of its last stream, to its end.
    pub farewell: Duration,
    /// How often deadlines are looked at: their precision.
    pub sweep: Duration,
    /// Between two looks at the certificate's files, which may have been renewed.
    pub certificates: Duration,
}

/// Which web pages may read our answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cors {
    /// None: no CORS header is sent, `OPTIONS` goes to the service.
    Off,
    /// All.
    Any,
    /// Those that come from this machine: of `localhost` and loopback addresses, at any port.
    Local,
    /// Pages of these origins, for instance `https://console.example.com`.
    Origins(Vec<String>),
}

/// What the server calls besides the service.
#[derive(Clone)]
pub struct Hooks {
    /// Makes one future per worker, given the worker's number. It runs inside the worker's runtime
    /// until the last connection of that worker is closed, and is then dropped.
    pub per_worker: Option<Arc<dyn Fn(usize) -> BoxFuture + Send + Sync>>,
    /// What `/ready` says while the server is not draining.
    pub is_ready: Arc<dyn Fn() -> bool + Send + Sync>,
    /// Where clients find the server that this listener, such as a console, only goes with;
    /// `/ready` says so to clients that have the wrong port.
    pub companion_of: Option<String>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            listen: Vec::new(),
            workers: 0,
            has_idle_cores_poll: false,
            tls: None,
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            cors: Cors::Off,
            refuses_other_pages: false,
        }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            max_connections: 50_000,
            max_head_bytes: 64 * 1024,
            // SQS: 1 MiB of payload, each byte of which JSON may write as six (`\u0001`).
            max_body_bytes: 8 * 1024 * 1024,
            max_connection_bytes: 1024 * 1024 * 1024,
            max_unfinished_bytes: 256 * 1024 * 1024,
            max_untaken_bytes: 256 * 1024 * 1024,
            max_streams: 256,
            max_strange_streams: 16,
        }
    }
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            handshake: Duration::from_secs(10),
            head: Duration::from_secs(30),
            body: Duration::from_secs(30),
            strange: Duration::from_secs(10),
            write: Duration::from_secs(30),
            // Round trips are shorter.
            still: Duration::from_millis(250),
            long: Duration::from_secs(5),
            // Nobody opens connections to keep them unused, but those who mean to take them all.
            first: Duration::from_secs(60),
            // The pools of SDKs keep idle connections for 60 s and more; the client closes first.
            idle: Duration::from_secs(600),
            drain: Duration::from_secs(20),
            // Round trips, and what the system has yet to send.
            farewell: Duration::from_secs(5),
            sweep: Duration::from_secs(1),
            certificates: Duration::from_secs(10),
        }
    }
}

impl Default for Hooks {
    fn default() -> Hooks {
        Hooks { per_worker: None, is_ready: Arc::new(|| true), companion_of: None }
    }
}
