//! SendMessage, SendMessageBatch.

use millrace_broker::{Accepted, Kind, NewContent, Outgoing, Settings};
use millrace_core::{AttributeDigest, MessageId, limits, md5_of_each, sha256_hex};
use millrace_wire::ApiError;
use millrace_wire::sqs::{Answer, BatchAnswer, SendMessage, SendMessageBatch, SentMessage};

use super::check::{Checked, check, check_size};
use super::side_by_side::md5_beside_others;
use super::{Sqs, SqsRequest, batch, error};

/// Sequence numbers have 20 digits; this is added to the engine's.
const SEQUENCE_BASE: u128 = 18_850_000_000_000_000_000;

/// A FIFO message's SequenceNumber.
pub(crate) fn sequence_number(seq: u64) -> u128 {
    SEQUENCE_BASE + u128::from(seq)
}

/// A message ready for the broker, and what its answer says about it.
struct Prepared<'r> {
    outgoing: Outgoing<'r>,
    sent: SentMessage,
}

impl Sqs {
    pub(super) async fn send_message(
        &self,
        request: &SqsRequest<'_>,
        input: &SendMessage<'_>,
    ) -> Result<Answer, ApiError> {
        let queue = self.queue(request, input.queue_url.as_ref())?;
        let definition = queue.definition();
        let checked = check(input, &definition.settings)?;
        check_size(checked.size_bytes, &definition.settings, "are invalid")?;
        let mut content_id = String::new();
        let hashed = (&checked, md5_beside_others(checked.body).await);
        let prepared = prepare(request, &definition.settings, hashed, &mut content_id, input);
        let accepted = self.broker.send(&queue, std::slice::from_ref(&prepared.outgoing)).await;
        let accepted = accepted.map_err(|error| error::of_broker(error, ""))?;
        let accepted = accepted.first().copied().ok_or_else(ApiError::internal_failure)?;
        Ok(Answer::SendMessage(complete(prepared.sent, accepted, &definition.settings)))
    }

    pub(super) async fn send_message_batch(
        &self,
        request: &SqsRequest<'_>,
        input: &SendMessageBatch<'_>,
    ) -> Result<Answer, ApiError> {
        let queue = self.queue(request, input.queue_url.as_ref())?;
        let definition = queue.definition();
        let settings = &definition.settings;
        let entries = input.entries.as_deref().unwrap_or_default();
        batch::check(entries.iter().map(|e| e.id.as_ref()), "SendMessageBatchRequestEntry")?;
        check_fifo_batch(entries, settings)?;
        let mut failed = Vec::new();
        let mut checked = Vec::with_capacity(entries.len());
        let mut total_bytes = 0;
        for entry in entries {
            let body_bytes = entry.message_body.as_ref().map_or(0, |body| body.as_bytes().len());
            match check(entry, settings) {
                Ok(message) => {
                    total_bytes += message.size_bytes;
                    match check_size(message.size_bytes, settings, "cannot be validated") {
                        Ok(()) => checked.push((entry, message)),
                        Err(error) => failed.push(batch::failed(entry.id.as_ref(), error)),
                    }
                }
                Err(error) => {
                    total_bytes += body_bytes;
                    failed.push(batch::failed(entry.id.as_ref(), error));
                }
            }
        }
        if total_bytes > limits::MESSAGE_SIZE_BYTES {
            return Err(error::batch_request_too_long(total_bytes));
        }
        if checked.is_empty() {
            return Ok(Answer::SendMessageBatch(BatchAnswer { successful: Vec::new(), failed }));
        }
        let mut content_ids = vec![String::new(); checked.len()];
        let (mut outgoing, mut sent) = (Vec::new(), Vec::new());
        let bodies: Vec<&[u8]> = checked.iter().map(|(_, message)| message.body).collect();
        let digests = md5_of_each(&bodies);
        let hashed = checked.iter().zip(digests).zip(&mut content_ids);
        for (((entry, message), body_md5), content_id) in hashed {
            let prepared = prepare(request, settings, (message, body_md5), content_id, entry);
            outgoing.push(prepared.outgoing);
            sent.push(prepared.sent);
        }
        let accepted = self.broker.send(&queue, &outgoing).await;
        let accepted = accepted.map_err(|error| error::of_broker(error, ""))?;
        let complete = |(sent, accepted)| complete(sent, accepted, settings);
        let successful = sent.into_iter().zip(accepted).map(complete).collect();
        Ok(Answer::SendMessageBatch(BatchAnswer { successful, failed }))
    }
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
        return Err(ApiError::invalid_parameter_value(
            "The queue should either have ContentBasedDeduplication enabled or \
             MessageDeduplicationId provided explicitly",
        ));
    }
    Ok(())
}

/// Encodes a checked message whose body has that digest. `content_id` holds a content-based deduplication id.
fn prepare<'r>(
    request: &'r SqsRequest<'_>,
    settings: &Settings,
    (checked, body_md5): (&Checked<'r>, [u8; 16]),
    content_id: &'r mut String,
    input: &SendMessage<'_>,
) -> Prepared<'r> {
    let deduplication_id: Option<&'r str> = match checked.deduplication_id {
        None if settings.kind == Kind::Fifo => {
            *content_id = sha256_hex(checked.body);
            Some(content_id.as_str())
        }
        given => given,
    };
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
    let mut content = Vec::new();
    NewContent {
        body: checked.body,
        body_md5,
        attributes: checked.attributes.clone(),
        trace_header: checked.trace_header.or(request.trace_header).unwrap_or_default(),
        sender: request.sender_id,
        deduplication_id: deduplication_id.unwrap_or_default(),
    }
    .encode(&mut content);
    Prepared {
        outgoing: Outgoing {
            id: MessageId::from_random(fastrand::u128(..)),
            content,
            size_bytes: checked.size_bytes,
            group: checked.group,
            deduplication_id,
            delay_s: checked.delay_s,
        },
        sent: SentMessage {
            id: input.id.as_ref().map(|id| id.as_str().to_owned()),
            message_id: [0; 36],
            md5_of_message_body: body_md5,
            md5_of_message_attributes,
            md5_of_message_system_attributes,
            sequence_number: None,
        },
    }
}

fn complete(sent: SentMessage, accepted: Accepted, settings: &Settings) -> SentMessage {
    let is_fifo = settings.kind == Kind::Fifo;
    SentMessage {
        message_id: accepted.id.text(),
        sequence_number: is_fifo.then(|| sequence_number(accepted.seq)),
        ..sent
    }
}
