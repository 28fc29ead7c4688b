//! A step of a move task: one message.

use std::sync::Arc;

use millrace_core::{MessageId, Timestamp};
use millrace_engine::record::{Records, SlotSeq};
use millrace_engine::{Content, Delivery, Receive, Send, Sent};
use millrace_journal::{Position, Purpose, ReadError, Record};

use super::{MOVE_TASKS, MoveTask, MoveTaskFailure, MoveTaskStatus, MoveTasks, is_that};
use crate::append::journal_records;
use crate::deliver::{decode, unreadable};
use crate::due::PASSING_BUDGET;
use crate::error::BrokerError;
use crate::kept::KeptError;
use crate::queue::SharedQueue;
use crate::receive::lock_both;
use crate::shard::Shard;
use crate::tasks::{Appended, Step, TaskKind};

/// How long a message stays hidden that is damaged.
const PASSED_OVER_S: u32 = 30;

/// What became of a task's next message.
enum Move {
    /// It was moved, or passed over.
    Made(Option<Appended>),
    /// There is none.
    Done,
    /// Nobody knows where it belongs.
    NoSource,
}

impl TaskKind for MoveTasks {
    fn collection(&self) -> &'static str {
        MOVE_TASKS.name()
    }

    /// Moves one message.
    fn step(&self, _: &Shard, id: &str, now: Timestamp) -> Result<Step, KeptError> {
        let Some(task) = self.with_running(id, |entry| entry.task.clone()) else {
            return Ok(Step::Ended);
        };
        match self.move_one(&task) {
            Ok(Move::Made(appended)) => {
                let Some(rate) = task.max_per_second else { return Ok(Step::Made(appended)) };
                let due = self.with_running(id, |entry| {
                    entry.earn(rate);
                    entry.due_at()
                });
                Ok(due.map_or(Step::Made(appended), |due| Step::Next(due, appended)))
            }
            Ok(Move::Done) => Ok(self.end_task(id, MoveTaskStatus::Completed, None)?),
            Ok(Move::NoSource) => Ok(self.fail_task(id, MoveTaskFailure::NoSource)?),
            Err(BrokerError::QueueDoesNotExist) => {
                Ok(self.fail_task(id, MoveTaskFailure::NoDestination)?)
            }
            Err(error) => {
                // No rate is earned while it waits.
                self.with_running(id, |entry| entry.next_at = now.plus_seconds(1));
                Err(error.into())
            }
        }
    }
}

impl MoveTasks {
    fn fail_task(&self, id: &str, failure: MoveTaskFailure) -> Result<Step, BrokerError> {
        self.end_task(id, MoveTaskStatus::Failed, Some(failure))
    }

    fn end_task(
        &self,
        id: &str,
        status: MoveTaskStatus,
        failure: Option<MoveTaskFailure>,
    ) -> Result<Step, BrokerError> {
        let ended = self.with_running(id, |entry| {
            let ended = MoveTask { status, failure, ..entry.task.clone() };
            self.keep_task(entry, ended, Purpose::Reclaim)
        });
        ended.transpose()?;
        Ok(Step::Ended)
    }

    /// Moves the source's next message. It is read while the tasks are not locked: others want to
    /// list, start and cancel.
    fn move_one(&self, task: &MoveTask) -> Result<Move, BrokerError> {
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
            return Ok(Move::Done);
        };
        let destination = task.destination.as_deref().or(message.source.as_deref());
        let Some(destination) = destination else { return Ok(Move::NoSource) };
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
        let appended = match stored.and_then(|record| decode(position, record)) {
            Ok((_, content)) => {
                self.move_message(task, &source, &destination, &message, &content)?
            }
            // The disk may read it the next time.
            Err(error @ ReadError::Io { .. }) => return Err(unreadable(&error)),
            Err(error) => {
                tracing::error!(queue = %source.key(), %error, "message not moved");
                self.pass_over(&source, message.at)?;
                None
            }
        };
        Ok(Move::Made(appended))
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
    ) -> Result<Option<Appended>, BrokerError> {
        let counted = MoveTask { moved: task.moved + 1, ..task.clone() };
        let counting = [MOVE_TASKS.put(&counted)?];
        let bytes = message.record_len as usize + counting[0].record_bytes() + 1024;
        let reservation = self.common.log.reserve(bytes, Purpose::Store)?;
        let id = MessageId::from_random(self.common.random_bits());

        let mut tasks = self.lock();
        let Some(entry) = tasks.running(&task.id) else { return Ok(None) };
        let (mut from, to) = lock_both(source, Some(destination));
        let Some(mut to) = to.filter(|to| !to.is_deleted) else {
            return Err(BrokerError::QueueDoesNotExist);
        };
        if from.queue.first_ready().is_none_or(|first| first.at != message.at) {
            return Ok(None); // Received or expired meanwhile; the next step sees what is next.
        }
        let now = self.common.now();
        let pending = self.kept.begin(&counting)?;
        let mut records = Records::default();
        let group = message.group.as_deref();
        let send = Send { id, content: content.stored(), group, dedup: None, delay_s: None };
        let Sent::Stored { at, deadline, .. } = to.queue.send(now, &send, &mut records) else {
            return Ok(None);
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
        let bytes = records.iter().map(Record::encoded_bytes).sum();
        entry.task = counted;
        (from.latest, to.latest) = (Some(ticket), Some(ticket));
        to.moved_in = Some(ticket);
        to.sends.add(content.size_bytes());
        to.wake(u64::from(deadline.0 == 0));
        destination.arm(&mut to);
        Ok(Some(Appended { ticket, bytes }))
    }

    fn queue_by_arn(&self, arn: &str) -> Result<Arc<SharedQueue>, BrokerError> {
        self.catalog.queue_by_arn(arn).ok_or(BrokerError::QueueDoesNotExist)
    }
}
