//! ReceiveMessage.

use std::borrow::Cow;
use std::sync::Arc;

use millrace_broker::{Incoming, Kind, ReceiveRequest, SharedQueue};
use millrace_core::{AttributeDigest, limits};
use millrace_wire::sqs::{Answer, ReceiveMessage, ReceivedAttribute, ReceivedMessage, Text, Texts};
use millrace_wire::{ApiError, Unsent};

use super::send::sequence_number;
use super::{Sqs, bounded, check, error, trace};
use crate::service::Call;

/// System attributes as bits of a request's wish.
mod wish {
    pub(super) const SENDER_ID: u16 = 1;
    pub(super) const SENT_TIMESTAMP: u16 = 1 << 1;
    pub(super) const RECEIVE_COUNT: u16 = 1 << 2;
    pub(super) const FIRST_RECEIVE: u16 = 1 << 3;
    pub(super) const SEQUENCE_NUMBER: u16 = 1 << 4;
    pub(super) const DEDUPLICATION_ID: u16 = 1 << 5;
    pub(super) const GROUP_ID: u16 = 1 << 6;
    pub(super) const TRACE_HEADER: u16 = 1 << 7;
    pub(super) const SOURCE_ARN: u16 = 1 << 8;
    pub(super) const ALL: u16 = u16::MAX;

    pub(super) fn of(name: &str) -> u16 {
        match name {
            "All" => ALL,
            "SenderId" => SENDER_ID,
            "SentTimestamp" => SENT_TIMESTAMP,
            "ApproximateReceiveCount" => RECEIVE_COUNT,
            "ApproximateFirstReceiveTimestamp" => FIRST_RECEIVE,
            "SequenceNumber" => SEQUENCE_NUMBER,
            "MessageDeduplicationId" => DEDUPLICATION_ID,
            "MessageGroupId" => GROUP_ID,
            "AWSTraceHeader" => TRACE_HEADER,
            "DeadLetterQueueSourceArn" => SOURCE_ARN,
            _ => 0, // AWS passes over names that it does not know.
        }
    }
}

impl Sqs {
    pub(super) async fn receive_message(
        &self,
        call: &Call<'_>,
        queue: &Arc<SharedQueue>,
        input: &ReceiveMessage<'_>,
    ) -> Result<Answer, ApiError> {
        let kind = queue.kind();
        let receive = check_receive(input, kind)?;
        let incoming = queue.receive(&receive).await;
        let incoming = incoming.map_err(error::of_broker)?;
        trace::received(call.span, &incoming);
        let names = |list: &Option<Texts<'_>>| {
            list.as_deref().unwrap_or_default().iter().fold(0, |wish, name| wish | wish::of(name))
        };
        let wish = names(&input.attribute_names) | names(&input.message_system_attribute_names);
        let filter = input.message_attribute_names.as_deref().unwrap_or_default();
        let messages =
            incoming.into_iter().map(|message| received(message, wish, filter, kind)).collect();
        Ok(Answer::ReceiveMessage { messages })
    }

    /// Gives the answer's messages back, if it turns out that they cannot be sent.
    pub(crate) fn unsent(&self, answer: &Answer) -> Option<Unsent> {
        let Answer::ReceiveMessage { messages } = answer else { return None };
        let handles: Vec<_> = messages
            .iter()
            .filter_map(|message| self.shards.open_receipt_handle(&message.receipt_handle))
            .collect();
        let shards = self.shards.clone();
        Some(Unsent::new(move || shards.give_back_received(&handles)))
    }
}

fn check_receive<'r>(
    input: &'r ReceiveMessage<'_>,
    kind: Kind,
) -> Result<ReceiveRequest<'r>, ApiError> {
    let max = bounded(
        input.max_number_of_messages.unwrap_or(1),
        &limits::RECEIVE_MESSAGES,
        "MaxNumberOfMessages",
        "Must be between 1 and 10, if provided.",
    )?;
    let wait_time_s = input.wait_time_seconds.map(|wait| {
        let reason = "Must be >= 0 and <= 20, if provided.";
        bounded(wait, &limits::WAIT_TIME_S, "WaitTimeSeconds", reason)
    });
    let visibility_timeout_s = input.visibility_timeout.map(|timeout| {
        let reason = "Must be >= 0 and <= 43200, if provided.";
        bounded(timeout, &limits::VISIBILITY_TIMEOUT_S, "VisibilityTimeout", reason)
    });
    let (wait_time_s, visibility_timeout_s) =
        (wait_time_s.transpose()?, visibility_timeout_s.transpose()?);
    let attempt_id = input.receive_request_attempt_id.as_ref().map(Text::as_str);
    if let Some(id) = attempt_id.filter(|_| kind == Kind::Fifo) {
        check::check_id(id, "ReceiveRequestAttemptId")?;
    }
    Ok(ReceiveRequest { max: max as usize, visibility_timeout_s, wait_time_s, attempt_id })
}

