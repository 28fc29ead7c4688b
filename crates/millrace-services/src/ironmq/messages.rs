//! Messages: reserving, looking.

use std::collections::BTreeSet;

use millrace_broker::{
    BrokerError, Browse, BrowseCursor, BrowseFilter, Handle, Incoming, Peeked, ReceiveRequest,
    Shards, SharedQueue,
};
use millrace_core::limits;
use millrace_wire::ironmq::{self, Flag, MessageShown, Messages, Number, Reserve, Version};
use millrace_wire::query::Parameters;
use millrace_wire::{Response, Unsent};

use super::ids::{message_id, place};
use super::own_times::OwnTimes;
use super::queues::number;
use super::refusal::{Refusal, bounded};
use super::{IronMq, ProjectCall, push};

/// Times that a reserve looks again, if all that it found had expired.
const LOOKS_PAST_EXPIRED: usize = 100;
/// Entries visited, and bytes read, for a peek.
const PEEK_VISITS: usize = 10_000;
const PEEK_BYTES: usize = 8 << 20;
impl IronMq {
    pub(super) async fn reserve(
        &self,
        call: &ProjectCall<'_>,
        name: &str,
        request: &Reserve<'_>,
    ) -> Result<Response, Refusal> {
        let max = bounded("n", request.n, 1, limits::ironmq::MESSAGES)?.unwrap_or(1);
        let timeout_max = limits::ironmq::MESSAGE_TIMEOUT_MAX_S;
        let timeout = bounded("timeout", request.timeout, 1, timeout_max)?;
        let wait = bounded("wait", request.wait, 0, limits::ironmq::WAIT_S)?;
        let queue = self.queue(call, name)?;
        if self.pushers.settings(&queue).is_push() {
            return Err(Refusal::bad("Messages of a push queue go to its subscribers"));
        }
        let receive = ReceiveRequest {
            max: max as usize,
            visibility_timeout_s: timeout,
            wait_time_s: Some(wait.unwrap_or_default()),
            attempt_id: None,
        };
        let mut incoming = Vec::new();
        for _ in 0..LOOKS_PAST_EXPIRED {
            let found = match queue.receive(&receive).await {
                // So many are reserved that there is none left to give.
                Err(BrokerError::OverLimit) => break,
                found => found?,
            };
            let has_found = !found.is_empty();
            incoming = self.drop_expired(&queue, found).await?;
            if !incoming.is_empty() || !has_found {
                break;
            }
        }
        let has_own_timeouts = call.version == Version::V1 && timeout.is_none();
        if has_own_timeouts {
            self.keep_own_timeouts(&queue, &incoming).await?;
        }
        if request.delete == Some(Flag(true)) && !incoming.is_empty() {
            queue.delete(&handles(&self.shards, &incoming)).await?;
            return Ok(reserved(call, &queue, timeout, &incoming));
        }
        let mut response = reserved(call, &queue, timeout, &incoming);
        if response.body.len() >= super::MAY_BE_REFUSED_BYTES {
            response.unsent = Some(self.unsent(&incoming));
        }
        Ok(response)
    }

    /// Gives messages back, if it turns out that they cannot be sent.
    fn unsent(&self, incoming: &[Incoming]) -> Unsent {
        let handles = handles(&self.shards, incoming);
        let shards = self.shards.clone();
        Unsent::new(move || shards.give_back_received(&handles))
    }

    /// Messages that nobody has reserved, without reserving them.
    pub(super) fn peek(
        &self,
        call: &ProjectCall<'_>,
        name: &str,
        parameters: &Parameters<'_>,
    ) -> Result<Response, Refusal> {
        let n = number(parameters, "n")?;
        let limit = bounded("n", n, 1, limits::ironmq::MESSAGES)?.unwrap_or(1) as usize;
        let queue = self.queue(call, name)?;
        let browse = Browse {
            filter: BrowseFilter::Ready,
            from: BrowseCursor::default(),
            limit,
            max_visits: PEEK_VISITS,
            max_bytes: PEEK_BYTES,
        };
        let mut messages = Messages::with_capacity(0);
        let mut add = |id: &str, peeked: &Peeked| {
            messages.add(&MessageShown {
                id,
                body: peeked.content.body(),
                reserved_count: peeked.delivery.receive_count,
                ..MessageShown::default()
            });
        };
        let now = self.shards.now();
        let mut shown = 0;
        for peeked in &queue.browser().page(&browse)?.messages {
            if OwnTimes::of(&peeked.content).is_over(now) {
                continue;
            }
            add(&message_id(queue.id(), peeked.delivery.at), peeked);
            shown += 1;
        }
        // Each once, though it may wait for several subscribers.
        let mut others = BTreeSet::new();
        for (_, hidden) in self.pushers.hidden(&queue) {
            if shown == limit {
                break;
            }
            for peeked in &hidden.browser().page(&browse)?.messages {
                let id = push::shown_id(peeked, &hidden);
                if shown < limit && others.insert(id.clone()) {
                    add(&id, peeked);
                    shown += 1;
                }
            }
        }
        Ok(messages.answer())
    }

