//! SendMessage, SendMessageBatch.

use std::borrow::Cow;
use std::sync::Arc;

use millrace_broker::{Accepted, Kind, NewContent, Outgoing, Settings, SharedQueue};
use millrace_core::{AttributeDigest, MessageId, limits, md5_of_each, sha256_hex};
use millrace_wire::ApiError;
use millrace_wire::sqs::{
    Answer, BatchAnswer, FailedEntry, SendMessage, SendMessageBatch, SentMessage,
};

use super::check::{Checked, TRACE_HEADER_BYTES, check, check_size};
use super::side_by_side::md5_beside_others;
use super::{Asked, Sqs, batch, error};
use crate::service::Call;

/// Sequence numbers have 20 digits; this is added to the engine's.
const SEQUENCE_BASE: u128 = 18_850_000_000_000_000_000;

type CheckedEntry<'e> = (&'e SendMessage<'e>, Checked<'e>);

/// The sender, the same for all messages of a request.
struct Sender<'a> {
    id: &'a str,
    /// Of the messages that name none of their own.
    trace_header: Option<Cow<'a, str>>,
}

impl<'a> Sender<'a> {
    fn of(call: &Call<'a>) -> Sender<'a> {
        let given = call.request.header("x-amzn-trace-id");
        let given = given.filter(|text| text.len() <= TRACE_HEADER_BYTES).map(Cow::Borrowed);
        let trace_header = given.or_else(|| call.span.trace_header().map(Cow::Owned));
        Sender { id: &call.caller.principal.id, trace_header }
    }
}

/// A FIFO message's SequenceNumber.
pub(crate) fn sequence_number(seq: u64) -> u128 {
    SEQUENCE_BASE + u128::from(seq)
}

impl Sqs {
    pub(super) async fn send_message(
        &self,
        call: &Call<'_>,
        queue: &Arc<SharedQueue>,
        input: &SendMessage<'_>,
    ) -> Result<Answer, ApiError> {
        let definition = queue.definition();
        let checked = check(input, &definition.settings, Asked::Alone)?;
        check_size(checked.size_bytes, &definition.settings, Asked::Alone)?;
        let body_md5 = md5_beside_others(checked.body).await;
        let content_id = content_id(&checked, &definition.settings);
        let mut content = Vec::new();
        new_content(&Sender::of(call), &checked, body_md5, content_id.as_deref())
            .encode(&mut content);
        let outgoing = outgoing(&checked, content_id.as_deref(), &content);
        let begun = queue.begin_send(&[outgoing]);
        // The journal has a copy, and large ones add up while they wait for their commit.
        drop(content);
        let (accepted, ticket) = begun.map_err(error::of_broker)?;
        let committed = queue.committed(ticket).await;
        committed.map_err(error::of_broker)?;
        let accepted = accepted.first().copied().ok_or_else(ApiError::internal_failure)?;
        let sent = sent_message(input, &checked, body_md5, accepted, &definition.settings);
        Ok(Answer::SendMessage(sent))
    }

    pub(super) async fn send_message_batch(
        &self,
        call: &Call<'_>,
        queue: &Arc<SharedQueue>,
        input: &SendMessageBatch<'_>,
    ) -> Result<Answer, ApiError> {
        let definition = queue.definition();
        let settings = &definition.settings;
        let entries = input.entries.as_deref().unwrap_or_default();
        batch::check(entries.iter().map(|e| e.id.as_ref()), "SendMessageBatchRequestEntry")?;
        check_fifo_batch(entries, settings)?;
        let (checked, failed) = check_entries(entries, settings)?;
        if checked.is_empty() {
            return Ok(Answer::SendMessageBatch(BatchAnswer { successful: Vec::new(), failed }));
        }
        let bodies: Vec<&[u8]> = checked.iter().map(|(_, message)| message.body).collect();
        let digests = md5_of_each(&bodies);
        let content_ids: Vec<Option<String>> =
            checked.iter().map(|(_, message)| content_id(message, settings)).collect();
        let sender = Sender::of(call);
        let new: Vec<NewContent<'_>> = (checked.iter().zip(&digests).zip(&content_ids))
            .map(|(((_, message), md5), id)| new_content(&sender, message, *md5, id.as_deref()))
            .collect();
        // One buffer for all: their stored forms are copied into the journal's a moment later.
        let mut contents = Vec::with_capacity(new.iter().map(NewContent::encoded_bytes).sum());
        let encode = |new: &NewContent<'_>| {
            new.encode(&mut contents);
            contents.len()
        };
        let ends: Vec<usize> = new.iter().map(encode).collect();
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let stored = starts.zip(&ends).map(|(start, end)| &contents[start..*end]);
        let outgoing: Vec<Outgoing<'_>> = (checked.iter().zip(&content_ids).zip(stored))
            .map(|(((_, message), id), content)| outgoing(message, id.as_deref(), content))
            .collect();
        let begun = queue.begin_send(&outgoing);
        drop(contents);
        let (accepted, ticket) = begun.map_err(error::of_broker)?;
        let committed = queue.committed(ticket).await;
        committed.map_err(error::of_broker)?;
        let successful = (checked.iter().zip(digests).zip(accepted))
            .map(|(((entry, message), body_md5), accepted)| {
                sent_message(entry, message, body_md5, accepted, settings)
            })
            .collect();
        Ok(Answer::SendMessageBatch(BatchAnswer { successful, failed }))
    }
}

