//! How a message enters, changes state and leaves: the only code that touches links and counts.

use super::Queue;
use super::slab::{Entry, MessageState, NONE, linked};
use crate::definition::Kind;
use crate::record::SlotSeq;

impl Queue {
    /// Fills a taken slot with a message that was never received.
    pub(super) fn insert(
        &mut self,
        at: SlotSeq,
        sent: u64,
        group: Option<&str>,
        state: MessageState,
        deadline: u64,
    ) {
        let group = self.groups.join(group);
        let entry = self.slab.at_mut(at.slot);
        (entry.seq, entry.sent, entry.group) = (at.seq, sent, group);
        if self.settings.kind == Kind::Fifo {
            self.link_in_order(at.slot);
        }
        self.link_age(at.slot);
        self.attach(at.slot, state, deadline);
        self.refresh(group);
    }

    /// Takes a message out of the queue.
    pub(super) fn remove(&mut self, slot: u32) {
        self.detach(slot);
        if self.settings.kind == Kind::Fifo {
            self.unlink(slot);
        }
        self.unlink_age(slot);
        let entry = self.slab.at(slot);
        let group = entry.group;
        self.live.remove(entry.position, entry.record_len);
        if entry.has(Entry::DEAD_LETTERED) {
            self.origins.remove(&slot);
        }
        self.slab.release(slot);
        let is_last = self.groups.at(group).members == 1;
        self.groups.leave(group);
        if !is_last {
            self.refresh(group);
        }
    }

    /// Changes a message's state. `deadline` counts for delayed and in-flight messages.
    pub(super) fn change(&mut self, slot: u32, state: MessageState, deadline: u64) {
        self.change_outside(slot, state, deadline);
        self.refresh(self.slab.at(slot).group);
    }

    /// As [`Queue::change`], for a message whose group has left its ring and stays outside.
    pub(super) fn change_outside(&mut self, slot: u32, state: MessageState, deadline: u64) {
        self.detach(slot);
        self.attach(slot, state, deadline);
    }

    /// As [`Queue::change`] to ready, but first in its group's turn: for messages given back.
    pub(super) fn change_to_ready_first(&mut self, slot: u32) {
        self.change(slot, MessageState::Ready, 0);
        if self.settings.kind == Kind::Standard {
            let group = self.slab.at(slot).group;
            self.unlink(slot);
            let head = self.groups.at(group).head;
            self.link_before(slot, head);
        }
    }

    fn detach(&mut self, slot: u32) {
        let entry = self.slab.at(slot);
        let (group, deadline) = (entry.group, entry.deadline_at());
        match entry.state() {
            MessageState::Free => {}
            MessageState::Delayed => {
                self.timers.remove(deadline, slot, &self.slab);
                self.counts.delayed -= 1;
                self.groups.at_mut(group).delayed -= 1;
            }
            MessageState::Ready => {
                self.counts.ready -= 1;
                if self.settings.kind == Kind::Standard {
                    self.unlink(slot);
                }
            }
            MessageState::InFlight => {
                self.timers.remove(deadline, slot, &self.slab);
                self.counts.in_flight -= 1;
                self.groups.end_flight(group);
            }
        }
    }

    fn attach(&mut self, slot: u32, state: MessageState, deadline: u64) {
        let entry = self.slab.at_mut(slot);
        entry.set_state(state);
        let group = entry.group;
        match state {
            MessageState::Free => {}
            MessageState::Ready => {
                self.counts.ready += 1;
                if self.settings.kind == Kind::Standard {
                    self.link_before(slot, NONE);
                }
            }
            MessageState::Delayed | MessageState::InFlight => {
                entry.deadline = entry.offset(deadline);
                let deadline = entry.deadline_at();
                self.timers.insert(deadline, slot, &self.slab);
                if state == MessageState::Delayed {
                    self.counts.delayed += 1;
                    self.groups.at_mut(group).delayed += 1;
                } else {
                    self.counts.in_flight += 1;
                    self.groups.begin_flight(group);
                }
            }
        }
    }

    /// Puts the group into the ring where it belongs, if it has something to receive.
    pub(super) fn refresh(&mut self, group: u32) {
        let head = self.groups.at(group).head;
        let ring = match self.settings.kind {
            // FIFO: a hidden message blocks all behind it.
            Kind::Fifo => {
                (head != NONE && self.slab.at(head).state() == MessageState::Ready).then_some(0)
            }
            Kind::Standard => (head != NONE).then(|| self.groups.fair_ring(group)),
        };
        match ring {
            Some(ring) => self.groups.enter_ring(group, ring),
            None => self.groups.leave_ring(group),
        }
    }

    /// Links a message of a FIFO queue as its group's last. Those relocated in the journal may replay
    /// after their successors; [`Queue::sort_groups`] puts them in their places, all at once: a backlog
    /// that was relocated twice while more was sent has no order that could be followed.
    fn link_in_order(&mut self, slot: u32) {
        let (seq, group) = (self.slab.at(slot).seq, self.slab.at(slot).group);
        let tail = self.groups.at(group).tail;
        if tail != NONE && self.slab.at(tail).seq > seq {
            self.groups.at_mut(group).is_unsorted = true;
        }
        self.link_before(slot, NONE);
    }

