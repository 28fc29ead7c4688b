//! The requests and responses of the 23 actions. Members carry the names of the AWS model, in
//! snake case; JSON names are their Pascal case unless an attribute says otherwise.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Deserialize;

use super::value::{Blob, Map, Text, Texts};

/// What the actions are called, in order.
pub const ACTIONS: [&str; 23] = [
    "AddPermission",
    "CancelMessageMoveTask",
    "ChangeMessageVisibility",
    "ChangeMessageVisibilityBatch",
    "CreateQueue",
    "DeleteMessage",
    "DeleteMessageBatch",
    "DeleteQueue",
    "GetQueueAttributes",
    "GetQueueUrl",
    "ListDeadLetterSourceQueues",
    "ListMessageMoveTasks",
    "ListQueueTags",
    "ListQueues",
    "PurgeQueue",
    "ReceiveMessage",
    "RemovePermission",
    "SendMessage",
    "SendMessageBatch",
    "SetQueueAttributes",
    "StartMessageMoveTask",
    "TagQueue",
    "UntagQueue",
];

/// One decoded request.
#[derive(Debug)]
pub enum Action<'a> {
    AddPermission(AddPermission<'a>),
    CancelMessageMoveTask(CancelMessageMoveTask<'a>),
    ChangeMessageVisibility(ChangeMessageVisibility<'a>),
    ChangeMessageVisibilityBatch(ChangeMessageVisibilityBatch<'a>),
    CreateQueue(CreateQueue<'a>),
    DeleteMessage(DeleteMessage<'a>),
    DeleteMessageBatch(DeleteMessageBatch<'a>),
    DeleteQueue(QueueOnly<'a>),
    GetQueueAttributes(GetQueueAttributes<'a>),
    GetQueueUrl(GetQueueUrl<'a>),
    ListDeadLetterSourceQueues(ListDeadLetterSourceQueues<'a>),
    ListMessageMoveTasks(ListMessageMoveTasks<'a>),
    ListQueues(ListQueues<'a>),
    ListQueueTags(QueueOnly<'a>),
    PurgeQueue(QueueOnly<'a>),
    ReceiveMessage(ReceiveMessage<'a>),
    RemovePermission(RemovePermission<'a>),
    SendMessage(SendMessage<'a>),
    SendMessageBatch(SendMessageBatch<'a>),
    SetQueueAttributes(SetQueueAttributes<'a>),
    StartMessageMoveTask(StartMessageMoveTask<'a>),
    TagQueue(TagQueue<'a>),
    UntagQueue(UntagQueue<'a>),
}

/// DeleteQueue, ListQueueTags, PurgeQueue.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default, expecting = "an object")]
pub struct QueueOnly<'a> {
    #[serde(borrow)]
    pub queue_url: Option<Text<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default, expecting = "an object")]
pub struct AddPermission<'a> {
    #[serde(borrow)]
    pub queue_url: Option<Text<'a>>,
    pub label: Option<Text<'a>>,
    #[serde(rename = "AWSAccountIds")]
    pub aws_account_ids: Option<Texts<'a>>,
    pub actions: Option<Texts<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default, expecting = "an object")]
pub struct RemovePermission<'a> {
    #[serde(borrow)]
    pub queue_url: Option<Text<'a>>,
    pub label: Option<Text<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default, expecting = "an object")]
pub struct CancelMessageMoveTask<'a> {
    #[serde(borrow)]
    pub task_handle: Option<Text<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default, expecting = "an object")]
pub struct ListMessageMoveTasks<'a> {
    #[serde(borrow)]
    pub source_arn: Option<Text<'a>>,
    #[serde(deserialize_with = "super::value::lenient_integer")]
    pub max_results: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default, expecting = "an object")]
pub struct StartMessageMoveTask<'a> {
    #[serde(borrow)]
    pub source_arn: Option<Text<'a>>,
    pub destination_arn: Option<Text<'a>>,
    #[serde(deserialize_with = "super::value::lenient_integer")]
    pub max_number_of_messages_per_second: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default, expecting = "an object")]
pub struct ChangeMessageVisibility<'a> {
    #[serde(borrow)]
    pub queue_url: Option<Text<'a>>,
    pub receipt_handle: Option<Text<'a>>,
    #[serde(deserialize_with = "super::value::lenient_integer")]
    pub visibility_timeout: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default, expecting = "an object")]
pub struct ChangeMessageVisibilityBatch<'a> {
    #[serde(borrow)]
    pub queue_url: Option<Text<'a>>,
    #[serde(deserialize_with = "super::value::entries")]
    pub entries: Option<Vec<ChangeMessageVisibilityEntry<'a>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default, expecting = "an object")]
pub struct ChangeMessageVisibilityEntry<'a> {
    #[serde(borrow)]
    pub id: Option<Text<'a>>,
    pub receipt_handle: Option<Text<'a>>,
    #[serde(deserialize_with = "super::value::lenient_integer")]
    pub visibility_timeout: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default, expecting = "an object")]
pub struct CreateQueue<'a> {
    #[serde(borrow)]
    pub queue_name: Option<Text<'a>>,
    pub attributes: Option<Map<'a>>,
    /// Lower case in the AWS model; `Tags` is accepted too.
    #[serde(borrow, rename = "tags", alias = "Tags", deserialize_with = "super::value::tags")]
    pub tags: Option<Map<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default, expecting = "an object")]
pub struct DeleteMessage<'a> {
    #[serde(borrow)]
    pub queue_url: Option<Text<'a>>,
    pub receipt_handle: Option<Text<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default, expecting = "an object")]
pub struct DeleteMessageBatch<'a> {
    #[serde(borrow)]
    pub queue_url: Option<Text<'a>>,
    #[serde(deserialize_with = "super::value::entries")]
    pub entries: Option<Vec<DeleteMessageEntry<'a>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default, expecting = "an object")]
pub struct DeleteMessageEntry<'a> {
    #[serde(borrow)]
    pub id: Option<Text<'a>>,
    pub receipt_handle: Option<Text<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default, expecting = "an object")]
