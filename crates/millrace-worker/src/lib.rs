//! Receives messages from a queue, runs a handler for each, and settles them.
//!
//! The promises, whatever fails:
//!
//! - A message is deleted after its handler said [`Outcome::Ack`], or after the dead-letter queue has
//!   accepted its copy; for no other reason.
//! - Never more handlers run than allowed, and nothing is received without a place for it.
//! - A message stays hidden from other workers while it is held here and the server answers.
//! - Messages of a FIFO group are handled in order, one after the other; a failure stops the group.
//! - The end is bounded: see [`DrainTimeouts`].
//!
//! [`Worker`] is the way in, [`Handler`] what its user writes, [`Outcome`] what a handler says. The
//! worker knows queues only as [`millrace_client::Peer`].

mod backoff;
mod concurrency;
mod dead_letter;
mod drain;
mod handler;
mod held;
mod lanes;
mod lease;
mod metrics;
mod options;
mod outcome;
mod pipeline;
mod poll_interval;
mod prefetch;
mod settlement;
mod worker;

pub use backoff::{Backoff, Jitter, MAX_VISIBILITY};
pub use concurrency::Concurrency;
pub use drain::{Drain, DrainTimeouts};
pub use handler::{Each, Handler, Message, each};
pub use metrics::{Metrics, Summary};
pub use options::{Options, Until};
pub use outcome::{HandlerError, Outcome};
pub use worker::Worker;
