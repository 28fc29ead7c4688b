//! Amazon SQS, and what speaks like it, in either of its protocols.
//!
//! [`SqsClient`] makes any call of the service; [`SqsPeer`] is one queue.

mod answer;
mod client;
mod decode;
mod encode;
mod peer;
mod protocol;
#[cfg(test)]
mod protocol_tests;
#[cfg(test)]
mod tests;

pub(crate) use answer::error_of;
pub use client::{Action, SqsClient, SqsOptions, Wait};
pub use peer::SqsPeer;
pub use protocol::Protocol;
