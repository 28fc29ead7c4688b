//! Answers. Both protocols are read into the same structures; texts without escapes stay slices of
//! the answer, as far as that does not keep much more than them.

mod received;
mod xml;

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use bytestring::ByteString;
use millrace_wire::sqs::{Map, Text};
use serde::Deserialize;

use super::Protocol;
use super::answer::{is_throttling, short_code};
use crate::error::{CallError, CallErrorKind, EntryError};
use crate::message::Sent;

pub(super) use received::received;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SentMessage<'a> {
    #[serde(borrow)]
    message_id: Text<'a>,
    #[serde(borrow, default)]
    sequence_number: Option<Text<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Batch<'a> {
    #[serde(borrow, default)]
    successful: Option<Vec<Success<'a>>>,
    #[serde(borrow, default)]
    failed: Option<Vec<Failure<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Success<'a> {
    #[serde(borrow)]
    id: Text<'a>,
    #[serde(borrow, default)]
    message_id: Option<Text<'a>>,
    #[serde(borrow, default)]
    sequence_number: Option<Text<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Failure<'a> {
    #[serde(borrow)]
    id: Text<'a>,
    #[serde(borrow)]
    code: Text<'a>,
    #[serde(borrow, default)]
    message: Option<Text<'a>>,
    #[serde(default)]
    sender_fault: bool,
}

/// What an action without output answers.
#[derive(Deserialize)]
struct Nothing {}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct QueueUrl<'a> {
    #[serde(borrow)]
    queue_url: Text<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct QueueAttributes<'a> {
    #[serde(borrow, default)]
    attributes: Option<Map<'a>>,
}

/// The answer to one send.
pub(super) fn sent(protocol: Protocol, body: &Bytes) -> Result<Sent, CallError> {
    let sent = match protocol {
        Protocol::Json => json(body)?,
        Protocol::Query => xml::sent(body)?,
    };
    Ok(Sent {
        message_id: slice(body, sent.message_id),
        sequence_number: sent.sequence_number.map(|text| slice(body, text)),
    })
}

/// The answer to one action that says nothing but that it was done. A page that some proxy answers
/// with status 200 is none.
pub(super) fn done(protocol: Protocol, body: &Bytes) -> Result<(), CallError> {
    match protocol {
        Protocol::Json => json(body).map(|_: Option<Nothing>| ()),
        Protocol::Query => xml::done(body),
    }
}

/// The answer to a batch of `count` sends.
pub(super) fn sent_batch(
    protocol: Protocol,
    body: &Bytes,
    count: usize,
) -> Result<Vec<Result<Sent, EntryError>>, CallError> {
    entries(protocol, body, count, |success| Sent {
        message_id: slice(body, success.message_id.unwrap_or_default()),
        sequence_number: success.sequence_number.map(|text| slice(body, text)),
    })
}

/// The answer to a batch whose successes say nothing.
pub(super) fn done_batch(
    protocol: Protocol,
    body: &Bytes,
    count: usize,
) -> Result<Vec<Result<(), EntryError>>, CallError> {
    entries(protocol, body, count, |_| ())
}

pub(super) fn queue_url(protocol: Protocol, body: &Bytes) -> Result<ByteString, CallError> {
    let found = match protocol {
        Protocol::Json => json(body)?,
        Protocol::Query => xml::queue_url(body)?,
    };
    Ok(slice(body, found.queue_url))
}

pub(super) fn queue_attributes(
    protocol: Protocol,
    body: &Bytes,
) -> Result<Vec<(ByteString, ByteString)>, CallError> {
    let found = match protocol {
        Protocol::Json => json(body)?,
        Protocol::Query => xml::queue_attributes(body)?,
    };
    let pairs = found.attributes.unwrap_or_default().0.into_iter();
    Ok(pairs.map(|(name, value)| (slice(body, name), slice(body, value))).collect())
}

