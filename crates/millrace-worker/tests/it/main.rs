//! The whole worker on a virtual clock, against a queue in memory that fails as told.

#![expect(clippy::unwrap_used, reason = "tests")]

mod batches;
mod dead_letters;
mod drain;
mod fifo;
mod layers;
mod leases;
mod outcomes;
mod properties;
mod receives;
mod shared_slots;
mod support;
