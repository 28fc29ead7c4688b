//! Connections whose callers the service has not let in hold little memory, and make room for
//! those that come.

use std::time::Duration;

use h2::Reason;
use hyper::http::Method;
use millrace_server::Closed;

use crate::{
    http2,
    support::{Client, Running, start_where},
};

const KIB: usize = 1024;

fn start() -> Running {
    start_where(|options| options.limits.max_connection_bytes = 2048 * KIB)
}

/// Connections that a client keeps, each having sent that.
fn crowd(server: &Running, count: usize, first: &[u8]) -> Vec<Client> {
    let connect = |_| {
        let mut client = server.connect();
        client.send(first);
        client
    };
    (0..count).map(connect).collect()
}

#[test]
fn strangers_make_room_for_those_that_come() {
    let server = start();
    let mut known = server.connect();
    assert_eq!(known.get("/").text(), "ok");

    let half_head = [b"GET / HTTP/1.1\r\nHost: a\r\nA: ".as_slice(), &[b'a'; 60_000]].concat();
    let _crowd = crowd(&server, 60, &half_head);
    server.wait_until(|totals| totals.closed_for(Closed::NoMemory) >= 30);

    assert_eq!(known.get("/").text(), "ok", "one that was let in stays");
    assert_eq!(server.connect().get("/").text(), "ok", "a new one gets in");
}

#[test]
fn idle_connections_are_let_go_too() {
    let server = start();

    let _crowd = crowd(&server, 300, b"");

    server.wait_until(|totals| totals.closed_for(Closed::NoMemory) >= 100);
    assert_eq!(server.connect().get("/").text(), "ok");
}

#[test]
fn strangers_have_less_time_for_head_and_body() {
    let server = start_where(|options| options.timeouts.strange = Duration::from_millis(50));
    for request in ["GET / HTTP", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\na"] {
        let mut stranger = server.connect();
        stranger.send(request);
        assert!(stranger.is_closed(), "{request}");
    }

    let mut refused = server.connect();
    assert_eq!(refused.ask("GET / HTTP/1.1\r\nHost: a\r\nX-Stranger: x\r\n\r\n").status, 200);
    refused.send("GET");

    assert!(refused.is_closed(), "one that was not let in is a stranger still");
    server.wait_until(|totals| totals.closed_for(Closed::SlowRequest) == 3);
}

#[tokio::test]
async fn streams_beyond_the_memory_are_refused_and_the_connection_goes_on() {
    let server = start_where(|options| options.limits.max_connection_bytes = 512 * KIB);
    let (mut client, _connection) = http2::connect(&server).await;
    assert_eq!(http2::ask(&mut client, http2::request(Method::GET, "/"), b"").await.status, 200);

    let mut awaited = Vec::new();
    for _ in 0..100 {
        awaited.push(client.send_request(http2::request(Method::POST, "/"), false).unwrap());
    }
    let (refused, _body) = awaited.pop().unwrap();
    let refused = refused.await.unwrap_err();
    drop(awaited);
    // Their room is given back once the server has seen that they were reset.
    let after = loop {
        let (answer, _) = client.send_request(http2::request(Method::GET, "/"), true).unwrap();
        if let Ok(answer) = answer.await {
            break answer.status();
        }
    };

    assert_eq!(refused.reason(), Some(Reason::REFUSED_STREAM));
    assert_eq!(after, 200);
}

#[tokio::test]
async fn strangers_have_few_streams_before_their_heads_are_judged() {
    let server = start_where(|options| options.limits.max_strange_streams = 2);
    let (mut client, _connection) = http2::connect(&server).await;
    let request = || {
        let mut request = http2::request(Method::POST, "/");
        request.headers_mut().insert("x-stranger", "refused".parse().unwrap());
        request
    };

    let (_first, mut body) = client.send_request(request(), false).unwrap();
    let _second = client.send_request(request(), false).unwrap();
    let (third, _body) = client.send_request(request(), false).unwrap();

    assert_eq!(third.await.unwrap().status(), 403);
    body.send_data("".into(), true).unwrap();
    assert_eq!(_first.await.unwrap().status(), 200);
}

/// As SDKs do that open one connection and send all at once.
#[tokio::test]
async fn a_new_connection_may_have_many_streams_at_once_if_its_heads_are_right() {
    let server = start_where(|_| {});
    let (mut client, _connection) = http2::connect(&server).await;
    let mut streams = Vec::new();
    for _ in 0..200 {
        let mut request = http2::request(Method::POST, "/echo");
        request.headers_mut().insert("x-stranger", "claimed".parse().unwrap());
        streams.push(client.send_request(request, false).unwrap());
    }

    for (_, body) in &mut streams {
        body.send_data("body".into(), true).unwrap();
    }

    for (answer, _) in streams {
        assert_eq!(answer.await.unwrap().status(), 200);
    }
}
