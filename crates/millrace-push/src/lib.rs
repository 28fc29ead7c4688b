//! Durable outbound deliveries over HTTP: each endpoint has a hidden queue, and what is in it is
//! posted to the endpoint until it is taken or has failed for good.
//!
//! ```text
//!  service ── appends ──▶ hidden queue ──▶ drain (a task) ──▶ attempts ──▶ endpoint
//!     ▲                    │    ▲            window, throttle    │ place in a lane
//!     └── failed, for the  │    └── visibility timeout: retries ─┤
//!         dead-letter queue└─────── deleted: delivered ──────────┘
//! ```
//!
//! What it promises: a message that is in a hidden queue is posted at least once, also after a
//! crash, and as often as its endpoint's policy says; the state of its retries is its receive count
//! and visibility timeout, which the queue keeps. Endpoints that are slow or dead do not slow
//! others. What it never does: follow a redirect, call an address that the network policy refuses,
//! poll.
//!
//! Pure: [`retry`] (when a failed delivery is repeated) and [`network`] (which addresses may be
//! called). [`signature`] stands alone. The rest begins with [`Push`]; a service gives it
//! [`Deliveries`] and [`Endpoint`]s.

mod attempt;
mod drain;
mod endpoint;
mod figures;
mod lanes;
pub mod network;
mod outage;
mod push;
pub mod retry;
pub mod signature;
mod throttle;
mod transports;

pub use endpoint::{
    ANSWER_TIMEOUT, AfterFailure, Attempted, BoxFuture, Cause, Deliveries, Endpoint, Failure,
    Request, Verdict,
};
pub use figures::{EndpointFigures, LatestError, PushFigures};
pub use push::{Push, PushOptions};

pub use millrace_http::{Answer, TlsOptions};
