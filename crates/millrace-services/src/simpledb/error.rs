//! Which wire codes a SimpleDB failure gets: the only place that assigns them. Texts are those of
//! the real service as far as they are known.

use std::borrow::Cow;

use millrace_tables::select::SelectError;
use millrace_tables::{ReadError, WriteError};
use millrace_wire::ApiError;

/// Characters of a text that is too long which its error repeats.
const SHOWN_CHARS: usize = 2048;

/// The error for an action that the service does not have.
pub(super) fn unknown_action(action: &str) -> ApiError {
    if matches!(action, "Query" | "QueryWithAttributes") {
        return refusal("FeatureDeprecated", 400, format!("{action} is gone. Use Select instead."));
    }
    refusal("InvalidAction", 400, format!("The action {action} is not valid for this web service."))
}

pub(super) fn no_such_version() -> ApiError {
    refusal("NoSuchVersion", 400, "An incorrect version was specified in the request.")
}

pub(super) fn missing(parameter: &str) -> ApiError {
    missing_parameter(format!("The request must contain the parameter {parameter}"))
}

pub(super) fn value_missing(name: &str) -> ApiError {
    missing_parameter(format!("Attribute.Value missing for Attribute.Name='{name}'"))
}

pub(super) fn name_missing(value: &str) -> ApiError {
    let value = shown(value);
    missing_parameter(format!("Attribute.Name missing for Attribute.Value='{value}'"))
}

pub(super) fn no_attributes(item: &str) -> ApiError {
    missing_parameter(format!("No attributes for item {item}"))
}

/// `reason` may be empty. The space before it is there all the same.
pub(super) fn invalid_value(value: &str, parameter: &str, reason: &str) -> ApiError {
    let value = shown(value);
    let message = format!("Value ({value}) for parameter {parameter} is invalid. {reason}");
    refusal("InvalidParameterValue", 400, message)
}

pub(super) fn too_long(value: &str, parameter: &str, reason: &str) -> ApiError {
    let value = shown(value);
    let message = format!("Value (\"{value}\") for parameter {parameter} is invalid. {reason}");
    refusal("InvalidParameterValue", 400, message)
}

pub(super) fn duplicate_item(name: &str) -> ApiError {
    refusal("DuplicateItemName", 400, format!("Item {name} was specified more than once."))
}

pub(super) fn too_many_items() -> ApiError {
    let message = "Too many items in a single call. Up to 25 items per call allowed.";
    refusal("NumberSubmittedItemsExceeded", 409, message)
}

pub(super) fn too_many_submitted_attributes(item: &str) -> ApiError {
    let message = format!(
        "Too many attributes for item {item} in a single call. Up to 256 attributes per call \
         allowed."
    );
    refusal("NumberSubmittedAttributesExceeded", 409, message)
}

pub(super) fn too_many_requested_attributes() -> ApiError {
    let message = "Too many attributes requested. Up to 256 attributes per call allowed.";
    refusal("TooManyRequestedAttributes", 400, message)
}

pub(super) fn several_expected(code: &'static str, parameter: &str) -> ApiError {
    refusal(code, 400, format!("Only one {parameter} can be specified"))
}

pub(super) fn exists_and_expected_value() -> ApiError {
    let message = "Expected.Exists=false and Expected.Value cannot be specified together";
    refusal("ExistsAndExpectedValue", 400, message)
}

pub(super) fn incomplete_expected() -> ApiError {
    let message =
        "If Expected.Exists = True or unspecified, then Expected.Value has to be specified";
    refusal("IncompleteExpectedValues", 400, message)
}

pub(super) fn no_such_domain() -> ApiError {
    refusal("NoSuchDomain", 400, "The specified domain does not exist.")
}

pub(super) fn invalid_next_token() -> ApiError {
    refusal("InvalidNextToken", 400, "The specified next token is not valid.")
}

