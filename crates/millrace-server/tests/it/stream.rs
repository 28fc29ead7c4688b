//! Bodies made while they are sent.

use hyper::http::Method;

use crate::{
    http2::request,
    support::{Event, start},
};

#[test]
fn a_stream_is_sent_piece_by_piece_in_chunks() {
    let server = start();
    let mut client = server.connect();

    let head = client.get("/stream");
    assert_eq!(server.event(), Event::Held);
    server.push(Some("one"));
    let first = client.bytes(8);
    server.push(Some(""));
    server.push(Some("sixteen letters!"));
    let second = client.bytes(22);
    server.push(None);

    assert_eq!(head.header("transfer-encoding"), Some("chunked"));
    assert_eq!((head.header("content-length"), head.header("connection")), (None, Some("close")));
    assert_eq!((&*first, &*second), ("3\r\none\r\n", "10\r\nsixteen letters!\r\n"));
    assert_eq!(client.bytes(5), "0\r\n\r\n");
    assert!(client.is_closed());
}

#[test]
fn http_1_0_gets_a_stream_without_chunks() {
    let server = start();
    let mut client = server.connect();

    let head = client.ask("GET /stream HTTP/1.0\r\n\r\n");
    server.push(Some("one"));
    server.push(None);

    assert_eq!(head.header("transfer-encoding"), None);
    assert_eq!(client.bytes(3), "one");
    assert!(client.is_closed());
}

#[test]
fn a_client_that_leaves_drops_its_stream() {
    let server = start();
    let mut client = server.connect();
    client.get("/stream");
    assert_eq!(server.event(), Event::Held);

    drop(client);

    assert_eq!(server.event(), Event::Dropped);
}

#[test]
fn head_of_a_stream_has_no_body() {
    let server = start();
    let mut client = server.connect();
    client.send("HEAD /stream HTTP/1.1\r\nHost: test\r\n\r\n");

    let head = client.reply_without_body();

    assert_eq!(head.status, 200);
    assert_eq!(client.get("/health").status, 200);
}

#[tokio::test]
async fn http2_streams_and_drops_what_the_client_resets() {
    let server = start();
    let (mut client, _connection) = crate::http2::connect(&server).await;

    let (response, _) = client.send_request(request(Method::GET, "/stream"), true).unwrap();
    let mut body = response.await.unwrap().into_body();
    server.push(Some("one"));
    let first = body.data().await.unwrap().unwrap();

    assert_eq!(&first[..], b"one");
    assert_eq!(server.event_meanwhile().await, Event::Held);
    drop(body);
    assert_eq!(server.event_meanwhile().await, Event::Dropped);
}
