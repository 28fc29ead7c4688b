//! The payload hash that a signature covers.

use super::{AuthError, equal_in_constant_time, sha256_hex};
use crate::http::Request;

/// What clients send that sign all but the body.
const UNSIGNED_PAYLOAD: &str = "UNSIGNED-PAYLOAD";

/// The hash of the body as lower-case hexadecimal digits, or the literal in its place.
pub(super) enum PayloadHash {
    Sha256([u8; 64]),
    Unsigned,
}

impl PayloadHash {
    pub(super) fn as_bytes(&self) -> &[u8] {
        match self {
            PayloadHash::Sha256(digits) => digits,
            PayloadHash::Unsigned => UNSIGNED_PAYLOAD.as_bytes(),
        }
    }
}

/// What `X-Amz-Content-SHA256` says, after checking it, else the hash of the body.
pub(super) fn checked_hash(request: &Request<'_>) -> Result<PayloadHash, AuthError> {
    let claimed = request.header("x-amz-content-sha256");
    if claimed == Some(UNSIGNED_PAYLOAD) {
        return Ok(PayloadHash::Unsigned);
    }
    let hash = sha256_hex(request.body);
    match claimed {
        // Literals such as STREAMING-AWS4-HMAC-SHA256-PAYLOAD, which only S3 knows, end here too.
        Some(claimed) if !equal_in_constant_time(claimed.as_bytes(), &hash) => {
            Err(AuthError::PayloadMismatch)
        }
        _ => Ok(PayloadHash::Sha256(hash)),
    }
}
