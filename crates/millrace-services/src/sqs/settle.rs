//! DeleteMessage, ChangeMessageVisibility and their batches.

use millrace_broker::{Handle, SharedQueue};
use millrace_wire::ApiError;
use millrace_wire::sqs::{
    Answer, BatchAnswer, ChangeMessageVisibility, ChangeMessageVisibilityBatch, DeleteMessage,
    DeleteMessageBatch, FailedEntry, Text,
};

use super::receive::check_visibility_timeout;
use super::{Sqs, SqsRequest, batch, error, required};

impl Sqs {
    pub(super) async fn delete_message(
        &self,
        request: &SqsRequest<'_>,
        input: &DeleteMessage<'_>,
    ) -> Result<Answer, ApiError> {
        let queue = self.queue(request, input.queue_url.as_ref())?;
        let (text, handle) = self.handle(&queue, input.receipt_handle.as_ref())?;
        let outcomes = self.broker.delete(&queue, &[handle]).await;
        let outcomes = outcomes.map_err(|error| error::of_broker(error, text))?;
        single(outcomes, text)
    }

    pub(super) async fn delete_message_batch(
        &self,
        request: &SqsRequest<'_>,
        input: &DeleteMessageBatch<'_>,
    ) -> Result<Answer, ApiError> {
        let queue = self.queue(request, input.queue_url.as_ref())?;
        let entries = input.entries.as_deref().unwrap_or_default();
        batch::check(entries.iter().map(|e| e.id.as_ref()), "DeleteMessageBatchRequestEntry")?;
        let mut failed = Vec::new();
        let (mut ids, mut handles) = (Vec::with_capacity(10), Vec::with_capacity(10));
        for entry in entries {
            match self.handle(&queue, entry.receipt_handle.as_ref()) {
                Ok((text, handle)) => {
                    ids.push((entry.id.as_ref(), text));
                    handles.push(handle);
                }
                Err(error) => failed.push(batch::failed(entry.id.as_ref(), error)),
            }
        }
        let outcomes = self.broker.delete(&queue, &handles).await;
        let outcomes = outcomes.map_err(|error| error::of_broker(error, ""))?;
        Ok(Answer::DeleteMessageBatch(sort(ids, outcomes, failed)))
    }

    pub(super) async fn change_message_visibility(
        &self,
        request: &SqsRequest<'_>,
        input: &ChangeMessageVisibility<'_>,
    ) -> Result<Answer, ApiError> {
        let queue = self.queue(request, input.queue_url.as_ref())?;
        let (text, handle) = self.handle(&queue, input.receipt_handle.as_ref())?;
        let timeout = input
            .visibility_timeout
            .ok_or_else(|| ApiError::missing_parameter("VisibilityTimeout"))?;
        let timeout_s = check_visibility_timeout(timeout)?;
        let outcomes = self.broker.change_visibility(&queue, &[(handle, timeout_s)]).await;
        let outcomes = outcomes.map_err(|error| error::of_broker(error, text))?;
        single(outcomes, text)
    }

    pub(super) async fn change_message_visibility_batch(
        &self,
        request: &SqsRequest<'_>,
        input: &ChangeMessageVisibilityBatch<'_>,
    ) -> Result<Answer, ApiError> {
        let queue = self.queue(request, input.queue_url.as_ref())?;
        let entries = input.entries.as_deref().unwrap_or_default();
        let ids = entries.iter().map(|entry| entry.id.as_ref());
        batch::check(ids, "ChangeMessageVisibilityBatchRequestEntry")?;
        let mut failed = Vec::new();
        let (mut ids, mut changes) = (Vec::with_capacity(10), Vec::with_capacity(10));
        for entry in entries {
            let change = self.handle(&queue, entry.receipt_handle.as_ref()).and_then(|handle| {
                let timeout = entry.visibility_timeout;
                let timeout =
                    timeout.ok_or_else(|| ApiError::missing_parameter("VisibilityTimeout"))?;
                Ok((handle, check_visibility_timeout(timeout)?))
            });
            match change {
                Ok(((text, handle), timeout_s)) => {
                    ids.push((entry.id.as_ref(), text));
                    changes.push((handle, timeout_s));
                }
                Err(error) => failed.push(batch::failed(entry.id.as_ref(), error)),
            }
        }
        let outcomes = self.broker.change_visibility(&queue, &changes).await;
        let outcomes = outcomes.map_err(|error| error::of_broker(error, ""))?;
        Ok(Answer::ChangeMessageVisibilityBatch(sort(ids, outcomes, failed)))
    }

    /// A receipt handle's text and what it says, if it is one of this queue.
    fn handle<'r>(
        &self,
        queue: &SharedQueue,
        text: Option<&'r Text<'_>>,
    ) -> Result<(&'r str, Handle), ApiError> {
        let text = required(text, "ReceiptHandle")?;
        let opened = self.broker.open_receipt_handle(text);
        let handle = opened.ok_or_else(|| error::receipt_handle_is_invalid(text))?;
        if handle.queue != queue.id() {
            return Err(error::receipt_handle_of_another_queue());
        }
        Ok((text, handle))
    }
}

type Outcome = Result<(), millrace_broker::BrokerError>;

fn single(outcomes: impl IntoIterator<Item = Outcome>, handle: &str) -> Result<Answer, ApiError> {
    for outcome in outcomes {
        outcome.map_err(|error| error::of_broker(error, handle))?;
    }
    Ok(Answer::Void)
}

fn sort(
    ids: Vec<(Option<&Text<'_>>, &str)>,
    outcomes: impl IntoIterator<Item = Outcome>,
    mut failed: Vec<FailedEntry>,
) -> BatchAnswer<String> {
    let mut successful = Vec::with_capacity(ids.len());
    for ((id, handle), outcome) in ids.into_iter().zip(outcomes) {
        match outcome {
            Ok(()) => successful.extend(id.map(|id| id.as_str().to_owned())),
            Err(error) => failed.push(batch::failed(id, error::of_broker(error, handle))),
        }
    }
    BatchAnswer { successful, failed }
}