fn entries<T>(
    protocol: Protocol,
    body: &Bytes,
    count: usize,
    succeeded: impl Fn(Success<'_>) -> T,
) -> Result<Vec<Result<T, EntryError>>, CallError> {
    let batch = match protocol {
        Protocol::Json => json(body)?,
        Protocol::Query => xml::batch(body)?,
    };
    let mut all: Vec<Option<Result<T, EntryError>>> = Vec::new();
    all.resize_with(count, || None);
    let mut put = |id: &str, outcome| {
        if let Some(slot) = id.parse().ok().and_then(|index: usize| all.get_mut(index)) {
            *slot = Some(outcome);
        }
    };
    for success in batch.successful.unwrap_or_default() {
        let id = success.id.clone();
        put(&id.0, Ok(succeeded(success)));
    }
    for failure in batch.failed.unwrap_or_default() {
        let (code, message) = (short_code(&failure.code.0), failure.message.unwrap_or_default());
        // KMS throttles entries, and calls that the sender's fault.
        let is_sender_fault = failure.sender_fault && !is_throttling(code);
        let error = EntryError::new(code, message.0, is_sender_fault);
        put(&failure.id.0, Err(error));
    }
    // An entry that the answer leaves out may or may not have been carried out.
    let missing =
        || EntryError::new("NotAnswered", "the answer has no result for the entry", false);
    Ok(all.into_iter().map(|entry| entry.unwrap_or_else(|| Err(missing()))).collect())
}

/// `text` as a slice of `body` if it is one.
fn slice(body: &Bytes, text: Text<'_>) -> ByteString {
    match text.0 {
        Cow::Borrowed(text) => {
            let bytes = body.slice_ref(text.as_bytes());
            ByteString::try_from(bytes).unwrap_or_else(|_| ByteString::from(text))
        }
        Cow::Owned(text) => text.into(),
    }
}

fn json<'a, T: Deserialize<'a>>(body: &'a Bytes) -> Result<T, CallError> {
    // Actions without output answer nothing on AWS, an empty object elsewhere.
    let text: &[u8] = if body.is_empty() { b"{}" } else { body };
    serde_json::from_slice(text).map_err(malformed)
}

fn malformed(error: impl fmt::Display) -> CallError {
    let message = format!("the answer cannot be read: {error}");
    CallError::new(CallErrorKind::Malformed, "malformed-answer", message).ambiguous()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_says_that_something_was_done() {
        for (protocol, texts) in [
            (Protocol::Json, &["", "{}", "null", r#"{"Extra":1}"#][..]),
            (Protocol::Query, &["<DeleteMessageResponse/>"]),
        ] {
            for text in texts {
                assert_eq!(done(protocol, &Bytes::from(*text)), Ok(()), "{text}");
            }
        }
        for protocol in [Protocol::Json, Protocol::Query] {
            for text in ["<html/>", "back soon", "<ErrorResponse/>"] {
                let error = done(protocol, &Bytes::from(text)).unwrap_err();
                assert_eq!(error.kind, CallErrorKind::Malformed, "{text}");
                assert!(error.is_ambiguous && error.is_retryable());
            }
        }
    }

    #[test]
    fn entries_come_back_in_the_order_sent_and_missing_ones_are_errors() {
        let answer = Bytes::from_static(
            br#"{"Successful":[{"Id":"2","MessageId":"c"},{"Id":"0","MessageId":"a"},{"Id":"9"}],
            "Failed":[{"Id":"1","Code":"InternalError","Message":"m","SenderFault":false},
            {"Id":"4","Code":"AWS.SimpleQueueService.KmsThrottled","SenderFault":true},
            {"Id":"5","Code":"InvalidMessageContents","SenderFault":true}]}"#,
        );

        let outcomes = sent_batch(Protocol::Json, &answer, 6).unwrap();

        assert_eq!(&*outcomes[0].as_ref().unwrap().message_id, "a");
        assert_eq!(outcomes[1].as_ref().unwrap_err().code, "InternalError");
        assert_eq!(&*outcomes[2].as_ref().unwrap().message_id, "c");
        let is_retryable = |entry: usize| outcomes[entry].as_ref().unwrap_err().is_retryable();
        assert_eq!([3, 4, 5].map(is_retryable), [true, true, false]);
    }
}
