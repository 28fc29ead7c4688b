//! Message move tasks: redriving a dead-letter queue, at a bounded rate, across restarts.
//!
//! Each message is moved by one atomic batch that deletes it here, accepts it there as a new
//! message and counts it. One task runs per source queue; the last ten of each source are kept.

mod run;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use millrace_core::{MessageId, QueueKey, Timestamp};
use millrace_engine::record;
use millrace_journal::{Purpose, Ticket};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::broker::{Broker, append_index};
use crate::error::BrokerError;
use crate::queue::SharedQueue;

/// Tasks of one source that are remembered (ListMessageMoveTasks shows at most ten).
const KEPT_PER_SOURCE: usize = 10;
/// Tasks that may run at a time.
const RUNNING_AT_A_TIME: usize = 100;

/// Where a task is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MoveTaskStatus {
    Running,
    Completed,
    Cancelled,
    Failed,
}

/// Why a task failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MoveTaskFailure {
    /// The destination does not exist (any more).
    NoDestination,
    /// Without a destination, and the next message was sent straight to the dead-letter queue.
    NoSource,
}

/// A message move task, as journaled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveTask {
    /// UUID text.
    pub id: String,
    /// ARN of the dead-letter queue.
    pub source: String,
    /// Which queues of those names are meant: they may be deleted and made anew. Absent: any.
    #[serde(default)]
    pub source_id: Option<u64>,
    #[serde(default)]
    pub destination_id: Option<u64>,
    /// ARN; absent: each message goes to the queue that it came from.
    pub destination: Option<String>,
    pub max_per_second: Option<u32>,
    pub status: MoveTaskStatus,
    pub moved: u64,
    /// Messages waiting at the start.
    pub to_move: u64,
    pub started_ms: u64,
    /// Why it failed, if it did.
    #[serde(default)]
    pub failure: Option<MoveTaskFailure>,
}

impl MoveTask {
    /// Whether it is a task of that queue, and not of one that had its name before.
    pub(crate) fn is_of(&self, source: &SharedQueue) -> bool {
        self.source == source.arn() && is_that(self.source_id, source)
    }
}

fn is_that(id: Option<u64>, queue: &SharedQueue) -> bool {
    id.is_none_or(|id| id == queue.id().0)
}

/// What a service asks for.
#[derive(Clone, Debug)]
pub struct StartMoveTask {
    pub source: QueueKey,
    pub destination: Option<QueueKey>,
    pub max_per_second: Option<u32>,
}

/// Why a task was not started or cancelled.
#[derive(Clone, Debug, Error)]
pub enum MoveTaskError {
    #[error("there is already a task running for the source queue")]
    AlreadyRunning,
    #[error("too many tasks are running")]
    TooManyRunning,
    #[error("task does not exist")]
    NoSuchTask,
    #[error(transparent)]
    Broker(#[from] BrokerError),
}

#[derive(Debug)]
struct Entry {
    task: MoveTask,
    position: u64,
    next_at: Timestamp,
    /// Microseconds, below a thousand, that the next move is due after `next_at`: most rates are
    /// no whole number of milliseconds.
    next_us: u64,
}

impl Entry {
    fn new(task: MoveTask, position: u64, next_at: Timestamp) -> Entry {
        Entry { task, position, next_at, next_us: 0 }
    }

    fn is_running(&self) -> bool {
        self.task.status == MoveTaskStatus::Running
    }

    /// The whole millisecond from which the next move is due.
    fn due_at(&self) -> Timestamp {
        self.next_at.plus_millis(u64::from(self.next_us > 0))
    }

