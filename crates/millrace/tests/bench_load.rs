//! The generator against the ceiling, as two processes: nothing may be lost between them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

use serde_json::Value;

struct Ceiling {
    child: Child,
    endpoint: String,
}

impl Ceiling {
    fn start() -> Ceiling {
        let mut child = Command::new(env!("CARGO_BIN_EXE_millrace"))
            .args(["bench", "ceiling", "--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let endpoint = line.trim().strip_prefix("ceiling serves at ").unwrap().to_owned();
        Ceiling { child, endpoint }
    }

    fn load(&self, arguments: &[&str]) -> Value {
        let output = Command::new(env!("CARGO_BIN_EXE_millrace"))
            .args(["bench", "load"])
            .args(arguments)
            .args(["--endpoint", &self.endpoint, "--json", "--warm-up", "0.02"])
            .args(["--server-pid", &self.child.id().to_string()])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {text}");
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

impl Drop for Ceiling {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn all_that_goes_through_the_ceiling_comes_back() {
    let ceiling = Ceiling::start();

    for batch in ["1", "10"] {
        let report = ceiling.load(&["pc", "--batch", batch, "--conns", "4", "--duration", "0.3"]);

        let check = &report["check"];
        assert!(report["counts"]["deleted"].as_u64().unwrap() > 0, "{report}");
        assert_eq!(check["acknowledged"], check["deleted"]);
        assert_eq!((&check["lost"], &check["duplicates"]), (&0.into(), &0.into()));
        assert_eq!(report["first_error"], Value::Null);
        assert!(report["server"]["resident_bytes"].as_u64().unwrap() > 0);
    }
}

#[test]
fn a_drain_takes_out_what_was_filled_in() {
    let ceiling = Ceiling::start();

    let report = ceiling.load(&["drain", "--batch", "10", "--count", "2000", "--fifo"]);

    assert_eq!(report["counts"]["deleted"], 2000);
    assert_eq!(report["check"]["deleted"], 2000);
}

#[test]
fn a_schedule_holds_its_rate() {
    let ceiling = Ceiling::start();

    let report = ceiling.load(&["send", "--rate", "500", "--conns", "2", "--duration", "0.3"]);

    let per_s = report["per_s"]["sent"].as_f64().unwrap();
    assert!(per_s > 0.0 && per_s < 800.0, "{report}");
    assert!(report["latency_us"]["send"]["p50"].as_f64().unwrap() > 0.0);
}

#[test]
fn an_endpoint_that_is_not_there_is_an_error() {
    let output = Command::new(env!("CARGO_BIN_EXE_millrace"))
        .args(["bench", "load", "send", "--endpoint", "http://127.0.0.1:1"])
        .output()
        .unwrap();

    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("connecting"));
}
