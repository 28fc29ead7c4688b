//! What can go wrong with a call, and with one entry of it.

use millrace_http::TransportError;
use std::time::Duration;

/// A call that failed as a whole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind}: {code}: {message}")]
#[non_exhaustive]
pub struct CallError {
    pub kind: CallErrorKind,
    /// The server's error code such as `QueueDoesNotExist`, or a short name of what broke below
    /// HTTP such as `timeout`.
    pub code: String,
    /// For people.
    pub message: String,
    /// `Retry-After` of the answer.
    pub retry_after: Option<Duration>,
    /// Whether the server may have done what was asked although no answer says so.
    pub is_ambiguous: bool,
}

/// What to do about a failed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CallErrorKind {
    /// Slow down, then try again.
    Throttled,
    /// The server is in trouble; try again.
    Server,
    /// No connection, a broken one, or no answer in time; try again.
    Transport,
    /// The credentials are missing, wrong or not allowed; trying again soon is no use.
    Auth,
    /// The queue does not exist.
    NoSuchQueue,
    /// The batch has too many bytes for one call; split it.
    BatchTooLarge,
    /// The server refuses the request as it is.
    Refused,
    /// The answer cannot be understood.
    Malformed,
}

impl CallError {
    /// An error without `Retry-After` of a call that was not carried out.
    pub fn new(
        kind: CallErrorKind,
        code: impl Into<String>,
        message: impl Into<String>,
    ) -> CallError {
        CallError {
            kind,
            code: code.into(),
            message: message.into(),
            retry_after: None,
            is_ambiguous: false,
        }
    }

    /// The same, but the server may have done what was asked.
    pub fn ambiguous(mut self) -> CallError {
        self.is_ambiguous = true;
        self
    }

    /// Whether the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        use CallErrorKind::{Malformed, Server, Throttled, Transport};
        matches!(self.kind, Throttled | Server | Transport | Malformed)
    }
}

impl std::fmt::Display for CallErrorKind {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            CallErrorKind::Throttled => "throttled",
            CallErrorKind::Server => "server error",
            CallErrorKind::Transport => "transport error",
            CallErrorKind::Auth => "not authorised",
            CallErrorKind::NoSuchQueue => "no such queue",
            CallErrorKind::BatchTooLarge => "batch too large",
            CallErrorKind::Refused => "refused",
            CallErrorKind::Malformed => "malformed answer",
        })
    }
}

/// One entry of a call that failed, while others may have succeeded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
#[non_exhaustive]
pub struct EntryError {
    /// The server's error code such as `ReceiptHandleIsInvalid`.
    pub code: String,
    /// For people.
    pub message: String,
    /// Whether the entry is at fault: the same entry will fail again.
    pub is_sender_fault: bool,
}

impl EntryError {
    /// An entry's error.
    pub fn new(
        code: impl Into<String>,
        message: impl Into<String>,
        is_sender_fault: bool,
    ) -> EntryError {
        EntryError { code: code.into(), message: message.into(), is_sender_fault }
    }

    /// Whether the same entry may succeed later.
    pub fn is_retryable(&self) -> bool {
        !self.is_sender_fault
    }
}

impl From<TransportError> for CallError {
    fn from(error: TransportError) -> CallError {
        let kind = match error {
            TransportError::NotHttp(_) | TransportError::AnswerTooLarge { .. } => {
                CallErrorKind::Malformed
            }
            TransportError::Head(_) | TransportError::Tls(_) => CallErrorKind::Refused,
            _ => CallErrorKind::Transport,
        };
        let call_error = CallError::new(kind, error.code(), error.to_string());
        if error.is_ambiguous() { call_error.ambiguous() } else { call_error }
    }
}
