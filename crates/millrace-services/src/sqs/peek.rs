//! `/_aws/sqs/messages`: all messages of a queue without receiving them, in the form that tools of
//! other servers look for. `ShowInvisible` adds those in flight, `ShowDelayed` the delayed, `Limit`
//! says how many are enough. An answer is never so large that clients refuse it: the header
//! `x-millrace-next` says what `From` the next one is to begin with, or `end`. Whoever asks page by
//! page sees each message once that is in the queue all the while, the oldest first.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use millrace_broker::{Browse, BrowseCursor, BrowseFilter, Incoming, Kind, MessageState, Peeked};
use millrace_core::hex;
use millrace_otel::RequestSpan;
use millrace_wire::ApiError;
use millrace_wire::sqs::{ReceivedAttribute, ReceivedMessage, Text};
use serde_json::{Value, json};

use super::receive::{ALL_ATTRIBUTES, received};
use super::{Sqs, actions, error};
use crate::authorize::{Context, authorize};
use crate::principal::Caller;

/// Messages looked at at the most, shown or not, and their stored bytes.
const SEEN_MAX: usize = 10_000;
const SEEN_BYTES_MAX: usize = 64 << 20;
/// Once an answer has that many bytes, no more messages are added. Clients refuse larger ones than
/// 64 MiB, and what is read at a time has a fifth of that at the most.
const ANSWER_BYTES_MAX: usize = 32 << 20;
/// Bytes of a message besides its texts: names of members, digests, system attributes.
const MESSAGE_BYTES: usize = 1_024;
/// Bytes of a message attribute besides its texts.
const ATTRIBUTE_BYTES: usize = 64;
/// What is read before others get their turn.
const PAGE: usize = 50;
const PAGE_VISITS: usize = 2_000;
const PAGE_BYTES: usize = 1 << 20;

/// What is to be shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peek<'a> {
    pub(crate) queue_url: Option<&'a str>,
    pub(crate) shows_in_flight: bool,
    pub(crate) shows_delayed: bool,
    /// Messages at the most.
    pub(crate) limit: usize,
    pub(crate) from: BrowseCursor,
}

/// What a peek has shown.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) messages: Vec<ReceivedMessage>,
    /// Messages in between that cannot be read.
    pub(crate) damaged: u64,
    /// None at the end.
    pub(crate) next: Option<BrowseCursor>,
}

impl Sqs {
    /// The oldest messages of a queue, or those behind them.
    pub(crate) async fn peek(
        &self,
        caller: &Caller<'_>,
        peek: Peek<'_>,
    ) -> Result<Shown, ApiError> {
        let url = peek.queue_url.map(Text::from);
        let queue = self.queue(caller, url.as_ref(), None, RequestSpan::none())?;
        let Caller { principal, region, .. } = caller;
        let permission = &actions::RECEIVE_MESSAGE.permission;
        authorize(principal, permission, Some(&queue), Context { region })?;
        let kind = queue.kind();
        let is_shown = |message: &Peeked| match message.state {
            MessageState::Ready => true,
            MessageState::InFlight => peek.shows_in_flight,
            MessageState::Delayed => peek.shows_delayed,
            MessageState::Free => false,
        };
        let (mut seen, mut seen_bytes, mut answer_bytes) = (0, 0, 0);
        queue.catch_up().await;
        // Pages of nothing would never end.
        let next = (peek.limit > 0).then_some(peek.from);
        let mut shown = Shown { messages: Vec::new(), damaged: 0, next };
        while let Some(from) = shown.next
            && shown.messages.len() < peek.limit
            && answer_bytes < ANSWER_BYTES_MAX
            && seen < SEEN_MAX
            && seen_bytes < SEEN_BYTES_MAX
        {
            let page = Browse {
                filter: BrowseFilter::All,
                from,
                // No more than may be shown: the next answer goes on behind what was seen.
                limit: PAGE.min(SEEN_MAX - seen).min(peek.limit - shown.messages.len()),
                max_visits: PAGE_VISITS,
                max_bytes: PAGE_BYTES.min(SEEN_BYTES_MAX - seen_bytes),
            };
            let browsed = queue.browser().page(&page);
            let browsed = browsed.map_err(error::of_broker)?;
            shown.next = browsed.next;
            shown.damaged += browsed.damaged;
            seen += browsed.messages.len();
            let bytes = browsed.messages.iter().map(|seen| seen.delivery.record_len as usize);
            seen_bytes += bytes.sum::<usize>();
            let wanted = browsed.messages.into_iter().filter(is_shown);
            for peeked in wanted {
                let message = as_received(peeked, kind);
                answer_bytes += encoded_bytes(&message);
                shown.messages.push(message);
            }
            tokio::task::yield_now().await;
        }
        Ok(shown)
    }
}

