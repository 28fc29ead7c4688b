//! What a receive answers.

use std::fmt;
use std::marker::PhantomData;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use millrace_wire::sqs::{Map, Text};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};

use super::{json, malformed, slice, xml};
use crate::error::CallError;
use crate::message::{AttributeValue, Delivery, MessageAttribute, ReceiptHandle};
use crate::sqs::Protocol;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Received<'a> {
    #[serde(borrow, default)]
    pub(super) messages: Option<Vec<Message<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Message<'a> {
    #[serde(borrow)]
    pub(super) message_id: Text<'a>,
    #[serde(borrow)]
    pub(super) receipt_handle: Text<'a>,
    #[serde(borrow)]
    pub(super) body: Text<'a>,
    #[serde(borrow, default)]
    pub(super) attributes: Option<Map<'a>>,
    #[serde(borrow, default)]
    pub(super) message_attributes: Option<Pairs<'a, Attribute<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Attribute<'a> {
    #[serde(borrow)]
    pub(super) data_type: Text<'a>,
    #[serde(borrow, default)]
    pub(super) string_value: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) binary_value: Option<Text<'a>>,
}

/// A JSON object as a list, in the order received.
pub(super) struct Pairs<'a, V>(pub(super) Vec<(Text<'a>, V)>);

pub(in super::super) fn received(
    protocol: Protocol,
    body: &Bytes,
) -> Result<Vec<Delivery>, CallError> {
    let received = match protocol {
        Protocol::Json => json(body)?,
        Protocol::Query => xml::received(body)?,
    };
    let messages = received.messages.unwrap_or_default().into_iter();
    messages.map(|message| delivery(body, message)).collect()
}

fn delivery(body: &Bytes, message: Message<'_>) -> Result<Delivery, CallError> {
    let system = message.attributes.unwrap_or_default().0.into_iter();
    let attributes = message.message_attributes.unwrap_or_default().0.into_iter();
    Ok(Delivery {
        handle: ReceiptHandle {
            message_id: slice(body, message.message_id),
            token: slice(body, message.receipt_handle),
        },
        body: slice(body, message.body),
        system_attributes: system
            .map(|(name, value)| (slice(body, name), slice(body, value)))
            .collect(),
        attributes: attributes
            .map(|(name, attribute)| message_attribute(body, name, attribute))
            .collect::<Result<_, _>>()?,
    })
}

fn message_attribute(
    body: &Bytes,
    name: Text<'_>,
    attribute: Attribute<'_>,
) -> Result<MessageAttribute, CallError> {
    let value = match (attribute.string_value, attribute.binary_value) {
        (Some(text), _) => AttributeValue::Text(slice(body, text)),
        (None, encoded) => {
            let bytes = STANDARD.decode(encoded.unwrap_or_default().0.as_bytes());
            AttributeValue::Binary(bytes.map_err(malformed)?.into())
        }
    };
    Ok(MessageAttribute {
        name: slice(body, name),
        data_type: slice(body, attribute.data_type),
        value,
    })
}

impl<V> Default for Pairs<'_, V> {
    fn default() -> Self {
        Pairs(Vec::new())
    }
}

impl<'de: 'a, 'a, V: Deserialize<'de>> Deserialize<'de> for Pairs<'a, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Pairs<'a, V>, D::Error> {
        deserializer.deserialize_map(PairsVisitor(PhantomData))
    }
}

struct PairsVisitor<V>(PhantomData<V>);

impl<'de, V: Deserialize<'de>> Visitor<'de> for PairsVisitor<V> {
    type Value = Pairs<'de, V>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Pairs<'de, V>, M::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(Pairs(pairs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::CallErrorKind;
    use crate::message::attribute;

    #[test]
    fn deliveries_are_slices_of_the_answer() {
        let answer = Bytes::from_static(
            br#"{"Messages":[{"MessageId":"m1","ReceiptHandle":"r1","MD5OfBody":"x","Body":"plain",
            "Attributes":{"ApproximateReceiveCount":"2","SentTimestamp":"1700000000000"},
            "MessageAttributes":{"a":{"StringValue":"v","DataType":"String"},
            "b":{"BinaryValue":"AP8=","DataType":"Binary"}}},
            {"MessageId":"m2","ReceiptHandle":"r2","Body":"l\u00e4ng\n"}]}"#,
        );

        let [first, second] = received(Protocol::Json, &answer).unwrap().try_into().unwrap();

        assert!(answer.as_ptr_range().contains(&first.body.as_bytes().as_ptr()));
        assert_eq!((&*first.body, &*first.handle.token), ("plain", "r1"));
        assert_eq!(first.receive_count(), Some(2));
        assert_eq!(first.sent_at().unwrap().0, 1_700_000_000_000);
        assert_eq!(first.system_attribute(attribute::GROUP_ID), None);
        let values: Vec<_> = first.attributes.into_iter().map(|found| found.value).collect();
        let binary = AttributeValue::Binary(Bytes::from_static(&[0, 255]));
        assert_eq!(values, [AttributeValue::Text("v".into()), binary]);
        assert_eq!(&*second.body, "l\u{e4}ng\n");
    }

    #[test]
    fn empty_answers_hold_no_messages() {
        for text in ["", "{}", r#"{"Messages":null}"#, r#"{"Messages":[]}"#] {
            assert_eq!(received(Protocol::Json, &Bytes::from(text)).unwrap(), [], "{text}");
        }
    }

    #[test]
    fn null_instead_of_attributes_is_none() {
        let answer = Bytes::from_static(
            br#"{"Messages":[{"MessageId":"m","ReceiptHandle":"r","Body":"b",
            "Attributes":null,"MessageAttributes":null}]}"#,
        );

        let [delivery] = received(Protocol::Json, &answer).unwrap().try_into().unwrap();

        assert_eq!(delivery.body, "b");
        assert_eq!((delivery.system_attributes, delivery.attributes), (vec![], vec![]));
    }

    #[test]
    fn what_is_no_answer_is_malformed_and_ambiguous() {
        for text in ["<html>", r#"{"Messages":[{}]}"#, r#"{"Messages":3}"#] {
            let error = received(Protocol::Json, &Bytes::from(text)).unwrap_err();
            assert_eq!(error.kind, CallErrorKind::Malformed, "{text}");
            assert!(error.is_ambiguous);
        }
    }
}
