//! Messages as they come in and go out.

use millrace_core::{MessageId, Timestamp};
use millrace_engine::{Content, Delivery, MessageState};

/// A message to be accepted.
#[derive(Debug)]
pub struct Outgoing<'a> {
    pub id: MessageId,
    /// [`millrace_engine::NewContent`], encoded.
    pub content: &'a [u8],
    /// Body, attribute names, types and values, as the message size limit counts them.
    pub size_bytes: usize,
    pub group: Option<&'a str>,
    /// FIFO queues: as given or computed from the body.
    pub deduplication_id: Option<&'a str>,
    /// Standard queues: overrides the queue's delay.
    pub delay_s: Option<u32>,
}

/// An accepted message: the new one, or the earlier one that it repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    pub id: MessageId,
    /// Grows within a queue.
    pub seq: u64,
    /// With the sequence, the message's place in the queue; `None` for one that it repeats.
    pub slot: Option<u32>,
}

/// A received message.
#[derive(Debug)]
pub struct Incoming {
    pub id: MessageId,
    pub receipt_handle: String,
    pub content: Content,
    pub delivery: Delivery,
}

/// A message as seen without receiving it.
#[derive(Debug)]
pub struct Peeked {
    pub id: MessageId,
    pub content: Content,
    pub delivery: Delivery,
    pub state: MessageState,
    /// End of delay or visibility timeout.
    pub deadline: Timestamp,
}
