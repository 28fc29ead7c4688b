use millrace_server::Closed;

use crate::support::{Client, Event, PATIENCE, options, start, start_with};

#[test]
fn connection_stays_open_for_a_thousand_requests() {
    let server = start();
    let mut client = server.connect();

    for turn in 0..1000 {
        let reply = client.get("/");
        assert_eq!((reply.status, reply.text()), (200, "ok"), "{turn}");
        assert_eq!(reply.header("connection"), None);
    }

    let totals = server.counters.totals();
    assert_eq!((totals.opened, totals.open, totals.requests), (1, 1, 1000));
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = start();
    let mut client = server.connect();
    let request = |turn: usize| format!("GET /echo?{turn} HTTP/1.1\r\nHost: test\r\n\r\n");

    client.send((0..500).map(request).collect::<String>());

    for turn in 0..500 {
        assert_eq!(client.reply().text(), format!("GET /echo {turn}\n"));
    }
}

#[test]
fn requests_that_arrive_during_a_held_one_are_answered_after_it() {
    let server = start();
    let mut client = server.connect();
    client.send("GET /hold HTTP/1.1\r\nHost: test\r\n\r\n");
    assert_eq!(server.event(), Event::Held);

    client.send("POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\n\r\nabcd");
    client.send("GET /echo?last HTTP/1.1\r\nHost: test\r\n\r\n");
    server.release();

    assert_eq!(client.reply().text(), "released");
    assert_eq!(client.reply().text(), "POST /echo \nabcd");
    assert_eq!(client.reply().text(), "GET /echo last\n");
}

#[test]
fn http_1_0_is_closed_unless_it_asks_to_stay() {
    let server = start();
    let mut client = server.connect();

    let kept = client.ask("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n");
    let last = client.ask("GET / HTTP/1.0\r\n\r\n");

    assert_eq!(kept.header("connection"), Some("keep-alive"));
    assert_eq!(last.header("connection"), Some("close"));
    assert!(client.is_closed());
}

#[test]
fn close_is_honoured() {
    let server = start();
    let mut client = server.connect();

    let reply = client.ask("GET / HTTP/1.1\r\nHost: a\r\nConnection: foo, Close\r\n\r\n");

    assert_eq!(reply.header("connection"), Some("close"));
    assert!(client.is_closed());
    assert_eq!(server.wait_until_closed().closed_for(Closed::Requested), 1);
}

#[test]
fn head_gets_the_length_and_no_body() {
    let server = start();
    let mut client = server.connect();

    client.send("HEAD /big/5000 HTTP/1.1\r\nHost: a\r\n\r\n");
    let reply = client.reply_without_body();
    let next = client.get("/");

    assert_eq!(reply.header("content-length"), Some("5000"));
    assert_eq!(next.text(), "ok");
}

#[test]
fn no_content_has_no_length() {
    let server = start();
    let mut client = server.connect();

    let reply = client.get("/empty");
    let next = client.get("/");

    assert_eq!((reply.status, reply.header("content-length")), (204, None));
    assert_eq!(next.text(), "ok");
}

#[test]
fn responses_of_every_size_arrive_whole() {
    let server = start();
    let mut client = server.connect();

    for size in [0, 1, 4095, 4096, 4097, 100_000, 5_000_000] {
        let reply = client.get(&format!("/big/{size}"));
        assert_eq!(reply.body.len(), size);
        assert!(reply.body.iter().all(|byte| *byte == b'x'));
    }
}

#[test]
fn every_response_has_date_and_request_id() {
    let server = start();
    let mut client = server.connect();

    let first = client.get("/");
    let second = client.get("/");

    assert!(first.header("date").unwrap().ends_with(" GMT"));
    assert_eq!(first.header("x-amzn-requestid").unwrap().len(), 36);
    assert_ne!(first.header("x-amzn-requestid"), second.header("x-amzn-requestid"));
}

#[test]
fn a_header_value_cannot_end_its_line() {
    let server = start();

    let reply = server.connect().get("/evil");

    assert_eq!(reply.header("injected"), None);
    assert_eq!(reply.text(), "ok");
}

#[test]
fn every_listener_serves_and_every_worker_has_its_companion() {
    let mut options = options();
    options.workers = 2;
    options.listen = vec!["127.0.0.1:0".parse().unwrap(), "[::1]:0".parse().unwrap()];
    let (begun, begins) = std::sync::mpsc::channel();
    let hooks = millrace_server::Hooks {
        per_worker: Some(std::sync::Arc::new(move |worker| {
            let begun = begun.clone();
            Box::pin(async move {
                begun.send((worker, std::thread::current().id())).unwrap();
                std::future::pending::<()>().await;
            })
        })),
        ..millrace_server::Hooks::default()
    };

    let server = start_with(options, hooks);
    for address in server.addresses.clone() {
        let mut clients: Vec<Client> = (0..4).map(|_| Client::connect(address)).collect();
        for client in &mut clients {
            assert_eq!(client.get("/").text(), "ok");
        }
    }

    // One worker may have served them all before the other has begun.
    let [one, other] = [(); 2].map(|()| begins.recv_timeout(PATIENCE).unwrap());
    assert_eq!(server.stop().cut_off, 0);
    assert_ne!(one.0, other.0);
    assert_ne!(one.1, other.1);
    assert_eq!(begins.try_iter().count(), 0);
}
