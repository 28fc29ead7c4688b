//! Deletes received messages, and changes their visibility, in batches.

use std::sync::Arc;

use bytestring::ByteString;

use super::BatchOptions;
use super::batcher::{BatchCall, BatchError, Batcher, Entry};
use crate::error::{CallError, EntryError};
use crate::message::ReceiptHandle;
use crate::peer::{Capabilities, Peer, Visibility};

/// Settles received messages in batches. Clones share them. Deletes and visibility changes go out
/// in separate calls; whoever changes a message's visibility and then deletes it awaits the first.
#[derive(Debug)]
pub struct Settler<P: Peer> {
    deletes: Batcher<DeleteCall<P>>,
    visibility: Batcher<VisibilityCall<P>>,
}

#[derive(Debug)]
struct DeleteCall<P>(Arc<P>);

#[derive(Debug)]
struct VisibilityCall<P>(Arc<P>);

impl<P: Peer> Settler<P> {
    /// Must be called within a runtime.
    pub fn new(peer: P, options: BatchOptions) -> Settler<P> {
        let peer = Arc::new(peer);
        Settler {
            deletes: Batcher::new(DeleteCall(Arc::clone(&peer)), options),
            visibility: Batcher::new(VisibilityCall(peer), options),
        }
    }

    /// Deletes a message and returns when the server has done so.
    ///
    /// Cancel safety: a delete that found room goes out all the same.
    ///
    /// # Errors
    ///
    /// What the server said about this message or about the call that carried it.
    pub async fn delete(&self, handle: ReceiptHandle) -> Result<(), BatchError> {
        self.deletes.submit(handle).await
    }

    /// Changes how long a message stays hidden, and returns the handle to use from now on.
    ///
    /// Cancel safety and errors: as for [`delete`](Settler::delete).
    pub async fn change_visibility(&self, change: Visibility) -> Result<ReceiptHandle, BatchError> {
        self.visibility.submit(change).await
    }

    /// Takes nothing more, and returns when everything has its outcome.
    ///
    /// Cancel safety: the flush goes on.
    pub async fn close(&self) {
        tokio::join!(self.deletes.close(), self.visibility.close());
    }
}

impl<P: Peer> Clone for Settler<P> {
    fn clone(&self) -> Settler<P> {
        Settler { deletes: self.deletes.clone(), visibility: self.visibility.clone() }
    }
}

impl<P: Peer> BatchCall for DeleteCall<P> {
    type Entry = ReceiptHandle;
    type Done = ();

    async fn call(
        &self,
        entries: &[ReceiptHandle],
    ) -> Result<Vec<Result<(), EntryError>>, CallError> {
        self.0.delete(entries).await
    }

    fn max_batch(&self) -> usize {
        self.0.capabilities().max_batch
    }
}

impl<P: Peer> BatchCall for VisibilityCall<P> {
    type Entry = Visibility;
    type Done = ReceiptHandle;

    async fn call(
        &self,
        entries: &[Visibility],
    ) -> Result<Vec<Result<ReceiptHandle, EntryError>>, CallError> {
        self.0.change_visibility(entries).await
    }

    fn max_batch(&self) -> usize {
        let Capabilities { max_visibility_batch, .. } = self.0.capabilities();
        max_visibility_batch
    }
}

impl Entry for ReceiptHandle {
    fn size_bytes(&self) -> usize {
        self.token.len() + self.message_id.len()
    }

    fn group(&self) -> Option<&ByteString> {
        None
    }
}

impl Entry for Visibility {
    fn size_bytes(&self) -> usize {
        self.handle.size_bytes()
    }

    fn group(&self) -> Option<&ByteString> {
        None
    }
}
