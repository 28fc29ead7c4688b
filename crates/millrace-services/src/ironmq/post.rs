//! Posting messages.

use std::borrow::Cow;
use std::sync::Arc;

use millrace_broker::{Accepted, Attribute, Kind, NewContent, Outgoing, SharedQueue, SlotSeq};
use millrace_core::{MessageId, limits, md5_of_each};
use millrace_wire::Response;
use millrace_wire::ironmq::{self, Headers, Posted, Version};
use millrace_wire::sqs::Text;

use super::ids::message_id;
use super::own_times::OwnTimes;
use super::refusal::{Refusal, delay};
use super::{IronMq, ProjectCall};

/// SenderId of messages that came by IronMQ.
pub(super) const SENDER: &str = "ironmq";
/// Group of messages in FIFO queues, which IronMQ does not know: all are in order.
pub(super) const GROUP: &str = "ironmq";
/// Prefix of push headers among the attributes of a message.
pub(super) const PUSH_HEADER: &str = "IronMQ.PushHeader.";
/// Headers that only the server sets.
const RESERVED_HEADERS: [&str; 6] = [
    "Content-Type",
    "User-Agent",
    "Iron-Message-Id",
    "Iron-Reservation-Id",
    "Iron-Subscriber-Name",
    "Iron-Subscriber-Message-Url",
];

/// Times that a post looks for its queue, or makes it, if somebody deletes it.
const POST_ATTEMPTS: usize = 3;

/// A message that may be stored.
struct Checked<'a> {
    body: &'a [u8],
    delay_s: Option<u32>,
    /// Names and values: push headers, and times of its own.
    attributes: Vec<(String, Cow<'a, str>)>,
}

impl IronMq {
    pub(super) async fn post(
        &self,
        call: &ProjectCall<'_>,
        name: &str,
        messages: &[Posted<'_>],
    ) -> Result<Response, Refusal> {
        if messages.is_empty() {
            return Err(call.missing("messages"));
        }
        let checked = messages.iter().map(|message| self.check(call, message));
        let checked = checked.collect::<Result<Vec<_>, _>>()?;
        let mut attempts = POST_ATTEMPTS;
        loop {
            let queue = self.queue_or_new(call, name).await?;
            attempts -= 1;
            match self.store(call, &queue, &checked).await {
                // It was deleted meanwhile, and clients do not repeat a 404.
                Err(refusal) if refusal == Refusal::no_queue() && attempts > 0 => {}
                answer => return answer,
            }
        }
    }

    /// Posts the body of a request as it is.
    pub(super) async fn webhook(
        &self,
        call: &ProjectCall<'_>,
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
                kept.push((format!("{PUSH_HEADER}{name}"), Cow::Borrowed(value)));
            }
        }
        let queue = self.queue_or_new(call, name).await?;
        let checked = Checked { body: body.as_bytes(), delay_s: None, attributes: kept };
        self.store(call, &queue, &[checked]).await
    }

    fn check<'a>(
        &self,
        call: &ProjectCall<'_>,
        message: &'a Posted<'_>,
    ) -> Result<Checked<'a>, Refusal> {
        let body = message.body.as_ref().map(Text::as_str);
        let body = body.ok_or_else(|| call.missing("body"))?;
        let headers = message.push_headers.as_ref().map(check_headers).transpose()?;
        let mut attributes = headers.unwrap_or_default();
        if call.version == Version::V1 {
            let times = OwnTimes::posted(message, self.shards.now())?.attributes();
            attributes.extend(times.map(|(name, value)| (name, Cow::Owned(value))));
        }
        Ok(Checked { body: body.as_bytes(), delay_s: delay(message.delay)?, attributes })
    }

    async fn store(
        &self,
        call: &ProjectCall<'_>,
        queue: &Arc<SharedQueue>,
        messages: &[Checked<'_>],
    ) -> Result<Response, Refusal> {
        let limit = queue.definition().settings.maximum_message_size_bytes;
        if messages.iter().any(|message| message.size_bytes() > limit as usize) {
            return Err(Refusal::too_large(limit));
        }
        if queue.kind() == Kind::Fifo && messages.iter().any(|it| it.delay_s.is_some()) {
            return Err(Refusal::bad("Messages of a FIFO queue have no delay of their own"));
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
        let status = if call.version == Version::V3 { 201 } else { 200 };
        let id = |accepted: &Accepted| {
            let slot = accepted.slot.unwrap_or(u32::MAX);
            message_id(queue.id(), SlotSeq { slot, seq: accepted.seq })
        };
        Ok(ironmq::ids(status, accepted.iter().map(id)))
    }
}

impl Checked<'_> {
    /// As the limit of the queue counts it.
    fn size_bytes(&self) -> usize {
        let attributes = self.attributes.iter().map(|(name, value)| name.len() + value.len());
        self.body.len() + attributes.sum::<usize>()
    }

    fn attributes(&self) -> Vec<Attribute<'_>> {
        let mut attributes: Vec<_> = self
            .attributes
            .iter()
            .map(|(name, value)| Attribute { name, data_type: "String", value: value.as_bytes() })
            .collect();
        attributes.sort_unstable_by_key(|attribute| attribute.name);
        attributes
    }
}

fn check_headers<'a>(headers: &'a Headers<'_>) -> Result<Vec<(String, Cow<'a, str>)>, Refusal> {
    if headers.0.len() > limits::ironmq::PUSH_HEADERS {
        return Err(Refusal::bad("A message can have up to 5 push headers"));
    }
    let checked = headers.0.iter().map(|(name, value)| {
        check_header(name, value)?;
        Ok((format!("{PUSH_HEADER}{}", name.as_str()), Cow::Borrowed(value.as_str())))
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
