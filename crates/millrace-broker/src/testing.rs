//! Shared by unit tests: a shard over a journal in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use millrace_core::{QueueKey, ShardId, SystemClock};
use millrace_engine::{Replay, Settings};
use millrace_journal::{GroupCommit, GroupOptions, MemoryJournal};

use crate::{Creation, NewQueue, OpenShard, Options, Shard, Shards, SharedQueue};

/// Nothing runs, and nothing is kept in memory beside the journal.
pub(crate) fn open(segment_bytes: u32) -> (Arc<GroupCommit>, Arc<Shards>) {
    let journal = Box::new(MemoryJournal::new(segment_bytes));
    let options = GroupOptions { recent_bytes: 0, ..GroupOptions::default() };
    let log = GroupCommit::new(journal, options);
    let first_seq = Shard::first_seq(ShardId(0), log.opened().epoch.0).unwrap();
    let open = OpenShard {
        id: ShardId(0),
        log: log.clone(),
        options: Options::default(),
        replayed: Replay::default().finish(first_seq),
        random: Box::new(|| 1),
    };
    (log, Shards::of_one(Arc::new(SystemClock::new()), open).unwrap())
}

pub(crate) fn key(name: &str) -> QueueKey {
    QueueKey::new("us-east-1", "000000000000", name)
}

/// A new queue, without a wait for its commit.
pub(crate) fn create(shards: &Shards, name: &str, settings: Settings) -> Arc<SharedQueue> {
    let (attributes, tags) = (BTreeMap::new(), BTreeMap::new());
    let new = NewQueue { key: key(name), settings, attributes, tags };
    match shards.home().unwrap().begin_create_queue(&new).unwrap().0 {
        Creation::Created(queue) | Creation::Existing(queue) => queue,
    }
}