/// A message with just the attributes that were asked for.
pub(super) fn received(
    message: Incoming,
    wish: u16,
    filter: &[Text<'_>],
    kind: Kind,
) -> ReceivedMessage {
    let message_attributes = wanted_attributes(&message, filter);
    let md5_of_message_attributes = (!message_attributes.is_empty()).then(|| {
        let mut digest = AttributeDigest::default();
        for ReceivedAttribute { name, data_type, value } in &message_attributes {
            digest.add(text(name), text(data_type), value);
        }
        digest.finish()
    });
    ReceivedMessage {
        message_id: message.id.text(),
        attributes: if wish == 0 { Vec::new() } else { system_attributes(&message, wish, kind) },
        receipt_handle: message.receipt_handle,
        md5_of_body: message.content.body_md5(),
        body: message.content.into_body(),
        md5_of_message_attributes,
        message_attributes,
    }
}

/// System attributes of a message that `wish` names and it has.
fn system_attributes(
    message: &Incoming,
    wish: u16,
    kind: Kind,
) -> Vec<(&'static str, Cow<'static, str>)> {
    let Incoming { content, delivery, id, .. } = message;
    let is_fifo = kind == Kind::Fifo;
    let mut attributes = Vec::with_capacity(9);
    let mut put = |bit: u16, name: &'static str, value: &dyn Fn() -> String| {
        if wish & bit != 0 {
            attributes.push((name, Cow::Owned(value())));
        }
    };
    put(wish::SENDER_ID, "SenderId", &|| text(content.sender()).to_owned());
    put(wish::SENT_TIMESTAMP, "SentTimestamp", &|| delivery.sent.0.to_string());
    put(wish::RECEIVE_COUNT, "ApproximateReceiveCount", &|| delivery.receive_count.to_string());
    if delivery.receive_count > 0 {
        put(wish::FIRST_RECEIVE, "ApproximateFirstReceiveTimestamp", &|| {
            delivery.first_received.0.to_string()
        });
    }
    if is_fifo {
        put(wish::SEQUENCE_NUMBER, "SequenceNumber", &|| {
            sequence_number(delivery.at.seq).to_string()
        });
        put(wish::DEDUPLICATION_ID, "MessageDeduplicationId", &|| match delivery.source {
            // A dead-lettered message's deduplication id is its message id.
            Some(_) => id.to_string(),
            None => text(content.deduplication_id()).to_owned(),
        });
    }
    if let Some(group) = &delivery.group {
        put(wish::GROUP_ID, "MessageGroupId", &|| group.to_string());
    }
    if !content.trace_header().is_empty() {
        put(wish::TRACE_HEADER, "AWSTraceHeader", &|| text(content.trace_header()).to_owned());
    }
    if let Some(source) = &delivery.source {
        put(wish::SOURCE_ARN, "DeadLetterQueueSourceArn", &|| source.to_string());
    }
    attributes
}

/// All system attributes.
pub(super) const ALL_ATTRIBUTES: u16 = wish::ALL;

fn wanted_attributes(message: &Incoming, filter: &[Text<'_>]) -> Vec<ReceivedAttribute> {
    if filter.is_empty() {
        return Vec::new();
    }
    let is_wanted = |name: &str| filter.iter().any(|pattern| matches(pattern, name));
    let wanted = message.content.shared_attributes(|name| is_wanted(text(name)));
    wanted.map(|[name, data_type, value]| ReceivedAttribute { name, data_type, value }).collect()
}

/// `All`, `*` and `.*` are everything, `prefix.*` all names that begin with it.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern {
        "All" | "*" | ".*" => true,
        _ => match pattern.strip_suffix(".*") {
            Some(prefix) => name.starts_with(prefix),
            None => name == pattern,
        },
    }
}

/// Stored texts were UTF-8 when they came in.
pub(super) fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).unwrap_or_default()
}
