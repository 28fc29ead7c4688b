//! The program as its users start it: exit codes, what it prints, signals.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bench;
mod commands;
mod data;
mod ends;
mod log;
mod settings;
mod sockets;

use std::{
    io::{BufRead, BufReader, ErrorKind, Write},
    net::TcpStream,
    ops::{Deref, DerefMut},
    process::{Child, ChildStderr, Command, Output, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Long enough for a busy machine; only a failing test waits that long.
const PATIENCE: Duration = Duration::from_secs(60);

fn millrace(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
    command.args(arguments);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("MILLRACE_") {
            command.env_remove(name);
        }
    }
    command
}

fn run(arguments: &[&str]) -> Output {
    millrace(arguments).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn json(line: &str) -> serde_json::Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
}

/// A process that ends with its test, however that ends.
struct Process(Child);

impl Process {
    fn spawn(command: &mut Command) -> Process {
        Process(command.spawn().unwrap())
    }
}

impl Deref for Process {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Process {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Serving {
    child: Process,
    stderr: BufReader<ChildStderr>,
    address: String,
    /// What it listens on, whatever clients are told.
    socket: String,
}

/// Starts a server on a free port and waits until it serves. Whatever it prints is JSON.
fn serve(data: &TempDir, arguments: &[&str]) -> Serving {
    wait_until_served(serve_command(data, arguments))
}

fn serve_command(data: &TempDir, arguments: &[&str]) -> Command {
    let serving = ["serve", "--listen", "127.0.0.1:0", "--console-listen", "off"];
    let mut command = millrace(&serving);
    command.args(["--log-format", "json", "--data"]).arg(data.path().join("data")).args(arguments);
    command
}

fn wait_until_served(mut command: Command) -> Serving {
    let mut child = Process::spawn(command.stderr(Stdio::piped()));
    let stderr = BufReader::new(child.stderr.take().unwrap());
    let mut serving = Serving { child, stderr, address: String::new(), socket: String::new() };
    while serving.address.is_empty() {
        let mut line = String::new();
        assert!(serving.stderr.read_line(&mut line).unwrap() > 0, "ended");
        let line = json(&line);
        if line["message"] == "serving" {
            let endpoint = line["endpoint"].as_str().unwrap();
            serving.address = endpoint.trim_start_matches("http://").to_owned();
            serving.socket = line["address"].as_str().unwrap().to_owned();
        }
    }
    serving
}

impl Serving {
    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

fn get(stream: &mut TcpStream, path: &str) -> String {
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).unwrap();
    // The first read that is not interrupted: one with a timeout is, by a stop of this process.
    let mut bytes = BufReader::with_capacity(4096, stream);
    let answer = loop {
        match bytes.fill_buf() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            answer => break answer.unwrap().to_vec(),
        }
    };
    String::from_utf8(answer).unwrap()
}
