//! Tasks: work behind the requests that goes on step by step, also after a crash.
//!
//! A task is a kept document, which says how far it has come. It is there from the commit of the
//! document on, whatever else that batch holds. A step makes its changes and that of the document
//! in one append ([`Shard::begin_fan_out`], say): so after a crash each step was made once or not
//! at all, and the next begins where the last ended.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use millrace_core::Timestamp;
use millrace_journal::{GroupCommit, Ticket};

use crate::common::Common;
use crate::kept::{Kept, KeptError};
use crate::maintenance::Maintenance;
use crate::shard::Shard;

/// Steps that a task makes before others get their turn.
const STEPS_PER_TURN: usize = 100;
/// Bytes that tasks append before the commit of as many before them is awaited: clients' records
/// wait behind them, and find no room once all that may wait does.
const STEPS_BYTES: usize = 2 << 20;
/// Until a commit under way is looked at again.
const COMMIT_PAUSE: Duration = Duration::from_millis(5);
/// Until a step that failed is tried again.
const RETRY_S: u64 = 1;

/// One kind of task: what a step is.
///
/// Steps are made one after the other by the thread "maintenance", which has more to do: a step
/// appends, and waits for nothing, its commit included. Whoever keeps a kind must not be kept by
/// it.
pub trait TaskKind: Send + Sync {
    /// The collection of its documents, by which it is known. Their keys name the tasks: one task
    /// in the life of the collection.
    fn collection(&self) -> &'static str;

    /// Makes the next step of a task at `now`. A document that is gone, or says that the task has
    /// ended, is [`Step::Ended`]. The change of the document expects the version that was read
    /// ([`crate::Expected::Version`]): others may change it meanwhile, or delete it to end the
    /// task. After [`KeptError::Changed`] the step is made again at once, after any other error a
    /// second later, for ever: what cannot be done at all is to end the task.
    fn step(&self, shard: &Shard, key: &str, now: Timestamp) -> Result<Step, KeptError>;
}

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It appended that, if anything, and the next step may follow at once.
    Made(Option<Appended>),
    /// The same, but the next step is due only then.
    Next(Timestamp, Option<Appended>),
    /// There is nothing left to do.
    Ended,
}

/// What a step appended, or a fan-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    pub ticket: Ticket,
    /// About as many.
    pub bytes: usize,
}

/// The tasks of a shard, of all kinds.
pub(crate) struct Tasks {
    log: Arc<GroupCommit>,
    maintenance: Arc<Maintenance>,
    kinds: Mutex<BTreeMap<&'static str, Arc<dyn TaskKind>>>,
    /// Shared with what watches the documents. These do not know the kinds, which know them.
    due: Arc<Mutex<Due>>,
    pace: Mutex<Pace>,
}

