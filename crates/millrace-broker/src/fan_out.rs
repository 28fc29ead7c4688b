//! Accepting messages for several queues, and changes of kept documents beside them, in one atomic
//! append: after a crash all of it is there or nothing.

use std::sync::MutexGuard;

use millrace_core::QueueId;
use millrace_engine::record::Records;
use millrace_journal::{Position, Purpose, Record};
use smallvec::SmallVec;

use crate::append::journal_records;
use crate::error::BrokerError;
use crate::kept::{KeptChange, KeptError};
use crate::message::{Accepted, Outgoing};
use crate::queue::{SharedQueue, State};
use crate::send::{Batch, batch_bytes};
use crate::shard::Shard;
use crate::tasks::Appended;

/// Messages for one of the queues, which are of one shard. Each queue occurs once.
#[derive(Clone, Copy)]
pub struct SendTo<'a> {
    pub queue: &'a SharedQueue,
    pub messages: &'a [Outgoing<'a>],
}

/// The accepted messages of each queue, in the order of the queues.
pub type AcceptedByQueue = Vec<SmallVec<[Accepted; 10]>>;

impl Shard {
    /// Accepts all messages for all queues and makes all changes, or none: if one of the queues is
    /// deleted, [`BrokerError::QueueDoesNotExist`]; if together they are larger than what may wait
    /// for a commit, [`millrace_journal::Unavailable::TooLarge`]. What is returned may be told
    /// once the ticket is committed. A client's request waits for that with [`Shard::committed`];
    /// a step of a task does not wait.
    pub fn begin_fan_out(
        &self,
        sends: &[SendTo<'_>],
        changes: &[KeptChange<'_>],
    ) -> Result<(AcceptedByQueue, Option<Appended>), KeptError> {
        let message_bytes: usize = sends.iter().map(|send| batch_bytes(send.messages)).sum();
        let kept_bytes: usize = changes.iter().map(KeptChange::record_bytes).sum();
        let reservation = self
            .log()
            .reserve(message_bytes + kept_bytes, Purpose::Store)
            .map_err(BrokerError::from)?;
        let is_here = |send: &SendTo<'_>| send.queue.id().shard() == self.id();
        assert!(sends.iter().all(is_here), "a queue of another shard in one append");
        let mut states = lock_all(sends);
        if states.iter().any(|state| state.is_deleted) {
            return Err(BrokerError::QueueDoesNotExist.into());
        }
        let pending = self.kept().begin(changes)?;
        let mut batches: Vec<Batch<'_>> = Vec::with_capacity(sends.len());
        for (send, state) in sends.iter().zip(&mut states) {
            let mut batch = Batch::new(send.messages);
            send.queue.accept(state, send.messages, &mut batch);
            batches.push(batch);
        }
        let mut kept = Records::default();
        pending.write(&mut kept);
        let all = batches.iter().map(|batch| &batch.records).chain([&kept]);
        let records: Vec<Record<'_>> = all.flat_map(journal_records).collect();
        if records.is_empty() {
            // Repeats of sends whose commit may still be under way.
            let latest = states.iter().filter_map(|state| state.latest).max();
            return Ok((accepted(batches), latest.map(|ticket| Appended { ticket, bytes: 0 })));
        }
        let mut positions: Vec<Position> = Vec::with_capacity(records.len());
        let ticket = self.log().append_before_commit_here(reservation, &records, &mut positions);
        let mut left = positions.as_slice();
        for ((send, state), batch) in sends.iter().zip(&mut states).zip(&batches) {
            let (of_queue, others) = left.split_at(batch.stored.len());
            left = others;
            batch.appended(state, send.messages, of_queue, ticket);
            state.wake(batch.ready);
            send.queue.arm(state);
        }
        pending.appended(left);
        let bytes = message_bytes + kept_bytes;
        Ok((accepted(batches), Some(Appended { ticket, bytes })))
    }
}

fn accepted(batches: Vec<Batch<'_>>) -> AcceptedByQueue {
    batches.into_iter().map(|batch| batch.accepted).collect()
}

/// Locks the queues in the order of their ids, and returns them in the order of `sends`.
fn lock_all<'a>(sends: &[SendTo<'a>]) -> Vec<MutexGuard<'a, State>> {
    let mut order: Vec<(QueueId, usize)> =
        sends.iter().enumerate().map(|(number, send)| (send.queue.id(), number)).collect();
    order.sort_unstable();
    let mut locked: Vec<(usize, MutexGuard<'a, State>)> = Vec::with_capacity(order.len());
    for pair in order.windows(2) {
        assert!(pair[0].0 != pair[1].0, "a queue occurs twice in one fan-out");
    }
    for (_, number) in order {
        locked.push((number, sends[number].queue.lock()));
    }
    locked.sort_unstable_by_key(|(number, _)| *number);
    locked.into_iter().map(|(_, state)| state).collect()
}