/// Entries that may be stored, and those that fail. Of a FIFO batch one that fails is the error of
/// all: what comes behind a message in its group must not be accepted without it.
fn check_entries<'e>(
    entries: &'e [SendMessage<'e>],
    settings: &Settings,
) -> Result<(Vec<CheckedEntry<'e>>, Vec<FailedEntry>), ApiError> {
    let mut failed = Vec::new();
    let mut refused = None;
    let is_fifo = settings.kind == Kind::Fifo;
    let mut fail = |number: usize, entry: &SendMessage<'_>, error: ApiError| {
        let is_empty = entry.message_body.as_ref().is_none_or(|body| body.as_bytes().is_empty());
        let body = || format!("SendMessageBatchRequestEntry.{number}.MessageBody");
        if !is_fifo {
            let error = if is_empty { error::empty_value(&body()) } else { error };
            failed.push(batch::failed(entry.id.as_ref(), error));
        } else if refused.is_none() {
            refused = Some(if is_empty { ApiError::missing_parameter(&body()) } else { error });
        }
    };
    let mut checked = Vec::with_capacity(entries.len());
    let mut total_bytes = 0;
    for (number, entry) in (1..).zip(entries) {
        let body_bytes = entry.message_body.as_ref().map_or(0, |body| body.as_bytes().len());
        match check(entry, settings, Asked::InBatch) {
            Ok(message) => {
                total_bytes += message.size_bytes;
                match check_size(message.size_bytes, settings, Asked::InBatch) {
                    Ok(()) => checked.push((entry, message)),
                    Err(error) => fail(number, entry, error),
                }
            }
            Err(error) => {
                total_bytes += body_bytes;
                fail(number, entry, error);
            }
        }
    }
    if total_bytes > limits::MESSAGE_SIZE_BYTES {
        return Err(error::batch_request_too_long(total_bytes));
    }
    if let Some(error) = refused {
        return Err(error);
    }
    Ok((checked, failed))
}

/// FIFO: one entry without group or deduplication id fails the whole batch.
fn check_fifo_batch(entries: &[SendMessage<'_>], settings: &Settings) -> Result<(), ApiError> {
    if settings.kind != Kind::Fifo {
        return Ok(());
    }
    if entries.iter().any(|entry| entry.message_group_id.is_none()) {
        return Err(ApiError::invalid_parameter_value(
            "The request must contain the parameter MessageGroupId.",
        ));
    }
    let lacks_id = entries.iter().any(|entry| entry.message_deduplication_id.is_none());
    if lacks_id && !settings.content_based_deduplication {
        return Err(error::missing_deduplication_id());
    }
    Ok(())
}

/// The deduplication id of a FIFO queue's message that names none: what its body says.
fn content_id(checked: &Checked<'_>, settings: &Settings) -> Option<String> {
    let is_missing = settings.kind == Kind::Fifo && checked.deduplication_id.is_none();
    is_missing.then(|| sha256_hex(checked.body))
}

/// What is stored of a checked message whose body has that digest.
fn new_content<'r>(
    sender: &'r Sender<'_>,
    checked: &Checked<'r>,
    body_md5: [u8; 16],
    content_id: Option<&'r str>,
) -> NewContent<'r> {
    NewContent {
        body: checked.body,
        body_md5,
        attributes: checked.attributes.clone(),
        trace_header: checked.trace_header.or(sender.trace_header.as_deref()).unwrap_or_default(),
        sender: sender.id,
        deduplication_id: checked.deduplication_id.or(content_id).unwrap_or_default(),
    }
}

fn outgoing<'r>(
    checked: &Checked<'r>,
    content_id: Option<&'r str>,
    content: &'r [u8],
) -> Outgoing<'r> {
    Outgoing {
        id: MessageId::from_random(fastrand::u128(..)),
        content,
        size_bytes: checked.size_bytes,
        group: checked.group,
        deduplication_id: checked.deduplication_id.or(content_id),
        delay_s: checked.delay_s,
    }
}

/// What the answer says about an accepted message.
fn sent_message(
    input: &SendMessage<'_>,
    checked: &Checked<'_>,
    body_md5: [u8; 16],
    accepted: Accepted,
    settings: &Settings,
) -> SentMessage {
    let md5_of_message_attributes = (!checked.attributes.is_empty()).then(|| {
        let mut digest = AttributeDigest::default();
        checked.attributes.iter().for_each(|a| digest.add(a.name, a.data_type, a.value));
        digest.finish()
    });
    let md5_of_message_system_attributes = checked.trace_header.map(|header| {
        let mut digest = AttributeDigest::default();
        digest.add("AWSTraceHeader", "String", header.as_bytes());
        digest.finish()
    });
    SentMessage {
        id: input.id.as_ref().map(|id| id.as_str().to_owned()),
        message_id: accepted.id.text(),
        md5_of_message_body: body_md5,
        md5_of_message_attributes,
        md5_of_message_system_attributes,
        sequence_number: (settings.kind == Kind::Fifo).then(|| sequence_number(accepted.seq)),
    }
}
