//! How serde hands the values over.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

use super::object::Object;
use super::{ELEMENTS_MAX, MAP_PAIRS_MAX, MESSAGE_ATTRIBUTES_MAX, Text};
use crate::sqs::types::MessageAttributeValue;

/// What AWS says, and we, too, of a string that is no integer.
pub(in crate::sqs) const STRING_FOR_INTEGER: &str =
    "STRING_VALUE can not be converted to an Integer";

/// What SQS says of a tag whose value is `null`.
pub(in crate::sqs) const NULL_TAG_VALUE: &str = "the parameter 'value' may not be null";

pub(super) struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Cow<'de, str>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a string")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

pub(super) struct BlobVisitor;

impl<'de> Visitor<'de> for BlobVisitor {
    type Value = Cow<'de, [u8]>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a string")
    }

    fn visit_borrowed_bytes<E>(self, bytes: &'de [u8]) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(bytes))
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Self::Value, E> {
        Ok(Cow::Owned(bytes.to_owned()))
    }
}

/// Text, or a number or a truth value as text; `null` is none.
struct ScalarVisitor;

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Option<Text<'de>>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a string")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Some(Text(Cow::Borrowed(text))))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Some(Text(Cow::Owned(text.to_owned()))))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Some(Text(Cow::Borrowed(if value { "true" } else { "false" }))))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Some(Text(Cow::Owned(value.to_string()))))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Some(Text(Cow::Owned(value.to_string()))))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Some(Text(Cow::Owned(value.to_string()))))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
}

struct Scalar;

impl<'de> DeserializeSeed<'de> for Scalar {
    type Value = Option<Text<'de>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

pub(super) struct MapVisitor {
    /// What is said of a value that is `null`; otherwise such a pair counts as absent.
    pub(super) null: Option<&'static str>,
}

impl<'de> Visitor<'de> for MapVisitor {
    type Value = Vec<(Text<'de>, Text<'de>)>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object of strings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut pairs = Vec::new();
        while let Some(name) = map.next_key::<Text<'de>>()? {
            let Some(value) = map.next_value_seed(Scalar)? else {
                if let Some(refusal) = self.null {
                    return Err(A::Error::custom(refusal));
                }
                continue;
            };
            if pairs.len() == MAP_PAIRS_MAX {
                return Err(A::Error::custom("too many members in a map"));
            }
            pairs.push((name, value));
        }
        Ok(pairs)
    }
}

pub(super) struct MessageAttributesVisitor;

impl<'de> Visitor<'de> for MessageAttributesVisitor {
    type Value = Vec<(Text<'de>, MessageAttributeValue<'de>)>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object of message attributes")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut pairs = Vec::new();
        while let Some(name) = map.next_key::<Text<'de>>()? {
            let Some(Object(value)) = map.next_value()? else { continue };
            if pairs.len() == MESSAGE_ATTRIBUTES_MAX {
                return Err(A::Error::custom("too many message attributes"));
            }
            pairs.push((name, value));
        }
        Ok(pairs)
    }
}

pub(super) struct EntriesVisitor<T>(pub(super) PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for EntriesVisitor<T> {
    type Value = Vec<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Self::Value, A::Error> {
        // SQS: ten entries at most in a good batch.
        let mut entries = Vec::with_capacity(10);
        while let Some(Object(entry)) = sequence.next_element()? {
            if entries.len() == ELEMENTS_MAX {
                return Err(A::Error::custom("too many entries in a batch"));
            }
            entries.push(entry);
        }
        Ok(entries)
    }
}

pub(super) struct TextsVisitor;

impl<'de> Visitor<'de> for TextsVisitor {
    type Value = Vec<Text<'de>>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of strings")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Self::Value, A::Error> {
        let mut texts = Vec::new();
        while let Some(text) = sequence.next_element()? {
            if texts.len() == ELEMENTS_MAX {
                return Err(A::Error::custom("too many strings in a list"));
            }
            texts.push(text);
        }
        Ok(texts)
    }
}

pub(super) struct IntegerVisitor;

impl<'de> Visitor<'de> for IntegerVisitor {
    type Value = Option<i64>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an integer")
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Some(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        match i64::try_from(value) {
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(E::invalid_value(Unexpected::Unsigned(value), &self)),
        }
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
        // 2^53: beyond it a float does not name one integer.
        if value.fract() == 0.0 && value.abs() <= 9_007_199_254_740_992.0 {
            return Ok(Some(value as i64));
        }
        Err(E::invalid_value(Unexpected::Float(value), &self))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        match text.parse() {
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(E::custom(STRING_FOR_INTEGER)),
        }
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
}
