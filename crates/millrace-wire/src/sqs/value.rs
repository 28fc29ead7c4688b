//! The values that requests are made of, and how JSON spells them: `null` counts as absent, text
//! and blobs borrow from the request where nothing is escaped, maps keep the order received.
//!
//! Collections are bounded well above what SQS allows, so that a small request cannot claim much
//! memory while the service can still say by how much a limit was exceeded.

mod object;
mod visitors;

use std::borrow::Cow;
use std::marker::PhantomData;
use std::ops::Deref;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

pub(super) use object::Object;
use visitors::{
    BlobVisitor, EntriesVisitor, IntegerVisitor, MapVisitor, MessageAttributesVisitor, TextVisitor,
    TextsVisitor,
};
pub(super) use visitors::{NULL_TAG_VALUE, STRING_FOR_INTEGER};

use super::types::MessageAttributes;
use crate::base64_text;

/// Elements of one list that are decoded at most; SQS allows 10 entries in a batch.
pub(super) const ELEMENTS_MAX: usize = 1000;

/// Message attributes of one message that are decoded at most; SQS allows 10.
pub(super) const MESSAGE_ATTRIBUTES_MAX: usize = 100;

/// Pairs of one string map that are decoded at most; SQS allows 50 tags.
pub(super) const MAP_PAIRS_MAX: usize = 1000;

/// Unicode text, borrowed from the request where nothing is escaped.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text<'a>(pub Cow<'a, str>);

/// A list of texts, of at most [`ELEMENTS_MAX`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts<'a>(pub Vec<Text<'a>>);

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

impl<'a> Deref for Texts<'a> {
    type Target = [Text<'a>];

    fn deref(&self) -> &[Text<'a>] {
        &self.0
    }
}

impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Text<'a> {
        Text(Cow::Borrowed(text))
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

impl<'de: 'a, 'a> Deserialize<'de> for Texts<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(TextsVisitor).map(Texts)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Map<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MapVisitor { null: None }).map(Map)
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
    match base64_text::decode(text.as_bytes()) {
        Some(bytes) => Ok(Some(bytes)),
        None => Err(D::Error::custom("value is not base64")),
    }
}

/// Tags, whose values may not be `null`.
pub(super) fn tags<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Map<'de>>, D::Error> {
    struct Tags<'a>(Map<'a>);

    impl<'de: 'a, 'a> Deserialize<'de> for Tags<'a> {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let visitor = MapVisitor { null: Some(NULL_TAG_VALUE) };
            deserializer.deserialize_map(visitor).map(|pairs| Tags(Map(pairs)))
        }
    }

    Ok(Option::<Tags<'de>>::deserialize(deserializer)?.map(|Tags(tags)| tags))
}

/// A list of JSON objects with at most [`ELEMENTS_MAX`] elements; `null` is none.
pub(super) fn entries<'de, D, T>(deserializer: D) -> Result<Option<Vec<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct Entries<T>(Vec<T>);

    impl<'de, T: Deserialize<'de>> Deserialize<'de> for Entries<T> {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_seq(EntriesVisitor(PhantomData)).map(Entries)
        }
    }

    Ok(Option::<Entries<T>>::deserialize(deserializer)?.map(|Entries(entries)| entries))
}
