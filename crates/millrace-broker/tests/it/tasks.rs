//! A task of a kind that only this test knows: it sends a message to one queue after the other.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use millrace_broker::{
    BrokerError, Collection, Expected, KeptError, Purpose, SendTo, Shard, Shards, Step, TaskKind,
};
use millrace_core::{Clock, SystemClock, Timestamp};
use millrace_journal::{Durability, Fault, GroupCommit, GroupOptions, SimFileSystem};
use serde::{Deserialize, Serialize};

use crate::support::{ANY, content, create, key, message, open_with, run};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const ROUNDS: Collection<Round> = Collection::new("rounds", |round| round.body.clone());

/// A task: what it sends, and how many queues have it.
#[derive(Serialize, Deserialize)]
struct Round {
    body: String,
    sent: usize,
}

#[derive(Default)]
struct Rounds {
    is_broken: AtomicBool,
    /// Between two steps of a task.
    pause_ms: AtomicU64,
    steps: AtomicU64,
}

impl TaskKind for Rounds {
    fn collection(&self) -> &'static str {
        ROUNDS.name()
    }

    fn step(&self, shard: &Shard, key: &str, now: Timestamp) -> Result<Step, KeptError> {
        let Some(found) = ROUNDS.get(shard.kept(), key) else { return Ok(Step::Ended) };
        if self.is_broken.load(Ordering::Relaxed) {
            return Err(BrokerError::Internal("not now".to_owned()).into());
        }
        self.steps.fetch_add(1, Ordering::Relaxed);
        let Round { body, sent } = found.value;
        let queue = shard.queues().into_iter().find(|queue| queue.key().name == NAMES[sent]);
        let queue = queue.ok_or(BrokerError::QueueDoesNotExist)?;
        let is_last = sent + 1 == NAMES.len();
        let content = content(&body);
        let sends = [SendTo { queue: &queue, messages: &[message(&body, &content)] }];
        let change = match is_last {
            true => ROUNDS.delete(key),
            false => ROUNDS.put(&Round { body, sent: sent + 1 })?,
        };
        let change = change.if_it_is(Expected::Version(found.version));
        let (_, appended) = shard.begin_fan_out(&sends, &[change])?;
        match self.pause_ms.load(Ordering::Relaxed) {
            _ if is_last => Ok(Step::Ended),
            0 => Ok(Step::Made(appended)),
            pause => Ok(Step::Next(now.plus_millis(pause), appended)),
        }
    }
}

struct Opened {
    log: Arc<GroupCommit>,
    shards: Arc<Shards>,
    kind: Arc<Rounds>,
    clock: Arc<SystemClock>,
}

impl Opened {
    fn new(fs: Arc<SimFileSystem>) -> Opened {
        let clock = Arc::new(SystemClock::new());
        let (log, shards) = open_with(
            fs,
            Path::new("/journal"),
            clock.clone(),
            Durability::Fsync,
            GroupOptions::default(),
        );
        let kind = Arc::new(Rounds::default());
        shards.home().unwrap().run_tasks_of(kind.clone());
        Opened { log, shards, kind, clock }
    }

    fn start(&self, body: &str) {
        let round = ROUNDS.put(&Round { body: body.to_owned(), sent: 0 }).unwrap();
        self.shards.home().unwrap().kept().change(&[round], Purpose::Store).unwrap();
    }

    fn maintain(&self) {
        self.shards.maintain();
        while self.log.commit_step() {}
    }

    fn waiting(&self) -> u64 {
        self.shards.home().unwrap().kept().figures().get("rounds").map_or(0, |of| of.documents)
    }

    fn messages(&self) -> [u64; 4] {
        NAMES.map(|name| {
            let queue = self.shards.catalog().queue_by_key(&key(name)).unwrap();
            queue.counts().total()
        })
    }
}

#[test]
fn a_task_goes_on_after_a_power_cut_and_makes_each_step_once() {
    let mut cut_between = 0;
    for seed in 0..60 {
        let fs = Arc::new(SimFileSystem::new(seed));
        let opened = Opened::new(fs.clone());
        let _queues = NAMES.map(|name| create(&opened.log, &opened.shards, name));
        opened.start("one");
        opened.start("two");
        while opened.log.commit_step() {}
        // One step, then a pause, so that cuts come between steps too.
        opened.kind.pause_ms.store(1_000, Ordering::Relaxed);
        fs.fail_call(fs.calls() + seed % 12, Fault::PowerLoss);
        for _ in 0..3 {
            opened.maintain();
            opened.clock.advance(std::time::Duration::from_secs(1));
        }
        let crashed = Arc::new(fs.crashed(seed));
        drop(opened);

        let opened = Opened::new(crashed);
        assert_eq!(opened.waiting(), 2, "none of them had ended");
        let before: u64 = opened.messages().iter().sum();
        cut_between += u64::from(before % 2 == 1 || (2..8).contains(&before));
        while opened.waiting() > 0 {
            opened.maintain();
        }
        assert_eq!(opened.messages(), [2; 4], "seed {seed}, {before} sent before the cut");
        assert_eq!(opened.kind.steps.load(Ordering::Relaxed), 8 - before, "seed {seed}");
        let queue = opened.shards.catalog().queue_by_key(&key("a")).unwrap();
        let received = run(&opened.log, queue.receive(&ANY)).unwrap();
        let mut bodies: Vec<_> = received.iter().map(|one| one.content.body().to_vec()).collect();
        bodies.sort();
        assert_eq!(bodies, [b"one".to_vec(), b"two".to_vec()]);
        opened.shards.close();
    }
    assert!(cut_between > 10, "cuts between steps: {cut_between}");
}

#[test]
fn a_step_that_fails_is_made_again_a_second_later() {
    let opened = Opened::new(Arc::new(SimFileSystem::new(1)));
    let _queues = NAMES.map(|name| create(&opened.log, &opened.shards, name));
    opened.kind.is_broken.store(true, Ordering::Relaxed);
    opened.start("one");
    opened.maintain();
    opened.kind.is_broken.store(false, Ordering::Relaxed);
    let now = opened.clock.now();

    opened.maintain();
    let waited = opened.clock.now().millis_since(now) >= 900;
    assert!(waited || opened.messages() == [0; 4], "tried again at once");
    opened.clock.advance(std::time::Duration::from_secs(1));
    opened.maintain();

    assert_eq!(opened.messages(), [1; 4]);
    opened.shards.close();
}

#[test]
fn a_task_ends_when_its_document_is_deleted() {
    let opened = Opened::new(Arc::new(SimFileSystem::new(1)));
    let _queues = NAMES.map(|name| create(&opened.log, &opened.shards, name));
    opened.kind.pause_ms.store(1_000, Ordering::Relaxed);
    opened.start("one");
    opened.maintain();
    assert_eq!(opened.messages(), [1, 0, 0, 0]);

    let home = opened.shards.home().unwrap();
    home.kept().change(&[ROUNDS.delete("one")], Purpose::Reclaim).unwrap();
    opened.clock.advance(std::time::Duration::from_secs(10));
    opened.maintain();

    assert_eq!(opened.messages(), [1, 0, 0, 0]);
    assert_eq!(opened.kind.steps.load(Ordering::Relaxed), 1);
    opened.shards.close();
}
