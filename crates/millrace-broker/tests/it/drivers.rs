//! Runtimes whose drivers commit, without a committing thread that could make up for what they
//! miss.

use std::future::poll_fn;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use millrace_broker::{BrokerError, Outgoing, ReceiveRequest, Shards, SharedQueue, commit_driver};
use millrace_core::{MessageId, SystemClock};
use millrace_engine::Replay;
use millrace_journal::{
    GroupCommit, GroupOptions, LocalJournal, LocalOptions, Purpose, Record, SimFileSystem,
    Unavailable,
};

use crate::support::{ANY, content, create, message, over};

const RUNTIMES: u64 = 3;
const SENDS: u64 = 500;
const LONG: Duration = Duration::from_secs(60);

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A runtime of one task: polls it and the driver whenever one of them was woken.
pub(crate) fn run<T>(driver: impl Future<Output = ()>, task: impl Future<Output = T>) -> T {
    let (mut driver, mut task) = (pin!(driver), pin!(task));
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        let _ = driver.as_mut().poll(&mut context);
        if let Poll::Ready(value) = task.as_mut().poll(&mut context) {
            return value;
        }
        let parked = Instant::now();
        std::thread::park_timeout(LONG);
        assert!(parked.elapsed() < LONG, "nobody woke this runtime");
    }
}

async fn send(queue: &SharedQueue, number: u64) {
    let content = content("body");
    let id = MessageId::from_random(u128::from(number));
    let message = Outgoing { id, ..message("body", &content) };
    let sent = queue.send(&[message]).await.unwrap();
    assert_eq!(sent.len(), 1);
}

/// One broker over a journal of its own, and a queue in it.
fn over_a_journal(seed: u64) -> (Arc<Shards>, Arc<SharedQueue>) {
    let (fs, options) = (Arc::new(SimFileSystem::new(seed)), LocalOptions::default());
    let (journal, _) = LocalJournal::open(fs, Path::new("/journal"), options, &mut |_| {}).unwrap();
    let log = GroupCommit::new(Box::new(journal), GroupOptions::default());
    let shards = over(&log, Replay::default(), Arc::new(SystemClock::new()));
    let queue = create(&log, &shards, "queue");
    (shards, queue)
}

/// Sends to each queue in turn, and takes what there is: receives leave behind what only the next
/// send commits. All runtimes send at once and then wait for each other, so that a wake that one
/// missed is not made up for by what another does next.
async fn work(queues: &[(Arc<Shards>, Arc<SharedQueue>)], runtime: u64, arrived: &AtomicU64) {
    for number in 0..SENDS {
        arrived.fetch_add(1, Ordering::Relaxed);
        let begun = Instant::now();
        while arrived.load(Ordering::Relaxed) < (number + 1) * RUNTIMES {
            assert!(begun.elapsed() < LONG, "another runtime is stuck");
            std::thread::yield_now();
        }
        // Runtimes begin with different queues, so that all journals commit at once.
        for turn in 0..queues.len() {
            let (_, queue) = &queues[(turn + runtime as usize) % queues.len()];
            send(queue, runtime * SENDS + number).await;
            if number % 3 == 0 {
                queue.receive(&ReceiveRequest { max: 1, ..ANY }).await.unwrap();
            }
        }
    }
    // Another's last send may count on this runtime's driver.
    arrived.fetch_add(1, Ordering::Relaxed);
    poll_fn(|context| {
        if arrived.load(Ordering::Relaxed) == (SENDS + 1) * RUNTIMES {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        std::thread::yield_now();
        Poll::Pending
    })
    .await;
}

fn work_on_all_runtimes(queues: &[(Arc<Shards>, Arc<SharedQueue>)]) {
    let arrived = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for runtime in 0..RUNTIMES {
            let arrived = &arrived;
            scope.spawn(move || {
                let driver = commit_driver(|| std::future::ready(()));
                run(driver, work(queues, runtime, arrived));
            });
        }
    });
    for (_, queue) in queues {
        let counts = queue.counts();
        assert_eq!(counts.ready + counts.in_flight, RUNTIMES * SENDS);
    }
}

#[test]
fn commits_are_made_and_told_by_drivers_alone() {
    work_on_all_runtimes(&[over_a_journal(1)]);
}

#[test]
fn one_driver_commits_for_all_journals_of_its_runtime() {
    work_on_all_runtimes(&[over_a_journal(1), over_a_journal(2)]);
}

/// A caller that appends just after the journal was closed does not wait for ever.
#[test]
fn what_comes_after_the_last_commit_is_refused() {
    let (shards, _) = over_a_journal(1);
    let shard = shards.home().unwrap();
    let reservation = shard.log().reserve(100, Purpose::Store).unwrap();
    shards.close();
    let record = Record { index: b"late", payload: &[] };
    let ticket = shard.log().append(reservation, &[record], &mut Vec::new());

    let driver = commit_driver(|| std::future::ready(()));
    let ended = run(driver, shard.committed(Some(ticket)));

    assert!(matches!(ended, Err(BrokerError::Unavailable(Unavailable::Closed))), "{ended:?}");
}
