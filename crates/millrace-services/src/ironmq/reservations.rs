//! What becomes of messages: touch, release, delete.

use millrace_broker::{Claim, Claimant, SharedQueue};
use millrace_core::limits;
use millrace_wire::Response;
use millrace_wire::ironmq::{self, Claimed, Holding, Version};
use millrace_wire::sqs::Text;
use serde_json::json;

use super::ids::place;
use super::refusal::{Refusal, bounded, delay};
use super::{Asking, IronMq};

impl IronMq {
    pub(super) async fn touch(
        &self,
        asking: &Asking<'_>,
        name: &str,
        id: &str,
        request: &Holding<'_>,
    ) -> Result<Response, Refusal> {
        let timeout_max = limits::ironmq::MESSAGE_TIMEOUT_MAX_S;
        let timeout = bounded("timeout", request.timeout, 1, timeout_max)?;
        let queue = self.queue(asking, name)?;
        let claim = self.held(asking, &queue, id, request)?;
        let timeout =
            timeout.unwrap_or_else(|| queue.definition().settings.visibility_timeout_s.max(1));
        let reservation = queue.touch(&claim, timeout).await??;
        Ok(match asking.version {
            Version::V1 => ironmq::text(200, "Touched"),
            Version::V3 => {
                let answer = json!({ "reservation_id": reservation, "msg": "Touched" });
                ironmq::answer(200, answer.to_string())
            }
        })
    }

    pub(super) async fn release(
        &self,
        asking: &Asking<'_>,
        name: &str,
        id: &str,
        request: &Holding<'_>,
    ) -> Result<Response, Refusal> {
        let delay = delay(request.delay)?;
        let queue = self.queue(asking, name)?;
        let claim = self.held(asking, &queue, id, request)?;
        queue.release(&claim, delay.unwrap_or_default()).await??;
        Ok(ironmq::text(200, "Released"))
    }

    pub(super) async fn delete_message(
        &self,
        asking: &Asking<'_>,
        name: &str,
        id: &str,
        request: &Holding<'_>,
    ) -> Result<Response, Refusal> {
        let queue = self.queue(asking, name)?;
        let reservation = request.reservation_id.as_ref().map(Text::as_str).unwrap_or_default();
        let claim = self.claim(asking, &queue, id, reservation)?;
        match queue.delete_claimed(&[claim]).await?? {
            0 => Err(Refusal::no_message()),
            _ => Ok(ironmq::text(200, "Deleted")),
        }
    }

    /// Deletes all that are named, or none. Those that are gone already count as deleted, so that a
    /// request can be repeated.
    pub(super) async fn delete_messages(
        &self,
        asking: &Asking<'_>,
        name: &str,
        ids: &[Claimed<'_>],
    ) -> Result<Response, Refusal> {
        if ids.len() as u64 > limits::ironmq::MESSAGES {
            return Err(Refusal::bad("Up to 100 messages can be deleted at a time"));
        }
        let queue = self.queue(asking, name)?;
        let claims: Result<Vec<Claim>, Refusal> =
            ids.iter().map(|it| self.claim(asking, &queue, &it.id, &it.reservation_id)).collect();
        queue.delete_claimed(&claims?).await??;
        Ok(ironmq::text(200, "Deleted"))
    }

    /// The claim of whoever holds a message. Version 3 asks for the reservation.
    fn held(
        &self,
        asking: &Asking<'_>,
        queue: &SharedQueue,
        id: &str,
        request: &Holding<'_>,
    ) -> Result<Claim, Refusal> {
        let reservation = request.reservation_id.as_ref().map(Text::as_str).unwrap_or_default();
        let claim = self.claim(asking, queue, id, reservation)?;
        match claim.by {
            Claimant::NoHolder => Err(Refusal::no_reservation_id()),
            _ => Ok(claim),
        }
    }

    /// Who wants to do something with a message. In version 1 the id alone will do.
    fn claim(
        &self,
        asking: &Asking<'_>,
        queue: &SharedQueue,
        id: &str,
        reservation: &str,
    ) -> Result<Claim, Refusal> {
        let at = place(queue, id).ok_or_else(Refusal::no_message)?;
        let by = match reservation {
            "" if asking.version == Version::V1 => Claimant::Anybody,
            "" => Claimant::NoHolder,
            text => {
                let handle = self.shards.open_receipt_handle(text);
                let is_of_message =
                    |queue_id, slot, seq| (queue_id, slot, seq) == (queue.id(), at.slot, at.seq);
                let handle = handle.filter(|it| is_of_message(it.queue, it.slot, it.seq));
                Claimant::Holder(handle.ok_or_else(Refusal::ended)?.receive_count)
            }
        };
        Ok(Claim { at, by })
    }
}
