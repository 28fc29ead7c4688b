//! Values in JSON.

use std::borrow::Cow;
use std::fmt;

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::node::Node;
use super::scalar::float_text;
use crate::base64_text;
use crate::escape::json_string;

/// Reads one value, which must be all there is.
pub(super) fn read(body: &[u8]) -> Result<Node, serde_json::Error> {
    serde_json::from_slice(body)
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Node, E> {
        Ok(Node::Truth(truth))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Node, E> {
        Ok(Node::Integer(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Node, E> {
        Ok(i64::try_from(number).map_or(Node::Float(number as f64), Node::Integer))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Node, E> {
        Ok(Node::Float(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Node, E> {
        Ok(Node::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = access.next_element()? {
            elements.push(element);
        }
        Ok(Node::List(elements))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut members = Vec::new();
        while let Some((name, value)) = access.next_entry::<String, Node>()? {
            members.push((Cow::Owned(name), value));
        }
        Ok(Node::Structure(members))
    }
}

/// Appends the value.
pub(crate) fn put(node: &Node, out: &mut Vec<u8>) {
    match node {
        Node::Null => out.extend_from_slice(b"null"),
        Node::Truth(truth) => out.extend_from_slice(if *truth { b"true" } else { b"false" }),
        Node::Integer(number) => {
            out.extend_from_slice(itoa::Buffer::new().format(*number).as_bytes());
        }
        Node::Float(number) if number.is_finite() => {
            out.extend_from_slice(float_text(*number).as_bytes());
        }
        Node::Float(number) => json_string(out, float_text(*number).as_bytes()),
        Node::Text(text) => json_string(out, text.as_bytes()),
        Node::Blob(bytes) => {
            out.push(b'"');
            base64_text::append(out, bytes);
            out.push(b'"');
        }
        Node::Time(time_ms) => {
            out.extend_from_slice(float_text(*time_ms as f64 / 1000.0).as_bytes());
        }
        Node::List(elements) | Node::FlatList(elements) => {
            out.push(b'[');
            for (number, element) in elements.iter().enumerate() {
                if number > 0 {
                    out.push(b',');
                }
                put(element, out);
            }
            out.push(b']');
        }
        Node::Structure(members) | Node::Map(members, _) => {
            out.push(b'{');
            for (number, (name, value)) in members.iter().enumerate() {
                if number > 0 {
                    out.push(b',');
                }
                json_string(out, name.as_bytes());
                out.push(b':');
                put(value, out);
            }
            out.push(b'}');
        }
    }
}
