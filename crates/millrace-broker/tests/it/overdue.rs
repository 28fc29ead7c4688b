//! Commits that take longer than a request waits.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use millrace_broker::BrokerError;
use millrace_core::SystemClock;
use millrace_engine::Replay;
use millrace_journal::{GroupCommit, GroupOptions, JournalStore, MemoryStore, Owner};

use crate::support::{Flag, content, create, message, over};

#[test]
fn a_send_whose_append_does_not_settle_ends_with_an_unknown_outcome() {
    let store = MemoryStore::new(1 << 20);
    let unowned = store.recover(&mut |_| {}).unwrap();
    let journal = unowned.start_epoch(&Owner::unnamed(1)).unwrap();
    let options = GroupOptions { settle_limit: Duration::from_secs(3), ..GroupOptions::default() };
    let log = GroupCommit::new(journal, options);
    let shards = over(&log, Replay::default(), Arc::new(SystemClock::new()));
    let queue = create(&log, &shards, "q");
    let flag = Arc::new(Flag::default());
    let waker = Waker::from(flag.clone());
    let content = content("body");
    let messages = [message("body", &content)];
    let mut send = pin!(queue.send(&messages));
    assert!(send.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    let stall = store.stall();
    std::thread::scope(|scope| {
        scope.spawn(|| log.commit_step());

        log.end_overdue_waits();
        assert!(!flag.0.load(Ordering::Relaxed), "its time is not over");
        store.advance(Duration::from_secs(4));
        log.end_overdue_waits();

        assert!(flag.0.load(Ordering::Relaxed), "woken");
        let Poll::Ready(Err(error)) = send.as_mut().poll(&mut Context::from_waker(&waker)) else {
            panic!("it goes on waiting, or was acknowledged")
        };
        assert!(error.is_outcome_unknown() && error.is_for_now(), "{error}");
        let text = "journal: outcome unknown: not settled within 3 s";
        assert!(matches!(&error, BrokerError::Unavailable(_)) && error.to_string() == text);
        drop(stall);
    });
    assert_eq!(queue.counts().ready, 1, "it was sent after all");
}