/// When the next step of each task is due, by collection and key.
type Due = BTreeMap<(&'static str, String), Timestamp>;

/// How far the commits of steps are.
#[derive(Default)]
struct Pace {
    /// Bytes appended since `latest`.
    bytes: usize,
    /// The latest step whose commit is going to be awaited.
    latest: Option<Ticket>,
    /// The step that is to be committed before further ones.
    awaited: Option<Ticket>,
}

impl Tasks {
    pub(crate) fn new(common: &Common) -> Tasks {
        let (log, maintenance) = (common.log.clone(), common.maintenance.clone());
        let (kinds, due, pace) = Default::default();
        Tasks { log, maintenance, kinds, due, pace }
    }

    /// Runs tasks of a kind from now on: those whose documents there are, and those to come.
    pub(crate) fn add(&self, kept: &Kept, kind: Arc<dyn TaskKind>) {
        let collection = kind.collection();
        lock(&self.kinds).insert(collection, kind);
        let (due, maintenance) = (self.due.clone(), self.maintenance.clone());
        kept.watch(
            collection,
            Box::new(move |key, document| {
                let mut due = lock(&due);
                let task = (collection, key.to_owned());
                if document.is_none() {
                    due.remove(&task);
                } else if let Entry::Vacant(new) = due.entry(task) {
                    new.insert(Timestamp(0));
                    maintenance.hurry();
                }
            }),
        );
        for (key, _) in kept.scan(collection, "", None, usize::MAX) {
            lock(&self.due).entry((collection, key)).or_insert(Timestamp(0));
        }
        self.maintenance.hurry();
    }

    /// Lets each task that is due make some steps. Returns how soon the next is due.
    pub(crate) fn run(&self, shard: &Shard, now: Timestamp) -> Option<Duration> {
        for (collection, key) in self.due_by(now) {
            if self.waits_for_a_commit() {
                break;
            }
            let kind = lock(&self.kinds).get(collection).cloned();
            let Some(kind) = kind else { continue };
            let next = self.turn(shard, &*kind, &key, now);
            let mut due = lock(&self.due);
            match next {
                // Unless its document was deleted meanwhile.
                Some(next) => {
                    due.entry((collection, key)).and_modify(|due| *due = next);
                }
                None => {
                    due.remove(&(collection, key));
                }
            }
        }
        // Nobody else may append for long, and so commit what the steps appended.
        self.log.commit_elsewhere();
        let next = lock(&self.due).values().min().copied()?;
        if self.waits_for_a_commit() {
            return Some(COMMIT_PAUSE);
        }
        Some(Duration::from_millis(next.millis_since(now)))
    }

    /// The tasks of which a step is due, first those that have waited longest.
    fn due_by(&self, now: Timestamp) -> Vec<(&'static str, String)> {
        let all = lock(&self.due);
        let mut due: Vec<_> = all.iter().filter(|(_, due)| **due <= now).collect();
        due.sort_by_key(|(_, due)| **due);
        due.into_iter().map(|(task, _)| task.clone()).collect()
    }

    /// Has a task make what steps are due. Returns when the next one is.
    fn turn(
        &self,
        shard: &Shard,
        kind: &dyn TaskKind,
        key: &str,
        now: Timestamp,
    ) -> Option<Timestamp> {
        for _ in 0..STEPS_PER_TURN {
            // A step that panics is not made again before the next start: the thread goes on.
            let step = catch_unwind(AssertUnwindSafe(|| kind.step(shard, key, now)));
            let Ok(step) = step else {
                tracing::error!(kind = kind.collection(), task = key, "a step of a task panicked");
                return None;
            };
            let (next, appended) = match step {
                Ok(Step::Made(appended)) => (now, appended),
                Ok(Step::Next(next, appended)) => (next, appended),
                Ok(Step::Ended) => return None,
                Err(KeptError::Changed { .. }) => (now, None),
                Err(error) => {
                    tracing::warn!(kind = kind.collection(), task = key, %error, "task has to wait");
                    return Some(now.plus_seconds(RETRY_S));
                }
            };
            if let Some(appended) = appended {
                lock(&self.pace).appended(appended);
            }
            if next > now || self.waits_for_a_commit() {
                return Some(next);
            }
        }
        Some(now)
    }

    /// Whether so much was appended that its commit is to come first.
    fn waits_for_a_commit(&self) -> bool {
        let mut pace = lock(&self.pace);
        pace.awaited = pace.awaited.filter(|step| self.log.outcome(*step).is_none());
        pace.awaited.is_some()
    }
}

impl Pace {
    fn appended(&mut self, Appended { ticket, bytes }: Appended) {
        self.bytes += bytes;
        if self.bytes > STEPS_BYTES {
            self.bytes = 0;
            self.awaited = self.latest.replace(ticket);
        }
    }
}

fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use millrace_journal::Purpose;

    use super::*;
    use crate::kept::KeptChange;
    use crate::{Shards, testing};

    /// Of its tasks one has no end; a turn of it is more than what may be uncommitted.
    struct Toy;

    impl TaskKind for Toy {
        fn collection(&self) -> &'static str {
            "some"
        }

        fn step(&self, shard: &Shard, key: &str, _: Timestamp) -> Result<Step, KeptError> {
            match key {
                "panics" => panic!("as it is meant to"),
                "endless" => {
                    let put = [KeptChange::put("some", key, b"goes on")];
                    let appended = shard.begin_fan_out(&[], &put)?.1;
                    let bytes = STEPS_BYTES / 10;
                    Ok(Step::Made(appended.map(|appended| Appended { bytes, ..appended })))
                }
                _ => {
                    shard.begin_fan_out(&[], &[KeptChange::delete("some", key)])?;
                    Ok(Step::Ended)
                }
            }
        }
    }

    /// Starts these tasks. Nothing is committed.
    fn started(keys: &[&str]) -> (Arc<GroupCommit>, Arc<Shards>) {
        let (log, shards) = testing::open(16 << 20);
        let home = shards.home().unwrap();
        home.run_tasks_of(Arc::new(Toy));
        let tasks: Vec<_> = keys.iter().map(|key| KeptChange::put("some", *key, b"new")).collect();
        home.kept().change(&tasks, Purpose::Store).unwrap();
        (log, shards)
    }

    fn is_there(shards: &Shards, key: &str) -> bool {
        shards.home().unwrap().kept().get("some", key).is_some()
    }

    #[test]
    fn a_task_without_an_end_lets_others_have_their_turn() {
        let (log, shards) = started(&["endless", "other"]);
        let home = shards.home().unwrap();

        assert_eq!(home.run_tasks(), Some(COMMIT_PAUSE), "it is cut short");
        assert!(is_there(&shards, "other"));
        while log.commit_step() {}
        home.run_tasks();

        assert_eq!(["endless", "other"].map(|key| is_there(&shards, key)), [true, false]);
        shards.close();
    }

    #[test]
    fn what_a_step_appended_is_committed_though_nobody_waits_for_it() {
        let (log, shards) = started(&["other"]);
        while log.commit_step() {}
        let committer = log.spawn_committer().unwrap();
        let (committed, commits) = std::sync::mpsc::channel();
        log.on_commit(Box::new(move || {
            let _ = committed.send(());
        }));

        shards.home().unwrap().run_tasks();

        commits.recv_timeout(Duration::from_secs(60)).unwrap();
        shards.close();
        committer.join().unwrap();
    }

    #[test]
    fn a_step_that_panics_stops_no_other_task() {
        let (_log, shards) = started(&["other", "panics"]);
        let home = shards.home().unwrap();

        home.run_tasks();

        assert_eq!(["other", "panics"].map(|key| is_there(&shards, key)), [false, true]);
        assert_eq!(home.run_tasks(), None, "not before the next start");
        shards.close();
    }
}
