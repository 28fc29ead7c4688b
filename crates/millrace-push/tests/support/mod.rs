//! A broker over a journal in a directory, the deliveries on it, and services that know its queues.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use millrace_broker::{
    Creation, Incoming, NewContent, NewQueue, OpenShard, Options, Outgoing, Settings, Shard,
    Shards, SharedQueue,
};
use millrace_core::{MessageId, QueueKey, ShardId, SystemClock, Url};
use millrace_engine::Replay;
use millrace_http::testing::{Reply, Request as Received};
use millrace_journal::{
    Durability, GroupCommit, GroupOptions, LocalJournal, LocalOptions, RealFileSystem,
};
use millrace_push::network::{NetworkPolicy, Private};
use millrace_push::retry::RetryPolicy;
use millrace_push::{
    AfterFailure, Answer, Attempted, BoxFuture, Deliveries, Endpoint, Failure, Push, PushOptions,
    Request, Verdict,
};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// The longest wait for what is sure to come; it matters only to a test that fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `condition`; what it waits for happens on real sockets and threads.
pub(crate) async fn eventually(condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.unwrap();
}

pub(crate) async fn ok(_: Received) -> Reply {
    status(200)
}

pub(crate) fn status(status: u16) -> Reply {
    Reply::json(status, "no way")
}

/// The URL of a receiver whose answers have no end.
pub(crate) async fn endless() -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = [0; 4096];
                let _ = stream.read(&mut request).await;
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
                while stream.write_all(&[b'x'; 4096]).await.is_ok() {}
            });
        }
    });
    url
}

/// An endpoint as a test wants it, and what became of its messages.
pub(crate) struct Target {
    url: Url,
    retry: RetryPolicy,
    per_second: Option<u32>,
    timeout: Duration,
    judge: fn(u16) -> Verdict,
    after_failure: Mutex<AfterFailure>,
    delivered: AtomicUsize,
    failures: Mutex<Vec<(String, Failure)>>,
    /// Answers to local deliveries; none if they are requests.
    local: Option<Mutex<Vec<Result<(), String>>>>,
    repeats_refusals: bool,
    attempts: Mutex<Vec<(u32, Verdict, Option<u16>)>>,
}

impl Target {
    pub(crate) fn new(url: &str) -> Target {
        Target {
            url: Url::parse(url).unwrap(),
            retry: RetryPolicy::default(),
            per_second: None,
            timeout: Duration::from_secs(15),
            judge: Verdict::of_status,
            after_failure: Mutex::new(AfterFailure::Redriven),
            delivered: AtomicUsize::new(0),
            failures: Mutex::default(),
            local: None,
            repeats_refusals: false,
            attempts: Mutex::default(),
        }
    }

    /// Messages stay within the server: these are the outcomes of attempts, from the last.
    pub(crate) fn local(self, outcomes: Vec<Result<(), String>>) -> Target {
        Target { local: Some(Mutex::new(outcomes)), ..self }
    }

    pub(crate) fn repeats_refusals(self) -> Target {
        Target { repeats_refusals: true, ..self }
    }

    /// Number, verdict and status of each attempt that has ended.
    pub(crate) fn attempts(&self) -> Vec<(u32, Verdict, Option<u16>)> {
        self.attempts.lock().unwrap().clone()
    }

    pub(crate) fn retries(self, retries: u32, delay_s: u32) -> Target {
        Target { retry: RetryPolicy::every(retries, delay_s), ..self }
    }

    pub(crate) fn per_second(self, per_second: u32) -> Target {
        Target { per_second: Some(per_second), ..self }
    }

    pub(crate) fn timeout(self, timeout: Duration) -> Target {
        Target { timeout, ..self }
    }

    pub(crate) fn judge(self, judge: fn(u16) -> Verdict) -> Target {
        Target { judge, ..self }
    }

    pub(crate) fn after_failure(self, after: AfterFailure) -> Target {
        self.set_after_failure(after);
        self
    }

    pub(crate) fn set_after_failure(&self, after: AfterFailure) {
        *self.after_failure.lock().unwrap() = after;
    }

    pub(crate) fn delivered(&self) -> usize {
        self.delivered.load(Ordering::Relaxed)
    }

