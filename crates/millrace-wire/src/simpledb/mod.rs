//! Amazon SimpleDB's requests, answers and errors. It speaks nothing but the Query protocol, and
//! its XML differs from that of other services: see [`AnswerXml`].

mod answer;
mod box_usage;
mod names;
mod refusal;
mod requests;
mod service;

pub use answer::AnswerXml;
pub use box_usage::BoxUsage;
pub(crate) use refusal::put_error;
pub use refusal::{EXPORTS, auth_refusal, export_refusal};
pub use requests::*;
pub use service::SERVICE;

use crate::ApiError;
use crate::codec::Input;
use crate::query::Parameters;

/// Reads the request for `action`.
///
/// # Errors
///
/// InvalidParameterValue if a parameter is not UTF-8, or one of a change has an unreadable name;
/// InvalidAction if there is no such action.
pub fn decode(action: &str, parameters: &Parameters<'_>) -> Result<Action, ApiError> {
    names::check(action, parameters)?;
    let read = Action::read(action, &Input::Query(parameters.scope()));
    // All members are texts, so nothing else can be wrong with one.
    let read = read.map_err(|error| ApiError::invalid_parameter_value(error.message))?;
    read.ok_or_else(|| ApiError::invalid_action(action))
}
