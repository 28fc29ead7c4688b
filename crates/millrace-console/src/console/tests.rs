//! The console over a broker in memory: what a browser asks, and what it must not get.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use millrace_core::SystemClock;
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
        let replayed = Replay::default().finish(Broker::first_seq(log.opened().epoch.0));
        log.spawn_committer().unwrap();
        let options = millrace_broker::Options::default();
        let clock = Arc::new(SystemClock::new());
        let broker = Broker::new(log.clone(), clock, options, replayed, Box::new(|| 1)).unwrap();
        let services = millrace_services::Options {
            region: "us-east-1".into(),
            account: "000000000000".into(),
            access_keys: access_keys.clone(),
            sqs: SqsOptions::default(),
            ..millrace_services::Options::default()
        };
        let store = millrace_metrics::MetricStore::open(None, broker.now()).unwrap();
        let alarms = millrace_services::Alarms {
            book: millrace_metrics::alarm::AlarmBook::open(None, broker.now()).unwrap(),
            queue_access: millrace_services::QueueAccess::Open,
        };
        let monitor = millrace_services::Monitor::start(broker.clone(), Arc::new(store), alarms);
        let services =
            Arc::new(Services::new(broker.clone(), Arc::new(monitor.unwrap()), &services, None));
        let options = Options {
            access_keys,
            region: "us-east-1".into(),
            account: "000000000000".into(),
            endpoint: "http://127.0.0.1:4566".into(),
            host_names: Vec::new(),
            durability: "memory",
            secret: [7; 32],
        };
        let console = Console::new(broker, services, options);
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
        let headers: Vec<Header<'_>> =
            all.iter().map(|(name, value)| Header { name, value: value.as_bytes() }).collect();
        let request = Request {
            method,
            path,
            query,
            headers: &headers,
            body: body.as_bytes(),
            peer: IpAddr::from([127, 0, 0, 1]),
            is_tls: false,
        };
        self.console.call(request).await
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

#[tokio::test]
async fn a_change_needs_the_pages_token() {
    let browser = Browser::with_page().await;
    let create = json!({ "QueueName": "q" }).to_string();

    let without = browser.ask("POST", "/api/call/sqs/CreateQueue", &[], &create).await;
    let forged = "0".repeat(64);
    let wrong = [("X-CSRF-Token", forged.as_str())];
    let with_wrong = browser.ask("POST", "/api/call/sqs/CreateQueue", &wrong, &create).await;
    let with = browser.act("CreateQueue", json!({ "QueueName": "q" })).await;

    assert_eq!((without.status, with_wrong.status, with.status), (403, 403, 200));
    assert_eq!(json(&without)["__type"], "InvalidToken");
    assert_eq!(json(&with)["QueueUrl"], url("q"));
}

#[tokio::test]
async fn the_services_check_what_the_console_hands_them() {
    let browser = Browser::with_page().await;

    let refused = browser.act("CreateQueue", json!({ "QueueName": "no spaces" })).await;
    let missing = browser.act("SendMessage", json!({ "QueueUrl": url("x"), "MessageBody": "b" }));
    let unknown = browser.act("DropEverything", json!({})).await;

    assert_eq!(refused.status, 400);
    let missing = json(&missing.await);
    assert!(missing["__type"].as_str().unwrap().ends_with("QueueDoesNotExist"), "{missing}");
    assert_eq!(unknown.status, 404);
    let other = browser.ask("POST", "/api/call/iam/CreateUser", &[], "{}").await;
    assert!(matches!(other.status, 403 | 404));
}