    /// Bodies and failures.
    pub(crate) fn failures(&self) -> Vec<(String, Failure)> {
        self.failures.lock().unwrap().clone()
    }
}

impl Endpoint for Target {
    fn name(&self) -> &str {
        "target"
    }

    fn request(&self, _message: &Incoming) -> Result<Request, String> {
        let headers = vec![("x-test", "1".to_owned())];
        Ok(Request { url: self.url.clone(), headers, other_headers: Vec::new() })
    }

    fn delay_before(&self, attempt: u32) -> Option<Duration> {
        self.retry.delay_before(attempt)
    }

    fn is_local(&self, _message: &Incoming) -> bool {
        self.local.is_some()
    }

    fn deliver<'a>(&'a self, _message: &'a Incoming) -> BoxFuture<'a, Result<(), String>> {
        let outcomes = self.local.as_ref().unwrap();
        let outcome = outcomes.lock().unwrap().pop().unwrap();
        Box::pin(async { outcome })
    }

    fn is_refusal_final(&self) -> bool {
        !self.repeats_refusals
    }

    fn attempted(&self, message: &Incoming, attempt: &Attempted<'_>) {
        let number = message.delivery.receive_count;
        self.attempts.lock().unwrap().push((number, attempt.verdict, attempt.status));
    }

    fn max_per_second(&self) -> Option<u32> {
        self.per_second
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }

    fn judge(&self, answer: &Answer) -> Verdict {
        (self.judge)(answer.status)
    }

    fn delivered(&self, _message: &Incoming) {
        self.delivered.fetch_add(1, Ordering::Relaxed);
    }

    fn failed<'a>(
        &'a self,
        message: &'a Incoming,
        failure: &'a Failure,
    ) -> BoxFuture<'a, AfterFailure> {
        Box::pin(async move {
            let body = String::from_utf8_lossy(message.content.body()).into_owned();
            self.failures.lock().unwrap().push((body, failure.clone()));
            *self.after_failure.lock().unwrap()
        })
    }
}

#[derive(Default)]
struct Targets(Mutex<HashMap<String, Arc<Target>>>, Mutex<Vec<String>>);

impl Deliveries for Targets {
    fn endpoint(&self, queue: &QueueKey) -> Option<Arc<dyn Endpoint>> {
        let target = self.0.lock().unwrap().get(&queue.name).cloned()?;
        Some(target)
    }

    fn deleted<'a>(&'a self, queue: &'a SharedQueue) -> BoxFuture<'a, ()> {
        Box::pin(async { self.1.lock().unwrap().push(queue.key().name.clone()) })
    }
}

pub(crate) struct Setup {
    pub(crate) push: Push,
    pub(crate) shards: Arc<Shards>,
    targets: Arc<Targets>,
    committer: Option<std::thread::JoinHandle<()>>,
    dir: Option<TempDir>,
}

impl Setup {
    pub(crate) fn new() -> Setup {
        Setup::open(TempDir::new().unwrap(), options(Private::Allowed))
    }

    pub(crate) fn with_connections(connections: usize) -> Setup {
        let options = PushOptions { connections, ..options(Private::Allowed) };
        Setup::open(TempDir::new().unwrap(), options)
    }

    pub(crate) fn refusing_private() -> Setup {
        Setup::open(TempDir::new().unwrap(), options(Private::Refused))
    }

    fn open(dir: TempDir, options: PushOptions) -> Setup {
        let journal = LocalOptions { durability: Durability::Os, ..LocalOptions::default() };
        let mut replay = Replay::default();
        let (journal, _) =
            LocalJournal::open(RealFileSystem::new(), dir.path(), journal, &mut |record| {
                replay.apply(record.index, record.position.0, record.record_len).unwrap();
            })
            .unwrap();
        let log = GroupCommit::new(Box::new(journal), GroupOptions::default());
        let committer = log.spawn_committer().unwrap();
        let first_seq = Shard::first_seq(ShardId(0), log.opened().epoch.0).unwrap();
        let clock = Arc::new(SystemClock::new());
        let replayed = replay.finish(first_seq);
        clock.at_least(replayed.latest);
        let open = OpenShard {
            id: ShardId(0),
            log,
            options: Options::default(),
            replayed,
            random: Box::new(|| 1),
        };
        let shards = Shards::of_one(clock, open).unwrap();
        shards.spawn_threads().unwrap();
        let push = Push::start(options, shards.clone()).unwrap();
        let targets = Arc::default();
        Setup { push, shards, targets, committer: Some(committer), dir: Some(dir) }
    }

