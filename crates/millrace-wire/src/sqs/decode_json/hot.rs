//! The actions that almost all requests are for, decoded without the general decoder's cost.

use super::scanner::{Members, Scanner};
use crate::sqs::types::{
    Action, ChangeMessageVisibility, DeleteMessage, DeleteMessageBatch, DeleteMessageEntry,
    ReceiveMessage, SendMessage, SendMessageBatch,
};

/// None: not one of these actions, or not as SDKs write it. Otherwise what the general decoder
/// would say.
pub(super) fn decode<'a>(action: &str, body: &'a [u8]) -> Option<Action<'a>> {
    Some(match action {
        "ChangeMessageVisibility" => Action::ChangeMessageVisibility(Scanner::read_all(body)?),
        "DeleteMessage" => Action::DeleteMessage(Scanner::read_all(body)?),
        "DeleteMessageBatch" => Action::DeleteMessageBatch(Scanner::read_all(body)?),
        "ReceiveMessage" => Action::ReceiveMessage(Scanner::read_all(body)?),
        "SendMessage" => Action::SendMessage(Scanner::read_all(body)?),
        "SendMessageBatch" => Action::SendMessageBatch(Scanner::read_all(body)?),
        _ => return None,
    })
}

/// A member may come once, as it may in the general decoder.
fn once<T>(member: &mut Option<T>, value: Option<T>) -> Option<()> {
    if member.is_some() {
        return None;
    }
    *member = Some(value?);
    Some(())
}

/// Implements [`Members`]: each member's name, its field, and how the scanner reads it.
macro_rules! members {
    ($($request:ident { $($name:literal => $field:ident: $read:ident,)* })*) => {$(
        impl<'a> Members<'a> for $request<'a> {
            fn read(&mut self, name: &[u8], scanner: &mut Scanner<'a>) -> Option<()> {
                match name {
                    $($name => once(&mut self.$field, scanner.$read()),)*
                    _ => None,
                }
            }
        }
    )*};
}

members! {
    SendMessage {
        b"QueueUrl" => queue_url: text,
        b"Id" => id: text,
        b"MessageBody" => message_body: blob,
        b"DelaySeconds" => delay_seconds: integer,
        b"MessageAttributes" => message_attributes: other,
        b"MessageSystemAttributes" => message_system_attributes: other,
        b"MessageDeduplicationId" => message_deduplication_id: text,
        b"MessageGroupId" => message_group_id: text,
    }
    SendMessageBatch {
        b"QueueUrl" => queue_url: text,
        b"Entries" => entries: entries,
    }
    ReceiveMessage {
        b"QueueUrl" => queue_url: text,
        b"AttributeNames" => attribute_names: other,
        b"MessageSystemAttributeNames" => message_system_attribute_names: other,
        b"MessageAttributeNames" => message_attribute_names: other,
        b"MaxNumberOfMessages" => max_number_of_messages: integer,
        b"VisibilityTimeout" => visibility_timeout: integer,
        b"WaitTimeSeconds" => wait_time_seconds: integer,
        b"ReceiveRequestAttemptId" => receive_request_attempt_id: text,
    }
    DeleteMessage {
        b"QueueUrl" => queue_url: text,
        b"ReceiptHandle" => receipt_handle: text,
    }
    DeleteMessageBatch {
        b"QueueUrl" => queue_url: text,
        b"Entries" => entries: entries,
    }
    DeleteMessageEntry {
        b"Id" => id: text,
        b"ReceiptHandle" => receipt_handle: text,
    }
    ChangeMessageVisibility {
        b"QueueUrl" => queue_url: text,
        b"ReceiptHandle" => receipt_handle: text,
        b"VisibilityTimeout" => visibility_timeout: integer,
    }
}
