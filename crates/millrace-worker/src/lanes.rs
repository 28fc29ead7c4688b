//! The messages that wait for a handler, in order.
//!
//! Messages without a group are independent. Messages of one group form a lane: they start in the
//! order received, and none starts before those ahead of it are settled. Lanes run side by side.
//!
//! ```text
//!   next:   m1   A   m4   B            what may start, in order of arrival
//!   lanes:  A: a1 a2 (free)   B: b1 (free)   C: c2 (c1 is being handled, so C is not in `next`)
//! ```

use std::collections::{HashMap, VecDeque};

use bytestring::ByteString;

use crate::held::Key;

/// Waiting messages. Bounded by what the worker receives, not here.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    next: VecDeque<Next>,
    lanes: HashMap<ByteString, Lane>,
    waiting: usize,
    /// Those of them that need not wait for others of their group.
    startable: usize,
}

#[derive(Debug)]
enum Next {
    Message(Key),
    Lane(ByteString),
}

#[derive(Debug, Default)]
struct Lane {
    waiting: VecDeque<Key>,
    /// Messages taken and not yet settled.
    taken: usize,
}

impl Lanes {
    /// Messages that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Messages that wait for nothing but a handler.
    pub(crate) fn startable(&self) -> usize {
        self.startable
    }

    /// Adds a message behind all others, those of its group in particular.
    pub(crate) fn push(&mut self, key: Key, group: Option<ByteString>) {
        self.waiting += 1;
        let Some(group) = group else {
            self.startable += 1;
            self.next.push_back(Next::Message(key));
            return;
        };
        let lane = self.lanes.entry(group.clone()).or_default();
        let (is_free, is_offered) = (lane.taken == 0, !lane.waiting.is_empty());
        lane.waiting.push_back(key);
        if is_free {
            self.startable += 1;
            if !is_offered {
                self.next.push_back(Next::Lane(group));
            }
        }
    }

    /// Takes up to `most` messages for one handler; messages of one group stand in their order.
    pub(crate) fn take(&mut self, most: usize) -> Vec<Key> {
        let mut taken = Vec::new();
        while taken.len() < most {
            match self.next.pop_front() {
                Some(Next::Message(key)) => {
                    self.startable -= 1;
                    taken.push(key);
                }
                Some(Next::Lane(group)) => {
                    if let Some(lane) = self.lanes.get_mut(&group) {
                        // Those left behind wait for those taken.
                        self.startable -= lane.waiting.len();
                        let count = lane.waiting.len().min(most - taken.len());
                        lane.taken += count;
                        taken.extend(lane.waiting.drain(..count));
                    }
                }
                None => break,
            }
        }
        self.waiting -= taken.len();
        taken
    }

    /// A taken message of `group` is settled; with the last one the lane is free again.
    pub(crate) fn settled(&mut self, group: &ByteString) {
        let Some(lane) = self.lanes.get_mut(group) else { return };
        lane.taken = lane.taken.saturating_sub(1);
        if lane.taken > 0 {
            return;
        }
        if lane.waiting.is_empty() {
            self.lanes.remove(group);
        } else {
            self.startable += lane.waiting.len();
            self.next.push_back(Next::Lane(group.clone()));
        }
    }

    /// A message of `group` failed: gives up those that wait behind it, which must not overtake it.
    pub(crate) fn stop(&mut self, group: &ByteString) -> Vec<Key> {
        let Some(lane) = self.lanes.get_mut(group) else { return Vec::new() };
        let stopped: Vec<Key> = lane.waiting.drain(..).collect();
        self.waiting -= stopped.len();
        if lane.taken == 0 {
            self.startable -= stopped.len();
            self.lanes.remove(group);
            self.next.retain(|next| !matches!(next, Next::Lane(offered) if offered == group));
        }
        stopped
    }

    /// Forgets a waiting message without a group. O(waiting): for lost leases only.
    pub(crate) fn remove(&mut self, key: Key) {
        let before = self.next.len();
        self.next.retain(|next| !matches!(next, Next::Message(waiting) if *waiting == key));
        self.waiting -= before - self.next.len();
        self.startable -= before - self.next.len();
    }

