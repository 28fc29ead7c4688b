//! Layers before handlers, and typed handlers.

use std::{
    ops::ControlFlow,
    sync::{Arc, Mutex},
};

use millrace_client::{AttributeValue, MessageAttribute, Outgoing, Peer, testing::MemoryPeer};
use millrace_worker::{
    Handler, HandlerError, Message, Options, Outcome, SnsEnvelope, Summary, Until, Worker,
    claim_check, each, json,
};
use serde::Deserialize;

use crate::support::{Recorder, until_empty};

#[derive(Deserialize)]
struct Order {
    item: String,
    count: u32,
}

async fn run(peer: &MemoryPeer, handler: impl Handler) -> Summary {
    Worker::new(peer.clone(), handler, until_empty(1)).run().await
}

/// A handler that succeeds, and the bodies and attributes that it gets.
fn remembering() -> (impl Handler, Arc<Mutex<Vec<Message>>>) {
    let seen: Arc<Mutex<Vec<Message>>> = Arc::default();
    let memory = Arc::clone(&seen);
    let handler = each(move |message: Message| {
        memory.lock().unwrap().push(message);
        async { Ok(Outcome::Ack) }
    });
    (handler, seen)
}

fn text(message: &Message, name: &str) -> Option<String> {
    let attribute = message.delivery().attributes.iter().find(|known| known.name == name)?;
    match &attribute.value {
        AttributeValue::Text(text) => Some(text.to_string()),
        AttributeValue::Binary(_) => None,
    }
}

