//! Publish, PublishBatch.

use std::borrow::Cow;
use std::collections::BTreeSet;

use millrace_broker::Ticket;
use millrace_core::{MessageId, limits};
use millrace_wire::ApiError;
use millrace_wire::sns::{Answer, Publish, PublishBatch, PublishBatchEntry, PublishedEntry};

use super::fan_out::{Publication, Signatures, Source};
use super::message::{Draft, Message, check_size};
use super::topic::{Snapshot, Topic};
use super::topic_attributes::MESSAGE_BYTES;
use super::window::{AcceptedId, digest, sequence_text};
use super::{Sns, error};
use crate::service::Call;
use crate::sqs::TRACE_HEADER_BYTES;

/// The answer for one message.
pub(super) struct Published {
    message_id: String,
    /// FIFO topics only.
    sequence: Option<u64>,
}

impl Sns {
    pub(super) async fn publish(
        &self,
        call: &Call<'_>,
        topic: &Topic,
        input: &Publish,
    ) -> Result<Answer, ApiError> {
        let snapshot = topic.snapshot();
        let message = Draft::of(input).checked(topic.is_fifo(), &snapshot.settings)?;
        check_size(message.size_bytes, &snapshot.settings)?;
        let (origin, trace_header) = (self.origin(call), trace_header(call));
        let source = source(&origin, trace_header.as_deref());
        let (published, ticket) = self.accept(source, topic, &snapshot, &[message]).await?;
        self.topics.committed(ticket).await?;
        let Published { message_id, sequence } =
            published.into_iter().next().ok_or_else(ApiError::internal_failure)?;
        Ok(Answer::Publish { message_id, sequence_number: sequence.map(sequence_text) })
    }

    pub(super) async fn publish_batch(
        &self,
        call: &Call<'_>,
        topic: &Topic,
        input: &PublishBatch,
    ) -> Result<Answer, ApiError> {
        let snapshot = topic.snapshot();
        check_ids(&input.entries)?;
        let messages = checked_entries(&input.entries, topic.is_fifo(), &snapshot)?;
        let (origin, trace_header) = (self.origin(call), trace_header(call));
        let source = source(&origin, trace_header.as_deref());
        let (published, ticket) = self.accept(source, topic, &snapshot, &messages).await?;
        drop(messages);
        self.topics.committed(ticket).await?;
        let successful =
            published.into_iter().zip(&input.entries).map(|(it, entry)| PublishedEntry {
                id: entry.id.clone().unwrap_or_default(),
                message_id: it.message_id,
                sequence_number: it.sequence.map(sequence_text),
            });
        Ok(Answer::PublishBatch { failed: Vec::new(), successful: successful.collect() })
    }

