//! Which worker serves a connection.

use std::{
    collections::BTreeSet,
    sync::Mutex,
    time::{Duration, Instant},
};

use hyper::http::Method;
use millrace_server::{Hooks, Options};

use crate::{
    http2,
    support::{Client, PATIENCE, options, start_with},
};

fn two_workers(sweep: Duration) -> Options {
    let mut options = Options { workers: 2, ..options() };
    options.timeouts.sweep = sweep;
    options
}

/// No load is measured while a test runs: all workers have time.
const NEVER: Duration = Duration::from_secs(3600);

#[test]
fn the_first_worker_serves_all_as_long_as_it_has_time() {
    let server = start_with(two_workers(NEVER), Hooks::default());

    let mut clients: Vec<Client> = (0..8).map(|_| server.connect()).collect();

    for client in &mut clients {
        assert_eq!(client.get("/worker").text(), "worker-0");
    }
}

#[test]
fn connections_leave_a_worker_that_has_no_time_and_lose_nothing() {
    let server = start_with(two_workers(Duration::from_millis(5)), Hooks::default());
    let workers = Mutex::new(BTreeSet::new());
    let until = Instant::now() + PATIENCE;
    let address = server.address;

    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = Client::connect(address);
                while workers.lock().unwrap().len() < 2 {
                    assert!(Instant::now() < until, "still at {:?}", workers.lock().unwrap());
                    // The second request is there before the first is answered.
                    client.send("GET /spin HTTP/1.1\r\nHost: test\r\n\r\n".repeat(2));
                    for _ in 0..2 {
                        let worker = client.reply().text().to_owned();
                        workers.lock().unwrap().insert(worker);
                    }
                }
            });
        }
    });

    let totals = server.wait_until_closed();
    assert_eq!((totals.opened, totals.open), (4, 0));
    assert_eq!(server.stop().cut_off, 0);
}

#[test]
fn connections_come_together_again_when_one_worker_has_time_for_all() {
    let server = start_with(two_workers(Duration::from_millis(5)), Hooks::default());
    let mut clients: Vec<Client> = (0..4).map(|_| server.connect()).collect();
    let until = Instant::now() + PATIENCE;
    let mut serve_until = |path: &str, pace: Duration, is_done: fn(usize) -> bool| {
        loop {
            clients.iter_mut().for_each(|client| {
                client.send(format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n"))
            });
            let workers: BTreeSet<String> =
                clients.iter_mut().map(|client| client.reply().text().to_owned()).collect();
            if is_done(workers.len()) {
                return;
            }
            assert!(Instant::now() < until, "still at {workers:?}");
            std::thread::sleep(pace);
        }
    };

    serve_until("/spin", Duration::ZERO, |workers| workers == 2);
    // Little to do: a request of each connection at a time.
    serve_until("/worker", Duration::from_millis(2), |workers| workers == 1);
}

#[tokio::test]
async fn http2_goes_to_the_worker_with_the_fewest_connections() {
    let server = start_with(two_workers(NEVER), Hooks::default());
    let mut workers = Vec::new();
    let mut clients = Vec::new();

    for _ in 0..4 {
        let (mut client, connection) = http2::connect(&server).await;
        let request = http2::request(Method::GET, "/worker");
        let answer = http2::ask(&mut client, request, b"").await;
        workers.push(String::from_utf8(answer.body).unwrap());
        clients.push((client, connection));
    }

    assert_eq!(workers, ["worker-1", "worker-0", "worker-1", "worker-0"]);
}
