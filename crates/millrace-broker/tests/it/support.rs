//! What the tests share: brokers over logs of segments that are full soon, messages, queues.

use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use millrace_broker::{
    Creation, Incoming, Kind, NewContent, NewQueue, OpenShard, Options, Outgoing, ReceiveRequest,
    Shard, Shards, SharedQueue, StartMoveTask,
};
use millrace_core::{Clock, MessageId, QueueKey, ShardId, SystemClock};
use millrace_engine::{Replay, Settings};
use millrace_journal::{
    Durability, FileSystem, GroupCommit, GroupOptions, LocalJournal, LocalOptions,
};

pub(crate) fn open(fs: Arc<dyn FileSystem>, dir: &Path) -> (Arc<GroupCommit>, Arc<Shards>) {
    open_at(fs, dir, Arc::new(SystemClock::new()))
}

pub(crate) fn open_at(
    fs: Arc<dyn FileSystem>,
    dir: &Path,
    clock: Arc<dyn Clock>,
) -> (Arc<GroupCommit>, Arc<Shards>) {
    // Nothing is kept in memory, so that contents come from the disk.
    let group = GroupOptions { recent_bytes: 0, ..GroupOptions::default() };
    open_with(fs, dir, clock, Durability::Os, group)
}

pub(crate) fn open_with(
    fs: Arc<dyn FileSystem>,
    dir: &Path,
    clock: Arc<dyn Clock>,
    durability: Durability,
    group: GroupOptions,
) -> (Arc<GroupCommit>, Arc<Shards>) {
    let options = LocalOptions { durability, segment_bytes: 64 << 10, ..LocalOptions::default() };
    let mut replay = Replay::default();
    let (journal, _) = LocalJournal::open(fs, dir, options, &mut |record| {
        replay.apply(record.index, record.position.0, record.record_len).unwrap();
    })
    .unwrap();
    // Nothing is kept in memory, so that contents come from the disk.
    let log = GroupCommit::new(Box::new(journal), group);
    replay.recover_definitions("us-east-1", "000000000000");
    let shards = over(&log, replay, clock);
    (log, shards)
}

/// A broker that goes on after what was replayed of `log`.
pub(crate) fn over(log: &Arc<GroupCommit>, replay: Replay, clock: Arc<dyn Clock>) -> Arc<Shards> {
    let replayed = replay.finish(Shard::first_seq(ShardId(0), log.opened().epoch.0).unwrap());
    let mut bits = 0;
    let random = Box::new(move || {
        bits += 1;
        bits
    });
    let options = Options { slack_bytes: 0, ..Options::default() };
    {
        let (id, log, random) = (ShardId(0), log.clone(), random);
        let open = OpenShard { id, log, options, replayed, random };
        Shards::of_one(clock, open).unwrap()
    }
}

pub(crate) fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Runs a future whose only waits are for commits.
pub(crate) fn run<T>(log: &GroupCommit, future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        match poll(future.as_mut()) {
            Poll::Ready(value) => return value,
            Poll::Pending => assert!(log.commit_step(), "waits for more than a commit"),
        }
    }
}

/// That all messages are moved, as fast as may be.
pub(crate) fn move_task(source: &QueueKey, destination: &QueueKey) -> StartMoveTask {
    let (source, destination) = (source.clone(), Some(destination.clone()));
    StartMoveTask { source, destination, max_per_second: None }
}

pub(crate) fn content(body: &str) -> Vec<u8> {
    let mut content = Vec::new();
    NewContent { body: body.as_bytes(), ..NewContent::default() }.encode(&mut content);
    content
}

pub(crate) fn message<'a>(body: &str, content: &'a [u8]) -> Outgoing<'a> {
    let id = MessageId::from_random(body.len() as u128);
    let size_bytes = body.len();
    Outgoing { id, content, size_bytes, group: None, deduplication_id: None, delay_s: None }
}

pub(crate) const ANY: ReceiveRequest<'_> =
    ReceiveRequest { max: 10, visibility_timeout_s: None, wait_time_s: None, attempt_id: None };

pub(crate) fn key(name: &str) -> QueueKey {
    QueueKey::new("us-east-1", "000000000000", name)
}

pub(crate) fn create(log: &GroupCommit, shards: &Shards, name: &str) -> Arc<SharedQueue> {
    let kind = if name.ends_with(".fifo") { Kind::Fifo } else { Kind::Standard };
    let new = new_queue(name, Settings { kind, ..Settings::default() });
    created(run(log, shards.create_queue(&new)).unwrap())
}

/// Without attributes and tags.
pub(crate) fn new_queue(name: &str, settings: Settings) -> NewQueue {
    NewQueue { key: key(name), settings, attributes: Default::default(), tags: Default::default() }
}

pub(crate) fn created(creation: Creation) -> Arc<SharedQueue> {
    let Creation::Created(queue) = creation else { panic!("it was there before") };
    queue
}

/// Receives the next ten messages and deletes them.
pub(crate) fn drain_ten(log: &GroupCommit, shards: &Shards, queue: &Arc<SharedQueue>) {
    let received = run(log, queue.receive(&ANY)).unwrap();
    let handle = |message: &Incoming| shards.open_receipt_handle(&message.receipt_handle).unwrap();
    let handles: Vec<_> = received.iter().map(handle).collect();
    run(log, queue.delete(&handles)).unwrap();
}

/// A queue of so much that what was sent before stands in a segment that is done with.
pub(crate) fn fill_segments(log: &GroupCommit, shards: &Shards) -> Arc<SharedQueue> {
    let filler = create(log, shards, "filler");
    let large = content(&"x".repeat(1_000));
    for _ in 0..300 {
        run(log, filler.send(&[message("x", &large)])).unwrap();
    }
    while log.background_step() {}
    filler
}

/// A waker that notes that it was woken.
#[derive(Default)]
pub(crate) struct Flag(pub(crate) AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}
