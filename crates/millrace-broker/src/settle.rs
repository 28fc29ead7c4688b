//! What the holder of a receipt handle may do: delete the message or change when it is seen.

use millrace_engine::record::Records;
use millrace_engine::{Expired, Handle, VisibilityError};
use millrace_journal::{Purpose, Ticket};
use smallvec::SmallVec;

use crate::append::journal_records;
use crate::broker::Broker;
use crate::due::PASSING_BUDGET;
use crate::error::BrokerError;
use crate::figures::Counters;
use crate::queue::SharedQueue;

/// What became of each entry of a batch.
type Outcomes = SmallVec<[Result<(), BrokerError>; 10]>;

impl Broker {
    /// The handle that this text is, if this server sealed it. It may be of any queue.
    pub fn open_receipt_handle(&self, text: &str) -> Option<Handle> {
        self.receipts.open(text)
    }

    /// Deletes messages; one that is gone already counts as deleted. Resolves after the commit.
    /// Fails per entry with [`BrokerError::HandleExpired`].
    pub async fn delete(
        &self,
        queue: &SharedQueue,
        handles: &[Handle],
    ) -> Result<Outcomes, BrokerError> {
        let (outcomes, ticket) = self.begin_delete(queue, handles)?;
        self.committed(ticket).await?;
        Ok(outcomes)
    }

    /// Changes memory and appends; what it returns may be told once the ticket is committed.
    pub fn begin_delete(
        &self,
        queue: &SharedQueue,
        handles: &[Handle],
    ) -> Result<(Outcomes, Option<Ticket>), BrokerError> {
        let reservation = self.log.reserve(64 + 16 * handles.len(), Purpose::Reclaim)?;
        let mut records = Records::default();
        let mut state = queue.lock();
        if state.is_deleted {
            return Err(BrokerError::QueueDoesNotExist);
        }
        self.tick(queue, &mut state, self.now(), PASSING_BUDGET)?;
        let deleted = state.queue.delete(handles, &mut records);
        let count = deleted.iter().filter(|outcome| matches!(outcome, Ok(true))).count();
        let outcome = |deleted: Result<bool, Expired>| match deleted {
            Ok(_) => Ok(()),
            Err(Expired) => Err(BrokerError::HandleExpired),
        };
        let outcomes: Outcomes = deleted.into_iter().map(outcome).collect();
        let succeeded = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        Counters::add(&queue.counters.messages_deleted, succeeded);
        if records.is_empty() {
            // Repeats of deletes whose commit may still be under way.
            return Ok((outcomes, state.latest));
        }
        let records = journal_records(&records);
        let ticket = self.log.append_before_commit_here(reservation, &records, &mut Vec::new());
        state.latest = Some(ticket);
        // FIFO: the rest of a group may have been waiting for this.
        state.wake(count as u64);
        drop(state);
        self.maintenance.want();
        Ok((outcomes, Some(ticket)))
    }

    /// Sets for each handle when its message becomes visible, in seconds from now. Resolves after
    /// the commit. Fails per entry with [`BrokerError::NotAvailable`] or
    /// [`BrokerError::BeyondVisibilityLimit`].
    pub async fn change_visibility(
        &self,
        queue: &SharedQueue,
        changes: &[(Handle, u32)],
    ) -> Result<Outcomes, BrokerError> {
        let (outcomes, ticket) = self.begin_change_visibility(queue, changes)?;
        self.committed(ticket).await?;
        Ok(outcomes)
    }

    /// Changes memory and appends; what it returns may be told once the ticket is committed.
    pub fn begin_change_visibility(
        &self,
        queue: &SharedQueue,
        changes: &[(Handle, u32)],
    ) -> Result<(Outcomes, Option<Ticket>), BrokerError> {
        let reservation = self.log.reserve(64 + 80 * changes.len(), Purpose::Lease)?;
        let mut outcomes = Outcomes::new();
        let mut records = Records::default();
        let mut state = queue.lock();
        if state.is_deleted {
            return Err(BrokerError::QueueDoesNotExist);
        }
        let now = self.now();
        self.tick(queue, &mut state, now, PASSING_BUDGET)?;
        for (handle, timeout_s) in changes {
            let outcome = state.queue.change_visibility(now, handle, *timeout_s, &mut records);
            outcomes.push(outcome.map_err(|error| match error {
                VisibilityError::NotAvailable => BrokerError::NotAvailable,
                VisibilityError::BeyondLimit => BrokerError::BeyondVisibilityLimit,
            }));
        }
        if records.is_empty() {
            return Ok((outcomes, state.latest));
        }
        let records = journal_records(&records);
        let ticket = self.log.append_before_commit_here(reservation, &records, &mut Vec::new());
        state.latest = Some(ticket);
        state.wake(changes.len() as u64);
        self.arm(queue, &mut state);
        Ok((outcomes, Some(ticket)))
    }
}
