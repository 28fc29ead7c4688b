//! An answer as a tree, and the tree in each protocol.

use crate::cbor;
use crate::date;
use crate::escape::{json_string, xml_text};

/// A value of an answer.
#[derive(Clone, Debug)]
pub(super) enum Node {
    Text(String),
    Float(f64),
    Integer(i64),
    Truth(bool),
    /// Milliseconds since 1970.
    Time(u64),
    List(Vec<Node>),
    Structure(Vec<(&'static str, Node)>),
    /// Numbers by names that are not known beforehand.
    Map(Vec<(String, f64)>),
}

impl Node {
    pub(super) fn put_json(&self, out: &mut Vec<u8>) {
        match self {
            Node::Text(text) => json_string(out, text.as_bytes()),
            Node::Float(number) => out.extend_from_slice(format!("{number:?}").as_bytes()),
            Node::Integer(number) => out.extend_from_slice(number.to_string().as_bytes()),
            Node::Truth(truth) => out.extend_from_slice(if *truth { b"true" } else { b"false" }),
            Node::Time(time_ms) => {
                out.extend_from_slice(format!("{:?}", *time_ms as f64 / 1000.0).as_bytes());
            }
            Node::List(elements) => {
                out.push(b'[');
                for (number, element) in elements.iter().enumerate() {
                    if number > 0 {
                        out.push(b',');
                    }
                    element.put_json(out);
                }
                out.push(b']');
            }
            Node::Structure(members) => put_json_object(out, members, Node::put_json),
            Node::Map(entries) => put_json_object(out, entries, |value, out| {
                Node::Float(*value).put_json(out);
            }),
        }
    }

    /// The content of an element.
    pub(super) fn put_xml(&self, out: &mut Vec<u8>) {
        match self {
            Node::Text(text) => xml_text(out, text.as_bytes()),
            Node::Float(number) => out.extend_from_slice(format!("{number:?}").as_bytes()),
            Node::Integer(number) => out.extend_from_slice(number.to_string().as_bytes()),
            Node::Truth(truth) => out.extend_from_slice(if *truth { b"true" } else { b"false" }),
            Node::Time(time_ms) if time_ms % 1000 == 0 => {
                out.extend_from_slice(date::format_iso8601(time_ms / 1000).as_bytes());
            }
            Node::Time(time_ms) => {
                out.extend_from_slice(date::format_iso8601_ms(*time_ms).as_bytes());
            }
            Node::List(elements) => {
                elements.iter().for_each(|node| node.put_element("member", out))
            }
            Node::Structure(members) => {
                members.iter().for_each(|(name, node)| node.put_element(name, out));
            }
            Node::Map(entries) => {
                for (key, value) in entries {
                    let (key, value) = (Node::Text(key.clone()), Node::Float(*value));
                    Node::Structure(vec![("key", key), ("value", value)]).put_element("entry", out);
                }
            }
        }
    }

    pub(super) fn put_cbor(&self, out: &mut Vec<u8>) {
        match self {
            Node::Text(text) => cbor::put_text(out, text),
            Node::Float(number) => cbor::put_float(out, *number),
            Node::Integer(number) => cbor::put_integer(out, *number),
            Node::Truth(truth) => cbor::put_truth(out, *truth),
            Node::Time(time_ms) => {
                // Tag 1: seconds since 1970.
                cbor::put_head(out, 6, 1);
                cbor::put_float(out, *time_ms as f64 / 1000.0);
            }
            Node::List(elements) => {
                cbor::put_head(out, 4, elements.len() as u64);
                elements.iter().for_each(|element| element.put_cbor(out));
            }
            Node::Structure(members) => {
                cbor::put_head(out, 5, members.len() as u64);
                for (name, value) in members {
                    cbor::put_text(out, name);
                    value.put_cbor(out);
                }
            }
            Node::Map(entries) => {
                cbor::put_head(out, 5, entries.len() as u64);
                for (key, value) in entries {
                    cbor::put_text(out, key);
                    cbor::put_float(out, *value);
                }
            }
        }
    }

    fn put_element(&self, name: &str, out: &mut Vec<u8>) {
        let is_empty = matches!(self, Node::List(list) if list.is_empty());
        out.push(b'<');
        out.extend_from_slice(name.as_bytes());
        if is_empty {
            out.extend_from_slice(b"/>");
            return;
        }
        out.push(b'>');
        self.put_xml(out);
        out.extend_from_slice(b"</");
        out.extend_from_slice(name.as_bytes());
        out.push(b'>');
    }
}

fn put_json_object<V>(
    out: &mut Vec<u8>,
    members: &[(impl AsRef<str>, V)],
    put: impl Fn(&V, &mut Vec<u8>),
) {
    out.push(b'{');
    for (number, (name, value)) in members.iter().enumerate() {
        if number > 0 {
            out.push(b',');
        }
        json_string(out, name.as_ref().as_bytes());
        out.push(b':');
        put(value, out);
    }
    out.push(b'}');
}
