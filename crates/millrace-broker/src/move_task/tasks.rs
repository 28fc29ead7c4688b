//! All tasks: the latest of each source, whose task it is, and which of them run. Those that have
//! ended cost those that run nothing, however many there are.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millrace_core::Timestamp;

use super::{MOVE_TASKS, MoveTask, MoveTaskStatus};
use crate::catalog::Catalog;
use crate::common::Common;
use crate::error::BrokerError;
use crate::kept::Kept;

/// Tasks of one source that are remembered (ListMessageMoveTasks shows at most ten).
const KEPT_PER_SOURCE: usize = 10;

/// The tasks of one shard's queues.
pub struct MoveTasks {
    pub(super) common: Arc<Common>,
    pub(super) catalog: Arc<Catalog>,
    pub(super) kept: Arc<Kept>,
    tasks: Mutex<Tasks>,
}

#[derive(Debug, Default)]
pub(super) struct Tasks {
    /// Oldest first, by the ARN of their source.
    by_source: BTreeMap<String, Vec<Entry>>,
    /// Source and id of those that run, oldest first, and of some that have just ended.
    running: Vec<(String, String)>,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) task: MoveTask,
    pub(super) next_at: Timestamp,
    /// Microseconds, below a thousand, that the next move is due after `next_at`: most rates are
    /// no whole number of milliseconds.
    next_us: u64,
}

impl Entry {
    pub(super) fn new(task: MoveTask, next_at: Timestamp) -> Entry {
        Entry { task, next_at, next_us: 0 }
    }

    fn is_running(&self) -> bool {
        self.task.status == MoveTaskStatus::Running
    }

    /// The whole millisecond from which the next move is due.
    pub(super) fn due_at(&self) -> Timestamp {
        self.next_at.plus_millis(u64::from(self.next_us > 0))
    }

    /// One message was moved: the next is due when the rate has earned it.
    pub(super) fn earn(&mut self, rate: u32) {
        let us = self.next_us + 1_000_000_u64.div_ceil(u64::from(rate.max(1)));
        self.next_at = self.next_at.plus_millis(us / 1000);
        self.next_us = us % 1000;
    }
}

impl MoveTasks {
    pub(crate) fn new(
        common: Arc<Common>,
        catalog: Arc<Catalog>,
        kept: Arc<Kept>,
    ) -> Result<MoveTasks, BrokerError> {
        let (now, mut entries) = (common.now(), Vec::new());
        for (_, document) in kept.scan(MOVE_TASKS.name(), "", None, usize::MAX) {
            let task: MoveTask = serde_json::from_slice(&document.bytes)
                .map_err(|error| BrokerError::Internal(format!("move task: {error}")))?;
            entries.push(Entry::new(task, now));
        }
        entries
            .sort_by(|a, b| (a.task.started_ms, &a.task.id).cmp(&(b.task.started_ms, &b.task.id)));
        // A journal of before documents were kept tells of tasks that were dropped: these go again.
        let mut tasks = Tasks::default();
        for entry in entries {
            tasks.add(entry);
        }
        Ok(MoveTasks { common, catalog, kept, tasks: Mutex::new(tasks) })
    }

    pub(crate) fn forget(&self) {
        *self.lock() = Tasks::default();
    }

