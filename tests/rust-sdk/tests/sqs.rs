//! The official AWS SDK for Rust does the main job, batches, FIFO, long polls and sees typed
//! errors. Each test has a server of its own.

use std::time::{Duration, Instant};

use aws_sdk_sqs::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_sqs::error::ProvideErrorMetadata;
use aws_sdk_sqs::primitives::Blob;
use aws_sdk_sqs::types::{
    ChangeMessageVisibilityBatchRequestEntry, DeleteMessageBatchRequestEntry, Message,
    MessageAttributeValue, MessageSystemAttributeName, QueueAttributeName,
    SendMessageBatchRequestEntry,
};
use aws_sdk_sqs::{Client, Config};
use aws_smithy_http_client::Builder;
use rust_sdk_tests::Server;

fn client(server: &Server) -> Client {
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .endpoint_url(server.endpoint())
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new("test", "test", None, None, "tests"))
        .http_client(Builder::new().build_http())
        .build();
    Client::from_conf(config)
}

async fn create(sqs: &Client, name: &str) -> String {
    let mut request = sqs.create_queue().queue_name(name);
    if name.ends_with(".fifo") {
        request = request
            .attributes(QueueAttributeName::FifoQueue, "true")
            .attributes(QueueAttributeName::ContentBasedDeduplication, "true");
    }
    request.send().await.expect("the queue is created").queue_url.expect("it has a URL")
}

async fn receive(sqs: &Client, url: &str, wait_s: i32) -> Vec<Message> {
    sqs.receive_message()
        .queue_url(url)
        .max_number_of_messages(10)
        .wait_time_seconds(wait_s)
        .message_system_attribute_names(MessageSystemAttributeName::All)
        .message_attribute_names("All")
        .send()
        .await
        .expect("a receive succeeds")
        .messages
        .unwrap_or_default()
}

fn bodies(messages: &[Message]) -> Vec<&str> {
    messages.iter().filter_map(Message::body).collect()
}

#[tokio::test]
async fn main_job() {
    let server = Server::start("main_job");
    let sqs = client(&server);
    let url = create(&sqs, "jobs").await;
    let body = "h\u{e9} \u{1f600} tab\t return\r\n <&>";

    let sent = sqs.send_message().queue_url(&url).message_body(body).send().await.unwrap();
    let messages = receive(&sqs, &url, 0).await;
    let handle = messages[0].receipt_handle().unwrap();
    sqs.delete_message().queue_url(&url).receipt_handle(handle).send().await.unwrap();

    assert_eq!(bodies(&messages), [body]);
    assert_eq!(messages[0].message_id(), sent.message_id());
    assert_eq!(messages[0].md5_of_body(), sent.md5_of_message_body());
    assert!(receive(&sqs, &url, 0).await.is_empty());
}

#[tokio::test]
async fn attributes_come_back_binary_ones_too() {
    let server = Server::start("attributes");
    let sqs = client(&server);
    let url = create(&sqs, "jobs").await;
    let bytes: Vec<u8> = (0..=255).collect();
    let binary = MessageAttributeValue::builder()
        .data_type("Binary.png")
        .binary_value(Blob::new(bytes))
        .build()
        .unwrap();
    let text = MessageAttributeValue::builder()
        .data_type("String")
        .string_value("h\u{e9}")
        .build()
        .unwrap();

    let sent = sqs
        .send_message()
        .queue_url(&url)
        .message_body("x")
        .message_attributes("bytes", binary.clone())
        .message_attributes("text", text.clone())
        .send()
        .await
        .unwrap();
    let messages = receive(&sqs, &url, 0).await;

    let received = messages[0].message_attributes().unwrap();
    assert_eq!(received["bytes"], binary);
    assert_eq!(received["text"], text);
    assert_eq!(messages[0].md5_of_message_attributes(), sent.md5_of_message_attributes());
}

#[tokio::test]
async fn batches() {
    let server = Server::start("batches");
    let sqs = client(&server);
    let url = create(&sqs, "jobs").await;
    let entry = |id: &str, body: &str| {
        SendMessageBatchRequestEntry::builder().id(id).message_body(body).build().unwrap()
    };

    let mut send = sqs.send_message_batch().queue_url(&url).entries(entry("bad", "\u{1}"));
    for n in 0..9 {
        send = send.entries(entry(&format!("id{n}"), &format!("m{n}")));
    }
    let sent = send.send().await.unwrap();
    let messages = receive(&sqs, &url, 0).await;
    let mut change = sqs.change_message_visibility_batch().queue_url(&url);
    let mut delete = sqs.delete_message_batch().queue_url(&url);
    for (n, message) in messages.iter().enumerate() {
        let handle = message.receipt_handle().unwrap();
        let changed = ChangeMessageVisibilityBatchRequestEntry::builder();
        change = change.entries(
            changed
                .id(n.to_string())
                .receipt_handle(handle)
                .visibility_timeout(60)
                .build()
                .unwrap(),
        );
        let deleted = DeleteMessageBatchRequestEntry::builder();
        delete = delete.entries(deleted.id(n.to_string()).receipt_handle(handle).build().unwrap());
    }
    let changed = change.send().await.unwrap();
    let deleted = delete.send().await.unwrap();

    assert_eq!(sent.successful().len(), 9);
    assert_eq!(sent.failed()[0].code(), "InvalidMessageContents");
    assert!(sent.failed()[0].sender_fault());
    assert_eq!(messages.len(), 9);
    assert_eq!(changed.successful().len(), 9);
    assert_eq!(deleted.successful().len(), 9);
}

