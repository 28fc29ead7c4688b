use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use hyper::http::{HeaderValue, Method, Request};
use millrace_server::Closed;
use tokio::{net::TcpStream, task::JoinHandle};

use crate::support::{Event, PATIENCE, Running, start, start_where};

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: hyper::HeaderMap,
    pub(crate) body: Vec<u8>,
}

pub(crate) async fn ask(
    client: &mut SendRequest<Bytes>,
    request: Request<()>,
    body: &'static [u8],
) -> Answer {
    let (response, mut sender) = client.send_request(request, body.is_empty()).unwrap();
    if !body.is_empty() {
        sender.send_data(Bytes::from_static(body), true).unwrap();
    }
    let (parts, mut stream) = response.await.unwrap().into_parts();
    let mut collected = Vec::new();
    while let Some(data) = stream.data().await {
        let data = data.unwrap();
        stream.flow_control().release_capacity(data.len()).unwrap();
        collected.extend_from_slice(&data);
    }
    Answer { status: parts.status.as_u16(), headers: parts.headers, body: collected }
}

pub(crate) fn request(method: Method, path: &str) -> Request<()> {
    Request::builder().method(method).uri(format!("http://test.example{path}")).body(()).unwrap()
}

pub(crate) async fn connect(server: &Running) -> (SendRequest<Bytes>, JoinHandle<()>) {
    let stream = TcpStream::connect(server.address).await.unwrap();
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    let connection = tokio::spawn(async { connection.await.unwrap_or(()) });
    (client.ready().await.unwrap(), connection)
}

