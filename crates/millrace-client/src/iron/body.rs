//! Bodies of requests and answers.

use bytes::Bytes;
use bytestring::ByteString;
use serde::{Deserialize, Serialize};

use crate::error::{CallError, CallErrorKind};
use crate::message::{Delivery, ReceiptHandle, attribute};

#[derive(Serialize)]
pub(super) struct Post<'a> {
    pub(super) messages: Vec<PostMessage<'a>>,
}

#[derive(Serialize)]
pub(super) struct PostMessage<'a> {
    pub(super) body: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) delay: Option<u64>,
}

#[derive(Deserialize)]
pub(super) struct Posted {
    pub(super) ids: Vec<String>,
}

#[derive(Serialize)]
pub(super) struct Reserve {
    pub(super) n: u32,
    pub(super) wait: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) timeout: Option<u64>,
}

#[derive(Deserialize)]
pub(super) struct Reserved {
    pub(super) messages: Vec<ReservedMessage>,
}

#[derive(Deserialize)]
pub(super) struct ReservedMessage {
    pub(super) id: String,
    pub(super) body: String,
    #[serde(default)]
    pub(super) reserved_count: Option<u64>,
    #[serde(default)]
    pub(super) reservation_id: Option<String>,
}

#[derive(Serialize)]
pub(super) struct Reservation<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reservation_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) timeout: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) delay: Option<u64>,
}

#[derive(Deserialize)]
pub(super) struct Touched {
    #[serde(default)]
    pub(super) reservation_id: Option<String>,
}

/// What a delete or a release answers: a text for people, or nothing.
#[derive(Deserialize)]
struct Done {}

#[derive(Serialize)]
pub(super) struct Delete<I> {
    pub(super) ids: Vec<I>,
}

#[derive(Serialize)]
pub(super) struct DeleteEntry<'a> {
    pub(super) id: &'a str,
    pub(super) reservation_id: &'a str,
}

pub(super) fn delivery(message: ReservedMessage) -> Delivery {
    let count = message
        .reserved_count
        .map(|count| (ByteString::from_static(attribute::RECEIVE_COUNT), count.to_string().into()));
    Delivery {
        handle: ReceiptHandle {
            message_id: message.id.into(),
            token: message.reservation_id.unwrap_or_default().into(),
        },
        body: message.body.into(),
        system_attributes: count.into_iter().collect(),
        attributes: Vec::new(),
    }
}

pub(super) fn json(value: &impl Serialize) -> Result<Bytes, CallError> {
    let encoded = serde_json::to_vec(value);
    let encoded = encoded
        .map_err(|error| CallError::new(CallErrorKind::Refused, "not-json", error.to_string()))?;
    Ok(encoded.into())
}

pub(super) fn parse<'a, T: Deserialize<'a>>(body: &'a Bytes) -> Result<T, CallError> {
    serde_json::from_slice(body).map_err(|error| malformed(error.to_string()))
}

/// Whether that is an answer of the queue: a page that some proxy answers with 200 is not.
pub(super) fn done(body: &Bytes) -> Result<(), CallError> {
    if body.is_empty() { Ok(()) } else { parse(body).map(|Done {}| ()) }
}

pub(super) fn malformed(problem: String) -> CallError {
    CallError::new(CallErrorKind::Malformed, "malformed-answer", problem).ambiguous()
}
