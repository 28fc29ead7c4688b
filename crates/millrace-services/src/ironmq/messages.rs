//! Messages: posting, reserving, looking.

use std::collections::BTreeSet;
use std::sync::Arc;

use millrace_broker::{
    Attribute, BrokerError, Browse, BrowseCursor, BrowseFilter, Incoming, Kind, NewContent,
    Outgoing, Peeked, ReceiveRequest, SharedQueue,
};
use millrace_core::{MessageId, limits, md5_of_each};
use millrace_wire::ironmq::{
    self, Flag, Headers, MessageShown, Messages, Number, Posted, Reserve, Version,
};
use millrace_wire::query::Parameters;
use millrace_wire::sqs::Text;
use millrace_wire::{Response, Unsent};

use super::ids::{message_id, place};
use super::queues::number;
use super::refusal::{Refusal, bounded, delay};
use super::{Asking, IronMq, push};

/// SenderId of messages that came by IronMQ.
pub(super) const SENDER: &str = "ironmq";
/// Group of messages in FIFO queues, which IronMQ does not know: all are in order.
pub(super) const GROUP: &str = "ironmq";
/// What a push header is called among the attributes of a message.
pub(super) const PUSH_HEADER: &str = "IronMQ.PushHeader.";
/// Entries visited, and bytes read, for a peek.
const PEEK_VISITS: usize = 10_000;
const PEEK_BYTES: usize = 8 << 20;
/// Headers that only the server sets.
const RESERVED_HEADERS: [&str; 6] = [
    "Content-Type",
    "User-Agent",
    "Iron-Message-Id",
    "Iron-Reservation-Id",
    "Iron-Subscriber-Name",
    "Iron-Subscriber-Message-Url",
];

/// A message that may be stored.
struct Checked<'a> {
    body: &'a [u8],
    delay_s: Option<u32>,
    /// Name among attributes, and value.
    headers: Vec<(String, &'a str)>,
}

