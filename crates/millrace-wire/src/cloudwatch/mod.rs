//! Amazon CloudWatch's requests and answers in its three protocols: AWS JSON, Query with XML, and
//! Smithy RPC v2 with CBOR.
//!
//! All three are read through [`input`], which hides how they write lists, numbers and times, and
//! written from one tree ([`output`]).

mod decode;
mod encode;
mod input;
mod output;
mod requests;
mod service;
mod types;

pub use decode::decode;
pub use encode::response;
pub use requests::*;
pub use service::SERVICE;
pub use types::*;
