//! Structs from JSON objects only.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeSeed, Visitor};
use serde::{Deserialize, Deserializer};

/// Deserializes a struct from a JSON object only. Derived structs accept arrays too, which no
/// AWS protocol does.
pub(in crate::sqs) struct Object<T>(PhantomData<T>);

impl<T> Object<T> {
    pub(in crate::sqs) fn new() -> Self {
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
pub(super) struct OptionalObject<T>(PhantomData<T>);

impl<T> OptionalObject<T> {
    pub(super) fn new() -> Self {
        OptionalObject(PhantomData)
    }
}

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
