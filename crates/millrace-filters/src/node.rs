//! A message as a tree of keys: its attributes, or its body.
//!
//! ```text
//! {"a.b": 1, "a": {"c": [2, 3]}, "d": [{"e": 4}, {"e": 5}, 6]}
//!
//! ├ a ┬ b: 1
//! │   └ c: 2, 3
//! └ d ┬ element ─ e: 4
//!     ├ element ─ e: 5
//!     └ element: 6
//! ```

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use smallvec::{SmallVec, smallvec};

use crate::number::Number;

/// Levels of keys that a policy may name, and that are kept of a message. Bounds recursion.
pub(crate) const MAX_LEVELS: usize = 128;

/// Values of a message at one key.
#[derive(Debug, Default)]
pub(crate) struct Node<'a> {
    /// One value, or several that stand for themselves: no key is below any of them.
    pub(crate) values: Values<'a>,
    /// By name, ascending, each name once.
    members: Vec<(Cow<'a, str>, Node<'a>)>,
    /// Members of an array that is not of scalars alone. They have no elements themselves.
    pub(crate) elements: Vec<Node<'a>>,
    /// The values are an array's.
    list: bool,
}

/// Most keys have one value.
type Values<'a> = SmallVec<[Scalar<'a>; 1]>;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scalar<'a> {
    Null,
    Bool(bool),
    Number(Number),
    Text(Cow<'a, str>),
}

impl<'a> Node<'a> {
    /// Parses a body. `None`: it is not a JSON object.
    pub(crate) fn body(text: &'a str) -> Option<Self> {
        if !text.trim_start().starts_with('{') {
            return None;
        }
        match parse(text)? {
            Parsed::Object(members) => Some(Self::object(members)),
            _ => None,
        }
    }

    /// Parses the value of an attribute that is an array of scalars; `None`: it is not.
    pub(crate) fn array(text: &'a str) -> Option<Self> {
        match parse(text)? {
            Parsed::List { values, objects } if objects.is_empty() => {
                Some(Self { values: values.into(), list: true, ..Self::default() })
            }
            _ => None,
        }
    }

    pub(crate) fn scalar(value: Scalar<'a>) -> Self {
        Self { values: smallvec![value], ..Self::default() }
    }

    pub(crate) fn object(mut members: Vec<(Cow<'a, str>, Self)>) -> Self {
        unite(&mut members);
        Self { members, ..Self::default() }
    }

    pub(crate) fn members(&self) -> impl ExactSizeIterator<Item = (&str, &Node<'a>)> {
        self.members.iter().map(|(name, node)| (name.as_ref(), node))
    }

    pub(crate) fn member(&self, name: &str) -> Option<&Node<'a>> {
        let found = self.members.binary_search_by(|(other, _)| other.as_ref().cmp(name));
        found.ok().and_then(|at| self.members.get(at)).map(|(_, node)| node)
    }

    /// Returns whether something is here besides elements.
    pub(crate) fn has_own_part(&self) -> bool {
        !self.values.is_empty() || !self.members.is_empty()
    }

    /// Adds what the same name has elsewhere; members are left to [`unite`].
    fn absorb(&mut self, mut other: Self) {
        if !(self.list && other.list) {
            self.split_list();
            other.split_list();
        }
        self.values.append(&mut other.values);
        self.members.append(&mut other.members);
        self.elements.append(&mut other.elements);
    }

    fn split_list(&mut self) {
        if self.list {
            self.list = false;
            self.elements.extend(self.values.drain(..).map(Self::scalar));
        }
    }
}

impl<'a> From<Parsed<'a>> for Node<'a> {
    fn from(parsed: Parsed<'a>) -> Self {
        match parsed {
            Parsed::Scalar(value) => Self::scalar(value),
            Parsed::Object(members) => Self::object(members),
            Parsed::List { values, objects } if objects.is_empty() => {
                Self { values: values.into(), list: true, ..Self::default() }
            }
            Parsed::List { values, objects: mut elements } => {
                elements.extend(values.into_iter().map(Self::scalar));
                Self { elements, ..Self::default() }
            }
        }
    }
}

