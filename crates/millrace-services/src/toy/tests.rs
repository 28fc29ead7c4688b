use millrace_broker::{OpenShard, Shard, Shards};
use millrace_core::{ShardId, SystemClock};
use millrace_engine::Replay;
use millrace_journal::{GroupCommit, GroupOptions, MemoryJournal};
use millrace_metrics::MetricStore;
use millrace_wire::{Header, Service};

use super::*;
use crate::cloudwatch::{Monitor, QueueAccess};
use crate::dispatch::{Floors, Further, Options, Services};
use crate::table::Row;
use crate::{AccessKey, AccessKeys};

const SEGMENT_BYTES: u32 = 16 << 20;

/// All services, and toys.
struct Shop {
    services: Services,
    toys: Arc<Toys>,
    monitor: Arc<Monitor>,
    shards: Arc<Shards>,
    log: Arc<GroupCommit>,
}

impl Shop {
    fn open(access_keys: Vec<AccessKey>) -> Shop {
        let journal = Box::new(MemoryJournal::new(SEGMENT_BYTES));
        let log = GroupCommit::new(journal, GroupOptions::default());
        let first_seq = Shard::first_seq(ShardId(0), log.opened().epoch.0).unwrap();
        let replayed = Replay::default().finish(first_seq);
        let clock = Arc::new(SystemClock::new());
        let options = millrace_broker::Options::default();
        let random = Box::new(|| 1);
        let open = OpenShard { id: ShardId(0), log: log.clone(), options, replayed, random };
        let shards = Shards::of_one(clock, open).unwrap();
        let store = Arc::new(MetricStore::open(None, shards.now()).unwrap());
        let monitor = Monitor::start(shards.clone(), store, QueueAccess::Open).unwrap();
        let monitor = Arc::new(monitor);
        let options = Options {
            region: "us-east-1".into(),
            account: "000000000000".into(),
            access_keys: AccessKeys::new(access_keys),
            ..Options::default()
        };
        let toys = Arc::new(Toys::default());
        let further =
            Further { rows: vec![Row::of(toys.clone())], branches: vec![Arc::new(Shelf)] };
        let floors =
            Floors { shards: shards.clone(), monitor: monitor.clone(), tables: None, push: None };
        let services = Services::with(further, floors, &options, None);
        Shop { services, toys, monitor, shards, log }
    }

    async fn json(&self, action: &str, body: &str) -> Response {
        let target = format!("ToyService.{action}");
        let headers = [Header::new("x-amz-target", &target)];
        self.services.call(Request::post(&headers, body.as_bytes())).await
    }

    async fn query(&self, query: &str) -> Response {
        let request = Request { method: "GET", query, ..Request::post(&[], b"") };
        self.services.call(request).await
    }

    async fn get(&self, path: &str) -> String {
        let request = Request { method: "GET", path, ..Request::post(&[], b"") };
        body(&self.services.call(request).await).to_owned()
    }

    /// The counts of requests for toys.
    fn counted(&self) -> Vec<(&'static str, [u64; 2])> {
        let counts = self.services.requests().into_iter().filter(|it| it.service == "toy");
        counts.map(|it| (it.action, [it.succeeded, it.client_errors])).collect()
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        self.monitor.close();
        self.shards.close();
        self.log.close();
    }
}

fn body(response: &Response) -> &str {
    str::from_utf8(&response.body).unwrap()
}

fn key(access_key: &str, account: &str) -> AccessKey {
    AccessKey {
        access_key: access_key.into(),
        secret_key: "secret".into(),
        account: account.into(),
        name: "eve".into(),
    }
}

