//! Peers for tests: no network, time from tokio's clock, faults on request.

mod memory;

pub use memory::{CallRecord, Fault, MemoryPeer, Operation};