#[tokio::test]
async fn http2_by_prior_knowledge_reaches_the_same_service() {
    let server = start();
    let (mut client, _connection) = connect(&server).await;

    let answer = ask(&mut client, request(Method::POST, "/echo?q"), b"hello").await;
    let health = ask(&mut client, request(Method::GET, "/health"), b"").await;

    assert_eq!((answer.status, answer.body), (200, b"POST /echo q\nhello".to_vec()));
    assert_eq!(answer.headers["x-host"], "test.example");
    assert_eq!(answer.headers["x-amzn-requestid"].len(), 36);
    assert!(answer.headers.contains_key("date"));
    assert_eq!(health.body, br#"{"status":"ok"}"#);
}

#[tokio::test]
async fn a_connection_whose_answers_fill_the_memory_is_given_no_other() {
    let server = start_where(|options| options.limits.max_untaken_bytes = 200_000);
    let (mut client, _connection) = connect(&server).await;
    let mut ask_without_taking = |path| client.send_request(request(Method::GET, path), true);
    // Up to the bound, and a small one beyond it.
    let (large, _) = ask_without_taking("/big/200000").unwrap();
    let _large = large.await.unwrap();
    let (small, _) = ask_without_taking("/big/1000").unwrap();
    let small = small.await.unwrap();

    let (held, _) = ask_without_taking("/hold").unwrap();

    assert_eq!(small.status(), 200);
    assert_eq!(held.await.unwrap().status(), 503);
    assert!(server.events.try_recv().is_err(), "the service was not called");
}

#[tokio::test]
async fn the_authority_is_the_host_whatever_a_header_says() {
    let server = start();
    let (mut client, _connection) = connect(&server).await;
    let mut request = request(Method::POST, "/echo");
    request.headers_mut().insert("host", "other.example".parse().unwrap());

    let answer = ask(&mut client, request, b"").await;

    assert_eq!(answer.headers["x-host"], "test.example");
}

#[tokio::test]
async fn heads_of_many_headers_are_refused() {
    let server = start();
    let (mut client, _connection) = connect(&server).await;
    let mut with_headers = async |count: usize| {
        let mut request = request(Method::POST, "/");
        for _ in 0..count {
            request.headers_mut().append("a", HeaderValue::from_static(""));
        }
        ask(&mut client, request, b"body").await.status
    };

    assert_eq!([with_headers(100).await, with_headers(101).await], [200, 431]);
}

#[tokio::test]
async fn streams_do_not_wait_for_one_another() {
    let server = start();
    let (mut client, _connection) = connect(&server).await;
    let (held, _) = client.send_request(request(Method::GET, "/hold"), true).unwrap();
    let other = ask(&mut client, request(Method::GET, "/"), b"").await;
    assert_eq!(server.event_meanwhile().await, Event::Held);

    server.release();

    assert_eq!(other.body, b"ok");
    assert_eq!(held.await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_reset_stream_cancels_its_request() {
    let server = start();
    let (mut client, _connection) = connect(&server).await;
    let (held, mut stream) = client.send_request(request(Method::GET, "/hold"), false).unwrap();
    stream.send_data(Bytes::new(), true).unwrap();
    assert_eq!(server.event_meanwhile().await, Event::Held);

    stream.send_reset(h2::Reason::CANCEL);
    drop(held);

    assert_eq!(server.event_meanwhile().await, Event::Dropped);
}

#[tokio::test]
async fn too_large_bodies_are_refused() {
    let server = start_where(|options| options.limits.max_body_bytes = 3);
    let (mut client, _connection) = connect(&server).await;

    let exact = ask(&mut client, request(Method::POST, "/"), b"abc").await;
    let more = ask(&mut client, request(Method::POST, "/"), b"abcd").await;

    assert_eq!((exact.status, more.status), (200, 413));
}

#[tokio::test]
async fn drain_answers_held_streams() {
    let server = start();
    let (mut client, connection) = connect(&server).await;
    let (held, _) = client.send_request(request(Method::GET, "/hold"), true).unwrap();
    ask(&mut client, request(Method::GET, "/"), b"").await;
    assert_eq!(server.event_meanwhile().await, Event::Held);

    server.drain.start();

    assert_eq!(held.await.unwrap().status(), 200);
    drop(client);
    connection.await.unwrap();
    assert_eq!(server.stop().cut_off, 0);
}

/// As those do that read only while they have a request under way.
#[test]
fn drain_does_not_wait_long_for_a_client_that_does_not_answer_its_goodbye() {
    let server = start_where(|options| {
        options.timeouts.farewell = Duration::from_millis(50);
        options.timeouts.drain = Duration::from_secs(5);
    });
    let mut client = server.connect();
    client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
    std::io::Read::read_exact(&mut client.stream, &mut [0; 9]).unwrap();
    let counters = server.counters.clone();

    let drained = server.stop();

    assert_eq!((drained.cut_off, counters.totals().closed_for(Closed::Drain)), (0, 1));
}

#[test]
fn a_preface_that_trickles_is_recognised() {
    let server = start();
    let mut client = server.connect();
    use std::io::Read;

    for byte in b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0" {
        client.send([*byte]);
    }
    let mut frame = [0; 9];
    client.stream.read_exact(&mut frame).unwrap();

    // The server's SETTINGS frame: type 4 on stream 0.
    assert_eq!((frame[3], &frame[5..9]), (4, &[0, 0, 0, 0][..]));
}

#[tokio::test]
async fn a_stream_that_is_not_read_is_cut_off() {
    let server = start_where(|options| options.timeouts.write = Duration::from_millis(50));
    let (mut client, _connection) = connect(&server).await;

    let (response, _) = client.send_request(request(Method::GET, "/big/100000000"), true).unwrap();
    let _unread = response.await.unwrap();

    assert_eq!(server.wait_until_closed().closed_for(Closed::SlowReader), 1);
}

#[tokio::test]
async fn a_small_answer_that_is_not_read_is_cut_off_though_others_are() {
    let server = start_where(|options| options.timeouts.write = Duration::from_secs(1));
    let stream = TcpStream::connect(server.address).await.unwrap();
    let handshake = h2::client::Builder::new().initial_window_size(0).handshake::<_, Bytes>(stream);
    let (client, connection) = handshake.await.unwrap();
    let _connection = tokio::spawn(async { connection.await.unwrap_or(()) });
    let mut client = client.ready().await.unwrap();

    let (unread, _) = client.send_request(request(Method::GET, "/big/1000"), true).unwrap();
    let _unread = unread.await.unwrap();
    let (empty, _) = client.send_request(request(Method::GET, "/empty"), true).unwrap();
    assert_eq!(empty.await.unwrap().status(), 204);

    assert_eq!(server.wait_until_closed().closed_for(Closed::SlowReader), 1);
}

#[tokio::test]
async fn a_body_that_trickles_after_a_burst_is_cut_off() {
    let server = start_where(|options| options.timeouts.body = Duration::from_millis(100));
    let (mut client, _connection) = connect(&server).await;

    let (response, mut body) = client.send_request(request(Method::POST, "/echo"), false).unwrap();
    body.send_data(Bytes::from_static(&[b'x'; 60_000]), false).unwrap();
    let mut response = std::pin::pin!(response);
    let trickle = async {
        loop {
            tokio::select! {
                biased;
                response = &mut response => break response.unwrap().status(),
                () = tokio::time::sleep(Duration::from_millis(10)) => {
                    // Refused once the answer is there.
                    let _ = body.send_data(Bytes::from_static(b"x"), false);
                }
            }
        }
    };

    let status = tokio::time::timeout(PATIENCE, trickle).await.unwrap();

    assert_eq!(status, 408);
}
