//! Query parameters to typed requests. Lists and maps are flattened and have singular names, or
//! plural ones.

use std::borrow::Cow;

use serde::de::IgnoredAny;

use super::types::{Action, MessageAttributes};
use super::value::{Blob, ELEMENTS_MAX, MAP_PAIRS_MAX, MESSAGE_ATTRIBUTES_MAX, Map, Text, Texts};
use crate::query::{Parameters, Scope};
use crate::{ApiError, base64_text};

/// Parameters of one request at most. A batch of ten messages with ten attributes each has some
/// 400; each takes ten times what it is written in, for as long as a long poll waits.
const PARAMETERS_MAX: usize = 4_096;

/// Decodes the parameters of a request for `action`, the value of its parameter of that name.
/// Everything is borrowed from `parameters`. Values of the wrong type are MalformedInput, the
/// Query form of JSON's SerializationException; too many parameters are a MalformedQueryString.
pub fn decode_query<'p>(
    action: &str,
    parameters: &'p Parameters<'_>,
) -> Result<Action<'p>, ApiError> {
    if parameters.len() > PARAMETERS_MAX {
        let message = format!("a request has at most {PARAMETERS_MAX} parameters");
        return Err(ApiError::malformed_query_string(message));
    }
    Action::from_query(action, parameters.scope())
}

/// A structure that parameters tell.
pub(super) trait FromQuery<'p>: Sized {
    fn from_query(scope: Scope<'p>) -> Result<Self, ApiError>;
}

/// The entries of a batch. `name=` is how an empty batch is sent.
pub(super) fn entries<'p, T: FromQuery<'p>>(
    scope: Scope<'p>,
    name: &str,
) -> Result<Option<Vec<T>>, ApiError> {
    let structures = scope.strict_structures(name)?;
    if structures.is_empty() {
        return Ok(scope.bytes(name).map(|_| Vec::new()));
    }
    check_count(name, structures.len(), ELEMENTS_MAX)?;
    structures.into_iter().map(T::from_query).collect::<Result<_, _>>().map(Some)
}

pub(super) fn message_attributes<'p>(
    scope: Scope<'p>,
    name: &str,
) -> Result<Option<MessageAttributes<'p>>, ApiError> {
    let structures = numbered_or_single(scope, name, "Name")?;
    if structures.is_empty() {
        return Ok(None);
    }
    check_count(name, structures.len(), MESSAGE_ATTRIBUTES_MAX)?;
    let mut attributes = Vec::with_capacity(structures.len());
    for attribute in structures {
        let value = FromQuery::from_query(attribute.nested("Value"))?;
        attributes.push((text(attribute, "Name")?.unwrap_or_default(), value));
    }
    Ok(Some(MessageAttributes(attributes)))
}

/// The pairs `name.N.<key>`, `name.N.Value`; a missing half is empty, but for the value of an
/// attribute: an empty one removes it.
fn map<'p>(scope: Scope<'p>, name: &str, key: &str) -> Result<Option<Map<'p>>, ApiError> {
    let structures = numbered_or_single(scope, name, key)?;
    if structures.is_empty() {
        // As recorded of Amazon; what it says of tags is not known.
        if name == "Attribute" && scope.bytes(name).is_some_and(<[u8]>::is_empty) {
            return Err(ApiError::malformed_input("End of list found where not expected"));
        }
        return Ok(None);
    }
    check_count(name, structures.len(), MAP_PAIRS_MAX)?;
    let mut pairs = Vec::with_capacity(structures.len());
    for pair in structures {
        let value = text(pair, "Value")?;
        if value.is_none() && name == "Attribute" {
            return Err(ApiError::missing_parameter("Attribute.Value"));
        }
        pairs.push((text(pair, key)?.unwrap_or_default(), value.unwrap_or_default()));
    }
    Ok(Some(Map(pairs)))
}

pub(super) fn attributes<'p>(scope: Scope<'p>, name: &str) -> Result<Option<Map<'p>>, ApiError> {
    map(scope, name, "Name")
}

/// `Tag.N.…`, or `Tags.N.…` as the SDKs for Java write it in TagQueue.
pub(super) fn tags<'p>(scope: Scope<'p>, name: &str) -> Result<Option<Map<'p>>, ApiError> {
    map(scope, name, "Key")
}

/// Very old clients leave out the number of a single pair.
fn numbered_or_single<'p>(
    scope: Scope<'p>,
    name: &str,
    key: &str,
) -> Result<Vec<Scope<'p>>, ApiError> {
    let refusal = match scope.strict_structures(name) {
        Ok(structures) => return Ok(structures),
        Err(refusal) => refusal,
    };
    let single = scope.nested_or_plural(name);
    if single.bytes(key).is_none() {
        return Err(refusal);
    }
    let structures = scope.structures(name);
    Ok(if structures.is_empty() { vec![single] } else { structures })
}

fn check_count(name: &str, count: usize, limit: usize) -> Result<(), ApiError> {
    if count <= limit {
        return Ok(());
    }
    Err(ApiError::malformed_input(format!("there are too many elements of {name}")))
}

pub(super) fn text<'p>(scope: Scope<'p>, name: &str) -> Result<Option<Text<'p>>, ApiError> {
    Ok(scope.text(name)?.map(Text::from))
}

pub(super) fn texts<'p>(scope: Scope<'p>, name: &str) -> Result<Option<Texts<'p>>, ApiError> {
    let list = scope.strict_list(name)?;
    check_count(name, list.as_ref().map_or(0, Vec::len), ELEMENTS_MAX)?;
    Ok(list.map(|elements| Texts(elements.into_iter().map(Text::from).collect())))
}

pub(super) fn integer(scope: Scope<'_>, name: &str) -> Result<Option<i64>, ApiError> {
    scope.integer(name)
}

pub(super) fn blob<'p>(scope: Scope<'p>, name: &str) -> Result<Option<Blob<'p>>, ApiError> {
    Ok(scope.bytes(name).map(|bytes| Blob(Cow::Borrowed(bytes))))
}

pub(super) fn base64_bytes(scope: Scope<'_>, name: &str) -> Result<Option<Vec<u8>>, ApiError> {
    let Some(value) = scope.bytes(name) else { return Ok(None) };
    match base64_text::decode(value) {
        Some(bytes) => Ok(Some(bytes)),
        None => Err(ApiError::malformed_input(format!("parameter {name} is not base64"))),
    }
}

/// Only whether there are elements matters.
pub(super) fn reserved_list(
    scope: Scope<'_>,
    name: &str,
) -> Result<Option<Vec<IgnoredAny>>, ApiError> {
    let is_given = !scope.nested(name).is_empty();
    Ok(is_given.then(|| vec![IgnoredAny]))
}

#[cfg(test)]
mod tests;
