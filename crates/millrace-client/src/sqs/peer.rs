//! One queue of SQS.

use std::time::Duration;

use bytes::Bytes;
use bytestring::ByteString;
use millrace_core::limits;
use serde::Deserialize;

use super::client::{Action, SqsClient, Wait};
use super::{decode, encode};
use crate::error::{CallError, CallErrorKind, EntryError};
use crate::message::{Delivery, Outgoing, ReceiptHandle, Sent};
use crate::peer::{Capabilities, Peer, ReceiveRequest, Visibility};
use crate::transport::Repeat;

/// One queue of SQS. Batches of one use the actions for single messages, which cost a server less.
#[derive(Clone, Debug)]
pub struct SqsPeer {
    client: SqsClient,
    queue_url: ByteString,
    repeat_sends: Repeat,
}

#[derive(Deserialize)]
struct QueueUrl {
    #[serde(rename = "QueueUrl")]
    queue_url: String,
}

impl SqsPeer {
    /// The queue of that URL; nothing is asked of the server.
    pub fn new(client: SqsClient, queue_url: impl Into<ByteString>) -> SqsPeer {
        SqsPeer { client, queue_url: queue_url.into(), repeat_sends: Repeat::Safe }
    }

    /// The queue of that name or URL. A name is asked for with GetQueueUrl.
    ///
    /// # Errors
    ///
    /// [`CallErrorKind::NoSuchQueue`](crate::CallErrorKind::NoSuchQueue), or what broke on the way.
    pub async fn open(client: SqsClient, queue: &str) -> Result<SqsPeer, CallError> {
        if queue.contains("://") {
            return Ok(SqsPeer::new(client, queue));
        }
        let name = serde_json::json!({ "QueueName": queue }).to_string();
        let action = Action::GET_QUEUE_URL;
        let answer = client.call(action, name.into(), Wait::None, Repeat::Safe).await?;
        let found: QueueUrl = decode::parse(&answer)?;
        Ok(SqsPeer::new(client, found.queue_url))
    }

    /// Whether a send to a standard queue is repeated when the kept connection that it went over
    /// turns out to be closed. The message may then be there twice, as standard queues allow. By
    /// default it is.
    pub fn with_repeated_sends(mut self, repeat: Repeat) -> SqsPeer {
        self.repeat_sends = repeat;
        self
    }

    pub fn queue_url(&self) -> &str {
        &self.queue_url
    }

    pub fn client(&self) -> &SqsClient {
        &self.client
    }

    fn is_fifo(&self) -> bool {
        self.queue_url.ends_with(".fifo")
    }

    /// A repeated send to a FIFO queue is dropped by its deduplication id, drawn from the content
    /// if need be.
    fn repeat_send(&self) -> Repeat {
        if self.is_fifo() { Repeat::Safe } else { self.repeat_sends }
    }

    async fn quick(&self, action: Action, body: Bytes, repeat: Repeat) -> Result<Bytes, CallError> {
        self.client.call(action, body, Wait::None, repeat).await
    }
}

impl Peer for SqsPeer {
    async fn send(
        &self,
        messages: &[Outgoing],
    ) -> Result<Vec<Result<Sent, EntryError>>, CallError> {
        let repeat = self.repeat_send();
        if let [message] = messages {
            let body = encode::send(&self.queue_url, message);
            let answer = self.quick(Action::SEND_MESSAGE, body, repeat).await;
            return single(answer.and_then(|answer| decode::sent(&answer)));
        }
        let body = encode::send_batch(&self.queue_url, messages);
        let answer = self.quick(Action::SEND_MESSAGE_BATCH, body, repeat).await?;
        decode::sent_batch(&answer, messages.len())
    }

    async fn receive(&self, request: ReceiveRequest) -> Result<Vec<Delivery>, CallError> {
        let longest = Duration::from_secs(*limits::WAIT_TIME_S.end());
        let duration = request.wait.min(longest);
        let wait = if duration.is_zero() { Wait::None } else { Wait::UpTo(duration) };
        let body = encode::receive(&self.queue_url, &request, duration);
        let action = Action::RECEIVE_MESSAGE;
        decode::received(&self.client.call(action, body, wait, Repeat::Safe).await?)
    }

    async fn delete(
        &self,
        handles: &[ReceiptHandle],
    ) -> Result<Vec<Result<(), EntryError>>, CallError> {
        if let [handle] = handles {
            let body = encode::delete(&self.queue_url, handle);
            let answer = self.quick(Action::DELETE_MESSAGE, body, Repeat::Safe).await;
            return single(answer.map(|_| ()));
        }
        let body = encode::delete_batch(&self.queue_url, handles);
        let answer = self.quick(Action::DELETE_MESSAGE_BATCH, body, Repeat::Safe).await?;
        decode::done_batch(&answer, handles.len())
    }

    async fn change_visibility(
        &self,
        changes: &[Visibility],
    ) -> Result<Vec<Result<ReceiptHandle, EntryError>>, CallError> {
        if let [change] = changes {
            let body = encode::change_visibility(&self.queue_url, change);
            let action = Action::CHANGE_MESSAGE_VISIBILITY;
            let answer = self.quick(action, body, Repeat::Safe).await;
            return single(answer.map(|_| change.handle.clone()));
        }
        let body = encode::change_visibility_batch(&self.queue_url, changes);
        let action = Action::CHANGE_MESSAGE_VISIBILITY_BATCH;
        let done =
            decode::done_batch(&self.quick(action, body, Repeat::Safe).await?, changes.len());
        let renewed = |(change, done): (&Visibility, Result<(), EntryError>)| {
            done.map(|()| change.handle.clone())
        };
        Ok(changes.iter().zip(done?).map(renewed).collect())
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            max_batch: limits::BATCH_ENTRIES,
            max_batch_bytes: limits::MESSAGE_SIZE_BYTES,
            max_receive: *limits::RECEIVE_MESSAGES.end() as u32,
            long_poll: Some(Duration::from_secs(*limits::WAIT_TIME_S.end())),
            ordered_groups: self.is_fifo(),
            exact_visibility: true,
        }
    }
}

/// The outcome of an action for one message as a batch of one tells it: what the server refuses is
/// the entry's error.
fn single<T>(outcome: Result<T, CallError>) -> Result<Vec<Result<T, EntryError>>, CallError> {
    match outcome {
        Ok(value) => Ok(vec![Ok(value)]),
        Err(error) if error.kind == CallErrorKind::Refused => {
            Ok(vec![Err(EntryError::new(error.code, error.message, true))])
        }
        Err(error) => Err(error),
    }
}
