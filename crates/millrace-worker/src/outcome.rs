//! What a handler says of a message, decided in one place.

use std::time::Duration;

/// What is to become of a message that a handler has seen.
///
/// Only [`Outcome::Ack`] deletes a message that went nowhere else. A message for which a handler
/// says nothing (it failed, panicked, or was cut off) is retried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The work is done: delete the message.
    Ack,
    /// Not this time: hide the message for `after`, or for what the back-off policy says, then let
    /// anyone receive it again.
    Retry {
        /// Time until the message is visible again; 12 hours at most.
        after: Option<Duration>,
    },
    /// Not here: let anyone receive the message again at once. Not a failure of the message.
    Release,
    /// Never: move the message to the dead-letter queue. Without one the message is retried with
    /// back-off, so that the queue's own redrive policy takes it; it is never just deleted.
    Reject {
        /// Why, for the log and for the attributes of the dead letter.
        reason: String,
    },
}

impl Outcome {
    /// A retry whose delay the worker's back-off policy chooses.
    pub const RETRY: Outcome = Outcome::Retry { after: None };

    /// A rejection with `reason`.
    pub fn reject(reason: impl Into<String>) -> Outcome {
        Outcome::Reject { reason: reason.into() }
    }
}

/// Why a handler failed; any error.
pub type HandlerError = Box<dyn std::error::Error + Send + Sync>;
