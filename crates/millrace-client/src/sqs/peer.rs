//! One queue of SQS.

use std::time::Duration;

use bytes::Bytes;
use bytestring::ByteString;
use millrace_core::{Arn, limits};

use super::client::{SqsClient, Wait};
use super::encode::Request;
use super::{Protocol, decode, encode};
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

impl SqsPeer {
    /// The queue of that URL; nothing is asked of the server.
    pub fn new(client: SqsClient, queue_url: impl Into<ByteString>) -> SqsPeer {
        SqsPeer { client, queue_url: queue_url.into(), repeat_sends: Repeat::Safe }
    }

    /// The queue of that name, URL or ARN. A name is asked for with GetQueueUrl, and so is an ARN;
    /// then the queue that was found must have it, or it is another region's.
    ///
    /// # Errors
    ///
    /// [`CallErrorKind::NoSuchQueue`](crate::CallErrorKind::NoSuchQueue), or what broke on the way.
    pub async fn open(client: SqsClient, queue: &str) -> Result<SqsPeer, CallError> {
        if queue.contains("://") {
            return Ok(SqsPeer::new(client, queue));
        }
        let Some(key) = Arn::parse(queue).and_then(|arn| arn.queue()) else {
            return SqsPeer::find(client, queue, None).await;
        };
        let peer = SqsPeer::find(client, &key.name, Some(&key.account)).await?;
        let told = peer.attributes(&["QueueArn"]).await?;
        match told.iter().find(|(name, _)| &**name == "QueueArn") {
            Some((_, arn)) if &**arn == queue => Ok(peer),
            found => {
                let found = found.map_or("a queue without an ARN", |(_, arn)| &**arn);
                let message = format!("{queue} is not there, but {found}");
                Err(CallError::new(CallErrorKind::NoSuchQueue, "OtherQueue", message))
            }
        }
    }

    async fn find(
        client: SqsClient,
        name: &str,
        owner: Option<&str>,
    ) -> Result<SqsPeer, CallError> {
        let protocol = client.protocol();
        let Request { action, body } = encode::queue_url(protocol, name, owner);
        let answer = client.call(action, body, Wait::None, Repeat::Safe).await?;
        let queue_url = decode::queue_url(protocol, &answer)?;
        Ok(SqsPeer::new(client, queue_url))
    }

    /// Whether a send to a standard queue is repeated when the kept connection that it went over
    /// turns out to be closed. The message may then be there twice, as standard queues allow. By
    /// default it is.
    pub fn with_repeated_sends(mut self, repeat: Repeat) -> SqsPeer {
        self.repeat_sends = repeat;
        self
    }

    /// Attributes of the queue, such as `QueueArn`; what the server does not know is missing.
    ///
    /// # Errors
    ///
    /// The server's error, or what broke on the way.
    pub async fn attributes(
        &self,
        names: &[&str],
    ) -> Result<Vec<(ByteString, ByteString)>, CallError> {
        let request = encode::queue_attributes(self.protocol(), &self.queue_url, names);
        let answer = self.quick(request, Repeat::Safe).await?;
        decode::queue_attributes(self.protocol(), &answer)
    }

    pub fn queue_url(&self) -> &str {
        &self.queue_url
    }

    pub fn client(&self) -> &SqsClient {
        &self.client
    }

    fn protocol(&self) -> Protocol {
        self.client.protocol()
    }

    fn is_fifo(&self) -> bool {
        self.queue_url.ends_with(".fifo")
    }

    /// A repeated send to a FIFO queue is dropped by its deduplication id, drawn from the content
    /// if need be.
    fn repeat_send(&self) -> Repeat {
        if self.is_fifo() { Repeat::Safe } else { self.repeat_sends }
    }

    async fn quick(&self, request: Request, repeat: Repeat) -> Result<Bytes, CallError> {
        self.client.call(request.action, request.body, Wait::None, repeat).await
    }
}

impl Peer for SqsPeer {
    async fn send(
        &self,
        messages: &[Outgoing],
    ) -> Result<Vec<Result<Sent, EntryError>>, CallError> {
        let repeat = self.repeat_send();
        let protocol = self.protocol();
        if let [message] = messages {
            let request = encode::send(protocol, &self.queue_url, message);
            let answer = self.quick(request, repeat).await;
            return single(answer.and_then(|answer| decode::sent(protocol, &answer)));
        }
        let request = encode::send_batch(protocol, &self.queue_url, messages);
        let answer = self.quick(request, repeat).await?;
        decode::sent_batch(protocol, &answer, messages.len())
    }

    async fn receive(&self, request: ReceiveRequest) -> Result<Vec<Delivery>, CallError> {
        let longest = Duration::from_secs(*limits::WAIT_TIME_S.end());
        let duration = request.wait.min(longest);
        let wait = if duration.is_zero() { Wait::None } else { Wait::UpTo(duration) };
        let protocol = self.protocol();
        let Request { action, body } =
            encode::receive(protocol, &self.queue_url, &request, duration);
        let answer = self.client.call(action, body, wait, Repeat::Safe).await?;
        decode::received(protocol, &answer)
    }

    async fn delete(
        &self,
        handles: &[ReceiptHandle],
    ) -> Result<Vec<Result<(), EntryError>>, CallError> {
        let protocol = self.protocol();
        if let [handle] = handles {
            let request = encode::delete(protocol, &self.queue_url, handle);
            let answer = self.quick(request, Repeat::Safe).await;
            return single(answer.and_then(|answer| decode::done(protocol, &answer)));
        }
        let request = encode::delete_batch(protocol, &self.queue_url, handles);
        let answer = self.quick(request, Repeat::Safe).await?;
        decode::done_batch(protocol, &answer, handles.len())
    }

    async fn change_visibility(
        &self,
        changes: &[Visibility],
    ) -> Result<Vec<Result<ReceiptHandle, EntryError>>, CallError> {
        let protocol = self.protocol();
        if let [change] = changes {
            let request = encode::change_visibility(protocol, &self.queue_url, change);
            let answer = self.quick(request, Repeat::Safe).await;
            let done = answer.and_then(|answer| decode::done(protocol, &answer));
            return single(done.map(|()| change.handle.clone()));
        }
        let request = encode::change_visibility_batch(protocol, &self.queue_url, changes);
        let answer = self.quick(request, Repeat::Safe).await?;
        let done = decode::done_batch(protocol, &answer, changes.len());
        let renewed = |(change, done): (&Visibility, Result<(), EntryError>)| {
            done.map(|()| change.handle.clone())
        };
        Ok(changes.iter().zip(done?).map(renewed).collect())
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            max_batch: limits::BATCH_ENTRIES,
            max_visibility_batch: limits::BATCH_ENTRIES,
            sure_extension: None,
            max_batch_bytes: limits::MESSAGE_SIZE_BYTES,
            max_receive: *limits::RECEIVE_MESSAGES.end() as u32,
            long_poll: Some(Duration::from_secs(*limits::WAIT_TIME_S.end())),
            ordered_groups: self.is_fifo(),
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
