//! Requests of whoever holds a message: touch, release, delete.

use std::sync::Arc;

use millrace_broker::{Claim, Claimant, SharedQueue, SlotSeq};
use millrace_core::limits;
use millrace_wire::Response;
use millrace_wire::ironmq::{self, Claimed, Holding, Version};
use millrace_wire::sqs::Text;
use serde_json::json;

use super::ids::place;
use super::own_times::OwnTimes;
use super::push::Budget;
use super::refusal::{Refusal, bounded, delay};
use super::settings::QueueType;
use super::{IronMq, ProjectCall};

/// A message that somebody wants to do something with.
struct Named {
    /// The queue that the message is in: of a multicast queue, a subscriber's hidden one.
    queue: Arc<SharedQueue>,
    subscriber: Option<String>,
    claim: Claim,
}

impl IronMq {
    pub(super) async fn touch(
        &self,
        call: &ProjectCall<'_>,
        name: &str,
        id: &str,
        request: &Holding<'_>,
    ) -> Result<Response, Refusal> {
        let timeout_max = limits::ironmq::MESSAGE_TIMEOUT_MAX_S;
        let timeout = bounded("timeout", request.timeout, 1, timeout_max)?;
        let queue = self.queue(call, name)?;
        let held = self.held(call, &queue, id, request)?;
        let own = match (call.version, timeout) {
            (Version::V1, None) => held.queue.browser().one(held.claim.at)?,
            _ => None,
        };
        let own = own.and_then(|peeked| OwnTimes::of(&peeked.content).timeout_s);
        let of_queue = queue.definition().settings.visibility_timeout_s.max(1);
        let timeout = timeout.or(own).unwrap_or(of_queue);
        let reservation = held.queue.touch(&held.claim, timeout).await??;
        Ok(match call.version {
            Version::V1 => ironmq::text(200, "Touched"),
            Version::V3 => {
                let answer = json!({ "reservation_id": reservation, "msg": "Touched" });
                ironmq::answer(200, answer.to_string())
            }
        })
    }

    pub(super) async fn release(
        &self,
        call: &ProjectCall<'_>,
        name: &str,
        id: &str,
        request: &Holding<'_>,
    ) -> Result<Response, Refusal> {
        let delay = delay(request.delay)?;
        let queue = self.queue(call, name)?;
        let held = self.held(call, &queue, id, request)?;
        held.queue.release(&held.claim, delay.unwrap_or_default()).await??;
        Ok(ironmq::text(200, "Released"))
    }

    pub(super) async fn delete_message(
        &self,
        call: &ProjectCall<'_>,
        name: &str,
        id: &str,
        request: &Holding<'_>,
    ) -> Result<Response, Refusal> {
        let queue = self.queue(call, name)?;
        let text = |text: &'_ Option<Text<'_>>| text.as_deref().unwrap_or_default().to_owned();
        let reservation = text(&request.reservation_id);
        let subscriber = text(&request.subscriber_name);
        match self.delete_one(call, &queue, [id, &reservation, &subscriber]).await? {
            0 => Err(Refusal::no_message()),
            _ => Ok(ironmq::text(200, "Deleted")),
        }
    }

    /// Deletes all that are named, or none. Those that are gone already count as deleted, so that a
    /// request can be repeated.
    pub(super) async fn delete_messages(
        &self,
        call: &ProjectCall<'_>,
        name: &str,
        ids: &[Claimed<'_>],
    ) -> Result<Response, Refusal> {
        if ids.len() as u64 > limits::ironmq::MESSAGES {
            return Err(Refusal::bad("Up to 100 messages can be deleted at a time"));
        }
        let queue = self.queue(call, name)?;
        if self.pushers.settings(&queue).is_push() {
            for it in ids {
                let about = [&*it.id, &*it.reservation_id, &*it.subscriber_name];
                self.delete_one(call, &queue, about).await?;
            }
            return Ok(ironmq::text(200, "Deleted"));
        }
        let claim = |it: &Claimed<'_>| {
            let about = [&*it.id, &*it.reservation_id, &*it.subscriber_name];
            self.claim(call, &queue, about).map(|claimed| claimed.claim)
        };
        let claims: Result<Vec<Claim>, Refusal> = ids.iter().map(claim).collect();
        queue.delete_claimed(&claims?).await??;
        Ok(ironmq::text(200, "Deleted"))
    }

