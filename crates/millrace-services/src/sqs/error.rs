//! Which wire codes an SQS failure gets: the only place that assigns them.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use millrace_broker::{BrokerError, MoveTaskError};
use millrace_core::limits;
use millrace_wire::ApiError;

use super::Asked;

/// A modelled SQS error whose Query code is its own name.
fn modelled(shape: &'static str, status: u16, message: impl Into<Cow<'static, str>>) -> ApiError {
    ApiError { namespace: "com.amazonaws.sqs", shape, code: shape, status, message: message.into() }
}

/// A modelled SQS error whose Query code has the service's prefix.
macro_rules! prefixed {
    ($shape:literal, $status:expr, $message:expr) => {
        ApiError {
            namespace: "com.amazonaws.sqs",
            shape: $shape,
            code: concat!("AWS.SimpleQueueService.", $shape),
            status: $status,
            message: $message.into(),
        }
    };
}

pub(crate) fn queue_is_not_yours() -> ApiError {
    let message = "The specified queue does not exist or you do not have access to it.";
    ApiError { message: message.into(), ..queue_does_not_exist() }
}

pub(crate) fn queue_does_not_exist() -> ApiError {
    ApiError {
        namespace: "com.amazonaws.sqs",
        shape: "QueueDoesNotExist",
        code: "AWS.SimpleQueueService.NonExistentQueue",
        status: 400,
        message: "The specified queue does not exist.".into(),
    }
}

pub(crate) fn queue_name_exists(attribute: &str) -> ApiError {
    ApiError {
        namespace: "com.amazonaws.sqs",
        shape: "QueueNameExists",
        code: "QueueAlreadyExists",
        status: 400,
        message: format!(
            "A queue already exists with the same name and a different value for attribute \
             {attribute}"
        )
        .into(),
    }
}

pub(crate) fn queue_deleted_recently() -> ApiError {
    prefixed!(
        "QueueDeletedRecently",
        400,
        "You must wait 60 seconds after deleting a queue before you can create another with the \
         same name."
    )
}

pub(crate) fn purge_queue_in_progress(name: &str) -> ApiError {
    prefixed!(
        "PurgeQueueInProgress",
        403,
        format!("Only one PurgeQueue operation on {name} is allowed every 60 seconds.")
    )
}

pub(crate) fn too_many_entries(count: usize) -> ApiError {
    prefixed!(
        "TooManyEntriesInBatchRequest",
        400,
        format!(
            "Maximum number of entries per request are {}. You have sent {count}.",
            limits::BATCH_ENTRIES
        )
    )
}

pub(crate) fn empty_batch(entry: &str) -> ApiError {
    prefixed!(
        "EmptyBatchRequest",
        400,
        format!("There should be at least one {entry} in the request.")
    )
}

pub(crate) fn batch_entry_ids_not_distinct(id: &str) -> ApiError {
    prefixed!("BatchEntryIdsNotDistinct", 400, format!("Id {id} repeated."))
}

pub(crate) fn invalid_batch_entry_id() -> ApiError {
    prefixed!(
        "InvalidBatchEntryId",
        400,
        "A batch entry id can only contain alphanumeric characters, hyphens and underscores. It \
         can be at most 80 letters long."
    )
}

pub(crate) fn batch_request_too_long(bytes: usize) -> ApiError {
    prefixed!(
        "BatchRequestTooLong",
        400,
        format!(
            "Batch requests cannot be longer than {} bytes. You have sent {bytes} bytes.",
            limits::MESSAGE_SIZE_BYTES
        )
    )
}

/// Of a FIFO queue.
pub(crate) fn missing_deduplication_id() -> ApiError {
    ApiError::invalid_parameter_value(
        "The queue should either have ContentBasedDeduplication enabled or \
         MessageDeduplicationId provided explicitly",
    )
}

pub(crate) fn unsupported_operation(message: impl Into<Cow<'static, str>>) -> ApiError {
    prefixed!("UnsupportedOperation", 400, message.into())
}

pub(crate) fn unknown_attribute(name: &str) -> ApiError {
    modelled("InvalidAttributeName", 400, format!("Unknown Attribute {name}."))
}

pub(crate) fn invalid_attribute_name(message: impl Into<Cow<'static, str>>) -> ApiError {
    modelled("InvalidAttributeName", 400, message)
}

pub(crate) fn invalid_attribute_value(name: &str) -> ApiError {
    modelled("InvalidAttributeValue", 400, format!("Invalid value for the parameter {name}."))
}

pub(crate) fn invalid_attribute_value_because(name: &str, reason: &str) -> ApiError {
    let message = format!("Invalid value for the parameter {name}. Reason: {reason}");
    modelled("InvalidAttributeValue", 400, message)
}

