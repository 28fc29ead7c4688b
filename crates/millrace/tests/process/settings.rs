//! Flags, variables, files.

use std::fs;

use tempfile::TempDir;

use super::{millrace, run, stderr, stdout};

#[test]
fn a_configured_queue_that_cannot_be_is_named() {
    let data = TempDir::new().unwrap();
    let file = data.path().join("m.toml");
    fs::write(&file, "[queues.sound]\n[queues.a]\nattributes = { VisibilityTimeout = 99999999 }\n")
        .unwrap();
    let of_data = data.path().join("data").display().to_string();

    let serving = ["serve", "--listen", "127.0.0.1:0", "--console-listen", "off"];
    let output = millrace(&serving)
        .args(["--data", &of_data, "--config", file.to_str().unwrap()])
        .output()
        .unwrap();

    assert_eq!(output.status.code(), Some(2));
    let wrong = "queue a cannot be as configured: Invalid value for the parameter";
    assert!(stderr(&output).contains(wrong), "{}", stderr(&output));
    let checked = run(&["config", "check", "--config", file.to_str().unwrap()]);
    assert_eq!(checked.status.code(), Some(2));
    assert!(stderr(&checked).contains(wrong), "{}", stderr(&checked));
}

#[test]
fn a_configuration_is_checked_without_touching_data() {
    let data = TempDir::new().unwrap();
    let of_data = data.path().join("data").display().to_string();
    let check = |flags: &[&str]| {
        let mut command = millrace(&["config", "check", "--data", &of_data]);
        command.current_dir(data.path()).args(flags).output().unwrap()
    };

    let sound = check(&["--region", "eu-west-1"]);
    let level = check(&["--log-level", "loud"]);
    let tls = check(&["--tls-cert", "/nowhere/cert.pem", "--tls-key", "/nowhere/key.pem"]);

    assert_eq!(
        (sound.status.code(), stdout(&sound)),
        (Some(0), "a server can start with it\n".into())
    );
    assert_eq!(level.status.code(), Some(2), "{}", stderr(&level));
    assert_eq!(tls.status.code(), Some(1));
    assert!(stderr(&tls).contains("/nowhere/cert.pem cannot be read"), "{}", stderr(&tls));
    assert_eq!(data.path().read_dir().unwrap().count(), 0);
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
fn version_is_told() {
    let output = run(&["--version"]);

    assert_eq!(stdout(&output), format!("millrace {}\n", env!("CARGO_PKG_VERSION")));
}