    /// Takes messages to all subscriptions. What is returned may be told once the ticket is
    /// committed.
    pub(super) async fn accept(
        &self,
        source: Source<'_>,
        topic: &Topic,
        snapshot: &Snapshot,
        messages: &[Message<'_>],
    ) -> Result<(Vec<Published>, Option<Ticket>), ApiError> {
        if topic.is_fifo() {
            return self.accept_in_order(topic, snapshot, source, messages);
        }
        let at_ms = self.topics.shards().now().0;
        let publication = |message| {
            let message_id = Cow::Owned(new_id());
            let signatures = Signatures::default();
            Publication { message_id, sequence: None, at_ms, message, signatures }
        };
        let mut publications: Vec<Publication<'_>> = messages.iter().map(publication).collect();
        self.fan_out.sign(snapshot, &mut publications).await;
        let ticket = self.fan_out.begin(snapshot, source, &publications, Vec::new())?;
        let published = publications.into_iter();
        let published = published
            .map(|it| Published { message_id: it.message_id.into_owned(), sequence: None });
        Ok((published.collect(), ticket))
    }

    /// The same for a FIFO topic: each message gets the next number, unless the window has its id.
    fn accept_in_order(
        &self,
        topic: &Topic,
        snapshot: &Snapshot,
        source: Source<'_>,
        messages: &[Message<'_>],
    ) -> Result<(Vec<Published>, Option<Ticket>), ApiError> {
        let mut window = topic.window();
        let now = self.topics.shards().now();
        let mut published = Vec::with_capacity(messages.len());
        let mut new: Vec<AcceptedId> = Vec::new();
        let mut publications = Vec::new();
        for message in messages {
            let group = message.group.filter(|_| snapshot.settings.is_scope_group);
            let digest = digest(group, message.deduplication_id.as_deref().unwrap_or_default());
            let earlier = new.iter().find(|it| it.digest == digest);
            if let Some(known) = earlier.or_else(|| window.find(&digest, now)) {
                let (message_id, sequence) = (known.message_id.clone(), Some(known.sequence));
                published.push(Published { message_id, sequence });
                continue;
            }
            let (message_id, sequence) = (new_id(), window.next_sequence(new.len()));
            new.push(AcceptedId {
                topic: topic.arn().to_owned(),
                digest,
                message_id: message_id.clone(),
                sequence,
                at_ms: now.0,
            });
            let sequence = Some(sequence);
            publications.push(Publication {
                message_id: Cow::Owned(message_id.clone()),
                sequence,
                at_ms: now.0,
                message,
                signatures: Signatures::default(),
            });
            published.push(Published { message_id, sequence });
        }
        if new.is_empty() {
            // Repeats of messages whose commit may still be under way.
            return Ok((published, window.latest));
        }
        let changes = window.changes(&new, now).map_err(error::of_kept)?;
        let ticket = self.fan_out.begin(snapshot, source, &publications, changes)?;
        window.appended(new, now);
        window.latest = ticket.or(window.latest);
        Ok((published, ticket))
    }
}

/// The ids of a batch, as AWS checks them before all else.
fn check_ids(entries: &[PublishBatchEntry]) -> Result<(), ApiError> {
    if entries.is_empty() {
        let message = "The batch request doesn't contain any entries.";
        return Err(error::batch("EmptyBatchRequest", message));
    }
    if entries.len() > limits::BATCH_ENTRIES {
        let message = "The batch request contains more entries than permissible.";
        return Err(error::batch("TooManyEntriesInBatchRequest", message));
    }
    let mut ids = BTreeSet::new();
    for (number, entry) in (1..).zip(entries) {
        let Some(id) = entry.id.as_deref() else {
            return Err(error::missing(&format!("publishBatchRequestEntries.{number}.member.id")));
        };
        if !ids.insert(id) {
            let message = "Two or more batch entries in the request have the same Id.";
            return Err(error::batch("BatchEntryIdsNotDistinct", message));
        }
        let fault = if id.len() > limits::BATCH_ENTRY_ID_CHARS {
            "is too long"
        } else if id.is_empty() || !millrace_core::is_plain_name(id) {
            "contains an impermissible character"
        } else {
            continue;
        };
        let message = format!("The Id of a batch entry in the batch request {fault}: {id}");
        return Err(error::batch("InvalidBatchEntryId", message));
    }
    Ok(())
}

/// All messages of a batch: one that is not allowed refuses them all.
fn checked_entries<'r>(
    entries: &'r [PublishBatchEntry],
    is_fifo: bool,
    topic: &Snapshot,
) -> Result<Vec<Message<'r>>, ApiError> {
    let mut messages = Vec::with_capacity(entries.len());
    for (number, entry) in (1..).zip(entries) {
        messages.push(Draft::of_entry(number, entry).checked(is_fifo, &topic.settings)?);
    }
    let total_bytes: usize = messages.iter().map(|message| message.size_bytes).sum();
    if total_bytes > topic.settings.message_bytes.max(MESSAGE_BYTES) {
        let message = "The length of all the messages put together is more than the limit.";
        return Err(error::batch("BatchRequestTooLong", message));
    }
    messages.iter().try_for_each(|it| check_size(it.size_bytes, &topic.settings))?;
    Ok(messages)
}

