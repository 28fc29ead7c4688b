//! Message groups and the order in which receives visit them.
//!
//! Groups that have something to receive stand in rings. A FIFO queue has one ring. A standard
//! queue has one for groups with little in flight and one for each power of two of messages in
//! flight above that, and receives visit the ring of the fewest first (fair queues): a noisy group
//! waits until quieter ones have had their turn. Within a ring groups take turns. All moves cost
//! the same, however many groups there are, and so does one group more.

use std::collections::{BTreeSet, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use super::hash_index::HashIndex;
use super::slab::{NONE, linked};

/// Messages without a group: never noisy, whatever is in flight of them.
pub(super) const UNGROUPED: u32 = 0;

const RINGS: usize = 33;
/// Messages in flight from which on a group has to wait for quieter ones.
const NOISY: u32 = 30;
const OUTSIDE: u8 = u8::MAX;

/// Groups of a chunk: a table in one piece would be copied when it grows.
const CHUNK: usize = 1 << 10;

#[derive(Debug)]
pub(super) struct Group {
    pub name: Option<Arc<str>>,
    /// Standard queues: the ready messages. FIFO queues: all messages in order.
    pub head: u32,
    pub tail: u32,
    pub in_flight: u32,
    pub delayed: u32,
    /// Messages of the group in any state; the group ends with the last.
    pub members: u32,
    /// FIFO queues, while they replay: messages are not in the order of their sequences.
    pub is_unsorted: bool,
    ring: u8,
    ring_prev: u32,
    ring_next: u32,
}

impl Group {
    fn new(name: Option<Arc<str>>) -> Group {
        Group {
            name,
            head: NONE,
            tail: NONE,
            in_flight: 0,
            delayed: 0,
            members: 0,
            is_unsorted: false,
            ring: OUTSIDE,
            ring_prev: NONE,
            ring_next: NONE,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Ring {
    head: u32,
    tail: u32,
}

#[derive(Debug)]
pub(super) struct Groups {
    /// At most one at the end has no group in it.
    chunks: Vec<Vec<Group>>,
    /// For each chunk, the places of groups that have ended.
    free: Vec<Vec<u16>>,
    /// Chunks with room. The first is filled first, so that the last ones become empty.
    open: BTreeSet<usize>,
    by_name: HashIndex,
    /// Clients choose the names.
    hasher: RandomState,
    rings: [Ring; RINGS],
    /// Bit n: ring n is not empty.
    occupied: u64,
    /// Groups that have messages in flight.
    in_flight: u64,
    noisy: HashSet<u32>,
}

impl Groups {
    pub(super) fn new() -> Groups {
        Groups {
            chunks: vec![vec![Group::new(None)]],
            free: vec![Vec::new()],
            open: BTreeSet::from([0]),
            by_name: HashIndex::default(),
            hasher: RandomState::new(),
            rings: [Ring { head: NONE, tail: NONE }; RINGS],
            occupied: 0,
            in_flight: 0,
            noisy: HashSet::new(),
        }
    }

    pub(super) fn at(&self, group: u32) -> &Group {
        &self.chunks[group as usize / CHUNK][group as usize % CHUNK]
    }

    pub(super) fn at_mut(&mut self, group: u32) -> &mut Group {
        &mut self.chunks[group as usize / CHUNK][group as usize % CHUNK]
    }

    /// Whether the group has not ended meanwhile.
    pub(super) fn has_members(&self, group: u32) -> bool {
        let chunk = self.chunks.get(group as usize / CHUNK);
        let group = chunk.and_then(|chunk| chunk.get(group as usize % CHUNK));
        group.is_some_and(|group| group.members > 0)
    }

    /// Counts one more message of the group in flight.
    pub(super) fn begin_flight(&mut self, group: u32) {
        let in_flight = &mut self.at_mut(group).in_flight;
        *in_flight += 1;
        match *in_flight {
            1 => self.in_flight += 1,
            NOISY => self.becomes_noisy(group),
            _ => {}
        }
    }

    /// Counts one message of the group less in flight.
    pub(super) fn end_flight(&mut self, group: u32) {
        let in_flight = &mut self.at_mut(group).in_flight;
        *in_flight -= 1;
        match *in_flight + 1 {
            1 => self.in_flight -= 1,
            NOISY => self.becomes_quiet(group),
            _ => {}
        }
    }

    #[cold]
    fn becomes_noisy(&mut self, group: u32) {
        if group != UNGROUPED {
            self.noisy.insert(group);
        }
    }

    #[cold]
    fn becomes_quiet(&mut self, group: u32) {
        self.noisy.remove(&group);
    }

    /// How many groups have messages in flight.
    pub(super) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// The groups that have to wait for quieter ones.
    pub(super) fn noisy(&self) -> &HashSet<u32> {
        &self.noisy
    }

    /// Counts one more member in the group of that name and returns the group.
    pub(super) fn join(&mut self, name: Option<&str>) -> u32 {
        let group = match name {
            None => UNGROUPED,
            Some(name) => {
                let hash = self.hasher.hash_one(name);
                let is_it = |group| self.at(group).name.as_deref() == Some(name);
                self.by_name.find(hash, is_it).unwrap_or_else(|| self.found(name, hash))
            }
        };
        self.at_mut(group).members += 1;
        group
    }

    /// Counts one member less; the group ends with its last, except the one without a name.
    pub(super) fn leave(&mut self, group: u32) {
        self.at_mut(group).members -= 1;
        if self.at(group).members > 0 {
            return;
        }
        self.leave_ring(group);
        if group != UNGROUPED {
            let Self { chunks, hasher, by_name, .. } = self;
            let hash_of = |group| hash_of(chunks, hasher, group);
            by_name.remove(hash_of(group), group, hash_of);
            self.at_mut(group).name = None;
            self.free(group);
        }
    }

    /// The group whose turn it is.
    pub(super) fn first(&self) -> Option<u32> {
        let ring = self.rings.get(self.occupied.trailing_zeros() as usize)?;
        Some(ring.head)
    }

    /// The ring for a group of a standard queue.
    pub(super) fn fair_ring(&self, group: u32) -> u8 {
        if group == UNGROUPED {
            return 0;
        }
        match self.at(group).in_flight {
            // Developer guide, "Fair queues": below 30 in flight a group is not noisy.
            ..NOISY => 0,
            in_flight => (u32::BITS - in_flight.leading_zeros()) as u8,
        }
    }

    /// Puts the group at the end of that ring; it stays where it is if it is in it already.
    pub(super) fn enter_ring(&mut self, group: u32, ring: u8) {
        if self.at(group).ring != ring {
            self.leave_ring(group);
            self.place_between(self.rings[usize::from(ring)].tail, group, NONE, ring);
        }
    }

    /// Puts the group, if it is in a ring, at the front of that.
    pub(super) fn keep_turn(&mut self, group: u32) {
        let ring = self.at(group).ring;
        if ring != OUTSIDE {
            self.leave_ring(group);
            self.place_between(NONE, group, self.rings[usize::from(ring)].head, ring);
        }
    }

    fn place_between(&mut self, prev: u32, group: u32, next: u32, ring: u8) {
        let entered = self.at_mut(group);
        (entered.ring, entered.ring_prev, entered.ring_next) = (ring, prev, next);
        match prev {
            NONE => self.rings[usize::from(ring)].head = group,
            prev => self.at_mut(prev).ring_next = group,
        }
        match next {
            NONE => self.rings[usize::from(ring)].tail = group,
            next => self.at_mut(next).ring_prev = group,
        }
        self.occupied |= 1 << ring;
    }

    /// Takes the group out of its ring, if it is in one.
    pub(super) fn leave_ring(&mut self, group: u32) {
        let Group { ring, ring_prev: prev, ring_next: next, .. } = *self.at(group);
        if ring == OUTSIDE {
            return;
        }
        match prev {
            NONE => self.rings[usize::from(ring)].head = next,
            prev => self.at_mut(prev).ring_next = next,
        }
        match next {
            NONE => self.rings[usize::from(ring)].tail = prev,
            next => self.at_mut(next).ring_prev = prev,
        }
        self.at_mut(group).ring = OUTSIDE;
        if self.rings[usize::from(ring)].head == NONE {
            self.occupied &= !(1 << ring);
        }
    }

    /// Whether there is a group with a name.
    pub(super) fn has_names(&self) -> bool {
        !self.by_name.is_empty()
    }

    /// Every group that is or was, by number. For tests and checks.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Group)> + '_ {
        let chunks = self.chunks.iter().enumerate();
        chunks.flat_map(|(number, chunk)| ((number * CHUNK) as u32..).zip(chunk))
    }

    /// Ring and number of every group that stands in one, in the order of their turns.
    pub(super) fn turns(&self) -> impl Iterator<Item = (u8, u32)> + '_ {
        (0..).zip(&self.rings).flat_map(move |(number, ring)| {
            std::iter::successors(linked(ring.head), |group| linked(self.at(*group).ring_next))
                .map(move |group| (number, group))
        })
    }

    fn found(&mut self, name: &str, hash: u64) -> u32 {
        let group = self.place(Group::new(Some(Arc::from(name))));
        let Self { chunks, hasher, by_name, .. } = self;
        by_name.insert(hash, group, |group| hash_of(chunks, hasher, group));
        group
    }

    fn place(&mut self, group: Group) -> u32 {
        let number = match self.open.first() {
            Some(number) => *number,
            None => {
                self.chunks.push(Vec::with_capacity(CHUNK));
                self.free.push(Vec::new());
                self.open.insert(self.chunks.len() - 1);
                self.chunks.len() - 1
            }
        };
        let chunk = &mut self.chunks[number];
        let place = match self.free[number].pop() {
            Some(place) => {
                chunk[usize::from(place)] = group;
                usize::from(place)
            }
            None => {
                chunk.push(group);
                chunk.len() - 1
            }
        };
        if self.used(number) == CHUNK {
            self.open.remove(&number);
        }
        (number * CHUNK + place) as u32
    }

    fn free(&mut self, group: u32) {
        let number = group as usize / CHUNK;
        self.free[number].push((group as usize % CHUNK) as u16);
        if self.used(number) == CHUNK - 1 {
            self.open.insert(number);
        }
        // The first has the group without a name, so it is never empty.
        while let Some(last) = self.chunks.len().checked_sub(1)
            && self.used(last) == 0
            && self.used(last - 1) == 0
        {
            self.chunks.pop();
            self.free.pop();
            self.open.remove(&last);
        }
    }

    /// Groups of a chunk that have not ended.
    fn used(&self, chunk: usize) -> usize {
        self.chunks[chunk].len() - self.free[chunk].len()
    }
}

/// The hash of a group's name.
fn hash_of(chunks: &[Vec<Group>], hasher: &RandomState, group: u32) -> u64 {
    let name = &chunks[group as usize / CHUNK][group as usize % CHUNK].name;
    hasher.hash_one(name.as_deref().unwrap_or_default())
}

#[cfg(test)]
mod tests;
