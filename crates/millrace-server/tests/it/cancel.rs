use std::{io::Write, net::Shutdown};

use millrace_server::Closed;

use crate::support::{Client, Event, Running, start};

const HOLD: &str = "GET /hold HTTP/1.1\r\nHost: test\r\n\r\n";

/// A server that is busy with a client's request.
fn start_holding() -> (Running, Client) {
    let server = start();
    let mut client = server.connect();
    client.send(HOLD);
    assert_eq!(server.event(), Event::Held);
    (server, client)
}

#[test]
fn a_client_that_leaves_cancels_its_request() {
    let (server, client) = start_holding();

    drop(client);

    assert_eq!(server.event(), Event::Dropped);
    assert_eq!(server.wait_until_closed().closed_for(Closed::ByPeer), 1);
}

#[test]
fn a_client_that_resets_cancels_its_request() {
    let (server, client) = start_holding();

    // Unread bytes and a linger of zero make the close a reset.
    socket2::SockRef::from(&client.stream).set_linger(Some(std::time::Duration::ZERO)).unwrap();
    drop(client);

    assert_eq!(server.event(), Event::Dropped);
}

#[test]
fn a_client_that_ends_its_side_cancels_its_request_even_after_pipelining() {
    let (server, mut client) = start_holding();

    client.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
    client.stream.shutdown(Shutdown::Write).unwrap();

    assert_eq!(server.event(), Event::Dropped);
    assert!(client.is_closed());
}

#[test]
fn what_is_sent_ahead_is_bounded_and_not_lost() {
    let (server, mut client) = start_holding();
    let request = format!("GET /echo?{} HTTP/1.1\r\nHost: test\r\n\r\n", "x".repeat(1000));
    let count = 300;

    client.send(request.repeat(count));
    server.release();

    assert_eq!(client.reply().text(), "released");
    for _ in 0..count {
        assert_eq!(client.reply().status, 200);
    }
}

#[test]
fn what_is_sent_ahead_does_not_pile_up_with_each_answer() {
    let server = start();
    let mut client = server.connect();
    let mut sender = client.stream.try_clone().unwrap();
    // Blocks when the server takes no more, ends with the connection.
    let sending = std::thread::spawn(move || {
        let _ = sender.write_all(HOLD.repeat(100_000).as_bytes());
    });

    for _ in 0..20 {
        assert_eq!(server.event(), Event::Held);
        server.release();
        assert_eq!(client.reply().text(), "released");
    }

    assert_eq!(server.event(), Event::Held);
    let read_bytes = server.counters.totals().bytes_in;
    assert!(read_bytes < 256 * 1024, "{read_bytes} bytes");
    server.stop();
    sending.join().unwrap();
}
