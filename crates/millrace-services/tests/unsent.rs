//! What holds of requests whose answer does not reach the client: there is no room for it, or the
//! client has left.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use millrace_broker::{OpenShard, Shard, Shards};
use millrace_core::{ShardId, SystemClock};
use millrace_engine::Replay;
use millrace_journal::{GroupCommit, GroupOptions, MemoryJournal};
use millrace_metrics::MetricStore;
use millrace_services::{Floors, Monitor, Options, QueueAccess, Services, SqsOptions};
use millrace_wire::{Header, Request, Response, Service};
use serde_json::{Value, json};

const SEGMENT_BYTES: u32 = 16 << 20;

/// Services over a journal in memory.
struct Process {
    log: Arc<GroupCommit>,
    shards: Arc<Shards>,
    monitor: Arc<Monitor>,
    services: Services,
}

impl Process {
    /// Whoever waits for commits waits for the test, or for the thread that it starts.
    fn start(sqs: SqsOptions) -> Process {
        let journal = Box::new(MemoryJournal::new(SEGMENT_BYTES));
        let log = GroupCommit::new(journal, GroupOptions::default());
        let replayed =
            Replay::default().finish(Shard::first_seq(ShardId(0), log.opened().epoch.0).unwrap());
        let clock = Arc::new(SystemClock::new());
        let options = millrace_broker::Options::default();
        let open = OpenShard {
            id: ShardId(0),
            log: log.clone(),
            options,
            replayed,
            random: Box::new(|| 1),
        };
        let shards = Shards::of_one(clock, open).unwrap();
        let store = Arc::new(MetricStore::open(None, shards.now()).unwrap());
        let monitor = Monitor::start(shards.clone(), store, QueueAccess::Open).unwrap();
        let monitor = Arc::new(monitor);
        let options = Options {
            region: "us-east-1".into(),
            account: "000000000000".into(),
            sqs,
            ..Options::default()
        };
        let floors =
            Floors { shards: shards.clone(), monitor: monitor.clone(), tables: None, push: None };
        let services = Services::new(floors, &options, None);
        Process { log, shards, monitor, services }
    }

    fn end(&self) {
        self.monitor.close();
        self.shards.close();
        self.log.close();
    }
}

async fn call(services: &Services, action: &str, input: &Value) -> Response {
    let target = format!("AmazonSQS.{action}");
    let body = input.to_string();
    let headers = [
        Header::new("content-type", "application/x-amz-json-1.0"),
        Header::new("x-amz-target", &target),
    ];
    services.call(Request::post(&headers, body.as_bytes())).await
}

#[tokio::test]
async fn messages_of_an_answer_that_is_not_sent_can_be_received_again() {
    let process = Process::start(SqsOptions::default());
    process.log.spawn_committer().unwrap();
    let Process { shards, services, .. } = &process;
    for name in ["jobs", "jobs.fifo"] {
        let is_fifo = name.ends_with(".fifo");
        let attributes = if is_fifo { json!({ "FifoQueue": "true" }) } else { json!({}) };
        call(services, "CreateQueue", &json!({ "QueueName": name, "Attributes": attributes }))
            .await;
        for number in 0..2 {
            let mut message = json!({ "QueueUrl": name, "MessageBody": "x".repeat(100_000) });
            if is_fifo {
                message["MessageGroupId"] = "g".into();
                message["MessageDeduplicationId"] = number.to_string().into();
            }
            assert_eq!(call(services, "SendMessage", &message).await.status, 200);
        }
        let receive = json!({ "QueueUrl": name, "MaxNumberOfMessages": 10 });

        call(services, "ReceiveMessage", &receive).await.unsent.unwrap().take_back();
        let again = call(services, "ReceiveMessage", &receive).await;

        let received: Value = serde_json::from_slice(&again.body).unwrap();
        assert_eq!(received["Messages"].as_array().map(Vec::len), Some(2), "{name}");
        let queue = shards.catalog().queue("us-east-1", "000000000000", name).unwrap();
        let (counts, _) = queue.count_messages();
        assert_eq!((counts.ready, counts.in_flight), (0, 2), "{name}");
    }
    process.end();
}

#[tokio::test]
async fn the_name_of_a_queue_rests_though_who_deleted_it_has_left() {
    let process = Process::start(SqsOptions { recreate_cool_down: true, ..SqsOptions::default() });
    let (new, old) = (json!({ "QueueName": "jobs" }), json!({ "QueueUrl": "jobs" }));
    let create = || call(&process.services, "CreateQueue", &new);
    let commit = async { while process.log.commit_step() {} };
    assert_eq!(tokio::join!(create(), commit).0.status, 200);

    tokio::select! {
        biased;
        _ = call(&process.services, "DeleteQueue", &old) => panic!("answered before its commit"),
        () = std::future::ready(()) => {}
    }

    process.log.spawn_committer().unwrap();
    let refusal = create().await;
    let text = String::from_utf8_lossy(&refusal.body);
    assert!(text.contains("QueueDeletedRecently"), "{} {text}", refusal.status);
    process.end();
}