pub(super) fn of_write(error: WriteError) -> ApiError {
    match error {
        WriteError::NoSuchDomain => no_such_domain(),
        WriteError::TooManyDomains(_) => {
            refusal("NumberDomainsExceeded", 409, "Number of domains limit exceeded.")
        }
        WriteError::TooManyItemAttributes(_) => {
            refusal("NumberItemAttributesExceeded", 409, "Too many attributes in this item.")
        }
        WriteError::TooManyDomainAttributes(_) => {
            refusal("NumberDomainAttributesExceeded", 409, "Too many attributes in this domain.")
        }
        WriteError::TooManyDomainBytes(_) => {
            refusal("NumberDomainBytesExceeded", 409, "Too many bytes in this domain.")
        }
        WriteError::AttributeDoesNotExist(name) => {
            refusal("AttributeDoesNotExist", 404, format!("Attribute ({name}) does not exist"))
        }
        WriteError::OtherValue { name, found, expected } => failed_condition(format!(
            "Attribute ({name}) value is ({found}) but was expected ({expected})"
        )),
        WriteError::AttributeExists(name) => {
            failed_condition(format!("Attribute ({name}) value exists."))
        }
        WriteError::MultiValued(name) => {
            let message = format!(
                "Attribute ({name}) is multi-valued. Conditional check can only be performed on a \
                 single-valued attribute"
            );
            refusal("MultiValuedAttribute", 409, message)
        }
        WriteError::Unavailable(cause) => unavailable(&cause),
        other => internal(&other),
    }
}

pub(super) fn of_read(error: ReadError) -> ApiError {
    match error {
        ReadError::TimedOut(_) => timed_out(),
        ReadError::Busy | ReadError::Closed => unavailable(&error.to_string()),
        other => internal(&other),
    }
}

pub(super) fn of_select(error: SelectError) -> ApiError {
    match error {
        SelectError::Syntax => {
            let message = "The specified query expression syntax is not valid.";
            refusal("InvalidQueryExpression", 400, message)
        }
        SelectError::TooManyPredicates(_) => {
            let message = "Too many predicates in the query expression.";
            refusal("InvalidNumberPredicates", 400, message)
        }
        SelectError::TooManyValues(_) => {
            let message = "Too many value tests per predicate in the query expression.";
            refusal("InvalidNumberValueTests", 400, message)
        }
        SelectError::Sort => {
            let message = "Invalid sort expression. The sort attribute must be present in at least \
                           one of the predicates, and the predicate cannot contain the is null \
                           operator.";
            refusal("InvalidSortExpression", 400, message)
        }
        SelectError::Limit(limit) => {
            let reason = "MaxNumberOfItems must be between 1 and 2500.";
            invalid_value(&limit, "MaxNumberOfItems", reason)
        }
        SelectError::TooManyAttributes(_) => too_many_requested_attributes(),
        SelectError::Token => invalid_next_token(),
        SelectError::NoSuchDomain => no_such_domain(),
        SelectError::TimedOut => timed_out(),
        other => internal(&other),
    }
}

fn timed_out() -> ApiError {
    let message = "A timeout occurred when attempting to query the specified domain with the \
                   specified query expression.";
    refusal("RequestTimeout", 408, message)
}

fn failed_condition(detail: String) -> ApiError {
    refusal("ConditionalCheckFailed", 409, format!("Conditional check failed. {detail}"))
}

/// Clients retry. Nothing was changed.
fn unavailable(cause: &str) -> ApiError {
    tracing::debug!(cause, "SimpleDB request refused");
    let message = "Service AmazonSimpleDB is currently unavailable. Please try again later";
    refusal("ServiceUnavailable", 503, message)
}

fn internal(error: &impl std::fmt::Display) -> ApiError {
    tracing::warn!(%error, "SimpleDB request failed");
    let message = "Request could not be executed due to an internal service error";
    refusal("InternalError", 500, message)
}

fn missing_parameter(message: String) -> ApiError {
    refusal("MissingParameter", 400, message)
}

fn refusal(code: &'static str, status: u16, message: impl Into<Cow<'static, str>>) -> ApiError {
    ApiError { namespace: "com.amazonaws.sdb", shape: code, code, status, message: message.into() }
}

/// The beginning of a text of a client's.
fn shown(text: &str) -> &str {
    let end = text.char_indices().nth(SHOWN_CHARS).map_or(text.len(), |(end, _)| end);
    text.get(..end).unwrap_or(text)
}
