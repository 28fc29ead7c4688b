//! One call: a request with a token, and which answers are errors.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;

use crate::error::{CallError, CallErrorKind};
use crate::transport::{Answer, Call, Head, Lane, Repeat, Transport, TransportError};

/// Makes calls for one project and token.
#[derive(Clone, Debug)]
pub(super) struct Exchange {
    pub(super) transport: Arc<Transport>,
    /// `OAuth TOKEN`.
    pub(super) authorization: Arc<str>,
}

pub(super) struct Request<'r> {
    pub(super) method: &'static str,
    /// Path and query.
    pub(super) target: &'r str,
    pub(super) body: Bytes,
    pub(super) wait: Duration,
    pub(super) repeat: Repeat,
}

#[derive(Default, Deserialize)]
struct ErrorBody {
    #[serde(default)]
    msg: String,
}

impl Exchange {
    pub(super) async fn call(&self, request: Request<'_>) -> Result<Bytes, CallError> {
        let authority = &self.transport.endpoint().authority;
        let head = Head::new(request.method, request.target, authority).and_then(|mut head| {
            head.header("authorization", &self.authorization)?;
            head.header("content-type", "application/json")?;
            Ok(head)
        });
        let Request { body, wait, repeat, .. } = request;
        let lane = if wait.is_zero() { Lane::Quick } else { Lane::Hold };
        let head = head.map_err(TransportError::from)?;
        let answer = self.transport.call(Call { lane, head, body, wait, repeat }).await?;
        match answer.status {
            200..=202 => Ok(answer.body),
            _ => Err(error_of(&answer)),
        }
    }
}

/// Bodies of errors are `{"msg":"reason"}`. Another one is none of IronMQ: some proxy wrote it, and
/// what became of the request is unknown.
fn error_of(answer: &Answer) -> CallError {
    let body: ErrorBody = serde_json::from_slice(&answer.body).unwrap_or_default();
    let kind = match answer.status {
        401 => CallErrorKind::Auth,
        413 => CallErrorKind::BatchTooLarge,
        429 => CallErrorKind::Throttled,
        408 | 500.. => CallErrorKind::Server,
        _ if body.msg.is_empty() => CallErrorKind::Malformed,
        404 if body.msg.to_ascii_lowercase().contains("queue") => CallErrorKind::NoSuchQueue,
        _ => CallErrorKind::Refused,
    };
    let message = if body.msg.is_empty() { answer.excerpt() } else { body.msg };
    let mut error = CallError::new(kind, format!("HTTP {}", answer.status), message);
    error.retry_after = answer.retry_after;
    error.is_ambiguous = matches!(kind, CallErrorKind::Server | CallErrorKind::Malformed);
    error
}
