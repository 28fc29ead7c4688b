//! Requests as JSON. Written by hand into one buffer, because sends are the client's hot path.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use millrace_wire::json_string;

use crate::message::{AttributeValue, MessageAttribute, Outgoing, ReceiptHandle, attribute};
use crate::peer::{ReceiveRequest, SystemAttributes, Visibility};

/// The JSON around one message besides its body and attributes, generously.
const ENTRY_BYTES: usize = 128;

/// An object under construction.
struct Object {
    out: Vec<u8>,
    /// Whether the object being written has a member already.
    has_members: bool,
}

/// A send of one message; it costs the server less than a batch of one.
pub(super) fn send(queue_url: &str, message: &Outgoing) -> Bytes {
    let capacity = queue_url.len() + ENTRY_BYTES + message.size_bytes() * 9 / 8;
    let mut object = Object::new(queue_url, capacity);
    object.message(message);
    object.end()
}

pub(super) fn send_batch(queue_url: &str, messages: &[Outgoing]) -> Bytes {
    let entries = messages.iter().map(|message| ENTRY_BYTES + message.size_bytes() * 9 / 8);
    let mut object = Object::new(queue_url, queue_url.len() + entries.sum::<usize>());
    object.entries(messages, |object, message| object.message(message));
    object.end()
}

pub(super) fn receive(queue_url: &str, request: &ReceiveRequest, wait: Duration) -> Bytes {
    let mut object = Object::new(queue_url, queue_url.len() + 256);
    object.number("MaxNumberOfMessages", u64::from(request.max));
    object.number("WaitTimeSeconds", seconds(wait));
    if let Some(visibility) = request.visibility {
        object.number("VisibilityTimeout", seconds(visibility));
    }
    if request.attributes == SystemAttributes::All {
        object.raw("MessageSystemAttributeNames", br#"["All"]"#);
        // The older name too, for servers that know only that one.
        object.raw("AttributeNames", br#"["All"]"#);
        object.raw("MessageAttributeNames", br#"["All"]"#);
    }
    object.end()
}

pub(super) fn delete(queue_url: &str, handle: &ReceiptHandle) -> Bytes {
    let mut object = Object::new(queue_url, queue_url.len() + handle.token.len() + 64);
    object.text("ReceiptHandle", &handle.token);
    object.end()
}

pub(super) fn delete_batch(queue_url: &str, handles: &[ReceiptHandle]) -> Bytes {
    let entries = handles.iter().map(|handle| handle.token.len() + ENTRY_BYTES);
    let mut object = Object::new(queue_url, queue_url.len() + entries.sum::<usize>());
    object.entries(handles, |object, handle| object.text("ReceiptHandle", &handle.token));
    object.end()
}

pub(super) fn change_visibility(queue_url: &str, change: &Visibility) -> Bytes {
    let mut object = Object::new(queue_url, queue_url.len() + change.handle.token.len() + 96);
    object.visibility(change);
    object.end()
}

pub(super) fn change_visibility_batch(queue_url: &str, changes: &[Visibility]) -> Bytes {
    let entries = changes.iter().map(|change| change.handle.token.len() + ENTRY_BYTES);
    let mut object = Object::new(queue_url, queue_url.len() + entries.sum::<usize>());
    object.entries(changes, Object::visibility);
    object.end()
}

/// Whole seconds; parts of one count as one, so that nothing comes earlier than asked for.
fn seconds(duration: Duration) -> u64 {
    duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0))
}

impl Object {
    fn new(queue_url: &str, capacity: usize) -> Object {
        let mut object =
            Object { out: Vec::with_capacity(capacity + ENTRY_BYTES), has_members: false };
        object.out.push(b'{');
        object.text("QueueUrl", queue_url);
        object
    }

    fn end(mut self) -> Bytes {
        self.out.push(b'}');
        self.out.into()
    }

    fn name(&mut self, name: &str) {
        if self.has_members {
            self.out.push(b',');
        }
        self.has_members = true;
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    fn text(&mut self, name: &str, value: &str) {
        self.name(name);
        json_string(&mut self.out, value.as_bytes());
    }

    fn number(&mut self, name: &str, value: u64) {
        self.name(name);
        self.out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
    }

    fn raw(&mut self, name: &str, value: &[u8]) {
        self.name(name);
        self.out.extend_from_slice(value);
    }

    /// `Entries`; the id of an entry is its index, for the same message may be in a batch twice.
    fn entries<T>(&mut self, items: &[T], members: impl Fn(&mut Object, &T)) {
        self.name("Entries");
        self.out.push(b'[');
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.out.push(b',');
            }
            self.out.extend_from_slice(b"{\"Id\":\"");
            self.out.extend_from_slice(itoa::Buffer::new().format(index).as_bytes());
            self.out.push(b'"');
            self.has_members = true;
            members(self, item);
            self.out.push(b'}');
        }
        self.out.push(b']');
        self.has_members = true;
    }

    fn message(&mut self, message: &Outgoing) {
        self.text("MessageBody", &message.body);
        if let Some(delay) = message.delay {
            self.number("DelaySeconds", seconds(delay));
        }
        if let Some(group_id) = &message.group_id {
            self.text("MessageGroupId", group_id);
        }
        if let Some(deduplication_id) = &message.deduplication_id {
            self.text("MessageDeduplicationId", deduplication_id);
        }
        if !message.attributes.is_empty() {
            self.attributes("MessageAttributes", &message.attributes);
        }
        if let Some(trace_header) = &message.trace_header {
            let attribute = MessageAttribute::string(attribute::TRACE_HEADER, trace_header.clone());
            self.attributes("MessageSystemAttributes", &[attribute]);
        }
    }

    fn attributes(&mut self, name: &str, attributes: &[MessageAttribute]) {
        self.name(name);
        self.out.push(b'{');
        self.has_members = false;
        for attribute in attributes {
            if self.has_members {
                self.out.push(b',');
            }
            json_string(&mut self.out, attribute.name.as_bytes());
            self.out.extend_from_slice(b":{");
            self.has_members = false;
            self.text("DataType", &attribute.data_type);
            match &attribute.value {
                AttributeValue::Text(text) => self.text("StringValue", text),
                AttributeValue::Binary(bytes) => self.text("BinaryValue", &STANDARD.encode(bytes)),
            }
            self.out.push(b'}');
        }
        self.out.push(b'}');
    }

    fn visibility(&mut self, change: &Visibility) {
        self.text("ReceiptHandle", &change.handle.token);
        self.number("VisibilityTimeout", seconds(change.timeout));
    }
}

