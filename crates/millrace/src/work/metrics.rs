//! The worker's counters over HTTP.

use std::{
    net::SocketAddr,
    sync::Arc,
    thread,
    time::{Duration, SystemTime},
};

use anyhow::Context;
use millrace_server::{Drain, Hooks, Limits, Options, Server, Timeouts};
use millrace_wire::{Judgement, Request, Response, Service, Tenant};
use millrace_worker::Metrics;
use prometheus_client::{encoding::text, registry::Registry};

/// The format that the registry writes.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// A worker whose last answered receive is longer ago than this is not ready, unless it sends none
/// because its handlers have all slots: a long poll is answered every 20 s.
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
            Ok(()) => {
                let admitted = Some(Tenant::EVERYBODY);
                Response { admitted, ..Response::new(200, CONTENT_TYPE, page) }
            }
            Err(_) => Response::new(500, "text/plain", "the counters cannot be written\n"),
        }
    }

    fn judge(&self, _head: &Request<'_>) -> Judgement {
        Judgement::Refused(Box::new(Response::new(
            413,
            "text/plain",
            "no request here has a body\n",
        )))
    }
}

/// A scraper and a few probes take little: the rest of the memory is for handlers.
fn limits() -> Limits {
    const MIB: usize = 1 << 20;
    Limits {
        max_connection_bytes: 16 * MIB,
        max_unfinished_bytes: MIB,
        max_untaken_bytes: 16 * MIB,
        ..Limits::default()
    }
}

/// Listens with a thread of its own.
pub(super) fn listen(address: SocketAddr, workers: Vec<Metrics>) -> anyhow::Result<Listening> {
    let timeouts = Timeouts { drain: DRAIN, ..Timeouts::default() };
    let options = Options {
        listen: vec![address],
        workers: 1,
        timeouts,
        limits: limits(),
        ..Options::default()
    };
    let server = Server::bind(options).context("listening for --metrics-listen")?;
    for address in server.addresses() {
        tracing::info!(%address, "serving metrics");
    }
    let mut registry = Registry::default();
    // They share their series.
    if let Some(metrics) = workers.first() {
        metrics.register(&mut registry);
    }
    let is_ready = Arc::new(move || workers.iter().any(|worker| is_ready(worker, now_s())));
    let hooks = Hooks { is_ready, ..Hooks::default() };
    let drain = Drain::new();
    let for_server = drain.clone();
    let run = move || {
        if let Err(error) = server.run(Arc::new(Exposition { registry }), for_server, hooks) {
            let error = &error as &dyn std::error::Error;
            tracing::error!(error, "metrics are no longer served");
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

fn is_ready(worker: &Metrics, now_s: i64) -> bool {
    worker.is_busy() || now_s - worker.last_receive_s() <= READY_S
}

fn now_s() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use millrace_client::testing::MemoryPeer;
    use millrace_worker::{Concurrency, Message, Options, Outcome, Worker, each};
    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn worker_whose_handlers_have_all_slots_is_ready() {
        let peer = MemoryPeer::standard();
        let (begun, mut begins) = mpsc::unbounded_channel();
        let handler = each(move |message: Message| {
            let _ = begun.send(());
            async move {
                message.cancelled().await;
                Ok(Outcome::Release)
            }
        });
        let options = Options { concurrency: Concurrency::Fixed(1), ..Options::default() };
        let worker = Worker::new(peer.clone(), handler, options);
        let (drain, metrics) = (worker.drain(), worker.metrics());
        assert!(!is_ready(&metrics, now_s()));
        peer.put(["a"]);

        let look = async {
            begins.recv().await;
            assert!(is_ready(&metrics, now_s() + 10 * READY_S));
            drain.release_now();
        };
        tokio::join!(worker.run(), look);

        assert!(is_ready(&metrics, now_s()));
        assert!(!is_ready(&metrics, now_s() + 10 * READY_S));
    }
}
