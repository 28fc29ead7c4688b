//! Deterministic simulation of the whole below the services: broker, engine and journal, with a
//! virtual clock, a virtual disk that loses what was not synced, and clients, under one seed.
//!
//! What it promises: the same seed and number of steps give the same trace, byte for byte; a
//! failure names the seed, the step and the command that replays it. What it never does: start a
//! thread, read the real clock, touch the real disk.
//!
//! In reading order: the [`world`] and its scheduler; what clients do ([`clients`], [`receives`],
//! [`handles`], [`polls`], [`queues`], [`moves`]); what machines do ([`faults`]); what must be true
//! ([`model`], [`oracle`], `confirmed`, [`invariants`]); and what they stand on.

pub mod clients;
pub mod clock;
mod confirmed;
mod draft;
pub mod executor;
pub mod faults;
pub mod handles;
pub mod invariants;
pub mod model;
pub mod moves;
pub mod oracle;
mod panics;
pub mod polls;
mod profile;
pub mod queues;
pub mod random;
pub mod receives;
pub mod trace;
pub mod world;

pub use trace::Output;
pub use world::{Failure, Report, run};