#[tokio::test]
async fn a_row_is_reached_over_json_and_query() {
    let shop = Shop::open(Vec::new());

    let json = shop.json("Greet", r#""Ann""#).await;
    let query = shop.query("Action=Greet&Version=2001-02-03&Name=Bob").await;

    assert_eq!((json.status, body(&json)), (200, "Ann of 000000000000"));
    assert_eq!((query.status, body(&query)), (200, "Bob of 000000000000"));
    let scope = "AWS4-HMAC-SHA256 Credential=123456789012/20260102/eu-west-1/toybox/aws4_request";
    let headers = [Header::new("authorization", scope)];
    let form = Request::post(&headers, b"Action=Greet&Name=Cid");
    assert_eq!(body(&shop.services.call(form).await), "Cid of 123456789012");
}

#[tokio::test]
async fn a_row_is_counted_and_shown() {
    let shop = Shop::open(Vec::new());

    shop.json("Greet", r#""Ann""#).await;
    shop.query("Action=Greet&Version=2001-02-03").await;
    shop.json("Fly", r#""Ann""#).await;

    assert_eq!(shop.counted(), [("Greet", [1, 1])]);
    let metrics = shop.get("/metrics").await;
    for (service, action, outcome) in [
        ("toy", "Greet", "success"),
        ("toy", "Greet", "client_error"),
        ("other", "other", "client_error"),
    ] {
        let labels = format!(
            r#"millrace_requests_total{{service="{service}",action="{action}",outcome="{outcome}"}} 1"#
        );
        assert!(metrics.contains(&labels), "{labels} in {metrics}");
    }
    let health = shop.get("/_localstack/health").await;
    let services = r#"{"services":{"sqs":"running","cloudwatch":"running","sts":"running","sns":"running","toy":"running"},"#;
    assert!(health.starts_with(services), "{health}");
}

#[tokio::test]
async fn an_action_that_is_not_in_the_row_is_unknown() {
    let shop = Shop::open(Vec::new());

    let json = shop.json("Fly", "{}").await;
    let query = shop.query("Action=Fly&Version=2001-02-03").await;

    assert_eq!(json.status, 404);
    assert_eq!(
        body(&json),
        r#"{"__type":"com.amazon.coral.service#UnknownOperationException","message":"The requested operation is not known."}"#
    );
    assert_eq!(query.status, 400);
    let (_, shown) = body(&query).split_once("<ErrorResponse ").unwrap();
    let (shown, _) = shown.split_once("<RequestId>").unwrap();
    assert_eq!(
        shown,
        "xmlns=\"http://toys.example/doc/2001-02-03/\"><Error><Type>Sender</Type>\
         <Code>InvalidAction</Code><Message>The action Fly is not valid for this endpoint.</Message>\
         </Error>"
    );
}

#[tokio::test]
async fn a_body_is_bounded_as_its_row_says() {
    let shop = Shop::open(Vec::new());
    let of = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));

    assert_eq!(shop.json("Greet", &of(100)).await.status, 200);
    let refused = shop.json("Greet", &of(101)).await;
    assert_eq!(refused.status, 413);
    assert!(body(&refused).contains("The request is larger than 100 bytes."));
}

/// The console asks so, in the name of the user who has logged in.
#[tokio::test]
async fn callers_are_authorized_before_the_handler_and_counted_however_they_come() {
    let accounts = ["111111111111", "222222222222", "333333333333"];
    let keys = ["ONE", "TWO", "THREE"];
    let shop = Shop::open(keys.iter().zip(accounts).map(|(name, it)| key(name, it)).collect());
    let call = async |name: &str, action: &str| {
        let target = format!("ToyService.{action}");
        let headers = [Header::new("x-amz-target", &target)];
        let principal = shop.services.principal(Some(name), "000000000000").unwrap();
        shop.services.call_as(principal, "us-east-1", Request::post(&headers, b"\"it\"")).await
    };

    let mut statuses = Vec::new();
    for action in ["Greet", "Borrow", "Break"] {
        for name in keys {
            statuses.push(call(name, action).await.status);
        }
    }

    assert_eq!(statuses, [200, 200, 200, 200, 200, 403, 200, 403, 403]);
    assert_eq!(shop.toys.acted.load(Relaxed), 6, "no handler ran for those who were refused");
    let refused = call("THREE", "Borrow").await;
    assert!(
        body(&refused).contains(
            "User: arn:aws:iam::333333333333:user/eve is not authorized to perform: toy:borrow on \
             resource: arn:aws:toy:us-east-1:111111111111:bear because no resource-based policy \
             allows the toy:borrow action"
        ),
        "{}",
        body(&refused)
    );
    assert_eq!(shop.counted(), [("Greet", [3, 0]), ("Borrow", [2, 2]), ("Break", [1, 2])]);
    let gone = shop.services.principal(Some("FOUR"), "000000000000").unwrap_err();
    assert_eq!(gone.code, "InvalidClientTokenId");
    assert_eq!(shop.json("Greet", r#""Ann""#).await.status, 403, "nobody has signed it");
}

#[tokio::test]
async fn other_paths_branch_off_before_anybody_looks_for_a_signature() {
    let shop = Shop::open(vec![key("ONE", "111111111111")]);
    let put = |path| Request { method: "PUT", path, ..Request::post(&[], b"Action=Greet") };

    let response = shop.services.call(put("/3/shelves/top")).await;

    assert_eq!((response.status, body(&response)), (200, "/3/shelves/top"));
    assert!(matches!(shop.services.judge(&put("/3/shelves/top")), Judgement::Admitted));
    assert!(matches!(shop.services.judge(&put("/3/tables/top")), Judgement::Refused(_)));
    assert_eq!(shop.services.call(put("/3/tables/top")).await.status, 405);
}
