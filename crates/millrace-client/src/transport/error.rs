//! What can break below HTTP.

use std::time::Duration;

use crate::error::{CallError, CallErrorKind};

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// A request that got no whole answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    #[error("cannot connect: {0}")]
    Connect(Cause),
    #[error("no connection within {limit:?}")]
    ConnectTimeout { limit: Duration },
    #[error("no answer within {limit:?}")]
    AnswerTimeout { limit: Duration },
    /// Every connection of the lane was busy for too long.
    #[error("no free connection within {limit:?}")]
    LaneTimeout { limit: Duration },
    /// The connection ended before the first byte of the answer.
    #[error("the connection ended instead of an answer: {0}")]
    NoAnswer(Cause),
    #[error("the connection ended within the answer: {0}")]
    BrokenAnswer(Cause),
    #[error("what came is no answer: {0}")]
    NotHttp(Cause),
    #[error("the answer has more than {limit_bytes} bytes")]
    AnswerTooLarge { limit_bytes: usize },
    #[error("the request cannot be written: {0}")]
    Request(Cause),
}

impl TransportError {
    pub(super) fn no_answer(error: hyper::Error) -> TransportError {
        match error {
            error if error.is_parse() => TransportError::NotHttp(error.into()),
            error if error.is_user() => TransportError::Request(error.into()),
            error => TransportError::NoAnswer(error.into()),
        }
    }

    pub(super) fn broken_answer(error: hyper::Error) -> TransportError {
        TransportError::BrokenAnswer(error.into())
    }

    /// Whether the server may have seen the request.
    pub fn is_ambiguous(&self) -> bool {
        use TransportError::{Connect, ConnectTimeout, LaneTimeout, Request};
        !matches!(self, Connect(_) | ConnectTimeout { .. } | LaneTimeout { .. } | Request(_))
    }

    fn code(&self) -> &'static str {
        match self {
            TransportError::Connect(_) => "connect",
            TransportError::ConnectTimeout { .. } => "connect-timeout",
            TransportError::AnswerTimeout { .. } => "timeout",
            TransportError::LaneTimeout { .. } => "lane-timeout",
            TransportError::NoAnswer(_) => "no-answer",
            TransportError::BrokenAnswer(_) => "broken-answer",
            TransportError::NotHttp(_) => "not-http",
            TransportError::AnswerTooLarge { .. } => "answer-too-large",
            TransportError::Request(_) => "bad-request",
        }
    }
}

impl From<TransportError> for CallError {
    fn from(error: TransportError) -> CallError {
        let kind = match error {
            TransportError::NotHttp(_) | TransportError::AnswerTooLarge { .. } => {
                CallErrorKind::Malformed
            }
            TransportError::Request(_) => CallErrorKind::Refused,
            _ => CallErrorKind::Transport,
        };
        let call_error = CallError::new(kind, error.code(), error.to_string());
        if error.is_ambiguous() { call_error.ambiguous() } else { call_error }
    }
}
