//! A value of any kind, between the bytes of a protocol and the types of a service.

use std::borrow::Cow;

use super::declare::Name;

/// A value of JSON or CBOR as it was read, or of an answer as it will be written.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    Null,
    Truth(bool),
    Integer(i64),
    Float(f64),
    Text(String),
    /// Read from CBOR only: JSON has texts for them.
    Blob(Vec<u8>),
    /// Milliseconds since 1970. Never read: numbers stand for times.
    Time(i64),
    List(Vec<Node>),
    /// A list whose elements carry the name of the member in XML.
    FlatList(Vec<Node>),
    /// Names may repeat in what was read.
    Structure(Vec<(Cow<'static, str>, Node)>),
    /// Like a structure, but for XML.
    Map(Vec<(Cow<'static, str>, Node)>, &'static Name),
}

impl Node {
    /// The last member of that name, unless it is null.
    pub(super) fn member(&self, name: &str) -> Option<&Node> {
        let Node::Structure(members) = self else { return None };
        let (_, found) = members.iter().rev().find(|(other, _)| other == name)?;
        Some(found).filter(|node| !matches!(node, Node::Null))
    }
}

#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Node>() <= 40, "a body may hold a node in each of its bytes");
