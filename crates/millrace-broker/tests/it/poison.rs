//! A journal that takes no more changes.

use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use millrace_broker::{BrokerError, ReceiveRequest};
use millrace_core::SystemClock;
use millrace_engine::{Replay, Settings};
use millrace_journal::{GroupCommit, GroupOptions, LocalJournal, LocalOptions, SimFileSystem};

use crate::support::{ANY, Flag, create, new_queue, over};

#[test]
fn long_polls_end_when_nothing_can_be_received_any_more() {
    let fs = SimFileSystem::new(1);
    let options = LocalOptions { segment_bytes: 64 << 10, ..LocalOptions::default() };
    let journal =
        LocalJournal::open(Arc::new(fs.clone()), Path::new("/journal"), options, &mut |_| {});
    let log = GroupCommit::new(Box::new(journal.unwrap().0), GroupOptions::default());
    let shards = over(&log, Replay::default(), Arc::new(SystemClock::new()));
    let queue = create(&log, &shards, "q");
    let request = ReceiveRequest { wait_time_s: Some(20), ..ANY };
    let flag = Arc::new(Flag::default());
    let waker = Waker::from(flag.clone());
    let mut poll = pin!(queue.receive(&request));
    assert!(poll.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());

    fs.fail_syncs();
    shards.home().unwrap().begin_create_queue(&new_queue("other", Settings::default())).unwrap();
    log.commit_step();

    assert!(flag.0.load(Ordering::Relaxed), "woken");
    let ended = poll.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(matches!(ended, Poll::Ready(Err(BrokerError::Unavailable(_)))), "{ended:?}");
}
