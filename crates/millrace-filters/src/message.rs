//! Messages that filter policies are matched against.

use std::borrow::Cow;
use std::cell::OnceCell;

use crate::Scope;
use crate::node::{Node, Scalar};
use crate::number::Number;

/// A published message. Attributes and body are parsed when a policy first asks for them, and once.
#[derive(Debug)]
pub struct Message<'a> {
    body: &'a str,
    attributes: Vec<Attribute<'a>>,
    parsed_body: OnceCell<Option<Node<'a>>>,
    parsed_attributes: OnceCell<Option<Node<'a>>>,
}

/// A message attribute.
#[derive(Clone, Copy, Debug)]
pub struct Attribute<'a> {
    pub name: &'a str,
    pub kind: AttributeKind,
    /// The value as the publisher wrote it; of a Binary attribute it is not looked at.
    pub value: &'a str,
}

/// A data type as far as policies tell types apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttributeKind {
    String,
    /// A JSON array of strings, numbers, booleans and nulls, as text.
    StringArray,
    Number,
    Binary,
}

impl<'a> Message<'a> {
    /// `body` is the message as it was published, whatever its form.
    pub fn new(body: &'a str, attributes: Vec<Attribute<'a>>) -> Self {
        let (parsed_body, parsed_attributes) = (OnceCell::new(), OnceCell::new());
        Self { body, attributes, parsed_body, parsed_attributes }
    }

    /// Returns whether a policy of this scope can be applied at all: the body is a JSON object, or
    /// each String.Array is an array. No policy of the scope matches otherwise.
    pub fn is_readable(&self, scope: Scope) -> bool {
        self.tree(scope).is_some()
    }

    pub(crate) fn tree(&self, scope: Scope) -> Option<&Node<'a>> {
        let tree = match scope {
            Scope::MessageBody => self.parsed_body.get_or_init(|| Node::body(self.body)),
            Scope::MessageAttributes => {
                self.parsed_attributes.get_or_init(|| attributes(&self.attributes))
            }
        };
        tree.as_ref()
    }

    #[cfg(test)]
    pub(crate) fn is_parsed(&self, scope: Scope) -> bool {
        match scope {
            Scope::MessageBody => self.parsed_body.get().is_some(),
            Scope::MessageAttributes => self.parsed_attributes.get().is_some(),
        }
    }
}

impl AttributeKind {
    /// Reads a data type of the API, which may end in a label of the user's: `Number.float`.
    pub fn of(data_type: &str) -> Self {
        if data_type == "String.Array" {
            return Self::StringArray;
        }
        match data_type.split_once('.').map_or(data_type, |(kind, _)| kind) {
            "String" => Self::String,
            "Number" => Self::Number,
            _ => Self::Binary,
        }
    }
}

fn attributes<'a>(attributes: &[Attribute<'a>]) -> Option<Node<'a>> {
    let mut members = Vec::with_capacity(attributes.len());
    for Attribute { name, kind, value } in attributes {
        let text = || Scalar::Text(Cow::Borrowed(*value));
        let node = match kind {
            AttributeKind::String => Node::scalar(text()),
            AttributeKind::Number => {
                Node::scalar(Number::parse(value).map_or_else(text, Scalar::Number))
            }
            AttributeKind::StringArray => Node::array(value)?,
            AttributeKind::Binary => continue,
        };
        members.push((Cow::Borrowed(*name), node));
    }
    Some(Node::object(members))
}
