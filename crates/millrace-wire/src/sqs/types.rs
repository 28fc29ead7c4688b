//! The requests and responses of the actions. Members carry the names of the AWS model, in snake
//! case.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::decode_json::object;
use super::decode_query::{self, FromQuery};
use super::value::{self, Blob, Map, Text, Texts};
use crate::ApiError;
use crate::query::Scope;

/// Declares the actions, each with the structure of its request.
macro_rules! actions {
    ($($action:ident($request:ident),)*) => {
        /// The names of the actions.
        pub const ACTIONS: [&str; [$(stringify!($action)),*].len()] = [$(stringify!($action)),*];

        /// One decoded request.
        #[derive(Debug)]
        pub enum Action<'a> {
            $($action($request<'a>),)*
        }

        impl<'a> Action<'a> {
            pub(super) fn from_json(action: &str, body: &'a [u8]) -> Result<Self, ApiError> {
                Ok(match action {
                    $(stringify!($action) => Action::$action(object(body)?),)*
                    _ => return Err(ApiError::unknown_operation()),
                })
            }

            pub(super) fn from_query(action: &str, scope: Scope<'a>) -> Result<Self, ApiError> {
                Ok(match action {
                    $(stringify!($action) => Action::$action(FromQuery::from_query(scope)?),)*
                    "" => return Err(ApiError::missing_action()),
                    _ => return Err(ApiError::invalid_action(action)),
                })
            }
        }
    };
}

actions! {
    AddPermission(AddPermission),
    CancelMessageMoveTask(CancelMessageMoveTask),
    ChangeMessageVisibility(ChangeMessageVisibility),
    ChangeMessageVisibilityBatch(ChangeMessageVisibilityBatch),
    CreateQueue(CreateQueue),
    DeleteMessage(DeleteMessage),
    DeleteMessageBatch(DeleteMessageBatch),
    DeleteQueue(QueueOnly),
    GetQueueAttributes(GetQueueAttributes),
    GetQueueUrl(GetQueueUrl),
    ListDeadLetterSourceQueues(ListDeadLetterSourceQueues),
    ListMessageMoveTasks(ListMessageMoveTasks),
    ListQueueTags(QueueOnly),
    ListQueues(ListQueues),
    PurgeQueue(QueueOnly),
    ReceiveMessage(ReceiveMessage),
    RemovePermission(RemovePermission),
    SendMessage(SendMessage),
    SendMessageBatch(SendMessageBatch),
    SetQueueAttributes(SetQueueAttributes),
    StartMessageMoveTask(StartMessageMoveTask),
    TagQueue(TagQueue),
    UntagQueue(UntagQueue),
}

/// Declares structures: `member: type = reader "name"`. Reader and name are for the Query protocol,
/// the reader being a function of [`decode_query`]; in JSON a member's name is in Pascal case
/// unless an attribute says otherwise. Every member may be absent.
macro_rules! structures {
    ($($(#[$doc:meta])* $name:ident {
        $($(#[$attribute:meta])* $member:ident: $kind:ty = $read:ident $query:literal,)*
    })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Default, Deserialize)]
        #[serde(rename_all = "PascalCase", default, expecting = "an object")]
        #[serde(bound(deserialize = "'de: 'a"))]
        pub struct $name<'a> {
            $($(#[$attribute])* pub $member: Option<$kind>,)*
        }

        impl<'a> FromQuery<'a> for $name<'a> {
            fn from_query(scope: Scope<'a>) -> Result<Self, ApiError> {
                Ok($name { $($member: decode_query::$read(scope, $query)?,)* })
            }
        }
    )*};
}

