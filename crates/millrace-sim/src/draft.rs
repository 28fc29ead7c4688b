//! A message about to be sent.

use std::sync::LazyLock;

use millrace_broker::Outgoing;
use millrace_core::MessageId;

use crate::model::{Message, QueueModel, State};
use crate::random::Random;

pub(crate) struct Draft {
    pub uid: u64,
    pub id: MessageId,
    pub group: Option<String>,
    pub dedup_id: Option<String>,
    pub delay_s: Option<u32>,
    pub body_bytes: usize,
    pub content: Vec<u8>,
}

/// Letters without a pattern, of which every body has a part.
static LETTERS: LazyLock<String> = LazyLock::new(|| {
    let mut random = Random::new(0);
    (0..PLACES + LONGEST).map(|_| char::from(b'a' + random.below(26) as u8)).collect()
});
const PLACES: usize = 4096;
const LONGEST: usize = 2048;

/// The body of the message of that number: the number, and letters from a place of its own.
pub(crate) fn body(uid: u64, letters: u64) -> String {
    format!("{uid};{}", letters_of(uid, letters as usize).unwrap_or_default())
}

/// The number of a body that is as it was made.
pub(crate) fn uid_of(body: &str) -> Option<u64> {
    let (uid, letters) = body.split_once(';')?;
    let uid = uid.parse().ok()?;
    (letters_of(uid, letters.len())? == letters).then_some(uid)
}

fn letters_of(uid: u64, count: usize) -> Option<&'static str> {
    let place = uid as usize * 7 % PLACES;
    LETTERS.get(place..place + count)
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
