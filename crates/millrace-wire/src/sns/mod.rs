//! Amazon SNS's requests and answers, in Query with XML (or JSON, if a client asks for that):
//! declared here, read and written by [`codec`].

mod answers;
mod requests;
mod service;

pub use answers::*;
pub use requests::*;
pub use service::SERVICE;

use crate::codec::{self, Envelope};
use crate::protocol::{Protocol, Target};
use crate::query::Parameters;
use crate::{ApiError, Response};

/// Reads the request that `target` names.
///
/// # Errors
///
/// MalformedInput if members are missing their type, UnknownOperationException or InvalidAction if
/// there is no such action.
pub fn decode(
    target: &Target<'_>,
    parameters: &Parameters<'_>,
    body: &[u8],
) -> Result<Action, ApiError> {
    let Target { protocol, action, .. } = target;
    if !SERVICE.protocols.contains(protocol) {
        return Err(ApiError::unknown_operation());
    }
    let read = codec::decode(*protocol, parameters, body, |input| Action::read(action, input))?;
    read.ok_or_else(|| ApiError::invalid_action(action))
}

/// The answer to `action` as it goes out.
pub fn response(answer: &Answer, action: &str, protocol: Protocol, request_id: &str) -> Response {
    let service = &SERVICE;
    Envelope { service, protocol, action, request_id }.response(answer.node().as_ref())
}
