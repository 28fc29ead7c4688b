//! Sockets, HTTP/1.1 and HTTP/2, TLS, limits, keep-alive policy, health and drain.
//!
//! The server turns bytes of a connection into [`millrace_wire::Request`]s, hands them to a
//! [`millrace_wire::Service`] and writes its responses back. It knows no action by name.
//!
//! What it promises:
//! - A keep-alive connection is closed by us only when it is idle past its timeout or we drain.
//! - Everything a client can make grow is bounded: connections, heads, headers, bodies, answers
//!   that are not taken, time.
//! - A client that leaves cancels its request: the service's future is dropped at once.
//! - One read, one write and no task or timer per HTTP/1.1 request.
//!
//! Read in this order: `options`, `listen` (bind, run, drain), `accept`, `worker` (one runtime per
//! core), `connection` (TLS, which protocol), `http1`, `http2`, `policy` (health, CORS).

mod accept;
mod affinity;
mod budget;
mod clock;
mod connection;
mod connection_memory;
mod counters;
mod drain;
mod expiry;
mod file_version;
mod http1;
mod http2;
mod idle_poll;
mod lanes;
mod listen;
mod load;
mod options;
mod pace;
mod policy;
mod scheduling;
mod scratch;
mod tls;
mod worker;

pub use counters::{Closed, Counters, Totals};
pub use drain::Drain;
pub use file_version::FileVersion;
#[doc(hidden)]
pub use http1::fuzz;
pub use listen::{BindError, Drained, RunError, Server};
pub use options::{BoxFuture, Cors, Hooks, Limits, Options, Timeouts, TlsFiles};
pub use tls::TlsError;
