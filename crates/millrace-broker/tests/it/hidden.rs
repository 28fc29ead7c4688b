//! Hidden queues: ordinary queues that no client sees.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use millrace_broker::{NewQueue, Redrive};
use millrace_core::QueueKey;
use millrace_engine::Settings;
use millrace_journal::SimFileSystem;

use crate::support::{ANY, content, create, created, message, new_queue, open, run};

#[test]
fn a_hidden_queue_works_and_is_in_no_list() {
    let fs = Arc::new(SimFileSystem::new(1));
    let (log, shards) = open(fs.clone(), Path::new("/journal"));
    let named = create(&log, &shards, "named");
    let key = QueueKey::hidden("push", "named");
    let new = NewQueue { key: key.clone(), ..new_queue("", Settings::default()) };
    let hidden = created(run(&log, shards.create_queue(&new)).unwrap());
    let QueueKey { region, account, name } = named.key().clone();
    let redrive = Redrive { region, account, name, max_receive_count: 3 };
    let update = shards.catalog().update_queue(&hidden, |definition| {
        definition.settings.redrive = Some(redrive);
        Ok::<_, ()>(())
    });
    run(&log, update).unwrap().unwrap();
    assert!(shards.catalog().dead_letter_sources(named.key(), None, 10).is_empty());
    run(&log, hidden.send(&[message("a", &content("a"))])).unwrap();
    shards.close();
    drop((named, hidden, shards, log));

    let (log, shards) = open(fs, Path::new("/journal"));
    let names = || -> Vec<String> {
        shards.catalog().queues().iter().map(|queue| queue.key().name.clone()).collect()
    };
    assert_eq!(names(), ["named"]);
    let hidden = shards.catalog().queue_by_key(&key).unwrap();
    assert_eq!(run(&log, hidden.receive(&ANY)).unwrap().len(), 1);

    static IS_TOLD: AtomicBool = AtomicBool::new(false);
    shards.catalog().on_delete(Box::new(|_| IS_TOLD.store(true, Ordering::Relaxed)));
    run(&log, shards.catalog().delete_queue(&hidden)).unwrap();
    let (_, deleted) = shards.catalog().queues_and_totals_of_deleted();
    assert_eq!((deleted.messages_received, IS_TOLD.load(Ordering::Relaxed)), (0, false));
    assert_eq!(names(), ["named"]);
    shards.close();
}
