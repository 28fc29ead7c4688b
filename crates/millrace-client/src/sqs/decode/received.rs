//! What a receive answers. Messages share its bytes, unless they are a small part of them: whoever
//! keeps one message is not to keep all that came with it.

use std::fmt;
use std::marker::PhantomData;

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use bytestring::ByteString;
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
    readable(
        received.messages.unwrap_or_default().into_iter().map(|message| delivery(body, message)),
    )
}

/// The messages that can be read. One that cannot takes nothing from those that came with it: it is
/// left to its visibility timeout, and to the redrive policy in the end. An answer of nothing else
/// is an error.
fn readable(
    messages: impl ExactSizeIterator<Item = Result<Delivery, CallError>>,
) -> Result<Vec<Delivery>, CallError> {
    let mut deliveries = Vec::with_capacity(messages.len());
    let mut unread = None;
    for message in messages {
        match message {
            Ok(delivery) => deliveries.push(delivery),
            Err(error) => {
                tracing::warn!(error = error.message, "a received message cannot be read");
                unread = Some(error);
            }
        }
    }
    match unread {
        Some(error) if deliveries.is_empty() => Err(error),
        _ => Ok(deliveries),
    }
}

/// Not every server pads.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);
/// Smaller answers are shared whatever is kept of them.
const SHARED_MIN_BYTES: usize = 64 << 10;
/// Of larger ones a message shares what has at most that many times its size.
const SHARED_TIMES: usize = 2;

/// How the texts of a message outlive the answer.
enum Texts<'b> {
    Shared(&'b Bytes),
    Copied,
}

impl Texts<'_> {
    fn keep(&self, text: Text<'_>) -> ByteString {
        match self {
            Texts::Shared(answer) => slice(answer, text),
            Texts::Copied => text.into_owned().into(),
        }
    }

    fn attribute(
        &self,
        name: Text<'_>,
        attribute: Attribute<'_>,
    ) -> Result<MessageAttribute, String> {
        let value = match (attribute.string_value, attribute.binary_value) {
            (Some(text), _) => AttributeValue::Text(self.keep(text)),
            (None, encoded) => {
                let bytes = BASE64.decode(encoded.unwrap_or_default().0.as_bytes());
                let bytes = bytes.map_err(|error| format!("attribute {}: {error}", name.0))?;
                AttributeValue::Binary(bytes.into())
            }
        };
        Ok(MessageAttribute {
            name: self.keep(name),
            data_type: self.keep(attribute.data_type),
            value,
        })
    }
}

fn delivery(answer: &Bytes, message: Message<'_>) -> Result<Delivery, CallError> {
    let size_bytes = message.size_bytes();
    let may_share = answer.len() < SHARED_MIN_BYTES || answer.len() / SHARED_TIMES <= size_bytes;
    let texts = if may_share { Texts::Shared(answer) } else { Texts::Copied };
    let system = message.attributes.unwrap_or_default().0.into_iter();
    let attributes = message.message_attributes.unwrap_or_default().0.into_iter();
    let attributes = attributes.map(|(name, attribute)| texts.attribute(name, attribute));
    let attributes = attributes.collect::<Result<_, _>>().map_err(|problem| {
        malformed(format_args!("message {}: {problem}", message.message_id.0))
    })?;
    Ok(Delivery {
        handle: ReceiptHandle {
            message_id: texts.keep(message.message_id),
            token: texts.keep(message.receipt_handle),
        },
        body: texts.keep(message.body),
        system_attributes: system
            .map(|(name, value)| (texts.keep(name), texts.keep(value)))
            .collect(),
        attributes,
    })
}

impl Message<'_> {
    /// What its sender decided the size of.
    fn size_bytes(&self) -> usize {
        let of_value = |text: &Option<Text<'_>>| text.as_ref().map_or(0, |text| text.len());
        let of_attribute = |(name, attribute): &(Text<'_>, Attribute<'_>)| {
            let value = of_value(&attribute.string_value) + of_value(&attribute.binary_value);
            name.len() + attribute.data_type.len() + value
        };
        let attributes = self.message_attributes.iter().flat_map(|pairs| &pairs.0);
        self.body.len() + attributes.map(of_attribute).sum::<usize>()
    }
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

    /// An answer with messages of those bodies, and an attribute as well.
    fn answer(bodies: &[&str]) -> Bytes {
        let attributes = r#""MessageAttributes":{"a":{"StringValue":"v","DataType":"String"}}"#;
        let messages: Vec<_> = bodies
            .iter()
            .map(|body| {
                format!(r#"{{"MessageId":"m","ReceiptHandle":"r","Body":"{body}",{attributes}}}"#)
            })
            .collect();
        format!(r#"{{"Messages":[{}]}}"#, messages.join(",")).into()
    }

    fn shares(answer: &Bytes, text: &ByteString) -> bool {
        answer.as_ptr_range().contains(&text.as_bytes().as_ptr())
    }

    #[test]
    fn message_that_is_a_small_part_of_its_answer_keeps_nothing_of_it() {
        let large = "x".repeat(SHARED_MIN_BYTES);
        let answer = answer(&[&large, "small"]);

        let [first, second] = received(Protocol::Json, &answer).unwrap().try_into().unwrap();

        assert!(shares(&answer, &first.body), "most of the answer is its own");
        let ReceiptHandle { message_id, token } = &second.handle;
        let MessageAttribute { name, data_type, value } = &second.attributes[0];
        let AttributeValue::Text(value) = value else { panic!("{value:?}") };
        for (text, expected) in [
            (message_id, "m"),
            (token, "r"),
            (&second.body, "small"),
            (name, "a"),
            (data_type, "String"),
            (value, "v"),
        ] {
            assert_eq!(&**text, expected);
            assert!(!shares(&answer, text), "{text}");
        }
    }

    #[test]
    fn equal_messages_share_small_answers_only() {
        for (body_bytes, is_shared) in [(1 << 10, true), (100 << 10, false)] {
            let body = "x".repeat(body_bytes);
            let answer = answer(&[&*body; 10]);

            for delivery in received(Protocol::Json, &answer).unwrap() {
                assert_eq!(delivery.body, body);
                assert_eq!(shares(&answer, &delivery.body), is_shared, "{body_bytes}");
            }
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

    /// A message with a binary attribute that is written so.
    fn with_binary(message_id: &str, written: &str) -> String {
        format!(
            r#"{{"MessageId":"{message_id}","ReceiptHandle":"r","Body":"b","MessageAttributes":
            {{"a":{{"BinaryValue":"{written}","DataType":"Binary"}}}}}}"#
        )
    }

    #[test]
    fn message_that_cannot_be_read_takes_nothing_from_the_others() {
        let [good, bad] = [with_binary("good", "AP8"), with_binary("bad", "?")];
        let answer = |messages: &str| Bytes::from(format!(r#"{{"Messages":[{messages}]}}"#));

        let some = received(Protocol::Json, &answer(&format!("{bad},{good},{bad}"))).unwrap();
        let none = received(Protocol::Json, &answer(&bad)).unwrap_err();

        assert_eq!(some.iter().map(|found| &**found.message_id()).collect::<Vec<_>>(), ["good"]);
        let binary = AttributeValue::Binary(Bytes::from_static(&[0, 255]));
        assert_eq!(some[0].attributes[0].value, binary);
        assert_eq!(none.kind, CallErrorKind::Malformed);
        assert!(none.message.contains("message bad: attribute a: "), "{}", none.message);
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
