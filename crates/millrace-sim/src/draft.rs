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
    pub body_bytes: usize,
    pub content: Vec<u8>,
}

/// The body of the message of that number: the number, and letters that tell one number from
/// another and one place from another.
pub(crate) fn body(uid: u64, filler: u64) -> String {
    let mut body = format!("{uid};");
    body.extend((0..filler).map(|at| char::from(letter(uid, at))));
    body
}

/// The number of a body that is as it was made.
pub(crate) fn uid_of(body: &str) -> Option<u64> {
    let (uid, filler) = body.split_once(';')?;
    let uid = uid.parse().ok()?;
    let is_as_made = filler.bytes().zip(0..).all(|(byte, at)| byte == letter(uid, at));
    is_as_made.then_some(uid)
}

fn letter(uid: u64, at: u64) -> u8 {
    let bits = (uid << 16 ^ at).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 59;
    b'A' + bits as u8
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
            body_bytes: self.body_bytes,
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
