//! The client against the real binary: `$SERVER_BINARY`, or what `cargo build --profile fast` made.
//!
//! Ignored without being asked for, because the binary must be built first; `./test` asks.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use std::{env, fs};

use millrace_client::sqs::{Action, Protocol, SqsClient, SqsOptions, SqsPeer, Wait};
use millrace_client::transport::{Endpoint, Repeat, TlsOptions, TransportOptions};
use millrace_client::{
    AttributeValue, BatchOptions, CallErrorKind, Credentials, Delivery, MessageAttribute, Outgoing,
    Peer, ReceiveRequest, RetryOptions, Retrying, Sender, Settler, Visibility,
};
use tempfile::TempDir;
use tokio::task::JoinSet;

struct Server {
    process: Child,
    url: String,
    /// Kept open, for the server goes on to talk.
    output: BufReader<ChildStderr>,
    _directory: TempDir,
}

impl Server {
    fn start(config: &str, arguments: &[&str]) -> Server {
        let directory = TempDir::new().unwrap();
        let file = directory.path().join("millrace.toml");
        fs::write(&file, config).unwrap();
        let mut process = Command::new(binary())
            .args(["serve", "--listen", "127.0.0.1:0", "--console-listen", "off"])
            .args(["--durability", "os", "--config"])
            .arg(file)
            .arg("--data")
            .arg(directory.path().join("data"))
            .args(arguments)
            // No settings but these.
            .env_clear()
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(process.stderr.take().unwrap());
        // Made before anything can go wrong: it ends the process.
        let mut server = Server { process, url: String::new(), output, _directory: directory };
        let mut line = String::new();
        while !line.contains(" serves ") {
            line.clear();
            assert!(server.output.read_line(&mut line).unwrap() > 0, "the server ended");
        }
        let (_, url) = line.trim().rsplit_once(' ').unwrap();
        url.clone_into(&mut server.url);
        server
    }

