//! Running tasks: moving what is due.

use std::sync::Arc;
use std::time::Duration;

use millrace_core::{MessageId, Timestamp};
use millrace_engine::record::{Records, SlotSeq};
use millrace_engine::{Content, Delivery, MOVE_TASKS, Receive, Send, Sent};
use millrace_journal::{Position, Purpose, ReadError, Record};

use super::tasks::Entry;
use super::{MoveTask, MoveTaskFailure, MoveTaskStatus, MoveTasks, is_that, json};
use crate::append::journal_records;
use crate::deliver::{decode, unreadable};
use crate::due::PASSING_BUDGET;
use crate::error::BrokerError;
use crate::kept::KeptChange;
use crate::queue::SharedQueue;
use crate::receive::lock_both;

/// Messages that a task without a rate moves before others get their turn.
const MOVES_PER_TURN: u64 = 100;
/// Bytes that tasks move before the commit of as many before them is awaited: clients' records wait
/// behind them, and find no room once all that may wait does.
const MOVED_BYTES: usize = 2 << 20;
/// Until a commit under way is looked at again.
const COMMIT_PAUSE: Duration = Duration::from_millis(5);
/// How long a message stays hidden that is damaged.
const PASSED_OVER_S: u32 = 30;

/// What became of a task's next message.
enum Turn {
    /// It was moved, or passed over.
    Moved,
    /// There is none.
    Done,
    /// Nobody knows where it belongs.
    NoSource,
}

impl MoveTasks {
    /// Lets each task that is due move some messages. Returns how soon the next is due.
    pub(crate) fn run(&self) -> Option<Duration> {
        if self.waits_for_moves() {
            return Some(COMMIT_PAUSE);
        }
        let now = self.common.now();
        let due: Vec<String> = {
            let tasks = self.lock();
            let due = tasks.all_running().filter(|entry| entry.due_at() <= now);
            due.map(|entry| entry.task.id.clone()).collect()
        };
        for id in due {
            self.run_one(&id, now);
        }
        let tasks = self.lock();
        let next = tasks.all_running().map(Entry::due_at).min();
        next.map(|next| match tasks.awaited {
            Some(_) => COMMIT_PAUSE,
            None => Duration::from_millis(next.millis_since(now)),
        })
    }

    /// Whether so much was moved that its commit is to come first.
    fn waits_for_moves(&self) -> bool {
        let mut tasks = self.lock();
        tasks.awaited = tasks.awaited.filter(|moves| self.common.log.outcome(*moves).is_none());
        tasks.awaited.is_some()
    }

    /// Moves what is due by now: all that a rate has earned since the last turn, up to a turn's
    /// worth.
    fn run_one(&self, id: &str, now: Timestamp) {
        for _ in 0..MOVES_PER_TURN {
            if self.waits_for_moves() {
                return;
            }
            let Some(task) = self.with_running(id, |entry| entry.task.clone()) else {
                return; // Cancelled meanwhile.
            };
            match self.move_one(&task) {
                Ok(Turn::Moved) => {}
                Ok(Turn::Done) => return self.end_task(id, MoveTaskStatus::Completed, None),
                Ok(Turn::NoSource) => return self.fail_task(id, MoveTaskFailure::NoSource),
                Err(BrokerError::QueueDoesNotExist) => {
                    return self.fail_task(id, MoveTaskFailure::NoDestination);
                }
                Err(error) => {
                    tracing::warn!(task = id, %error, "move task has to wait");
                    let wait = |entry: &mut Entry| entry.next_at = now.plus_seconds(1);
                    self.with_running(id, wait);
                    return;
                }
            }
            if let Some(rate) = task.max_per_second {
                let is_due = self.with_running(id, |entry| {
                    entry.earn(rate);
                    entry.due_at() <= now
                });
                if is_due != Some(true) {
                    return;
                }
            }
        }
    }

    fn fail_task(&self, id: &str, failure: MoveTaskFailure) {
        self.end_task(id, MoveTaskStatus::Failed, Some(failure));
    }

    fn end_task(&self, id: &str, status: MoveTaskStatus, failure: Option<MoveTaskFailure>) {
        self.with_running(id, |entry| {
            let ended = MoveTask { status, failure, ..entry.task.clone() };
            if let Err(error) = self.keep_task(entry, ended, Purpose::Reclaim) {
                tracing::warn!(task = id, %error, "end of move task was not journaled");
                entry.next_at = self.common.now().plus_seconds(1);
            }
        });
    }

