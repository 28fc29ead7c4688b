//! What runs behind the calls: expiry and keeping the log short, over a journal in memory.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::Duration;

use millrace_broker::{
    BrokerError, Kind, MoveTaskError, NewContent, NewQueue, Outgoing, QueueGlance, Redrive,
    Settings, Shards, SharedQueue,
};
use millrace_core::{Clock, MessageId, SystemClock, Timestamp};
use millrace_engine::{Receive, Replay};
use millrace_journal::{GroupCommit, GroupOptions, MemoryJournal, Unavailable};

use crate::support::{created, key, move_task, new_queue, over, poll};

const SEGMENT_BYTES: u32 = 256 << 10;

const ANY: Receive =
    Receive { max: 100, visibility_timeout_s: None, attempt: None, in_flight_limit: u64::MAX };

struct Bench {
    clock: Arc<dyn Clock>,
    log: Arc<GroupCommit>,
    shards: Arc<Shards>,
    ids: u128,
}

impl Bench {
    fn new() -> Bench {
        Bench::with(GroupOptions::default())
    }

    fn with(options: GroupOptions) -> Bench {
        let journal = Box::new(MemoryJournal::new(SEGMENT_BYTES));
        Bench::over(GroupCommit::new(journal, options), Arc::new(SystemClock::new()))
    }

    fn over(log: Arc<GroupCommit>, clock: Arc<dyn Clock>) -> Bench {
        let shards = over(&log, Replay::default(), clock.clone());
        Bench { clock, log, shards, ids: 0 }
    }

    fn create(&self, name: &str, settings: Settings) -> Arc<SharedQueue> {
        created(
            self.shards.home().unwrap().begin_create_queue(&new_queue(name, settings)).unwrap().0,
        )
    }

    fn send(&mut self, queue: &SharedQueue, body: &[u8]) {
        self.begin_send(queue, body);
        self.commit();
    }

    /// Queues whose definitions take 4 KB each.
    fn create_large_queues(&self, count: u32) {
        for number in 0..count {
            let new = NewQueue {
                attributes: BTreeMap::from([("Policy".to_owned(), "x".repeat(4_000))]),
                ..new_queue(&format!("q{number}"), Settings::default())
            };
            self.shards.home().unwrap().begin_create_queue(&new).unwrap();
            self.commit();
        }
    }

    fn begin_send(&mut self, queue: &SharedQueue, body: &[u8]) {
        self.ids += 1;
        let (mut content, id) = (Vec::new(), self.ids.to_string());
        NewContent { body, ..NewContent::default() }.encode(&mut content);
        let is_fifo = queue.kind() == Kind::Fifo;
        let message = Outgoing {
            id: MessageId::from_random(self.ids),
            content: &content,
            size_bytes: body.len(),
            group: is_fifo.then_some("g"),
            deduplication_id: is_fifo.then_some(&id),
            delay_s: None,
        };
        queue.begin_send(&[message]).unwrap();
    }

    fn commit(&self) {
        while self.log.commit_step() {}
    }

    fn expired(&self, queue: &SharedQueue) -> u64 {
        QueueGlance::of(queue).totals.messages_expired
    }

    /// Fills segments with messages of a queue and deletes it.
    fn free_segments(&mut self) {
        let freed = self.create("freed", Settings::default());
        for _ in 0..5_000 {
            self.send(&freed, &[b'x'; 1_000]);
        }
        wait(self.shards.catalog().delete_queue(&freed), self).unwrap();
    }

    /// Segments after so many turns of the maintenance thread.
    fn segments_after(&self, turns: usize) -> Vec<u32> {
        for _ in 0..turns {
            self.shards.maintain();
            self.commit();
        }
        self.log.segments().iter().map(|segment| segment.id.0).collect()
    }
}

#[test]
fn remembered_sends_are_not_copied_over_and_over() {
    let mut bench = Bench::new();
    let fifo = Settings { kind: Kind::Fifo, ..Settings::default() };
    let queue = bench.create("q.fifo", fifo);
    for _ in 0..20_000 {
        bench.send(&queue, b"x");
    }
    // Gone but remembered: more than two segments hold nothing else.
    let newest = bench.segments_after(1).last().copied();
    delete_all(&bench, &queue);

    let segments = bench.segments_after(50);

    let written = segments.last().copied().unwrap() - newest.unwrap();
    assert!(written <= 12, "{written} segments were written to free a few");
    bench.shards.advance_clock(Duration::from_secs(320));
    assert!(bench.segments_after(50).len() <= 2, "what nobody remembers goes");
}

