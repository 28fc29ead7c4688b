//! Which status and text a failure gets: the only place that assigns them.

use millrace_broker::{BrokerError, ClaimError};
use millrace_core::limits;
use millrace_wire::Response;
use millrace_wire::ironmq::{self, Misrouted};

/// A request that is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub status: u16,
    pub text: String,
}

impl Refusal {
    pub(super) fn new(status: u16, text: impl Into<String>) -> Refusal {
        Refusal { status, text: text.into() }
    }

    /// A request that is wrong in itself.
    pub(super) fn bad(text: impl Into<String>) -> Refusal {
        Refusal::new(400, text)
    }

    /// Clients compare the text.
    pub(super) fn no_queue() -> Refusal {
        Refusal::new(404, "Queue not found")
    }

    pub(super) fn no_message() -> Refusal {
        Refusal::new(404, "Message not found")
    }

    pub(super) fn no_token() -> Refusal {
        Refusal::new(401, "A token is required")
    }

    pub(super) fn wrong_token() -> Refusal {
        Refusal::new(401, "Invalid token")
    }

    pub(super) fn no_reservation_id() -> Refusal {
        Refusal::bad("A reservation_id is required")
    }

    /// The reservation has ended, or is no reservation of that message.
    pub(super) fn ended() -> Refusal {
        Refusal::new(403, "Reservation timed out")
    }

    /// A number that is out of its range.
    pub(super) fn out_of_range(name: &str, lowest: u64, highest: u64) -> Refusal {
        Refusal::bad(format!("{name} must be between {lowest} and {highest}"))
    }

    pub(super) fn too_large(limit: u32) -> Refusal {
        Refusal::bad(format!("Message is too large: {limit} bytes are allowed"))
    }

    pub(super) fn response(&self) -> Response {
        ironmq::text(self.status, &self.text)
    }
}

impl From<Misrouted> for Refusal {
    fn from(misrouted: Misrouted) -> Refusal {
        match misrouted {
            Misrouted::NoSuchPath => Refusal::new(404, "Endpoint not found"),
            Misrouted::WrongMethod => Refusal::new(405, "Method not allowed"),
        }
    }
}

impl From<ClaimError> for Refusal {
    fn from(error: ClaimError) -> Refusal {
        match error {
            ClaimError::NotFound => Refusal::no_message(),
            ClaimError::Reserved => Refusal::no_reservation_id(),
            ClaimError::Ended => Refusal::ended(),
        }
    }
}

/// 503 is the one status that every client repeats, and posts are not idempotent: it is for what
/// has certainly changed nothing.
impl From<BrokerError> for Refusal {
    fn from(error: BrokerError) -> Refusal {
        match error {
            BrokerError::QueueDoesNotExist => Refusal::no_queue(),
            BrokerError::Unavailable(millrace_broker::Unavailable::TooLarge { .. }) => {
                Refusal::bad("Request is too large: post the messages in several requests")
            }
            error if error.is_outcome_unknown() => {
                tracing::warn!(%error, "the outcome of a change is not known");
                Refusal::new(500, "The outcome is not known: the change may be stored or not")
            }
            BrokerError::Unavailable(reason) => {
                tracing::debug!(%reason, "a change was refused");
                Refusal::new(503, "Changes cannot be stored at the moment")
            }
            error => {
                tracing::error!(%error, "request failed");
                Refusal::new(500, "Internal error")
            }
        }
    }
}

/// A number of seconds or the like within its range; 0 counts as not given.
pub(super) fn bounded(
    name: &str,
    number: Option<ironmq::Number>,
    lowest: u64,
    highest: u64,
) -> Result<Option<u32>, Refusal> {
    let Some(number) = number.and_then(ironmq::Number::set) else { return Ok(None) };
    let allowed = u64::try_from(number).ok().filter(|it| (lowest..=highest).contains(it));
    let allowed = allowed.and_then(|it| u32::try_from(it).ok());
    allowed.map(Some).ok_or_else(|| Refusal::out_of_range(name, lowest, highest))
}

/// Seconds that a message may be delayed.
pub(super) fn delay(number: Option<ironmq::Number>) -> Result<Option<u32>, Refusal> {
    bounded("delay", number, 0, limits::ironmq::DELAY_S)
}