    /// One message was moved: the next is due when the rate has earned it.
    fn earn(&mut self, rate: u32) {
        let us = self.next_us + 1_000_000_u64.div_ceil(u64::from(rate.max(1)));
        self.next_at = self.next_at.plus_millis(us / 1000);
        self.next_us = us % 1000;
    }
}

/// All tasks, oldest first.
#[derive(Debug)]
pub(crate) struct MoveTasks(Mutex<Vec<Entry>>);

impl MoveTasks {
    pub(crate) fn new(
        replayed: Vec<(Vec<u8>, u64)>,
        now: Timestamp,
    ) -> Result<MoveTasks, BrokerError> {
        let mut entries = Vec::with_capacity(replayed.len());
        for (json, position) in replayed {
            let task: MoveTask = serde_json::from_slice(&json)
                .map_err(|error| BrokerError::Internal(format!("move task: {error}")))?;
            entries.push(Entry::new(task, position, now));
        }
        entries
            .sort_by(|a, b| (a.task.started_ms, &a.task.id).cmp(&(b.task.started_ms, &b.task.id)));
        // The journal may still tell of tasks that were dropped before the restart.
        let mut kept = HashMap::<String, usize>::new();
        entries.reverse();
        entries.retain(|entry| {
            let kept = kept.entry(entry.task.source.clone()).or_default();
            *kept += 1;
            *kept <= KEPT_PER_SOURCE
        });
        entries.reverse();
        Ok(MoveTasks(Mutex::new(entries)))
    }

    pub(crate) fn forget(&self) {
        self.entries().clear();
    }

    /// Appends tasks again whose records are about to go, but those that ended and whose source is
    /// no longer `there`: these are forgotten.
    pub(crate) fn append_again(
        &self,
        is_before: impl Fn(u64) -> bool,
        is_there: impl Fn(&MoveTask) -> bool,
        append: impl Fn(&[u8]) -> Result<u64, BrokerError>,
    ) -> Result<(), BrokerError> {
        let mut entries = self.entries();
        entries.retain(|entry| entry.is_running() || is_there(&entry.task));
        for entry in entries.iter_mut().filter(|entry| is_before(entry.position)) {
            entry.position = append(&task_record(&entry.task)?)?;
        }
        Ok(())
    }

    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// None: there is no such task, or it has ended.
    fn with_running<R>(&self, id: &str, look: impl FnOnce(&mut Entry) -> R) -> Option<R> {
        running(&mut self.entries(), id).map(look)
    }

    fn each_running(&self, mut look: impl FnMut(&Entry)) {
        self.entries().iter().filter(|entry| entry.is_running()).for_each(&mut look);
    }
}

fn running<'e>(entries: &'e mut [Entry], id: &str) -> Option<&'e mut Entry> {
    entries.iter_mut().find(|entry| entry.task.id == id && entry.is_running())
}

impl Broker {
    /// Starts a task and returns its id. Resolves after the commit.
    pub async fn start_move_task(&self, start: &StartMoveTask) -> Result<String, MoveTaskError> {
        let source = self.queue_by_key(&start.source).ok_or(BrokerError::QueueDoesNotExist)?;
        self.catch_up(&source).await;
        let (id, ticket) = self.begin_move_task(start, &source)?;
        // Before the wait, which a client that leaves cuts short.
        self.maintenance.hurry();
        self.committed(Some(ticket)).await?;
        Ok(id)
    }

    /// Stops a task and returns how many messages it moved; those stay moved. Resolves after the
    /// commit.
    pub async fn cancel_move_task(&self, id: &str) -> Result<u64, MoveTaskError> {
        let (moved, ticket) = {
            let mut entries = self.move_tasks.entries();
            let entry = running(&mut entries, id).ok_or(MoveTaskError::NoSuchTask)?;
            let cancelled = MoveTask { status: MoveTaskStatus::Cancelled, ..entry.task.clone() };
            let ticket = self.append_task(entry, cancelled, Purpose::Reclaim)?;
            (entry.task.moved, ticket)
        };
        self.committed(Some(ticket)).await?;
        Ok(moved)
    }

    /// Tasks of a source queue, newest first.
    pub fn move_tasks(&self, source: &QueueKey, limit: usize) -> Vec<MoveTask> {
        let Some(source) = self.queue_by_key(source) else { return Vec::new() };
        let entries = self.move_tasks.entries();
        let of_source = entries.iter().rev().filter(|entry| entry.task.is_of(&source));
        of_source.take(limit).map(|entry| entry.task.clone()).collect()
    }