#[test]
fn definitions_are_not_copied_over_and_over() {
    let bench = Bench::new();
    bench.create_large_queues(300);
    let newest = bench.segments_after(1).last().copied();

    let segments = bench.segments_after(50);

    let written = segments.last().copied().unwrap() - newest.unwrap();
    assert!(written <= 1, "{written} segments were written to free none");
}

#[test]
fn a_straggler_behind_many_definitions_does_not_keep_the_log_long() {
    let mut bench = Bench::new();
    bench.create_large_queues(300);
    let straggling = bench.create("straggling", Settings::default());
    bench.send(&straggling, b"x");
    let busy = bench.create("busy", Settings::default());
    let before = bench.log.segments().len();
    for _ in 0..60 {
        for _ in 0..20 {
            bench.send(&busy, &[b'x'; 10_000]);
        }
        delete_all(&bench, &busy);
        bench.shards.advance_clock(Duration::from_secs(11));
        bench.segments_after(5);
    }

    // Definitions are copied when three times as much goes with them.
    let segments = bench.segments_after(50).len();
    assert!(segments <= 3 * before + 2, "{segments} segments, {before} of them definitions");
    assert_eq!(straggling.counts().ready, 1);
}

#[test]
fn log_is_looked_at_again_although_nothing_is_freed() {
    const PAUSE: Duration = Duration::from_secs(30);
    let mut bench = Bench::new();
    let queue = bench.create("q", Settings::default());
    bench.send(&queue, b"x");
    let with_one = bench.shards.maintain();
    while bench.log.segments().len() < 2 {
        bench.send(&queue, &[b'x'; 1_000]);
    }

    // Receives, for instance, tell nobody that the log has become longer.
    assert_eq!((with_one, bench.shards.maintain()), (PAUSE, PAUSE));
}

#[test]
fn a_deleted_queue_is_not_visited_any_more() {
    let mut bench = Bench::new();
    let queue = bench.create("q", Settings::default());
    bench.send(&queue, b"x");
    assert_ne!(bench.shards.run_due(), Timestamp::NEVER, "the message expires");

    wait(bench.shards.catalog().delete_queue(&queue), &bench).unwrap();

    assert_eq!(bench.shards.run_due(), Timestamp::NEVER);
}

#[test]
fn catching_up_lets_others_go_on() {
    let mut bench = Bench::new();
    let queue = bench.create("q", Settings { retention_s: 60, ..Settings::default() });
    for _ in 0..5_000 {
        bench.send(&queue, b"x");
    }
    bench.clock.advance(Duration::from_secs(61));
    let mut turns = 1;
    {
        let mut catch_up = pin!(queue.catch_up());
        while poll(catch_up.as_mut()).is_pending() {
            turns += 1;
            assert!(queue.counts().ready > 0, "nothing is left to do");
        }
    }

    assert!(turns >= 5, "{turns} turns");
    assert_eq!((queue.counts().ready, bench.expired(&queue)), (0, 5_000));
}

#[test]
fn expired_messages_are_not_moved() {
    let mut bench = Bench::new();
    let source = bench.create("source", Settings { retention_s: 60, ..Settings::default() });
    let destination = bench.create("destination", Settings::default());
    for _ in 0..1_000 {
        bench.send(&source, b"x");
    }
    let start = move_task(&key("source"), &key("destination"));
    wait(bench.shards.home().unwrap().move_tasks().start(&start), &bench).unwrap();
    // The broker's own way drops all that has expired at once.
    bench.clock.advance(Duration::from_secs(61));

    bench.segments_after(20);

    assert_eq!((source.counts().ready, destination.counts().ready), (0, 0));
    assert_eq!(bench.expired(&source), 1_000);
}

#[test]
fn a_move_task_ends_with_its_queue_although_another_has_its_name() {
    let mut bench = Bench::new();
    let old = bench.create("source", Settings::default());
    bench.create("other", Settings::default());
    for _ in 0..2 {
        bench.send(&old, b"x");
    }
    let start = move_task(&key("source"), &key("other"));
    wait(bench.shards.home().unwrap().move_tasks().start(&start), &bench).unwrap();
    wait(bench.shards.catalog().delete_queue(&old), &bench).unwrap();
    let new = bench.create("source", Settings::default());
    bench.send(&new, b"x");

    bench.segments_after(1);

    assert_eq!(new.counts().ready, 1, "it was sent to another queue than the task's");
    assert_eq!(bench.shards.home().unwrap().move_tasks().of_source(&key("source"), 10), []);
    wait(bench.shards.home().unwrap().move_tasks().start(&start), &bench).unwrap();
    bench.segments_after(1);
    assert_eq!(new.counts().ready, 0);
}