fn new_id() -> String {
    MessageId::from_random(fastrand::u128(..)).to_string()
}

fn source<'a>(origin: &'a str, trace_header: Option<&'a str>) -> Source<'a> {
    Source { origin, trace_header: trace_header.unwrap_or("") }
}

/// The trace of a request, which goes on with its messages.
fn trace_header<'a>(call: &Call<'a>) -> Option<Cow<'a, str>> {
    let given = call.request.header("x-amzn-trace-id");
    let given = given.filter(|text| text.len() <= TRACE_HEADER_BYTES).map(Cow::Borrowed);
    given.or_else(|| call.span.trace_header().map(Cow::Owned))
}

/// The topic of a Publish; other targets are not served.
pub(super) fn target(input: &Publish) -> Result<&str, ApiError> {
    if input.phone_number.is_some() {
        return Err(error::invalid_parameter(
            "PhoneNumber Reason: this server does not send text messages",
        ));
    }
    match (input.topic_arn.as_deref(), input.target_arn.as_deref()) {
        (Some(_), Some(_)) => Err(error::invalid_parameter(
            "TopicArn Reason: TopicArn and TargetArn cannot be given together",
        )),
        (None, Some(arn))
            if arn.split(':').nth(5).is_some_and(|it| it.starts_with("endpoint/")) =>
        {
            Err(error::invalid_parameter(
                "TargetArn Reason: this server does not send to mobile devices",
            ))
        }
        (Some(arn), None) | (None, Some(arn)) if !arn.is_empty() => Ok(arn),
        _ => Err(error::invalid_parameter(
            "TopicArn or TargetArn Reason: no value for required parameter",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_batches_are_checked() {
        let code = |ids: &[&str]| {
            let entry = |id: &&str| {
                let id = Some((*id).to_owned());
                PublishBatchEntry { id, ..PublishBatchEntry::default() }
            };
            let entries: Vec<PublishBatchEntry> = ids.iter().map(entry).collect();
            check_ids(&entries).err().map(|error| (error.code, error.message.into_owned()))
        };
        let long = "x".repeat(81);
        assert_eq!(code(&["a", "b-_1", &long[..80]]), None);
        assert_eq!(code(&[]).unwrap().0, "EmptyBatchRequest");
        let many: Vec<String> = (0..11).map(|n| n.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(code(&many).unwrap().0, "TooManyEntriesInBatchRequest");
        assert_eq!(code(&["a", "a"]).unwrap().0, "BatchEntryIdsNotDistinct");
        for (id, fault) in [("a b", "contains an impermissible character"), (&*long, "is too long")]
        {
            let (code, message) = code(&[id]).unwrap();
            assert_eq!(code, "InvalidBatchEntryId");
            let text = format!("The Id of a batch entry in the batch request {fault}: {id}");
            assert_eq!(message, text);
        }
    }

    #[test]
    fn only_topics_are_targets() {
        let with = |topic: Option<&str>, target: Option<&str>, phone: Option<&str>| Publish {
            topic_arn: topic.map(str::to_owned),
            target_arn: target.map(str::to_owned),
            phone_number: phone.map(str::to_owned),
            ..Publish::default()
        };
        assert_eq!(target(&with(Some("t"), None, None)), Ok("t"));
        assert_eq!(target(&with(None, Some("t"), None)), Ok("t"));
        for input in [
            with(None, None, None),
            with(Some(""), None, None),
            with(Some("t"), Some("t"), None),
            with(None, None, Some("+1")),
            with(None, Some("arn:aws:sns:us-east-1:1:endpoint/GCM/a/b"), None),
        ] {
            assert_eq!(target(&input).unwrap_err().code, "InvalidParameter");
        }
    }
}
