//! Which wire codes an SNS failure gets: the only place that assigns them. Texts are those of the
//! real service as far as they are known.

use std::borrow::Cow;

use millrace_broker::{BrokerError, KeptError};
use millrace_wire::ApiError;

/// Actions of Amazon SNS about mobile push and text messages, which a server of queues lacks.
const OF_PHONES: [&str; 21] = [
    "CheckIfPhoneNumberIsOptedOut",
    "CreatePlatformApplication",
    "CreatePlatformEndpoint",
    "CreateSMSSandboxPhoneNumber",
    "DeleteEndpoint",
    "DeletePlatformApplication",
    "DeleteSMSSandboxPhoneNumber",
    "GetEndpointAttributes",
    "GetPlatformApplicationAttributes",
    "GetSMSAttributes",
    "GetSMSSandboxAccountStatus",
    "ListEndpointsByPlatformApplication",
    "ListOriginationNumbers",
    "ListPhoneNumbersOptedOut",
    "ListPlatformApplications",
    "ListSMSSandboxPhoneNumbers",
    "OptInPhoneNumber",
    "SetEndpointAttributes",
    "SetPlatformApplicationAttributes",
    "SetSMSAttributes",
    "VerifySMSSandboxPhoneNumber",
];

/// The error for an action that the service does not have.
pub(super) fn unknown_action(action: &str) -> ApiError {
    if OF_PHONES.contains(&action) {
        let message = format!(
            "The action {action} is about mobile push or text messages, which this server does \
             not send."
        );
        return modelled("InvalidAction", 400, message);
    }
    ApiError::invalid_action(action)
}

/// `InvalidParameter`, whose texts all begin alike.
pub(super) fn invalid_parameter(reason: impl std::fmt::Display) -> ApiError {
    modelled("InvalidParameter", 400, format!("Invalid parameter: {reason}"))
}

/// A value that has another form than an ARN.
pub(super) fn short_arn(parameter: &str, parts: usize) -> ApiError {
    invalid_parameter(format_args!(
        "{parameter} Reason: An ARN must have at least 6 elements, not {parts}"
    ))
}

/// A required member is absent; `path` is its name in the model.
pub(super) fn missing(path: &str) -> ApiError {
    modelled(
        "ValidationError",
        400,
        format!(
            "1 validation error detected: Value null at '{path}' failed to satisfy constraint: \
             Member must not be null"
        ),
    )
}

/// A member has a value that the model does not allow; `path` is its name there.
pub(super) fn constraint(path: &str, value: &str, constraint: &str) -> ApiError {
    modelled(
        "ValidationError",
        400,
        format!(
            "1 validation error detected: Value '{value}' at '{path}' failed to satisfy \
             constraint: {constraint}"
        ),
    )
}

/// A message attribute that cannot be what it says.
pub(super) fn attribute(message: String) -> ApiError {
    modelled("ParameterValueInvalid", 400, message)
}

/// No subscription has that token, or no longer.
pub(super) fn invalid_token() -> ApiError {
    modelled("InvalidParameter", 400, "Invalid token")
}

pub(super) fn no_such_topic() -> ApiError {
    modelled("NotFound", 404, "Topic does not exist")
}

pub(super) fn no_such_subscription() -> ApiError {
    modelled("NotFound", 404, "Subscription does not exist")
}

/// Of the actions about tags and data protection policies.
pub(super) fn no_such_resource() -> ApiError {
    modelled("ResourceNotFound", 404, "Resource does not exist")
}

pub(super) fn too_many_topics() -> ApiError {
    modelled("TopicLimitExceeded", 403, "Maximum number of topics reached")
}

pub(super) fn too_many_subscriptions() -> ApiError {
    modelled("SubscriptionLimitExceeded", 403, "Maximum number of subscriptions reached")
}

pub(super) fn too_many_tags() -> ApiError {
    let message = "Could not complete request: tag quota of per resource exceeded";
    modelled("TagLimitExceeded", 400, message)
}

/// An error of PublishBatch as a whole.
pub(super) fn batch(code: &'static str, message: impl Into<Cow<'static, str>>) -> ApiError {
    modelled(code, 400, message)
}

/// The caller may not do that.
pub(super) fn not_authorized(message: impl Into<Cow<'static, str>>) -> ApiError {
    modelled("AuthorizationError", 403, message)
}

pub(super) fn of_kept(error: KeptError) -> ApiError {
    match error {
        KeptError::Broker(error) => of_broker(error),
        KeptError::TooLarge { bytes } => {
            invalid_parameter(format_args!("Attributes Reason: together they have {bytes} bytes"))
        }
        KeptError::InvalidKey => invalid_parameter("Endpoint Reason: it is too long"),
        error => internal(&error),
    }
}

pub(super) fn of_broker(error: BrokerError) -> ApiError {
    match error {
        error if error.is_backlog() => modelled("Throttled", 429, "Rate exceeded"),
        error if error.is_outcome_unknown() => {
            tracing::debug!(%error, "outcome unknown");
            ApiError::outcome_unknown()
        }
        BrokerError::Unavailable(reason) => {
            tracing::debug!(%reason, "changes are refused");
            ApiError::service_unavailable("The service cannot store changes at the moment.")
        }
        error => internal(&error),
    }
}

fn internal(error: &dyn std::fmt::Display) -> ApiError {
    tracing::error!(%error, "request failed");
    modelled("InternalError", 500, "We encountered an internal error. Please try again.")
}

fn modelled(code: &'static str, status: u16, message: impl Into<Cow<'static, str>>) -> ApiError {
    ApiError { namespace: "com.amazonaws.sns", shape: code, code, status, message: message.into() }
}