#[test]
fn a_backlog_that_nobody_reads_expires_as_fast_as_it_was_sent() {
    let mut bench = Bench::new();
    let queue = bench.create("q", Settings { retention_s: 60, ..Settings::default() });
    for _ in 0..5_000 {
        bench.send(&queue, b"x");
    }
    // The broker's own way drops all that has expired at once; here the timers are to.
    bench.clock.advance(Duration::from_secs(61));

    for _ in 0..20 {
        bench.shards.run_due();
        bench.clock.advance(Duration::from_millis(1));
    }

    assert_eq!(queue.counts().ready, 0);
}

#[test]
fn expired_messages_stay_until_the_journal_has_room_and_are_not_delivered() {
    let mut bench = Bench::with(GroupOptions { max_waiting_bytes: 6_000, ..Default::default() });
    let queue = bench.create("q", Settings { retention_s: 60, ..Settings::default() });
    let other = bench.create("other", Settings::default());
    bench.commit();
    bench.send(&queue, b"x");
    bench.begin_send(&other, &[b'x'; 4_000]);
    bench.shards.advance_clock(Duration::from_secs(61));

    let refused = queue.try_receive(&ANY).map(|_| ());
    let mut update = pin!(bench.shards.catalog().update_queue(&queue, |definition| {
        definition.settings.retention_s = 3_600;
        Ok::<(), std::convert::Infallible>(())
    }));
    let updated = poll(update.as_mut());

    assert!(matches!(refused, Err(BrokerError::Unavailable(Unavailable::Backlog { .. }))));
    assert!(matches!(updated, Poll::Ready(Err(BrokerError::Unavailable(_)))), "would revive it");
    assert_eq!((queue.counts().ready, bench.expired(&queue)), (1, 0));

    bench.commit();
    assert!(queue.try_receive(&ANY).unwrap().is_none());
    assert_eq!((queue.counts().ready, bench.expired(&queue)), (0, 1));
}

#[test]
fn a_full_segment_is_relocated_in_pieces_and_nothing_is_lost() {
    let mut bench = Bench::new();
    let queue = bench.create("kept", Settings::default());
    for _ in 0..200 {
        bench.send(&queue, &[b'x'; 1_000]);
    }
    bench.free_segments();

    let segments = bench.segments_after(50);

    assert!(segments[0] > 1, "the first segment is gone: {segments:?}");
    assert_eq!(queue.browser().peek(1_000).unwrap().len(), 200);
}

#[test]
fn dead_letters_are_relocated_although_their_records_name_another_queue() {
    let mut bench = Bench::new();
    let dead = bench.create("dead", Settings::default());
    let queue = bench.create("poisoned", to_dead_letters());
    for _ in 0..200 {
        bench.send(&queue, &[b'x'; 1_000]);
    }
    let at_once = Receive { visibility_timeout_s: Some(0), ..ANY };
    while queue.try_receive(&at_once).unwrap().is_some() {}
    bench.free_segments();

    let segments = bench.segments_after(50);

    assert!(segments[0] > 1, "the first segment is gone: {segments:?}");
    assert_eq!(dead.browser().peek(1_000).unwrap().len(), 200);
}

/// The journal is quick, so what is left to be committed here would wait for the next change.
#[test]
fn dead_letters_are_committed_although_their_receive_goes_on_to_wait() {
    let mut bench = Bench::new();
    let dead = bench.create("dead", Settings::default());
    let queue = bench.create("poisoned", to_dead_letters());
    bench.send(&queue, b"x");
    let at_once = Receive { visibility_timeout_s: Some(0), ..ANY };
    assert!(queue.try_receive(&at_once).unwrap().is_some());
    bench.commit();
    let (told, commits) = std::sync::mpsc::channel();
    bench.log.on_commit(Box::new(move || told.send(()).unwrap()));
    let committer = bench.log.spawn_committer().unwrap();
    // So that the committing thread has begun, and sleeps again.
    bench.create("other", Settings::default());
    let await_latest = |log: &GroupCommit| {
        let ticket = log.latest();
        while log.outcome(ticket).is_none() {
            commits.recv_timeout(Duration::from_secs(60)).unwrap();
        }
    };
    await_latest(&bench.log);

    assert!(queue.try_receive(&ANY).unwrap().is_none());

    assert_eq!(dead.counts().ready, 1);
    await_latest(&bench.log);
    bench.log.close();
    committer.join().unwrap();
}

