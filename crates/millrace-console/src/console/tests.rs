//! The console over a broker in memory: what a browser asks, and what it must not get.

mod logins;
mod messages;
mod pages;
mod safety;
mod streams;

use millrace_broker::{OpenShard, Shard, Shards};
use std::sync::Arc;
use std::time::Duration;

use millrace_core::{ShardId, SystemClock};
use millrace_engine::Replay;
use millrace_journal::{GroupCommit, GroupOptions, MemoryJournal};
use millrace_services::{AccessKey, SqsOptions};
use serde_json::Value;

use super::*;

const SEGMENT_BYTES: u32 = 1 << 20;

struct Browser {
    console: Console,
    log: Arc<GroupCommit>,
    cookie: String,
    token: String,
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.log.close();
    }
}

impl Browser {
    fn new(access_keys: Vec<AccessKey>) -> Browser {
        let access_keys = AccessKeys::new(access_keys);
        let journal = Box::new(MemoryJournal::new(SEGMENT_BYTES));
        let log = GroupCommit::new(journal, GroupOptions::default());
        let replayed =
            Replay::default().finish(Shard::first_seq(ShardId(0), log.opened().epoch.0).unwrap());
        log.spawn_committer().unwrap();
        let options = millrace_broker::Options::default();
        let clock = Arc::new(SystemClock::new());
        let open = OpenShard {
            id: ShardId(0),
            log: log.clone(),
            options,
            replayed,
            random: Box::new(|| 1),
        };
        let shards = Shards::of_one(clock, open).unwrap();
        let services = millrace_services::Options {
            region: "us-east-1".into(),
            account: "000000000000".into(),
            access_keys: access_keys.clone(),
            sqs: SqsOptions::default(),
            ..millrace_services::Options::default()
        };
        let store = millrace_metrics::MetricStore::open(None, shards.now()).unwrap();
        let access = millrace_services::QueueAccess::Open;
        let monitor = millrace_services::Monitor::start(shards.clone(), Arc::new(store), access);
        let floors = millrace_services::Floors {
            shards: shards.clone(),
            monitor: Arc::new(monitor.unwrap()),
            tables: None,
            push: None,
        };
        let services = Arc::new(Services::new(floors, &services, None));
        let options = Options {
            access_keys,
            region: "us-east-1".into(),
            account: "000000000000".into(),
            endpoint: "http://127.0.0.1:4566".into(),
            host_names: Vec::new(),
            durability: "memory",
            figures: Arc::new(crate::ProcessFigures::default),
            secret: [7; 32],
        };
        let console = Console::new(shards, services, options);
        Browser { console, log, cookie: String::new(), token: String::new() }
    }

    /// A browser that has loaded a page.
    async fn with_page() -> Browser {
        let mut browser = Browser::new(Vec::new());
        let page = browser.get("/queues").await;
        browser.keep_cookie(&page);
        let session = browser.get("/api/session").await;
        browser.token = json(&session)["token"].as_str().unwrap().to_owned();
        browser
    }

    fn keep_cookie(&mut self, response: &Response) {
        let set = response.headers.iter().find(|(name, _)| *name == "Set-Cookie").unwrap();
        self.cookie = set.1.split(';').next().unwrap().to_owned();
    }

    async fn log_in(&mut self, access_key: &str) {
        let keys = json!({ "access_key": access_key, "secret_key": "long-secret" }).to_string();
        let login = self.ask("POST", "/api/login", &[], &keys).await;
        self.keep_cookie(&login);
        self.token = json(&self.get("/api/session").await)["token"].as_str().unwrap().into();
    }

    async fn get(&self, target: &str) -> Response {
        self.ask("GET", target, &[], "").await
    }

    /// An action of SQS as a page of ours asks for it.
    async fn act(&self, action: &str, input: Value) -> Response {
        let token = [("X-CSRF-Token", self.token.as_str())];
        self.ask("POST", &format!("/api/call/sqs/{action}"), &token, &input.to_string()).await
    }

    async fn ask(
        &self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Response {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut all = vec![("Host", "127.0.0.1:4567"), ("Cookie", self.cookie.as_str())];
        all.extend_from_slice(headers);
        let headers: Vec<_> = all.iter().map(|(name, value)| Header::new(name, value)).collect();
        let post = Request::post(&headers, body.as_bytes());
        self.console.call(Request { method, path, query, ..post }).await
    }

    async fn create(&self, name: &str) {
        assert_eq!(self.act("CreateQueue", json!({ "QueueName": name })).await.status, 200);
    }

    async fn send(&self, name: &str, body: &str) {
        let input = json!({ "QueueUrl": url(name), "MessageBody": body });
        assert_eq!(self.act("SendMessage", input).await.status, 200);
    }
}

fn url(name: &str) -> String {
    format!("http://127.0.0.1:4566/000000000000/{name}")
}

fn place(name: &str) -> String {
    format!("region=us-east-1&account=000000000000&name={name}")
}

fn json(response: &Response) -> Value {
    serde_json::from_slice(&response.body).unwrap()
}

fn key() -> AccessKey {
    AccessKey {
        access_key: "AKIDOPS".into(),
        secret_key: "long-secret".into(),
        account: "111111111111".into(),
        name: "ops".into(),
    }
}

/// The next event of a stream.
async fn event(stream: &mut Box<dyn millrace_wire::BodyStream>) -> String {
    let piece = std::future::poll_fn(|task| stream.poll_next(task)).await;
    String::from_utf8(piece.unwrap()).unwrap()
}
