use millrace_server::Closed;

use crate::support::start;

const CHUNKED: &str = "POST /echo HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n\
    4\r\nWiki\r\n5;name=value\r\npedia\r\n0\r\nTrailer: x\r\n\r\n";
const SIZED: &str = "POST /echo?q HTTP/1.1\r\nHost: test\r\nContent-Length: 11\r\n\r\nhello world";

#[test]
fn chunked_body_is_decoded() {
    let server = start();
    let mut client = server.connect();

    for _ in 0..3 {
        assert_eq!(client.ask(CHUNKED).text(), "POST /echo \nWikipedia");
    }
}

#[test]
fn requests_split_at_every_byte_are_the_same_requests() {
    let server = start();
    let mut client = server.connect();
    let both = format!("{SIZED}{CHUNKED}");

    for at in 1..both.len() {
        client.send(&both[..at]);
        client.send(&both[at..]);
        assert_eq!(client.reply().text(), "POST /echo q\nhello world", "{at}");
        assert_eq!(client.reply().text(), "POST /echo \nWikipedia", "{at}");
    }
}

#[test]
fn requests_that_trickle_in_are_answered() {
    let server = start();
    let mut client = server.connect();

    for byte in format!("{SIZED}{CHUNKED}").into_bytes() {
        client.send([byte]);
    }

    assert_eq!(client.reply().text(), "POST /echo q\nhello world");
    assert_eq!(client.reply().text(), "POST /echo \nWikipedia");
}

#[test]
fn large_bodies_arrive_whole() {
    let server = start();
    let mut client = server.connect();
    let body = vec![b'a'; 3_000_000];
    let head = format!("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: {}\r\n\r\n", body.len());

    client.send(head);
    client.send(&body);

    assert_eq!(client.reply().body.len(), "POST /echo \n".len() + body.len());
    assert_eq!(client.get("/").text(), "ok");
}

#[test]
fn continue_is_said_once_the_body_is_awaited() {
    let server = start();
    let mut client = server.connect();

    let head =
        "POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n";
    let go_on = client.ask(head);
    let reply = client.ask("hi");

    assert_eq!(go_on.status, 100);
    assert_eq!(reply.text(), "POST /echo \nhi");
}

#[test]
fn continue_is_not_said_when_the_body_is_there() {
    let server = start();

    let reply = server.connect().ask(
        "POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\nhi",
    );

    assert_eq!((reply.status, reply.text()), (200, "POST /echo \nhi"));
}

#[test]
fn ambiguous_or_malformed_requests_are_refused_and_closed() {
    let server = start();
    for (request, status) in [
        (
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n",
            400,
        ),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4, 4\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length : 1\r\n\r\nx", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501),
        ("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxx\r\n", 400),
        ("GET / HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: \0\r\n\r\n", 400),
        ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
        ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("\x16\x03\x01\x02\x00\x01", 400),
    ] {
        let mut client = server.connect();

        // What follows must not be taken for a second request.
        let reply = client.ask(format!("{request}GET /echo HTTP/1.1\r\nHost: a\r\n\r\n"));

        assert_eq!(reply.status, status, "{request}");
        assert_eq!(reply.header("connection"), Some("close"));
        assert!(client.is_closed(), "{request}");
    }
    assert_eq!(server.counters.totals().closed_for(Closed::ByPeer), 0);
}
