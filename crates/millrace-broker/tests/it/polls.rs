//! Long polls: whom a message wakes.

use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use millrace_broker::{ReceiveRequest, Shards};
use millrace_core::{Clock, Timestamp};
use millrace_journal::SimFileSystem;

use crate::support::{ANY, content, create, message, open, open_at, run};

#[test]
fn a_poll_that_leaves_passes_its_wake_on() {
    let (log, shards) = open(Arc::new(SimFileSystem::new(1)), Path::new("/journal"));
    let queue = create(&log, &shards, "jobs");
    let mut context = Context::from_waker(Waker::noop());
    let long = ReceiveRequest { wait_time_s: Some(20), ..ANY };
    let [mut first, mut second] = [(); 2].map(|()| Box::pin(queue.receive(&long)));
    assert!(first.as_mut().poll(&mut context).is_pending());
    assert!(second.as_mut().poll(&mut context).is_pending());
    run(&log, queue.send(&[message("m", &content("m"))])).unwrap();

    drop(first);

    let Poll::Ready(received) = second.as_mut().poll(&mut context) else {
        panic!("it waits still")
    };
    assert_eq!(received.unwrap().len(), 1);
}

/// A clock that stands still until it is asked the n-th time: then a second is over, and the timers
/// have done what was due.
#[derive(Default)]
struct Leaping {
    now_ms: AtomicU64,
    left: AtomicU32,
    shards: OnceLock<Weak<Shards>>,
}

impl Clock for Leaping {
    fn now(&self) -> Timestamp {
        let left = self.left.load(Ordering::Relaxed);
        self.left.store(left.saturating_sub(1), Ordering::Relaxed);
        if left == 1 {
            self.advance(Duration::from_secs(1));
            self.shards.get().and_then(Weak::upgrade).unwrap().run_due();
        }
        Timestamp(self.now_ms.load(Ordering::Relaxed))
    }

    fn advance(&self, by: Duration) {
        self.now_ms.fetch_add(by.as_millis() as u64, Ordering::Relaxed);
    }
}

/// Others have taken the message that it was woken for.
#[test]
fn a_poll_that_was_woken_in_vain_ends_though_its_time_is_over_just_then() {
    for nth in 1..8 {
        let clock = Arc::new(Leaping::default());
        let fs = Arc::new(SimFileSystem::new(1));
        let (log, shards) = open_at(fs, Path::new("/journal"), clock.clone());
        clock.shards.set(Arc::downgrade(&shards)).unwrap();
        let queue = create(&log, &shards, "jobs");
        let mut context = Context::from_waker(Waker::noop());
        let long = ReceiveRequest { wait_time_s: Some(1), ..ANY };
        let mut poll = Box::pin(queue.receive(&long));
        assert!(poll.as_mut().poll(&mut context).is_pending());
        run(&log, queue.send(&[message("m", &content("m"))])).unwrap();
        assert_eq!(run(&log, queue.receive(&ANY)).unwrap().len(), 1);
        clock.left.store(nth, Ordering::Relaxed);

        // Twice, as one that is woken before it waits lets others go first.
        let mut ended = (0..2).map(|_| poll.as_mut().poll(&mut context)).filter(Poll::is_ready);

        let Some(Poll::Ready(received)) = ended.next() else {
            assert!(clock.left.load(Ordering::Relaxed) > 0, "asked {nth} times, it waits still");
            continue;
        };
        assert_eq!(received.unwrap().len(), 0, "asked {nth} times");
    }
}
