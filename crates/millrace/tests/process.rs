//! The program as its users start it: exit codes, what it prints, signals.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    ops::{Deref, DerefMut},
    os::{fd::OwnedFd, unix::fs::FileExt},
    process::{Child, ChildStderr, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Long enough for a busy machine; only a failing test waits that long.
const PATIENCE: Duration = Duration::from_secs(20);

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
}

/// Starts a server on a free port and waits until it says that it serves. Whatever it prints is JSON.
fn serve(data: &TempDir, arguments: &[&str]) -> Serving {
    let serving = ["serve", "--listen", "127.0.0.1:0", "--console-listen", "off"];
    let mut child = Process::spawn(
        millrace(&serving)
            .args(["--log-format", "json", "--data"])
            .arg(data.path().join("data"))
            .args(arguments)
            .stderr(Stdio::piped()),
    );
    let stderr = BufReader::new(child.stderr.take().unwrap());
    let mut serving = Serving { child, stderr, address: String::new() };
    while serving.address.is_empty() {
        let mut line = String::new();
        assert!(serving.stderr.read_line(&mut line).unwrap() > 0, "ended");
        let line = json(&line);
        if line["message"] == "serving" {
            let endpoint = line["endpoint"].as_str().unwrap();
            serving.address = endpoint.trim_start_matches("http://").to_owned();
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
    let mut bytes = [0; 4096];
    let count = stream.read(&mut bytes).unwrap();
    String::from_utf8(bytes[..count].to_vec()).unwrap()
}

#[test]
fn serves_until_told_to_stop() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        // Under nohup it is to go on.
        if signal == Signal::HUP && millrace_bench::ignores_hang_up() {
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
    // The JSON of the other start is checked line by line.
    let other = TempDir::new().unwrap();
    serve(&other, &["--durability", "memory"]);
}

#[test]
fn commands_believe_the_authorities_that_aws_tools_are_told() {
    let data = tempfile::tempdir().unwrap();
    let of_data = |name: &str| data.path().join(name).display().to_string();
    let (certificate, key) = (of_data("certificate.pem"), of_data("key.pem"));
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    fs::write(&certificate, made.cert.pem()).unwrap();
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let server = serve(&data, &["--tls-cert", &certificate, "--tls-key", &key]);
    let list = |variables: &[(&str, &str)]| {
        let mut command = millrace(&["queue", "list", "--endpoint", &server.address]);
        command.envs(variables.iter().copied()).output().unwrap()
    };

    let refused = list(&[]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("certificate"), "{}", stderr(&refused));
    for variable in ["AWS_CA_BUNDLE", "SSL_CERT_FILE"] {
        let believed = list(&[(variable, &certificate)]);
        assert!(believed.status.success(), "{}", stderr(&believed));
    }
    let unreadable = list(&[("AWS_CA_BUNDLE", &of_data("none.pem"))]);
    assert_eq!(unreadable.status.code(), Some(2));
    assert!(stderr(&unreadable).contains("AWS_CA_BUNDLE"), "{}", stderr(&unreadable));
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

#[test]
fn listening_widely_without_credentials_is_a_usage_error() {
    let output = run(&["serve", "--listen", "0.0.0.0:0"]);

    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--insecure"), "{}", stderr(&output));
}

#[test]
fn a_configured_queue_that_cannot_be_is_named() {
    let data = TempDir::new().unwrap();
    let file = data.path().join("m.toml");
    fs::write(&file, "[queues.sound]\n[queues.a]\nvisibility_timeout = 99999999\n").unwrap();
    let of_data = data.path().join("data").display().to_string();

    let serving = ["serve", "--listen", "127.0.0.1:0", "--console-listen", "off"];
    let output = millrace(&serving)
        .args(["--data", &of_data, "--config", file.to_str().unwrap()])
        .output()
        .unwrap();

    assert_eq!(output.status.code(), Some(2));
    let wrong = "queue a cannot be as configured: Invalid value for the parameter";
    assert!(stderr(&output).contains(wrong), "{}", stderr(&output));
}

#[test]
fn wrong_flags_variables_and_files_are_usage_errors() {
    let data = TempDir::new().unwrap();
    let file = data.path().join("m.toml");
    std::fs::write(&file, "nonsense = 1\n").unwrap();

    let flag = run(&["serve", "--nonsense"]);
    let key = run(&["serve", "--config", file.to_str().unwrap()]);
    let variable = millrace(&["config", "show"]).env("MILLRACE_NONSENSE", "1").output().unwrap();
    let missing = run(&["serve", "--config", "/nowhere/m.toml"]);

    assert_eq!(flag.status.code(), Some(2));
    assert_eq!(key.status.code(), Some(2));
    assert!(stderr(&key).contains("m.toml:1: unknown key nonsense"));
    assert_eq!(variable.status.code(), Some(2));
    assert_eq!(missing.status.code(), Some(2));
    assert!(stderr(&missing).contains("/nowhere/m.toml"));
}

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

/// It is an error of a write, and not a signal that kills.
#[test]
fn a_limit_of_file_sizes_is_named() {
    let data = TempDir::new().unwrap();
    let limited = Command::new("sh")
        .args(["-c", r#"ulimit -f 1000 && exec "$0" "$@""#, env!("CARGO_BIN_EXE_millrace")])
        .args(["serve", "--listen", "127.0.0.1:0", "--console-listen", "off", "--data"])
        .arg(data.path().join("data"))
        .output()
        .unwrap();

    assert_eq!(limited.status.code(), Some(1), "{limited:?}");
    assert!(stderr(&limited).contains("File too large"), "{}", stderr(&limited));
}

#[test]
fn drains_though_nobody_reads_what_it_prints() {
    let data = TempDir::new().unwrap();
    let (reader, mut writer) = std::io::pipe().unwrap();
    let mut child = Process::spawn(
        millrace(&["serve", "--listen", "127.0.0.1:0", "--console-listen", "off"])
            .args(["--log-format", "json", "--data"])
            .arg(data.path().join("data"))
            .stderr(writer.try_clone().unwrap()),
    );
    let mut reader = BufReader::new(reader);
    let mut line = String::new();
    while !line.contains("\"serving\"") {
        line.clear();
        assert!(reader.read_line(&mut line).unwrap() > 0);
    }
    let line: serde_json::Value = serde_json::from_str(&line).unwrap();
    let address = line["endpoint"].as_str().unwrap().trim_start_matches("http://");
    let mut client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    get(&mut client, "/health");
    // Twice what a pipe holds: the second half is written when somebody reads.
    let (filled, is_filled) = std::sync::mpsc::channel();
    let filling = thread::spawn(move || {
        for _ in 0..32 {
            let _ = filled.send(());
            writer.write_all(&[b'\n'; 4096]).unwrap();
        }
    });
    is_filled.iter().take(16).for_each(drop);

    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let closed = client.read(&mut [0; 1]);
    std::io::copy(&mut reader, &mut std::io::sink()).unwrap();
    filling.join().unwrap();

    assert_eq!(closed.unwrap(), 0);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_failure_that_cannot_be_printed_keeps_its_exit_code() {
    let mut command = millrace(&["serve", "--listen", "0.0.0.0:0"]);

    let status = command.stderr(full_disk()).status().unwrap();

    assert_eq!(status.code(), Some(2));
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

#[test]
fn config_show_tells_origins_and_masks_secrets() {
    let command = || {
        let mut command = millrace(&["config", "show", "--region", "r-1"]);
        command.env("MILLRACE_ACCESS_KEY", "AKID").env("MILLRACE_SECRET_KEY", "hush");
        command
    };

    let text = stdout(&command().output().unwrap());
    let json = stdout(&command().arg("--json").output().unwrap());

    assert!(
        text.lines()
            .any(|line| line.starts_with("region = \"r-1\"") && line.ends_with("# flag --region"))
    );
    assert!(!text.contains("hush") && !json.contains("hush"));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["settings"]["secret_key"]["value"], "***");
    assert_eq!(json["settings"]["secret_key"]["origin"], "environment MILLRACE_SECRET_KEY");
    assert_eq!(json["settings"]["limits.in_flight"]["value"], 120_000);
    assert_eq!(json["credentials"][0]["access_key"], "AKID");
}

#[test]
fn a_journal_that_is_not_there_unreadable_or_in_use_is_not_called_damaged() {
    let empty = TempDir::new().unwrap();
    let data = TempDir::new().unwrap();
    let _serving = serve(&data, &[]);
    let used = data.path().join("data");

    let unused = TempDir::new().unwrap();
    std::fs::create_dir(unused.path().join("journal")).unwrap();
    let unreadable = TempDir::new().unwrap();
    std::fs::write(unreadable.path().join("journal"), "").unwrap();
    let none = "there is no journal in";
    let other = "Not a directory";

    for (dir, reason) in [
        (empty.path(), none),
        (unused.path(), none),
        (unreadable.path(), other),
        (&used, "is in use"),
    ] {
        let output = run(&["journal", "check", "--data", dir.to_str().unwrap()]);

        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("the journal was not checked: "), "{output:?}");
        assert!(stderr(&output).contains(reason), "{output:?}");
    }
}

#[test]
fn damage_fails_the_check_of_a_journal_and_is_named() {
    let data = TempDir::new().unwrap();
    let mut serving = serve(&data, &[]);
    serving.signal(Signal::TERM);
    assert!(serving.child.wait().unwrap().success());
    let dir = data.path().join("data");
    let check = || run(&["journal", "check", "--data", dir.to_str().unwrap()]);
    let before = check();
    // The header of the only segment.
    let segment = dir.join("journal/00000001.seg");
    let file = File::options().write(true).open(segment).unwrap();
    file.write_at(&[0xff; 16], 0).unwrap();

    let after = check();

    assert_eq!(before.status.code(), Some(0), "{before:?}");
    assert!(stdout(&before).contains(" frames, ") && stdout(&before).ends_with("\nsound\n"));
    assert_eq!(after.status.code(), Some(1), "{after:?}");
    assert!(stdout(&after).ends_with("damaged\n"), "{after:?}");
    assert!(stderr(&after).contains("corrupt"), "{after:?}");
}

#[test]
fn the_reason_for_a_failed_start_is_told_once() {
    let data = TempDir::new().unwrap();
    let file = data.path().join("file");
    File::create(&file).unwrap();
    let missing = data.path().join("missing.pem");
    let (data, file) = (data.path().to_str().unwrap(), file.to_str().unwrap());
    let missing = missing.to_str().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();

    for (arguments, reason) in [
        (["--data", data, "--listen", &taken, "--log-level", "info"], "(os error 98)"),
        (["--data", data, "--tls-cert", missing, "--tls-key", missing], "(os error 2)"),
        (["--data", file, "--listen", "127.0.0.1:0", "--log-level", "info"], "(os error 20)"),
    ] {
        let serve = ["serve", "--console-listen", "off"];
        let output = run(&[&serve[..], &arguments].concat());

        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert_eq!(stderr(&output).matches(reason).count(), 1, "{}", stderr(&output));
    }
}

#[test]
fn batch_that_is_larger_than_a_request_may_be_is_sent_message_by_message() {
    let data = TempDir::new().unwrap();
    let serving = serve(&data, &["--durability", "memory"]);
    let endpoint = format!("http://{}", serving.address);
    let body = "x".repeat(1_000_000);
    let exported = serde_json::json!({ "Body": body }).to_string();
    assert!(run(&["queue", "create", "q", "--endpoint", &endpoint]).status.success());

    for (arguments, line) in [(&["send", "q", "--lines"][..], body), (&["import", "q"], exported)] {
        let lines = data.path().join("lines");
        fs::write(&lines, format!("{line}\n").repeat(10)).unwrap();
        let mut command = millrace(arguments);
        command.args(["--endpoint", &endpoint]).stdin(File::open(&lines).unwrap());
        let sent = command.output().unwrap();
        assert!(sent.status.success(), "{arguments:?}: {}", stderr(&sent));
    }

    let shown = run(&["queue", "show", "q", "--json", "--endpoint", &endpoint]);
    assert_eq!(json(&stdout(&shown))["Attributes"]["ApproximateNumberOfMessages"], "20");
}

#[test]
fn version_is_told() {
    let output = run(&["--version"]);

    assert_eq!(stdout(&output), format!("millrace {}\n", env!("CARGO_PKG_VERSION")));
}
