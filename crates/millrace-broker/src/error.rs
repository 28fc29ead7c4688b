//! What can go wrong below the services.

use millrace_core::ShardId;
use millrace_journal::Unavailable;
use thiserror::Error;

/// Why a broker call failed. Services turn each into their own codes.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum BrokerError {
    /// No such queue, or it was deleted while the call was under way.
    #[error("the queue does not exist")]
    QueueDoesNotExist,
    /// Standard queues: the in-flight limit is reached.
    #[error("too many messages in flight")]
    OverLimit,
    /// FIFO queues: the handle is not that of the message's current receive.
    #[error("the receipt handle has expired")]
    HandleExpired,
    /// The message is gone or held by somebody else.
    #[error("message does not exist or is not available for visibility timeout change")]
    NotAvailable,
    /// More than 12 hours after the receive.
    #[error("total visibility timeout is beyond the limit")]
    BeyondVisibilityLimit,
    /// A purge less than a minute ago.
    #[error("only one purge is allowed every 60 seconds")]
    PurgeInProgress,
    /// The journal takes no change now, or none until it is opened again. Either nothing was
    /// changed, or the change was not acknowledged and may be durable or not.
    #[error("journal: {0}")]
    Unavailable(#[from] Unavailable),
    /// A journal was opened so often that ids have no room for its epochs any more.
    #[error(
        "the journal is in its epoch {epoch}, limit {}: no further ids can be made; move the \
         messages to a server with a new data directory",
        ShardId::EPOCHS - 1
    )]
    EpochsUsedUp { epoch: u64 },
    /// A bug or a damaged disk; the text goes to the log, not to the client.
    #[error("{0}")]
    Internal(String),
}

impl BrokerError {
    /// The journal takes no change now; it may again, after a restart at the latest.
    pub fn is_for_now(&self) -> bool {
        match self {
            BrokerError::Unavailable(reason) => !matches!(reason, Unavailable::TooLarge { .. }),
            _ => false,
        }
    }

    /// The change was made and may be stored or not, now or later: its commit took too long.
    pub fn is_outcome_unknown(&self) -> bool {
        matches!(self, BrokerError::Unavailable(Unavailable::NotSettled(_)))
    }

    /// Nothing is wrong but that too much waits to be stored: the caller should slow down.
    pub fn is_backlog(&self) -> bool {
        matches!(self, BrokerError::Unavailable(Unavailable::Backlog { .. }))
    }
}
