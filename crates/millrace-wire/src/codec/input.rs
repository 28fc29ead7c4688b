//! The structure that a request is, however it is written.

use memchr::memchr_iter;

use super::declare::Name;
use super::node::Node;
use super::value::Value;
use super::{cbor, json};
use crate::ApiError;
use crate::protocol::Protocol;
use crate::query::{Parameters, Scope};

/// Structures of one request at most: each takes some hundred bytes, however few it is written in.
/// PutMetricData may have 1,000 data points with 30 dimensions.
pub(super) const STRUCTURES_MAX: usize = 65_536;

/// A structure: an object of JSON or CBOR, or Query parameters with a common prefix.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    Tree(&'a Node),
    Query(Scope<'a>),
}

impl Input<'_> {
    /// The member of that name, if there is one.
    ///
    /// # Errors
    ///
    /// SerializationException, in Query MalformedInput, if it has another type.
    pub fn value<T: Value>(&self, name: &Name) -> Result<Option<T>, ApiError> {
        match self {
            Input::Tree(tree) => {
                tree.member(name.wire).map(|node| T::of_node(node, name)).transpose()
            }
            Input::Query(scope) => T::of_query(*scope, name),
        }
    }
}

/// Reads a request: in Query from `parameters`, else from `body`, which is empty where an action has
/// no input. Content encodings must be undone.
///
/// # Errors
///
/// SerializationException if the body cannot be read; those of `read`.
pub fn decode<T>(
    protocol: Protocol,
    parameters: &Parameters<'_>,
    body: &[u8],
    read: impl FnOnce(&Input<'_>) -> Result<T, ApiError>,
) -> Result<T, ApiError> {
    let tree = match protocol {
        Protocol::Query | Protocol::QueryAsJson => return read(&Input::Query(parameters.scope())),
        _ if body.is_empty() => Node::Structure(Vec::new()),
        Protocol::Json => read_json(body)?,
        Protocol::Cbor => cbor::read(body, STRUCTURES_MAX).ok_or_else(|| {
            let message = format!("body is not CBOR, or has more than {STRUCTURES_MAX} structures");
            ApiError::serialization(message)
        })?,
    };
    match tree {
        Node::Structure(_) => read(&Input::Tree(&tree)),
        _ => Err(ApiError::serialization("body is not a structure")),
    }
}

fn read_json(body: &[u8]) -> Result<Node, ApiError> {
    // Braces in texts count as well, but there are few.
    if memchr_iter(b'{', body).count() > STRUCTURES_MAX {
        let message = format!("a request has at most {STRUCTURES_MAX} structures");
        return Err(ApiError::serialization(message));
    }
    json::read(body).map_err(|error| ApiError::serialization(error.to_string()))
}
