//! `millrace work` where there is no room for all of its commands.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::process::{Command, Output};

use millrace_client::testing::{FaultServer, MemoryPeer, sqs_handler};

/// Handles `messages` at a time, with no room for as many commands.
async fn work_with(descriptors: u32, endpoint: &str, messages: usize, handler: &str) -> Output {
    let binary = env!("CARGO_BIN_EXE_millrace");
    let work = format!(
        "ulimit -n {descriptors}; exec {binary} work --endpoint {endpoint} --queue q \
         --concurrency {messages} --max-messages {messages} {handler}"
    );
    let mut command = Command::new("/bin/sh");
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.starts_with("AWS_") || name.starts_with("MILLRACE_") {
            command.env_remove(name);
        }
    }
    command.args(["-c", &work]);
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

async fn all_are_handled(descriptors: u32, messages: usize, handler: &str) {
    let peer = MemoryPeer::standard();
    peer.put((0..messages).map(|number| number.to_string()));
    let server = FaultServer::start(sqs_handler(peer.clone())).await.unwrap();

    let output = work_with(descriptors, &server.url(), messages, handler).await;

    let log = String::from_utf8_lossy(&output.stderr);
    assert!(log.contains("no room to start a command"), "{log}");
    assert!(output.status.success(), "{log}");
    assert!(log.contains(" leases_lost=0 "), "{log}");
    assert_eq!(peer.deleted().len(), messages, "{log}");
}

#[tokio::test]
async fn message_whose_command_could_not_be_started_has_not_failed() {
    all_are_handled(20, 40, "--exec 'sleep 0.2'").await;
}

#[tokio::test]
async fn messages_are_kept_while_they_wait_for_room() {
    all_are_handled(40, 300, "--visibility-timeout 2s --exec 'exec sleep 1'").await;
}

#[tokio::test]
async fn message_waits_for_a_command_that_stays_where_no_other_can_be_started() {
    let lines = r#"while read line; do
        number=${line#*\"number\":}
        sleep 0.1
        echo ${number%%,*} ack
    done"#;
    all_are_handled(20, 12, &format!("--exec-mode lines --exec '{lines}'")).await;
}