#[tokio::test(start_paused = true)]
async fn typed_handler_gets_the_value_and_rejects_what_is_none() {
    let (peer, dead) = (MemoryPeer::standard(), MemoryPeer::standard());
    peer.put([r#"{"item":"cup","count":3}"#, r#"{"item":"cup"}"#, "no JSON"]);
    let seen: Arc<Mutex<Vec<(String, u32)>>> = Arc::default();
    let memory = Arc::clone(&seen);
    let handler = json(move |order: Order, _message: Message| {
        memory.lock().unwrap().push((order.item, order.count));
        async { Ok(Outcome::Ack) }
    });

    let worker = Worker::new(peer.clone(), handler, until_empty(1));
    let summary = worker.with_dead_letter_queue(dead.clone()).run().await;

    assert_eq!(*seen.lock().unwrap(), [("cup".to_owned(), 3)]);
    assert_eq!((summary.succeeded, summary.dead_lettered), (1, 2));
    assert_eq!(dead.bodies(), [r#"{"item":"cup"}"#, "no JSON"]);
}

#[tokio::test(start_paused = true)]
async fn notification_is_unwrapped_and_other_bodies_are_not() {
    let peer = MemoryPeer::standard();
    let notification = r#"{
        "Type": "Notification", "MessageId": "1", "TopicArn": "arn:aws:sns:r:1:t", "Subject": "s",
        "Message": "published", "Timestamp": "2026-01-01T00:00:00.000Z",
        "MessageAttributes": {
            "color": {"Type": "String", "Value": "red"}, "raw": {"Type": "Binary", "Value": "AAE="},
            "icon": {"Type": "Binary.gif", "Value": "AgM="}
        }
    }"#;
    peer.put([notification, "raw", r#"{"Type":"Other","TopicArn":"t","Message":"m"}"#]);
    let (handler, seen) = remembering();

    run(&peer, handler.behind(SnsEnvelope)).await;

    let seen = seen.lock().unwrap();
    let bodies: Vec<&str> = seen.iter().map(|message| &**message.body()).collect();
    assert_eq!(bodies, ["published", "raw", r#"{"Type":"Other","TopicArn":"t","Message":"m"}"#]);
    assert_eq!(text(&seen[0], "color").as_deref(), Some("red"));
    assert_eq!(text(&seen[0], "TopicArn").as_deref(), Some("arn:aws:sns:r:1:t"));
    assert_eq!(text(&seen[0], "Subject").as_deref(), Some("s"));
    for (name, data_type, value) in [("raw", "Binary", [0, 1]), ("icon", "Binary.gif", [2, 3])] {
        let found = seen[0].delivery().attributes.iter().find(|known| known.name == name).unwrap();
        assert_eq!(found.data_type, data_type);
        assert_eq!(found.value, AttributeValue::Binary(value.to_vec().into()), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn claim_check_becomes_the_body_that_it_stands_for() {
    let (peer, dead) = (MemoryPeer::standard(), MemoryPeer::standard());
    let check = |key: &str| {
        let class = "software.amazon.payloadoffloading.PayloadS3Pointer";
        format!(r#"["{class}",{{"s3BucketName":"b","s3Key":"{key}"}}]"#)
    };
    let size = MessageAttribute::string("ExtendedPayloadSize", "3");
    let send = async |body: String, attributes: &[MessageAttribute]| {
        let message = Outgoing { attributes: attributes.to_vec(), ..Outgoing::new(body) };
        peer.send(&[message]).await.unwrap();
    };
    send(check("k"), std::slice::from_ref(&size)).await;
    send(check("missing"), std::slice::from_ref(&size)).await;
    send("broken".to_owned(), &[size]).await;
    send(check("not marked"), &[]).await;
    let (handler, seen) = remembering();
    let handler = handler.behind(claim_check(|stored| async move {
        match (&*stored.bucket, &*stored.key) {
            ("b", "k") => Ok("the body".into()),
            _ => Err("there is no such object".into()),
        }
    }));

    let worker = Worker::new(peer.clone(), handler, until_empty(1));
    let summary = worker.with_dead_letter_queue(dead.clone()).run().await;

    let bodies: Vec<String> =
        seen.lock().unwrap().iter().map(|message| message.body().to_string()).collect();
    assert_eq!(bodies, ["the body", &check("not marked")]);
    assert_eq!((summary.succeeded, summary.retried, summary.dead_lettered), (2, 1, 1));
    // What is moved is the message as it was sent.
    assert_eq!(dead.bodies(), ["broken"]);
}

#[tokio::test(start_paused = true)]
async fn layers_apply_from_the_outermost_inwards() {
    let peer = MemoryPeer::standard();
    peer.put(["x"]);
    let (handler, seen) = remembering();
    let append = |letter: &'static str| {
        move |message: Message| async move {
            let body = format!("{}{letter}", message.body());
            Ok(ControlFlow::Continue(message.with_body(body)))
        }
    };

    run(&peer, handler.behind(append("inner")).behind(append("outer"))).await;

    assert_eq!(seen.lock().unwrap()[0].body(), "xouterinner");
}

#[tokio::test(start_paused = true)]
async fn layer_decides_for_single_messages_of_a_batch() {
    let peer = MemoryPeer::standard();
    peer.put(["drop", "a", "fail", "b"]);
    let handler = Recorder::succeeding(std::time::Duration::ZERO);
    let layer = |message: Message| async move {
        match &**message.body() {
            "drop" => Ok(ControlFlow::Break(Outcome::Ack)),
            "fail" => Err(HandlerError::from("no")),
            _ => Ok(ControlFlow::Continue(message)),
        }
    };
    let options = Options { batch_size: 10, until: Until::Once, ..until_empty(1) };

    Worker::new(peer.clone(), handler.clone().behind(layer), options).run().await;

    assert_eq!(handler.bodies(), ["a", "b"]);
    assert_eq!(peer.bodies(), ["fail"]);
}

/// Remembers the texts of what is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for Log {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = String::new();
        event.record(&mut |field: &tracing::field::Field, value: &dyn std::fmt::Debug| {
            if ["message", "error", "receive_count", "becomes"].contains(&field.name()) {
                line.push_str(&format!("{value:?};"));
            }
        });
        self.0.lock().unwrap().push(line);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test(start_paused = true)]
async fn errors_of_a_layer_and_of_what_is_behind_it_are_logged() {
    let peer = MemoryPeer::standard();
    peer.put(["layer", "handler"]);
    let handler = Recorder::new(|_| (std::time::Duration::ZERO, Err("of the handler".into())));
    let layer = |message: Message| async move {
        match &**message.body() {
            "layer" => Err(HandlerError::from("of the layer")),
            _ => Ok(ControlFlow::Continue(message)),
        }
    };
    // Of all tests: a line that one of them logs first is off where nobody listens there.
    let log = Log::default();
    tracing::subscriber::set_global_default(log.clone()).unwrap();

    run(&peer, handler.behind(layer)).await;

    let mut lines = log.0.lock().unwrap().clone();
    lines.retain(|line| line.starts_with("handler failed;1;of the "));
    lines.sort();
    assert_eq!(
        lines,
        [
            "handler failed;1;of the handler;\"retried\";",
            "handler failed;1;of the layer;\"retried\";",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn messages_behind_one_that_a_layer_stops_are_not_handled() {
    let peer = MemoryPeer::fifo();
    for body in ["a1", "a2", "b1"] {
        let group_id = Some(body[..1].to_owned().into());
        peer.send(&[Outgoing { group_id, ..Outgoing::new(body) }]).await.unwrap();
    }
    let handler = Recorder::succeeding(std::time::Duration::ZERO);
    let layer = |message: Message| async move {
        if message.body() == "a1" {
            return Ok(ControlFlow::Break(Outcome::RETRY));
        }
        Ok(ControlFlow::Continue(message))
    };
    let options = Options { batch_size: 10, until: Until::Once, ..until_empty(1) };

    Worker::new(peer.clone(), handler.clone().behind(layer), options).run().await;

    assert_eq!(handler.bodies(), ["b1"]);
    assert_eq!(peer.bodies(), ["a1", "a2"]);
}