pub struct GetQueueAttributes<'a> {
    #[serde(borrow)]
    pub queue_url: Option<Text<'a>>,
    pub attribute_names: Option<Texts<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default, expecting = "an object")]
pub struct SetQueueAttributes<'a> {
    #[serde(borrow)]
    pub queue_url: Option<Text<'a>>,
    pub attributes: Option<Map<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default, expecting = "an object")]
pub struct GetQueueUrl<'a> {
    #[serde(borrow)]
    pub queue_name: Option<Text<'a>>,
    #[serde(rename = "QueueOwnerAWSAccountId")]
    pub queue_owner_aws_account_id: Option<Text<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default, expecting = "an object")]
pub struct ListQueues<'a> {
    #[serde(borrow)]
    pub queue_name_prefix: Option<Text<'a>>,
    pub next_token: Option<Text<'a>>,
    #[serde(deserialize_with = "super::value::lenient_integer")]
    pub max_results: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default, expecting = "an object")]
pub struct ListDeadLetterSourceQueues<'a> {
    #[serde(borrow)]
    pub queue_url: Option<Text<'a>>,
    pub next_token: Option<Text<'a>>,
    #[serde(deserialize_with = "super::value::lenient_integer")]
    pub max_results: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default, expecting = "an object")]
pub struct ReceiveMessage<'a> {
    #[serde(borrow)]
    pub queue_url: Option<Text<'a>>,
    /// Deprecated spelling of `message_system_attribute_names`; the union of both counts.
    pub attribute_names: Option<Texts<'a>>,
    pub message_system_attribute_names: Option<Texts<'a>>,
    pub message_attribute_names: Option<Texts<'a>>,
    #[serde(deserialize_with = "super::value::lenient_integer")]
    pub max_number_of_messages: Option<i64>,
    #[serde(deserialize_with = "super::value::lenient_integer")]
    pub visibility_timeout: Option<i64>,
    #[serde(deserialize_with = "super::value::lenient_integer")]
    pub wait_time_seconds: Option<i64>,
    pub receive_request_attempt_id: Option<Text<'a>>,
}

/// SendMessage, and (with `id`) one entry of SendMessageBatch.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default, expecting = "an object")]
pub struct SendMessage<'a> {
    #[serde(borrow)]
    pub queue_url: Option<Text<'a>>,
    /// Batch entries only.
    pub id: Option<Text<'a>>,
    pub message_body: Option<Blob<'a>>,
    #[serde(deserialize_with = "super::value::lenient_integer")]
    pub delay_seconds: Option<i64>,
    pub message_attributes: Option<MessageAttributes<'a>>,
    pub message_system_attributes: Option<MessageAttributes<'a>>,
    pub message_deduplication_id: Option<Text<'a>>,
    pub message_group_id: Option<Text<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default, expecting = "an object")]
pub struct SendMessageBatch<'a> {
    #[serde(borrow)]
    pub queue_url: Option<Text<'a>>,
    #[serde(deserialize_with = "super::value::entries")]
    pub entries: Option<Vec<SendMessage<'a>>>,
}

