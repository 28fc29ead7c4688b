//! Answers to bytes. Each answer is described once, as members with their JSON and XML names; a
//! writer per protocol renders the description, chosen at compile time.
//!
//! Nothing is allocated beyond the growth of the output, but for two names in Query answers as
//! JSON.

mod json;
mod xml;

use super::types::{
    Answer, BatchAnswer, FailedEntry, MoveTaskResult, ReceivedAttribute, ReceivedMessage,
    SentMessage,
};
use crate::Response;
use crate::protocol::Protocol;

/// Appends the body that answers `action`. SQS speaks no CBOR; it is taken for JSON.
pub fn encode(
    answer: &Answer,
    action: &str,
    protocol: Protocol,
    request_id: &str,
    out: &mut Vec<u8>,
) {
    out.reserve(estimated_bytes(answer));
    match protocol {
        Protocol::Json | Protocol::Cbor => json::encode(answer, out),
        Protocol::Query => xml::encode(answer, action, request_id, out),
        Protocol::QueryAsJson => json::encode_of_query(answer, action, request_id, out),
    }
}

/// The whole response that answers `action`.
pub fn response(answer: &Answer, action: &str, protocol: Protocol, request_id: &str) -> Response {
    let mut response = Response::new(200, protocol.content_type(), Vec::new());
    encode(answer, action, protocol, request_id, &mut response.body);
    response.request_id = request_id.to_owned();
    response
}

/// Names of a list: as a JSON member, and as the XML element that stands once per item.
#[derive(Clone, Copy)]
struct ListNames {
    json: &'static str,
    query_json: &'static str,
    xml: &'static str,
}

/// Names of a map: as a JSON member, as the XML element that stands once per pair, and the XML
/// element of the key; that of the value is `Value`.
#[derive(Clone, Copy)]
struct MapNames {
    json: &'static str,
    xml: &'static str,
    key: &'static str,
}

