//! Requests from each protocol.

use memchr::memchr_iter;
use serde_json::Value;

use super::input::Input;
use super::types::Action;
use crate::ApiError;
use crate::cbor;
use crate::protocol::{Protocol, Target};
use crate::query::Parameters;

/// Structures of one request at most: each takes some hundred bytes, however few it is written in.
/// PutMetricData may have 1,000 data points with 30 dimensions.
const STRUCTURES_MAX: usize = 65_536;

/// Reads the request that `target` names, in Query from `parameters`. Content encodings must be
/// undone.
///
/// # Errors
///
/// SerializationException or MalformedInput if members are missing their type,
/// UnknownOperationException or InvalidAction if there is no such action.
pub fn decode(
    target: &Target<'_>,
    parameters: &Parameters<'_>,
    body: &[u8],
) -> Result<Action, ApiError> {
    let tree;
    let input = match target.protocol {
        Protocol::Query | Protocol::QueryAsJson => Input::Query(parameters.scope()),
        Protocol::Json => {
            tree = json(body)?;
            Input::Tree(&tree)
        }
        Protocol::Cbor => {
            tree = cbor_map(body)?;
            Input::Tree(&tree)
        }
    };
    Action::read(&target.action, &input)?.ok_or_else(|| match target.protocol {
        Protocol::Query | Protocol::QueryAsJson => ApiError::invalid_action(&target.action),
        Protocol::Json | Protocol::Cbor => ApiError::unknown_operation(),
    })
}

fn json(body: &[u8]) -> Result<Value, ApiError> {
    if body.is_empty() {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    // Braces in texts count as well, but there are few.
    if memchr_iter(b'{', body).count() > STRUCTURES_MAX {
        let message = format!("a request has at most {STRUCTURES_MAX} structures");
        return Err(ApiError::serialization(message));
    }
    let tree: Value =
        serde_json::from_slice(body).map_err(|error| ApiError::serialization(error.to_string()))?;
    check_map(tree)
}

/// An operation without input may have no body.
fn cbor_map(body: &[u8]) -> Result<Value, ApiError> {
    if body.is_empty() {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    let tree = cbor::decode(body, STRUCTURES_MAX).ok_or_else(|| {
        let message = format!("body is not CBOR, or has more than {STRUCTURES_MAX} structures");
        ApiError::serialization(message)
    })?;
    check_map(tree)
}

fn check_map(tree: Value) -> Result<Value, ApiError> {
    match tree {
        Value::Object(_) => Ok(tree),
        _ => Err(ApiError::serialization("body is not a structure")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_of_a_request_are_bounded() {
        let json_of = |count: usize| {
            let list = vec!["{}"; count - 1].join(",");
            json(format!(r#"{{"MetricData":[{list}]}}"#).as_bytes()).is_ok()
        };
        let cbor_of = |count: usize| {
            let list = vec![0xa0; count - 1];
            cbor_map(&[&b"\xa1\x61a\x9f"[..], &list, b"\xff"].concat()).is_ok()
        };

        assert!(json_of(STRUCTURES_MAX) && cbor_of(STRUCTURES_MAX));
        assert!(!json_of(STRUCTURES_MAX + 1) && !cbor_of(STRUCTURES_MAX + 1));
    }
}
