//! Topics and HTTP endpoints, as far as their hidden queues: what a receiver would be sent, and the
//! links in it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;
use std::sync::Arc;

use millrace_broker::{Incoming, OpenShard, ReceiveRequest, Shard, Shards, SharedQueue};
use millrace_core::{ShardId, SystemClock};
use millrace_engine::Replay;
use millrace_journal::{GroupCommit, GroupOptions, LocalJournal, LocalOptions, SimFileSystem};
use millrace_metrics::MetricStore;
use millrace_services::delivery::{Delivery, DeliveryKind};
use millrace_services::{Floors, Monitor, Options, QueueAccess, Services};
use millrace_wire::{Header, Request, Response, Service};
use serde_json::Value;

const FORM: &str = "application/x-www-form-urlencoded";
const ACCOUNT: &str = "000000000000";
const TOPIC: &str = "arn:aws:sns:us-east-1:000000000000:t";

/// A process on a disk.
struct Process {
    log: Arc<GroupCommit>,
    shards: Arc<Shards>,
    monitor: Arc<Monitor>,
    services: Services,
}

impl Process {
    fn start(disk: &SimFileSystem) -> Process {
        let mut replay = Replay::default();
        let options = LocalOptions { segment_bytes: 4 << 20, ..LocalOptions::default() };
        let mut apply = |record: millrace_journal::Replayed<'_>| {
            replay.apply(record.index, record.position.0, record.record_len).unwrap();
        };
        let (disk, path) = (Arc::new(disk.killed()), Path::new("/journal"));
        let (journal, _) = LocalJournal::open(disk, path, options, &mut apply).unwrap();
        let log = GroupCommit::new(Box::new(journal), GroupOptions::default());
        let replayed = replay.finish(Shard::first_seq(ShardId(0), log.opened().epoch.0).unwrap());
        log.spawn_committer().unwrap();
        let open = OpenShard {
            id: ShardId(0),
            log: log.clone(),
            options: millrace_broker::Options::default(),
            replayed,
            random: Box::new(|| 1),
        };
        let shards = Shards::of_one(Arc::new(SystemClock::new()), open).unwrap();
        let store = Arc::new(MetricStore::open(None, shards.now()).unwrap());
        let monitor = Monitor::start(shards.clone(), store, QueueAccess::Open).unwrap();
        let monitor = Arc::new(monitor);
        let floors =
            Floors { shards: shards.clone(), monitor: monitor.clone(), tables: None, push: None };
        let options =
            Options { region: "us-east-1".into(), account: ACCOUNT.into(), ..Options::default() };
        let services = Services::new(floors, &options, None);
        Process { log, shards, monitor, services }
    }

    /// A request of the account, as if it had signed it.
    async fn call(&self, form: &str) -> String {
        let form = format!("{form}&Version=2010-03-31");
        let headers = [Header::new("content-type", FORM), Header::new("host", "h:1")];
        let request = Request::post(&headers, form.as_bytes());
        let principal = self.services.principal(None, ACCOUNT).unwrap();
        text(&self.services.call_as(principal, "us-east-1", request).await)
    }

    /// Visits a link.
    async fn visit(&self, url: &str) -> String {
        let (path, query) = url.strip_prefix("http://h:1").unwrap().split_once('?').unwrap();
        let headers = [Header::new("host", "h:1")];
        let request = Request { method: "GET", path, query, ..Request::post(&headers, b"") };
        text(&self.services.call(request).await)
    }

    fn hidden(&self) -> Vec<Arc<SharedQueue>> {
        let queues = self.shards.home().unwrap().queues();
        queues.into_iter().filter(|queue| queue.key().is_hidden()).collect()
    }

    /// The next delivery to the only HTTP endpoint.
    async fn delivery(&self) -> Incoming {
        let [queue] = self.hidden().try_into().unwrap();
        let receive = ReceiveRequest {
            max: 1,
            visibility_timeout_s: Some(3_600),
            wait_time_s: None,
            attempt_id: None,
        };
        queue.receive(&receive).await.unwrap().pop().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.monitor.close();
        self.shards.close();
        self.log.close();
    }
}

fn text(response: &Response) -> String {
    let text = String::from_utf8(response.body.clone()).unwrap();
    assert_eq!(response.status, 200, "{text}");
    text
}

fn element<'t>(text: &'t str, name: &str) -> &'t str {
    let (_, rest) = text.split_once(&format!("<{name}>")).unwrap();
    rest.split_once("</").unwrap().0
}

