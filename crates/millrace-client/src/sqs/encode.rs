//! Requests. Each is described once, as members with the names that JSON has for them; a writer for
//! each protocol renders the description into one buffer, because sends are the client's hot path.

mod form;
mod json;

use std::time::Duration;

use bytes::Bytes;

use self::form::Form;
use self::json::Object;
use super::Protocol;
use super::client::Action;
use crate::encoding::seconds;
use crate::message::{MessageAttribute, Outgoing, ReceiptHandle, attribute};
use crate::peer::{ReceiveRequest, SystemAttributes, Visibility};

/// What stands around one message besides its body and attributes, generously.
const ENTRY_BYTES: usize = 128;

/// A request, ready to be sent.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) action: Action,
    pub(super) body: Bytes,
}

/// Renders members of one structure after the other.
trait Writer {
    fn text(&mut self, name: &'static str, value: &str);

    fn number(&mut self, name: &'static str, value: u64);

    /// A list of texts, by the name of one of them: JSON's name has an `s` more.
    fn texts(&mut self, name: &'static str, values: &[&str]);

    /// Attributes of a message, by the name of one of them.
    fn attributes(&mut self, name: &'static str, attributes: &[MessageAttribute]);

    /// The entries of a batch. The id of an entry is its index, for the same message may be in a
    /// batch twice.
    fn entries(&mut self, count: usize, members: &dyn Fn(&mut dyn Writer, usize));
}

/// A send of one message; it costs the server less than a batch of one.
pub(super) fn send(protocol: Protocol, queue_url: &str, message: &Outgoing) -> Request {
    let capacity = ENTRY_BYTES + message.size_bytes() * 9 / 8;
    write(protocol, Action::SEND_MESSAGE, queue_url, capacity, |out| put_message(out, message))
}

pub(super) fn send_batch(protocol: Protocol, queue_url: &str, messages: &[Outgoing]) -> Request {
    let entries = messages.iter().map(|message| ENTRY_BYTES + message.size_bytes() * 9 / 8);
    let (action, capacity) = (Action::SEND_MESSAGE_BATCH, entries.sum());
    write(protocol, action, queue_url, capacity, |out| put_entries(out, messages, put_message))
}

pub(super) fn receive(
    protocol: Protocol,
    queue_url: &str,
    request: &ReceiveRequest,
    wait: Duration,
) -> Request {
    write(protocol, Action::RECEIVE_MESSAGE, queue_url, 256, |out| {
        out.number("MaxNumberOfMessages", u64::from(request.max));
        out.number("WaitTimeSeconds", seconds(wait));
        if let Some(visibility) = request.visibility {
            out.number("VisibilityTimeout", seconds(visibility));
        }
        if request.attributes == SystemAttributes::All {
            out.texts("MessageSystemAttributeName", &["All"]);
            // The older name too, for servers that know only that one.
            out.texts("AttributeName", &["All"]);
            out.texts("MessageAttributeName", &["All"]);
        }
    })
}

pub(super) fn delete(protocol: Protocol, queue_url: &str, handle: &ReceiptHandle) -> Request {
    let capacity = handle.token.len() + ENTRY_BYTES;
    write(protocol, Action::DELETE_MESSAGE, queue_url, capacity, |out| put_handle(out, handle))
}

pub(super) fn delete_batch(
    protocol: Protocol,
    queue_url: &str,
    handles: &[ReceiptHandle],
) -> Request {
    let entries = handles.iter().map(|handle| handle.token.len() + ENTRY_BYTES);
    let (action, capacity) = (Action::DELETE_MESSAGE_BATCH, entries.sum());
    write(protocol, action, queue_url, capacity, |out| put_entries(out, handles, put_handle))
}

pub(super) fn change_visibility(
    protocol: Protocol,
    queue_url: &str,
    change: &Visibility,
) -> Request {
    let (action, capacity) =
        (Action::CHANGE_MESSAGE_VISIBILITY, change.handle.token.len() + ENTRY_BYTES);
    write(protocol, action, queue_url, capacity, |out| put_visibility(out, change))
}

pub(super) fn change_visibility_batch(
    protocol: Protocol,
    queue_url: &str,
    changes: &[Visibility],
) -> Request {
    let entries = changes.iter().map(|change| change.handle.token.len() + ENTRY_BYTES);
    let (action, capacity) = (Action::CHANGE_MESSAGE_VISIBILITY_BATCH, entries.sum());
    write(protocol, action, queue_url, capacity, |out| put_entries(out, changes, put_visibility))
}

/// Of the caller's queue, or that of the `owner`, an account.
pub(super) fn queue_url(protocol: Protocol, queue_name: &str, owner: Option<&str>) -> Request {
    let members = |out: &mut dyn Writer| {
        out.text("QueueName", queue_name);
        if let Some(account) = owner {
            out.text("QueueOwnerAWSAccountId", account);
        }
    };
    write_any(protocol, Action::GET_QUEUE_URL, ENTRY_BYTES, members)
}

pub(super) fn queue_attributes(protocol: Protocol, queue_url: &str, names: &[&str]) -> Request {
    let members = |out: &mut dyn Writer| out.texts("AttributeName", names);
    write(protocol, Action::GET_QUEUE_ATTRIBUTES, queue_url, ENTRY_BYTES, members)
}

/// A request about a queue; `capacity` is what the rest takes, about.
fn write(
    protocol: Protocol,
    action: Action,
    queue_url: &str,
    capacity: usize,
    members: impl FnOnce(&mut dyn Writer),
) -> Request {
    write_any(protocol, action, queue_url.len() + capacity, |out| {
        out.text("QueueUrl", queue_url);
        members(out);
    })
}

fn write_any(
    protocol: Protocol,
    action: Action,
    capacity: usize,
    members: impl FnOnce(&mut dyn Writer),
) -> Request {
    let capacity = capacity + ENTRY_BYTES;
    let body = match protocol {
        Protocol::Json => {
            let mut object = Object::new(capacity);
            members(&mut object);
            object.end()
        }
        Protocol::Query => {
            let mut form = Form::new(action.name(), capacity);
            members(&mut form);
            form.end()
        }
    };
    Request { action, body }
}

fn put_entries<T>(out: &mut dyn Writer, items: &[T], members: impl Fn(&mut dyn Writer, &T)) {
    out.entries(items.len(), &|out, index| {
        if let Some(item) = items.get(index) {
            members(out, item);
        }
    });
}

fn put_message(out: &mut dyn Writer, message: &Outgoing) {
    out.text("MessageBody", &message.body);
    if let Some(delay) = message.delay {
        out.number("DelaySeconds", seconds(delay));
    }
    if let Some(group_id) = &message.group_id {
        out.text("MessageGroupId", group_id);
    }
    if let Some(deduplication_id) = &message.deduplication_id {
        out.text("MessageDeduplicationId", deduplication_id);
    }
    if !message.attributes.is_empty() {
        out.attributes("MessageAttribute", &message.attributes);
    }
    if let Some(trace_header) = &message.trace_header {
        let attribute = MessageAttribute::string(attribute::TRACE_HEADER, trace_header.clone());
        out.attributes("MessageSystemAttribute", &[attribute]);
    }
}

fn put_handle(out: &mut dyn Writer, handle: &ReceiptHandle) {
    out.text("ReceiptHandle", &handle.token);
}

fn put_visibility(out: &mut dyn Writer, change: &Visibility) {
    put_handle(out, &change.handle);
    out.number("VisibilityTimeout", seconds(change.timeout));
}

#[cfg(test)]
mod tests {
    use bytestring::ByteString;

    use super::*;
    use crate::message::AttributeValue;

    const URL: &str = "http://h/1/q";

    fn text(request: Request) -> String {
        String::from_utf8(request.body.to_vec()).unwrap()
    }

    #[test]
    fn a_message_carries_all_that_was_given_and_nothing_else() {
        let plain = Outgoing::new("say \"hi\"");
        let full = Outgoing {
            body: "b".into(),
            delay: Some(Duration::from_millis(1500)),
            group_id: Some("g".into()),
            deduplication_id: Some("d".into()),
            attributes: vec![
                MessageAttribute::string("a", "1"),
                MessageAttribute {
                    name: "raw".into(),
                    data_type: "Binary.png".into(),
                    value: AttributeValue::Binary(Bytes::from_static(&[0, 255])),
                },
            ],
            trace_header: Some("Root=1".into()),
        };

        assert_eq!(
            text(send(Protocol::Json, URL, &plain)),
            r#"{"QueueUrl":"http://h/1/q","MessageBody":"say \"hi\""}"#
        );
        assert_eq!(
            text(send_batch(Protocol::Json, URL, &[plain, full])),
            concat!(
                r#"{"QueueUrl":"http://h/1/q","Entries":[{"Id":"0","MessageBody":"say \"hi\""},"#,
                r#"{"Id":"1","MessageBody":"b","DelaySeconds":2,"MessageGroupId":"g","#,
                r#""MessageDeduplicationId":"d","MessageAttributes":{"a":{"DataType":"String","#,
                r#""StringValue":"1"},"raw":{"DataType":"Binary.png","BinaryValue":"AP8="}},"#,
                r#""MessageSystemAttributes":{"AWSTraceHeader":{"DataType":"String","#,
                r#""StringValue":"Root=1"}}}]}"#
            )
        );
    }

    #[test]
    fn entry_ids_are_indices_even_if_handles_repeat() {
        let handle =
            ReceiptHandle { message_id: ByteString::from("m"), token: ByteString::from("t") };
        let change = Visibility { handle: handle.clone(), timeout: Duration::ZERO };

        assert_eq!(
            text(delete_batch(Protocol::Json, URL, &[handle.clone(), handle])),
            concat!(
                r#"{"QueueUrl":"http://h/1/q","Entries":[{"Id":"0","ReceiptHandle":"t"},"#,
                r#"{"Id":"1","ReceiptHandle":"t"}]}"#
            )
        );
        assert_eq!(
            text(change_visibility_batch(Protocol::Json, URL, &[change])),
            concat!(
                r#"{"QueueUrl":"http://h/1/q","Entries":[{"Id":"0","ReceiptHandle":"t","#,
                r#""VisibilityTimeout":0}]}"#
            )
        );
    }

    #[test]
    fn receives_ask_for_attributes_only_if_wanted() {
        let request = ReceiveRequest {
            max: 3,
            wait: Duration::from_secs(5),
            visibility: Some(Duration::from_secs(60)),
            attributes: SystemAttributes::None,
        };

        assert_eq!(
            text(receive(Protocol::Json, URL, &request, request.wait)),
            concat!(
                r#"{"QueueUrl":"http://h/1/q","MaxNumberOfMessages":3,"WaitTimeSeconds":5,"#,
                r#""VisibilityTimeout":60}"#
            )
        );
        let all = ReceiveRequest { attributes: SystemAttributes::All, ..request };
        assert!(
            text(receive(Protocol::Json, URL, &all, all.wait))
                .contains(r#""AttributeNames":["All"]"#)
        );
    }

    #[test]
    fn forms_have_flat_names_and_numbers_that_begin_with_one() {
        let message = Outgoing {
            attributes: vec![MessageAttribute::string("a b", "1&2")],
            ..Outgoing::new("x y+z")
        };

        assert_eq!(
            text(send_batch(Protocol::Query, "http://h/q", &[Outgoing::new("-._~"), message])),
            concat!(
                "Action=SendMessageBatch&Version=2012-11-05&QueueUrl=http%3A%2F%2Fh%2Fq",
                "&SendMessageBatchRequestEntry.1.Id=0",
                "&SendMessageBatchRequestEntry.1.MessageBody=-._~",
                "&SendMessageBatchRequestEntry.2.Id=1",
                "&SendMessageBatchRequestEntry.2.MessageBody=x%20y%2Bz",
                "&SendMessageBatchRequestEntry.2.MessageAttribute.1.Name=a%20b",
                "&SendMessageBatchRequestEntry.2.MessageAttribute.1.Value.DataType=String",
                "&SendMessageBatchRequestEntry.2.MessageAttribute.1.Value.StringValue=1%262",
            )
        );
        assert_eq!(
            text(queue_attributes(Protocol::Query, "q", &["QueueArn", "Policy"])),
            "Action=GetQueueAttributes&Version=2012-11-05&QueueUrl=q\
             &AttributeName.1=QueueArn&AttributeName.2=Policy"
        );
    }
}
