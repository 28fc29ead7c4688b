//! Signals, and how the process ends.

use std::{
    io::{BufRead, Read, Write},
    net::TcpStream,
    thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use tempfile::TempDir;

use super::{PATIENCE, Serving, get, json, serve};

#[test]
fn serves_until_told_to_stop() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        // Under nohup it is to go on.
        if signal == Signal::HUP && millrace_process::ignores_hang_up() {
            continue;
        }
        let data = TempDir::new().unwrap();
        let mut serving = serve(&data, &[]);
        let mut client = serving.connect();

        let health = get(&mut client, "/health");
        serving.signal(signal);
        let status = serving.child.wait().unwrap();
        let mut rest = String::new();
        serving.stderr.read_to_string(&mut rest).unwrap();

        assert!(health.starts_with("HTTP/1.1 200 "), "{health}");
        assert_eq!(status.code(), Some(0), "{rest}");
        let said: Vec<_> = rest.lines().map(|line| json(line)["message"].clone()).collect();
        assert_eq!(said, ["draining", "stopped"], "{rest}");
    }
}

/// A client that has sent a request's head, and been told to go on.
fn half_a_request(serving: &Serving) -> TcpStream {
    let mut client = serving.connect();
    client.write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n").unwrap();
    client.write_all(b"Expect: 100-continue\r\n\r\n").unwrap();
    let mut go_on = [0; 25];
    client.read_exact(&mut go_on).unwrap();
    client
}

#[test]
fn a_second_signal_ends_at_once() {
    let data = TempDir::new().unwrap();
    let mut serving = serve(&data, &["--drain-seconds", "600"]);
    let _client = half_a_request(&serving);

    serving.signal(Signal::INT);
    // Those of the first half second are taken for the first.
    let until = Instant::now() + PATIENCE;
    let status = loop {
        assert!(Instant::now() < until, "still drains");
        serving.signal(Signal::TERM);
        match serving.child.try_wait().unwrap() {
            Some(status) => break status,
            None => thread::sleep(Duration::from_millis(20)),
        }
    };

    assert_eq!(status.code(), Some(1));
}

#[test]
fn a_doubled_signal_drains_all_the_same() {
    let data = TempDir::new().unwrap();
    let mut serving = serve(&data, &["--drain-seconds", "600"]);
    let mut client = half_a_request(&serving);

    serving.signal(Signal::INT);
    serving.signal(Signal::TERM);
    let mut line = String::new();
    while !line.contains("draining") {
        line.clear();
        assert!(serving.stderr.read_line(&mut line).unwrap() > 0);
    }
    client.write_all(b"Action=no").unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();

    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert_eq!(serving.child.wait().unwrap().code(), Some(0));
}