/// Renders members of one object after the other. Text is UTF-8 throughout.
trait Writer {
    fn text(&mut self, name: &'static str, value: &[u8]);

    /// Text that needs no escape.
    fn plain(&mut self, name: &'static str, value: &[u8]);

    fn number(&mut self, name: &'static str, value: u64);

    fn truth(&mut self, name: &'static str, value: bool);

    fn base64(&mut self, name: &'static str, value: &[u8]);

    /// A member without value: left out, or null where the protocol says so.
    fn absent(&mut self, name: &'static str);

    /// A list of texts that is written even if it is empty, where the protocol can.
    fn texts(&mut self, names: ListNames, values: &[String]);

    /// A list of objects, left out if it is empty.
    fn objects<T>(&mut self, names: ListNames, items: &[T], members: impl Fn(&mut Self, &T));

    /// A map of texts, left out if it is empty.
    fn map<K: AsRef<[u8]>, V: AsRef<str>>(&mut self, names: MapNames, pairs: &[(K, V)]);

    /// A map whose values are objects, left out if it is empty.
    fn object_map<T>(
        &mut self,
        names: MapNames,
        items: &[T],
        key: impl Fn(&T) -> &[u8],
        members: impl Fn(&mut Self, &T),
    );
}

const SUCCESSFUL: &str = "Successful";

const FAILED: ListNames =
    ListNames { json: "Failed", query_json: "Failed", xml: "BatchResultErrorEntry" };

const QUEUE_ATTRIBUTES: MapNames = MapNames { json: "Attributes", xml: "Attribute", key: "Name" };

const MESSAGE_ATTRIBUTES: MapNames =
    MapNames { json: "MessageAttributes", xml: "MessageAttribute", key: "Name" };

const TAGS: MapNames = MapNames { json: "Tags", xml: "Tag", key: "Key" };

/// Describes the members of `answer`.
fn describe<W: Writer>(writer: &mut W, answer: &Answer) {
    match answer {
        Answer::Void => {}
        Answer::CancelMessageMoveTask { moved } => {
            writer.number("ApproximateNumberOfMessagesMoved", *moved);
        }
        Answer::ChangeMessageVisibilityBatch(batch) => {
            batch_of_ids(writer, "ChangeMessageVisibilityBatchResultEntry", batch);
        }
        Answer::CreateQueue { queue_url } | Answer::GetQueueUrl { queue_url } => {
            writer.text("QueueUrl", queue_url.as_bytes());
        }
        Answer::DeleteMessageBatch(batch) => {
            batch_of_ids(writer, "DeleteMessageBatchResultEntry", batch);
        }
        Answer::GetQueueAttributes { attributes } => writer.map(QUEUE_ATTRIBUTES, attributes),
        Answer::ListDeadLetterSourceQueues { queue_urls, next_token } => {
            let names = ListNames { json: "queueUrls", query_json: "queueUrls", xml: "QueueUrl" };
            writer.texts(names, queue_urls);
            optional_text(writer, "NextToken", next_token.as_deref());
        }
        Answer::ListMessageMoveTasks { results } => {
            let xml = "ListMessageMoveTasksResultEntry";
            let names = ListNames { json: "Results", query_json: "Results", xml };
            writer.objects(names, results, move_task);
        }
        Answer::ListQueues { queue_urls, next_token } => {
            let names = ListNames { json: "QueueUrls", query_json: "queueUrls", xml: "QueueUrl" };
            if queue_urls.is_empty() {
                writer.absent(names.query_json);
            } else {
                writer.texts(names, queue_urls);
            }
            optional_text(writer, "NextToken", next_token.as_deref());
        }
        Answer::ListQueueTags { tags } => writer.map(TAGS, tags),
        Answer::ReceiveMessage { messages } => {
            let names = ListNames { json: "Messages", query_json: "messages", xml: "Message" };
            writer.objects(names, messages, received_message);
        }
        Answer::SendMessage(sent) => sent_message(writer, sent),
        Answer::SendMessageBatch(batch) => {
            let xml = "SendMessageBatchResultEntry";
            let names = ListNames { json: SUCCESSFUL, query_json: SUCCESSFUL, xml };
            writer.objects(names, &batch.successful, sent_message);
            writer.objects(FAILED, &batch.failed, failed_entry);
        }
        Answer::StartMessageMoveTask { task_handle } => {
            writer.text("TaskHandle", task_handle.as_bytes());
        }
    }
}

fn batch_of_ids<W: Writer>(writer: &mut W, xml: &'static str, batch: &BatchAnswer<String>) {
    let names = ListNames { json: SUCCESSFUL, query_json: SUCCESSFUL, xml };
    writer.objects(names, &batch.successful, |writer, id| writer.text("Id", id.as_bytes()));
    writer.objects(FAILED, &batch.failed, failed_entry);
}

fn failed_entry<W: Writer>(writer: &mut W, entry: &FailedEntry) {
    writer.text("Id", entry.id.as_bytes());
    writer.plain("Code", entry.code.as_bytes());
    writer.text("Message", entry.message.as_bytes());
    writer.truth("SenderFault", entry.sender_fault);
}

fn sent_message<W: Writer>(writer: &mut W, sent: &SentMessage) {
    if let Some(id) = &sent.id {
        writer.text("Id", id.as_bytes());
    }
    writer.plain("MessageId", &sent.message_id);
    writer.plain("MD5OfMessageBody", &millrace_core::hex(&sent.md5_of_message_body));
    optional_digest(writer, "MD5OfMessageAttributes", sent.md5_of_message_attributes.as_ref());
    let system_digest = sent.md5_of_message_system_attributes.as_ref();
    optional_digest(writer, "MD5OfMessageSystemAttributes", system_digest);
    match sent.sequence_number {
        Some(number) => writer.plain("SequenceNumber", &sequence_digits(number)),
        None => writer.absent("SequenceNumber"),
    }
}

fn received_message<W: Writer>(writer: &mut W, message: &ReceivedMessage) {
    writer.plain("MessageId", &message.message_id);
    writer.plain("ReceiptHandle", message.receipt_handle.as_bytes());
    writer.plain("MD5OfBody", &millrace_core::hex(&message.md5_of_body));
    writer.text("Body", &message.body);
    writer.map(QUEUE_ATTRIBUTES, &message.attributes);
    let digest = message.md5_of_message_attributes.as_ref();
    optional_digest(writer, "MD5OfMessageAttributes", digest);
    let attributes = &message.message_attributes;
    writer.object_map(MESSAGE_ATTRIBUTES, attributes, attribute_name, attribute_value);
}

fn attribute_name(attribute: &ReceivedAttribute) -> &[u8] {
    &attribute.name
}

fn attribute_value<W: Writer>(writer: &mut W, attribute: &ReceivedAttribute) {
    if attribute.data_type.starts_with(b"Binary") {
        writer.base64("BinaryValue", &attribute.value);
    } else {
        writer.text("StringValue", &attribute.value);
    }
    writer.text("DataType", &attribute.data_type);
}

fn move_task<W: Writer>(writer: &mut W, task: &MoveTaskResult) {
    optional_text(writer, "TaskHandle", task.task_handle.as_deref());
    writer.plain("Status", task.status.as_bytes());
    writer.text("SourceArn", task.source_arn.as_bytes());
    optional_text(writer, "DestinationArn", task.destination_arn.as_deref());
    let per_second = task.max_number_of_messages_per_second;
    optional_number(writer, "MaxNumberOfMessagesPerSecond", per_second);
    writer.number("ApproximateNumberOfMessagesMoved", task.moved);
    optional_number(writer, "ApproximateNumberOfMessagesToMove", task.to_move);
    optional_text(writer, "FailureReason", task.failure_reason.as_deref());
    writer.number("StartedTimestamp", task.started_timestamp);
}

fn optional_text<W: Writer>(writer: &mut W, name: &'static str, value: Option<&str>) {
    match value {
        Some(text) => writer.text(name, text.as_bytes()),
        None => writer.absent(name),
    }
}

fn optional_number<W: Writer>(writer: &mut W, name: &'static str, value: Option<u64>) {
    match value {
        Some(number) => writer.number(name, number),
        None => writer.absent(name),
    }
}

#[inline(always)]
fn optional_digest<W: Writer>(writer: &mut W, name: &'static str, value: Option<&[u8; 16]>) {
    match value {
        Some(digest) => writer.plain(name, &millrace_core::hex(digest)),
        None => writer.absent(name),
    }
}

/// The last 20 decimal digits, with leading zeros.
fn sequence_digits(number: u128) -> [u8; 20] {
    let mut digits = [b'0'; 20];
    let mut rest = number;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    digits
}

/// Roughly how much room an answer takes, rather too much than too little.
fn estimated_bytes(answer: &Answer) -> usize {
    const ENVELOPE: usize = 512;
    const ENTRY: usize = 384;

    let entries = match answer {
        Answer::ReceiveMessage { messages } => messages.iter().map(message_bytes).sum(),
        Answer::SendMessageBatch(batch) => (batch.successful.len() + batch.failed.len()) * ENTRY,
        Answer::DeleteMessageBatch(batch) | Answer::ChangeMessageVisibilityBatch(batch) => {
            (batch.successful.len() + batch.failed.len()) * ENTRY
        }
        _ => 0,
    };
    ENVELOPE + entries
}

fn message_bytes(message: &ReceivedMessage) -> usize {
    const MEMBERS: usize = 384;
    const ATTRIBUTE: usize = 160;

    let attributes = message.message_attributes.iter();
    let values: usize = attributes.map(|each| each.name.len() + each.value.len() * 4 / 3).sum();
    let count = message.attributes.len() + message.message_attributes.len();
    // An eighth for escapes.
    message.body.len() * 9 / 8 + message.receipt_handle.len() + MEMBERS + count * ATTRIBUTE + values
}

#[cfg(test)]
mod tests;