fn json(incoming: &Incoming) -> Value {
    serde_json::from_slice(incoming.content.body()).unwrap()
}

const SUBSCRIBE: &str = "Action=Subscribe&Protocol=http&Endpoint=http://r/&ReturnSubscriptionArn=true\
                         &TopicArn=arn:aws:sns:us-east-1:000000000000:t";

fn publish(message: &str) -> String {
    format!("Action=Publish&TopicArn={TOPIC}&Message={message}")
}

#[tokio::test]
async fn an_endpoint_is_asked_and_gets_messages_once_it_has_confirmed() {
    let disk = SimFileSystem::new(1);
    let process = Process::start(&disk);
    process.call("Action=CreateTopic&Name=t").await;
    let answer = process.call(SUBSCRIBE).await;
    let arn = element(&answer, "SubscriptionArn").to_owned();
    process.call(&publish("early")).await;

    let asked = process.delivery().await;
    let body = json(&asked);
    let found = Delivery::of(&asked.content).unwrap();
    assert_eq!((found.kind, found.subscription), (DeliveryKind::SubscriptionConfirmation, &*arn));
    assert_eq!(
        (&body["Type"], &body["MessageId"]),
        (&found.kind.name().into(), &found.message_id.into())
    );
    let link = body["SubscribeURL"].as_str().unwrap();
    assert!(link.contains(body["Token"].as_str().unwrap()), "{link}");
    for _ in 0..2 {
        let confirmed = process.visit(link).await;
        assert_eq!(element(&confirmed, "SubscriptionArn"), arn);
    }

    process.call(&publish("hello")).await;
    let delivered = process.delivery().await;
    let (found, body) = (Delivery::of(&delivered.content).unwrap(), json(&delivered));
    assert_eq!((found.kind, found.topic, found.is_raw), (DeliveryKind::Notification, TOPIC, false));
    assert_eq!((&body["Message"], &body["MessageId"]), (&"hello".into(), &found.message_id.into()));

    let raw =
        "Action=SetSubscriptionAttributes&AttributeName=RawMessageDelivery&AttributeValue=true";
    process.call(&format!("{raw}&SubscriptionArn={arn}")).await;
    process.call(&publish("bare")).await;
    let delivered = process.delivery().await;
    assert!(Delivery::of(&delivered.content).unwrap().is_raw);
    assert_eq!(delivered.content.body(), b"bare");
}

#[tokio::test]
async fn a_link_ends_a_subscription_and_another_revives_it() {
    let disk = SimFileSystem::new(1);
    let mut process = Process::start(&disk);
    process.call("Action=CreateTopic&Name=t").await;
    process.call(SUBSCRIBE).await;
    let confirm = json(&process.delivery().await)["SubscribeURL"].as_str().unwrap().to_owned();
    process.visit(&confirm).await;
    process.call(&publish("first")).await;
    let notification = json(&process.delivery().await);

    process.visit(notification["UnsubscribeURL"].as_str().unwrap()).await;
    process.call(&publish("to nobody")).await;
    let list = format!("Action=ListSubscriptionsByTopic&TopicArn={TOPIC}");
    assert!(process.call(&list).await.contains("<Subscriptions/>"));

    // All of that is durable.
    drop(process);
    process = Process::start(&disk);
    let ended = process.delivery().await;
    assert_eq!(Delivery::of(&ended.content).unwrap().kind, DeliveryKind::UnsubscribeConfirmation);
    process.visit(json(&ended)["SubscribeURL"].as_str().unwrap()).await;
    process.call(&publish("second")).await;
    assert_eq!(json(&process.delivery().await)["Message"], "second");
}

#[tokio::test]
async fn the_hidden_queue_goes_with_its_subscription() {
    let disk = SimFileSystem::new(1);
    let mut process = Process::start(&disk);
    process.call("Action=CreateTopic&Name=t").await;
    let answer = process.call(SUBSCRIBE).await;
    let arn = element(&answer, "SubscriptionArn");
    assert_eq!(process.hidden().len(), 1);

    process.call(&format!("Action=DeleteTopic&TopicArn={TOPIC}")).await;
    assert!(process.hidden().is_empty(), "{arn}");
    drop(process);
    process = Process::start(&disk);
    assert!(process.hidden().is_empty());
    let topics = process.call("Action=ListTopics").await;
    assert!(topics.contains("<Topics/>"), "{topics}");
}
