//! `millrace work` signs with what a container's metadata gives, if it is told where.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::process::{Command, ExitStatus};

use millrace_client::testing::{FaultServer, MemoryPeer, Reply, Request, sqs_handler};

const GIVEN: &str = r#"{"AccessKeyId":"FROMCONTAINER","SecretAccessKey":"secret","Token":"the-token",
    "Expiration":"2099-01-01T00:00:00Z"}"#;

/// A queue with one message, and metadata beside it.
async fn server() -> (FaultServer, MemoryPeer) {
    let peer = MemoryPeer::standard();
    peer.put(["a"]);
    let queue = sqs_handler(peer.clone());
    let handler = move |request: Request| {
        let answer = queue(request.clone());
        async move { if request.target == "/metadata" { Reply::json(200, GIVEN) } else { answer.await } }
    };
    (FaultServer::start(handler).await.unwrap(), peer)
}

async fn work(endpoint: String, variables: Vec<(&'static str, String)>) -> ExitStatus {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.starts_with("AWS_") || name.starts_with("MILLRACE_") {
            command.env_remove(name);
        }
    }
    command
        .args(["work", "--queue", "q", "--exec", "true", "--max-messages", "1"])
        .args(["--endpoint", &endpoint])
        .env("AWS_CONFIG_FILE", "/nonexistent")
        .env("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
        // Else the metadata of an instance would be asked for it.
        .env("AWS_REGION", "us-east-1")
        .envs(variables);
    tokio::task::spawn_blocking(move || command.status().unwrap()).await.unwrap()
}

fn fetched(server: &FaultServer) -> usize {
    server.requests().iter().filter(|request| request.target == "/metadata").count()
}

#[tokio::test]
async fn worker_signs_with_the_containers_credentials() {
    let (server, peer) = server().await;
    let metadata = format!("{}/metadata", server.url());

    let variables = vec![("AWS_CONTAINER_CREDENTIALS_FULL_URI", metadata)];
    let status = work(server.url(), variables).await;

    assert!(status.success());
    assert_eq!((peer.deleted().len(), fetched(&server)), (1, 1));
    let requests = server.requests();
    let actions: Vec<_> =
        requests.iter().filter(|request| request.header("x-amz-target").is_some()).collect();
    assert!(actions.len() >= 3);
    for request in actions {
        assert!(request.header("authorization").unwrap().contains("Credential=FROMCONTAINER/"));
        assert_eq!(request.header("x-amz-security-token"), Some("the-token"));
    }
}

#[tokio::test]
async fn keys_in_the_environment_go_before_metadata() {
    let (server, peer) = server().await;
    let metadata = format!("{}/metadata", server.url());

    let variables = vec![
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", metadata),
        ("AWS_ACCESS_KEY_ID", "OWN".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "secret".to_owned()),
    ];
    let status = work(server.url(), variables).await;

    assert!(status.success());
    assert_eq!((peer.deleted().len(), fetched(&server)), (1, 0));
}

#[tokio::test]
async fn server_on_this_machine_is_not_signed_for_unless_asked() {
    let (server, peer) = server().await;

    let status = work(server.url(), Vec::new()).await;

    assert!(status.success());
    assert_eq!(peer.deleted().len(), 1);
    assert_eq!(fetched(&server), 0);
    for request in server.requests() {
        // The region that the environment names is in the signature, by nobody's key.
        if let Some(authorization) = request.header("authorization") {
            assert!(authorization.contains("Credential=none/"), "{authorization}");
        }
    }
}