    /// Moves the source's next message. It is read while the tasks are not locked: others want to
    /// list, start and cancel.
    fn move_one(&self, task: &MoveTask) -> Result<Turn, BrokerError> {
        let source = self.queue_by_arn(&task.source)?;
        if !is_that(task.source_id, &source) {
            return Err(BrokerError::QueueDoesNotExist);
        }
        let next = loop {
            let mut state = source.lock();
            let now = self.common.now();
            source.tick(&mut state, now, PASSING_BUDGET)?;
            // What has expired gets no second life. It goes piece by piece: others want the queue
            // too.
            if !state.queue.has_expired(now) {
                break state.queue.first_ready();
            }
        };
        let Some(message) = next.filter(|_| task.moved < task.to_move) else {
            return Ok(Turn::Done);
        };
        let destination = task.destination.as_deref().or(message.source.as_deref());
        let Some(destination) = destination else { return Ok(Turn::NoSource) };
        let destination = self.queue_by_arn(destination)?;
        // A queue that dead-letters to itself: its lock cannot be taken twice. And one batch moves a
        // message, so both are in one journal.
        if destination.id() == source.id()
            || destination.id().shard() != source.id().shard()
            || !is_that(task.destination_id, &destination)
        {
            return Err(BrokerError::QueueDoesNotExist);
        }
        let position = Position(message.position);
        let stored = self.common.log.read(position, message.record_len);
        match stored.and_then(|record| decode(position, record)) {
            Ok((_, content)) => {
                self.move_message(task, &source, &destination, &message, &content)?
            }
            // The disk may read it the next time.
            Err(error @ ReadError::Io { .. }) => return Err(unreadable(&error)),
            Err(error) => {
                tracing::error!(queue = %source.key(), %error, "message not moved");
                self.pass_over(&source, message.at)?;
            }
        }
        Ok(Turn::Moved)
    }

    /// Hides a message that is damaged, as a receive does: others stand behind it.
    fn pass_over(&self, source: &SharedQueue, at: SlotSeq) -> Result<(), BrokerError> {
        let receive = Receive {
            max: 1,
            visibility_timeout_s: Some(PASSED_OVER_S),
            attempt: None,
            in_flight_limit: self.common.options.in_flight_limit,
        };
        let Some((received, _)) = source.try_receive(&receive)? else { return Ok(()) };
        // It was gone, not unreadable, if this is another one.
        let others = received.deliveries.iter().filter(|delivery| delivery.at != at);
        let others = others.map(|delivery| (delivery.at, delivery.receive_count));
        source.give_back(&others.collect::<Vec<_>>());
        Ok(())
    }

    fn move_message(
        &self,
        task: &MoveTask,
        source: &SharedQueue,
        destination: &SharedQueue,
        message: &Delivery,
        content: &Content,
    ) -> Result<(), BrokerError> {
        let counted = MoveTask { moved: task.moved + 1, ..task.clone() };
        let json = json(&counted)?;
        let bytes = message.record_len as usize + json.len() + 1024;
        let reservation = self.common.log.reserve(bytes, Purpose::Store)?;
        let id = MessageId::from_random(self.common.random_bits());

        let mut tasks = self.lock();
        let Some(entry) = tasks.running(&task.id) else { return Ok(()) };
        let (mut from, to) = lock_both(source, Some(destination));
        let Some(mut to) = to.filter(|to| !to.is_deleted) else {
            return Err(BrokerError::QueueDoesNotExist);
        };
        if from.queue.first_ready().is_none_or(|first| first.at != message.at) {
            return Ok(()); // Received or expired meanwhile; the next turn sees what is next.
        }
        let now = self.common.now();
        let counting = [KeptChange::put(MOVE_TASKS, &counted.id, &json)];
        let pending = self.kept.begin(&counting)?;
        let mut records = Records::default();
        let group = message.group.as_deref();
        let send = Send { id, content: content.stored(), group, dedup: None, delay_s: None };
        let Sent::Stored { at, deadline, .. } = to.queue.send(now, &send, &mut records) else {
            return Ok(());
        };
        from.queue.take(message.at, &mut records);
        pending.write(&mut records);
        let records = journal_records(&records);
        let mut positions = Vec::with_capacity(records.len());
        let ticket = self.common.log.append(reservation, &records, &mut positions);
        if let ([sent, _, kept @ ..], [record, ..]) = (&positions[..], &records[..]) {
            to.queue.stored(at, None, sent.0, record.encoded_bytes() as u32);
            pending.appended(kept);
        }
        let moved_bytes = records.iter().map(Record::encoded_bytes).sum::<usize>();
        entry.task = counted.clone();
        tasks.moved_bytes += moved_bytes;
        if tasks.moved_bytes > MOVED_BYTES {
            tasks.moved_bytes = 0;
            tasks.awaited = tasks.latest.replace(ticket);
        }
        (from.latest, to.latest) = (Some(ticket), Some(ticket));
        to.moved_in = Some(ticket);
        to.sends.add(content.size_bytes());
        to.wake(u64::from(deadline.0 == 0));
        destination.arm(&mut to);
        Ok(())
    }

    fn queue_by_arn(&self, arn: &str) -> Result<Arc<SharedQueue>, BrokerError> {
        self.catalog.queue_by_arn(arn).ok_or(BrokerError::QueueDoesNotExist)
    }
}
