//! Commands of tests that look at a queue alone: messages without content, no records kept.

use millrace_core::{MessageId, Timestamp};

use super::{DeadLetters, Queue, Receive, ReceiveError, Received, Send, Sent};
use crate::content::StoredContent;
use crate::record::{Records, SlotSeq};

pub(super) fn message(number: u128, group: Option<&str>) -> Send<'_> {
    let (id, content) = (MessageId::from_random(number), StoredContent::default());
    Send { id, content, group, dedup: None, delay_s: None }
}

impl Queue {
    pub(super) fn send_alone(&mut self, now: Timestamp, send: &Send<'_>) -> Sent {
        self.send(now, send, &mut Records::default())
    }

    pub(super) fn receive_alone(
        &mut self,
        now: Timestamp,
        receive: &Receive,
        dead_letters: DeadLetters<'_>,
    ) -> Result<Received, ReceiveError> {
        self.receive(now, receive, dead_letters, &mut Records::default())
    }

    pub(super) fn take_alone(&mut self, at: SlotSeq) -> bool {
        self.take(at, &mut Records::default())
    }
}
