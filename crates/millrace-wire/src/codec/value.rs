//! The kinds of members, and their place in each protocol.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::declare::{Members, Name};
use super::input::Input;
use super::node::Node;
use crate::ApiError;
use crate::query::Scope;

/// Levels of structures, lists and maps that a parameter's name may tell.
pub(super) const QUERY_DEPTH_MAX: u8 = 64;

/// A structure, which [`structures!`](crate::structures) declares.
pub trait Structure: Sized {
    /// Reads the members; errors are those of [`Input::value`].
    #[expect(clippy::missing_errors_doc, reason = "said above")]
    fn read(input: &Input<'_>) -> Result<Self, ApiError>;

    /// The members that are present.
    fn members(&self) -> Members;
}

/// A value that can be a member, or an element of a list or map: texts, numbers, booleans, times,
/// blobs, structures, lists (`Vec`) and maps (`BTreeMap`) of values.
#[expect(clippy::missing_errors_doc, reason = "those of Input::value")]
pub trait Value: Sized {
    /// Reads a value of JSON or CBOR, which is not null. `name` is that of the member.
    fn of_node(node: &Node, name: &Name) -> Result<Self, ApiError>;

    /// Reads the member of that name from parameters.
    fn of_query(scope: Scope<'_>, name: &Name) -> Result<Option<Self>, ApiError>;

    /// Reads the elements `list.1`, `list.2`, … of the member of that name.
    fn list_of_query(scope: Scope<'_>, list: &str, name: &Name) -> Result<Vec<Self>, ApiError>;

    /// The value as it is written.
    fn node(&self, name: &'static Name) -> Node;
}

/// A member of a structure: an `Option` of a [`Value`] may be absent; any other value is always
/// written, and is its default where it was not given.
#[expect(clippy::missing_errors_doc, reason = "those of Input::value")]
pub trait Member: Sized {
    fn read(input: &Input<'_>, name: &Name) -> Result<Self, ApiError>;

    /// None: the member is left out.
    fn node(&self, name: &'static Name) -> Option<Node>;
}

impl<T: Value> Member for Option<T> {
    fn read(input: &Input<'_>, name: &Name) -> Result<Self, ApiError> {
        input.value(name)
    }

    fn node(&self, name: &'static Name) -> Option<Node> {
        self.as_ref().map(|value| value.node(name))
    }
}

impl<T: Value + Default> Member for T {
    fn read(input: &Input<'_>, name: &Name) -> Result<Self, ApiError> {
        Ok(input.value(name)?.unwrap_or_default())
    }

    fn node(&self, name: &'static Name) -> Option<Node> {
        Some(Value::node(self, name))
    }
}

impl<T: Structure> Structure for Box<T> {
    fn read(input: &Input<'_>) -> Result<Self, ApiError> {
        T::read(input).map(Box::new)
    }

    fn members(&self) -> Members {
        T::members(self)
    }
}

impl<T: Structure> Value for T {
    fn of_node(node: &Node, name: &Name) -> Result<Self, ApiError> {
        match node {
            Node::Structure(_) => T::read(&Input::Tree(node)),
            _ => Err(name.wrong_type("a structure", "a list of structures")),
        }
    }

    fn of_query(scope: Scope<'_>, name: &Name) -> Result<Option<Self>, ApiError> {
        let nested = scope.nested(name.wire);
        (!nested.is_empty()).then(|| of_scope(nested)).transpose()
    }

    fn list_of_query(scope: Scope<'_>, list: &str, _: &Name) -> Result<Vec<Self>, ApiError> {
        scope.structures(list).into_iter().map(of_scope).collect()
    }

    fn node(&self, _: &'static Name) -> Node {
        self.members().into_node()
    }
}

fn of_scope<T: Structure>(scope: Scope<'_>) -> Result<T, ApiError> {
    if scope.depth() > QUERY_DEPTH_MAX {
        let message = format!("parameters have names of at most {QUERY_DEPTH_MAX} levels");
        return Err(ApiError::malformed_input(message));
    }
    T::read(&Input::Query(scope))
}

impl<T: Value> Value for Vec<T> {
    fn of_node(node: &Node, name: &Name) -> Result<Self, ApiError> {
        let Node::List(elements) = node else {
            return Err(name.wrong_type("a list", "a list of lists"));
        };
        let name = name.element();
        elements.iter().map(|element| T::of_node(element, &name)).collect()
    }

    fn of_query(scope: Scope<'_>, name: &Name) -> Result<Option<Self>, ApiError> {
        let list = if name.is_flat {
            T::list_of_query(scope, name.wire, name)?
        } else {
            T::list_of_query(scope, &format!("{}.member", name.wire), name)?
        };
        Ok((!list.is_empty() || is_sent_empty(scope, name)).then_some(list))
    }

    fn list_of_query(scope: Scope<'_>, list: &str, name: &Name) -> Result<Vec<Self>, ApiError> {
        let elements = scope.structures(list).into_iter();
        elements.map(|element| T::list_of_query(element, "member", name)).collect()
    }

    fn node(&self, name: &'static Name) -> Node {
        let elements = self.iter().map(|element| element.node(&Name::ELEMENT)).collect();
        if name.is_flat { Node::FlatList(elements) } else { Node::List(elements) }
    }
}

impl<T: Value> Value for BTreeMap<String, T> {
    fn of_node(node: &Node, name: &Name) -> Result<Self, ApiError> {
        let Node::Structure(entries) = node else {
            return Err(name.wrong_type("a map", "a list of maps"));
        };
        let name = name.element();
        let entries = entries.iter().filter(|(_, value)| !matches!(value, Node::Null));
        entries.map(|(key, value)| Ok((key.to_string(), T::of_node(value, &name)?))).collect()
    }

    fn of_query(scope: Scope<'_>, name: &Name) -> Result<Option<Self>, ApiError> {
        let map = if name.is_flat {
            entries(scope, name.wire, name)?
        } else {
            entries(scope.nested(name.wire), "entry", name)?
        };
        Ok((!map.is_empty() || is_sent_empty(scope, name)).then_some(map))
    }

    fn list_of_query(scope: Scope<'_>, list: &str, name: &Name) -> Result<Vec<Self>, ApiError> {
        let elements = scope.structures(list).into_iter();
        elements.map(|element| entries(element, "entry", name)).collect()
    }

    fn node(&self, name: &'static Name) -> Node {
        let entry =
            |(key, value): (&String, &T)| (Cow::Owned(key.clone()), value.node(&Name::ELEMENT));
        Node::Map(self.iter().map(entry).collect(), name)
    }
}

/// The entries `list.1`, `list.2`, …, each with a key and a value; one without a value is left out.
fn entries<T: Value>(
    scope: Scope<'_>,
    list: &str,
    name: &Name,
) -> Result<BTreeMap<String, T>, ApiError> {
    let value_name = Name::new(name.value);
    let mut entries = BTreeMap::new();
    for entry in scope.structures(list) {
        let key = entry.text(name.key)?.unwrap_or_default();
        if let Some(value) = T::of_query(entry, &value_name)? {
            entries.insert(key.to_owned(), value);
        }
    }
    Ok(entries)
}

/// `name=` is how clients send an empty list or map.
fn is_sent_empty(scope: Scope<'_>, name: &Name) -> bool {
    scope.bytes(name.wire).is_some_and(<[u8]>::is_empty)
}