/// The XML answer of ReceiveMessage, element for element as JSON.
pub(crate) fn as_json(messages: &[ReceivedMessage]) -> Value {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let message = |message: &ReceivedMessage| {
        let attribute =
            |(name, value): &(&str, Cow<'_, str>)| json!({ "Name": name, "Value": value });
        let attributes: Vec<Value> = message.attributes.iter().map(attribute).collect();
        let message_attribute = |attribute: &ReceivedAttribute| {
            let data_type = text(&attribute.data_type);
            let (member, value) = if data_type.starts_with("Binary") {
                ("BinaryValue", STANDARD.encode(&attribute.value))
            } else {
                ("StringValue", text(&attribute.value))
            };
            json!({ "Name": text(&attribute.name), "Value": { member: value, "DataType": data_type } })
        };
        let mut shown = json!({
            "MessageId": text(&message.message_id),
            "ReceiptHandle": message.receipt_handle,
            "MD5OfBody": text(&hex(&message.md5_of_body)),
            "Body": text(&message.body),
            "Attribute": attributes,
        });
        if let Some(digest) = &message.md5_of_message_attributes {
            shown["MD5OfMessageAttributes"] = text(&hex(digest)).into();
            shown["MessageAttribute"] =
                message.message_attributes.iter().map(message_attribute).collect();
        }
        shown
    };
    let messages: Vec<Value> = messages.iter().map(message).collect();
    json!({ "ReceiveMessageResponse": { "ReceiveMessageResult": { "Message": messages } } })
}

/// At least what a message takes in JSON. XML's escapes are longer: a body that is all markup takes
/// up to five times as much.
fn encoded_bytes(message: &ReceivedMessage) -> usize {
    let attribute = |attribute: &ReceivedAttribute| {
        let value = if attribute.data_type.starts_with(b"Binary") {
            attribute.value.len().div_ceil(3) * 4
        } else {
            json_bytes(&attribute.value)
        };
        ATTRIBUTE_BYTES + attribute.name.len() + attribute.data_type.len() + value
    };
    let attributes = message.message_attributes.iter().map(attribute);
    let system = message.attributes.iter().map(|(_, value)| json_bytes(value.as_bytes()));
    MESSAGE_BYTES + json_bytes(&message.body) + attributes.sum::<usize>() + system.sum::<usize>()
}

/// Bytes of a text in JSON.
fn json_bytes(text: &[u8]) -> usize {
    let escaped = |byte: &u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' => 2,
        ..b' ' => 6,
        _ => 1,
    };
    text.iter().map(escaped).sum()
}

fn as_received(peeked: Peeked, kind: Kind) -> ReceivedMessage {
    let Peeked { id, content, delivery, state, .. } = peeked;
    let message = Incoming { id, receipt_handle: String::new(), content, delivery };
    let mut shown = received(message, ALL_ATTRIBUTES, &["All".into()], kind);
    for (name, wanted) in [("IsVisible", MessageState::Ready), ("IsDelayed", MessageState::Delayed)]
    {
        shown.attributes.push((name, (state == wanted).to_string().into()));
    }
    shown
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use millrace_wire::protocol::Protocol;
    use millrace_wire::sqs::{Answer, response};

    use super::*;

    fn message(
        body: &'static str,
        value: &'static str,
        data_type: &'static str,
    ) -> ReceivedMessage {
        let attribute = ReceivedAttribute {
            name: Bytes::from_static(b"name"),
            data_type: Bytes::from_static(data_type.as_bytes()),
            value: Bytes::from_static(value.as_bytes()),
        };
        let system = ["SenderId", "SentTimestamp", "ApproximateReceiveCount", "MessageGroupId"];
        ReceivedMessage {
            message_id: [b'x'; 36],
            receipt_handle: String::new(),
            md5_of_body: [0; 16],
            body: Bytes::from_static(body.as_bytes()),
            attributes: system.map(|name| (name, "\"".repeat(128).into())).into(),
            md5_of_message_attributes: Some([0; 16]),
            message_attributes: vec![attribute; 10],
        }
    }

    #[test]
    fn a_message_is_not_larger_in_json_than_it_counts() {
        let texts = ["", "plain", "\"quoted\" \\ \n\r\t", "\u{1}\u{1f}\u{8}", "Öl & <b>'s"];
        for text in texts {
            for data_type in ["String", "Binary"] {
                let message = message(text, text, data_type);
                let counted = encoded_bytes(&message);

                let answer = Answer::ReceiveMessage { messages: vec![message] };
                let taken = response(&answer, "ReceiveMessage", Protocol::Json, "").body.len();

                assert!(taken <= counted, "{text}: {taken} bytes, counted {counted}");
            }
        }
    }
}
