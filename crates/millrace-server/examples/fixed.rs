//! A server with a fixed answer, to measure what a request costs before any service does.
//!
//! `fixed ADDRESS WORKERS [yield]`, then for instance `wrk -t1 -c32 -d5 http://ADDRESS/`. It ends
//! when its standard input does, and prints the requests it answered. With `yield`, every answer
//! waits for one turn of the runtime, as one that waits for a commit does.

use std::{io::Read, sync::Arc};

use millrace_server::{Drain, Hooks, Options, Server};
use millrace_wire::{Request, Response, Service};

struct Fixed {
    yields: bool,
}

impl Service for Fixed {
    async fn call(&self, _request: Request<'_>) -> Response {
        if self.yields {
            tokio::task::yield_now().await;
        }
        Response::new(200, "application/x-amz-json-1.0", vec![b'x'; 300])
    }
}

#[expect(clippy::print_stdout, reason = "the result")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:4577".to_owned());
    let workers = arguments.next().map_or(Ok(1), |workers| workers.parse())?;
    let yields = arguments.next().is_some();
    let server =
        Server::bind(Options { listen: vec![address.parse()?], workers, ..Options::default() })?;
    let counters = server.counters();
    let drain = Drain::new();
    let for_input = drain.clone();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        for_input.start();
    });
    server.run(Arc::new(Fixed { yields }), drain, Hooks::default())?;
    println!("{}", counters.totals().requests);
    Ok(())
}
