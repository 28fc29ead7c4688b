//! A process without descriptors to spare: a limit of its own process.

use std::env;
use std::fs::File;
use std::process::Command;

use super::*;

#[test]
fn calls_share_connections_where_there_are_no_descriptors_for_more() {
    let limited =
        r#"ulimit -n 64; exec "$0" --exact transport::tests::descriptors::inside --ignored"#;
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(limited).arg(env::current_exe().unwrap());

    assert!(command.status().unwrap().success());
}

#[tokio::test]
#[ignore = "run by the test above, in a process of its own"]
async fn inside() {
    let server = server().await;
    let transport = transport(&server, &TransportOptions::default());
    ask(&transport).await.unwrap();
    let _all: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();

    let answers = tokio::join!(ask(&transport), ask(&transport), ask(&transport));

    assert!(answers.0.is_ok() && answers.1.is_ok() && answers.2.is_ok(), "{answers:?}");
    assert_eq!(server.connections(), 1);
}
