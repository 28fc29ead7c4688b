//! The payload hash that a signature covers.

use std::borrow::Cow;

use super::{AuthError, equal_in_constant_time};
use crate::http::Request;

/// What clients send that sign all but the body.
const UNSIGNED_PAYLOAD: &str = "UNSIGNED-PAYLOAD";

/// The hash of the body as lower-case hexadecimal digits, or the literal in its place.
pub(super) struct PayloadHash<'a>(Cow<'a, str>);

impl PayloadHash<'_> {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

/// What `X-Amz-Content-SHA256` says, after checking it, else the hash of the body.
pub(super) fn checked_hash<'a>(request: &Request<'a>) -> Result<PayloadHash<'a>, AuthError> {
    let claimed = request.header("x-amz-content-sha256");
    if claimed == Some(UNSIGNED_PAYLOAD) {
        return Ok(PayloadHash(Cow::Borrowed(UNSIGNED_PAYLOAD)));
    }
    let hash = millrace_core::sha256_hex(request.body);
    match claimed {
        // Literals such as STREAMING-AWS4-HMAC-SHA256-PAYLOAD, which only S3 knows, end here too.
        Some(claimed) if !equal_in_constant_time(claimed.as_bytes(), hash.as_bytes()) => {
            Err(AuthError::PayloadMismatch)
        }
        _ => Ok(PayloadHash(Cow::Owned(hash))),
    }
}
