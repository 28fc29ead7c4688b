//! A queue in whichever protocol its server speaks.

use crate::{
    CallError, Capabilities, Delivery, EntryError, Outgoing, Peer, ReceiptHandle, ReceiveRequest,
    Sent, Visibility, iron::IronPeer, sqs::SqsPeer, transport::Transport,
};

/// One of the peers, for programs that learn only from their user which. Clones share their
/// connections.
#[derive(Clone, Debug)]
pub enum QueuePeer {
    Sqs(SqsPeer),
    Iron(IronPeer),
}

impl QueuePeer {
    /// The connections.
    pub fn transport(&self) -> &Transport {
        match self {
            QueuePeer::Sqs(peer) => peer.client().transport(),
            QueuePeer::Iron(peer) => peer.transport(),
        }
    }
}

impl Peer for QueuePeer {
    async fn send(
        &self,
        messages: &[Outgoing],
    ) -> Result<Vec<Result<Sent, EntryError>>, CallError> {
        match self {
            QueuePeer::Sqs(peer) => peer.send(messages).await,
            QueuePeer::Iron(peer) => peer.send(messages).await,
        }
    }

    async fn receive(&self, request: ReceiveRequest) -> Result<Vec<Delivery>, CallError> {
        match self {
            QueuePeer::Sqs(peer) => peer.receive(request).await,
            QueuePeer::Iron(peer) => peer.receive(request).await,
        }
    }

    async fn delete(
        &self,
        handles: &[ReceiptHandle],
    ) -> Result<Vec<Result<(), EntryError>>, CallError> {
        match self {
            QueuePeer::Sqs(peer) => peer.delete(handles).await,
            QueuePeer::Iron(peer) => peer.delete(handles).await,
        }
    }

    async fn change_visibility(
        &self,
        changes: &[Visibility],
    ) -> Result<Vec<Result<ReceiptHandle, EntryError>>, CallError> {
        match self {
            QueuePeer::Sqs(peer) => peer.change_visibility(changes).await,
            QueuePeer::Iron(peer) => peer.change_visibility(changes).await,
        }
    }

    async fn release(
        &self,
        changes: &[Visibility],
    ) -> Result<Vec<Result<ReceiptHandle, EntryError>>, CallError> {
        match self {
            QueuePeer::Sqs(peer) => peer.release(changes).await,
            QueuePeer::Iron(peer) => peer.release(changes).await,
        }
    }

    fn capabilities(&self) -> Capabilities {
        match self {
            QueuePeer::Sqs(peer) => peer.capabilities(),
            QueuePeer::Iron(peer) => peer.capabilities(),
        }
    }
}
