//! Wire protocols, those of AWS and of IronMQ: bytes to typed values and back. No I/O, no clock, no behaviour.
//!
//! [`Request`] and [`Response`] are the seam between the server, which knows sockets, and the
//! services, which know actions; no type of an HTTP library crosses it.

mod base64_text;
pub mod cloudwatch;
pub mod codec;
mod error;
mod escape;
#[doc(hidden)]
pub mod fuzz;
mod http;
pub mod ironmq;
mod origin;
pub mod path;
mod percent;
pub mod protocol;
pub mod query;
pub mod sigv2;
pub mod sigv4;
pub mod simpledb;
pub mod sns;
pub mod sqs;
pub mod sts;

pub use millrace_core::instant_text as date;

pub use error::{ApiError, no_action_response};
pub use escape::{json_string, xml_text};
pub use http::{BodyStream, Header, Judgement, Request, Response, Service, Tenant, Unsent};
pub use origin::{RequestOrigin, Scheme};
