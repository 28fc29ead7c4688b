//! The changes that commands make, replayed from their records. Between two records of a message,
//! deadlines may have passed that no record tells of; so each of these takes a message from
//! whatever state it is in. Records of messages that are gone are passed over: their first record
//! was truncated because they are deleted or relocated further on.

use std::sync::Arc;

use millrace_core::{MessageId, Timestamp, limits};

use super::Queue;
use super::dedup::Remembered;
use super::slab::{Entry, MessageState};
use crate::definition::Settings;
use crate::record::{MovedSlots, RelocatedRecord, SentRecord, Slots};

impl Queue {
    /// `Sent`.
    pub(crate) fn replay_sent(&mut self, sent: &SentRecord<'_>, position: u64, record_len: u32) {
        self.vacate(sent.at.slot);
        self.slab.take_at(sent.at.slot);
        let is_ready = sent.deadline.0 == 0;
        let state = if is_ready { MessageState::Ready } else { MessageState::Delayed };
        self.insert(sent.at, sent.sent.0, sent.group, state, sent.deadline.0);
        if sent.dedup != 0 {
            let expires = sent.sent.plus_seconds(limits::DEDUPLICATION_WINDOW_S);
            self.replay_remembered(sent.dedup, sent.at.seq, sent.id, expires, position);
            // Memory of sends stays as small as it was when they were accepted.
            self.dedup.expire(sent.sent, 2);
        }
        self.stored(sent.at, None, position, record_len);
        self.next_seq = self.next_seq.max(sent.at.seq.saturating_add(1));
    }

    /// `Received`.
    pub(crate) fn replay_received(&mut self, at: Timestamp, deadline: Timestamp, slots: Slots<'_>) {
        for message in slots.iter() {
            if self.contains(message) {
                self.count_receive(message.slot, at);
                self.replay_deadline(message.slot, at, deadline);
            }
        }
    }

    /// `VisibilityChanged`.
    pub(crate) fn replay_visibility(
        &mut self,
        at: Timestamp,
        deadline: Timestamp,
        slots: Slots<'_>,
    ) {
        for message in slots.iter() {
            if self.contains(message) {
                self.replay_deadline(message.slot, at, deadline);
            }
        }
    }

    /// `Returned`.
    pub(crate) fn replay_returned(&mut self, slots: Slots<'_>) {
        for message in slots.iter() {
            if self.contains(message) {
                let entry = self.slab.at_mut(message.slot);
                entry.set_receive_count(entry.receive_count().saturating_sub(1));
                self.change_to_ready_first(message.slot);
            }
        }
    }

    /// `Deleted`.
    pub(crate) fn replay_deleted(&mut self, slots: Slots<'_>) {
        for message in slots.iter() {
            self.take(message);
        }
    }

    /// `Moved`, to this queue: what held those slots is gone, whether or not the messages are left
    /// that took them.
    pub(crate) fn replay_taken(&mut self, slots: MovedSlots<'_>) {
        for moved in slots.iter() {
            self.vacate(moved.to.slot);
            self.next_seq = self.next_seq.max(moved.to.seq.saturating_add(1));
        }
    }

    /// `Moved`, from this queue to one where the slots [are free](Queue::replay_taken).
    pub(crate) fn replay_moved(
        &mut self,
        target: &mut Queue,
        at: Timestamp,
        source: &str,
        slots: MovedSlots<'_>,
    ) {
        self.arn = Arc::from(source);
        for moved in slots.iter() {
            if self.contains(moved.from) {
                target.slab.take_at(moved.to.slot);
                self.move_into(target, moved.from, moved.to, at);
            }
        }
    }

    /// `Relocated`: the message as it is from here on.
    pub(crate) fn replay_relocated(
        &mut self,
        relocated: &RelocatedRecord<'_>,
        position: u64,
        record_len: u32,
    ) {
        let message = &relocated.message;
        if self.contains(message.at) {
            self.relocated(message.at, position, record_len);
            return;
        }
        let not_remembered = SentRecord { dedup: 0, deadline: Timestamp(0), ..message.clone() };
        self.replay_sent(&not_remembered, position, record_len);
        let slot = message.at.slot;
        let entry = self.slab.at_mut(slot);
        entry.set_receive_count(relocated.receive_count);
        entry.first_received = entry.offset(relocated.first_received.0);
        if relocated.last_received.0 != 0 {
            entry.last_received = entry.offset(relocated.last_received.0);
            entry.set(Entry::RECEIVED);
        }
        match relocated.state {
            state @ (MessageState::Delayed | MessageState::InFlight) => {
                self.change(slot, state, message.deadline.0);
            }
            MessageState::Ready | MessageState::Free => {}
        }
        if !relocated.source.is_empty() {
            let source = Arc::from(relocated.source);
            let first_received = relocated.first_received.0;
            self.set_origin(slot, source, relocated.original_sent.0, first_received);
        }
    }