impl IronMq {
    pub(super) async fn post(
        &self,
        asking: &Asking<'_>,
        name: &str,
        messages: &[Posted<'_>],
    ) -> Result<Response, Refusal> {
        if messages.is_empty() {
            return Err(asking.missing("messages"));
        }
        let checked = messages.iter().map(|message| check(asking, message));
        let checked = checked.collect::<Result<Vec<_>, _>>()?;
        let queue = self.queue_or_new(asking, name).await?;
        self.store(asking, &queue, &checked).await
    }

    /// Posts the body of a request as it is.
    pub(super) async fn webhook(
        &self,
        asking: &Asking<'_>,
        name: &str,
        headers: &[millrace_wire::Header<'_>],
        body: &[u8],
    ) -> Result<Response, Refusal> {
        let body = str::from_utf8(body).map_err(|_| Refusal::bad("The body must be UTF-8"))?;
        let mut kept = Vec::new();
        for header in headers {
            let name = header.name.get(..14).filter(|it| it.eq_ignore_ascii_case("x-subscribers-"));
            let Some(name) = name.and_then(|_| header.name.get(14..)) else { continue };
            let value = str::from_utf8(header.value).unwrap_or_default();
            if kept.len() < limits::ironmq::PUSH_HEADERS && check_header(name, value).is_ok() {
                kept.push((format!("{PUSH_HEADER}{name}"), value));
            }
        }
        let queue = self.queue_or_new(asking, name).await?;
        let checked = Checked { body: body.as_bytes(), delay_s: None, headers: kept };
        self.store(asking, &queue, &[checked]).await
    }

    async fn store(
        &self,
        asking: &Asking<'_>,
        queue: &Arc<SharedQueue>,
        messages: &[Checked<'_>],
    ) -> Result<Response, Refusal> {
        let limit = queue.definition().settings.maximum_message_size_bytes;
        if messages.iter().any(|message| message.size_bytes() > limit as usize) {
            return Err(Refusal::too_large(limit));
        }
        let bodies: Vec<&[u8]> = messages.iter().map(|message| message.body).collect();
        let digests = md5_of_each(&bodies);
        let is_fifo = queue.kind() == Kind::Fifo;
        let random = || MessageId::from_random(fastrand::u128(..));
        let ids: Vec<MessageId> = messages.iter().map(|_| random()).collect();
        let own_id = |id: &MessageId| if is_fifo { id.to_string() } else { String::new() };
        // In FIFO queues no message repeats another.
        let deduplication_ids: Vec<String> = ids.iter().map(own_id).collect();
        // One buffer for all: their stored forms are copied into the journal's a moment later.
        let mut contents = Vec::new();
        let mut ends = Vec::with_capacity(messages.len());
        for ((message, body_md5), deduplication_id) in
            messages.iter().zip(digests).zip(&deduplication_ids)
        {
            NewContent {
                body: message.body,
                body_md5,
                attributes: message.attributes(),
                sender: SENDER,
                deduplication_id,
                ..NewContent::default()
            }
            .encode(&mut contents);
            ends.push(contents.len());
        }
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let stored = starts.zip(&ends).map(|(start, end)| &contents[start..*end]);
        let outgoing: Vec<Outgoing<'_>> = (messages.iter().zip(&ids).zip(stored))
            .zip(&deduplication_ids)
            .map(|(((message, id), content), deduplication_id)| Outgoing {
                id: *id,
                content,
                size_bytes: message.size_bytes(),
                group: is_fifo.then_some(GROUP),
                deduplication_id: is_fifo.then_some(deduplication_id),
                delay_s: message.delay_s,
            })
            .collect();
        let (accepted, ticket) = queue.begin_send(&outgoing)?;
        // The journal has a copy, and large ones add up while they wait for their commit.
        drop(outgoing);
        drop(contents);
        queue.committed(ticket).await?;
        let status = if asking.version == Version::V3 { 201 } else { 200 };
        let id = |accepted: &millrace_broker::Accepted| {
            let slot = accepted.slot.unwrap_or(u32::MAX);
            message_id(queue.id(), millrace_broker::SlotSeq { slot, seq: accepted.seq })
        };
        Ok(ironmq::ids(status, accepted.iter().map(id)))
    }

    pub(super) async fn reserve(
        &self,
        asking: &Asking<'_>,
        name: &str,
        request: &Reserve<'_>,
    ) -> Result<Response, Refusal> {
        let max = bounded("n", request.n, 1, limits::ironmq::MESSAGES)?.unwrap_or(1);
        let timeout_max = limits::ironmq::MESSAGE_TIMEOUT_MAX_S;
        let timeout = bounded("timeout", request.timeout, 1, timeout_max)?;
        let wait = bounded("wait", request.wait, 0, limits::ironmq::WAIT_S)?;
        let queue = self.queue(asking, name)?;
        if self.pushers.settings(&queue).is_push() {
            return Err(Refusal::bad("Messages of a push queue go to its subscribers"));
        }
        let receive = ReceiveRequest {
            max: max as usize,
            visibility_timeout_s: timeout,
            wait_time_s: Some(wait.unwrap_or_default()),
            attempt_id: None,
        };
        let incoming = match queue.receive(&receive).await {
            // So many are reserved that there is none left to give.
            Err(BrokerError::OverLimit) => Vec::new(),
            incoming => incoming?,
        };
        if request.delete == Some(Flag(true)) && !incoming.is_empty() {
            let handles: Vec<_> = incoming
                .iter()
                .filter_map(|it| self.shards.open_receipt_handle(&it.receipt_handle))
                .collect();
            queue.delete(&handles).await?;
            return Ok(reserved(asking, &queue, timeout, &incoming));
        }
        let mut response = reserved(asking, &queue, timeout, &incoming);
        if response.body.len() >= super::MAY_BE_REFUSED_BYTES {
            response.unsent = Some(self.unsent(&incoming));
        }
        Ok(response)
    }

    /// Gives messages back, if it turns out that they cannot be sent.
    fn unsent(&self, incoming: &[Incoming]) -> Unsent {
        let handles: Vec<_> = incoming
            .iter()
            .filter_map(|it| self.shards.open_receipt_handle(&it.receipt_handle))
            .collect();
        let shards = self.shards.clone();
        Unsent::new(move || shards.give_back_received(&handles))
    }

    /// Messages that nobody has reserved, without reserving them.
    pub(super) fn peek(
        &self,
        asking: &Asking<'_>,
        name: &str,
        parameters: &Parameters<'_>,
    ) -> Result<Response, Refusal> {
        let n = number(parameters, "n")?;
        let limit = bounded("n", n, 1, limits::ironmq::MESSAGES)?.unwrap_or(1) as usize;
        let queue = self.queue(asking, name)?;
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
        let mut shown = 0;
        for peeked in &queue.browser().page(&browse)?.messages {
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
        asking: &Asking<'_>,
        name: &str,
        id: &str,
    ) -> Result<Response, Refusal> {
        let queue = self.queue(asking, name)?;
        let at = place(&queue, id).ok_or_else(Refusal::no_message)?;
        let mut peeked = queue.browser().one(at)?;
        let mut budget = push::Budget::default();
        for (subscriber, hidden) in self.pushers.hidden(&queue) {
            if peeked.is_none() {
                peeked = self.pushers.find((&queue, id), (&subscriber, &hidden), &mut budget)?;
            }
        }
        let peeked = peeked.ok_or_else(Refusal::no_message)?;
        let is_v1 = asking.version == Version::V1;
        let timeout = queue.definition().settings.visibility_timeout_s;
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

impl Checked<'_> {
    /// As the limit of the queue counts it.
    fn size_bytes(&self) -> usize {
        let headers = self.headers.iter().map(|(name, value)| name.len() + value.len());
        self.body.len() + headers.sum::<usize>()
    }

    fn attributes(&self) -> Vec<Attribute<'_>> {
        let mut attributes: Vec<_> = self
            .headers
            .iter()
            .map(|(name, value)| Attribute { name, data_type: "String", value: value.as_bytes() })
            .collect();
        attributes.sort_unstable_by_key(|attribute| attribute.name);
        attributes
    }
}

fn check<'a>(asking: &Asking<'_>, message: &'a Posted<'_>) -> Result<Checked<'a>, Refusal> {
    let body = message.body.as_ref().map(Text::as_str);
    let body = body.ok_or_else(|| asking.missing("body"))?;
    let headers = message.push_headers.as_ref().map(check_headers).transpose()?;
    // Version 3 takes no notice of either.
    if asking.version == Version::V1 {
        let (timeout_max, expiration_max) =
            (limits::ironmq::MESSAGE_TIMEOUT_MAX_S, limits::ironmq::MESSAGE_EXPIRATION_MAX_S);
        bounded("timeout", message.timeout, 1, timeout_max)?;
        bounded("expires_in", message.expires_in, 1, expiration_max)?;
    }
    Ok(Checked {
        body: body.as_bytes(),
        delay_s: delay(message.delay)?,
        headers: headers.unwrap_or_default(),
    })
}

fn check_headers<'a>(headers: &'a Headers<'_>) -> Result<Vec<(String, &'a str)>, Refusal> {
    if headers.0.len() > limits::ironmq::PUSH_HEADERS {
        return Err(Refusal::bad("A message can have up to 5 push headers"));
    }
    let checked = headers.0.iter().map(|(name, value)| {
        check_header(name, value)?;
        Ok((format!("{PUSH_HEADER}{}", name.as_str()), value.as_str()))
    });
    checked.collect()
}

pub(super) fn check_header(name: &str, value: &str) -> Result<(), Refusal> {
    let is_name = (1..=limits::ironmq::PUSH_HEADER_NAME_BYTES).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    if !is_name {
        return Err(Refusal::bad("Push header names have 1 to 64 letters, digits, - and _"));
    }
    if RESERVED_HEADERS.iter().any(|reserved| reserved.eq_ignore_ascii_case(name)) {
        return Err(Refusal::bad(format!("Push header {name} is not allowed")));
    }
    let is_value = (1..=limits::ironmq::PUSH_HEADER_VALUE_BYTES).contains(&value.len())
        && !value.chars().any(char::is_control);
    match is_value {
        true => Ok(()),
        false => Err(Refusal::bad("Push header values have 1 to 1024 bytes, on one line")),
    }
}

/// The answer to a reserve.
fn reserved(
    asking: &Asking<'_>,
    queue: &SharedQueue,
    timeout: Option<u32>,
    incoming: &[Incoming],
) -> Response {
    let is_v1 = asking.version == Version::V1;
    let timeout = timeout.unwrap_or_else(|| queue.definition().settings.visibility_timeout_s);
    let bytes = incoming.iter().map(|message| message.content.body().len() + 200).sum();
    let mut messages = Messages::with_capacity(bytes);
    for message in incoming {
        messages.add(&MessageShown {
            id: &message_id(queue.id(), message.delivery.at),
            body: message.content.body(),
            reserved_count: message.delivery.receive_count,
            reservation_id: (!is_v1).then_some(&message.receipt_handle),
            timeout: is_v1.then_some(timeout),
            status: None,
        });
    }
    messages.answer()
}

/// What version 1 asks for in the URL.
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
