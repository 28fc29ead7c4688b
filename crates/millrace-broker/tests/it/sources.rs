//! Which queues have a given dead-letter queue: always those that a look at all queues finds.

use std::path::Path;
use std::sync::Arc;

use millrace_broker::{Definition, Redrive, Settings, Shards, SharedQueue};
use millrace_core::{QueueKey, SystemClock};
use millrace_engine::Replay;
use millrace_journal::{GroupCommit, GroupOptions, MemoryJournal, SimFileSystem};

use crate::support::{created, key, new_queue, open, over, run};

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// Numbers that a seed fixes.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % bound
    }

    fn name(&mut self) -> &'static str {
        NAMES[self.below(NAMES.len())]
    }

    /// No dead-letter queue one time in three.
    fn redrive(&mut self) -> Option<Redrive> {
        let target = self.name();
        let max_receive_count = 1 + self.below(3) as u32;
        (self.below(3) > 0).then(|| redrive_to(target, max_receive_count))
    }
}

fn redrive_to(target: &str, max_receive_count: u32) -> Redrive {
    let QueueKey { region, account, name } = key(target);
    Redrive { region, account, name, max_receive_count }
}

fn set_redrive(
    shards: &Shards,
    queue: &SharedQueue,
    redrive: Option<Redrive>,
) -> impl Future<Output = ()> {
    let change = |definition: &mut Definition| {
        definition.settings.redrive = redrive;
        Ok::<_, ()>(())
    };
    let changed = shards.catalog().update_queue(queue, change);
    async { drop(changed.await) }
}

fn sources(shards: &Shards, target: &str) -> Vec<String> {
    let found = shards.catalog().dead_letter_sources(&key(target), None, usize::MAX);
    found.iter().map(|queue| queue.key().name.clone()).collect()
}

fn assert_as_looked_for(shards: &Shards) {
    for target in NAMES {
        let is_source = |queue: &Arc<SharedQueue>| {
            let definition = queue.definition();
            definition.settings.redrive.as_ref().is_some_and(|it| it.target() == key(target))
        };
        let queues = shards.catalog().queues().into_iter().filter(is_source);
        let looked_for: Vec<_> = queues.map(|queue| queue.key().name.clone()).collect();
        assert_eq!(sources(shards, target), looked_for, "of {target}");
    }
}

#[test]
fn sources_are_those_of_a_full_look_whatever_was_changed() {
    for seed in 0..8 {
        let (fs, dir) = (SimFileSystem::new(seed), Path::new("/journal"));
        let (mut log, mut shards) = open(Arc::new(fs.clone()), dir);
        let mut random = Random(seed);
        for _ in 0..300 {
            let name = random.name();
            let choice = random.below(20);
            // A queue keeps its journal open.
            let queue = shards.catalog().queue_by_key(&key(name)).filter(|_| choice > 0);
            match (choice, queue) {
                (0, _) => {
                    shards.close();
                    drop((log, shards));
                    (log, shards) = open(Arc::new(fs.clone()), dir);
                }
                (1..5, Some(queue)) => run(&log, shards.catalog().delete_queue(&queue)).unwrap(),
                (5, Some(queue)) => run(&log, queue.purge()).unwrap_or(()),
                (_, Some(queue)) => {
                    run(&log, set_redrive(&shards, &queue, random.redrive()));
                }
                (_, None) => {
                    let settings = Settings { redrive: random.redrive(), ..Settings::default() };
                    created(run(&log, shards.create_queue(&new_queue(name, settings))).unwrap());
                }
            }
            assert_as_looked_for(&shards);
        }
        let all: usize = NAMES.map(|target| sources(&shards, target).len()).into_iter().sum();
        assert!(all > 0, "seed {seed} ends with sources");
        shards.close();
    }
}

#[test]
fn sources_come_in_order_and_page_by_page() {
    let log = GroupCommit::new(Box::new(MemoryJournal::new(1 << 20)), GroupOptions::default());
    let shards = over(&log, Replay::default(), Arc::new(SystemClock::new()));
    for name in ["c", "a", "d", "b"] {
        let settings = Settings { redrive: Some(redrive_to("f", 1)), ..Settings::default() };
        created(run(&log, shards.create_queue(&new_queue(name, settings))).unwrap());
    }
    let page = |after: Option<&str>, limit| {
        let found = shards.catalog().dead_letter_sources(&key("f"), after.map(key).as_ref(), limit);
        found.iter().map(|queue| queue.key().name.clone()).collect::<Vec<_>>()
    };

    assert_eq!(page(None, 2), ["a", "b"]);
    assert_eq!(page(Some("b"), 2), ["c", "d"]);
    assert_eq!(page(Some("bb"), 1), ["c"]);
    assert_eq!(page(Some("d"), 2), [""; 0]);
}
