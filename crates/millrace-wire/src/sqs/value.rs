//! The values that requests are made of, and how JSON spells them: `null` counts as absent, text
//! and blobs borrow from the request where nothing is escaped, maps keep the order received.
//!
//! Collections are bounded well above what SQS allows, so that a small request cannot claim much
//! memory while the service can still say by how much a limit was exceeded.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

use super::types::{MessageAttributeValue, MessageAttributes};

/// Entries of one batch that are decoded at most; SQS allows 10.
pub(super) const BATCH_ENTRIES_MAX: usize = 1000;

/// Message attributes of one message that are decoded at most; SQS allows 10.
pub(super) const MESSAGE_ATTRIBUTES_MAX: usize = 100;

/// Pairs of one string map that are decoded at most; SQS allows 50 tags.
pub(super) const MAP_PAIRS_MAX: usize = 1000;

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Unicode text, borrowed from the request where nothing is escaped.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text<'a>(pub Cow<'a, str>);

/// Text that may turn out not to be Unicode (a lone `\ud800` in JSON, `%FF` in a form): the bytes
/// are UTF-8 if and only if the text is.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Blob<'a>(pub Cow<'a, [u8]>);

/// Name → value, in the order received; names may repeat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Map<'a>(pub Vec<(Text<'a>, Text<'a>)>);

impl<'a> Text<'a> {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn into_owned(self) -> String {
        self.0.into_owned()
    }
}

impl<'a> Blob<'a> {
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text, if it is Unicode.
    pub fn as_str(&self) -> Option<&str> {
        str::from_utf8(&self.0).ok()
    }
}

impl<'a> Map<'a> {
    /// The value of the last pair of that name, as in JSON.
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().rev().find(|(key, _)| key.as_str() == name);
        found.map(|(_, value)| value.as_str())
    }
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Deref for Blob<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<str> for Text<'_> {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Text<'a> {
        Text(Cow::Borrowed(text))
    }
}

impl From<String> for Text<'_> {
    fn from(text: String) -> Self {
        Text(Cow::Owned(text))
    }
}

impl<'a> From<&'a str> for Blob<'a> {
    fn from(text: &'a str) -> Blob<'a> {
        Blob(Cow::Borrowed(text.as_bytes()))
    }
}

impl PartialEq<str> for Text<'_> {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl PartialEq<&str> for Text<'_> {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor).map(Text)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Blob<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // For strings serde_json hands out the bytes without insisting on UTF-8.
        deserializer.deserialize_bytes(BlobVisitor).map(Blob)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Map<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MapVisitor).map(Map)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for MessageAttributes<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MessageAttributesVisitor).map(MessageAttributes)
    }
}

/// An integer, also as a numeric string or as a fraction-free float; `null` is none.
pub(super) fn lenient_integer<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<i64>, D::Error> {
    deserializer.deserialize_any(IntegerVisitor)
}

/// Bytes from standard base64, padded or not; `null` is none.
pub(super) fn base64_bytes<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<u8>>, D::Error> {
    let Some(text) = Option::<Text<'de>>::deserialize(deserializer)? else {
        return Ok(None);
    };
    match decode_base64(text.as_bytes()) {
        Some(bytes) => Ok(Some(bytes)),
        None => Err(D::Error::custom("value is not base64")),
    }
}

/// A list of JSON objects with at most [`BATCH_ENTRIES_MAX`] elements; `null` is none.
pub(super) fn entries<'de, D, T>(deserializer: D) -> Result<Option<Vec<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct OptionalEntries<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for OptionalEntries<T> {
        type Value = Option<Vec<T>>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a list")
        }

        fn visit_none<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<Self::Value, D::Error> {
            inner.deserialize_seq(EntriesVisitor(PhantomData)).map(Some)
        }
    }

    deserializer.deserialize_option(OptionalEntries(PhantomData))
}

/// Decodes standard base64, padded or not.
pub(super) fn decode_base64(text: &[u8]) -> Option<Vec<u8>> {
    BASE64.decode(text).ok()
}

/// Deserializes a struct from a JSON object only. Derived structs accept arrays too, which no
/// AWS protocol does.
pub(super) struct Object<T>(PhantomData<T>);

impl<T> Object<T> {
    pub(super) fn new() -> Self {
        Object(PhantomData)
    }
}

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for Object<T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        T::deserialize(ObjectOnly(deserializer))
    }
}

/// Like [`Object`], with `null` as none.
struct OptionalObject<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for OptionalObject<T> {
    type Value = Option<T>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<T>, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for OptionalObject<T> {
    type Value = Option<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<Self::Value, D::Error> {
        T::deserialize(ObjectOnly(inner)).map(Some)
    }
}

/// A deserializer for which a struct is a map, never a sequence.
struct ObjectOnly<D>(D);

impl<'de, D: Deserializer<'de>> Deserializer<'de> for ObjectOnly<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(visitor)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        option unit unit_struct newtype_struct seq tuple tuple_struct map struct enum
        identifier ignored_any
    }
}

struct TextVisitor;

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

    fn visit_string<E>(self, text: String) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text))
    }
}

struct BlobVisitor;

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

struct MapVisitor;

impl<'de> Visitor<'de> for MapVisitor {
    type Value = Vec<(Text<'de>, Text<'de>)>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object of strings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut pairs = Vec::new();
        while let Some(name) = map.next_key::<Text<'de>>()? {
            let Some(value) = map.next_value_seed(Scalar)? else { continue };
            if pairs.len() == MAP_PAIRS_MAX {
                return Err(A::Error::custom("too many members in a map"));
            }
            pairs.push((name, value));
        }
        Ok(pairs)
    }
}

struct MessageAttributesVisitor;

impl<'de> Visitor<'de> for MessageAttributesVisitor {
    type Value = Vec<(Text<'de>, MessageAttributeValue<'de>)>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object of message attributes")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut pairs = Vec::new();
        while let Some(name) = map.next_key::<Text<'de>>()? {
            let value = map.next_value_seed(OptionalObject(PhantomData))?;
            let Some(value) = value else { continue };
            if pairs.len() == MESSAGE_ATTRIBUTES_MAX {
                return Err(A::Error::custom("too many message attributes"));
            }
            pairs.push((name, value));
        }
        Ok(pairs)
    }
}

struct EntriesVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for EntriesVisitor<T> {
    type Value = Vec<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Self::Value, A::Error> {
        // SQS: ten entries at most in a good batch.
        let mut entries = Vec::with_capacity(10);
        while let Some(entry) = sequence.next_element_seed(Object::new())? {
            if entries.len() == BATCH_ENTRIES_MAX {
                return Err(A::Error::custom("too many entries in a batch"));
            }
            entries.push(entry);
        }
        Ok(entries)
    }
}

struct IntegerVisitor;

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
            Err(_) => Err(E::custom("a string is not an integer")),
        }
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
}