/// `character` is the first that a body must not have.
pub(crate) fn invalid_message_contents(character: u32) -> ApiError {
    let message = format!(
        "Invalid binary character '#x{character:X}' was found in the message body, the set of \
         allowed characters is #x9 | #xA | #xD | [#x20-#xD7FF] | [#xE000-#xFFFD] | \
         [#x10000-#x10FFFF]."
    );
    modelled("InvalidMessageContents", 400, message)
}

/// An entry of a batch has nothing where a value must be; a single request lacks a parameter.
pub(crate) fn empty_value(parameter: &str) -> ApiError {
    modelled("EmptyValue", 400, format!("No Value Found for {parameter}."))
}

pub(crate) fn receipt_handle_is_invalid(handle: &str) -> ApiError {
    let message = format!("The input receipt handle \"{handle}\" is not a valid receipt handle.");
    modelled("ReceiptHandleIsInvalid", 404, message)
}

/// As recorded of Amazon: an entry of a batch gets other words than the same single request.
pub(crate) fn receipt_handle_of_another_queue(handle: &str, asked: Asked) -> ApiError {
    let which = match asked {
        Asked::Alone => "input receipt handle".to_owned(),
        Asked::InBatch => format!("receipt handle \"{handle}\""),
    };
    let message = format!("The {which} is not valid for this queue.");
    modelled("ReceiptHandleIsInvalid", 404, message)
}

pub(crate) fn over_limit(message: impl Into<Cow<'static, str>>) -> ApiError {
    modelled("OverLimit", 403, message)
}

pub(crate) fn resource_not_found(message: impl Into<Cow<'static, str>>) -> ApiError {
    modelled("ResourceNotFoundException", 404, message)
}

pub(crate) fn invalid_address(message: impl Into<Cow<'static, str>>) -> ApiError {
    modelled("InvalidAddress", 404, message)
}

/// As recorded of Amazon: with another status than malformed accounts.
pub(crate) fn address_is_an_arn(arn: &str) -> ApiError {
    modelled("InvalidAddress", 400, format!("The address {arn} is not valid for this endpoint."))
}

/// `Value V for parameter P is invalid. Reason: R`
pub(crate) fn invalid_value(
    value: impl std::fmt::Display,
    parameter: &str,
    reason: &str,
) -> ApiError {
    ApiError::invalid_parameter_value(format!(
        "Value {value} for parameter {parameter} is invalid. Reason: {reason}"
    ))
}

/// `timeout_s` would keep the message hidden for longer than 12 hours since its receive.
pub(crate) fn beyond_visibility_limit(timeout_s: u32) -> ApiError {
    invalid_value(
        timeout_s,
        "VisibilityTimeout",
        "Total VisibilityTimeout for the message is beyond the limit [43200 seconds]",
    )
}

/// The broker's failures about the message of a receipt handle. As recorded of Amazon, an entry of
/// a batch gets another code and other words than the same single request.
pub(crate) fn of_handle(error: BrokerError, handle: &str, asked: Asked) -> ApiError {
    let reason = match error {
        BrokerError::HandleExpired => "The receipt handle has expired",
        BrokerError::NotAvailable => {
            "Message does not exist or is not available for visibility timeout change"
        }
        error => return of_broker(error),
    };
    match asked {
        Asked::Alone => invalid_value(handle, "ReceiptHandle", &format!("{reason}.")),
        Asked::InBatch => modelled("ReceiptHandleIsInvalid", 404, reason),
    }
}

/// The broker's other failures.
pub(crate) fn of_broker(error: BrokerError) -> ApiError {
    match error {
        BrokerError::QueueDoesNotExist => queue_does_not_exist(),
        BrokerError::OverLimit => {
            over_limit("The maximum number of in flight messages is reached for the queue.")
        }
        error if error.is_backlog() => modelled("RequestThrottled", 403, "Rate exceeded."),
        error if error.is_outcome_unknown() => {
            warn_once_a_second(&error);
            ApiError::outcome_unknown()
        }
        BrokerError::Unavailable(reason) => {
            warn_once_a_second(&reason);
            ApiError::service_unavailable("The service cannot store changes at the moment.")
        }
        error => {
            tracing::error!(%error, "request failed");
            ApiError::internal_failure()
        }
    }
}

pub(crate) fn of_move_task(error: MoveTaskError) -> ApiError {
    match error {
        MoveTaskError::AlreadyRunning => ApiError::invalid_parameter_value(
            "There is already a task running. Only one active task is allowed for a source queue \
             arn at a given time.",
        ),
        MoveTaskError::TooManyRunning => {
            over_limit("The maximum number of active message move tasks is reached.")
        }
        MoveTaskError::NoSuchTask => resource_not_found("Task does not exist."),
        MoveTaskError::Broker(error) => of_broker(error),
    }
}

/// On a full disk every send is refused: one line a second says so.
fn warn_once_a_second(reason: &dyn std::fmt::Display) {
    static LAST_S: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    if LAST_S.swap(now, Ordering::Relaxed) != now {
        tracing::warn!(%reason, "changes are refused");
    }
}
