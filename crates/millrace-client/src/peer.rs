//! The seam: what a queue can do, whichever protocol it speaks.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{CallError, EntryError};
use crate::message::{Delivery, Outgoing, ReceiptHandle, Sent};

/// One queue at one endpoint. Each method is one call on the wire and never splits or repeats
/// it; more entries than [`Capabilities`] say are the caller's mistake, which the server's answer
/// tells.
///
/// Methods with several entries answer for each, in the order given; `Err` means that the call as
/// a whole failed, and [`CallError::is_ambiguous`] tells whether it may have taken effect.
///
/// Cancel safety: a call that is dropped may still take effect; messages of a dropped receive
/// stay hidden for their visibility timeout.
pub trait Peer: Send + Sync + 'static {
    /// Sends messages. `Ok` for an entry means that the server has accepted it.
    fn send(
        &self,
        messages: &[Outgoing],
    ) -> impl Future<Output = Result<Vec<Result<Sent, EntryError>>, CallError>> + Send;

    /// Receives up to `max` messages; an empty answer is no error.
    fn receive(
        &self,
        request: ReceiveRequest,
    ) -> impl Future<Output = Result<Vec<Delivery>, CallError>> + Send;

    /// Deletes received messages.
    fn delete(
        &self,
        handles: &[ReceiptHandle],
    ) -> impl Future<Output = Result<Vec<Result<(), EntryError>>, CallError>> + Send;

    /// Hides messages for the time given, counted from now; zero makes them visible at once.
    /// Answers the handle to use from now on: IronMQ gives a new one, SQS keeps the old.
    fn change_visibility(
        &self,
        changes: &[Visibility],
    ) -> impl Future<Output = Result<Vec<Result<ReceiptHandle, EntryError>>, CallError>> + Send;

    /// Gives messages back, to be received again after the time given: a visibility change by
    /// somebody who is done with them. IronMQ counts other changes as receives, so a peer around
    /// another one hands this on.
    fn release(
        &self,
        changes: &[Visibility],
    ) -> impl Future<Output = Result<Vec<Result<ReceiptHandle, EntryError>>, CallError>> + Send
    {
        self.change_visibility(changes)
    }

    /// What this queue can do.
    fn capabilities(&self) -> Capabilities;
}

/// A shared peer is a peer.
impl<P: Peer> Peer for Arc<P> {
    async fn send(
        &self,
        messages: &[Outgoing],
    ) -> Result<Vec<Result<Sent, EntryError>>, CallError> {
        (**self).send(messages).await
    }

    async fn receive(&self, request: ReceiveRequest) -> Result<Vec<Delivery>, CallError> {
        (**self).receive(request).await
    }

    async fn delete(
        &self,
        handles: &[ReceiptHandle],
    ) -> Result<Vec<Result<(), EntryError>>, CallError> {
        (**self).delete(handles).await
    }

    async fn change_visibility(
        &self,
        changes: &[Visibility],
    ) -> Result<Vec<Result<ReceiptHandle, EntryError>>, CallError> {
        (**self).change_visibility(changes).await
    }

    async fn release(
        &self,
        changes: &[Visibility],
    ) -> Result<Vec<Result<ReceiptHandle, EntryError>>, CallError> {
        (**self).release(changes).await
    }

    fn capabilities(&self) -> Capabilities {
        (**self).capabilities()
    }
}

/// One entry of a visibility change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visibility {
    pub handle: ReceiptHandle,
    /// Whole seconds on the wire, rounded up; 0 to 12 h on SQS.
    pub timeout: Duration,
}

/// What to receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveRequest {
    /// At least 1, at most [`Capabilities::max_receive`].
    pub max: u32,
    /// How long the server waits for a first message; zero answers at once. Beyond
    /// [`Capabilities::long_poll`] it is cut.
    pub wait: Duration,
    /// The queue's own visibility timeout unless given.
    pub visibility: Option<Duration>,
    /// Which system attributes to ask for.
    pub attributes: SystemAttributes,
}

/// Whether a receive asks for the attributes that the server keeps about a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SystemAttributes {
    /// All of them, and all message attributes.
    #[default]
    All,
    /// Neither: the cheapest answer.
    None,
}

impl Default for ReceiveRequest {
    /// Up to ten messages, long polling for 20 s, all attributes.
    fn default() -> ReceiveRequest {
        ReceiveRequest {
            max: 10,
            wait: Duration::from_secs(20),
            visibility: None,
            attributes: SystemAttributes::All,
        }
    }
}

/// What a queue can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Entries of one send or delete call.
    pub max_batch: usize,
    /// Entries of one visibility call or release.
    pub max_visibility_batch: usize,
    /// How long a visibility change is sure to hide a message, whatever longer time is asked for;
    /// `None` where that is what counts.
    pub sure_extension: Option<Duration>,
    /// Bytes of bodies and attributes in one send call.
    pub max_batch_bytes: usize,
    /// Messages of one receive.
    pub max_receive: u32,
    /// The longest a receive may wait; `None` where there is no long polling.
    pub long_poll: Option<Duration>,
    /// Whether messages of one group are delivered in order (a FIFO queue).
    pub ordered_groups: bool,
}
