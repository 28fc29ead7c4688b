//! Everyday commands.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::{Process, Serving, json, millrace, run, serve, stderr, stdout};

/// A server that speaks TLS, and the file of its certificate for `name`.
fn serve_tls(data: &TempDir, name: &str) -> (Serving, String) {
    let of_data = |name: &str| data.path().join(name).display().to_string();
    let (certificate, key) = (of_data("certificate.pem"), of_data("key.pem"));
    let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    fs::write(&certificate, made.cert.pem()).unwrap();
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let server = serve(data, &["--tls-cert", &certificate, "--tls-key", &key]);
    (server, certificate)
}

#[test]
fn commands_believe_the_authorities_that_aws_tools_are_told() {
    let data = TempDir::new().unwrap();
    let (server, certificate) = serve_tls(&data, "127.0.0.1");
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
    let unreadable = list(&[("AWS_CA_BUNDLE", "/nowhere/none.pem")]);
    assert_eq!(unreadable.status.code(), Some(2));
    assert!(stderr(&unreadable).contains("AWS_CA_BUNDLE"), "{}", stderr(&unreadable));
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
fn top_goes_on_when_its_terminal_hangs_up_if_it_is_to_ignore_that() {
    let data = TempDir::new().unwrap();
    let serving = serve(&data, &["--durability", "memory"]);
    let endpoint = format!("http://{}", serving.address);
    let top = millrace(&["top", "--times", "3", "--interval", "0.05", "--endpoint", &endpoint]);
    // As nohup starts it.
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "trap '' HUP; exec \"$0\" \"$@\""]).arg(top.get_program());
    let mut child = Process::spawn(shell.args(top.get_args()).stdout(Stdio::piped()));
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let is_look = |line: &String| line.contains(" queues, ");

    assert!(lines.any(|line| is_look(&line)));
    kill_process(Pid::from_child(&child), Signal::HUP).unwrap();

    assert_eq!(lines.filter(is_look).count(), 2);
    assert!(child.wait().unwrap().success());
}
