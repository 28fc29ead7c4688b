//! Message move tasks: redriving a dead-letter queue, at a bounded rate, across restarts.
//!
//! Each message is moved by one atomic batch that deletes it here, accepts it there as a new
//! message and counts it. One task runs per source queue; the last ten of each source are kept.

mod run;
mod tasks;

use millrace_core::{MessageId, QueueKey, may_take};
use millrace_journal::{Purpose, Ticket};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::error::BrokerError;
use crate::kept::Collection;
use crate::queue::SharedQueue;
use tasks::Entry;
pub use tasks::MoveTasks;

/// Where tasks are kept, by id.
const MOVE_TASKS: Collection<MoveTask> =
    Collection::new(millrace_engine::MOVE_TASKS, |task| task.id.clone());

/// SQS: tasks of one account that may run at a time. All accounts together have a tenth more.
const RUNNING_AT_A_TIME: usize = 100;

/// Tasks that are forgotten in one batch.
const FORGOTTEN_AT_A_TIME: usize = 500;

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

    /// The account of its source, which the fifth part of an ARN names.
    fn account(&self) -> &str {
        self.source.split(':').nth(4).unwrap_or_default()
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

impl MoveTasks {
    /// Starts a task and returns its id. Resolves after the commit.
    pub async fn start(&self, start: &StartMoveTask) -> Result<String, MoveTaskError> {
        let source =
            self.catalog.queue_by_key(&start.source).ok_or(BrokerError::QueueDoesNotExist)?;
        source.catch_up().await;
        let (id, ticket) = self.begin(start, &source)?;
        self.common.committed(Some(ticket)).await?;
        Ok(id)
    }

    /// Stops a task and returns how many messages it moved; those stay moved. Resolves after the
    /// commit.
    pub async fn cancel(&self, id: &str) -> Result<u64, MoveTaskError> {
        let (moved, ticket) = {
            let mut tasks = self.lock();
            let entry = tasks.running(id).ok_or(MoveTaskError::NoSuchTask)?;
            let cancelled = MoveTask { status: MoveTaskStatus::Cancelled, ..entry.task.clone() };
            let ticket = self.keep_task(entry, cancelled, Purpose::Reclaim)?;
            (entry.task.moved, ticket)
        };
        self.common.committed(Some(ticket)).await?;
        Ok(moved)
    }

    /// Tasks of a source queue, newest first.
    pub fn of_source(&self, source: &QueueKey, limit: usize) -> Vec<MoveTask> {
        let Some(source) = self.catalog.queue_by_key(source) else { return Vec::new() };
        let tasks = self.lock();
        let of_source = tasks.of_source(source.arn()).iter().rev();
        let of_source = of_source.filter(|entry| entry.task.is_of(&source));
        of_source.take(limit).map(|entry| entry.task.clone()).collect()
    }

    fn begin(
        &self,
        start: &StartMoveTask,
        source: &SharedQueue,
    ) -> Result<(String, Ticket), MoveTaskError> {
        let to_move = {
            let mut state = source.lock_up_to_date();
            if state.is_deleted {
                return Err(BrokerError::QueueDoesNotExist.into());
            }
            source.tick_whole(&mut state, self.common.now()).map_err(BrokerError::from)?;
            state.queue.counts().ready
        };
        let destination = match &start.destination {
            Some(key) => {
                Some(self.catalog.queue_by_key(key).ok_or(BrokerError::QueueDoesNotExist)?)
            }
            None => None,
        };
        let mut tasks = self.lock();
        if tasks.all_running().any(|entry| entry.task.is_of(source)) {
            return Err(MoveTaskError::AlreadyRunning);
        }
        let account = &source.key().account;
        let of_account = tasks.all_running().filter(|entry| entry.task.account() == account);
        if !may_take(of_account.count(), tasks.all_running().count(), RUNNING_AT_A_TIME) {
            return Err(MoveTaskError::TooManyRunning);
        }
        let now = self.common.now();
        let task = MoveTask {
            id: MessageId::from_random(self.common.random_bits()).to_string(),
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
        let id = task.id.clone();
        let forgotten = tasks.forgotten_for(source.arn());
        let mut changes = vec![MOVE_TASKS.put(&task).map_err(BrokerError::from)?];
        changes.extend(forgotten.iter().map(|id| MOVE_TASKS.delete(id)));
        let ticket = self.kept.change(&changes, Purpose::Store).map_err(BrokerError::from)?;
        tasks.add(Entry::new(task, now));
        Ok((id, ticket))
    }

    fn keep_task(
        &self,
        entry: &mut Entry,
        task: MoveTask,
        purpose: Purpose,
    ) -> Result<Ticket, BrokerError> {
        let ticket = self.kept.change(&[MOVE_TASKS.put(&task)?], purpose)?;
        entry.task = task;
        Ok(ticket)
    }

    /// Deletes the documents of tasks that ended and whose source is gone, and of those that newer
    /// tasks of their source have replaced.
    pub(crate) fn forget_ended_tasks(&self) -> Result<(), BrokerError> {
        let mut tasks = self.lock();
        tasks.forget_ended(|task| {
            self.catalog.queue_by_arn(&task.source).is_some_and(|source| task.is_of(&source))
        });
        let kept = self.kept.scan(MOVE_TASKS.name(), "", None, usize::MAX);
        let gone = kept.iter().filter(|(id, _)| !tasks.has(id));
        let deleted: Vec<_> = gone.map(|(id, _)| MOVE_TASKS.delete(id)).collect();
        for deleted in deleted.chunks(FORGOTTEN_AT_A_TIME) {
            self.kept.change(deleted, Purpose::Reclaim)?;
        }
        Ok(())
    }
}