    /// Stops and starts on the same journal, knowing no endpoint.
    pub(crate) fn restart(mut self) -> Setup {
        let dir = self.dir.take().unwrap();
        drop(self);
        Setup::open(dir, options(Private::Allowed))
    }

    /// A new hidden queue that is drained.
    pub(crate) fn queue(&self, name: &str, target: Target) -> Arc<SharedQueue> {
        let queue = self.queue_unwatched(name, target);
        self.drain(&queue);
        queue
    }

    /// A new hidden queue that is not drained yet.
    pub(crate) fn queue_unwatched(&self, name: &str, target: Target) -> Arc<SharedQueue> {
        let new = NewQueue {
            key: QueueKey::hidden("test", name),
            settings: Settings::default(),
            attributes: Default::default(),
            tags: Default::default(),
        };
        let (creation, _) = self.shards.home().unwrap().begin_create_queue(&new).unwrap();
        let Creation::Created(queue) = creation else { panic!("{name} is there") };
        self.know(name, target);
        queue
    }

    /// A hidden queue from before the restart, drained.
    pub(crate) fn known_queue(&self, name: &str, target: Target) -> Arc<SharedQueue> {
        let key = QueueKey::hidden("test", name);
        let queue = self.shards.catalog().queue_by_key(&key).unwrap();
        self.know(name, target);
        self.drain(&queue);
        queue
    }

    pub(crate) fn drain(&self, queue: &Arc<SharedQueue>) {
        let deliveries: Arc<dyn Deliveries> = self.targets.clone();
        self.push.drain(queue, &deliveries);
    }

    pub(crate) fn know(&self, name: &str, target: Target) {
        self.targets.0.lock().unwrap().insert(name.to_owned(), Arc::new(target));
    }

    pub(crate) fn forget(&self, name: &str) {
        self.targets.0.lock().unwrap().remove(name);
    }

    pub(crate) fn target(&self, name: &str) -> Arc<Target> {
        self.targets.0.lock().unwrap()[name].clone()
    }

    pub(crate) fn send(&self, queue: &SharedQueue, body: &str) {
        let mut content = Vec::new();
        NewContent { body: body.as_bytes(), ..NewContent::default() }.encode(&mut content);
        let id = MessageId::from_random(1);
        let size_bytes = body.len();
        let content = content.as_slice();
        let message = Outgoing {
            id,
            content,
            size_bytes,
            group: None,
            deduplication_id: None,
            delay_s: None,
        };
        queue.begin_send(&[message]).unwrap();
    }

    /// Queues of which the service was told that they are deleted.
    pub(crate) fn deleted(&self) -> Vec<String> {
        self.targets.1.lock().unwrap().clone()
    }

    pub(crate) async fn delete(&self, queue: &SharedQueue) {
        self.shards.catalog().delete_queue(queue).await.unwrap();
    }

    /// Waits until that many attempts are to be repeated, and nothing is under way.
    pub(crate) async fn counts_retries(&self, retries: u64) {
        eventually(|| {
            let figures = self.push.figures();
            (figures.retried, figures.under_way) == (retries, 0)
        })
        .await;
    }

    /// Waits until the only message is hidden for no longer than that.
    pub(crate) async fn until_hidden_for(&self, queue: &SharedQueue, seconds: u64) {
        eventually(|| {
            let messages = queue.browser().peek(1).unwrap();
            let deadline = messages[0].deadline;
            deadline.millis_since(self.shards.now()) <= seconds * 1000
        })
        .await;
    }
}

fn options(private: Private) -> PushOptions {
    let network = NetworkPolicy::new(private, Vec::new());
    PushOptions { grace: Duration::from_millis(50), ..PushOptions::new(network) }
}

impl Drop for Setup {
    fn drop(&mut self) {
        self.push.close();
        self.shards.close();
        self.committer.take().map(std::thread::JoinHandle::join);
    }
}