    pub(super) fn get_message(
        &self,
        call: &ProjectCall<'_>,
        name: &str,
        id: &str,
    ) -> Result<Response, Refusal> {
        let queue = self.queue(call, name)?;
        let at = place(&queue, id).ok_or_else(Refusal::no_message)?;
        let mut peeked = queue.browser().one(at)?;
        let mut budget = push::Budget::default();
        for (subscriber, hidden) in self.pushers.hidden(&queue) {
            if peeked.is_none() {
                peeked = self.pushers.find((&queue, id), (&subscriber, &hidden), &mut budget)?;
            }
        }
        let peeked = peeked.ok_or_else(Refusal::no_message)?;
        let is_v1 = call.version == Version::V1;
        let times = OwnTimes::of(&peeked.content);
        if times.is_over(self.shards.now()) {
            return Err(Refusal::no_message());
        }
        let of_queue = queue.definition().settings.visibility_timeout_s;
        let timeout = times.timeout_s.unwrap_or(of_queue);
        let state = match peeked.state {
            millrace_broker::MessageState::InFlight => "reserved",
            _ => "queued",
        };
        let shown = MessageShown {
            id,
            body: peeked.content.body(),
            reserved_count: peeked.delivery.receive_count,
            reservation_id: None,
            timeout: is_v1.then_some(timeout),
            status: is_v1.then_some(state),
        };
        let mut json = Vec::new();
        if !is_v1 {
            json.extend_from_slice(br#"{"message":"#);
        }
        shown.write(&mut json);
        if !is_v1 {
            json.push(b'}');
        }
        Ok(ironmq::answer(200, json))
    }
}

/// The handles of received messages.
pub(super) fn handles(shards: &Shards, incoming: &[Incoming]) -> Vec<Handle> {
    let handle = |message: &Incoming| shards.open_receipt_handle(&message.receipt_handle);
    incoming.iter().filter_map(handle).collect()
}

/// The answer to a reserve.
fn reserved(
    call: &ProjectCall<'_>,
    queue: &SharedQueue,
    timeout: Option<u32>,
    incoming: &[Incoming],
) -> Response {
    let is_v1 = call.version == Version::V1;
    let of_queue = queue.definition().settings.visibility_timeout_s;
    let timeout = |message: &Incoming| {
        timeout.or(OwnTimes::of(&message.content).timeout_s).unwrap_or(of_queue)
    };
    let bytes = incoming.iter().map(|message| message.content.body().len() + 200).sum();
    let mut messages = Messages::with_capacity(bytes);
    for message in incoming {
        messages.add(&MessageShown {
            id: &message_id(queue.id(), message.delivery.at),
            body: message.content.body(),
            reserved_count: message.delivery.receive_count,
            reservation_id: (!is_v1).then_some(&message.receipt_handle),
            timeout: is_v1.then(|| timeout(message)),
            status: None,
        });
    }
    messages.answer()
}

/// The parameters of a reserve in version 1.
pub(super) fn reserve_parameters(parameters: &Parameters<'_>) -> Result<Reserve<'static>, Refusal> {
    let flag = |name: &str| match parameters.get(name).map(Flag::parse) {
        Some(None) => Err(Refusal::bad(format!("{name} must be true or false"))),
        flag => Ok(flag.flatten()),
    };
    let mut reserve = Reserve::default();
    let numbers: [(&str, &mut Option<Number>); 3] =
        [("n", &mut reserve.n), ("timeout", &mut reserve.timeout), ("wait", &mut reserve.wait)];
    for (name, into) in numbers {
        *into = number(parameters, name)?;
    }
    reserve.delete = flag("delete")?;
    Ok(reserve)
}
