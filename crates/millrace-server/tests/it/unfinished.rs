//! Bodies that are on their way have a bound over all connections, and streams one of each.

use hyper::http::{HeaderValue, Method};
use millrace_server::Hooks;
use tokio::task::JoinSet;

use crate::http2;
use crate::support::{Client, Running, options, start_where, start_with};

/// Bodies up to 64 KiB are read whatever the others hold.
const LARGE_BYTES: usize = 1_000_000;

fn start() -> Running {
    let mut options = options();
    options.limits.max_unfinished_bytes = LARGE_BYTES + LARGE_BYTES / 2;
    options.limits.max_streams = 2;
    start_with(options, Hooks::default())
}

/// A client that has sent most of a large body.
fn holder(server: &Running) -> Client {
    let mut client = server.connect();
    client.send(format!("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: {LARGE_BYTES}\r\n\r\n"));
    client.send(vec![b'x'; LARGE_BYTES - 1]);
    client.wait_until_read(server);
    client
}

fn post(bytes: usize) -> Vec<u8> {
    let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {bytes}\r\n\r\n");
    [head.into_bytes(), vec![b'x'; bytes]].concat()
}

#[test]
fn bodies_together_are_bounded_but_small_ones_are_read() {
    let server = start();
    let mut holder = holder(&server);

    let refused = server.connect().ask(post(LARGE_BYTES));
    let small = server.connect().ask(post(60_000));
    holder.send("x");

    assert_eq!((refused.status, refused.text()), (503, "too many large requests at a time\n"));
    assert_eq!((small.status, holder.reply().status), (200, 200));
    assert_eq!(server.connect().ask(post(LARGE_BYTES)).status, 200, "the room was given back");
}

#[tokio::test]
async fn bodies_of_streams_are_bounded_with_them() {
    let server = start();
    let holder = holder(&server);
    let (mut client, _connection) = http2::connect(&server).await;
    let body: &'static [u8] = vec![b'x'; LARGE_BYTES].leak();

    let refused = http2::ask(&mut client, http2::request(Method::POST, "/"), body).await;
    let small = http2::ask(&mut client, http2::request(Method::POST, "/"), &body[..60_000]).await;

    assert_eq!((refused.status, small.status), (503, 200));
    drop(holder);
}

#[tokio::test]
async fn heads_of_streams_count_while_their_bodies_are_awaited() {
    let server = start_where(|options| options.limits.max_unfinished_bytes = LARGE_BYTES);
    let _holder = holder(&server);
    let (mut client, _connection) = http2::connect(&server).await;
    let mut request = http2::request(Method::POST, "/");
    let value = HeaderValue::from_str(&"x".repeat(400)).unwrap();
    for _ in 0..90 {
        request.headers_mut().append("a", value.clone());
    }

    // Together more than what the holder may have left: what came with its head counts nowhere.
    let mut unfinished = Vec::new();
    let mut answers = JoinSet::new();
    for _ in 0..20 {
        let (answer, body) = client.send_request(request.clone(), false).unwrap();
        unfinished.push(body);
        answers.spawn(answer);
    }
    let refused = answers.join_next().await.unwrap().unwrap();

    assert_eq!(refused.unwrap().status(), 503);
}

#[tokio::test]
async fn streams_of_a_connection_are_bounded() {
    let server = start();
    let (mut client, _connection) = http2::connect(&server).await;
    http2::ask(&mut client, http2::request(Method::GET, "/"), b"").await;

    assert_eq!(client.current_max_send_streams(), 2);
}

fn strange(standing: &str, bytes: usize) -> String {
    format!(
        "POST /echo HTTP/1.1\r\nHost: a\r\nX-Stranger: {standing}\r\nContent-Length: {bytes}\r\n\r\n"
    )
}

#[test]
fn large_body_is_refused_by_its_head_before_it_comes() {
    let server = start();
    let mut small = server.connect();
    small.send(strange("refused", 60_000));
    small.send(vec![b'x'; 60_000]);
    let chunked = "POST / HTTP/1.1\r\nHost: a\r\nX-Stranger: refused\r\n\
                   Transfer-Encoding: chunked\r\n\r\n20000\r\n";

    let length = server.connect().ask(strange("refused", LARGE_BYTES));
    let waits = server
        .connect()
        .ask(strange("refused", LARGE_BYTES).replace("Content", "Expect: 100-continue\r\nContent"));
    let pieces = server.connect().ask([chunked.as_bytes(), &[b'x'; 0x1_8000]].concat());

    for refused in [length, waits, pieces] {
        assert_eq!((refused.status, refused.text()), (403, "refused"));
    }
    assert_eq!(small.reply().status, 200, "the service sees the whole request");
}

#[tokio::test]
async fn large_body_of_a_stream_is_refused_by_its_head() {
    let server = start();
    let (mut client, _connection) = http2::connect(&server).await;
    let mut request = http2::request(Method::POST, "/");
    request.headers_mut().insert("x-stranger", HeaderValue::from_static("refused"));

    let (refused, mut body) = client.send_request(request, false).unwrap();
    body.send_data(vec![b'x'; 65_000].into(), false).unwrap();
    body.send_data(vec![b'x'; 1_000].into(), false).unwrap();

    assert_eq!(refused.await.unwrap().status(), 403);
}

#[test]
fn bodies_of_claimed_callers_never_keep_those_of_known_ones_out() {
    let server = start();
    let mut claimed: Vec<Client> = (0..3).map(|_| server.connect()).collect();
    for client in &mut claimed {
        client.send(strange("claimed", LARGE_BYTES));
        client.send(vec![b'x'; LARGE_BYTES - 1]);
    }
    server.wait_until(|totals| totals.bytes_in > 2 * LARGE_BYTES as u64);

    let known = server.connect().ask(post(LARGE_BYTES));

    assert_eq!(known.status, 200);
}
