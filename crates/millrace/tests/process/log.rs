//! What it prints, and that nothing depends on who reads it.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read},
    net::{TcpListener, TcpStream},
    process::Stdio,
    thread,
    time::Instant,
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::{PATIENCE, Process, get, json, millrace, serve};

#[test]
fn greets_newcomers_unless_programs_read_the_log() {
    let data = TempDir::new().unwrap();
    let serving = ["serve", "--listen", "127.0.0.1:0", "--console-listen", "off", "--data"];
    let mut child =
        Process::spawn(millrace(&serving).arg(data.path().join("data")).stderr(Stdio::piped()));
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut printed = String::new();
    while !printed.contains("serving endpoint=") {
        assert!(stderr.read_line(&mut printed).unwrap() > 0, "ended: {printed}");
    }
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    std::io::copy(&mut stderr, &mut std::io::sink()).unwrap();

    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(printed.contains("export AWS_ENDPOINT_URL=http://127.0.0.1:"), "{printed}");
    assert!(printed.contains("Durability: fsync"), "{printed}");
    assert!(printed.contains(" access_keys=0 "), "{printed}");
    // The JSON of the other start is checked line by line.
    let other = TempDir::new().unwrap();
    serve(&other, &["--durability", "memory"]);
}

#[test]
fn the_log_names_the_address_though_public_url_is_another() {
    let data = TempDir::new().unwrap();
    let serving = serve(&data, &["--public-url", "https://queues.example/path"]);

    let health = get(&mut TcpStream::connect(&serving.socket).unwrap(), "/health");

    assert_eq!(serving.address, "https://queues.example/path");
    assert!(health.starts_with("HTTP/1.1 200 "), "{health}");
}

/// More log lines than a pipe holds and the server keeps.
const REQUESTS: u64 = 8000;

/// Where a log on a full disk goes.
fn full_disk() -> File {
    File::options().write(true).open("/dev/full").unwrap()
}

#[test]
fn serves_though_nothing_can_be_printed() {
    let data = TempDir::new().unwrap();
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut child = Process::spawn(
        millrace(&["serve", "--listen", &address.to_string(), "--console-listen", "off", "--data"])
            .arg(data.path().join("data"))
            .stderr(full_disk()),
    );

    // No line can say that it listens: asked until it does, or has ended.
    let until = Instant::now() + PATIENCE;
    let mut client = loop {
        match TcpStream::connect(address) {
            Ok(client) => break client,
            Err(_) => assert_eq!(child.try_wait().unwrap(), None),
        }
        assert!(Instant::now() < until, "does not listen");
        thread::yield_now();
    };
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let health = get(&mut client, "/health");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();

    assert!(health.starts_with("HTTP/1.1 200 "), "{health}");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn serves_and_ends_though_nobody_reads_the_log() {
    let data = TempDir::new().unwrap();
    let mut serving = serve(&data, &["--log-level", "debug"]);
    let mut client = serving.connect();

    // A line each: more than the pipe and the server keep.
    for _ in 0..REQUESTS {
        assert!(get(&mut client, "/health").starts_with("HTTP/1.1 200 "));
    }
    serving.signal(Signal::TERM);

    assert_eq!(client.read_to_end(&mut Vec::new()).unwrap(), 0);
    assert_eq!(serving.child.wait().unwrap().code(), Some(0));
}

#[test]
fn the_log_tells_how_many_lines_nobody_read_in_time() {
    let data = TempDir::new().unwrap();
    let mut serving = serve(&data, &["--log-level", "debug"]);
    let mut client = serving.connect();
    for _ in 0..REQUESTS {
        get(&mut client, "/health");
    }

    let (mut answered, mut left_out) = (0, 0);
    while answered + left_out < REQUESTS {
        let mut line = String::new();
        assert!(serving.stderr.read_line(&mut line).unwrap() > 0, "{answered} + {left_out}");
        let line = json(&line);
        answered += u64::from(line["message"] == "request answered");
        left_out += line["lines"].as_u64().unwrap_or_default();
    }

    assert_eq!(answered + left_out, REQUESTS);
    assert!(left_out > 0);
}

#[test]
fn a_failure_that_cannot_be_printed_keeps_its_exit_code() {
    let mut command = millrace(&["serve", "--listen", "0.0.0.0:0"]);

    let status = command.stderr(full_disk()).status().unwrap();

    assert_eq!(status.code(), Some(2));
}
