//! Receives messages from a queue, runs a handler for each, and settles them.
//!
//! The promises, whatever fails:
//!
//! - A message is deleted after its handler said [`Outcome::Ack`], or after the dead-letter queue
//!   has accepted its copy; for no other reason.
//! - Never more handlers run than allowed, and nothing is received without a place for it.
//! - A message stays hidden from other workers while it is held here and the server answers.
//! - Messages of a FIFO group are handled in order, one after the other; a failure stops the group.
//! - The end is bounded: see [`DrainTimeouts`].
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! use millrace_client::testing::MemoryPeer;
//! use millrace_worker::{Message, Options, Outcome, Until, Worker, each};
//!
//! let queue = MemoryPeer::standard();
//! queue.put(["a letter", "no letter"]);
//! let handler = each(|message: Message| async move {
//!     let letter = message.body().strip_prefix("a ").ok_or("that is no letter")?;
//!     println!("delivering the {letter}");
//!     Ok(Outcome::Ack)
//! });
//! let options = Options { until: Until::Once, ..Options::default() };
//!
//! let summary = Worker::new(queue.clone(), handler, options).run().await;
//!
//! assert_eq!((summary.succeeded, summary.retried), (1, 1));
//! assert_eq!(queue.bodies(), ["no letter"]);
//! # }
//! ```
//!
//! [`Worker`] is the way in, [`Handler`] what its user writes, [`Outcome`] what a handler says. The
//! worker knows queues only as [`millrace_client::Peer`].

mod backoff;
mod concurrency;
mod dead_letter;
mod drain;
mod envelope;
mod handler;
mod held;
mod json;
mod lanes;
mod layer;
mod lease;
mod metrics;
mod options;
mod outcome;
mod panics;
mod patience;
mod pipeline;
mod poll_interval;
mod prefetch;
mod settlement;
mod slots;
mod trace;
mod worker;

pub use backoff::{Backoff, Jitter, MAX_VISIBILITY};
pub use concurrency::Concurrency;
pub use drain::{Drain, DrainTimeouts};
pub use envelope::{ClaimCheck, SnsEnvelope, StoredBody, claim_check};
pub use handler::{Each, Handler, Message, each};
pub use json::json;
pub use layer::{Behind, Layer};
pub use metrics::{Metrics, Summary};
pub use options::{Options, Until};
pub use outcome::{HandlerError, Outcome};
pub use slots::{Priority, Share, Slots};
pub use trace::Trace;
pub use worker::Worker;

/// The examples of the documentation, as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/worker.md")]
struct Documentation;
