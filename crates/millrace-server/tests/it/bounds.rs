use std::{
    io::Write,
    net::Shutdown,
    time::{Duration, Instant},
};

use millrace_server::{Closed, Hooks, Options};

use crate::support::{Client, Event, PATIENCE, Running, options, start, start_with};

fn with(change: impl FnOnce(&mut Options)) -> Running {
    let mut options = options();
    change(&mut options);
    start_with(options, Hooks::default())
}

#[test]
fn too_large_heads_are_refused() {
    let server = start();

    for request in [
        format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(70_000)),
        format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}", "x".repeat(70_000)),
        format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(70_000)),
        format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(100)),
    ] {
        let mut client = server.connect();
        assert_eq!(client.ask(request).status, 431);
        assert!(client.is_closed());
    }
}

#[test]
fn too_large_bodies_are_refused_and_the_client_sees_it() {
    let server = with(|options| options.limits.max_body_bytes = 1000);
    let body = "x".repeat(5_000_000);
    for request in [
        format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n{}", &body[..1001]),
        format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5000000\r\n\r\n{body}"),
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\n".to_owned(),
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3E9\r\n".to_owned(),
        "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1001\r\n\r\n".into(),
    ] {
        let mut client = server.connect();

        let reply = client.ask(request);

        assert_eq!(reply.status, 413);
        client.stream.shutdown(Shutdown::Write).unwrap();
        assert!(client.is_closed());
    }
    let exact =
        format!("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n{}", &body[..1000]);
    assert_eq!(server.connect().ask(exact).status, 200);
}

#[test]
fn slow_heads_and_bodies_are_cut_off() {
    let server = with(|options| {
        options.timeouts.head = Duration::from_millis(50);
        options.timeouts.body = Duration::from_millis(50);
    });
    for request in [
        "G",
        "GET / HTTP/1.1\r\nHost:",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabc",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc",
    ] {
        let mut client = server.connect();

        client.send(request);

        assert!(client.is_closed(), "{request}");
    }
    assert_eq!(server.wait_until_closed().closed_for(Closed::SlowRequest), 4);
}

#[test]
fn a_head_that_trickles_is_cut_off_all_the_same() {
    let server = with(|options| options.timeouts.head = Duration::from_millis(100));
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n");

    let until = Instant::now() + PATIENCE;
    // Each write is progress, and none of them ends the head.
    while client.stream.write_all(b"X: y\r\n").is_ok() {
        assert!(Instant::now() < until, "not cut off");
        std::thread::sleep(Duration::from_millis(10));
    }

    assert_eq!(server.wait_until_closed().closed_for(Closed::SlowRequest), 1);
}

#[test]
fn idle_connections_are_closed_after_their_timeout_only() {
    let server = with(|options| options.timeouts.idle = Duration::from_secs(2));
    let mut client = server.connect();

    // Before the request: however slow this thread is, the time only becomes longer.
    let asked = Instant::now();
    assert_eq!(client.get("/").text(), "ok");
    assert!(client.is_closed());
    let took = asked.elapsed();

    assert!(took >= Duration::from_millis(1900), "after {took:?}");
    assert_eq!(server.wait_until_closed().closed_for(Closed::Idle), 1);
}

#[test]
fn connections_that_never_ask_go_before_those_that_have() {
    let server = with(|options| options.timeouts.first = Duration::from_millis(50));
    // Whoever was kept from asking that long is as one that never does.
    let mut too_late = 0;
    let mut asked = loop {
        let mut client = server.connect();
        if let Some(reply) = client.get_unless_closed("/") {
            assert_eq!(reply.text(), "ok");
            break client;
        }
        too_late += 1;
    };

    assert!(server.connect().is_closed());

    server.wait_until(|totals| totals.closed_for(Closed::Idle) == too_late + 1);
    assert_eq!(asked.get("/").text(), "ok");
}

#[test]
fn a_reader_that_stops_is_cut_off() {
    let server = with(|options| options.timeouts.write = Duration::from_millis(50));
    let mut client = server.connect();

    client.send("GET /big/100000000 HTTP/1.1\r\nHost: a\r\n\r\n");

    assert_eq!(server.wait_until_closed().closed_for(Closed::SlowReader), 1);
}

#[test]
fn answers_that_nobody_takes_are_bounded() {
    let server = with(|options| options.limits.max_untaken_bytes = 30_000_000);
    let mut idle = server.connect();
    idle.send("GET /big/20000000 HTTP/1.1\r\nHost: a\r\n\r\n");
    server.wait_until(|totals| totals.requests >= 1);
    let mut other = server.connect();

    let refused = other.get("/big/20000000");
    assert_eq!((refused.status, refused.text()), (503, "too many large answers at a time\n"));
    assert_eq!(server.event(), Event::TakenBack);
    assert_eq!(other.get("/big/1000").body.len(), 1000, "small ones are answered");
    drop(idle);
}

#[test]
fn answer_that_stands_still_makes_room_for_another() {
    let server = with(|options| {
        options.limits.max_untaken_bytes = 30_000_000;
        options.timeouts.still = Duration::from_millis(50);
    });
    let mut idle = server.connect();
    idle.send("GET /big/20000000 HTTP/1.1\r\nHost: a\r\n\r\n");
    server.wait_until(|totals| totals.requests >= 1);
    let mut other = server.connect();

    // Until it has stood still for so long, its client has to ask again.
    let began = Instant::now();
    while other.get("/big/20000000").status == 503 {
        assert!(began.elapsed() < PATIENCE);
    }
    server.wait_until(|totals| totals.closed_for(Closed::NoMemory) == 1);
    drop(idle);
}

#[test]
fn a_connection_too_many_is_told_so() {
    let server = with(|options| options.limits.max_connections = 2);
    let mut first = server.connect();
    let mut second = server.connect();
    assert_eq!(first.get("/").text(), "ok");
    assert_eq!(second.get("/").text(), "ok");

    let mut third = server.connect();
    let refused = third.get("/");
    drop(first);
    server.wait_until(|totals| totals.open <= 1);

    assert_eq!(refused.status, 503);
    assert!(third.is_closed());
    assert_eq!(second.get("/").text(), "ok");
    assert_eq!(Client::connect(server.address).get("/").text(), "ok");
    assert_eq!(server.counters.totals().closed_for(Closed::Refused), 1);
}