    fn client(&self, options: SqsOptions) -> SqsClient {
        SqsClient::new(Endpoint::parse(&self.url).unwrap(), options).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

fn binary() -> PathBuf {
    if let Some(path) = env::var_os("SERVER_BINARY") {
        return path.into();
    }
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    target.join("fast/millrace")
}

async fn create(client: &SqsClient, name: &str) -> SqsPeer {
    let fifo = if name.ends_with(".fifo") {
        r#","Attributes":{"FifoQueue":"true","ContentBasedDeduplication":"true"}"#
    } else {
        ""
    };
    let body = match client.protocol() {
        Protocol::Json => format!(r#"{{"QueueName":"{name}"{fifo}}}"#),
        Protocol::Query => format!("Action=CreateQueue&Version=2012-11-05&QueueName={name}"),
    };
    client.call(Action::CREATE_QUEUE, body.into(), Wait::None, Repeat::Safe).await.unwrap();
    SqsPeer::open(client.clone(), name).await.unwrap()
}

async fn receive_all(peer: &SqsPeer) -> Vec<Delivery> {
    let mut all = Vec::new();
    loop {
        let request = ReceiveRequest { wait: Duration::ZERO, ..ReceiveRequest::default() };
        let deliveries = peer.receive(request).await.unwrap();
        if deliveries.is_empty() {
            return all;
        }
        all.extend(deliveries);
    }
}

#[tokio::test]
#[ignore = "needs the binary"]
async fn a_thousand_messages_go_through_a_queue_in_batches() {
    let server = Server::start("", &[]);
    let client = server.client(SqsOptions::default());
    let peer = create(&client, "jobs").await;
    let retrying = Arc::new(Retrying::new(peer.clone(), RetryOptions::default()));
    let sender = Sender::new(Arc::clone(&retrying), BatchOptions::default());

    let mut sends = JoinSet::new();
    for number in 0..1000 {
        let sender = sender.clone();
        sends.spawn(async move { sender.send(Outgoing::new(number.to_string())).await });
    }
    let sent: HashSet<_> =
        sends.join_all().await.into_iter().map(|sent| sent.unwrap().message_id).collect();
    sender.close().await;
    let requests_of_sends = client.transport().ledger().requests;
    let deliveries = receive_all(&peer).await;
    let settler = Settler::new(Arc::clone(&retrying), BatchOptions::default());
    let mut settles = JoinSet::new();
    for delivery in &deliveries {
        let (settler, handle) = (settler.clone(), delivery.handle.clone());
        settles.spawn(async move { settler.delete(handle).await });
    }
    assert!(settles.join_all().await.iter().all(Result::is_ok));

    let received: HashSet<_> =
        deliveries.iter().map(|delivery| delivery.message_id().clone()).collect();
    let bodies: HashSet<u32> =
        deliveries.iter().map(|delivery| delivery.body.parse().unwrap()).collect();
    assert_eq!((sent.len(), &sent), (1000, &received));
    assert_eq!(bodies, (0..1000).collect());
    assert!(requests_of_sends < 150, "{requests_of_sends} requests for 1000 sends");
    assert_eq!(client.transport().ledger().reset, 0);
}

#[tokio::test]
#[ignore = "needs the binary"]
async fn attributes_and_visibility_go_there_and_back() {
    for protocol in [Protocol::Json, Protocol::Query] {
        attributes_and_visibility_go_there_and_back_in(protocol).await;
    }
}

async fn attributes_and_visibility_go_there_and_back_in(protocol: Protocol) {
    let server = Server::start("", &[]);
    let options = SqsOptions { protocol, ..SqsOptions::default() };
    let peer = create(&server.client(options), "q").await;
    let message = Outgoing {
        group_id: Some("tenant".into()),
        attributes: vec![
            MessageAttribute::string("kind", "a \"quoted\" one"),
            MessageAttribute {
                name: "raw".into(),
                data_type: "Binary".into(),
                value: AttributeValue::Binary(vec![0, 1, 255].into()),
            },
        ],
        ..Outgoing::new("line\nbreak and ünï \u{1f600}")
    };

    peer.send(std::slice::from_ref(&message)).await.unwrap().remove(0).unwrap();
    let first = peer.receive(ReceiveRequest::default()).await.unwrap().remove(0);
    let handle = first.handle.clone();
    let release = Visibility { handle: handle.clone(), timeout: Duration::ZERO };
    assert_eq!(peer.change_visibility(&[release]).await.unwrap(), [Ok(handle)]);
    let again = peer.receive(ReceiveRequest::default()).await.unwrap().remove(0);

    assert_eq!(again.body, message.body);
    let mut attributes = again.attributes.clone();
    attributes.sort_by(|a, b| a.name.cmp(&b.name));
    assert_eq!(attributes, message.attributes);
    assert_eq!((first.receive_count(), again.receive_count()), (Some(1), Some(2)));
    assert_eq!(again.group_id().map(|group| &**group), Some("tenant"));
    assert!(again.sent_at().unwrap() <= again.first_received_at().unwrap());
}

#[tokio::test]
#[ignore = "needs the binary"]
async fn fifo_groups_stay_in_order_through_the_sender() {
    let server = Server::start("", &[]);
    let peer = create(&server.client(SqsOptions::default()), "orders.fifo").await;
    let sender = Sender::new(peer.clone(), BatchOptions::default());
    let mut sends = JoinSet::new();
    for number in 0..100 {
        let sender = sender.clone();
        let group_id = Some(format!("g{}", number % 4).into());
        let message = Outgoing { group_id, ..Outgoing::new(number.to_string()) };
        sends.spawn(async move { sender.send(message).await });
    }
    assert!(sends.join_all().await.iter().all(Result::is_ok));

    let mut seen = 0;
    let mut last = std::collections::HashMap::new();
    while seen < 100 {
        let deliveries = peer.receive(ReceiveRequest::default()).await.unwrap();
        let handles: Vec<_> = deliveries.iter().map(|delivery| delivery.handle.clone()).collect();
        for delivery in &deliveries {
            let number: u32 = delivery.body.parse().unwrap();
            let before = last.insert(delivery.group_id().unwrap().clone(), number);
            assert!(before.is_none_or(|before| before < number));
            seen += 1;
        }
        assert!(peer.delete(&handles).await.unwrap().iter().all(Result::is_ok));
    }
}

#[tokio::test]
#[ignore = "needs the binary"]
async fn errors_are_told_apart() {
    for protocol in [Protocol::Json, Protocol::Query] {
        errors_are_told_apart_in(protocol).await;
    }
}

async fn errors_are_told_apart_in(protocol: Protocol) {
    let server = Server::start("", &[]);
    let client = server.client(SqsOptions { protocol, ..SqsOptions::default() });
    let peer = create(&client, "q").await;
    peer.send(&[Outgoing::new("a"), Outgoing::new("b")]).await.unwrap();
    let mut deliveries = receive_all(&peer).await;
    let good = deliveries.remove(0).handle;
    let bad = millrace_client::ReceiptHandle { token: "nonsense".into(), ..good.clone() };

    let missing = SqsPeer::open(client.clone(), "missing").await.unwrap_err();
    assert_eq!(missing.kind, CallErrorKind::NoSuchQueue);
    let alone = peer.delete(std::slice::from_ref(&bad)).await.unwrap().remove(0).unwrap_err();
    assert_eq!((alone.code.as_str(), alone.is_retryable()), ("ReceiptHandleIsInvalid", false));
    let both = peer.delete(&[bad, good]).await.unwrap();
    assert!(both[0].as_ref().is_err_and(|error| !error.is_retryable()));
    assert_eq!(both[1], Ok(()));
    let large = vec![Outgoing::new("x".repeat(700 << 10)); 2];
    assert_eq!(peer.send(&large).await.unwrap_err().kind, CallErrorKind::BatchTooLarge);
    let retrying = Retrying::new(peer, RetryOptions::default());
    assert!(retrying.send(&large).await.unwrap().iter().all(Result::is_ok), "sent in halves");
}

#[tokio::test]
#[ignore = "needs the binary"]
async fn signed_requests_are_accepted_and_others_are_not() {
    for protocol in [Protocol::Json, Protocol::Query] {
        signed_requests_are_accepted_and_others_are_not_in(protocol).await;
    }
}

async fn signed_requests_are_accepted_and_others_are_not_in(protocol: Protocol) {
    let config = "[[credentials]]\naccess_key = \"AKID\"\nsecret_key = \"SECRET\"\n";
    let server = Server::start(config, &[]);
    let with = |secret: &str| {
        let credentials = Some(Credentials::new("AKID", secret));
        server.client(SqsOptions { credentials, protocol, ..SqsOptions::default() })
    };

    let peer = create(&with("SECRET"), "q").await;
    for number in 0..20 {
        peer.send(&[Outgoing::new(format!("n {number}"))]).await.unwrap().remove(0).unwrap();
    }
    assert_eq!(receive_all(&peer).await.len(), 20);
    let unsigned = SqsOptions { protocol, ..SqsOptions::default() };
    for client in [with("WRONG"), server.client(unsigned)] {
        let error = SqsPeer::open(client, "q").await.unwrap_err();
        assert_eq!(error.kind, CallErrorKind::Auth, "{error}");
    }
}

#[tokio::test]
#[ignore = "needs the binary"]
async fn https_works_with_an_authority_of_ones_own() {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let directory = TempDir::new().unwrap();
    let (certificate, key) = (directory.path().join("c.pem"), directory.path().join("k.pem"));
    fs::write(&certificate, made.cert.pem()).unwrap();
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let paths = [certificate.to_str().unwrap(), key.to_str().unwrap()];
    let server = Server::start("", &["--tls-cert", paths[0], "--tls-key", paths[1]]);
    let mut transport = TransportOptions::default();
    let extra_authorities = made.cert.pem().into_bytes();
    transport.tls = TlsOptions { extra_authorities, ..TlsOptions::default() };

    assert!(server.url.starts_with("https://"), "{}", server.url);
    let client = server.client(SqsOptions { transport, ..SqsOptions::default() });
    let peer = create(&client, "q").await;
    peer.send(&[Outgoing::new("over TLS")]).await.unwrap().remove(0).unwrap();

    assert_eq!(receive_all(&peer).await[0].body, "over TLS");
    assert_eq!(client.transport().ledger().opened, 1);
}
