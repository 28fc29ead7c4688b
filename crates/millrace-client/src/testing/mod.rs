//! For tests of what is built on this crate: a queue in memory on tokio's clock, and an HTTP server
//! with faults, either alone or with that queue behind it.

mod fault;
mod memory;
mod sqs;
mod state;

pub use fault::{CallRecord, Fault, Operation};
pub use memory::MemoryPeer;
pub use millrace_http::testing::{
    CloseAfter, Ending, FaultServer, Reply, Request, ServerFault, ServerFaults,
};
pub use sqs::sqs_handler;