/// Sorts by name, and makes one node of all of the same name.
fn unite(members: &mut Vec<(Cow<'_, str>, Node<'_>)>) {
    members.sort_by(|(one, _), (other, _)| one.cmp(other));
    if members.windows(2).any(|pair| matches!(pair, [(one, _), (other, _)] if one == other)) {
        let mut united: Vec<(Cow<'_, str>, Node<'_>)> = Vec::new();
        let mut absorbed = false;
        for (name, node) in members.drain(..) {
            match united.last_mut() {
                Some((last, into)) if *last == name => {
                    into.absorb(node);
                    absorbed = true;
                }
                last => {
                    if let Some((_, node)) = last.filter(|_| absorbed) {
                        unite(&mut node.members);
                    }
                    absorbed = false;
                    united.push((name, node));
                }
            }
        }
        if let Some((_, node)) = united.last_mut().filter(|_| absorbed) {
            unite(&mut node.members);
        }
        *members = united;
    }
    members.shrink_to_fit();
}

/// One value of the text.
enum Parsed<'a> {
    Scalar(Scalar<'a>),
    Object(Vec<(Cow<'a, str>, Node<'a>)>),
    /// The scalars and objects of an array and of the arrays in it.
    List {
        values: Vec<Scalar<'a>>,
        objects: Vec<Node<'a>>,
    },
}

fn parse(text: &str) -> Option<Parsed<'_>> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let parsed = Reader { levels: 0 }.deserialize(&mut deserializer).ok()?;
    deserializer.end().ok()?;
    Some(parsed)
}

/// Reads a value that is this many levels of keys down.
#[derive(Clone, Copy)]
struct Reader {
    levels: usize,
}

impl<'de> DeserializeSeed<'de> for Reader {
    type Value = Parsed<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Parsed<'de>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader {
    type Value = Parsed<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Parsed<'de>, E> {
        Ok(Parsed::Scalar(Scalar::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Parsed<'de>, E> {
        Ok(Parsed::Scalar(Scalar::Bool(value)))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Parsed<'de>, E> {
        Ok(Parsed::Scalar(Scalar::Number(number.into())))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Parsed<'de>, E> {
        Ok(Parsed::Scalar(Scalar::Number(number.into())))
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Parsed<'de>, E> {
        let number = Number::from_float(number).ok_or_else(|| E::custom("number out of range"))?;
        Ok(Parsed::Scalar(Scalar::Number(number)))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Parsed<'de>, E> {
        Ok(Parsed::Scalar(Scalar::Text(Cow::Borrowed(text))))
    }

    fn visit_str<E>(self, text: &str) -> Result<Parsed<'de>, E> {
        Ok(Parsed::Scalar(Scalar::Text(Cow::Owned(text.to_owned()))))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Parsed<'de>, A::Error> {
        let (mut values, mut objects) = (Vec::new(), Vec::new());
        while let Some(element) = list.next_element_seed(self)? {
            match element {
                Parsed::Scalar(value) => values.push(value),
                Parsed::Object(members) => objects.push(Node::object(members)),
                Parsed::List { values: mut more, objects: mut others } => {
                    values.append(&mut more);
                    objects.append(&mut others);
                }
            }
        }
        Ok(Parsed::List { values, objects })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Parsed<'de>, A::Error> {
        let mut members = Vec::new();
        while let Some(name) = object.next_key_seed(NameReader)? {
            let levels = self.levels + name.split('.').count();
            if levels > MAX_LEVELS {
                object.next_value::<IgnoredAny>()?;
                continue;
            }
            let node = object.next_value_seed(Self { levels })?.into();
            members.push(nest(name, node));
        }
        Ok(Parsed::Object(members))
    }
}

/// Makes one level of each part of a dotted name.
fn nest<'a>(name: Cow<'a, str>, mut node: Node<'a>) -> (Cow<'a, str>, Node<'a>) {
    let mut rest = name;
    loop {
        let (before, last) = match &rest {
            Cow::Borrowed(name) => match name.rsplit_once('.') {
                Some((before, last)) => (Cow::Borrowed(before), Cow::Borrowed(last)),
                None => return (rest, node),
            },
            Cow::Owned(name) => match name.rsplit_once('.') {
                Some((before, last)) => {
                    (Cow::Owned(before.to_owned()), Cow::Owned(last.to_owned()))
                }
                None => return (rest, node),
            },
        };
        node = Node::object(vec![(last, node)]);
        rest = before;
    }
}

struct NameReader;

impl<'de> DeserializeSeed<'de> for NameReader {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Cow<'de, str>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for NameReader {
    type Value = Cow<'de, str>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a name")
    }

    fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Borrowed(name))
    }

    fn visit_str<E>(self, name: &str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Owned(name.to_owned()))
    }
}

impl Scalar<'_> {
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}
