//! Values in the XML of the Query protocol.

use super::node::Node;
use super::scalar::float_text;
use crate::escape::xml_text;
use crate::{base64_text, date};

/// The fraction of a second in the text of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fractions {
    /// Milliseconds, unless they are none.
    AsNeeded,
    Always,
}

/// Appends the content of an element.
pub(super) fn put(node: &Node, fractions: Fractions, out: &mut Vec<u8>) {
    match node {
        Node::Null => {}
        Node::Truth(truth) => out.extend_from_slice(if *truth { b"true" } else { b"false" }),
        Node::Integer(number) => {
            out.extend_from_slice(itoa::Buffer::new().format(*number).as_bytes());
        }
        Node::Float(number) => out.extend_from_slice(float_text(*number).as_bytes()),
        Node::Text(text) => xml_text(out, text.as_bytes()),
        Node::Blob(bytes) => base64_text::append(out, bytes),
        Node::Time(time_ms) => {
            // Nothing that is answered is older than 1970.
            let time_ms = u64::try_from(*time_ms).unwrap_or_default();
            let text = match fractions {
                Fractions::AsNeeded if time_ms.is_multiple_of(1000) => {
                    date::format_iso8601(time_ms / 1000)
                }
                _ => date::format_iso8601_ms(time_ms),
            };
            out.extend_from_slice(text.as_bytes());
        }
        Node::List(elements) | Node::FlatList(elements) => {
            for element in elements {
                put_elements("member", element, fractions, out);
            }
        }
        Node::Structure(members) => {
            for (name, value) in members {
                put_elements(name, value, fractions, out);
            }
        }
        Node::Map(..) => put_entries("entry", node, fractions, out),
    }
}

/// Appends the elements that a member is: several if it is flat.
fn put_elements(tag: &str, node: &Node, fractions: Fractions, out: &mut Vec<u8>) {
    match node {
        Node::FlatList(elements) => {
            elements.iter().for_each(|element| put_elements(tag, element, fractions, out));
        }
        Node::Map(_, name) if name.is_flat => put_entries(tag, node, fractions, out),
        Node::List(elements) if elements.is_empty() => put_parts(out, &["<", tag, "/>"]),
        Node::Map(entries, _) if entries.is_empty() => put_parts(out, &["<", tag, "/>"]),
        _ => {
            put_parts(out, &["<", tag, ">"]);
            put(node, fractions, out);
            put_parts(out, &["</", tag, ">"]);
        }
    }
}

fn put_entries(tag: &str, map: &Node, fractions: Fractions, out: &mut Vec<u8>) {
    let Node::Map(entries, name) = map else { return };
    for (key, value) in entries {
        put_parts(out, &["<", tag, "><", name.key, ">"]);
        xml_text(out, key.as_bytes());
        put_parts(out, &["</", name.key, ">"]);
        put_elements(name.value, value, fractions, out);
        put_parts(out, &["</", tag, ">"]);
    }
}

pub(super) fn put_parts(out: &mut Vec<u8>, parts: &[&str]) {
    parts.iter().for_each(|part| out.extend_from_slice(part.as_bytes()));
}
