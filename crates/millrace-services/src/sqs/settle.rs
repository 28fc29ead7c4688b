//! DeleteMessage, ChangeMessageVisibility and their batches.

use millrace_broker::{BrokerError, Handle, SharedQueue};
use millrace_wire::ApiError;
use millrace_wire::sqs::{
    Answer, BatchAnswer, ChangeMessageVisibility, ChangeMessageVisibilityBatch, DeleteMessage,
    DeleteMessageBatch, FailedEntry, Text,
};

use super::receive::check_visibility_timeout;
use super::{Sqs, SqsRequest, batch, error, required};

/// Of a timeout that is not allowed.
const TIMEOUT_REASON: &str = "VisibilityTimeout must be an integer between 0 and 43200";

impl Sqs {
    pub(super) async fn delete_message(
        &self,
        request: &SqsRequest<'_>,
        input: &DeleteMessage<'_>,
    ) -> Result<Answer, ApiError> {
        let queue = self.queue(request, input.queue_url.as_ref())?;
        // As recorded of Amazon, the name of no parameter.
        required(input.receipt_handle.as_ref(), "MessageHandle")?;
        let (text, handle) = self.handle(&queue, input.receipt_handle.as_ref())?;
        let outcomes = self.broker.delete(&queue, &[handle]).await;
        let outcomes = outcomes.map_err(|error| error::of_broker(error, text))?;
        for outcome in outcomes {
            outcome.map_err(|error| error::of_broker(error, text))?;
        }
        Ok(Answer::Void)
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
            match self.handle_in_batch(&queue, entry.receipt_handle.as_ref()) {
                Ok((text, handle)) => {
                    ids.push((entry.id.as_ref(), text));
                    handles.push(handle);
                }
                Err(error) => failed.push(batch::failed(entry.id.as_ref(), error)),
            }
        }
        let outcomes = self.broker.delete(&queue, &handles).await;
        let outcomes = outcomes.map_err(|error| error::of_broker(error, ""))?;
        let refusal = |error, text| match error {
            BrokerError::HandleExpired => error::expired_in_batch(),
            error => error::of_broker(error, text),
        };
        Ok(Answer::DeleteMessageBatch(sort(ids, outcomes, failed, refusal)))
    }

    pub(super) async fn change_message_visibility(
        &self,
        request: &SqsRequest<'_>,
        input: &ChangeMessageVisibility<'_>,
    ) -> Result<Answer, ApiError> {
        let queue = self.queue(request, input.queue_url.as_ref())?;
        let timeout = input
            .visibility_timeout
            .ok_or_else(|| ApiError::missing_parameter("VisibilityTimeout"))?;
        let (text, handle) = self.handle(&queue, input.receipt_handle.as_ref())?;
        let timeout_s = check_visibility_timeout(timeout, TIMEOUT_REASON)?;
        let outcomes = self.broker.change_visibility(&queue, &[(handle, timeout_s)]).await;
        let outcomes = outcomes.map_err(|error| error::of_broker(error, text))?;
        for outcome in outcomes {
            outcome.map_err(|error| not_changed(error, text, timeout_s))?;
        }
        Ok(Answer::Void)
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
            let handle = self.handle_in_batch(&queue, entry.receipt_handle.as_ref());
            let change = handle.and_then(|handle| {
                let timeout = entry.visibility_timeout;
                let timeout =
                    timeout.ok_or_else(|| ApiError::missing_parameter("VisibilityTimeout"))?;
                Ok((handle, check_visibility_timeout(timeout, TIMEOUT_REASON)?))
            });
            match change {
                Ok(((text, handle), timeout_s)) => {
                    ids.push((entry.id.as_ref(), (text, timeout_s)));
                    changes.push((handle, timeout_s));
                }
                Err(error) => failed.push(batch::failed(entry.id.as_ref(), error)),
            }
        }
        let outcomes = self.broker.change_visibility(&queue, &changes).await;
        let outcomes = outcomes.map_err(|error| error::of_broker(error, ""))?;
        let refusal = |error, (text, timeout_s)| match error {
            BrokerError::NotAvailable => error::not_available_in_batch(),
            error => not_changed(error, text, timeout_s),
        };
        Ok(Answer::ChangeMessageVisibilityBatch(sort(ids, outcomes, failed, refusal)))
    }

    /// A receipt handle's text and what it says, if it is one of this queue.
    fn handle<'r>(
        &self,
        queue: &SharedQueue,
        text: Option<&'r Text<'_>>,
    ) -> Result<(&'r str, Handle), ApiError> {
        self.handle_or(queue, text, |_| error::receipt_handle_of_another_queue())
    }

    /// The same of a batch's entry.
    fn handle_in_batch<'r>(
        &self,
        queue: &SharedQueue,
        text: Option<&'r Text<'_>>,
    ) -> Result<(&'r str, Handle), ApiError> {
        self.handle_or(queue, text, error::receipt_handle_of_another_queue_in_batch)
    }

    fn handle_or<'r>(
        &self,
        queue: &SharedQueue,
        text: Option<&'r Text<'_>>,
        of_another_queue: impl FnOnce(&str) -> ApiError,
    ) -> Result<(&'r str, Handle), ApiError> {
        let text = required(text, "ReceiptHandle")?;
        let opened = self.broker.open_receipt_handle(text);
        let handle = opened.ok_or_else(|| error::receipt_handle_is_invalid(text))?;
        if handle.queue != queue.id() {
            return Err(of_another_queue(text));
        }
        Ok((text, handle))
    }
}

/// Why a message's visibility timeout was not changed.
fn not_changed(error: BrokerError, handle: &str, timeout_s: u32) -> ApiError {
    match error {
        BrokerError::BeyondVisibilityLimit => error::beyond_visibility_limit(timeout_s),
        error => error::of_broker(error, handle),
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
