//! Values in CBOR (RFC 8949), as far as Smithy RPC v2 uses it: maps with text keys, lists, texts,
//! bytes, numbers of any width, booleans, null, and times as tag 1. Lengths may be definite or not.

use std::borrow::Cow;
use std::convert::Infallible;

use minicbor::data::{IanaTag, Type};
use minicbor::encode;
use minicbor::{Decoder, Encoder};

use super::node::Node;

/// Values within values at most.
pub(super) const DEPTH_MAX: usize = 32;

/// Reads one value, which must be all there is. `None`: the bytes are malformed, or there are more
/// maps than `maps_max`.
pub(super) fn read(bytes: &[u8], maps_max: usize) -> Option<Node> {
    let mut reader = Reader { decoder: Decoder::new(bytes), maps_left: maps_max };
    let node = reader.value(DEPTH_MAX)?;
    (reader.decoder.position() == bytes.len()).then_some(node)
}

struct Reader<'a> {
    decoder: Decoder<'a>,
    maps_left: usize,
}

impl Reader<'_> {
    fn value(&mut self, depth: usize) -> Option<Node> {
        let depth = depth.checked_sub(1)?;
        let decoder = &mut self.decoder;
        Some(match decoder.datatype().ok()? {
            Type::Bool => Node::Truth(decoder.bool().ok()?),
            Type::Null => decoder.null().ok().map(|()| Node::Null)?,
            Type::Undefined => decoder.undefined().ok().map(|()| Node::Null)?,
            Type::F16 => Node::Float(self.half()?),
            Type::F32 => Node::Float(f64::from(decoder.f32().ok()?)),
            Type::F64 => Node::Float(decoder.f64().ok()?),
            Type::String | Type::StringIndef => Node::Text(self.text()?),
            Type::Bytes | Type::BytesIndef => {
                let mut blob = Vec::new();
                for part in decoder.bytes_iter().ok()? {
                    blob.extend_from_slice(part.ok()?);
                }
                Node::Blob(blob)
            }
            Type::Array | Type::ArrayIndef => {
                let len = decoder.array().ok()?;
                let mut elements = Vec::new();
                while self.goes_on(len, elements.len())? {
                    elements.push(self.value(depth)?);
                }
                Node::List(elements)
            }
            Type::Map | Type::MapIndef => {
                self.maps_left = self.maps_left.checked_sub(1)?;
                let len = decoder.map().ok()?;
                let mut members = Vec::new();
                while self.goes_on(len, members.len())? {
                    members.push((Cow::Owned(self.text()?), self.value(depth)?));
                }
                Node::Structure(members)
            }
            // Of times; what is tagged stands for itself.
            Type::Tag => {
                decoder.tag().ok()?;
                self.value(depth)?
            }
            Type::Simple | Type::Break | Type::Unknown(_) => return None,
            _ => {
                let number = i128::from(decoder.int().ok()?);
                i64::try_from(number).map_or(Node::Float(number as f64), Node::Integer)
            }
        })
    }

    fn text(&mut self) -> Option<String> {
        let mut text = String::new();
        for part in self.decoder.str_iter().ok()? {
            text.push_str(part.ok()?);
        }
        Some(text)
    }

    /// Tells if there is another element after `seen` of them; takes the break of an indefinite
    /// length.
    fn goes_on(&mut self, len: Option<u64>, seen: usize) -> Option<bool> {
        if let Some(len) = len {
            return Some((seen as u64) < len);
        }
        let is_break = self.decoder.datatype().ok()? == Type::Break;
        if is_break {
            self.decoder.set_position(self.decoder.position() + 1);
        }
        Some(!is_break)
    }

    /// IEEE 754 half precision. minicbor would take another crate for it.
    fn half(&mut self) -> Option<f64> {
        let begin = self.decoder.position();
        let &[_, high, low] = self.decoder.input().get(begin..begin + 3)? else { return None };
        self.decoder.set_position(begin + 3);
        let bits = u16::from_be_bytes([high, low]);
        let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 0x3ff));
        let magnitude = match exponent {
            0 => fraction * 2_f64.powi(-24),
            31 if fraction == 0.0 => f64::INFINITY,
            31 => f64::NAN,
            _ => (1.0 + fraction / 1024.0) * 2_f64.powi(exponent - 15),
        };
        Some(if bits >> 15 == 1 { -magnitude } else { magnitude })
    }
}

/// Appends the value.
pub(crate) fn put(node: &Node, out: &mut Vec<u8>) {
    let written = put_node(node, &mut Encoder::new(out));
    assert!(written.is_ok(), "a vector takes all that is written");
}

type Written = Result<(), encode::Error<Infallible>>;

fn put_node(node: &Node, out: &mut Encoder<&mut Vec<u8>>) -> Written {
    match node {
        Node::Null => out.null()?.ok(),
        Node::Truth(truth) => out.bool(*truth)?.ok(),
        Node::Integer(number) => out.i64(*number)?.ok(),
        Node::Float(number) => out.f64(*number)?.ok(),
        Node::Text(text) => out.str(text)?.ok(),
        Node::Blob(bytes) => out.bytes(bytes)?.ok(),
        Node::Time(time_ms) => out.tag(IanaTag::Timestamp)?.f64(*time_ms as f64 / 1000.0)?.ok(),
        Node::List(elements) | Node::FlatList(elements) => {
            out.array(elements.len() as u64)?;
            elements.iter().try_for_each(|element| put_node(element, out))
        }
        Node::Structure(members) | Node::Map(members, _) => {
            out.map(members.len() as u64)?;
            members.iter().try_for_each(|(name, value)| put_node(value, out.str(name)?))
        }
    }
}

#[cfg(test)]
mod tests;