/// Name → value, in the order received.
#[derive(Debug, Default)]
pub struct MessageAttributes<'a>(pub Vec<(Text<'a>, MessageAttributeValue<'a>)>);

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default, expecting = "an object")]
pub struct MessageAttributeValue<'a> {
    #[serde(borrow)]
    pub data_type: Option<Text<'a>>,
    /// May hold text that is not valid Unicode (lone surrogates); the service refuses it.
    pub string_value: Option<Blob<'a>>,
    /// Decoded from base64.
    #[serde(deserialize_with = "super::value::base64_bytes")]
    pub binary_value: Option<Vec<u8>>,
    /// Reserved by AWS; only whether it is given matters.
    pub string_list_values: Option<Vec<serde::de::IgnoredAny>>,
    /// Reserved by AWS; only whether it is given matters.
    pub binary_list_values: Option<Vec<serde::de::IgnoredAny>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default, expecting = "an object")]
pub struct TagQueue<'a> {
    #[serde(borrow)]
    pub queue_url: Option<Text<'a>>,
    #[serde(borrow, deserialize_with = "super::value::tags")]
    pub tags: Option<Map<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default, expecting = "an object")]
pub struct UntagQueue<'a> {
    #[serde(borrow)]
    pub queue_url: Option<Text<'a>>,
    pub tag_keys: Option<Texts<'a>>,
}

/// One response. Empty lists and maps are left out of the answer, as AWS does.
#[derive(Debug)]
pub enum Answer {
    /// Actions without output: an empty JSON object, XML without a Result element.
    Void,
    CancelMessageMoveTask {
        moved: u64,
    },
    ChangeMessageVisibilityBatch(BatchAnswer<String>),
    CreateQueue {
        queue_url: String,
    },
    DeleteMessageBatch(BatchAnswer<String>),
    /// Name → value.
    GetQueueAttributes {
        attributes: Vec<(&'static str, String)>,
    },
    GetQueueUrl {
        queue_url: String,
    },
    /// JSON name `queueUrls`, always present, even if empty.
    ListDeadLetterSourceQueues {
        queue_urls: Vec<String>,
        next_token: Option<String>,
    },
    ListMessageMoveTasks {
        results: Vec<MoveTaskResult>,
    },
    ListQueues {
        queue_urls: Vec<String>,
        next_token: Option<String>,
    },
    ListQueueTags {
        tags: Vec<(String, String)>,
    },
    ReceiveMessage {
        messages: Vec<ReceivedMessage>,
    },
    SendMessage(SentMessage),
    SendMessageBatch(BatchAnswer<SentMessage>),
    StartMessageMoveTask {
        task_handle: String,
    },
}

/// Which entries of a batch succeeded and which did not.
#[derive(Debug)]
pub struct BatchAnswer<T> {
    pub successful: Vec<T>,
    pub failed: Vec<FailedEntry>,
}

/// BatchResultErrorEntry: codes are the legacy ones in both protocols.
#[derive(Debug)]
pub struct FailedEntry {
    pub id: String,
    pub code: &'static str,
    pub message: Cow<'static, str>,
    pub sender_fault: bool,
}

/// SendMessageResult and SendMessageBatchResultEntry; MD5 digests are rendered in hexadecimal.
#[derive(Debug)]
pub struct SentMessage {
    /// Batch entries only.
    pub id: Option<String>,
    /// UUID text.
    pub message_id: [u8; 36],
    pub md5_of_message_body: [u8; 16],
    pub md5_of_message_attributes: Option<[u8; 16]>,
    pub md5_of_message_system_attributes: Option<[u8; 16]>,
    /// FIFO queues: 20 digits.
    pub sequence_number: Option<u128>,
}

#[derive(Debug)]
pub struct MoveTaskResult {
    pub task_handle: Option<String>,
    pub status: &'static str,
    pub source_arn: String,
    pub destination_arn: Option<String>,
    pub max_number_of_messages_per_second: Option<u64>,
    pub moved: u64,
    pub to_move: Option<u64>,
    pub failure_reason: Option<String>,
    /// Epoch milliseconds, a JSON number.
    pub started_timestamp: u64,
}

/// One received message. `attributes` and `message_attributes` hold just what was asked for.
#[derive(Debug)]
pub struct ReceivedMessage {
    /// UUID text.
    pub message_id: [u8; 36],
    /// In base64 of any kind, so that it is written without escapes.
    pub receipt_handle: String,
    pub md5_of_body: [u8; 16],
    /// UTF-8, shared with the journal's buffer.
    pub body: Bytes,
    /// System attributes.
    pub attributes: Vec<(&'static str, Cow<'static, str>)>,
    pub md5_of_message_attributes: Option<[u8; 16]>,
    pub message_attributes: Vec<ReceivedAttribute>,
}

/// Name, data type and value of a received message attribute, shared with the journal's buffer.
#[derive(Clone, Debug)]
pub struct ReceivedAttribute {
    /// UTF-8.
    pub name: Bytes,
    /// UTF-8; `Binary…` means that the value is rendered as base64 BinaryValue.
    pub data_type: Bytes,
    pub value: Bytes,
}
