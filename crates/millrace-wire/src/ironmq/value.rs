//! Values as clients of IronMQ write them.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::sqs::Text;

/// Headers that are read of one message or subscriber at most; five are allowed of a message.
const HEADERS_MAX: usize = 100;

/// A whole number, or one in a text. Clients write 0 or an empty text for what they do not set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Number(pub i64);

/// True or false, or a text or number that says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flag(pub bool);

/// Names and values, in the order received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers<'a>(pub Vec<(Text<'a>, Text<'a>)>);

/// A list of at most `MAX` elements; with more the request is refused.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct List<T, const MAX: usize>(pub Vec<T>);

impl Number {
    /// The number, unless it is 0, which stands for "not set".
    pub fn set(self) -> Option<i64> {
        Some(self.0).filter(|number| *number != 0)
    }

    /// The number that a text says; an empty one says 0.
    pub fn parse(text: &str) -> Option<Number> {
        match text.trim() {
            "" => Some(Number(0)),
            text => text.parse().ok().map(Number),
        }
    }
}

impl Flag {
    /// The flag that a text says.
    pub fn parse(text: &str) -> Option<Flag> {
        match text.trim() {
            text if text.eq_ignore_ascii_case("true") || text == "1" => Some(Flag(true)),
            text if text.eq_ignore_ascii_case("false") || matches!(text, "" | "0") => {
                Some(Flag(false))
            }
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Number, D::Error> {
        struct Read;

        impl Visitor<'_> for Read {
            type Value = Number;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number")
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Number, E> {
                Ok(Number(number))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Number, E> {
                Ok(Number(i64::try_from(number).unwrap_or(i64::MAX)))
            }

            fn visit_f64<E: Error>(self, number: f64) -> Result<Number, E> {
                match number.fract() == 0.0 {
                    // Saturates, and what is so large is out of every range.
                    true => Ok(Number(number as i64)),
                    false => Err(E::custom("invalid number, expected a whole one")),
                }
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Number, E> {
                Number::parse(text).ok_or_else(|| E::custom("invalid text, expected a number"))
            }
        }

        from.deserialize_any(Read)
    }
}

impl<'de> Deserialize<'de> for Flag {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Flag, D::Error> {
        struct Read;

        impl Visitor<'_> for Read {
            type Value = Flag;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true or false")
            }

            fn visit_bool<E: Error>(self, flag: bool) -> Result<Flag, E> {
                Ok(Flag(flag))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Flag, E> {
                Ok(Flag(number != 0))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Flag, E> {
                Flag::parse(text).ok_or_else(|| E::custom("invalid text, expected true or false"))
            }
        }

        from.deserialize_any(Read)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Headers<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Headers<'a>, D::Error> {
        struct Read<'a>(PhantomData<&'a ()>);

        impl<'de: 'a, 'a> Visitor<'de> for Read<'a> {
            type Value = Headers<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of texts")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Headers<'a>, A::Error> {
                let mut headers = Vec::new();
                while let Some(name) = map.next_key::<Text<'de>>()? {
                    if headers.len() == HEADERS_MAX {
                        return Err(A::Error::custom("too many headers"));
                    }
                    headers.push((name, map.next_value::<Text<'de>>()?));
                }
                Ok(Headers(headers))
            }
        }

        from.deserialize_map(Read(PhantomData))
    }
}

impl<'de, T: Deserialize<'de>, const MAX: usize> Deserialize<'de> for List<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Read<T, const MAX: usize>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for Read<T, MAX> {
            type Value = List<T, MAX>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut read = Vec::new();
                while read.len() < MAX {
                    let Some(element) = list.next_element()? else { return Ok(List(read)) };
                    read.push(element);
                }
                match list.next_element::<IgnoredAny>()? {
                    Some(_) => Err(A::Error::custom(format_args!("more than {MAX} elements"))),
                    None => Ok(List(read)),
                }
            }
        }

        from.deserialize_seq(Read(PhantomData))
    }
}
