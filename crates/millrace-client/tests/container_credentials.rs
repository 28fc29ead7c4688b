//! Credentials from a container's metadata, as a process in a container finds them: through
//! environment variables, which is why the second half runs in a process of its own.

use std::env;
use std::process::Command;

use millrace_client::sqs::{SqsClient, SqsOptions, SqsPeer};
use millrace_client::testing::{FaultServer, MemoryPeer, Reply, Request, sqs_handler};
use millrace_client::transport::Endpoint;
use millrace_client::{CredentialsChain, Outgoing, Peer};

const GIVEN: &str = r#"{"AccessKeyId":"FROMCONTAINER","SecretAccessKey":"secret","Token":"the-token",
    "Expiration":"2099-01-01T00:00:00Z"}"#;

#[tokio::test]
async fn requests_are_signed_with_the_containers_credentials() {
    let queue = sqs_handler(MemoryPeer::standard());
    let server =
        FaultServer::start(move |request: Request| {
            let answer = queue(request.clone());
            async move {
                if request.target == "/metadata" { Reply::json(200, GIVEN) } else { answer.await }
            }
        })
        .await
        .unwrap();

    let child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "inside_the_container", "--ignored"])
        .env("AWS_CONTAINER_CREDENTIALS_FULL_URI", format!("{}/metadata", server.url()))
        .env("AWS_CONFIG_FILE", "/nonexistent")
        .env("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
        // Else the metadata of an instance would be asked for it.
        .env("AWS_REGION", "us-east-1")
        .env("QUEUE_SERVER", server.url())
        .env_remove("AWS_ACCESS_KEY_ID")
        .env_remove("AWS_PROFILE")
        .spawn()
        .unwrap();
    let status = tokio::task::spawn_blocking(move || {
        let mut child = child;
        child.wait().unwrap()
    });

    assert!(status.await.unwrap().success());
    let requests = server.requests();
    let fetched = requests.iter().filter(|request| request.target == "/metadata").count();
    let sends: Vec<_> =
        requests.iter().filter(|request| request.header("x-amz-target").is_some()).collect();
    assert_eq!((fetched, sends.len()), (1, 4), "fetched once for all");
    for send in sends {
        assert!(send.header("authorization").unwrap().contains("Credential=FROMCONTAINER/"));
        assert_eq!(send.header("x-amz-security-token"), Some("the-token"));
    }
}

#[tokio::test]
#[ignore = "started by the test above"]
async fn inside_the_container() {
    let endpoint = Endpoint::parse(&env::var("QUEUE_SERVER").unwrap()).unwrap();
    let chain = CredentialsChain::load(None).await.unwrap();
    let client = SqsClient::new(endpoint, SqsOptions::default()).unwrap();
    let peer = SqsPeer::open(client.with_credentials_chain(chain), "q").await.unwrap();
    for _ in 0..3 {
        peer.send(&[Outgoing::new("hello")]).await.unwrap();
    }
}
