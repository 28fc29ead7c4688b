//! The worker's counters over HTTP.

use std::{
    net::SocketAddr,
    sync::Arc,
    thread,
    time::{Duration, SystemTime},
};

use anyhow::Context;
use millrace_server::{Drain, Hooks, Options, Server, Timeouts};
use millrace_wire::{Request, Response, Service};
use millrace_worker::Metrics;
use prometheus_client::{encoding::text, registry::Registry};

/// The format that the registry writes.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// A worker whose last answered receive is longer ago than this is not ready: a long poll is
/// answered every 20 s.
const READY_S: i64 = 60;

/// How long the end waits for requests that are under way, or half sent.
const DRAIN: Duration = Duration::from_secs(1);

/// Answers until it is dropped.
pub(super) struct Listening {
    drain: Drain,
    thread: Option<thread::JoinHandle<()>>,
}

struct Exposition {
    registry: Registry,
}

impl Service for Exposition {
    async fn call(&self, request: Request<'_>) -> Response {
        if (request.method, request.path) != ("GET", "/metrics") {
            return Response::new(404, "text/plain", "see /metrics, /health and /ready\n");
        }
        let mut page = String::new();
        match text::encode(&mut page, &self.registry) {
            Ok(()) => Response::new(200, CONTENT_TYPE, page),
            Err(_) => Response::new(500, "text/plain", "the counters cannot be written\n"),
        }
    }
}

/// Listens with a thread of its own.
pub(super) fn listen(address: SocketAddr, workers: Vec<Metrics>) -> anyhow::Result<Listening> {
    let timeouts = Timeouts { drain: DRAIN, ..Timeouts::default() };
    let options = Options { listen: vec![address], workers: 1, timeouts, ..Options::default() };
    let server = Server::bind(options).context("listening for --metrics-listen")?;
    for address in server.addresses() {
        tracing::info!(%address, "serving metrics");
    }
    let mut registry = Registry::default();
    // They share their series.
    if let Some(metrics) = workers.first() {
        metrics.register(&mut registry);
    }
    let last_receive_s = move || workers.iter().map(Metrics::last_receive_s).max().unwrap_or(0);
    let is_ready = Arc::new(move || now_s() - last_receive_s() <= READY_S);
    let hooks = Hooks { is_ready, ..Hooks::default() };
    let drain = Drain::new();
    let for_server = drain.clone();
    let run = move || {
        if let Err(error) = server.run(Arc::new(Exposition { registry }), for_server, hooks) {
            tracing::error!(%error, "metrics are no longer served");
        }
    };
    let thread = thread::Builder::new().name("metrics".to_owned()).spawn(run)?;
    Ok(Listening { drain, thread: Some(thread) })
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.drain.start();
        if let Some(thread) = self.thread.take() {
            // A panic there has been logged by its hook.
            let _ = thread.join();
        }
    }
}

fn now_s() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