#[tokio::test]
async fn fifo_keeps_order_and_drops_duplicates() {
    let server = Server::start("fifo");
    let sqs = client(&server);
    let url = create(&sqs, "jobs.fifo").await;

    let mut ids = Vec::new();
    for body in ["1", "2", "1", "3"] {
        let send = sqs.send_message().queue_url(&url).message_body(body).message_group_id("g");
        let sent = send.send().await.unwrap();
        assert_eq!(sent.sequence_number().unwrap().len(), 20);
        ids.push(sent.message_id.unwrap());
    }
    let messages = receive(&sqs, &url, 0).await;

    assert_eq!(bodies(&messages), ["1", "2", "3"]);
    assert_eq!(ids[0], ids[2]);
    assert!(receive(&sqs, &url, 0).await.is_empty());
}

#[tokio::test]
async fn long_poll_wakes_on_a_send() {
    let server = Server::start("long_poll");
    let sqs = client(&server);
    let url = create(&sqs, "jobs").await;
    let started = Instant::now();

    let send = async {
        // The poll of the other branch has been sent by then; nothing tells that it has parked.
        tokio::time::sleep(Duration::from_millis(200)).await;
        sqs.send_message().queue_url(&url).message_body("x").send().await.unwrap();
    };
    let (messages, ()) = tokio::join!(receive(&sqs, &url, 20), send);

    assert_eq!(bodies(&messages), ["x"]);
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn errors_are_typed() {
    let server = Server::start("errors");
    let sqs = client(&server);
    let url = create(&sqs, "jobs").await;

    let missing = sqs.get_queue_url().queue_name("none").send().await.unwrap_err();
    let missing = missing.into_service_error();
    assert!(missing.is_queue_does_not_exist());
    assert!(missing.message().unwrap().starts_with("The specified queue does not exist"));

    let delete = sqs.delete_message().queue_url(&url).receipt_handle("garbage");
    let garbage = delete.send().await.unwrap_err().into_service_error();
    assert!(garbage.is_receipt_handle_is_invalid());

    let send = sqs.send_message().queue_url(&url).message_body("\u{1}");
    let contents = send.send().await.unwrap_err().into_service_error();
    assert!(contents.is_invalid_message_contents());

    let create = sqs.create_queue().queue_name("jobs");
    let create = create.attributes(QueueAttributeName::DelaySeconds, "7");
    let exists = create.send().await.unwrap_err().into_service_error();
    assert!(exists.is_queue_name_exists());

    let receive = sqs.receive_message().queue_url(&url).max_number_of_messages(11);
    let invalid = receive.send().await.unwrap_err().into_service_error();
    assert_eq!(invalid.code(), Some("InvalidParameterValue"));
}

#[tokio::test]
async fn queue_attributes_and_tags() {
    let server = Server::start("queues");
    let sqs = client(&server);
    let url = create(&sqs, "jobs").await;

    sqs.set_queue_attributes()
        .queue_url(&url)
        .attributes(QueueAttributeName::VisibilityTimeout, "77")
        .send()
        .await
        .unwrap();
    sqs.tag_queue().queue_url(&url).tags("a", "1").send().await.unwrap();
    let got = sqs
        .get_queue_attributes()
        .queue_url(&url)
        .attribute_names(QueueAttributeName::All)
        .send()
        .await
        .unwrap();
    let tags = sqs.list_queue_tags().queue_url(&url).send().await.unwrap();
    let listed = sqs.list_queues().send().await.unwrap();

    let attributes = got.attributes().unwrap();
    assert_eq!(attributes[&QueueAttributeName::VisibilityTimeout], "77");
    assert_eq!(
        attributes[&QueueAttributeName::QueueArn],
        "arn:aws:sqs:us-east-1:000000000000:jobs"
    );
    assert_eq!(tags.tags().unwrap()["a"], "1");
    assert_eq!(listed.queue_urls(), [url.clone()]);
    sqs.delete_queue().queue_url(&url).send().await.unwrap();
}