    /// Ends a replay: messages of each group stand by sequence.
    pub(super) fn sort_groups(&mut self) {
        let unsorted = self.groups.iter().filter(|(_, group)| group.is_unsorted);
        let unsorted: Vec<u32> = unsorted.map(|(number, _)| number).collect();
        for number in unsorted {
            let first = linked(self.groups.at(number).head);
            let next = |slot: &u32| linked(self.slab.at(*slot).next);
            let mut slots: Vec<u32> = std::iter::successors(first, next).collect();
            // A few runs, each in order.
            slots.sort_by_key(|slot| self.slab.at(*slot).seq);
            let group = self.groups.at_mut(number);
            (group.head, group.tail, group.is_unsorted) = (NONE, NONE, false);
            for slot in slots {
                self.link_before(slot, NONE);
            }
            self.refresh(number);
        }
    }

    /// Links a message into its group's list before another, or last if that is [`NONE`].
    fn link_before(&mut self, slot: u32, before: u32) {
        let group = self.slab.at(slot).group;
        let prev = match before {
            NONE => self.groups.at(group).tail,
            before => self.slab.at(before).prev,
        };
        let entry = self.slab.at_mut(slot);
        (entry.prev, entry.next) = (prev, before);
        match prev {
            NONE => self.groups.at_mut(group).head = slot,
            prev => self.slab.at_mut(prev).next = slot,
        }
        match before {
            NONE => self.groups.at_mut(group).tail = slot,
            before => self.slab.at_mut(before).prev = slot,
        }
    }

    fn unlink(&mut self, slot: u32) {
        let Entry { group, prev, next, .. } = *self.slab.at(slot);
        match prev {
            NONE => self.groups.at_mut(group).head = next,
            prev => self.slab.at_mut(prev).next = next,
        }
        match next {
            NONE => self.groups.at_mut(group).tail = prev,
            next => self.slab.at_mut(next).prev = prev,
        }
    }

    fn link_age(&mut self, slot: u32) {
        let sent = self.slab.at(slot).sent;
        if self.newest != NONE && self.slab.at(self.newest).sent > sent {
            self.out_of_order.insert((sent, slot));
            self.slab.at_mut(slot).set(Entry::OUT_OF_ORDER);
            return;
        }
        let entry = self.slab.at_mut(slot);
        (entry.older, entry.newer) = (self.newest, NONE);
        match self.newest {
            NONE => self.oldest = slot,
            newest => self.slab.at_mut(newest).newer = slot,
        }
        self.newest = slot;
    }

    fn unlink_age(&mut self, slot: u32) {
        let entry = self.slab.at(slot);
        if entry.has(Entry::OUT_OF_ORDER) {
            self.out_of_order.remove(&(entry.sent, slot));
            return;
        }
        let (older, newer) = (entry.older, entry.newer);
        match older {
            NONE => self.oldest = newer,
            older => self.slab.at_mut(older).newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.slab.at_mut(newer).older = older,
        }
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::{QueueId, Timestamp};

    use super::super::testing::message;
    use super::super::{DeadLetters, Receive};
    use super::*;
    use crate::definition::{Redrive, Settings};

    const NOW: Timestamp = Timestamp(1_000);
    /// More than stand in one piece of memory, which goes with the last of them.
    const GROUPS: u64 = 3_000;

    /// A queue with a message in each group.
    fn queue(settings: Settings) -> Queue {
        let mut queue = Queue::new(QueueId(1), "arn", settings, 1);
        for group in 0..GROUPS {
            queue.send_alone(NOW, &message(0, Some(&group.to_string())));
        }
        assert_eq!(queue.counts().total(), GROUPS);
        queue
    }

    #[test]
    fn thousands_of_groups_end_with_their_messages() {
        for kind in [Kind::Standard, Kind::Fifo] {
            let mut queue = queue(Settings { kind, ..Settings::default() });
            let sent: Vec<SlotSeq> = queue.messages().map(|message| message.delivery.at).collect();

            assert!(sent.iter().all(|at| queue.take_alone(*at)));

            queue.assert_consistent();
            assert_eq!(queue.counts().total(), 0);
        }
    }

    #[test]
    fn thousands_of_groups_end_when_their_messages_move() {
        for kind in [Kind::Standard, Kind::Fifo] {
            let redrive = Redrive {
                region: "r".to_owned(),
                account: "000000000000".to_owned(),
                name: "dead".to_owned(),
                max_receive_count: 1,
            };
            let settings = Settings { kind, ..Settings::default() };
            let mut dead = Queue::new(QueueId(2), "arn", settings.clone(), 1);
            let mut queue = queue(Settings { redrive: Some(redrive), ..settings });
            let receive = Receive {
                max: GROUPS as usize,
                visibility_timeout_s: Some(0),
                attempt: None,
                in_flight_limit: GROUPS,
            };
            queue.receive_alone(NOW, &receive, DeadLetters::Elsewhere).unwrap();

            while queue.counts().total() > 0 {
                let received =
                    queue.receive_alone(NOW, &receive, DeadLetters::Move(&mut dead)).unwrap();
                assert!(received.deliveries.is_empty() && !received.moved.is_empty());
            }

            queue.assert_consistent();
            assert_eq!(dead.counts().ready, GROUPS);
        }
    }
}
