//! The messages that the worker holds: received, and neither settled nor lost.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use bytestring::ByteString;
use millrace_client::Delivery;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{backoff::LONGEST_HELD, metrics::Ended, settlement::Settlement};

/// Names a held message; grows in the order of receipt and is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key(pub(crate) u64);

impl Key {
    /// Behind every key that is given out.
    pub(crate) const LAST: Key = Key(u64::MAX);
}

/// A message and what is to become of it.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) delivery: Delivery,
    /// The lane it belongs to, where the queue keeps groups in order.
    pub(crate) group: Option<ByteString>,
    pub(crate) receive_count: u32,
    /// When its receive was sent.
    pub(crate) received: Instant,
    pub(crate) state: State,
    /// A handler was given it, so that its lane waits for it.
    pub(crate) is_taken: bool,
    /// Another worker may have it by now.
    pub(crate) is_lost: bool,
    /// A request about it is under way.
    pub(crate) is_in_request: bool,
    /// Its handler was stopped or dropped at the end.
    pub(crate) is_cut_off: bool,
    /// Tells its handler to stop.
    pub(crate) cancel: CancellationToken,
    /// Whether work on it has begun: in a batch it may still wait for others when that ends. Shared
    /// with the handler that works through the batch.
    pub(crate) is_begun: Arc<AtomicBool>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum State {
    /// For a handler.
    Waiting,
    /// A handler works on it.
    Running,
    /// The handler is done.
    Settling {
        /// What the server is to be told.
        settlement: Settlement,
        /// What that makes of the message.
        ended: Ended,
    },
}

impl Held {
    /// How long the message may stay hidden: SQS counts 12 hours from the receive. Whole seconds,
    /// because parts of one are rounded up on the wire.
    pub(crate) fn hide_at_most(&self, now: Instant) -> Duration {
        let left = LONGEST_HELD.saturating_sub(now.saturating_duration_since(self.received));
        Duration::from_secs(left.as_secs())
    }
}

/// All held messages.
#[derive(Debug, Default)]
pub(crate) struct HeldMessages {
    messages: HashMap<Key, Held>,
    /// The key of each message id, to notice one that is received again.
    by_id: HashMap<ByteString, Key>,
    next: u64,
    bytes: usize,
}

impl HeldMessages {
    pub(crate) fn len(&self) -> usize {
        self.messages.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Bytes of all bodies and attributes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn insert(&mut self, held: Held) -> Key {
        let key = Key(self.next);
        self.next += 1;
        self.bytes += held.delivery.size_bytes();
        self.by_id.insert(held.delivery.message_id().clone(), key);
        self.messages.insert(key, held);
        key
    }

    pub(crate) fn get(&self, key: Key) -> Option<&Held> {
        self.messages.get(&key)
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut Held> {
        self.messages.get_mut(&key)
    }

    /// The held message with this id.
    pub(crate) fn find(&self, message_id: &ByteString) -> Option<Key> {
        self.by_id.get(message_id).copied()
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<Held> {
        let held = self.messages.remove(&key)?;
        self.bytes -= held.delivery.size_bytes();
        if self.find(held.delivery.message_id()) == Some(key) {
            self.by_id.remove(held.delivery.message_id());
        }
        Some(held)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &Held> {
        self.messages.values()
    }
}
