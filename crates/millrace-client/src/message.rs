//! Messages on their way out and in. Texts are [`ByteString`]s, as a rule slices of the answer that
//! they came in: cloning one copies nothing.

use std::time::Duration;

use bytes::Bytes;
use bytestring::ByteString;
use millrace_core::Timestamp;

/// A message to send.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outgoing {
    pub body: ByteString,
    /// Whole seconds on the wire, rounded up; the queue's own delay unless given.
    pub delay: Option<Duration>,
    /// Required on FIFO queues.
    pub group_id: Option<ByteString>,
    /// FIFO queues only; with content-based deduplication it may be left out.
    pub deduplication_id: Option<ByteString>,
    pub attributes: Vec<MessageAttribute>,
    /// SQS: the system attribute `AWSTraceHeader`, which counts for no limit.
    pub trace_header: Option<ByteString>,
}

/// What the server says about an accepted message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    pub message_id: ByteString,
    /// FIFO queues only.
    pub sequence_number: Option<ByteString>,
}

/// A received message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delivery {
    /// What to delete it with, or to change its visibility.
    pub handle: ReceiptHandle,
    pub body: ByteString,
    /// What the server keeps about the message, by the names of [`attribute`].
    pub system_attributes: Vec<(ByteString, ByteString)>,
    pub attributes: Vec<MessageAttribute>,
}

/// Names one receive of one message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReceiptHandle {
    pub message_id: ByteString,
    /// SQS: the receipt handle. IronMQ v3: the reservation id. IronMQ v1: empty.
    pub token: ByteString,
}

/// A message attribute: what the sender adds to the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageAttribute {
    pub name: ByteString,
    /// `String`, `Number` or `Binary`, with or without a label after a dot.
    pub data_type: ByteString,
    pub value: AttributeValue,
}

/// The value of a message attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeValue {
    Text(ByteString),
    Binary(Bytes),
}

/// Names of system attributes.
pub mod attribute {
    pub const RECEIVE_COUNT: &str = "ApproximateReceiveCount";
    pub const FIRST_RECEIVED: &str = "ApproximateFirstReceiveTimestamp";
    pub const SENT: &str = "SentTimestamp";
    pub const SENDER_ID: &str = "SenderId";
    pub const GROUP_ID: &str = "MessageGroupId";
    pub const DEDUPLICATION_ID: &str = "MessageDeduplicationId";
    pub const SEQUENCE_NUMBER: &str = "SequenceNumber";
    pub const TRACE_HEADER: &str = "AWSTraceHeader";
    pub const DEAD_LETTER_SOURCE: &str = "DeadLetterQueueSourceArn";
}

impl Outgoing {
    /// A message that is only a body.
    pub fn new(body: impl Into<ByteString>) -> Outgoing {
        Outgoing { body: body.into(), ..Outgoing::default() }
    }

    /// What the server counts: body, and names, types and values of attributes.
    pub fn size_bytes(&self) -> usize {
        size_bytes(&self.body, &self.attributes)
    }
}

impl Delivery {
    pub fn message_id(&self) -> &ByteString {
        &self.handle.message_id
    }

    /// What its sender decided the size of: body, and names, types and values of attributes.
    pub fn size_bytes(&self) -> usize {
        size_bytes(&self.body, &self.attributes)
    }

    /// A system attribute, if the server gave it.
    pub fn system_attribute(&self, name: &str) -> Option<&ByteString> {
        self.system_attributes.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// How often it was received, this time included; `None` if the server does not say.
    pub fn receive_count(&self) -> Option<u32> {
        self.system_attribute(attribute::RECEIVE_COUNT)?.parse().ok()
    }

    /// When it was sent, by the server's clock.
    pub fn sent_at(&self) -> Option<Timestamp> {
        self.timestamp(attribute::SENT)
    }

    /// When it was received for the first time, by the server's clock.
    pub fn first_received_at(&self) -> Option<Timestamp> {
        self.timestamp(attribute::FIRST_RECEIVED)
    }

    pub fn group_id(&self) -> Option<&ByteString> {
        self.system_attribute(attribute::GROUP_ID)
    }

    fn timestamp(&self, name: &str) -> Option<Timestamp> {
        self.system_attribute(name)?.parse().ok().map(Timestamp)
    }
}

impl MessageAttribute {
    /// An attribute of type `String`.
    pub fn string(name: impl Into<ByteString>, value: impl Into<ByteString>) -> MessageAttribute {
        MessageAttribute {
            name: name.into(),
            data_type: ByteString::from_static("String"),
            value: AttributeValue::Text(value.into()),
        }
    }

    fn size_bytes(&self) -> usize {
        let value = match &self.value {
            AttributeValue::Text(text) => text.len(),
            AttributeValue::Binary(bytes) => bytes.len(),
        };
        self.name.len() + self.data_type.len() + value
    }
}

fn size_bytes(body: &str, attributes: &[MessageAttribute]) -> usize {
    body.len() + attributes.iter().map(MessageAttribute::size_bytes).sum::<usize>()
}
