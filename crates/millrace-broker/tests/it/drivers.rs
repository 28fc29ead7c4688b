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

use millrace_broker::{Broker, Outgoing, ReceiveRequest, SharedQueue};
use millrace_core::{MessageId, SystemClock};
use millrace_engine::Replay;
use millrace_journal::{GroupCommit, GroupOptions, LocalJournal, LocalOptions, SimFileSystem};

use crate::support::{ANY, content, create, message, over};

const RUNTIMES: u64 = 3;
const SENDS: u64 = 500;
const LONG: Duration = Duration::from_secs(10);

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A runtime of one task: polls it and the driver whenever one of them was woken.
fn run<T>(driver: impl Future<Output = ()>, task: impl Future<Output = T>) -> T {
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

async fn send(broker: &Broker, queue: &SharedQueue, number: u64) {
    let content = content("body");
    let id = MessageId::from_random(u128::from(number));
    let message = Outgoing { id, ..message("body", &content) };
    let sent = broker.send(queue, &[message]).await.unwrap();
    assert_eq!(sent.len(), 1);
}

/// Sends, and takes what there is: receives leave behind what only the next send commits. All
/// runtimes send at once and then wait for each other, so that a wake that one missed is not made
/// up for by what another does next.
async fn work(broker: &Broker, queue: &Arc<SharedQueue>, runtime: u64, arrived: &AtomicU64) {
    for number in 0..SENDS {
        arrived.fetch_add(1, Ordering::Relaxed);
        let begun = Instant::now();
        while arrived.load(Ordering::Relaxed) < (number + 1) * RUNTIMES {
            assert!(begun.elapsed() < LONG, "another runtime is stuck");
            std::thread::yield_now();
        }
        send(broker, queue, runtime * SENDS + number).await;
        if number % 3 == 0 {
            broker.receive(queue, &ReceiveRequest { max: 1, ..ANY }).await.unwrap();
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

#[test]
fn commits_are_made_and_told_by_drivers_alone() {
    let fs = SimFileSystem::new(1);
    let options = LocalOptions::default();
    let (journal, _) =
        LocalJournal::open(Arc::new(fs), Path::new("/journal"), options, &mut |_| {}).unwrap();
    let log = GroupCommit::new(Box::new(journal), GroupOptions::default());
    let broker = over(&log, Replay::default(), Arc::new(SystemClock::new()));
    let queue = create(&log, &broker, "queue");

    let arrived = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for runtime in 0..RUNTIMES {
            let (broker, queue, arrived) = (&broker, &queue, &arrived);
            scope.spawn(move || {
                let driver = broker.commit_driver(|| std::future::ready(()));
                run(driver, work(broker, queue, runtime, arrived));
            });
        }
    });

    let counts = queue.counts();
    assert_eq!(counts.ready + counts.in_flight, RUNTIMES * SENDS);
}
