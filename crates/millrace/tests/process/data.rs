//! Its files: limits, locks, damage.

use std::{fs::File, net::TcpListener, os::unix::fs::FileExt, process::Command};

use rustix::process::Signal;
use tempfile::TempDir;

use super::{run, serve, stderr, stdout};

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
