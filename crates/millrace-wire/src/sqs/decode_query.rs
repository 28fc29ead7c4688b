//! Query parameters to typed requests. Lists and maps are flattened and have singular names, or
//! plural ones.

use std::borrow::Cow;

use serde::de::IgnoredAny;

use super::types::*;
use super::value::{
    Blob, ELEMENTS_MAX, MAP_PAIRS_MAX, MESSAGE_ATTRIBUTES_MAX, Map, Text, Texts, decode_base64,
};
use crate::ApiError;
use crate::query::{Parameters, Scope};

/// Parameters of one request at most. A batch of ten messages with ten attributes each has some 400;
/// each takes ten times what it is written in, for as long as a long poll waits.
const PARAMETERS_MAX: usize = 4_096;

/// Decodes the parameters of a request for `action`, the value of its parameter of that name.
/// Everything is borrowed from `parameters`. Values of the wrong type are MalformedInput, the
/// Query form of JSON's SerializationException; too many parameters are a MalformedQueryString.
pub fn decode_query<'p>(
    action: &str,
    parameters: &'p Parameters<'_>,
) -> Result<Action<'p>, ApiError> {
    if parameters.len() > PARAMETERS_MAX {
        let message = format!("a request has at most {PARAMETERS_MAX} parameters");
        return Err(ApiError::malformed_query_string(message));
    }
    let scope = parameters.scope();
    Ok(match action {
        "AddPermission" => Action::AddPermission(AddPermission {
            queue_url: text(scope, "QueueUrl")?,
            label: text(scope, "Label")?,
            aws_account_ids: texts(scope, "AWSAccountId")?,
            actions: texts(scope, "ActionName")?,
        }),
        "CancelMessageMoveTask" => Action::CancelMessageMoveTask(CancelMessageMoveTask {
            task_handle: text(scope, "TaskHandle")?,
        }),
        "ChangeMessageVisibility" => Action::ChangeMessageVisibility(ChangeMessageVisibility {
            queue_url: text(scope, "QueueUrl")?,
            receipt_handle: text(scope, "ReceiptHandle")?,
            visibility_timeout: scope.integer("VisibilityTimeout")?,
        }),
        "ChangeMessageVisibilityBatch" => {
            let name = "ChangeMessageVisibilityBatchRequestEntry";
            Action::ChangeMessageVisibilityBatch(ChangeMessageVisibilityBatch {
                queue_url: text(scope, "QueueUrl")?,
                entries: entries(scope, name, change_message_visibility_entry)?,
            })
        }
        "CreateQueue" => Action::CreateQueue(CreateQueue {
            queue_name: text(scope, "QueueName")?,
            attributes: map(scope, "Attribute", "Name")?,
            tags: tags(scope)?,
        }),
        "DeleteMessage" => Action::DeleteMessage(DeleteMessage {
            queue_url: text(scope, "QueueUrl")?,
            receipt_handle: text(scope, "ReceiptHandle")?,
        }),
        "DeleteMessageBatch" => Action::DeleteMessageBatch(DeleteMessageBatch {
            queue_url: text(scope, "QueueUrl")?,
            entries: entries(scope, "DeleteMessageBatchRequestEntry", delete_message_entry)?,
        }),
        "DeleteQueue" => Action::DeleteQueue(queue_only(scope)?),
        "GetQueueAttributes" => Action::GetQueueAttributes(GetQueueAttributes {
            queue_url: text(scope, "QueueUrl")?,
            attribute_names: texts(scope, "AttributeName")?,
        }),
        "GetQueueUrl" => Action::GetQueueUrl(GetQueueUrl {
            queue_name: text(scope, "QueueName")?,
            queue_owner_aws_account_id: text(scope, "QueueOwnerAWSAccountId")?,
        }),
        "ListDeadLetterSourceQueues" => {
            Action::ListDeadLetterSourceQueues(ListDeadLetterSourceQueues {
                queue_url: text(scope, "QueueUrl")?,
                next_token: text(scope, "NextToken")?,
                max_results: scope.integer("MaxResults")?,
            })
        }
        "ListMessageMoveTasks" => Action::ListMessageMoveTasks(ListMessageMoveTasks {
            source_arn: text(scope, "SourceArn")?,
            max_results: scope.integer("MaxResults")?,
        }),
        "ListQueues" => Action::ListQueues(ListQueues {
            queue_name_prefix: text(scope, "QueueNamePrefix")?,
            next_token: text(scope, "NextToken")?,
            max_results: scope.integer("MaxResults")?,
        }),
        "ListQueueTags" => Action::ListQueueTags(queue_only(scope)?),
        "PurgeQueue" => Action::PurgeQueue(queue_only(scope)?),
        "ReceiveMessage" => Action::ReceiveMessage(receive_message(scope)?),
        "RemovePermission" => Action::RemovePermission(RemovePermission {
            queue_url: text(scope, "QueueUrl")?,
            label: text(scope, "Label")?,
        }),
        "SendMessage" => Action::SendMessage(send_message(scope)?),
        "SendMessageBatch" => Action::SendMessageBatch(SendMessageBatch {
            queue_url: text(scope, "QueueUrl")?,
            entries: entries(scope, "SendMessageBatchRequestEntry", send_message)?,
        }),
        "SetQueueAttributes" => Action::SetQueueAttributes(SetQueueAttributes {
            queue_url: text(scope, "QueueUrl")?,
            attributes: map(scope, "Attribute", "Name")?,
        }),
        "StartMessageMoveTask" => Action::StartMessageMoveTask(StartMessageMoveTask {
            source_arn: text(scope, "SourceArn")?,
            destination_arn: text(scope, "DestinationArn")?,
            max_number_of_messages_per_second: scope.integer("MaxNumberOfMessagesPerSecond")?,
        }),
        "TagQueue" => {
            Action::TagQueue(TagQueue { queue_url: text(scope, "QueueUrl")?, tags: tags(scope)? })
        }
        "UntagQueue" => Action::UntagQueue(UntagQueue {
            queue_url: text(scope, "QueueUrl")?,
            tag_keys: texts(scope, "TagKey")?,
        }),
        "" => return Err(ApiError::missing_action()),
        _ => return Err(ApiError::invalid_action(action)),
    })
}

