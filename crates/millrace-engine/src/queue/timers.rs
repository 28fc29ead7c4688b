//! When delays and visibility timeouts end.
//!
//! Messages that are received together have one deadline, so slots stand by deadline: with a
//! hundred messages to a millisecond, one takes 7 bytes here.

use std::collections::BTreeMap;
use std::ops::Bound;

use smallvec::SmallVec;

use super::slab::Slab;

/// Slots by deadline, and of one deadline by sequence.
#[derive(Debug, Default)]
pub(super) struct Timers {
    by_deadline: BTreeMap<u64, SmallVec<[u32; 4]>>,
    len: usize,
}

/// Deadline, sequence and slot: the order in which timers end.
pub(super) type Timer = (u64, u64, u32);

impl Timers {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The entry of `slot` has its sequence.
    pub(super) fn insert(&mut self, deadline: u64, slot: u32, slab: &Slab) {
        let seq = slab.at(slot).seq;
        let slots = self.by_deadline.entry(deadline).or_default();
        // Messages are mostly received in the order of their sequences.
        let is_last = slots.last().is_none_or(|last| slab.at(*last).seq < seq);
        let place = match is_last {
            true => slots.len(),
            false => slots.partition_point(|other| slab.at(*other).seq < seq),
        };
        slots.insert(place, slot);
        self.len += 1;
    }

    /// The entry of `slot` still has its sequence.
    pub(super) fn remove(&mut self, deadline: u64, slot: u32, slab: &Slab) {
        let Some(slots) = self.by_deadline.get_mut(&deadline) else { return };
        let seq = slab.at(slot).seq;
        // Messages are mostly deleted in the order of their sequences, too.
        let place = match slots.first() == Some(&slot) {
            true => 0,
            false => slots.partition_point(|other| slab.at(*other).seq < seq),
        };
        if slots.get(place) == Some(&slot) {
            slots.remove(place);
            self.len -= 1;
        }
        if slots.is_empty() {
            self.by_deadline.remove(&deadline);
        }
    }

    pub(super) fn contains(&self, deadline: u64, slot: u32) -> bool {
        self.by_deadline.get(&deadline).is_some_and(|slots| slots.contains(&slot))
    }

    /// Deadline and slot of the timer that ends first.
    pub(super) fn first(&self) -> Option<(u64, u32)> {
        let (deadline, slots) = self.by_deadline.first_key_value()?;
        slots.first().map(|slot| (*deadline, *slot))
    }

    /// Timers that end after this one, or all, in order. It may have ended itself.
    pub(super) fn behind<'a>(
        &'a self,
        after: Option<Timer>,
        slab: &'a Slab,
    ) -> impl Iterator<Item = Timer> + 'a {
        let from = after.map_or(Bound::Unbounded, |(deadline, _, _)| Bound::Included(deadline));
        self.by_deadline.range((from, Bound::Unbounded)).flat_map(move |(deadline, slots)| {
            let timer = |slot: u32| (*deadline, slab.at(slot).seq, slot);
            let seen =
                slots.partition_point(|slot| after.is_some_and(|after| timer(*slot) <= after));
            slots[seen..].iter().map(move |slot| timer(*slot))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const SLOTS: u32 = 40;

    fn slab(seqs: &[u64]) -> Slab {
        let mut slab = Slab::default();
        for seq in seqs {
            let slot = slab.take();
            slab.at_mut(slot).seq = *seq;
        }
        slab
    }

    proptest! {
        #[test]
        fn order_is_that_of_a_set(
            seqs in Just((0..u64::from(SLOTS)).collect::<Vec<_>>()).prop_shuffle(),
            steps in prop::collection::vec((0..SLOTS, 0..4u64), 1..200),
        ) {
            let slab = slab(&seqs);
            let (mut timers, mut set) = (Timers::default(), BTreeSet::<Timer>::new());
            for (slot, deadline) in steps {
                let seq = slab.at(slot).seq;
                let old = set.iter().find(|(_, _, other)| *other == slot).copied();
                if let Some(old) = old {
                    timers.remove(old.0, slot, &slab);
                    set.remove(&old);
                } else {
                    timers.insert(deadline, slot, &slab);
                    set.insert((deadline, seq, slot));
                }
                let after = (deadline, seq, slot);
                prop_assert_eq!(timers.len(), set.len());
                prop_assert_eq!(timers.contains(deadline, slot), set.contains(&after));
                prop_assert_eq!(timers.first(), set.first().map(|(at, _, slot)| (*at, *slot)));
                prop_assert!(timers.behind(None, &slab).eq(set.iter().copied()));
                let behind = set.range((Bound::Excluded(after), Bound::Unbounded));
                prop_assert!(timers.behind(Some(after), &slab).eq(behind.copied()));
                let slots = timers.by_deadline.values().flatten();
                prop_assert!(slots.eq(set.iter().map(|(_, _, slot)| slot)));
            }
        }
    }
}
