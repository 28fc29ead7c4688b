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

impl<'a> Members<'a> for SendMessage<'a> {
    fn read(&mut self, name: &[u8], scanner: &mut Scanner<'a>) -> Option<()> {
        match name {
            b"QueueUrl" => once(&mut self.queue_url, scanner.text()),
            b"Id" => once(&mut self.id, scanner.text()),
            b"MessageBody" => once(&mut self.message_body, scanner.blob()),
            b"DelaySeconds" => once(&mut self.delay_seconds, scanner.integer()),
            b"MessageAttributes" => once(&mut self.message_attributes, scanner.other()),
            b"MessageSystemAttributes" => {
                once(&mut self.message_system_attributes, scanner.other())
            }
            b"MessageDeduplicationId" => once(&mut self.message_deduplication_id, scanner.text()),
            b"MessageGroupId" => once(&mut self.message_group_id, scanner.text()),
            _ => None,
        }
    }
}

impl<'a> Members<'a> for SendMessageBatch<'a> {
    fn read(&mut self, name: &[u8], scanner: &mut Scanner<'a>) -> Option<()> {
        match name {
            b"QueueUrl" => once(&mut self.queue_url, scanner.text()),
            b"Entries" => once(&mut self.entries, scanner.entries()),
            _ => None,
        }
    }
}

impl<'a> Members<'a> for ReceiveMessage<'a> {
    fn read(&mut self, name: &[u8], scanner: &mut Scanner<'a>) -> Option<()> {
        match name {
            b"QueueUrl" => once(&mut self.queue_url, scanner.text()),
            b"AttributeNames" => once(&mut self.attribute_names, scanner.other()),
            b"MessageSystemAttributeNames" => {
                once(&mut self.message_system_attribute_names, scanner.other())
            }
            b"MessageAttributeNames" => once(&mut self.message_attribute_names, scanner.other()),
            b"MaxNumberOfMessages" => once(&mut self.max_number_of_messages, scanner.integer()),
            b"VisibilityTimeout" => once(&mut self.visibility_timeout, scanner.integer()),
            b"WaitTimeSeconds" => once(&mut self.wait_time_seconds, scanner.integer()),
            b"ReceiveRequestAttemptId" => {
                once(&mut self.receive_request_attempt_id, scanner.text())
            }
            _ => None,
        }
    }
}

impl<'a> Members<'a> for DeleteMessage<'a> {
    fn read(&mut self, name: &[u8], scanner: &mut Scanner<'a>) -> Option<()> {
        match name {
            b"QueueUrl" => once(&mut self.queue_url, scanner.text()),
            b"ReceiptHandle" => once(&mut self.receipt_handle, scanner.text()),
            _ => None,
        }
    }
}

impl<'a> Members<'a> for DeleteMessageBatch<'a> {
    fn read(&mut self, name: &[u8], scanner: &mut Scanner<'a>) -> Option<()> {
        match name {
            b"QueueUrl" => once(&mut self.queue_url, scanner.text()),
            b"Entries" => once(&mut self.entries, scanner.entries()),
            _ => None,
        }
    }
}

impl<'a> Members<'a> for DeleteMessageEntry<'a> {
    fn read(&mut self, name: &[u8], scanner: &mut Scanner<'a>) -> Option<()> {
        match name {
            b"Id" => once(&mut self.id, scanner.text()),
            b"ReceiptHandle" => once(&mut self.receipt_handle, scanner.text()),
            _ => None,
        }
    }
}

impl<'a> Members<'a> for ChangeMessageVisibility<'a> {
    fn read(&mut self, name: &[u8], scanner: &mut Scanner<'a>) -> Option<()> {
        match name {
            b"QueueUrl" => once(&mut self.queue_url, scanner.text()),
            b"ReceiptHandle" => once(&mut self.receipt_handle, scanner.text()),
            b"VisibilityTimeout" => once(&mut self.visibility_timeout, scanner.integer()),
            _ => None,
        }
    }
}
