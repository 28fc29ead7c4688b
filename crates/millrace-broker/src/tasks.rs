//! Tasks: background work in steps that continues after a crash.
//!
//! A task is a kept document that records its progress. The task exists once the document is
//! committed. A step appends its changes and the new document in one batch, for example with
//! [`Shard::begin_fan_out`]. After a crash each step has happened once or not at all, and the task
//! continues with the next one.

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

/// Maximum number of steps in one turn of a task.
const STEPS_PER_TURN: usize = 100;
/// Tasks pause after this many bytes until the previous such portion is committed. Without the
/// pause they would fill the journal's queue, and clients' changes would be refused.
const STEPS_BYTES: usize = 2 << 20;
/// Pause before the next check of a commit that tasks wait for.
const COMMIT_PAUSE: Duration = Duration::from_millis(5);
/// Seconds before a failed step is tried again.
const RETRY_S: u64 = 1;

/// A kind of task.
///
/// The thread "maintenance" runs the steps of all tasks, and has other work: a step must not wait,
/// not even for its commit. The shard owns the kind, so a kind must not own the shard.
pub trait TaskKind: Send + Sync {
    /// The collection that holds the documents of these tasks. A key names one task and is never
    /// used for another.
    fn collection(&self) -> &'static str;

    /// Runs the next step of the task at `now`. Returns [`Step::Ended`] if the document is deleted
    /// or says that the task has ended. The step must change the document with
    /// [`crate::Expected::Version`], because a client may change it in the meantime, or delete it
    /// to end the task. After [`KeptError::Changed`] the step runs again at once. After any other
    /// error it runs again a second later, without a limit: an error that cannot pass must end the
    /// task.
    fn step(&self, shard: &Shard, key: &str, now: Timestamp) -> Result<Step, KeptError>;
}

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The next step may run at once.
    Made(Option<Appended>),
    /// The next step is due at that time.
    Next(Timestamp, Option<Appended>),
    /// The task is finished.
    Ended,
}

/// Records that a step or a fan-out appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    pub ticket: Ticket,
    /// Approximate size.
    pub bytes: usize,
}

/// All tasks of a shard.
pub(crate) struct Tasks {
    log: Arc<GroupCommit>,
    maintenance: Arc<Maintenance>,
    kinds: Mutex<BTreeMap<&'static str, Arc<dyn TaskKind>>>,
    /// Shared with the listeners of the documents. They must not hold the kinds, which hold the
    /// documents.
    due: Arc<Mutex<Due>>,
    uncommitted: Mutex<Uncommitted>,
}

/// The time of each task's next step, by collection and key.
type Due = BTreeMap<(&'static str, String), Timestamp>;

/// Steps whose commits are not yet known.
#[derive(Default)]
struct Uncommitted {
    /// Bytes appended since `latest`.
    bytes: usize,
    /// The end of the latest full portion of [`STEPS_BYTES`].
    latest: Option<Ticket>,
    /// Steps pause until this is committed.
    awaited: Option<Ticket>,
}

impl Tasks {
    pub(crate) fn new(common: &Common) -> Tasks {
        let (log, maintenance) = (common.log.clone(), common.maintenance.clone());
        let (kinds, due, uncommitted) = Default::default();
        Tasks { log, maintenance, kinds, due, uncommitted }
    }

    /// Starts to run tasks of a kind, present and future ones.
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

    /// Gives each task that is due a turn. Returns the time until the next one is due.
    pub(crate) fn run(&self, shard: &Shard, now: Timestamp) -> Option<Duration> {
        let tasks = self.due_by(now);
        let has_steps = !tasks.is_empty();
        for (collection, key) in tasks {
            if self.waits_for_a_commit() {
                break;
            }
            let kind = lock(&self.kinds).get(collection).cloned();
            let Some(kind) = kind else { continue };
            let next = self.turn(shard, &*kind, &key, now);
            let mut due = lock(&self.due);
            match next {
                // The document may have been deleted during the turn.
                Some(next) => {
                    due.entry((collection, key)).and_modify(|due| *due = next);
                }
                None => {
                    due.remove(&(collection, key));
                }
            }
        }
        // Nobody waits for these commits, and clients may not append for a long time.
        if has_steps {
            self.log.commit_elsewhere();
        }
        let next = lock(&self.due).values().min().copied()?;
        if self.waits_for_a_commit() {
            return Some(COMMIT_PAUSE);
        }
        Some(Duration::from_millis(next.millis_since(now)))
    }

    /// The tasks that are due, longest waiting first.
    fn due_by(&self, now: Timestamp) -> Vec<(&'static str, String)> {
        let all = lock(&self.due);
        let mut due: Vec<_> = all.iter().filter(|(_, due)| **due <= now).collect();
        due.sort_by_key(|(_, due)| **due);
        due.into_iter().map(|(task, _)| task.clone()).collect()
    }

    /// Runs steps of one task. Returns the time of its next step.
    fn turn(
        &self,
        shard: &Shard,
        kind: &dyn TaskKind,
        key: &str,
        now: Timestamp,
    ) -> Option<Timestamp> {
        for _ in 0..STEPS_PER_TURN {
            // After a panic the task rests until the next start, and the thread continues.
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
                lock(&self.uncommitted).add(appended);
            }
            if next > now || self.waits_for_a_commit() {
                return Some(next);
            }
        }
        Some(now)
    }

    /// Returns true while too many bytes wait for their commit.
    fn waits_for_a_commit(&self) -> bool {
        let mut uncommitted = lock(&self.uncommitted);
        let awaited = uncommitted.awaited;
        uncommitted.awaited = awaited.filter(|step| self.log.outcome(*step).is_none());
        uncommitted.awaited.is_some()
    }
}

impl Uncommitted {
    fn add(&mut self, Appended { ticket, bytes }: Appended) {
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
