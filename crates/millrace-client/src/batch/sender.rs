//! Sends single messages in batches.

use bytestring::ByteString;

use super::BatchOptions;
use super::batcher::{BatchCall, BatchError, Batcher, Entry};
use crate::error::{CallError, EntryError};
use crate::message::{Outgoing, Sent};
use crate::peer::{Capabilities, Peer};

/// Sends messages in batches. Clones share them.
///
/// Messages of one group of a FIFO queue arrive in the order in which `send` was first polled;
/// others in any order. One that fails leaves a gap: those behind it may have been accepted all the
/// same. Give it a [`Retrying`](crate::Retrying) peer to have failed entries sent again, unless
/// that would break the order.
#[derive(Debug)]
pub struct Sender<P: Peer> {
    batcher: Batcher<SendCall<P>>,
}

#[derive(Debug)]
struct SendCall<P> {
    peer: P,
    capabilities: Capabilities,
}

impl<P: Peer> Sender<P> {
    /// Must be called within a runtime.
    pub fn new(peer: P, options: BatchOptions) -> Sender<P> {
        let capabilities = peer.capabilities();
        Sender { batcher: Batcher::new(SendCall { peer, capabilities }, options) }
    }

    /// Sends a message and returns when the server has accepted it. Waits for room while too much
    /// is under way; on a FIFO queue behind all whose `send` was polled before, so that one which
    /// is polled once and then neither polled nor dropped stops those behind it.
    ///
    /// Cancel safety: a message that found room is sent all the same.
    ///
    /// # Errors
    ///
    /// What the server said about this message or about the call that carried it.
    pub async fn send(&self, message: Outgoing) -> Result<Sent, BatchError> {
        self.batcher.submit(message).await
    }

    /// Takes nothing more, sends what waits, and returns when every message has its outcome. There
    /// is no bound but those of the peer's calls.
    ///
    /// Cancel safety: the flush goes on.
    pub async fn close(&self) {
        self.batcher.close().await;
    }
}

impl<P: Peer> Clone for Sender<P> {
    fn clone(&self) -> Sender<P> {
        Sender { batcher: self.batcher.clone() }
    }
}

impl<P: Peer> BatchCall for SendCall<P> {
    type Entry = Outgoing;
    type Done = Sent;

    async fn call(&self, entries: &[Outgoing]) -> Result<Vec<Result<Sent, EntryError>>, CallError> {
        self.peer.send(entries).await
    }

    fn keeps_order(&self) -> bool {
        self.capabilities.ordered_groups
    }

    fn max_batch(&self) -> usize {
        self.capabilities.max_batch
    }

    fn max_batch_bytes(&self) -> usize {
        self.capabilities.max_batch_bytes
    }
}

impl Entry for Outgoing {
    fn size_bytes(&self) -> usize {
        Outgoing::size_bytes(self)
    }

    fn group(&self) -> Option<&ByteString> {
        self.group_id.as_ref()
    }
}