    /// None: there is no such task, or it has ended.
    pub(super) fn with_running<R>(
        &self,
        id: &str,
        look: impl FnOnce(&mut Entry) -> R,
    ) -> Option<R> {
        self.lock().running(id).map(look)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Tasks> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tasks {
    pub(super) fn add(&mut self, entry: Entry) {
        // Those that have ended since the last was added.
        let Tasks { by_source, running, .. } = self;
        running.retain(|(source, id)| find(by_source, source, id).is_some_and(Entry::is_running));
        if entry.is_running() {
            running.push((entry.task.source.clone(), entry.task.id.clone()));
        }
        let of_source = by_source.entry(entry.task.source.clone()).or_default();
        of_source.push(entry);
        if of_source.len() > KEPT_PER_SOURCE {
            of_source.remove(0);
        }
    }

    /// The id of the task that is forgotten when another of that source is added.
    pub(super) fn forgotten_for(&self, source: &str) -> Option<String> {
        let of_source = self.of_source(source);
        let oldest = of_source.first().filter(|_| of_source.len() >= KEPT_PER_SOURCE);
        oldest.map(|entry| entry.task.id.clone())
    }

    /// Forgets tasks that ended and whose source is no longer there.
    pub(super) fn forget_ended(&mut self, is_there: impl Fn(&MoveTask) -> bool) {
        self.by_source.retain(|_, entries| {
            entries.retain(|entry| entry.is_running() || is_there(&entry.task));
            !entries.is_empty()
        });
    }

    pub(super) fn has(&self, id: &str) -> bool {
        self.by_source.values().flatten().any(|entry| entry.task.id == id)
    }

    /// The task of that id, if it runs.
    pub(super) fn running(&mut self, id: &str) -> Option<&mut Entry> {
        let (source, _) = self.running.iter().find(|(_, running)| running == id)?;
        let mut of_source = self.by_source.get_mut(source)?.iter_mut();
        of_source.find(|entry| entry.task.id == id && entry.is_running())
    }

    /// All that run, oldest first.
    pub(super) fn all_running(&self) -> impl Iterator<Item = &Entry> + '_ {
        let found =
            self.running.iter().filter_map(|(source, id)| find(&self.by_source, source, id));
        found.filter(|entry| entry.is_running())
    }

    /// Those of a source, oldest first, also of earlier queues of that name.
    pub(super) fn of_source(&self, arn: &str) -> &[Entry] {
        self.by_source.get(arn).map_or(&[], Vec::as_slice)
    }
}

fn find<'t>(
    by_source: &'t BTreeMap<String, Vec<Entry>>,
    source: &str,
    id: &str,
) -> Option<&'t Entry> {
    by_source.get(source)?.iter().find(|entry| entry.task.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(source: &str, status: MoveTaskStatus) -> MoveTask {
        MoveTask {
            id: String::new(),
            source: source.to_owned(),
            source_id: None,
            destination_id: None,
            destination: None,
            max_per_second: None,
            status,
            moved: 0,
            to_move: 0,
            started_ms: 0,
            failure: None,
        }
    }

    #[test]
    fn ended_tasks_of_deleted_queues_are_forgotten() {
        let all = [
            task("gone", MoveTaskStatus::Completed),
            task("gone", MoveTaskStatus::Running),
            task("there", MoveTaskStatus::Completed),
        ];
        let mut tasks = Tasks::default();
        for (number, task) in all.into_iter().enumerate() {
            tasks.add(Entry::new(MoveTask { id: number.to_string(), ..task }, Timestamp(0)));
        }

        tasks.forget_ended(|task| task.source == "there");

        assert_eq!(["0", "1", "2"].map(|id| tasks.has(id)), [false, true, true]);
    }

    #[test]
    fn who_looks_for_those_that_run_does_not_look_at_those_that_ended() {
        let (_log, shards) = crate::testing::open(1 << 20);
        let shard = shards.home().unwrap();
        let tasks = shard.move_tasks();
        let add = |source: u32, number: u32, status| {
            let id = format!("{source}-{number}");
            let task = MoveTask { id, ..task(&source.to_string(), status) };
            tasks.lock().add(Entry::new(task, Timestamp(0)));
        };
        for source in 0..100 {
            (0..20).for_each(|number| add(source, number, MoveTaskStatus::Completed));
            add(source, 20, MoveTaskStatus::Running);
            if source > 0 {
                let ended = |entry: &mut Entry| entry.task.status = MoveTaskStatus::Completed;
                assert!(tasks.with_running(&format!("{source}-20"), ended).is_some());
            }
        }

        assert!(tasks.with_running("1-20", |_| ()).is_none(), "it has ended");
        let tasks = tasks.lock();
        let running: Vec<_> = tasks.all_running().map(|entry| entry.task.id.as_str()).collect();
        assert_eq!((running, tasks.running.len()), (vec!["0-20"], 2));
        let kept: Vec<_> = tasks.by_source.values().map(Vec::len).collect();
        assert_eq!(kept, [KEPT_PER_SOURCE; 100]);
    }

    #[test]
    fn a_rate_is_kept_that_is_no_whole_number_of_milliseconds() {
        let task = task("", MoveTaskStatus::Running);
        for rate in [1, 3, 7, 300, 333, 400, 499, 500] {
            let mut entry = Entry::new(task.clone(), Timestamp(1_000));
            for moved in 1..=10 * rate {
                entry.earn(rate);
                let earliest_ms = u64::from(moved) * 1000 / u64::from(rate);
                let due_ms = entry.due_at().0 - 1_000;
                assert!(due_ms >= earliest_ms, "{moved} at {rate}/s due after {due_ms} ms");
                // A microsecond is lost with each at most: a two-thousandth at 500/s.
                let latest_ms = earliest_ms + earliest_ms / 2_000 + 2;
                assert!(due_ms <= latest_ms, "{moved} at {rate}/s due after {due_ms} ms");
            }
        }
    }
}