#[cfg(test)]
mod tests {
    use bytestring::ByteString;

    use super::*;

    const URL: &str = "http://h/1/q";

    fn text(bytes: Bytes) -> String {
        String::from_utf8(bytes.to_vec()).unwrap()
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
            text(send(URL, &plain)),
            r#"{"QueueUrl":"http://h/1/q","MessageBody":"say \"hi\""}"#
        );
        assert_eq!(
            text(send_batch(URL, &[plain, full])),
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
            text(delete_batch(URL, &[handle.clone(), handle])),
            concat!(
                r#"{"QueueUrl":"http://h/1/q","Entries":[{"Id":"0","ReceiptHandle":"t"},"#,
                r#"{"Id":"1","ReceiptHandle":"t"}]}"#
            )
        );
        assert_eq!(
            text(change_visibility_batch(URL, &[change])),
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
            text(receive(URL, &request, request.wait)),
            concat!(
                r#"{"QueueUrl":"http://h/1/q","MaxNumberOfMessages":3,"WaitTimeSeconds":5,"#,
                r#""VisibilityTimeout":60}"#
            )
        );
        let all = ReceiveRequest { attributes: SystemAttributes::All, ..request };
        assert!(text(receive(URL, &all, all.wait)).contains(r#""AttributeNames":["All"]"#));
    }
}
