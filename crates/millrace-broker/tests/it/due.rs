//! When queues are visited for what is due.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use millrace_broker::{Outgoing, ReceiveRequest, Settings, Shards, SharedQueue};
use millrace_core::{Clock, Timestamp, limits};
use millrace_engine::Replay;
use millrace_journal::{GroupCommit, GroupOptions, MemoryJournal};

use crate::support::{ANY, content, create, created, message, new_queue, over, run};

/// A clock that stands still unless it is advanced.
struct Still(AtomicU64);

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::Relaxed))
    }

    fn advance(&self, by: Duration) {
        self.0.fetch_add(by.as_millis() as u64, Ordering::Relaxed);
    }
}

/// A queue whose messages are delayed by a minute, with one that was just sent.
fn with_a_delayed_message(clock: &Arc<Still>) -> (Arc<Shards>, Arc<SharedQueue>) {
    let log = GroupCommit::new(Box::new(MemoryJournal::new(1 << 20)), GroupOptions::default());
    let shards = over(&log, Replay::default(), clock.clone());
    let new = new_queue("q", Settings { delay_s: 60, ..Settings::default() });
    let queue = created(shards.home().unwrap().begin_create_queue(&new).unwrap().0);
    queue.begin_send(&[message("m", &content("m"))]).unwrap();
    (shards, queue)
}

#[test]
fn a_clock_that_is_advanced_leaves_each_queue_one_visit() {
    let clock = Arc::new(Still(AtomicU64::new(1_000_000)));
    let (shards, queue) = with_a_delayed_message(&clock);
    let expiry = shards.now().plus_seconds(u64::from(Settings::default().retention_s));

    // Half a second before the delay ends; a visit is not asked for within less than a second.
    shards.advance_clock(Duration::from_millis(59_500));
    clock.advance(Duration::from_millis(700));
    let next = shards.run_due();

    assert_eq!((queue.counts().ready, next), (1, expiry));
}

/// One visit forgets a thousand, and the next is asked for until all are forgotten.
#[test]
fn an_idle_queue_forgets_all_its_attempts() {
    const RECEIVES: usize = 2_500;
    let clock = Arc::new(Still(AtomicU64::new(1_000_000)));
    let log = GroupCommit::new(Box::new(MemoryJournal::new(1 << 20)), GroupOptions::default());
    let shards = over(&log, Replay::default(), clock.clone());
    let queue = create(&log, &shards, "q.fifo");
    let content = content("m");
    for number in 0..RECEIVES {
        let number = number.to_string();
        let sent = Outgoing {
            group: Some(&number),
            deduplication_id: Some(&number),
            ..message("m", &content)
        };
        run(&log, queue.send(&[sent])).unwrap();
    }
    clock.advance(Duration::from_secs(10));
    for number in 0..RECEIVES {
        let attempt = number.to_string();
        let request = ReceiveRequest { max: 1, attempt_id: Some(&attempt), ..ANY };
        let received = run(&log, queue.receive(&request)).unwrap();
        let handle = shards.open_receipt_handle(&received[0].receipt_handle).unwrap();
        run(&log, queue.delete(&[handle])).unwrap();
    }
    let end = shards.now().plus_seconds(limits::DEDUPLICATION_WINDOW_S);

    // Of sends nothing is remembered any more.
    clock.advance(Duration::from_secs(295));
    let mut next = shards.run_due();
    while next < end {
        clock.advance(Duration::from_millis(next.millis_since(shards.now())));
        next = shards.run_due();
    }
    let mut visits = 0;
    while next != Timestamp::NEVER {
        clock.advance(Duration::from_millis(next.millis_since(shards.now())));
        next = shards.run_due();
        visits += 1;
    }

    assert_eq!(visits, RECEIVES.div_ceil(1_000));
}

struct Unpark(Thread, AtomicBool);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.1.store(true, Ordering::Release);
        self.0.unpark();
    }
}

/// As when the machine was suspended: the threads have not noticed.
#[test]
fn a_poll_is_woken_for_what_is_due_since_the_clock_leapt() {
    const LONG: Duration = Duration::from_secs(60);
    let clock = Arc::new(Still(AtomicU64::new(1_000_000)));
    let (shards, queue) = with_a_delayed_message(&clock);
    shards.spawn_threads().unwrap();
    let request = ReceiveRequest { wait_time_s: Some(20), ..ANY };
    let waker = Arc::new(Unpark(std::thread::current(), AtomicBool::new(false)));
    let task = Waker::from(waker.clone());
    let mut context = Context::from_waker(&task);
    let mut poll = pin!(queue.receive(&request));
    assert!(poll.as_mut().poll(&mut context).is_pending());
    // Time enough for the threads to fall asleep.
    std::thread::sleep(Duration::from_millis(100));

    clock.advance(Duration::from_secs(60));
    shards.clock_leapt();

    let began = Instant::now();
    while !waker.1.load(Ordering::Acquire) {
        std::thread::park_timeout(LONG);
        assert!(began.elapsed() < LONG, "it sleeps on");
    }
    let Poll::Ready(received) = poll.as_mut().poll(&mut context) else { panic!("it waits still") };
    assert_eq!(received.unwrap().len(), 1);
    shards.close();
}
