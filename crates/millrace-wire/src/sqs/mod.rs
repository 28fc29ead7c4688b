//! Amazon SQS, API version 2012-11-05: one typed request per action, filled by two decoders (AWS
//! JSON 1.0 and Query), and one typed response per action, rendered by two encoders.
//!
//! Decoders check syntax only. Whether a value is allowed is the service's business, which is why
//! numbers are wide and required members are optional here.

mod decode_json;
mod decode_query;
mod encode;
mod service;
mod types;
mod value;

pub use decode_json::decode_json;
pub(crate) use decode_json::decode_twice;
pub use decode_query::decode_query;
pub use encode::{encode, response};
pub use service::SERVICE;
pub use types::*;
pub use value::{Blob, Map, Text, Texts};