fn queue_only(scope: Scope<'_>) -> Result<QueueOnly<'_>, ApiError> {
    Ok(QueueOnly { queue_url: text(scope, "QueueUrl")? })
}

fn receive_message(scope: Scope<'_>) -> Result<ReceiveMessage<'_>, ApiError> {
    Ok(ReceiveMessage {
        queue_url: text(scope, "QueueUrl")?,
        attribute_names: texts(scope, "AttributeName")?,
        message_system_attribute_names: texts(scope, "MessageSystemAttributeName")?,
        message_attribute_names: texts(scope, "MessageAttributeName")?,
        max_number_of_messages: scope.integer("MaxNumberOfMessages")?,
        visibility_timeout: scope.integer("VisibilityTimeout")?,
        wait_time_seconds: scope.integer("WaitTimeSeconds")?,
        receive_request_attempt_id: text(scope, "ReceiveRequestAttemptId")?,
    })
}

/// A whole SendMessage or one entry of a batch.
fn send_message(scope: Scope<'_>) -> Result<SendMessage<'_>, ApiError> {
    Ok(SendMessage {
        queue_url: text(scope, "QueueUrl")?,
        id: text(scope, "Id")?,
        message_body: blob(scope, "MessageBody"),
        delay_seconds: scope.integer("DelaySeconds")?,
        message_attributes: message_attributes(scope, "MessageAttribute")?,
        message_system_attributes: message_attributes(scope, "MessageSystemAttribute")?,
        message_deduplication_id: text(scope, "MessageDeduplicationId")?,
        message_group_id: text(scope, "MessageGroupId")?,
    })
}

fn delete_message_entry(scope: Scope<'_>) -> Result<DeleteMessageEntry<'_>, ApiError> {
    Ok(DeleteMessageEntry { id: text(scope, "Id")?, receipt_handle: text(scope, "ReceiptHandle")? })
}

fn change_message_visibility_entry(
    scope: Scope<'_>,
) -> Result<ChangeMessageVisibilityEntry<'_>, ApiError> {
    Ok(ChangeMessageVisibilityEntry {
        id: text(scope, "Id")?,
        receipt_handle: text(scope, "ReceiptHandle")?,
        visibility_timeout: scope.integer("VisibilityTimeout")?,
    })
}

/// The entries of a batch. `name=` is how an empty batch is sent.
fn entries<'p, T>(
    scope: Scope<'p>,
    name: &str,
    decode: impl Fn(Scope<'p>) -> Result<T, ApiError>,
) -> Result<Option<Vec<T>>, ApiError> {
    let structures = scope.strict_structures(name)?;
    if structures.is_empty() {
        return Ok(scope.bytes(name).map(|_| Vec::new()));
    }
    check_count(name, structures.len(), ELEMENTS_MAX)?;
    structures.into_iter().map(decode).collect::<Result<_, _>>().map(Some)
}

fn message_attributes<'p>(
    scope: Scope<'p>,
    name: &str,
) -> Result<Option<MessageAttributes<'p>>, ApiError> {
    let structures = numbered_or_single(scope, name, "Name")?;
    if structures.is_empty() {
        return Ok(None);
    }
    check_count(name, structures.len(), MESSAGE_ATTRIBUTES_MAX)?;
    let mut attributes = Vec::with_capacity(structures.len());
    for attribute in structures {
        let value = attribute.nested("Value");
        let value = MessageAttributeValue {
            data_type: text(value, "DataType")?,
            string_value: blob(value, "StringValue"),
            binary_value: base64_bytes(value, "BinaryValue")?,
            string_list_values: reserved_list(value, "StringListValue"),
            binary_list_values: reserved_list(value, "BinaryListValue"),
        };
        attributes.push((text(attribute, "Name")?.unwrap_or_default(), value));
    }
    Ok(Some(MessageAttributes(attributes)))
}

/// The pairs `name.N.<key>`, `name.N.Value`; a missing half is empty, but for the value of an
/// attribute: an empty one removes it.
fn map<'p>(scope: Scope<'p>, name: &str, key: &str) -> Result<Option<Map<'p>>, ApiError> {
    let structures = numbered_or_single(scope, name, key)?;
    if structures.is_empty() {
        // As recorded of Amazon. Of tags nobody knows.
        if name == "Attribute" && scope.bytes(name).is_some_and(<[u8]>::is_empty) {
            return Err(ApiError::malformed_input("End of list found where not expected"));
        }
        return Ok(None);
    }
    check_count(name, structures.len(), MAP_PAIRS_MAX)?;
    let mut pairs = Vec::with_capacity(structures.len());
    for pair in structures {
        let value = text(pair, "Value")?;
        if value.is_none() && name == "Attribute" {
            return Err(ApiError::missing_parameter("Attribute.Value"));
        }
        pairs.push((text(pair, key)?.unwrap_or_default(), value.unwrap_or_default()));
    }
    Ok(Some(Map(pairs)))
}

