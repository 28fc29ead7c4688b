//! Message ids: decimal texts that name the place of a message in its queue, so that one can be
//! found by its id alone.
//!
//! The number is `sequence << 72 | slot << 40 | incarnation`: it grows with the time of the post.
//! The incarnation tells a queue from those that had its name before.

use millrace_broker::{SharedQueue, SlotSeq};
use millrace_core::QueueId;

/// Bits of a sequence besides those of its shard, which is the queue's.
const SEQUENCE_BITS: u32 = 56;

/// The id of the message at that place of a queue.
pub(super) fn message_id(queue: QueueId, at: SlotSeq) -> String {
    let sequence = u128::from(at.seq) & ((1 << SEQUENCE_BITS) - 1);
    (sequence << 72 | u128::from(at.slot) << 40 | u128::from(incarnation(queue))).to_string()
}

/// The place that an id names in a queue; `None` if it is of another queue, or no id.
pub(super) fn place(queue: &SharedQueue, id: &str) -> Option<SlotSeq> {
    place_in(queue.id(), id)
}

fn place_in(queue: QueueId, id: &str) -> Option<SlotSeq> {
    let is_number = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
    let number: u128 = id.parse().ok().filter(|_| is_number)?;
    let is_of_queue = number & ((1 << 40) - 1) == u128::from(incarnation(queue));
    let shard = queue.0 >> SEQUENCE_BITS << SEQUENCE_BITS;
    is_of_queue
        .then_some(SlotSeq { slot: (number >> 40) as u32, seq: shard | (number >> 72) as u64 })
}

/// 16 bits of the epoch and 24 of the number in it.
fn incarnation(queue: QueueId) -> u64 {
    let (epoch, number) = (queue.0 >> 40 & 0xffff, queue.0 & 0xff_ffff);
    epoch << 24 | number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_names_one_place_of_one_queue() {
        let queue = QueueId(7 << 56 | 3 << 40 | 12);
        let at = SlotSeq { slot: u32::MAX, seq: 7 << 56 | 65_535 << 40 | 5 };
        let id = message_id(queue, at);

        assert_eq!(place_in(queue, &id), Some(at));
        for other in [queue.0 + 1, queue.0 + (1 << 40)] {
            assert_eq!(place_in(QueueId(other), &id), None);
        }
        for no_id in ["", "x", "+1", "-1", "1.0", &format!("{id}0000000000"), " 1"] {
            assert_eq!(place_in(queue, no_id), None, "{no_id}");
        }
    }

    #[test]
    fn ids_grow_with_the_messages() {
        let id = |seq| message_id(QueueId(1), SlotSeq { slot: 9, seq }).parse::<u128>().unwrap();

        assert!(id(1 << 40) < id((1 << 40) + 1) && id((1 << 40) + 1) < id(2 << 40));
    }
}
