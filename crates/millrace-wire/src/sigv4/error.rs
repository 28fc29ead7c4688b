//! Why a request is not authentic, and how AWS says so.

use crate::ApiError;

/// Why a signature is refused. Texts are those of AWS, for they reach the client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AuthError {
    /// The request is not signed.
    #[error("request is not signed")]
    Missing,
    /// The signature lacks a part or has a malformed one.
    #[error("{0}")]
    Incomplete(String),
    /// A signature in parameters lacks this one.
    #[error("parameter {0} is missing")]
    MissingParameter(&'static str),
    /// A parameter of a signature has a value that it cannot have.
    #[error("{0}")]
    InvalidParameter(String),
    /// A signature in parameters has an instant and an end.
    #[error("Request must contain Timestamp or Expires, not both.")]
    BothTimes,
    /// No such access key.
    #[error("access key is not known")]
    UnknownKey,
    /// There is a session token: only temporary credentials have one, and none are given out.
    #[error("session token is not valid")]
    BadToken,
    /// The signature is for something else: another service, region, date or set of headers.
    #[error("{0}")]
    Scope(String),
    /// Signed more than 15 minutes ago.
    #[error("{0}")]
    Expired(String),
    /// Signed more than 15 minutes ahead.
    #[error("{0}")]
    NotYetCurrent(String),
    /// A presigned request after its end.
    #[error("presigned request has expired")]
    PresignedExpired,
    /// `X-Amz-Content-SHA256` is not the hash of the body.
    #[error("body does not have the hash that was signed")]
    PayloadMismatch,
    /// The signature is wrong. What should have been signed helps the client to find out why.
    #[error("signature does not match")]
    Mismatch { canonical_request: String, string_to_sign: String },
    /// A signature of version 2 is wrong.
    #[error("signature of version 2 does not match")]
    MismatchV2,
}

impl From<AuthError> for ApiError {
    fn from(error: AuthError) -> ApiError {
        ApiError::of_auth(error)
    }
}

impl ApiError {
    /// The error for a signature that is refused, as most services have it.
    pub fn of_auth(error: AuthError) -> ApiError {
        match error {
            AuthError::Missing => ApiError::missing_authentication_token(),
            AuthError::Incomplete(problem) | AuthError::InvalidParameter(problem) => {
                ApiError::incomplete_signature(problem)
            }
            AuthError::BothTimes => ApiError::incomplete_signature(error.to_string()),
            AuthError::MissingParameter(name) => {
                let problem = format!("Request must contain parameter {name}.");
                ApiError::incomplete_signature(problem)
            }
            AuthError::UnknownKey | AuthError::BadToken => ApiError::invalid_client_token_id(),
            AuthError::Scope(problem)
            | AuthError::Expired(problem)
            | AuthError::NotYetCurrent(problem) => ApiError::signature_does_not_match(problem),
            AuthError::PresignedExpired => ApiError::request_expired("Request has expired."),
            AuthError::PayloadMismatch => ApiError::signature_does_not_match(
                "The provided 'x-amz-content-sha256' header does not match what was computed.",
            ),
            AuthError::MismatchV2 => ApiError::signature_does_not_match(
                "The request signature we calculated does not match the signature you provided. \
                 Check your AWS Secret Access Key and signing method. Consult the service \
                 documentation for details.",
            ),
            AuthError::Mismatch { canonical_request, string_to_sign } => {
                ApiError::signature_does_not_match(format!(
                    "The request signature we calculated does not match the signature you \
                     provided. Check your AWS Secret Access Key and signing method. Consult the \
                     service documentation for details.\n\nThe Canonical String for this request \
                     should have been\n'{canonical_request}'\n\nThe String-to-Sign should have \
                     been\n'{string_to_sign}'\n"
                ))
            }
        }
    }
}
