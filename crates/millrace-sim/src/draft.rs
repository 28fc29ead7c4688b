//! A message about to be sent.

use millrace_broker::Outgoing;
use millrace_core::MessageId;

use crate::model::{Message, QueueModel, State};

pub(crate) struct Draft {
    pub uid: u64,
    pub id: MessageId,
    pub group: Option<String>,
    pub dedup_id: Option<String>,
    pub delay_s: Option<u32>,
    pub content: Vec<u8>,
}

impl Draft {
    pub(crate) fn outgoing(&self) -> Outgoing<'_> {
        Outgoing {
            id: self.id,
            content: &self.content,
            size_bytes: self.content.len(),
            group: self.group.as_deref(),
            deduplication_id: self.dedup_id.as_deref(),
            delay_s: self.delay_s,
        }
    }

    /// What its deduplication id means in that queue.
    pub(crate) fn key(&self, queue: &QueueModel) -> Option<String> {
        let group = self.group.as_deref().unwrap_or_default();
        self.dedup_id.as_deref().map(|id| queue.dedup_key(group, id))
    }

    pub(crate) fn message(&self, queue: &QueueModel, seq: u64, now: u64) -> Message {
        let delay_s = self.delay_s.unwrap_or(queue.definition.settings.delay_s);
        let end = now + u64::from(delay_s) * 1000;
        Message {
            uid: self.uid,
            id: self.id,
            seq,
            group: self.group.clone(),
            sent: now,
            kept_from: now,
            state: if delay_s == 0 { State::Ready } else { State::Delayed(end) },
            receive_count: 0,
            first_received: 0,
            last_received: 0,
            was_received: false,
            source: None,
        }
    }
}
