//! Amazon CloudWatch's requests and answers, in AWS JSON, Query with XML, and Smithy RPC v2 with
//! CBOR: declared here, read and written by [`codec`].

mod answers;
mod requests;

pub use answers::*;
pub use requests::*;

use crate::codec::{self, Envelope};
use crate::protocol::{Protocol, ServiceName, Target};
use crate::query::Parameters;
use crate::{ApiError, Response};

/// Reads the request that `target` names, in Query from `parameters`. Content encodings must be
/// undone.
///
/// # Errors
///
/// SerializationException or MalformedInput if members are missing their type,
/// UnknownOperationException or InvalidAction if there is no such action.
pub fn decode(
    target: &Target<'_>,
    parameters: &Parameters<'_>,
    body: &[u8],
) -> Result<Action, ApiError> {
    let Target { protocol, action, .. } = target;
    let read = codec::decode(*protocol, parameters, body, |input| Action::read(action, input))?;
    read.ok_or_else(|| match protocol {
        Protocol::Query | Protocol::QueryAsJson => ApiError::invalid_action(action),
        Protocol::Json | Protocol::Cbor => ApiError::unknown_operation(),
    })
}

/// The answer to `action` as it goes out.
pub fn response(answer: &Answer, action: &str, protocol: Protocol, request_id: &str) -> Response {
    let service = ServiceName::CloudWatch;
    Envelope { service, protocol, action, request_id }.response(answer.node().as_ref())
}
