//! Batches made by themselves: whoever sends or settles one message at a time gets the throughput
//! of ten.
//!
//! A call starts as soon as one may, with whatever has gathered until then, at most what the peer
//! takes: a lone message waits for nothing, and the busier the connections are, the fuller the
//! batches become. This is what a journal's group commit does with syncs.

mod batcher;
mod sender;
mod settler;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use batcher::BatchError;
pub use sender::Sender;
pub use settler::Settler;

/// When batches go out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BatchOptions {
    /// How long a message may wait for others although a call could start: where requests cost
    /// money, 50 to 200 ms save most of them. Nothing by default.
    pub linger: Duration,
    /// Calls that may start with batches that are not full.
    pub eager_calls: usize,
    /// Calls under way at most; those beyond `eager_calls` start with full batches only.
    pub max_calls: usize,
    /// Bytes of messages that wait or are under way; who sends more waits.
    pub max_bytes: usize,
    /// Messages that wait; who sends more waits.
    pub max_waiting: usize,
}

impl Default for BatchOptions {
    fn default() -> BatchOptions {
        BatchOptions {
            linger: Duration::ZERO,
            eager_calls: 2,
            max_calls: 32,
            max_bytes: 64 << 20,
            max_waiting: 10_000,
        }
    }
}
