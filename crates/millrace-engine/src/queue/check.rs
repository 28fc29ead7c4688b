//! What must always hold of a queue's inner state, spelled out for tests and simulations.

use std::collections::{BTreeSet, HashSet};

use super::Queue;
use super::groups::UNGROUPED;
use super::slab::{Entry, MessageState, NONE};
use crate::definition::Kind;

impl Queue {
    /// Panics if entries, lists, rings, timers and counts disagree. Reads every message.
    pub fn assert_consistent(&self) {
        self.assert_entries();
        self.assert_ages();
        self.assert_groups();
        self.assert_rings();
    }

    fn assert_entries(&self) {
        let (mut used, mut timers, mut origins, mut live) = (0, 0, 0, 0);
        let mut counts = super::Counts::default();
        for slot in 0..self.slab.len() {
            let entry = self.slab.at(slot);
            match entry.state() {
                MessageState::Free => continue,
                MessageState::Delayed => counts.delayed += 1,
                MessageState::Ready => counts.ready += 1,
                MessageState::InFlight => counts.in_flight += 1,
            }
            used += 1;
            live += u64::from(entry.record_len);
            if entry.state() != MessageState::Ready {
                timers += 1;
                assert!(
                    self.timers.contains(entry.deadline_at(), slot),
                    "slot {slot} has its timer"
                );
            }
            if entry.has(Entry::DEAD_LETTERED) {
                origins += 1;
                assert!(self.origins.contains_key(&slot), "slot {slot} knows its origin");
            }
            assert!(entry.seq < self.next_seq, "slot {slot} has a sequence given out");
        }
        assert_eq!(counts, self.counts, "messages by state");
        assert_eq!(used, self.slab.used(), "used slots");
        assert_eq!(timers, self.timers.len(), "timers");
        assert_eq!(origins, self.origins.len(), "origins");
        assert_eq!(live, self.live.total(), "live bytes");
        let free: BTreeSet<_> = self.slab.free_slots().collect();
        assert_eq!(free.len() as u64 + used, u64::from(self.slab.len()), "free slots");
        assert!(free.iter().all(|slot| !self.slab.is_used(*slot)), "free slots are free");
    }

    fn assert_ages(&self) {
        let (mut slot, mut older, mut sent, mut seen) = (self.oldest, NONE, 0, 0);
        while slot != NONE {
            let entry = self.slab.at(slot);
            assert!(!entry.has(Entry::OUT_OF_ORDER), "slot {slot} is in one place");
            assert_eq!(entry.older, older, "slot {slot} links back");
            assert!(entry.sent >= sent, "slot {slot} is not older than its predecessor");
            (older, sent, seen) = (slot, entry.sent, seen + 1);
            slot = entry.newer;
        }
        assert_eq!(older, self.newest, "the newest");
        for (sent, slot) in &self.out_of_order {
            let entry = self.slab.at(*slot);
            assert!(entry.has(Entry::OUT_OF_ORDER) && entry.sent == *sent, "slot {slot}");
        }
        assert_eq!(seen + self.out_of_order.len() as u64, self.slab.used(), "messages by age");
    }

    fn assert_groups(&self) {
        let is_fifo = self.settings.kind == Kind::Fifo;
        let mut listed = 0;
        for (number, group) in self.groups.iter() {
            let (mut slot, mut prev) = (group.head, NONE);
            while slot != NONE {
                let entry = self.slab.at(slot);
                assert_eq!((entry.group, entry.prev), (number, prev), "slot {slot}");
                assert!(is_fifo || entry.state() == MessageState::Ready, "slot {slot} is ready");
                let is_in_order = prev == NONE || self.slab.at(prev).seq < entry.seq;
                assert!(!is_fifo || is_in_order, "slot {slot} follows in sequence");
                listed += 1;
                (prev, slot) = (slot, entry.next);
            }
            assert_eq!(group.tail, prev, "tail of group {number}");
            let members = || {
                let slots = (0..self.slab.len()).map(|slot| self.slab.at(slot));
                slots.filter(|e| e.state() != MessageState::Free && e.group == number)
            };
            let of = |state| members().filter(|e| e.state() == state).count();
            let (delayed, in_flight) = (of(MessageState::Delayed), of(MessageState::InFlight));
            assert_eq!(group.members as usize, members().count(), "members of {number}");
            assert_eq!(group.delayed as usize, delayed, "delayed of {number}");
            assert_eq!(group.in_flight as usize, in_flight, "in flight of {number}");
        }
        let (mut flying, mut noisy) = (0, HashSet::new());
        for (number, group) in self.groups.iter() {
            flying += u64::from(group.in_flight > 0);
            if number != UNGROUPED && self.groups.fair_ring(number) > 0 {
                noisy.insert(number);
            }
        }
        assert_eq!(flying, self.groups.in_flight(), "groups in flight");
        assert_eq!(&noisy, self.groups.noisy(), "noisy groups");
        let all = if is_fifo { self.slab.used() } else { self.counts.ready };
        assert_eq!(listed, all, "messages in groups");
    }

    fn assert_rings(&self) {
        let turns: BTreeSet<_> = self.groups.turns().map(|(ring, group)| (group, ring)).collect();
        for (number, group) in self.groups.iter() {
            let head_is_ready =
                group.head != NONE && self.slab.at(group.head).state() == MessageState::Ready;
            let ring = match self.settings.kind {
                Kind::Fifo => 0,
                Kind::Standard => self.groups.fair_ring(number),
            };
            let found: Vec<_> = turns.iter().filter(|turn| turn.0 == number).collect();
            let wanted: &[_] = if head_is_ready { &[&(number, ring)] } else { &[] };
            assert_eq!(found, wanted, "turn of group {number}");
        }
        assert_eq!(self.groups.first().is_some(), !turns.is_empty(), "whose turn it is");
    }
}
