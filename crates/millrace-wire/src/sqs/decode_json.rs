//! AWS JSON 1.0 request bodies to typed requests.

mod hot;
mod scanner;

use serde::Deserialize;

use super::types::Action;
use super::value::{NULL_TAG_VALUE, Object, STRING_FOR_INTEGER};
use crate::ApiError;

/// Decodes the body of a request for `action`, the part of `X-Amz-Target` after the dot. An empty
/// body counts as an empty object. Text without escapes is borrowed from `body`.
pub fn decode_json<'a>(action: &str, body: &'a [u8]) -> Result<Action<'a>, ApiError> {
    match hot::decode(action, body) {
        Some(decoded) => Ok(decoded),
        None => Action::from_json(action, body),
    }
}

/// Both decoders' word on a body, the quicker one's only if it takes it: for tests that they agree.
pub(crate) fn decode_twice(
    action: &str,
    body: &[u8],
) -> Option<(String, Result<String, ApiError>)> {
    let quick = hot::decode(action, body)?;
    let general = Action::from_json(action, body);
    Some((format!("{quick:?}"), general.map(|decoded| format!("{decoded:?}"))))
}

pub(super) fn object<'a, T: Deserialize<'a> + Default>(body: &'a [u8]) -> Result<T, ApiError> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(T::default());
    }
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let Object(decoded) = Object::deserialize(&mut deserializer).map_err(serialization)?;
    deserializer.end().map_err(serialization)?;
    if has_bare_control(body) {
        return Err(ApiError::serialization(
            "the request body cannot be read: control character in a string, not escaped",
        ));
    }
    Ok(decoded)
}

/// Whether a control character stands in a string of valid JSON as it is. serde_json does not look
/// for them in strings that are taken as bytes.
fn has_bare_control(body: &[u8]) -> bool {
    if !body.iter().any(u8::is_ascii_control) {
        return false;
    }
    let (mut is_string, mut is_escaped) = (false, false);
    body.iter().any(|byte| {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'"' => is_string = !is_string,
            b'\\' => is_escaped = true,
            _ => {}
        }
        is_string && *byte < 0x20
    })
}

fn serialization(error: serde_json::Error) -> ApiError {
    // serde_json quotes the offending value, which may be a megabyte.
    const MESSAGE_BYTES_MAX: usize = 200;

    let error = error.to_string();
    // serde_json adds the place.
    if error.starts_with(STRING_FOR_INTEGER) {
        return ApiError::serialization(STRING_FOR_INTEGER);
    }
    if error.starts_with(NULL_TAG_VALUE) {
        return ApiError::invalid_parameter_value(NULL_TAG_VALUE);
    }
    let mut message = format!("the request body cannot be read: {error}");
    if message.len() > MESSAGE_BYTES_MAX {
        let cut = (0..=MESSAGE_BYTES_MAX).rev().find(|at| message.is_char_boundary(*at));
        message.truncate(cut.unwrap_or(0));
    }
    ApiError::serialization(message)
}

#[cfg(test)]
mod tests;
