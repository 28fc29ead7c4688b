//! Addresses and sockets.

use std::{
    io::Read,
    net::{TcpListener, TcpStream},
    os::{
        fd::OwnedFd,
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixDatagram},
    },
    process::{Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::{PATIENCE, Process, get, run, stderr};

/// A server that is handed this socket as its only one, as systemd hands them over.
fn activated(socket: &TcpListener, arguments: &[&str]) -> Command {
    let take = r#"exec 3<&0 0</dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec "$0" "$@""#;
    let mut command = Command::new("sh");
    command.args(["-c", take, env!("CARGO_BIN_EXE_millrace"), "serve"]);
    command.args(["--console-listen", "off", "--log-format", "json"]).args(arguments);
    command.stdin(OwnedFd::from(socket.try_clone().unwrap())).stderr(Stdio::piped());
    command
}

#[test]
fn connections_wait_in_a_socket_that_was_handed_over_while_the_server_is_started_anew() {
    let data = TempDir::new().unwrap();
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap().to_string();
    let path = data.path().join("data");
    let arguments = ["--listen", &address, "--data", path.to_str().unwrap()];
    for _ in 0..2 {
        // There is no server yet, or no more.
        let mut client = TcpStream::connect(&address).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut child = Process::spawn(&mut activated(&socket, &arguments));

        let health = get(&mut client, "/health");
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();

        assert!(health.starts_with("HTTP/1.1 200 "), "{health}");
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
}

/// What a service manager that listens on `manager` hears of a server, from its start to its end.
fn told_to(manager: &UnixDatagram, name: &str) -> [String; 2] {
    let data = TempDir::new().unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut command = super::serve_command(&data, &[]);
    command.env("NOTIFY_SOCKET", name);
    let hear = || {
        let mut text = [0; 100];
        let length = manager.recv(&mut text).unwrap();
        String::from_utf8(text[..length].to_vec()).unwrap()
    };

    let mut serving = super::wait_until_served(command);
    let first = hear();
    let health = get(&mut serving.connect(), "/health");
    serving.signal(Signal::TERM);
    let second = hear();

    assert!(health.starts_with("HTTP/1.1 200 "), "{health}");
    assert_eq!(serving.child.wait().unwrap().code(), Some(0));
    [first, second]
}

#[test]
fn service_managers_are_told_when_requests_are_answered_and_when_no_more() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("notify");
    let file = UnixDatagram::bind(&path).unwrap();
    let name = format!("millrace-test-{}", std::process::id());
    let abstract_name = SocketAddr::from_abstract_name(&name).unwrap();
    let nameless = UnixDatagram::bind_addr(&abstract_name).unwrap();

    assert_eq!(told_to(&file, path.to_str().unwrap()), ["READY=1", "STOPPING=1"]);
    assert_eq!(told_to(&nameless, &format!("@{name}")), ["READY=1", "STOPPING=1"]);
}

#[test]
fn a_service_manager_that_cannot_be_told_stops_nothing() {
    let data = TempDir::new().unwrap();
    let gone = data.path().join("gone");
    let mut command = super::serve_command(&data, &[]);
    command.env("NOTIFY_SOCKET", &gone);

    let mut serving = super::wait_until_served(command);
    let health = get(&mut serving.connect(), "/health");
    serving.signal(Signal::TERM);

    assert!(health.starts_with("HTTP/1.1 200 "), "{health}");
    let mut log = String::new();
    serving.stderr.read_to_string(&mut log).unwrap();
    assert!(log.contains("the service manager could not be told"), "{log}");
    assert_eq!(serving.child.wait().unwrap().code(), Some(0));
}

#[test]
fn sockets_that_no_setting_names_are_refused() {
    let data = TempDir::new().unwrap();
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let path = data.path().join("data");
    let arguments = ["--listen", "127.0.0.1:0", "--data", path.to_str().unwrap()];

    let output = activated(&socket, &arguments).output().unwrap();

    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!(said.contains(&format!("a socket for {address} was handed over")), "{said}");
    assert!(!path.exists());
}

#[test]
fn listening_widely_without_credentials_is_a_usage_error() {
    let output = run(&["serve", "--listen", "0.0.0.0:0"]);

    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--insecure"), "{}", stderr(&output));
}

#[test]
fn an_address_that_is_taken_is_a_failure() {
    let data = TempDir::new().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let other = data.path().join("data");

    let output = run(&["serve", "--listen", &address, "--data", other.to_str().unwrap()]);

    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains(&address), "{}", stderr(&output));
}
