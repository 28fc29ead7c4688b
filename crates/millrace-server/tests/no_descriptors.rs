//! A server that does not get the descriptors that it needs. The limit is the process's, so this is
//! the only test in it.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use millrace_server::{Drain, Hooks, Options, RunError, Server};
use millrace_wire::{Request, Response, Service};
use rustix::process::{Resource, getrlimit, setrlimit};

/// Each takes several descriptors.
const WORKERS: usize = 64;
const DESCRIPTORS: u64 = 64;

struct Silent;

impl Service for Silent {
    async fn call(&self, _: Request<'_>) -> Response {
        Response::new(200, "text/plain", "ok")
    }
}

#[test]
fn run_that_cannot_start_its_workers_starts_the_drain() {
    let listen = vec!["127.0.0.1:0".parse().unwrap()];
    let options = Options { listen, workers: WORKERS, ..Options::default() };
    let server = Server::bind(options).unwrap();
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = Some(DESCRIPTORS);
    setrlimit(Resource::Nofile, limit).unwrap();
    let drain = Drain::new();

    let ran = server.run(Arc::new(Silent), drain.clone(), Hooks::default());

    assert!(matches!(ran, Err(RunError::Start(_))), "{ran:?}");
    assert!(drain.is_started(), "whoever waits for the drain waits for ever");
}