    /// Gives up everything that waits.
    pub(crate) fn clear(&mut self) -> Vec<Key> {
        let mut given_up = Vec::with_capacity(self.waiting);
        for next in self.next.drain(..) {
            if let Next::Message(key) = next {
                given_up.push(key);
            }
        }
        for lane in self.lanes.values_mut() {
            given_up.extend(lane.waiting.drain(..));
        }
        self.lanes.retain(|_, lane| lane.taken > 0);
        self.waiting = 0;
        self.startable = 0;
        given_up
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lanes(messages: &[(u64, &'static str)]) -> Lanes {
        let mut lanes = Lanes::default();
        for (key, group) in messages {
            let group = (!group.is_empty()).then(|| ByteString::from_static(group));
            lanes.push(Key(*key), group);
        }
        lanes
    }

    fn take(lanes: &mut Lanes, most: usize) -> Vec<u64> {
        lanes.take(most).into_iter().map(|key| key.0).collect()
    }

    const NOTHING: [u64; 0] = [];
    const A: ByteString = ByteString::from_static("a");

    #[test]
    fn messages_without_group_start_in_order_of_arrival() {
        let mut lanes = lanes(&[(1, ""), (2, ""), (3, "")]);

        assert_eq!(take(&mut lanes, 2), [1, 2]);
        assert_eq!(take(&mut lanes, 2), [3]);
        assert_eq!(lanes.waiting(), 0);
    }

    #[test]
    fn next_of_a_group_waits_until_the_one_before_is_settled() {
        let mut lanes = lanes(&[(1, "a"), (2, "a"), (3, "b")]);

        assert_eq!(take(&mut lanes, 1), [1]);
        assert_eq!(take(&mut lanes, 1), [3]);
        assert_eq!(take(&mut lanes, 1), NOTHING);
        lanes.push(Key(4), Some(A));
        assert_eq!(take(&mut lanes, 1), NOTHING);
        lanes.settled(&A);
        assert_eq!(take(&mut lanes, 1), [2]);
        lanes.settled(&A);
        assert_eq!(take(&mut lanes, 1), [4]);
    }

    #[test]
    fn batch_holds_consecutive_messages_of_a_group_and_blocks_it_until_all_are_settled() {
        let mut lanes = lanes(&[(1, "a"), (2, "a"), (3, ""), (4, "a")]);

        assert_eq!(take(&mut lanes, 2), [1, 2]);
        assert_eq!(take(&mut lanes, 2), [3]);
        lanes.settled(&A);
        assert_eq!(take(&mut lanes, 2), NOTHING);
        lanes.settled(&A);
        assert_eq!(take(&mut lanes, 2), [4]);
    }

    #[test]
    fn stopped_lane_gives_up_what_waits_and_nothing_else() {
        let mut lanes = lanes(&[(1, "a"), (2, "a"), (3, "b"), (4, "a"), (5, "")]);
        assert_eq!(take(&mut lanes, 1), [1]);

        let stopped: Vec<u64> = lanes.stop(&A).into_iter().map(|key| key.0).collect();

        assert_eq!(stopped, [2, 4]);
        assert_eq!(lanes.waiting(), 2);
        lanes.settled(&A);
        assert_eq!(take(&mut lanes, 10), [3, 5]);
    }

    #[test]
    fn lane_that_was_stopped_before_it_started_can_be_used_again() {
        let mut lanes = lanes(&[(1, "a"), (2, "a")]);

        assert_eq!(lanes.stop(&A), [Key(1), Key(2)]);
        lanes.push(Key(3), Some(A));

        assert_eq!(take(&mut lanes, 10), [3]);
        assert_eq!(take(&mut lanes, 10), NOTHING);
    }

    #[test]
    fn clear_gives_up_everything_and_keeps_running_lanes_closed() {
        let mut lanes = lanes(&[(1, "a"), (2, "a"), (3, "")]);
        assert_eq!(take(&mut lanes, 1), [1]);

        let mut given_up = lanes.clear();

        given_up.sort();
        assert_eq!(given_up, [Key(2), Key(3)]);
        lanes.push(Key(4), Some(A));
        assert_eq!(take(&mut lanes, 10), NOTHING);
        lanes.settled(&A);
        assert_eq!(take(&mut lanes, 10), [4]);
    }

    #[test]
    fn what_waits_for_its_group_cannot_start() {
        let mut lanes = lanes(&[(1, "a"), (2, "a"), (3, "a"), (4, "b"), (5, "")]);
        assert_eq!(lanes.startable(), 5);

        assert_eq!(take(&mut lanes, 2), [1, 2]);
        assert_eq!(lanes.startable(), 2);
        lanes.push(Key(6), Some(A));
        assert_eq!(lanes.startable(), 2);
        lanes.settled(&A);
        lanes.settled(&A);
        assert_eq!(lanes.startable(), 4);
        lanes.remove(Key(5));
        lanes.stop(&A);
        assert_eq!((lanes.startable(), lanes.waiting()), (1, 1));
        assert_eq!(take(&mut lanes, 10), [4]);
        assert_eq!(lanes.startable(), 0);
    }

    #[test]
    fn removed_message_is_not_taken() {
        let mut lanes = lanes(&[(1, ""), (2, "")]);

        lanes.remove(Key(1));

        assert_eq!(lanes.waiting(), 1);
        assert_eq!(take(&mut lanes, 10), [2]);
    }
}
