//! What the holder of a receipt handle may do: delete the message or change when it is seen.

use millrace_engine::record::{Records, SlotSeq};
use millrace_engine::{Expired, Handle, VisibilityError};
use millrace_journal::{Purpose, Ticket};
use smallvec::SmallVec;

use crate::append::journal_records;
use crate::due::PASSING_BUDGET;
use crate::error::BrokerError;
use crate::figures::Counters;
use crate::queue::SharedQueue;

/// What became of each entry of a batch.
type Outcomes = SmallVec<[Result<(), BrokerError>; 10]>;

impl SharedQueue {
    /// Deletes messages; one that is gone already counts as deleted. Resolves after the commit.
    /// Fails per entry with [`BrokerError::HandleExpired`].
    pub async fn delete(&self, handles: &[Handle]) -> Result<Outcomes, BrokerError> {
        let (outcomes, ticket) = self.begin_delete(handles)?;
        self.committed(ticket).await?;
        Ok(outcomes)
    }

    /// Changes memory and appends; what it returns may be told once the ticket is committed.
    pub fn begin_delete(
        &self,
        handles: &[Handle],
    ) -> Result<(Outcomes, Option<Ticket>), BrokerError> {
        let reservation = self.common.log.reserve(64 + 16 * handles.len(), Purpose::Reclaim)?;
        let mut records = Records::default();
        let mut state = self.lock();
        if state.is_deleted {
            return Err(BrokerError::QueueDoesNotExist);
        }
        self.tick(&mut state, self.common.now(), PASSING_BUDGET)?;
        let deleted = state.queue.delete(handles, &mut records);
        let count = deleted.iter().filter(|outcome| matches!(outcome, Ok(true))).count();
        let outcome = |deleted: Result<bool, Expired>| match deleted {
            Ok(_) => Ok(()),
            Err(Expired) => Err(BrokerError::HandleExpired),
        };
        let outcomes: Outcomes = deleted.into_iter().map(outcome).collect();
        let succeeded = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        Counters::add(&self.counters.messages_deleted, succeeded);
        if records.is_empty() {
            // Repeats of deletes whose commit may still be under way.
            return Ok((outcomes, state.latest));
        }
        let records = journal_records(&records);
        let ticket =
            self.common.log.append_before_commit_here(reservation, &records, &mut Vec::new());
        state.latest = Some(ticket);
        // FIFO: the rest of a group may have been waiting for this.
        state.wake(count as u64);
        drop(state);
        self.common.want_maintenance();
        Ok((outcomes, Some(ticket)))
    }

    /// Sets for each handle when its message becomes visible, in seconds from now. Resolves after
    /// the commit. Fails per entry with [`BrokerError::NotAvailable`] or
    /// [`BrokerError::BeyondVisibilityLimit`].
    pub async fn change_visibility(
        &self,
        changes: &[(Handle, u32)],
    ) -> Result<Outcomes, BrokerError> {
        let (outcomes, ticket) = self.begin_change_visibility(changes)?;
        self.committed(ticket).await?;
        Ok(outcomes)
    }

    /// Changes memory and appends; what it returns may be told once the ticket is committed.
    pub fn begin_change_visibility(
        &self,
        changes: &[(Handle, u32)],
    ) -> Result<(Outcomes, Option<Ticket>), BrokerError> {
        let reservation = self.common.log.reserve(64 + 80 * changes.len(), Purpose::Lease)?;
        let mut outcomes = Outcomes::new();
        let mut records = Records::default();
        let mut state = self.lock();
        if state.is_deleted {
            return Err(BrokerError::QueueDoesNotExist);
        }
        let now = self.common.now();
        self.tick(&mut state, now, PASSING_BUDGET)?;
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
        let ticket =
            self.common.log.append_before_commit_here(reservation, &records, &mut Vec::new());
        state.latest = Some(ticket);
        state.wake(changes.len() as u64);
        self.arm(&mut state);
        Ok((outcomes, Some(ticket)))
    }

    /// Gives messages back whose answer was not sent after all, if they are still in flight.
    pub(crate) fn give_back_received(&self, handles: &[Handle]) {
        let delivery = |handle: &Handle| {
            (SlotSeq { slot: handle.slot, seq: handle.seq }, handle.receive_count)
        };
        self.give_back(&handles.iter().map(delivery).collect::<Vec<_>>());
    }

    /// Gives deliveries back that did not reach their client. If the journal takes no changes they
    /// come back when their visibility timeout ends: memory never runs ahead of what a restart
    /// would show.
    pub(crate) fn give_back(&self, deliveries: &[(SlotSeq, u32)]) {
        if deliveries.is_empty() {
            return;
        }
        let reservation =
            match self.common.log.reserve(64 + 12 * deliveries.len(), Purpose::Reclaim) {
                Ok(reservation) => reservation,
                Err(error) => {
                    tracing::warn!(queue = %self.key(), %error, "messages could not be given back");
                    return;
                }
            };
        let mut state = self.lock();
        let mut records = Records::default();
        let returned = state.queue.give_back(self.common.now(), deliveries, &mut records);
        if returned.is_empty() {
            return;
        }
        let records = journal_records(&records);
        state.latest = Some(self.common.log.append(reservation, &records, &mut Vec::new()));
        state.wake(returned.len() as u64);
    }
}
