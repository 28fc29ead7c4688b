//! DeleteMessage, ChangeMessageVisibility and their batches.

use std::sync::Arc;

use millrace_broker::{BrokerError, Handle, SharedQueue};
use millrace_core::limits;
use millrace_wire::ApiError;
use millrace_wire::sqs::{
    Answer, BatchAnswer, ChangeMessageVisibility, ChangeMessageVisibilityBatch, DeleteMessage,
    DeleteMessageBatch, FailedEntry, Text,
};

use super::{Asked, Sqs, batch, bounded, error, required};

impl Sqs {
    pub(super) async fn delete_message(
        &self,
        queue: &Arc<SharedQueue>,
        input: &DeleteMessage<'_>,
    ) -> Result<Answer, ApiError> {
        // As recorded of Amazon, the name of no parameter.
        required(input.receipt_handle.as_ref(), "MessageHandle")?;
        let (text, handle) = self.handle(queue, input.receipt_handle.as_ref(), Asked::Alone)?;
        let outcomes = queue.delete(&[handle]).await;
        let outcomes = outcomes.map_err(error::of_broker)?;
        for outcome in outcomes {
            outcome.map_err(|error| error::of_handle(error, text, Asked::Alone))?;
        }
        Ok(Answer::Void)
    }

    pub(super) async fn delete_message_batch(
        &self,
        queue: &Arc<SharedQueue>,
        input: &DeleteMessageBatch<'_>,
    ) -> Result<Answer, ApiError> {
        let entries = input.entries.as_deref().unwrap_or_default();
        batch::check(entries.iter().map(|e| e.id.as_ref()), "DeleteMessageBatchRequestEntry")?;
        let mut failed = Vec::new();
        let (mut ids, mut handles) = (Vec::with_capacity(10), Vec::with_capacity(10));
        for entry in entries {
            match self.handle(queue, entry.receipt_handle.as_ref(), Asked::InBatch) {
                Ok((text, handle)) => {
                    ids.push((entry.id.as_ref(), text));
                    handles.push(handle);
                }
                Err(error) => failed.push(batch::failed(entry.id.as_ref(), error)),
            }
        }
        let outcomes = queue.delete(&handles).await;
        let outcomes = outcomes.map_err(error::of_broker)?;
        let refusal = |error, text| error::of_handle(error, text, Asked::InBatch);
        Ok(Answer::DeleteMessageBatch(sort(ids, outcomes, failed, refusal)))
    }

    pub(super) async fn change_message_visibility(
        &self,
        queue: &Arc<SharedQueue>,
        input: &ChangeMessageVisibility<'_>,
    ) -> Result<Answer, ApiError> {
        let timeout = input
            .visibility_timeout
            .ok_or_else(|| ApiError::missing_parameter("VisibilityTimeout"))?;
        let (text, handle) = self.handle(queue, input.receipt_handle.as_ref(), Asked::Alone)?;
        let timeout_s = check_timeout(timeout)?;
        let outcomes = queue.change_visibility(&[(handle, timeout_s)]).await;
        let outcomes = outcomes.map_err(error::of_broker)?;
        for outcome in outcomes {
            outcome.map_err(|error| not_changed(error, text, timeout_s, Asked::Alone))?;
        }
        Ok(Answer::Void)
    }

    pub(super) async fn change_message_visibility_batch(
        &self,
        queue: &Arc<SharedQueue>,
        input: &ChangeMessageVisibilityBatch<'_>,
    ) -> Result<Answer, ApiError> {
        let entries = input.entries.as_deref().unwrap_or_default();
        let ids = entries.iter().map(|entry| entry.id.as_ref());
        batch::check(ids, "ChangeMessageVisibilityBatchRequestEntry")?;
        let mut failed = Vec::new();
        let (mut ids, mut changes) = (Vec::with_capacity(10), Vec::with_capacity(10));
        for entry in entries {
            let handle = self.handle(queue, entry.receipt_handle.as_ref(), Asked::InBatch);
            let change = handle.and_then(|handle| {
                let timeout = entry.visibility_timeout;
                let timeout =
                    timeout.ok_or_else(|| ApiError::missing_parameter("VisibilityTimeout"))?;
                Ok((handle, check_timeout(timeout)?))
            });
            match change {
                Ok(((text, handle), timeout_s)) => {
                    ids.push((entry.id.as_ref(), (text, timeout_s)));
                    changes.push((handle, timeout_s));
                }
                Err(error) => failed.push(batch::failed(entry.id.as_ref(), error)),
            }
        }
        let outcomes = queue.change_visibility(&changes).await;
        let outcomes = outcomes.map_err(error::of_broker)?;
        let refusal =
            |error, (text, timeout_s)| not_changed(error, text, timeout_s, Asked::InBatch);
        Ok(Answer::ChangeMessageVisibilityBatch(sort(ids, outcomes, failed, refusal)))
    }

    /// A receipt handle's text and what it says, if it is one of this queue.
    fn handle<'r>(
        &self,
        queue: &SharedQueue,
        text: Option<&'r Text<'_>>,
        asked: Asked,
    ) -> Result<(&'r str, Handle), ApiError> {
        let text = required(text, "ReceiptHandle")?;
        let opened = self.shards.open_receipt_handle(text);
        let handle = opened.ok_or_else(|| error::receipt_handle_is_invalid(text))?;
        if handle.queue != queue.id() {
            return Err(error::receipt_handle_of_another_queue(text, asked));
        }
        Ok((text, handle))
    }
}

fn check_timeout(timeout: i64) -> Result<u32, ApiError> {
    let reason = "VisibilityTimeout must be an integer between 0 and 43200";
    bounded(timeout, &limits::VISIBILITY_TIMEOUT_S, "VisibilityTimeout", reason)
}

/// Why a message's visibility timeout was not changed.
fn not_changed(error: BrokerError, handle: &str, timeout_s: u32, asked: Asked) -> ApiError {
    match error {
        BrokerError::BeyondVisibilityLimit => error::beyond_visibility_limit(timeout_s),
        error => error::of_handle(error, handle, asked),
    }
}

/// Sorts a batch's entries by outcome; `given` is what error texts say of an entry.
fn sort<T>(
    ids: Vec<(Option<&Text<'_>>, T)>,
    outcomes: impl IntoIterator<Item = Result<(), BrokerError>>,
    mut failed: Vec<FailedEntry>,
    refusal: impl Fn(BrokerError, T) -> ApiError,
) -> BatchAnswer<String> {
    let mut successful = Vec::with_capacity(ids.len());
    for ((id, given), outcome) in ids.into_iter().zip(outcomes) {
        match outcome {
            Ok(()) => successful.extend(id.map(|id| id.as_str().to_owned())),
            Err(error) => failed.push(batch::failed(id, refusal(error, given))),
        }
    }
    BatchAnswer { successful, failed }
}