structures! {
    /// DeleteQueue, ListQueueTags, PurgeQueue.
    QueueOnly {
        queue_url: Text<'a> = text "QueueUrl",
    }

    AddPermission {
        queue_url: Text<'a> = text "QueueUrl",
        label: Text<'a> = text "Label",
        #[serde(rename = "AWSAccountIds")]
        aws_account_ids: Texts<'a> = texts "AWSAccountId",
        actions: Texts<'a> = texts "ActionName",
    }

    RemovePermission {
        queue_url: Text<'a> = text "QueueUrl",
        label: Text<'a> = text "Label",
    }

    CancelMessageMoveTask {
        task_handle: Text<'a> = text "TaskHandle",
    }

    ListMessageMoveTasks {
        source_arn: Text<'a> = text "SourceArn",
        #[serde(deserialize_with = "value::lenient_integer")]
        max_results: i64 = integer "MaxResults",
    }

    StartMessageMoveTask {
        source_arn: Text<'a> = text "SourceArn",
        destination_arn: Text<'a> = text "DestinationArn",
        #[serde(deserialize_with = "value::lenient_integer")]
        max_number_of_messages_per_second: i64 = integer "MaxNumberOfMessagesPerSecond",
    }

    ChangeMessageVisibility {
        queue_url: Text<'a> = text "QueueUrl",
        receipt_handle: Text<'a> = text "ReceiptHandle",
        #[serde(deserialize_with = "value::lenient_integer")]
        visibility_timeout: i64 = integer "VisibilityTimeout",
    }

    ChangeMessageVisibilityBatch {
        queue_url: Text<'a> = text "QueueUrl",
        #[serde(deserialize_with = "value::entries")]
        entries: Vec<ChangeMessageVisibilityEntry<'a>> = entries "ChangeMessageVisibilityBatchRequestEntry",
    }

    ChangeMessageVisibilityEntry {
        id: Text<'a> = text "Id",
        receipt_handle: Text<'a> = text "ReceiptHandle",
        #[serde(deserialize_with = "value::lenient_integer")]
        visibility_timeout: i64 = integer "VisibilityTimeout",
    }

    CreateQueue {
        queue_name: Text<'a> = text "QueueName",
        attributes: Map<'a> = attributes "Attribute",
        /// Lower case in the AWS model; `Tags` is accepted too.
        #[serde(rename = "tags", alias = "Tags", deserialize_with = "value::tags")]
        tags: Map<'a> = tags "Tag",
    }

    DeleteMessage {
        queue_url: Text<'a> = text "QueueUrl",
        receipt_handle: Text<'a> = text "ReceiptHandle",
    }

    DeleteMessageBatch {
        queue_url: Text<'a> = text "QueueUrl",
        #[serde(deserialize_with = "value::entries")]
        entries: Vec<DeleteMessageEntry<'a>> = entries "DeleteMessageBatchRequestEntry",
    }

    DeleteMessageEntry {
        id: Text<'a> = text "Id",
        receipt_handle: Text<'a> = text "ReceiptHandle",
    }

    GetQueueAttributes {
        queue_url: Text<'a> = text "QueueUrl",
        attribute_names: Texts<'a> = texts "AttributeName",
    }

    SetQueueAttributes {
        queue_url: Text<'a> = text "QueueUrl",
        attributes: Map<'a> = attributes "Attribute",
    }

    GetQueueUrl {
        queue_name: Text<'a> = text "QueueName",
        #[serde(rename = "QueueOwnerAWSAccountId")]
        queue_owner_aws_account_id: Text<'a> = text "QueueOwnerAWSAccountId",
    }

    ListQueues {
        queue_name_prefix: Text<'a> = text "QueueNamePrefix",
        next_token: Text<'a> = text "NextToken",
        #[serde(deserialize_with = "value::lenient_integer")]
        max_results: i64 = integer "MaxResults",
    }

    ListDeadLetterSourceQueues {
        queue_url: Text<'a> = text "QueueUrl",
        next_token: Text<'a> = text "NextToken",
        #[serde(deserialize_with = "value::lenient_integer")]
        max_results: i64 = integer "MaxResults",
    }

    ReceiveMessage {
        queue_url: Text<'a> = text "QueueUrl",
        /// Deprecated spelling of `message_system_attribute_names`; the union of both counts.
        attribute_names: Texts<'a> = texts "AttributeName",
        message_system_attribute_names: Texts<'a> = texts "MessageSystemAttributeName",
        message_attribute_names: Texts<'a> = texts "MessageAttributeName",
        #[serde(deserialize_with = "value::lenient_integer")]
        max_number_of_messages: i64 = integer "MaxNumberOfMessages",
        #[serde(deserialize_with = "value::lenient_integer")]
        visibility_timeout: i64 = integer "VisibilityTimeout",
        #[serde(deserialize_with = "value::lenient_integer")]
        wait_time_seconds: i64 = integer "WaitTimeSeconds",
        receive_request_attempt_id: Text<'a> = text "ReceiveRequestAttemptId",
    }

    /// SendMessage, and (with `id`) one entry of SendMessageBatch.
    SendMessage {
        queue_url: Text<'a> = text "QueueUrl",
        /// Batch entries only.
        id: Text<'a> = text "Id",
        message_body: Blob<'a> = blob "MessageBody",
        #[serde(deserialize_with = "value::lenient_integer")]
        delay_seconds: i64 = integer "DelaySeconds",
        message_attributes: MessageAttributes<'a> = message_attributes "MessageAttribute",
        message_system_attributes: MessageAttributes<'a> = message_attributes "MessageSystemAttribute",
        message_deduplication_id: Text<'a> = text "MessageDeduplicationId",
        message_group_id: Text<'a> = text "MessageGroupId",
    }

    SendMessageBatch {
        queue_url: Text<'a> = text "QueueUrl",
        #[serde(deserialize_with = "value::entries")]
        entries: Vec<SendMessage<'a>> = entries "SendMessageBatchRequestEntry",
    }

    MessageAttributeValue {
        data_type: Text<'a> = text "DataType",
        /// May hold text that is not valid Unicode (lone surrogates); the service refuses it.
        string_value: Blob<'a> = blob "StringValue",
        /// Decoded from base64.
        #[serde(deserialize_with = "value::base64_bytes")]
        binary_value: Vec<u8> = base64_bytes "BinaryValue",
        /// Reserved by AWS; only whether it is given matters.
        string_list_values: Vec<IgnoredAny> = reserved_list "StringListValue",
        /// Reserved by AWS; only whether it is given matters.
        binary_list_values: Vec<IgnoredAny> = reserved_list "BinaryListValue",
    }

    TagQueue {
        queue_url: Text<'a> = text "QueueUrl",
        #[serde(deserialize_with = "value::tags")]
        tags: Map<'a> = tags "Tag",
    }

    UntagQueue {
        queue_url: Text<'a> = text "QueueUrl",
        tag_keys: Texts<'a> = texts "TagKey",
    }
}

/// Name → value, in the order received.
#[derive(Debug, Default)]
pub struct MessageAttributes<'a>(pub Vec<(Text<'a>, MessageAttributeValue<'a>)>);

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
