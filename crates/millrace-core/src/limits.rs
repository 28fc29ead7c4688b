//! Every documented number of Amazon SQS, as of 2026 ("Amazon SQS message quotas", "queue
//! quotas", API reference). All are inclusive bounds.

pub mod ironmq;

use std::ops::RangeInclusive;

/// Bytes of body, attribute names, types and values; also the total of a batch.
pub const MESSAGE_SIZE_BYTES: usize = 1_048_576;
/// The queue attribute MaximumMessageSize, bytes.
pub const MAXIMUM_MESSAGE_SIZE_BYTES: RangeInclusive<u64> = 1_024..=1_048_576;
/// Entries in one batch request.
pub const BATCH_ENTRIES: usize = 10;
/// Characters of a batch entry id.
pub const BATCH_ENTRY_ID_CHARS: usize = 80;
/// Message attributes of one message.
pub const MESSAGE_ATTRIBUTES: usize = 10;
/// Characters of a message attribute's name and of its data type.
pub const ATTRIBUTE_NAME_CHARS: usize = 256;
/// Characters of a queue name, `.fifo` included.
pub const QUEUE_NAME_CHARS: usize = 80;
/// DelaySeconds of queues and messages.
pub const DELAY_S: RangeInclusive<u64> = 0..=900;
/// VisibilityTimeout; also the most that extensions may add up to since the receive.
pub const VISIBILITY_TIMEOUT_S: RangeInclusive<u64> = 0..=43_200;
/// MessageRetentionPeriod: 1 minute to 14 days.
pub const RETENTION_S: RangeInclusive<u64> = 60..=1_209_600;
/// WaitTimeSeconds and ReceiveMessageWaitTimeSeconds.
pub const WAIT_TIME_S: RangeInclusive<u64> = 0..=20;
/// MaxNumberOfMessages.
pub const RECEIVE_MESSAGES: RangeInclusive<u64> = 1..=10;
/// Messages of one queue that may be in flight at a time.
pub const IN_FLIGHT: u64 = 120_000;
/// Characters of MessageDeduplicationId, MessageGroupId and ReceiveRequestAttemptId.
pub const FIFO_ID_CHARS: RangeInclusive<usize> = 1..=128;
/// How long a deduplication id or a receive attempt id is remembered.
pub const DEDUPLICATION_WINDOW_S: u64 = 300;
/// maxReceiveCount of a redrive policy.
pub const MAX_RECEIVE_COUNT: RangeInclusive<u64> = 1..=1_000;
/// Source queue ARNs in a redrive allow policy.
pub const REDRIVE_ALLOW_SOURCES: RangeInclusive<usize> = 1..=10;
/// Tags of one queue.
pub const TAGS: usize = 50;
/// Characters of a tag's key.
pub const TAG_KEY_CHARS: RangeInclusive<usize> = 1..=128;
/// Characters of a tag's value.
pub const TAG_VALUE_CHARS: usize = 256;
/// KmsDataKeyReusePeriodSeconds.
pub const KMS_REUSE_PERIOD_S: RangeInclusive<u64> = 60..=86_400;
/// Bytes of a queue's policy document.
pub const POLICY_BYTES: usize = 8_192;
/// KmsMasterKeyId (API reference of KMS, KeyId).
pub const KMS_KEY_ID_BYTES: usize = 2_048;
/// Actions in one AddPermission call.
pub const PERMISSION_ACTIONS: usize = 7;
/// MaxNumberOfMessagesPerSecond of a message move task.
pub const MOVE_TASK_RATE: RangeInclusive<u64> = 1..=500;
/// MaxResults of ListMessageMoveTasks.
pub const MOVE_TASK_RESULTS: RangeInclusive<u64> = 1..=10;
/// MaxResults of ListQueues and ListDeadLetterSourceQueues.
pub const LIST_RESULTS: RangeInclusive<u64> = 1..=1_000;
/// Seconds between two PurgeQueue calls, and between deleting a queue and creating its namesake.
pub const COOL_DOWN_S: u64 = 60;
