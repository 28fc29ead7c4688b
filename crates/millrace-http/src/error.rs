//! What can break below HTTP.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use super::HeadError;

/// A request that got no whole answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    /// The host has no address that [`crate::AddressCheck`] allows.
    #[error("the address {address} may not be called")]
    AddressRefused { address: IpAddr },
    /// Certificates that cannot be read, or a name that no certificate can be for.
    #[error("tls: {0}")]
    Tls(String),
    #[error("no connection within {limit:?}")]
    ConnectTimeout { limit: Duration },
    #[error("no answer within {limit:?}")]
    AnswerTimeout { limit: Duration },
    /// Every connection of the lane was busy for too long.
    #[error("no free connection within {limit:?}")]
    LaneTimeout { limit: Duration },
    /// The connection ended before the first byte of the answer.
    #[error("the connection ended instead of an answer: {0}")]
    NoAnswer(io::Error),
    /// The same, and there was no other connection to repeat the request on.
    #[error("the connection ended instead of an answer, then: {0}")]
    NotRepeated(Box<TransportError>),
    #[error("the connection ended within the answer: {0}")]
    BrokenAnswer(io::Error),
    #[error("what came is no answer: {0}")]
    NotHttp(String),
    #[error("the answer has more than {limit_bytes} bytes")]
    AnswerTooLarge { limit_bytes: usize },
    #[error(transparent)]
    Head(#[from] HeadError),
}

impl TransportError {
    /// Whether the server may have seen the request.
    pub fn is_ambiguous(&self) -> bool {
        !matches!(
            self,
            TransportError::Connect(_)
                | TransportError::AddressRefused { .. }
                | TransportError::ConnectTimeout { .. }
                | TransportError::LaneTimeout { .. }
                | TransportError::Tls(_)
                | TransportError::Head(_)
        )
    }

    /// Whether process or system has too many open files, or too many threads to look up a name.
    pub(super) fn is_for_lack_of_room(&self) -> bool {
        // EMFILE and ENFILE, which have these numbers on every Unix.
        let numbers = if cfg!(unix) { &[24, 23][..] } else { &[] };
        let TransportError::Connect(error) = self else { return false };
        // EAGAIN, of a thread.
        error.kind() == io::ErrorKind::WouldBlock
            || error.raw_os_error().is_some_and(|number| numbers.contains(&number))
    }

    /// A short name of the kind, such as `connect-timeout`.
    pub fn code(&self) -> &'static str {
        match self {
            TransportError::Connect(_) => "connect",
            TransportError::AddressRefused { .. } => "address-refused",
            TransportError::ConnectTimeout { .. } => "connect-timeout",
            TransportError::AnswerTimeout { .. } => "timeout",
            TransportError::LaneTimeout { .. } => "lane-timeout",
            TransportError::NoAnswer(_) => "no-answer",
            TransportError::NotRepeated(error) => error.code(),
            TransportError::BrokenAnswer(_) => "broken-answer",
            TransportError::NotHttp(_) => "not-http",
            TransportError::AnswerTooLarge { .. } => "answer-too-large",
            TransportError::Tls(_) => "tls",
            TransportError::Head(_) => "bad-head",
        }
    }
}
