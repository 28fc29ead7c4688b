//! When queues are visited for what is due.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use millrace_broker::{Broker, Creation, NewContent, NewQueue, Options, Outgoing, Settings};
use millrace_core::{Clock, MessageId, QueueKey, Timestamp};
use millrace_engine::Replay;
use millrace_journal::{GroupCommit, GroupOptions, MemoryJournal};

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

#[test]
fn a_clock_that_is_advanced_leaves_each_queue_one_visit() {
    let clock = Arc::new(Still(AtomicU64::new(1_000_000)));
    let log = GroupCommit::new(Box::new(MemoryJournal::new(1 << 20)), GroupOptions::default());
    let replayed = Replay::default().finish(Broker::first_seq(log.opened().epoch.0));
    let (options, random) = (Options::default(), Box::new(|| 1));
    let broker = Broker::new(log, clock.clone(), options, replayed, random).unwrap();
    let new = NewQueue {
        key: QueueKey::new("us-east-1", "000000000000", "q"),
        settings: Settings { delay_s: 60, ..Settings::default() },
        attributes: BTreeMap::new(),
        tags: BTreeMap::new(),
    };
    let (Creation::Created(queue) | Creation::Existing(queue), _) =
        broker.begin_create_queue(&new).unwrap();
    let mut content = Vec::new();
    NewContent::default().encode(&mut content);
    let message = Outgoing {
        id: MessageId::from_random(1),
        content: &content,
        size_bytes: 0,
        group: None,
        deduplication_id: None,
        delay_s: None,
    };
    broker.begin_send(&queue, &[message]).unwrap();
    let expiry = broker.now().plus_seconds(u64::from(new.settings.retention_s));

    // Half a second before the delay ends; a visit is not asked for within less than a second.
    broker.advance_clock(Duration::from_millis(59_500));
    clock.advance(Duration::from_millis(700));
    let next = broker.run_due();

    assert_eq!((queue.counts().ready, next), (1, expiry));
}
