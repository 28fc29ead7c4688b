//! The replicated journal: a log that several machines share, and on each of them a copy of it.
//!
//! ```text
//!  owner:     append ──▶ settle ──publish──▶ SharedLog ──read──▶ Follower   on every other node
//!                          │ once it is certain             │ what counts by Chain::judge
//!                          ▼                                ▼
//!                        copy (a local journal)           copy (a local journal)
//! ```
//! What it promises: what it acknowledges is in the shared log, and counts there; every reader of
//! the log counts the same frames; of several nodes that start an epoch behind the same end one
//! succeeds. What it never does: send another frame before the one before is settled, take an
//! answer of the log for more than it says, rely on the log refusing what is late.
//!
//! The copies have the same frames at the same places, unsynced: reads, replay and sidecars are
//! the local journal's. The log is the truth, so a copy that does not fit it is thrown away.
//!
//! In reading order: the seam ([`log`]), the frames that count (`judge`), the settle loop
//! (`settle`), [`Follower`], [`Replicated`], [`ReplicatedStore`], and the log that tests use
//! ([`sim`]). Threads, time and randomness are the caller's; there is no I/O but that of the copy.

mod clock;
mod copy;
mod error;
mod fit;
mod follower;
mod judge;
pub mod log;
mod replicated;
mod room;
mod settle;
pub mod sim;
mod store;

pub use clock::{Clock, Patience};
pub use copy::CopyPlace;
pub use error::FollowError;
pub use follower::{Follower, NotOwner, Show};
pub use log::{Bounds, LogFormat, Published, SharedLog, Silence};
pub use replicated::Replicated;
pub use sim::SimLog;
pub use store::{ReplicatedStore, UnownedReplicated};
