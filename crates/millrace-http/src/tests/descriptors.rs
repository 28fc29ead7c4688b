//! A process without descriptors to spare: a limit of its own process.

use std::env;
use std::fs::File;
use std::process::Command;

use super::*;

/// Runs a test of this file in a process that has few descriptors.
fn run_limited(test: &str) {
    let limited = r#"ulimit -n 64; exec "$0" --exact "$1" --ignored"#;
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(limited).arg(env::current_exe().unwrap());
    command.arg(format!("transport::tests::descriptors::{test}"));

    assert!(command.status().unwrap().success());
}

/// All descriptors that are left.
fn take_all() -> Vec<File> {
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}

#[test]
fn calls_share_connections_where_there_are_no_descriptors_for_more() {
    run_limited("sharing");
}

#[tokio::test]
#[ignore = "run by the test above, in a process of its own"]
async fn sharing() {
    let server = server().await;
    let transport = transport(&server, &TransportOptions::default());
    ask(&transport).await.unwrap();
    let _all = take_all();

    let answers = tokio::join!(ask(&transport), ask(&transport), ask(&transport));

    assert!(answers.0.is_ok() && answers.1.is_ok() && answers.2.is_ok(), "{answers:?}");
    assert_eq!(server.connections(), 1);
}

#[test]
fn a_connection_that_has_ended_leaves_its_descriptor_to_the_one_in_its_place() {
    run_limited("replacing");
}

#[tokio::test]
#[ignore = "run by the test above, in a process of its own"]
async fn replacing() {
    let server = server().await;
    let transport = transport(&server, &TransportOptions::default());
    ask(&transport).await.unwrap();
    let mut all = take_all();
    // The server's end leaves it one for the next connection; with another it looks for a third.
    all.pop();
    server.plan(ServerFault::Drop);

    ask(&transport).await.unwrap();

    assert_eq!(server.connections(), 2);
}
