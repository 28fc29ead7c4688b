//! A queue in whichever protocol its server speaks.

use millrace_client::{
    CallError, Capabilities, Delivery, EntryError, Outgoing, Peer, ReceiptHandle, ReceiveRequest,
    Sent, Visibility, iron::IronPeer, sqs::SqsPeer,
};

/// One of the peers, so that all queues of a worker have the same type.
#[derive(Clone, Debug)]
pub(super) enum QueuePeer {
    Sqs(SqsPeer),
    Iron(IronPeer),
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

    fn capabilities(&self) -> Capabilities {
        match self {
            QueuePeer::Sqs(peer) => peer.capabilities(),
            QueuePeer::Iron(peer) => peer.capabilities(),
        }
    }
}
