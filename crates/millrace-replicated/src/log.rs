//! The seam: what a log on other machines must do for a journal to be replicated by it.
//!
//! The log is a sequence of messages, each a whole frame, numbered without gaps. What is asked of
//! it is little, so that engines with weak corners are good enough:
//!
//! 1. An answer [`Published::At`] means that the message is in the log under that number, durable
//!    on a majority, and stays there until it is purged.
//! 2. Any number of readers may lag behind, but none shows a message that is not in the log, two
//!    messages under one number, or, once shown, another in its place.
//! 3. Nothing else is relied upon. Answers may be lost; a message may arrive late, twice, and even
//!    after one that it was not to follow; a refusal may count messages that never come to be.
//!
//! All calls block, for a bounded time.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

/// A log that several machines share. See the module for the contract.
pub trait SharedLog: Send + Sync {
    /// The format that was fixed when the log was made. Makes no request.
    fn format(&self) -> LogFormat;

    /// Offers a message to follow the one with the number `expected`, 0 before the first.
    fn publish(&self, expected: u64, message: &Bytes, timeout: Duration) -> Published;

    /// Messages with their numbers, ascending, from the first that is not below `from`: about as
    /// many as make up `max_bytes`, and one at least if the reader that was asked has it.
    fn read(&self, from: u64, max_bytes: usize) -> Result<Vec<(u64, Bytes)>, Silence>;

    /// The bounds of what is in the log. They may lag behind.
    fn bounds(&self) -> Result<Bounds, Silence>;

    /// Forgets the messages below `sequence`. Done again, it does no more.
    fn purge_before(&self, sequence: u64) -> Result<(), Silence>;
}

/// The format that all nodes must agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogFormat {
    /// The salt that frames are sealed with: 64 random bits.
    pub salt: u64,
    /// Size of the segments of all copies.
    pub segment_bytes: u32,
    /// The longest message.
    pub max_frame_bytes: u32,
}

/// The answer to an offered message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Published {
    /// It is there, under this number.
    At(u64),
    /// The log says that something else follows the expected message. It may mean what it has not
    /// committed yet and never will, or an earlier copy of this message.
    Refused,
    /// Nobody knows.
    Silent(Silence),
}

/// The first and the last message of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Number of the oldest message; one more than `last` if there is none.
    pub first: u64,
    /// Number of the latest message; 0 if there never was one.
    pub last: u64,
    /// Bytes of messages that it still takes.
    pub room_bytes: u64,
}

/// The log gave no answer, or none that says anything.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no answer from the log: {0}")]
pub struct Silence(pub Arc<str>);
