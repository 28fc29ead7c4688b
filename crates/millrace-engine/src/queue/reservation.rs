//! The latest receive of a message as a reservation, as in IronMQ: while it lasts, nobody but its
//! holder may delete, renew or release the message, and afterwards the holder may not either. Of
//! the handles of SQS, those of standard queues are never out of date.

use millrace_core::{QueueId, Timestamp};
use thiserror::Error;

use super::slab::MessageState;
use super::{DeletedRecord, Queue, ReceivedRecord};
use crate::record::{DecodeError, Input, Records, SlotSeq, Slots};
use crate::replay::Replay;

pub(crate) const RELEASED: u8 = 19;

/// The party that wants to act upon a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claimant {
    /// The holder of the reservation that is the receive of that count.
    Holder(u32),
    /// Names no reservation, and may act if there is none.
    NoHolder,
    /// Stands for the holder, if there is one: clients of IronMQ 1 name no reservations.
    Anybody,
}

/// A message, and the party that wants to act upon it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    pub at: SlotSeq,
    pub by: Claimant,
}

/// Reasons for which a claim is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ClaimError {
    #[error("the message is not in the queue")]
    NotFound,
    /// The claimant does not hold it.
    #[error("the message is reserved")]
    Reserved,
    /// By its time, its release or a renewal.
    #[error("the reservation has ended")]
    Ended,
}

impl Queue {
    /// Deletes all messages, or none if one of the claims is refused. Returns how many there were:
    /// one that is gone already is fine. Call [`Queue::tick`] first.
    pub fn delete_claimed(
        &mut self,
        now: Timestamp,
        claims: &[Claim],
        records: &mut Records<'_>,
    ) -> Result<usize, ClaimError> {
        for claim in claims.iter().filter(|claim| self.contains(claim.at)) {
            self.check_claim(now, claim)?;
        }
        let mut deleted = Vec::with_capacity(claims.len());
        for Claim { at, .. } in claims {
            if self.contains(*at) {
                self.remove(at.slot);
                deleted.push(*at);
            }
        }
        if !deleted.is_empty() {
            DeletedRecord { queue: self.id, slots: &deleted[..] }.write(records);
        }
        Ok(deleted.len())
    }

    /// Renews a reservation for `timeout_s` from now, counted as a receive: the one that it
    /// replaces has ended. Returns the receive count that the new one goes by.
    pub fn touch(
        &mut self,
        now: Timestamp,
        claim: &Claim,
        timeout_s: u32,
        records: &mut Records<'_>,
    ) -> Result<u32, ClaimError> {
        self.check_held(now, claim)?;
        let slot = claim.at.slot;
        let deadline = now.plus_seconds(u64::from(timeout_s));
        self.count_receive(slot, now);
        self.change(slot, MessageState::InFlight, deadline.0);
        let slots = std::iter::once(claim.at);
        ReceivedRecord { queue: self.id, at: now, deadline, slots }.write(records);
        Ok(self.slab.at(slot).receive_count())
    }

    /// Ends a reservation. The message can be received after `delay_s`; without a delay it is the
    /// next of its group.
    pub fn release(
        &mut self,
        now: Timestamp,
        claim: &Claim,
        delay_s: u32,
        records: &mut Records<'_>,
    ) -> Result<(), ClaimError> {
        self.check_held(now, claim)?;
        let until = now.plus_seconds(u64::from(delay_s));
        self.end_reservation(claim.at.slot, now, until);
        let slots = std::iter::once(claim.at);
        ReleasedRecord { queue: self.id, at: now, until, slots }.write(records);
        Ok(())
    }

    fn end_reservation(&mut self, slot: u32, now: Timestamp, until: Timestamp) {
        match until > now {
            true => self.change(slot, MessageState::Delayed, until.0),
            false => self.change_to_ready_first(slot),
        }
    }

    fn check_claim(&self, now: Timestamp, claim: &Claim) -> Result<(), ClaimError> {
        let Claim { at, by } = claim;
        let entry = self.slab.find(at.slot, at.seq).ok_or(ClaimError::NotFound)?;
        let is_reserved = entry.state() == MessageState::InFlight && entry.deadline_at() > now.0;
        match by {
            Claimant::Holder(count) if is_reserved && entry.receive_count() == *count => Ok(()),
            Claimant::Holder(_) => Err(ClaimError::Ended),
            Claimant::NoHolder if is_reserved => Err(ClaimError::Reserved),
            Claimant::NoHolder | Claimant::Anybody => Ok(()),
        }
    }

    /// As [`Queue::check_claim`], and there is a reservation.
    fn check_held(&self, now: Timestamp, claim: &Claim) -> Result<(), ClaimError> {
        self.check_claim(now, claim)?;
        let entry = self.slab.at(claim.at.slot);
        match entry.state() == MessageState::InFlight && entry.deadline_at() > now.0 {
            true => Ok(()),
            false => Err(ClaimError::Ended),
        }
    }
}

/// Fields of `Released`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleasedRecord<S> {
    pub queue: QueueId,
    pub at: Timestamp,
    /// Not later than `at` if the messages can be received at once.
    pub until: Timestamp,
    pub slots: S,
}

impl<S: ExactSizeIterator<Item = SlotSeq>> ReleasedRecord<S> {
    pub(crate) fn write(self, records: &mut Records<'_>) {
        records.add(RELEASED, 24 + 4 + 12 * self.slots.len(), &[], |out| {
            out.queue(self.queue);
            out.time(self.at);
            out.time(self.until);
            out.slots(self.slots);
        });
    }
}