    /// Deletes a message, named by its id, reservation and subscriber, and returns how many there
    /// were. Of a multicast queue, a reservation is one subscriber's; without one the message is
    /// taken back from all.
    async fn delete_one(
        &self,
        call: &ProjectCall<'_>,
        queue: &Arc<SharedQueue>,
        about: [&str; 3],
    ) -> Result<usize, Refusal> {
        let [id, reservation, subscriber] = about;
        let is_multicast = self.pushers.settings(queue).kind == QueueType::Multicast;
        if is_multicast && reservation.is_empty() {
            return self.take_back(call, queue, id, subscriber).await;
        }
        let claimed = self.claim(call, queue, about)?;
        let deleted = claimed.queue.delete_claimed(&[claimed.claim]).await??;
        if deleted > 0 && self.pushers.settings(queue).is_push() {
            self.pushers.acknowledged(queue.id(), id, claimed.subscriber.as_deref());
        }
        Ok(deleted)
    }

    /// Deletes a message of a multicast queue wherever it waits, or for one subscriber.
    async fn take_back(
        &self,
        call: &ProjectCall<'_>,
        queue: &Arc<SharedQueue>,
        id: &str,
        subscriber: &str,
    ) -> Result<usize, Refusal> {
        let at = place(queue, id).ok_or_else(Refusal::no_message)?;
        let by = match call.version {
            Version::V1 => Claimant::Anybody,
            Version::V3 => Claimant::NoHolder,
        };
        let mut budget = Budget::default();
        let mut deleted = 0;
        if subscriber.is_empty() && queue.browser().one(at)?.is_some() {
            deleted += queue.delete_claimed(&[Claim { at, by }]).await??;
        }
        let hidden = self.pushers.hidden(queue).into_iter();
        for (to, hidden) in hidden.filter(|(it, _)| subscriber.is_empty() || it.name == subscriber)
        {
            let found = self.pushers.find((queue, id), (&to, &hidden), &mut budget)?;
            let Some(found) = found else { continue };
            let claim = Claim { at: found.delivery.at, by };
            deleted += hidden.delete_claimed(&[claim]).await??;
            self.pushers.acknowledged(queue.id(), id, Some(&to.name));
        }
        Ok(deleted)
    }

    /// The claim of whoever holds a message. Version 3 asks for the reservation.
    fn held(
        &self,
        call: &ProjectCall<'_>,
        queue: &Arc<SharedQueue>,
        id: &str,
        request: &Holding<'_>,
    ) -> Result<Named, Refusal> {
        let reservation = request.reservation_id.as_deref().unwrap_or_default();
        let subscriber = request.subscriber_name.as_deref().unwrap_or_default();
        let claimed = self.claim(call, queue, [id, reservation, subscriber])?;
        match claimed.claim.by {
            Claimant::NoHolder => Err(Refusal::no_reservation_id()),
            _ => Ok(claimed),
        }
    }

    /// The claim on a message, named by its id, reservation and subscriber. In
    /// version 1 the id alone will do.
    fn claim(
        &self,
        call: &ProjectCall<'_>,
        queue: &Arc<SharedQueue>,
        [id, reservation, subscriber]: [&str; 3],
    ) -> Result<Named, Refusal> {
        let at = place(queue, id).ok_or_else(Refusal::no_message)?;
        let own =
            |by| Named { queue: Arc::clone(queue), subscriber: None, claim: Claim { at, by } };
        match reservation {
            "" if call.version == Version::V1 => return Ok(own(Claimant::Anybody)),
            "" => return Ok(own(Claimant::NoHolder)),
            _ => {}
        }
        let handle = self.shards.open_receipt_handle(reservation).ok_or_else(Refusal::ended)?;
        let by = Claimant::Holder(handle.receive_count);
        if handle.queue == queue.id() {
            let is_of_message = (handle.slot, handle.seq) == (at.slot, at.seq);
            return if is_of_message { Ok(own(by)) } else { Err(Refusal::ended()) };
        }
        let held = self.pushers.owner_of(handle.queue);
        let held = held.filter(|(owner, _, name)| {
            *owner == queue.id() && (subscriber.is_empty() || name == subscriber)
        });
        let (_, hidden, name) = held.ok_or_else(Refusal::ended)?;
        let at = SlotSeq { slot: handle.slot, seq: handle.seq };
        self.check_id(&hidden, at, id)?;
        Ok(Named { queue: hidden, subscriber: Some(name), claim: Claim { at, by } })
    }
}