#[tokio::test]
async fn an_action_is_of_an_account_that_can_be() {
    let browser = Browser::with_page().await;
    let token = [("X-CSRF-Token", browser.token.as_str())];
    let create = async |account: &str| {
        let target = format!("/api/call/sqs/CreateQueue?account={account}");
        browser.ask("POST", &target, &token, r#"{"QueueName":"q"}"#).await
    };

    for nonsense in ["%3Cimg%20src%3Dx%3E", "", "11111111111", "1111111111111", "11111111111a"] {
        let answer = create(nonsense).await;
        assert_eq!(
            (answer.status, &json(&answer)["__type"]),
            (400, &json!("InvalidParameterValueException"))
        );
    }
    assert_eq!(create("111111111111").await.status, 200);
}

#[tokio::test]
async fn foreign_hosts_and_origins_get_nothing() {
    let browser = Browser::with_page().await;

    for headers in [[("Origin", "http://evil.example")], [("Sec-Fetch-Site", "cross-site")]] {
        let token = ("X-CSRF-Token", browser.token.as_str());
        let headers = [token, headers[0]];
        let answer = browser.ask("POST", "/api/call/sqs/ListQueues", &headers, "{}").await;
        assert_eq!(answer.status, 403);
        let answer = browser.ask("GET", "/api/session", &headers[1..], "").await;
        assert_eq!(answer.status, 403);
    }
}

#[tokio::test]
async fn every_answer_carries_the_content_policy() {
    let browser = Browser::with_page().await;

    for target in ["/", "/queues", "/nonsense", "/api/session", "/events?view=overview"] {
        let answer = browser.get(target).await;
        let policy = answer.headers.iter().find(|(name, _)| *name == "Content-Security-Policy");
        assert!(policy.unwrap().1.starts_with("default-src 'none'; script-src 'self'"), "{target}");
    }
}

#[tokio::test]
async fn browsing_counts_no_receive_and_polling_does() {
    let browser = Browser::with_page().await;
    browser.create("letters").await;
    browser.send("letters", "<script>alert(1)</script>").await;

    let browse = format!("/api/browse?{}", place("letters"));
    for _ in 0..3 {
        let page = json(&browser.get(&browse).await);
        assert_eq!(page["messages"][0]["receive_count"], 0);
        assert_eq!(page["messages"][0]["state"], "available");
        assert_eq!(page["messages"][0]["body"], "<script>alert(1)</script>");
    }
    browser.act("ReceiveMessage", json!({ "QueueUrl": url("letters") })).await;

    let message = json(&browser.get(&browse).await)["messages"][0].clone();
    assert_eq!((&message["receive_count"], &message["state"]), (&json!(1), &json!("in_flight")));
    assert!(message["deadline"].as_u64().unwrap() > message["sent"].as_u64().unwrap());
}

#[tokio::test]
async fn a_search_finds_bodies_in_any_case_and_pages_on() {
    let browser = Browser::with_page().await;
    browser.create("letters").await;
    for number in 0..130 {
        let name = if number == 128 { "Needle" } else { "straw" };
        browser.send("letters", &format!("{name} {number}")).await;
    }

    let search = format!("/api/browse?{}&search=needle", place("letters"));
    let found = json(&browser.get(&search).await);
    let first = json(&browser.get(&format!("/api/browse?{}", place("letters"))).await);
    let cursor = first["next"].as_str().unwrap();
    let second = format!("/api/browse?{}&cursor={cursor}", place("letters"));
    let second = json(&browser.get(&second).await);

    assert_eq!(found["messages"].as_array().unwrap().len(), 1);
    assert_eq!((&found["searched"], &found["next"]), (&json!(130), &Value::Null));
    assert_eq!(first["messages"].as_array().unwrap().len(), 50);
    assert_eq!(second["messages"][0]["body"], "straw 50");
}

#[tokio::test]
async fn a_long_body_is_cut_in_lists_and_whole_alone() {
    let browser = Browser::with_page().await;
    browser.create("letters").await;
    browser.send("letters", &"x".repeat(10_000)).await;

    let page = json(&browser.get(&format!("/api/browse?{}", place("letters"))).await);
    let listed = &page["messages"][0];
    let (slot, seq, id) = (&listed["slot"], &listed["seq"], &listed["id"]);
    let one = |id: &str| {
        let seq = seq.as_str().unwrap();
        format!("/api/message?{}&slot={slot}&seq={seq}&id={id}", place("letters"))
    };
    let whole = json(&browser.get(&one(id.as_str().unwrap())).await);

    assert_eq!((&listed["is_cut"], &listed["size"]), (&json!(true), &json!(10_000)));
    assert_eq!(listed["body"].as_str().unwrap().len(), 4096);
    assert_eq!(whole["body"].as_str().unwrap().len(), 10_000);
    assert_eq!(json(&browser.get(&one("another-id")).await), Value::Null);
}

#[tokio::test]
async fn a_stream_begins_with_all_and_goes_on_with_what_changed() {
    let browser = Browser::with_page().await;
    browser.create("letters").await;
    let mut answer = browser.get("/events?view=queues").await;
    assert_eq!(answer.content_type, "text/event-stream");
    let mut stream = answer.stream.take().unwrap();

    let (first, second) = tokio::select! {
        events = async {
            let first = event(&mut stream).await;
            // Whether the first sample was taken before or after the queue was there is open.
            let mut seen = first.contains("us-east-1/000000000000/letters");
            while !seen {
                seen = event(&mut stream).await.contains("us-east-1/000000000000/letters");
            }
            browser.send("letters", "hello").await;
            let mut second = event(&mut stream).await;
            while !second.contains("\"available\":1") {
                second = event(&mut stream).await;
            }
            (first, second)
        } => events,
        () = browser.console.run() => unreachable!("the sampler never ends"),
    };

    assert!(first.contains("event: snapshot\nid: "), "{first}");
    assert!(second.starts_with("event: delta\n"), "{second}");
    let delta = second.split("data: ").nth(1).unwrap();
    let delta: Value = serde_json::from_str(delta).unwrap();
    let row = &delta["lists"]["queues"]["rows"][0];
    assert_eq!(
        (&row["key"], &row["available"]),
        (&json!("us-east-1/000000000000/letters"), &json!(1))
    );
    assert!(row.get("name").is_none(), "{row}");
}

#[tokio::test]
async fn a_browser_that_comes_back_goes_on_where_it_was() {
    let browser = Browser::with_page().await;
    browser.create("letters").await;
    let mut stream = browser.get("/events?view=queues").await.stream.unwrap();
    let first = event(&mut stream).await;
    let id = first.lines().find_map(|line| line.strip_prefix("id: ")).unwrap();

    let last = [("Last-Event-ID", id)];
    let mut known = browser.ask("GET", "/events?view=queues", &last, "").await.stream.unwrap();
    let other = [("Last-Event-ID", "0011223344556677-1")];
    let mut unknown = browser.ask("GET", "/events?view=queues", &other, "").await.stream.unwrap();

    assert!(event(&mut known).await.contains("event: delta"));
    assert!(event(&mut unknown).await.contains("event: snapshot"));
}

#[tokio::test]
async fn a_queues_page_is_there_as_soon_as_the_queue_is() {
    let browser = Browser::with_page().await; // Takes a sample that stays fresh for a while.
    let path = "/queues/us-east-1/000000000000/letters";
    assert_eq!(browser.get(path).await.status, 404);

    browser.create("letters").await;

    assert_eq!(browser.get(path).await.status, 200);
}

#[tokio::test]
async fn a_page_says_that_it_is_only_read() {
    let refused = Browser::with_page().await.ask("POST", "/queues", &[], "").await;

    assert_eq!(refused.status, 405);
    assert!(refused.headers.contains(&("Allow", "GET, HEAD".to_owned())));
}

#[tokio::test]
async fn a_path_below_api_says_which_methods_it_has() {
    for browser in [Browser::with_page().await, Browser::new(vec![key()])] {
        for (method, path, allowed) in [
            ("GET", "/api/login", "POST"),
            ("GET", "/api/logout", "POST"),
            ("GET", "/api/call/sqs/ListQueues", "POST"),
            ("POST", "/api/session", "GET"),
            ("DELETE", "/api/browse", "GET"),
            ("POST", "/events", "GET"),
        ] {
            let refused = browser.ask(method, path, &[], "").await;
            assert_eq!(refused.status, 405, "{method} {path}");
            assert!(refused.headers.contains(&("Allow", allowed.to_owned())), "{path}");
        }
        let unknown = browser.ask("POST", "/api/nonsense", &[], "").await;
        assert_ne!(unknown.status, 405);
    }
}

#[tokio::test]
async fn an_unknown_path_is_a_page_and_browsers_find_the_icon() {
    for browser in [Browser::with_page().await, Browser::new(vec![key()])] {
        for target in ["/nonsense", "/queues/us-east-1/000000000000/q/nonsense"] {
            let page = browser.get(target).await;
            assert_eq!((page.status, page.content_type), (404, "text/html; charset=utf-8"));
            let html = str::from_utf8(&page.body).unwrap();
            assert!(html.contains(r#"<a href="/queues">"#), "{html}");
        }
        let icon = browser.get("/favicon.ico").await;
        assert_eq!((icon.status, icon.content_type), (200, "image/svg+xml"));
        assert_eq!(
            browser.get("/api/nonsense").await.status,
            if browser.token.is_empty() { 401 } else { 404 }
        );
    }
}

#[tokio::test]
async fn places_are_where_queues_and_alarms_are() {
    let browser = Browser::with_page().await;
    browser.create("letters").await;
    let token = [("X-CSRF-Token", browser.token.as_str())];
    let elsewhere = "region=eu-west-1&account=000000000000";
    let call = async |action: &str, input: Value| {
        let target = format!("/api/call/{action}?{elsewhere}");
        let answer = browser.ask("POST", &target, &token, &input.to_string()).await;
        assert_eq!(answer.status, 200);
    };
    call("sqs/CreateQueue", json!({ "QueueName": "far" })).await;
    let places = async |query: &str| json(&browser.get(&format!("/api/places{query}")).await);
    let place = |region: &str| json!({ "region": region, "account": "000000000000" });
    assert_eq!(places("?having=alarms").await, json!([]));

    let alarm = json!({
        "AlarmName": "backlog", "Namespace": "AWS/SQS", "MetricName": "NumberOfMessagesSent",
        "Statistic": "Sum", "Period": 60, "EvaluationPeriods": 1, "Threshold": 1,
        "ComparisonOperator": "GreaterThanThreshold",
    });
    call("cloudwatch/PutMetricAlarm", alarm).await;

    assert_eq!(places("").await, json!([place("eu-west-1"), place("us-east-1")]));
    assert_eq!(places("?having=alarms").await, json!([place("eu-west-1")]));
}

#[tokio::test]
async fn samples_are_forgotten_when_nobody_looks() {
    let browser = Browser::with_page().await;
    browser.create("letters").await;
    let queue = browser.console.broker.queue("us-east-1", "000000000000", "letters");
    let queue = Arc::downgrade(&queue.unwrap());
    let one = "/api/snapshot?view=queue&region=us-east-1&account=000000000000&name=letters";
    let first = json(&browser.get(one).await);
    let delete = json!({ "QueueUrl": url("letters") });
    assert_eq!(browser.act("DeleteQueue", delete).await.status, 200);
    assert!(queue.upgrade().is_some(), "a sample holds it");

    let is_gone = async {
        while queue.upgrade().is_some() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        () = browser.console.run() => unreachable!(),
        gone = tokio::time::timeout(Duration::from_secs(30), is_gone) => gone.unwrap(),
    }

    let second = json(&browser.get("/api/snapshot?view=queues").await);
    assert_ne!(first["id"], second["id"], "an event's id never names another sample");
}

#[tokio::test]
async fn streams_end_when_the_server_drains() {
    let browser = Browser::with_page().await;
    let mut stream = browser.get("/events?view=overview").await.stream.unwrap();
    event(&mut stream).await;

    browser.console.close();

    assert_eq!(std::future::poll_fn(|task| stream.poll_next(task)).await, None);
    assert_eq!(browser.get("/events?view=overview").await.status, 503);
}

#[tokio::test]
async fn with_credentials_nothing_is_shown_before_a_login() {
    let mut browser = Browser::new(vec![key()]);

    let page = browser.get("/queues?sort=name").await;
    assert_eq!(page.status, 303);
    assert!(page.headers.contains(&("Location", "/login?next=%2Fqueues%3Fsort%3Dname".into())));
    for target in ["/events?view=overview", "/api/snapshot?view=overview", "/api/session"] {
        assert_eq!(browser.get(target).await.status, 401, "{target}");
    }
    assert_eq!(browser.get("/login").await.status, 200);
    let wrong = json!({ "access_key": "AKIDOPS", "secret_key": "guess" }).to_string();
    assert_eq!(browser.ask("POST", "/api/login", &[], &wrong).await.status, 403);

    let right = json!({ "access_key": "AKIDOPS", "secret_key": "long-secret" }).to_string();
    let login = browser.ask("POST", "/api/login", &[], &right).await;
    browser.keep_cookie(&login);
    assert_eq!(browser.get("/queues").await.status, 200);
}

#[tokio::test]
async fn logging_out_ends_the_sessions_streams_and_no_others() {
    let mut browser = Browser::new(vec![key()]);
    let keys = json!({ "access_key": "AKIDOPS", "secret_key": "long-secret" }).to_string();
    let mut open_stream = async || {
        let login = browser.ask("POST", "/api/login", &[], &keys).await;
        browser.keep_cookie(&login);
        let mut stream = browser.get("/events?view=overview").await.stream.unwrap();
        event(&mut stream).await;
        stream
    };
    let mut other = open_stream().await;
    let mut stream = open_stream().await;

    browser.ask("POST", "/api/logout", &[], "").await;

    assert_eq!(std::future::poll_fn(|task| stream.poll_next(task)).await, None);
    let next = tokio::select! {
        next = event(&mut other) => next,
        () = browser.console.run() => unreachable!("the sampler never ends"),
    };
    assert!(next.contains("event: delta"), "{next}");
}

#[tokio::test]
async fn a_stream_ends_with_its_sessions_time() {
    let mut browser = Browser::new(vec![key()]);
    browser.log_in("AKIDOPS").await;
    let mut stream = browser.get("/events?view=overview").await.stream.unwrap();
    event(&mut stream).await;

    let cookie = Header { name: "Cookie", value: browser.cookie.as_bytes() };
    let host = Header { name: "Host", value: b"127.0.0.1:4567" };
    let last_request = Request {
        method: "GET",
        path: "/",
        query: "",
        headers: &[host, cookie],
        body: b"",
        peer: IpAddr::from([127, 0, 0, 1]),
        is_tls: false,
    };
    let thirteen_hours_ago = Instant::now() - Duration::from_secs(13 * 3600);
    browser.console.sessions.of(&last_request, thirteen_hours_ago).unwrap();

    let end = tokio::select! {
        end = std::future::poll_fn(|task| stream.poll_next(task)) => end,
        () = browser.console.run() => unreachable!("the sampler never ends"),
    };
    assert_eq!(end, None);
}

/// With the keys `AKIDOPS` and `AKIDOTHER`, of accounts 111111111111 and 222222222222.
fn browser_of_two_accounts() -> Browser {
    let other =
        AccessKey { access_key: "AKIDOTHER".into(), account: "222222222222".into(), ..key() };
    Browser::new(vec![key(), other])
}

#[tokio::test]
async fn the_history_of_anothers_queue_is_not_shown() {
    let mut browser = browser_of_two_accounts();
    browser.log_in("AKIDOPS").await;
    browser.create("mine").await;
    let mine = "view=queue&region=us-east-1&account=111111111111&name=mine";
    let mut own = browser.get(&format!("/events?{mine}")).await.stream.unwrap();
    let own_cookie = browser.cookie.clone();
    browser.log_in("AKIDOTHER").await;
    let snapshot = format!("/api/snapshot?{mine}");
    browser.get(&snapshot).await; // From now on it is watched.

    tokio::select! {
        // The first is a snapshot, and a rate takes two samples.
        () = async { for _ in 0..4 { event(&mut own).await; } } => {}
        () = browser.console.run() => unreachable!("the sampler never ends"),
    }
    let others = json(&browser.get(&snapshot).await);
    browser.cookie = own_cookie;
    let own = json(&browser.get(&snapshot).await);

    assert!(!own["history"].as_array().unwrap().is_empty(), "{own}");
    assert_eq!((&others["head"]["is_gone"], &others["history"]), (&json!(true), &json!([])));
}

#[tokio::test]
async fn a_login_opens_its_own_accounts_queues_only() {
    let mut browser = browser_of_two_accounts();
    browser.log_in("AKIDOPS").await;
    browser.create("mine").await;
    browser.log_in("AKIDOTHER").await;
    browser.create("theirs").await;

    let queues = json(&browser.get("/api/snapshot?view=queues").await);
    let names: Vec<&str> = queues["lists"]["queues"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["name"].as_str().unwrap())
        .collect();
    let mine = "region=us-east-1&account=111111111111&name=mine";
    let delete = json!({ "QueueUrl": "http://127.0.0.1:4566/111111111111/mine" });

    let places = json(&browser.get("/api/places").await);

    assert_eq!(names, ["theirs"]);
    assert_eq!(places, json!([{ "region": "us-east-1", "account": "222222222222" }]));
    assert_eq!(browser.get(&format!("/api/browse?{mine}")).await.status, 404);
    assert_eq!(browser.get("/queues/us-east-1/111111111111/mine").await.status, 404);
    assert_eq!(browser.act("DeleteQueue", delete).await.status, 403);
}
