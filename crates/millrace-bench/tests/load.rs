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
        let child = Command::new(env!("CARGO_BIN_EXE_millrace-bench"))
            .args(["ceiling", "--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // Made before anything can go wrong: it ends the process.
        let mut ceiling = Ceiling { child, endpoint: String::new() };
        let mut line = String::new();
        BufReader::new(ceiling.child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        line.trim().strip_prefix("ceiling serves at ").unwrap().clone_into(&mut ceiling.endpoint);
        ceiling
    }

    fn load(&self, arguments: &[&str]) -> Value {
        let output = Command::new(env!("CARGO_BIN_EXE_millrace-bench"))
            .args(["load"])
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

    // A machine that stands still takes the schedule's end with it, or moves what was due before
    // the measurement into it, but not each time.
    let is_held = (0..20).any(|_| {
        let report = ceiling.load(&["send", "--rate", "500", "--conns", "2", "--duration", "0.3"]);
        assert!(report["latency_us"]["send"]["p50"].as_f64().unwrap() > 0.0);
        let sent = report["counts"]["sent"].as_f64().unwrap();
        let due = 500.0 * report["elapsed_s"].as_f64().unwrap();
        (0.95 * due..=1.05 * due).contains(&sent)
    });

    assert!(is_held, "no run sent what was due");
}

#[test]
fn an_endpoint_that_is_not_there_is_an_error() {
    let output = Command::new(env!("CARGO_BIN_EXE_millrace-bench"))
        .args(["load", "send", "--endpoint", "http://127.0.0.1:1"])
        .output()
        .unwrap();

    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("connecting"));
}
