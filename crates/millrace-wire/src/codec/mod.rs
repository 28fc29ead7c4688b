//! The codec of structured calls, shared by all services but the hot path of SQS: a structure is
//! declared once ([`structures!`](crate::structures)) and is read from AWS JSON, Query parameters
//! and CBOR, and written as JSON, XML and CBOR.
//!
//! | kind | JSON | Query | XML | CBOR |
//! |---|---|---|---|---|
//! | list | array | `L.member.1` | `<L><member>…</member></L>` | array |
//! | flat list | array | `L.1` | `<L>…</L><L>…</L>` | array |
//! | map | object | `M.entry.1.key`, `M.entry.1.value` | `<M><entry><key>…</key><value>…</value></entry></M>` | map |
//! | structure | object | `S.Member` | `<S><Member>…</Member></S>` | map |
//! | blob | base64 | base64 | base64 | bytes |
//! | time | seconds | ISO 8601 | ISO 8601 | tag 1, seconds |
//! | not a number | `"NaN"` | `NaN` | `NaN` | float |
//!
//! Members that are not declared are ignored, null counts as absent. Of members with the same name
//! the last counts in JSON and CBOR, the first in Query. Depth and the number of structures and
//! parameters are bounded; lengths that a request claims allocate nothing.

pub(crate) mod cbor;
mod declare;
mod envelope;
mod input;
pub(crate) mod json;
mod node;
mod scalar;
#[cfg(test)]
mod tests;
pub(crate) mod toy;
mod value;
mod xml;

pub use declare::{Members, Name};
pub use envelope::Envelope;
pub use input::{Input, decode};
pub use node::Node;
pub use scalar::{Blob, Time};
pub use value::{Member, Structure, Value};
pub use xml::Fractions;
