use std::{io::Read, time::Duration};

use millrace_server::Closed;

use crate::support::{Event, start, start_where};

#[test]
fn drain_answers_held_requests_and_closes_idle_connections() {
    let server = start();
    let mut idle = server.connect();
    assert_eq!(idle.get("/").text(), "ok");
    let mut held = server.connect();
    held.send("GET /hold HTTP/1.1\r\nHost: test\r\n\r\n");
    assert_eq!(server.event(), Event::Held);
    let counters = server.counters.clone();
    let address = server.address;

    let drained = server.stop();

    assert_eq!(drained.cut_off, 0);
    let reply = held.reply();
    assert_eq!((reply.text(), reply.header("connection")), ("released", Some("close")));
    assert!(held.is_closed());
    assert!(idle.is_closed());
    assert_eq!(counters.totals().closed_for(Closed::Drain), 2);
    assert!(std::net::TcpStream::connect(address).is_err());
}

#[test]
fn a_request_half_sent_is_finished() {
    let server = start();
    let mut client = server.connect();
    let head =
        "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n";
    assert_eq!(client.ask(head).status, 100);

    server.drain.start();
    let reply = client.ask("abcd");

    assert_eq!(reply.text(), "POST /echo \nabcd");
    assert_eq!(reply.header("connection"), Some("close"));
    assert_eq!(server.stop().cut_off, 0);
}

#[test]
fn a_drain_ends_in_time() {
    let server = start_where(|options| options.timeouts.drain = Duration::from_millis(50));
    let mut client = server.connect();
    client.send(
        "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n",
    );
    assert_eq!(client.reply().status, 100);

    let drained = server.stop();

    assert_eq!(drained.cut_off, 1);
    assert!(client.is_closed());
}

#[test]
fn who_sends_on_is_not_reset() {
    let server = start();
    let mut client = server.connect();
    client.send("GET /hold HTTP/1.1\r\nHost: test\r\n\r\n");
    assert_eq!(server.event(), Event::Held);
    // More than is read ahead.
    client.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n".repeat(5_000));

    server.drain.start();

    assert_eq!(client.reply().text(), "released");
    assert_eq!(client.stream.read_to_end(&mut Vec::new()).unwrap(), 0);
}
