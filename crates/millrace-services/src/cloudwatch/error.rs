//! Which wire codes a CloudWatch failure gets: the only place that assigns them.

use std::borrow::Cow;

use millrace_broker::{BrokerError, KeptError};
use millrace_metrics::StoreError;
use millrace_metrics::math::{QueryError, WatchError};
use millrace_wire::ApiError;

use super::book::AlarmError;
use super::monitor::MonitorError;

const NAMESPACE: &str = "com.amazonaws.cloudwatch.v2010_08_01";

fn modelled(
    shape: &'static str,
    code: &'static str,
    status: u16,
    message: impl Into<Cow<'static, str>>,
) -> ApiError {
    ApiError { namespace: NAMESPACE, shape, code, status, message: message.into() }
}

pub(super) fn missing(parameter: &str) -> ApiError {
    let message = format!("The parameter {parameter} is required.");
    modelled("MissingRequiredParameterException", "MissingParameter", 400, message)
}

pub(super) fn invalid_value(message: impl Into<Cow<'static, str>>) -> ApiError {
    modelled("InvalidParameterValueException", "InvalidParameterValue", 400, message)
}

pub(super) fn invalid_combination(message: impl Into<Cow<'static, str>>) -> ApiError {
    let shape = "InvalidParameterCombinationException";
    modelled(shape, "InvalidParameterCombination", 400, message)
}

pub(super) fn invalid_next_token() -> ApiError {
    modelled("InvalidNextToken", "InvalidNextToken", 400, "The next token is not valid.")
}

pub(super) fn invalid_format(message: impl Into<Cow<'static, str>>) -> ApiError {
    modelled("InvalidFormatFault", "InvalidFormat", 400, message)
}

pub(super) fn limit_exceeded(message: impl Into<Cow<'static, str>>) -> ApiError {
    modelled("LimitExceededFault", "LimitExceeded", 400, message)
}

/// An alarm that does not exist: CloudWatch says nothing more about it.
pub(super) fn alarm_not_found() -> ApiError {
    modelled("ResourceNotFound", "ResourceNotFound", 404, "")
}

pub(super) fn resource_not_found(arn: &str) -> ApiError {
    let message = format!("The resource {arn} does not exist.");
    modelled("ResourceNotFoundException", "ResourceNotFoundException", 404, message)
}

pub(super) fn validation(message: impl Into<Cow<'static, str>>) -> ApiError {
    ApiError {
        namespace: "com.amazon.coral.validate",
        shape: "ValidationException",
        code: "ValidationError",
        status: 400,
        message: message.into(),
    }
}

/// A value that is none of those allowed; `member` begins with a lower-case letter.
pub(super) fn not_in_enum(value: &str, member: &str, allowed: &str) -> ApiError {
    validation(format!(
        "1 validation error detected: Value '{value}' at '{member}' failed to satisfy constraint: \
         Member must satisfy enum value set: [{allowed}]"
    ))
}

pub(super) fn too_many_tags() -> ApiError {
    invalid_value("A resource has at most 50 tags.")
}

/// The error of an action whose model has none about parameters: CloudWatch says of all of them that
/// they did not pass validation.
pub(super) fn of_validation(error: ApiError) -> ApiError {
    match error.shape {
        "InvalidParameterCombinationException"
        | "InvalidParameterValueException"
        | "MissingRequiredParameterException" => validation(error.message),
        _ => error,
    }
}

pub(crate) fn of_store(error: &StoreError) -> ApiError {
    match error {
        StoreError::TooManySeries => limit_exceeded("There are too many different metrics."),
        StoreError::TooManyPoints { .. } => validation(
            "Too many datapoints are asked for. You may reduce them by increasing Period, or \
             decreasing the time range or the number of metrics.",
        ),
        StoreError::Interrupted => ApiError::service_unavailable("The server is stopping."),
        StoreError::Io(_) | StoreError::Poisoned => {
            tracing::error!(%error, "metrics");
            ApiError::internal_failure()
        }
    }
}

pub(super) fn of_query(error: QueryError) -> ApiError {
    match error {
        QueryError::Math { id, error } => {
            validation(format!("Error in expression '{id}' [{error}]"))
        }
        QueryError::Store(error) => of_store(&error),
    }
}

pub(super) fn of_watch(error: WatchError) -> ApiError {
    match error {
        WatchError::Search => validation(error.to_string()),
        WatchError::Query(error) => of_query(error),
    }
}

pub(super) fn of_alarm(error: AlarmError) -> ApiError {
    match error {
        AlarmError::NotFound => alarm_not_found(),
        AlarmError::TooMany => limit_exceeded("The maximum number of alarms has been reached."),
        AlarmError::TooManyTags => too_many_tags(),
        AlarmError::TooLarge => limit_exceeded("The alarm is too large."),
        AlarmError::Kept(KeptError::Broker(error)) => of_broker(error),
        AlarmError::Kept(error) => {
            tracing::error!(%error, "alarms");
            ApiError::internal_failure()
        }
    }
}

/// The error for a change of an alarm that the journal refuses.
pub(super) fn of_broker(error: BrokerError) -> ApiError {
    match error {
        error if error.is_backlog() => ApiError::throttling("Rate exceeded"),
        error if error.is_outcome_unknown() => {
            tracing::warn!(%error, "alarms may be changed or not");
            ApiError::outcome_unknown()
        }
        error if error.is_for_now() => {
            tracing::warn!(%error, "alarms are not changed");
            ApiError::service_unavailable("The service cannot store changes at the moment.")
        }
        error => {
            tracing::error!(%error, "alarms");
            ApiError::internal_failure()
        }
    }
}

impl From<MonitorError> for ApiError {
    fn from(error: MonitorError) -> ApiError {
        match error {
            MonitorError::Busy => ApiError::throttling("Rate exceeded"),
            MonitorError::Panicked => ApiError::internal_failure(),
            MonitorError::Closed => ApiError::service_unavailable("The server is stopping."),
            MonitorError::Store(error) => of_store(&error),
        }
    }
}

#[cfg(test)]
mod tests {
    use millrace_journal::Unavailable;

    use super::*;

    #[test]
    fn clients_are_told_to_come_back_where_that_helps() {
        let backlog = Unavailable::Backlog { waiting_bytes: 1, limit_bytes: 1 };
        let large = Unavailable::TooLarge { bytes: 2, limit_bytes: 1 };
        for (error, code) in [
            (backlog, "Throttling"),
            (Unavailable::DiskFull, "ServiceUnavailable"),
            (large, "InternalFailure"),
        ] {
            let kept = KeptError::Broker(BrokerError::Unavailable(error));
            assert_eq!(of_alarm(AlarmError::Kept(kept)).code, code);
        }
        let late = BrokerError::Unavailable(Unavailable::NotSettled("hangs".into()));
        let told = of_alarm(AlarmError::Kept(KeptError::Broker(late))).message;
        assert!(told.contains("outcome is unknown"), "{told}");
        let changed = KeptError::Changed { collection: "c".into(), key: "k".into() };
        assert_eq!(of_alarm(AlarmError::Kept(changed)).code, "InternalFailure");
        assert_eq!(of_alarm(AlarmError::TooLarge).code, "LimitExceeded");
    }
}