/// `Tag.N.…`, or `Tags.N.…` as the SDKs for Java write it in TagQueue.
fn tags(scope: Scope<'_>) -> Result<Option<Map<'_>>, ApiError> {
    map(scope, "Tag", "Key")
}

/// Very old clients leave out the number of a single pair.
fn numbered_or_single<'p>(
    scope: Scope<'p>,
    name: &str,
    key: &str,
) -> Result<Vec<Scope<'p>>, ApiError> {
    let refusal = match scope.strict_structures(name) {
        Ok(structures) => return Ok(structures),
        Err(refusal) => refusal,
    };
    let single = scope.nested_or_plural(name);
    if single.bytes(key).is_none() {
        return Err(refusal);
    }
    let structures = scope.structures(name);
    Ok(if structures.is_empty() { vec![single] } else { structures })
}

fn check_count(name: &str, count: usize, limit: usize) -> Result<(), ApiError> {
    if count <= limit {
        return Ok(());
    }
    Err(ApiError::malformed_input(format!("there are too many elements of {name}")))
}

fn text<'p>(scope: Scope<'p>, name: &str) -> Result<Option<Text<'p>>, ApiError> {
    Ok(scope.text(name)?.map(Text::from))
}

fn texts<'p>(scope: Scope<'p>, name: &str) -> Result<Option<Texts<'p>>, ApiError> {
    let list = scope.strict_list(name)?;
    check_count(name, list.as_ref().map_or(0, Vec::len), ELEMENTS_MAX)?;
    Ok(list.map(|elements| Texts(elements.into_iter().map(Text::from).collect())))
}

fn blob<'p>(scope: Scope<'p>, name: &str) -> Option<Blob<'p>> {
    scope.bytes(name).map(|bytes| Blob(Cow::Borrowed(bytes)))
}

fn base64_bytes(scope: Scope<'_>, name: &str) -> Result<Option<Vec<u8>>, ApiError> {
    let Some(value) = scope.bytes(name) else { return Ok(None) };
    match decode_base64(value) {
        Some(bytes) => Ok(Some(bytes)),
        None => Err(ApiError::malformed_input(format!("parameter {name} is not base64"))),
    }
}

/// Only whether there are elements matters.
fn reserved_list(scope: Scope<'_>, name: &str) -> Option<Vec<IgnoredAny>> {
    let is_given = !scope.nested(name).is_empty();
    is_given.then(|| vec![IgnoredAny])
}

#[cfg(test)]
mod tests;