impl<'a> ReleasedRecord<Slots<'a>> {
    pub(crate) fn read(from: &mut Input<'a>) -> Result<Self, DecodeError> {
        let (queue, at, until) = (from.queue()?, from.time()?, from.time()?);
        Ok(ReleasedRecord { queue, at, until, slots: from.slots()? })
    }

    pub(crate) fn replay(&self, replay: &mut Replay) {
        replay.change(self.queue, self.at, |queue| {
            for message in self.slots.iter() {
                if queue.contains(message) {
                    queue.end_reservation(message.slot, self.at, self.until);
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::message;
    use super::super::{DeadLetters, Receive};
    use super::*;
    use crate::definition::{Kind, Settings};

    const START: Timestamp = Timestamp(1_000_000);
    const RECEIVE: Receive =
        Receive { max: 1, visibility_timeout_s: Some(60), attempt: None, in_flight_limit: 10 };

    fn after(seconds: u64) -> Timestamp {
        START.plus_seconds(seconds)
    }

    fn queue(kind: Kind, messages: u128) -> Queue {
        let mut queue = Queue::new(QueueId(1), "arn", Settings { kind, ..Settings::default() }, 1);
        for number in 0..messages {
            queue.send_alone(START, &message(number, Some("g")));
        }
        queue
    }

    fn receive(queue: &mut Queue, now: Timestamp) -> Option<(SlotSeq, u32)> {
        queue.tick(now, 10);
        let received = queue.receive_alone(now, &RECEIVE, DeadLetters::Deliver).unwrap();
        received.deliveries.first().map(|it| (it.at, it.receive_count))
    }

    fn held(at: SlotSeq, count: u32) -> Claim {
        Claim { at, by: Claimant::Holder(count) }
    }

    #[test]
    fn only_the_holder_deletes_what_is_reserved_and_anybody_what_is_not() {
        for kind in [Kind::Standard, Kind::Fifo] {
            let (mut queue, none) = (queue(kind, 3), &mut Records::default());
            let (at, count) = receive(&mut queue, START).unwrap();
            let by = |by| Claim { at, by };

            let mut delete = |claim, now| queue.delete_claimed(now, &[claim], none);
            assert_eq!(delete(by(Claimant::NoHolder), START), Err(ClaimError::Reserved));
            assert_eq!(delete(held(at, count + 1), START), Err(ClaimError::Ended));
            // Its time is over, though no tick has come yet and nobody else has it.
            assert_eq!(delete(held(at, count), after(60)), Err(ClaimError::Ended));
            assert_eq!(delete(held(at, count), after(59)), Ok(1));
            assert_eq!(delete(by(Claimant::Anybody), START), Ok(0));

            let (at, _) = receive(&mut queue, START).unwrap();
            let anybody = Claim { at, by: Claimant::Anybody };
            assert_eq!(queue.delete_claimed(START, &[anybody], none), Ok(1));
            let (at, _) = receive(&mut queue, START).unwrap();
            queue.tick(after(60), 10);
            let nobody = Claim { at, by: Claimant::NoHolder };
            // Twice in one batch is once.
            assert_eq!(queue.delete_claimed(after(60), &[nobody, nobody], none), Ok(1));
            queue.assert_consistent();
        }
    }

    #[test]
    fn a_batch_with_one_refused_claim_deletes_nothing() {
        let (mut queue, records) = (queue(Kind::Standard, 2), &mut Records::default());
        let (at, count) = receive(&mut queue, START).unwrap();
        let (other, _) = receive(&mut queue, START).unwrap();

        let claims = [held(at, count), Claim { at: other, by: Claimant::NoHolder }];

        assert_eq!(queue.delete_claimed(START, &claims, records), Err(ClaimError::Reserved));
        assert_eq!(queue.counts().total(), 2);
        assert!(records.is_empty());
    }

    #[test]
    fn a_renewal_is_another_reservation_and_a_released_message_is_the_next() {
        for kind in [Kind::Standard, Kind::Fifo] {
            let (mut queue, none) = (queue(kind, 2), &mut Records::default());
            let (at, count) = receive(&mut queue, START).unwrap();

            let renewed = queue.touch(after(50), &held(at, count), 60, none).unwrap();
            assert_eq!(renewed, count + 1);
            assert_eq!(queue.touch(after(51), &held(at, count), 60, none), Err(ClaimError::Ended));
            queue.tick(after(100), 10);
            assert_eq!(queue.counts().in_flight, 1, "the renewal goes on");

            assert_eq!(queue.release(after(100), &held(at, renewed), 0, none), Ok(()));
            assert_eq!(
                queue.release(after(100), &held(at, renewed), 0, none),
                Err(ClaimError::Ended)
            );
            assert_eq!(receive(&mut queue, after(100)).map(|(at, _)| at), Some(at));
            queue.assert_consistent();
        }
    }

    #[test]
    fn a_message_that_is_released_with_a_delay_comes_after_it() {
        let (mut queue, none) = (queue(Kind::Standard, 1), &mut Records::default());
        let (at, count) = receive(&mut queue, START).unwrap();

        queue.release(START, &held(at, count), 90, none).unwrap();

        assert_eq!(queue.counts().delayed, 1);
        assert_eq!(receive(&mut queue, after(89)), None);
        let nobody = Claim { at, by: Claimant::NoHolder };
        assert_eq!(queue.touch(START, &nobody, 60, none), Err(ClaimError::Ended));
        assert_eq!(receive(&mut queue, after(90)), Some((at, count + 1)));
    }
}
