//! Steps that the replays of several kinds share, and the end of a replay.
//!
//! Between two records of a message, deadlines may have passed that no record tells of; so each
//! replay takes a message from whatever state it is in. Records of messages that are gone are
//! passed over: their first record was truncated because they are deleted or relocated further on.

use super::Queue;

impl Queue {
    /// Ends the replay: slots that hold nothing may be used again, sequences begin anew.
    pub(crate) fn finish_replay(&mut self, first_seq: u64) {
        self.slab.link_free();
        self.sort_groups();
        self.dedup.sort();
        self.next_seq = self.next_seq.max(first_seq);
    }

    /// A slot that is to be filled was freed before, whether or not a record is left to say so.
    pub(super) fn vacate(&mut self, slot: u32) {
        if self.slab.is_used(slot) {
            self.remove(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::{MessageId, QueueId, Timestamp};

    use super::super::testing::message;
    use super::super::{MovedRecord, Sent, SentRecord};
    use super::*;
    use crate::content::ContentVersion;
    use crate::definition::{Kind, Settings};
    use crate::record::{MovedSlot, Record, Records, SlotSeq};

    fn sent(slot: u32, seq: u64) -> SentRecord<'static> {
        SentRecord {
            version: ContentVersion::Plain,
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
        let mut records = Records::default();
        let slots = [MovedSlot { from: sent(0, 1).at, to }];
        let moved = MovedRecord {
            from: from.id(),
            to: target.id(),
            at: Timestamp(2_000),
            source: "arn",
            slots: &slots[..],
        };
        moved.write(&mut records);
        let (index, _) = records.iter().next().unwrap();
        let Ok(Record::Moved(moved)) = Record::decode(index) else { panic!("moved") };
        target.replay_taken(moved.slots);
        from.replay_moved(target, &moved);
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
            let sent = queue.send_alone(Timestamp(3_000), &message(1, Some("g")));
            let Sent::Stored { at, .. } = sent else { panic!("stored") };
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