/// Of a queue whose messages are received once, before they go to the queue `dead`.
fn to_dead_letters() -> Settings {
    let redrive = Redrive {
        region: "us-east-1".to_owned(),
        account: "000000000000".to_owned(),
        name: "dead".to_owned(),
        max_receive_count: 1,
    };
    Settings { redrive: Some(redrive), ..Settings::default() }
}

fn delete_all(bench: &Bench, queue: &SharedQueue) {
    while let Some((received, _)) = queue.try_receive(&ANY).unwrap() {
        let handle = |delivery: &millrace_engine::Delivery| {
            let text = queue.receipt_handle(delivery);
            bench.shards.open_receipt_handle(&text).unwrap()
        };
        let handles: Vec<_> = received.deliveries.iter().map(handle).collect();
        queue.begin_delete(&handles).unwrap();
        bench.commit();
    }
}

/// Runs a call whose only wait is for a commit.
fn wait<T>(future: impl Future<Output = T>, bench: &Bench) -> T {
    let mut future = pin!(future);
    loop {
        bench.commit();
        if let Poll::Ready(value) = poll(future.as_mut()) {
            return value;
        }
    }
}

/// A clock that does something when it is asked the n-th time.
struct Interrupting {
    clock: SystemClock,
    left: AtomicU32,
    what: Box<dyn Fn() + Send + Sync>,
}

impl std::fmt::Debug for Interrupting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Interrupting").finish_non_exhaustive()
    }
}

impl Clock for Interrupting {
    fn now(&self) -> Timestamp {
        let left = self.left.load(Ordering::Relaxed);
        self.left.store(left.saturating_sub(1), Ordering::Relaxed);
        if left == 1 {
            (self.what)();
        }
        self.clock.now()
    }

    fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }
}

/// The journal refuses that they are dropped, and a moment later it no longer does.
#[test]
fn longer_retention_revives_none_of_many_expired_messages() {
    for nth in 1..8 {
        let options = GroupOptions { max_waiting_bytes: 20_000, ..GroupOptions::default() };
        let log = GroupCommit::new(Box::new(MemoryJournal::new(SEGMENT_BYTES)), options);
        let (committing, clock) = (log.clone(), SystemClock::new());
        let what = Box::new(move || while committing.commit_step() {});
        let clock = Arc::new(Interrupting { clock, left: AtomicU32::new(0), what });
        let mut bench = Bench::over(log, clock.clone());
        let queue = bench.create("q", Settings { retention_s: 60, ..Settings::default() });
        let other = bench.create("other", Settings::default());
        for _ in 0..600 {
            bench.send(&queue, b"x");
        }
        bench.begin_send(&other, &[b'x'; 18_000]);
        clock.advance(Duration::from_secs(61));
        clock.left.store(nth, Ordering::Relaxed);

        let mut update = pin!(bench.shards.catalog().update_queue(&queue, |definition| {
            definition.settings.retention_s = 3_600;
            Ok::<(), std::convert::Infallible>(())
        }));
        let _ = poll(update.as_mut());
        bench.commit();

        let received = queue.try_receive(&ANY).unwrap();
        assert!(received.is_none(), "asked {nth} times");
        assert_eq!(bench.expired(&queue), 600, "asked {nth} times");
    }
}

#[test]
fn a_move_task_is_refused_if_a_queue_was_deleted_meanwhile() {
    for gone in ["jobs", "others"] {
        let mut bench = Bench::new();
        let jobs = bench.create("jobs", Settings { retention_s: 60, ..Settings::default() });
        bench.create("others", Settings::default());
        for _ in 0..600 {
            bench.send(&jobs, b"x");
        }
        bench.clock.advance(Duration::from_secs(61));
        let start = move_task(&key("jobs"), &key("others"));
        let shards = bench.shards.clone();
        let home = shards.home().unwrap();
        let mut starting = pin!(home.move_tasks().start(&start));
        // It gives way to others between dropping what has expired.
        assert!(poll(starting.as_mut()).is_pending());
        let gone = bench.shards.catalog().queue_by_key(&key(gone)).unwrap();
        wait(bench.shards.catalog().delete_queue(&gone), &bench).unwrap();

        let started = wait(starting, &bench);

        let refused = matches!(started, Err(MoveTaskError::Broker(BrokerError::QueueDoesNotExist)));
        assert!(refused, "{started:?}");
    }
}