    fn begin_move_task(
        &self,
        start: &StartMoveTask,
        source: &SharedQueue,
    ) -> Result<(String, Ticket), MoveTaskError> {
        let to_move = {
            let mut state = self.lock_up_to_date(source);
            if state.is_deleted {
                return Err(BrokerError::QueueDoesNotExist.into());
            }
            self.tick_whole(source, &mut state, self.now()).map_err(BrokerError::from)?;
            state.queue.counts().ready
        };
        let destination = match &start.destination {
            Some(key) => Some(self.queue_by_key(key).ok_or(BrokerError::QueueDoesNotExist)?),
            None => None,
        };
        let mut entries = self.move_tasks.entries();
        let running = || entries.iter().filter(|entry| entry.is_running());
        if running().any(|entry| entry.task.is_of(source)) {
            return Err(MoveTaskError::AlreadyRunning);
        }
        if running().count() >= RUNNING_AT_A_TIME {
            return Err(MoveTaskError::TooManyRunning);
        }
        let now = self.now();
        let task = MoveTask {
            id: MessageId::from_random(self.random_bits()).to_string(),
            source: source.arn().to_owned(),
            source_id: Some(source.id().0),
            destination_id: destination.map(|queue| queue.id().0),
            destination: start.destination.as_ref().map(ToString::to_string),
            max_per_second: start.max_per_second,
            status: MoveTaskStatus::Running,
            moved: 0,
            to_move,
            started_ms: now.0,
            failure: None,
        };
        let mut entry = Entry::new(task.clone(), 0, now);
        let ticket = self.append_task(&mut entry, task, Purpose::Store)?;
        let id = entry.task.id.clone();
        entries.push(entry);
        let of_source = |entry: &Entry| entry.task.source == source.arn();
        if entries.iter().filter(|entry| of_source(entry)).count() > KEPT_PER_SOURCE
            && let Some(oldest) = entries.iter().position(of_source)
        {
            entries.remove(oldest);
        }
        Ok((id, ticket))
    }

    fn random_bits(&self) -> u128 {
        (self.random.lock().unwrap_or_else(PoisonError::into_inner))()
    }

    fn append_task(
        &self,
        entry: &mut Entry,
        task: MoveTask,
        purpose: Purpose,
    ) -> Result<Ticket, BrokerError> {
        let index = task_record(&task)?;
        let (ticket, position) = append_index(&self.log, purpose, &index)?;
        entry.position = position;
        entry.task = task;
        Ok(ticket)
    }
}

fn task_record(task: &MoveTask) -> Result<Vec<u8>, BrokerError> {
    let json = serde_json::to_vec(task)
        .map_err(|error| BrokerError::Internal(format!("move task: {error}")))?;
    let mut index = Vec::with_capacity(json.len() + 1);
    record::move_task(&mut index, &json);
    Ok(index)
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
    fn ended_tasks_of_deleted_queues_are_not_appended_again() {
        let all = [
            task("gone", MoveTaskStatus::Completed),
            task("gone", MoveTaskStatus::Running),
            task("there", MoveTaskStatus::Completed),
        ];
        let replayed = all.iter().map(|task| (serde_json::to_vec(task).unwrap(), 0)).collect();
        let tasks = MoveTasks::new(replayed, Timestamp(0)).unwrap();
        let appended = std::cell::Cell::new(0);
        let append = |_: &[u8]| Ok(appended.replace(appended.get() + 1));

        tasks.append_again(|_| true, |task| task.source == "there", append).unwrap();

        assert_eq!(appended.get(), 2);
        assert_eq!(tasks.entries().len(), 2);
    }

    #[test]
    fn a_rate_is_kept_that_is_no_whole_number_of_milliseconds() {
        let task = task("", MoveTaskStatus::Running);
        for rate in [1, 3, 7, 300, 333, 400, 499, 500] {
            let mut entry = Entry::new(task.clone(), 0, Timestamp(1_000));
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
