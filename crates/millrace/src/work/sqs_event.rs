//! The event that a Lambda function gets for messages of an SQS queue.

use base64::{Engine, prelude::BASE64_STANDARD};
use millrace_client::{AttributeValue, MessageAttribute};
use millrace_core::{AttributeDigest, hex_text, md5};
use millrace_worker::Message;
use serde_json::{Map, Value, json};

/// The queue that events come from.
#[derive(Debug)]
pub(super) struct EventSource {
    queue_arn: String,
    region: String,
}

impl EventSource {
    /// `arn:<partition>:sqs:<region>:<account>:<name>`.
    pub(super) fn of_arn(queue_arn: &str) -> EventSource {
        let region = queue_arn.split(':').nth(3).unwrap_or_default().to_owned();
        EventSource { queue_arn: queue_arn.to_owned(), region }
    }

    /// An event of as many messages from the front as fit into so many bytes, one at least, and how
    /// many these are.
    pub(super) fn event(&self, messages: &[Message], most_bytes: usize) -> (String, usize) {
        let mut event = "{\"Records\":[".to_owned();
        let mut count = 0;
        for message in messages {
            let record = self.record(message).to_string();
            // A comma before it and two brackets behind.
            if count > 0 && event.len() + record.len() + 3 > most_bytes {
                break;
            }
            if count > 0 {
                event.push(',');
            }
            event.push_str(&record);
            count += 1;
        }
        event.push_str("]}");
        (event, count)
    }

    fn record(&self, message: &Message) -> Value {
        let delivery = message.delivery();
        let system = delivery.system_attributes.iter();
        let system: Map<String, Value> =
            system.map(|(name, value)| (name.to_string(), (&**value).into())).collect();
        let attributes = delivery.attributes.iter();
        let attributes: Map<String, Value> = attributes
            .map(|attribute| (attribute.name.to_string(), message_attribute(attribute)))
            .collect();
        let mut record = json!({
            "messageId": &**message.id(),
            "receiptHandle": &*delivery.handle.token,
            "body": &**message.body(),
            "attributes": system,
            "messageAttributes": attributes,
            "md5OfBody": hex_text(&md5(message.body().as_bytes())),
            "eventSource": "aws:sqs",
            "eventSourceARN": self.queue_arn,
            "awsRegion": self.region,
        });
        if !delivery.attributes.is_empty() {
            record["md5OfMessageAttributes"] = digest(&delivery.attributes).into();
        }
        record
    }
}

/// What SQS says of the same attributes as `MD5OfMessageAttributes`.
fn digest(attributes: &[MessageAttribute]) -> String {
    let mut sorted: Vec<&MessageAttribute> = attributes.iter().collect();
    sorted.sort_unstable_by_key(|attribute| &*attribute.name);
    let mut digest = AttributeDigest::default();
    for attribute in sorted {
        let value = match &attribute.value {
            AttributeValue::Text(text) => text.as_bytes(),
            AttributeValue::Binary(bytes) => bytes,
        };
        digest.add(&attribute.name, &attribute.data_type, value);
    }
    hex_text(&digest.finish())
}

fn message_attribute(attribute: &MessageAttribute) -> Value {
    let (name, value) = match &attribute.value {
        AttributeValue::Text(text) => ("stringValue", text.to_string()),
        AttributeValue::Binary(bytes) => ("binaryValue", BASE64_STANDARD.encode(bytes)),
    };
    json!({
        name: value,
        "stringListValues": [],
        "binaryListValues": [],
        "dataType": &*attribute.data_type,
    })
}
