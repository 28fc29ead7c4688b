//! Actions of the holder of a reservation, as in IronMQ: delete the message, keep it longer, give
//! it up. See [`millrace_engine::Claim`].

use millrace_core::Timestamp;
use millrace_engine::record::Records;
use millrace_engine::{Claim, ClaimError, Handle, Queue};
use millrace_journal::Purpose;

use crate::append::journal_records;
use crate::due::PASSING_BUDGET;
use crate::error::BrokerError;
use crate::figures::Counters;
use crate::queue::SharedQueue;

impl SharedQueue {
    /// Deletes all messages or, if a claim is refused, none; returns how many there were. Resolves
    /// after the commit.
    pub async fn delete_claimed(
        &self,
        claims: &[Claim],
    ) -> Result<Result<usize, ClaimError>, BrokerError> {
        let deleted = self.claim(claims.len(), Purpose::Reclaim, |queue, now, records| {
            queue.delete_claimed(now, claims, records)
        });
        let deleted = deleted.await?;
        if let Ok(count) = deleted {
            Counters::add(&self.counters.messages_deleted, count);
            self.common.want_maintenance();
        }
        Ok(deleted)
    }

    /// Renews a reservation for `timeout_s` from now; returns the receipt handle of the new one.
    /// Resolves after the commit.
    pub async fn touch(
        &self,
        claim: &Claim,
        timeout_s: u32,
    ) -> Result<Result<String, ClaimError>, BrokerError> {
        let renewed = self.claim(1, Purpose::Lease, |queue, now, records| {
            queue.touch(now, claim, timeout_s, records)
        });
        let seal = |receive_count| {
            let (seq, slot) = (claim.at.seq, claim.at.slot);
            self.common.receipts.seal(&Handle { queue: self.id(), seq, slot, receive_count })
        };
        Ok(renewed.await?.map(seal))
    }

    /// Ends a reservation: the message can be received after `delay_s`. Resolves after the commit.
    pub async fn release(
        &self,
        claim: &Claim,
        delay_s: u32,
    ) -> Result<Result<(), ClaimError>, BrokerError> {
        let released = self.claim(1, Purpose::Lease, |queue, now, records| {
            queue.release(now, claim, delay_s, records)
        });
        released.await
    }

    /// Changes memory and appends, then waits for the commit. A refused claim may have been made
    /// void by a change that is not committed, so its answer waits for that, too.
    async fn claim<'r, T>(
        &self,
        messages: usize,
        purpose: Purpose,
        act: impl FnOnce(&mut Queue, Timestamp, &mut Records<'r>) -> Result<T, ClaimError>,
    ) -> Result<Result<T, ClaimError>, BrokerError> {
        let (outcome, ticket) = {
            let reservation = self.common.log.reserve(128 + 16 * messages, purpose)?;
            let mut records = Records::default();
            let mut state = self.lock();
            if state.is_deleted {
                return Err(BrokerError::QueueDoesNotExist);
            }
            let now = self.common.now();
            self.tick(&mut state, now, PASSING_BUDGET)?;
            let outcome = act(&mut state.queue, now, &mut records);
            if !records.is_empty() {
                let records = journal_records(&records);
                let log = &self.common.log;
                let ticket = log.append_before_commit_here(reservation, &records, &mut Vec::new());
                state.latest = Some(ticket);
                // Of a FIFO queue, the rest of a group may have been waiting for this.
                state.wake(messages as u64);
                self.arm(&mut state);
            }
            (outcome, state.latest)
        };
        self.committed(ticket).await?;
        Ok(outcome)
    }
}