    /// `Remembered`, and the memory of `Sent`.
    pub(crate) fn replay_remembered(
        &mut self,
        key: u128,
        seq: u64,
        id: MessageId,
        expires: Timestamp,
        position: u64,
    ) {
        self.dedup.insert(Remembered::new(key, id, seq, expires), Some(position));
        self.next_seq = self.next_seq.max(seq.saturating_add(1));
    }

    /// `Defined`, the first that is left: the delay was last changed by it or by one before it that
    /// no record tells of any more.
    pub(crate) fn replay_first_settings(&mut self, settings: Settings, modified: Timestamp) {
        self.settings = settings;
        self.apply_delay_to_all(modified);
    }

    /// `Defined`, a later one.
    pub(crate) fn replay_settings(&mut self, settings: Settings, modified: Timestamp) {
        let delay_changed = settings.delay_s != self.settings.delay_s;
        self.settings = settings;
        if delay_changed {
            self.apply_delay_to_all(modified);
        }
    }

    /// Ends the replay: slots that hold nothing may be used again, sequences begin anew.
    pub(crate) fn finish_replay(&mut self, first_seq: u64) {
        self.slab.link_free();
        self.sort_groups();
        self.dedup.sort();
        self.next_seq = self.next_seq.max(first_seq);
    }

    fn replay_deadline(&mut self, slot: u32, at: Timestamp, deadline: Timestamp) {
        if deadline > at {
            self.change(slot, MessageState::InFlight, deadline.0);
        } else {
            self.change(slot, MessageState::Ready, 0);
        }
    }

    /// A slot that is to be filled was freed before, whether or not a record is left to say so.
    fn vacate(&mut self, slot: u32) {
        if self.slab.is_used(slot) {
            self.remove(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::QueueId;

    use super::super::{Send, Sent};
    use super::*;
    use crate::definition::Kind;
    use crate::record::{self, MovedSlot, Record, SlotSeq};

    fn sent(slot: u32, seq: u64) -> SentRecord<'static> {
        SentRecord {
            queue: QueueId(1),
            at: SlotSeq { slot, seq },
            sent: Timestamp(1_000),
            deadline: Timestamp(0),
            id: MessageId::from_random(0),
            kind: Kind::Fifo,
            group: Some("g"),
            dedup: 0,
        }
    }

    fn fifo(id: u64) -> Queue {
        let settings = Settings { kind: Kind::Fifo, ..Settings::default() };
        Queue::new(QueueId(id), "arn", settings, 0)
    }

    /// The move of a message that was sent to the first queue's first slot.
    fn move_sent(from: &mut Queue, target: &mut Queue, to: SlotSeq) {
        from.replay_sent(&sent(0, 1), 0, 100);
        let (mut index, at) = (Vec::new(), Timestamp(2_000));
        let slots = [MovedSlot { from: sent(0, 1).at, to }];
        record::moved(&mut index, from.id(), target.id(), at, "arn", slots.into_iter());
        let Some(Record::Moved { slots, .. }) = Record::decode(&index) else { panic!("moved") };
        target.replay_taken(slots);
        from.replay_moved(target, at, "arn", slots);
    }

    #[test]
    fn a_message_may_move_to_where_another_was_of_which_no_record_tells_that_it_went() {
        let (mut from, mut target) = (fifo(1), fifo(2));
        target.replay_sent(&sent(3, 1), 100, 100);

        move_sent(&mut from, &mut target, sent(3, 2).at);

        target.finish_replay(3);
        target.assert_consistent();
        assert_eq!((from.counts().total(), target.counts().total()), (0, 1));
    }

    /// A run may give out more sequences than lie between where it begins and where the next does.
    #[test]
    fn sequences_go_on_behind_all_that_records_tell_of() {
        let [mut sent_to, mut moved_to, mut remembers] = [1, 2, 3].map(fifo);
        sent_to.replay_sent(&sent(0, 9), 0, 100);
        move_sent(&mut fifo(4), &mut moved_to, sent(0, 9).at);
        remembers.replay_remembered(7, 9, MessageId::from_random(0), Timestamp(5_000), 0);

        for mut queue in [sent_to, moved_to, remembers] {
            queue.finish_replay(3);
            let id = MessageId::from_random(1);
            let send = Send { id, group: Some("g"), dedup: None, delay_s: None };
            let Sent::Stored { at, .. } = queue.send(Timestamp(3_000), &send) else {
                panic!("stored")
            };
            assert_eq!(at.seq, 10);
        }
    }

    #[test]
    fn a_changed_delay_passes_over_slots_that_no_message_was_in() {
        let mut queue = fifo(1);
        // The chunks before it are absent.
        queue.replay_sent(&sent(100_000, 1), 0, 100);
        queue.finish_replay(2);

        let settings = Settings { delay_s: 60, ..queue.settings().clone() };
        queue.set_settings(settings, Timestamp(1_000));
        queue.tick(Timestamp(1_000), 200_000);

        assert_eq!(queue.counts().delayed, 1);
    }
}
