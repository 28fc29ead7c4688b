//! Amazon SQS, and what speaks like it, over AWS JSON 1.0.
//!
//! [`SqsClient`] makes any call of the service; [`SqsPeer`] is one queue.

mod answer;
mod client;
mod decode;
mod encode;
mod peer;
#[cfg(test)]
mod tests;

pub use client::{Action, SqsClient, SqsOptions, Wait};
pub use peer::SqsPeer;
