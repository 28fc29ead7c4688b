//! AWS JSON 1.0 request bodies to typed requests.

use serde::Deserialize;
use serde::de::DeserializeSeed;

use super::types::Action;
use super::value::Object;
use crate::ApiError;

/// Decodes the body of a request for `action`, the part of `X-Amz-Target` after the dot. An empty
/// body counts as an empty object. Text without escapes is borrowed from `body`.
pub fn decode_json<'a>(action: &str, body: &'a [u8]) -> Result<Action<'a>, ApiError> {
    Ok(match action {
        "AddPermission" => Action::AddPermission(object(body)?),
        "CancelMessageMoveTask" => Action::CancelMessageMoveTask(object(body)?),
        "ChangeMessageVisibility" => Action::ChangeMessageVisibility(object(body)?),
        "ChangeMessageVisibilityBatch" => Action::ChangeMessageVisibilityBatch(object(body)?),
        "CreateQueue" => Action::CreateQueue(object(body)?),
        "DeleteMessage" => Action::DeleteMessage(object(body)?),
        "DeleteMessageBatch" => Action::DeleteMessageBatch(object(body)?),
        "DeleteQueue" => Action::DeleteQueue(object(body)?),
        "GetQueueAttributes" => Action::GetQueueAttributes(object(body)?),
        "GetQueueUrl" => Action::GetQueueUrl(object(body)?),
        "ListDeadLetterSourceQueues" => Action::ListDeadLetterSourceQueues(object(body)?),
        "ListMessageMoveTasks" => Action::ListMessageMoveTasks(object(body)?),
        "ListQueues" => Action::ListQueues(object(body)?),
        "ListQueueTags" => Action::ListQueueTags(object(body)?),
        "PurgeQueue" => Action::PurgeQueue(object(body)?),
        "ReceiveMessage" => Action::ReceiveMessage(object(body)?),
        "RemovePermission" => Action::RemovePermission(object(body)?),
        "SendMessage" => Action::SendMessage(object(body)?),
        "SendMessageBatch" => Action::SendMessageBatch(object(body)?),
        "SetQueueAttributes" => Action::SetQueueAttributes(object(body)?),
        "StartMessageMoveTask" => Action::StartMessageMoveTask(object(body)?),
        "TagQueue" => Action::TagQueue(object(body)?),
        "UntagQueue" => Action::UntagQueue(object(body)?),
        _ => return Err(ApiError::unknown_operation()),
    })
}

fn object<'a, T: Deserialize<'a> + Default>(body: &'a [u8]) -> Result<T, ApiError> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(T::default());
    }
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let decoded = Object::new().deserialize(&mut deserializer).map_err(serialization)?;
    deserializer.end().map_err(serialization)?;
    Ok(decoded)
}

fn serialization(error: serde_json::Error) -> ApiError {
    // serde_json quotes the offending value, which may be a megabyte.
    const MESSAGE_BYTES_MAX: usize = 200;

    let mut message = format!("the request body cannot be read: {error}");
    if message.len() > MESSAGE_BYTES_MAX {
        let cut = (0..=MESSAGE_BYTES_MAX).rev().find(|at| message.is_char_boundary(*at));
        message.truncate(cut.unwrap_or(0));
    }
    ApiError::serialization(message)
}
