//! `millrace bench` becomes `millrace-bench`, or says where to get it.

use std::{fs, os::unix::fs::PermissionsExt};

use tempfile::TempDir;

use crate::{stderr, stdout};

#[test]
fn bench_runs_the_program_in_path_with_all_arguments() {
    let directory = TempDir::new().unwrap();
    let program = directory.path().join("millrace-bench");
    fs::write(&program, "#!/bin/sh\necho \"$@\"\nexit 7\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();

    // A copy of its own, so that nothing is beside it.
    let alone = directory.path().join("alone");
    fs::create_dir(&alone).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_millrace"), alone.join("millrace")).unwrap();
    let mut command = std::process::Command::new(alone.join("millrace"));
    let run = command.args(["bench", "pc", "--help", "-x"]).env("PATH", directory.path());
    let output = run.output().unwrap();

    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
    assert_eq!(stdout(&output), "pc --help -x\n");

    let output = run.env("PATH", "/nowhere").output().unwrap();

    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("cargo build --release -p millrace-bench"));
}
