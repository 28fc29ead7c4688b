//! The table of messages: 64 bytes each, in chunks so that it grows without copying.
//!
//! After a replay, chunks that no message is in are absent: a record that names a high slot costs
//! its own chunk of 2 MiB and 24 bytes for each absent one below (3 MB at most), not 64 bytes a
//! slot. Smaller chunks would leave 7 % of the allocator's pages unused.

use crate::receipt::Handle;

/// No slot, and no group.
pub(super) const NONE: u32 = u32::MAX;

const CHUNK_BITS: u32 = 15;
const CHUNK: usize = 1 << CHUNK_BITS;

const COUNT_MASK: u32 = (1 << 24) - 1;
const STATE_SHIFT: u32 = 24;
const STATE_MASK: u32 = 0b11 << STATE_SHIFT;

/// Where a message is in its life; see the drawing in the crate's root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageState {
    Free = 0,
    Delayed = 1,
    Ready = 2,
    InFlight = 3,
}

/// One message. Times but `sent` are milliseconds after `sent`: retention is 14 days at most, 32
/// bits last for 49.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// When retention began, epoch milliseconds.
    pub sent: u64,
    /// Where its record is in the journal; the upper 32 bits are the segment.
    pub position: u64,
    pub seq: u64,
    /// Bytes of its record.
    pub record_len: u32,
    pub first_received: u32,
    pub last_received: u32,
    /// End of delay or visibility timeout.
    pub deadline: u32,
    /// Receive count (24 bits), state (2), flags.
    packed: u32,
    pub group: u32,
    /// Neighbours in the group's list.
    pub prev: u32,
    pub next: u32,
    /// Neighbours in the list by age; `newer` links free entries, too.
    pub older: u32,
    pub newer: u32,
}

const _: () = assert!(size_of::<Entry>() == 64);

/// Where a link leads, if anywhere.
pub(super) fn linked(link: u32) -> Option<u32> {
    (link != NONE).then_some(link)
}

impl Entry {
    const FREE: Entry = Entry {
        sent: 0,
        position: 0,
        seq: 0,
        record_len: 0,
        first_received: 0,
        last_received: 0,
        deadline: 0,
        packed: 0,
        group: 0,
        prev: NONE,
        next: NONE,
        older: NONE,
        newer: NONE,
    };

    /// Dead-lettered from another queue: the side table knows from where.
    pub(super) const DEAD_LETTERED: u32 = 1 << 26;
    /// In the set of those sent earlier than their predecessors, not in the list by age.
    pub(super) const OUT_OF_ORDER: u32 = 1 << 27;
    /// Received from this queue, whether or not it was given back since.
    pub(super) const RECEIVED: u32 = 1 << 28;

    pub(super) fn state(&self) -> MessageState {
        match (self.packed & STATE_MASK) >> STATE_SHIFT {
            0 => MessageState::Free,
            1 => MessageState::Delayed,
            2 => MessageState::Ready,
            _ => MessageState::InFlight,
        }
    }

    pub(super) fn set_state(&mut self, state: MessageState) {
        self.packed = self.packed & !STATE_MASK | (state as u32) << STATE_SHIFT;
    }

    pub(super) fn receive_count(&self) -> u32 {
        self.packed & COUNT_MASK
    }

    pub(super) fn set_receive_count(&mut self, count: u32) {
        self.packed = self.packed & !COUNT_MASK | count.min(COUNT_MASK);
    }

    pub(super) fn has(&self, flag: u32) -> bool {
        self.packed & flag != 0
    }

    pub(super) fn set(&mut self, flag: u32) {
        self.packed |= flag;
    }

    /// Whether the handle is that of the message's current receive.
    pub(super) fn is_current(&self, handle: &Handle) -> bool {
        self.state() == MessageState::InFlight && self.receive_count() == handle.receive_count
    }

    /// `time` as milliseconds after `sent`.
    pub(super) fn offset(&self, time: u64) -> u32 {
        u32::try_from(time.saturating_sub(self.sent)).unwrap_or(u32::MAX)
    }

    /// The end of delay or visibility timeout, epoch milliseconds.
    pub(super) fn deadline_at(&self) -> u64 {
        self.sent.saturating_add(u64::from(self.deadline))
    }
}

/// All messages of a queue by slot.
#[derive(Debug, Default)]
pub(super) struct Slab {
    /// All but the last are full or absent, that is empty.
    chunks: Vec<Vec<Entry>>,
    /// Absent chunks, highest first; used when no slot is free.
    absent: Vec<u32>,
    free: Option<u32>,
    used: u64,
    /// Of a large table that went with its last message. To free it takes a while, and need not be done
    /// here.
    discarded: Vec<Vec<Entry>>,
}

impl Slab {
    /// The slot behind the highest ever used.
    pub(super) fn len(&self) -> u32 {
        match self.chunks.last() {
            Some(last) => ((self.chunks.len() - 1) * CHUNK + last.len()) as u32,
            None => 0,
        }
    }

    /// Messages in it.
    pub(super) fn used(&self) -> u64 {
        self.used
    }

    /// The entry of a slot that is known to exist.
    pub(super) fn at(&self, slot: u32) -> &Entry {
        &self.chunks[(slot >> CHUNK_BITS) as usize][slot as usize & (CHUNK - 1)]
    }

    /// The entry of a slot that is known to exist.
    pub(super) fn at_mut(&mut self, slot: u32) -> &mut Entry {
        &mut self.chunks[(slot >> CHUNK_BITS) as usize][slot as usize & (CHUNK - 1)]
    }

    /// The message of that slot, if it still is the one of that sequence.
    pub(super) fn find(&self, slot: u32, seq: u64) -> Option<&Entry> {
        let entry =
            self.chunks.get((slot >> CHUNK_BITS) as usize)?.get(slot as usize & (CHUNK - 1))?;
        (entry.state() != MessageState::Free && entry.seq == seq).then_some(entry)
    }

    /// Whether the slot holds a message.
    pub(super) fn is_used(&self, slot: u32) -> bool {
        let chunk = self.chunks.get((slot >> CHUNK_BITS) as usize);
        let entry = chunk.and_then(|chunk| chunk.get(slot as usize & (CHUNK - 1)));
        entry.is_some_and(|entry| entry.state() != MessageState::Free)
    }

    /// A free slot, taken. The caller fills it and gives it a state.
    pub(super) fn take(&mut self) -> u32 {
        self.used += 1;
        if self.free.is_none()
            && let Some(chunk) = self.absent.pop()
        {
            self.fill(chunk as usize);
            self.link_free_of(chunk);
        }
        match self.free {
            Some(slot) => {
                self.free = linked(self.at(slot).newer);
                slot
            }
            None => self.push(),
        }
    }

    /// Takes that very slot, which is free: replay puts messages where they were.
    pub(super) fn take_at(&mut self, slot: u32) {
        let (chunk, index) = ((slot >> CHUNK_BITS) as usize, slot as usize & (CHUNK - 1));
        if chunk >= self.chunks.len() {
            if let Some(last) = self.chunks.len().checked_sub(1) {
                self.fill(last);
            }
            self.chunks.resize_with(chunk + 1, Vec::new);
        }
        if chunk + 1 < self.chunks.len() {
            self.fill(chunk);
        } else {
            while self.chunks[chunk].len() <= index {
                self.push();
            }
        }
        self.used += 1;
    }

    /// Frees a slot. With the last message of a large queue the table goes, too: a backlog that was
    /// worked off leaves no memory behind.
    pub(super) fn release(&mut self, slot: u32) {
        if self.used == 1 && self.chunks.len() > 1 {
            let discarded = std::mem::take(&mut self.chunks);
            *self = Slab { discarded, ..Slab::default() };
            return;
        }
        let newer = self.free.unwrap_or(NONE);
        *self.at_mut(slot) = Entry { newer, ..Entry::FREE };
        self.free = Some(slot);
        self.used -= 1;
    }

    /// What a large table has left behind that went since this was last called.
    pub(super) fn take_discarded(&mut self) -> Option<Vec<Vec<Entry>>> {
        let is_there = !self.discarded.is_empty();
        is_there.then(|| std::mem::take(&mut self.discarded))
    }

    /// Links all free slots, lowest first, after replay.
    pub(super) fn link_free(&mut self) {
        self.free = None;
        self.absent.clear();
        for chunk in (0..self.chunks.len() as u32).rev() {
            match self.chunks[chunk as usize].is_empty() {
                true => self.absent.push(chunk),
                false => self.link_free_of(chunk),
            }
        }
    }

    /// Free slots that are linked, those of absent chunks left out; reads all of them.
    pub(super) fn free_slots(&self) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(self.free, |slot| linked(self.at(*slot).newer))
    }

    /// Puts the free slots of one chunk before those that are linked already.
    fn link_free_of(&mut self, chunk: u32) {
        for index in (0..self.chunks[chunk as usize].len()).rev() {
            let slot = chunk << CHUNK_BITS | index as u32;
            if self.at(slot).state() == MessageState::Free {
                self.at_mut(slot).newer = self.free.unwrap_or(NONE);
                self.free = Some(slot);
            }
        }
    }

    /// Makes a chunk full.
    fn fill(&mut self, chunk: usize) {
        let chunk = &mut self.chunks[chunk];
        chunk.reserve_exact(CHUNK - chunk.len());
        chunk.resize(CHUNK, Entry::FREE);
    }

    fn push(&mut self) -> u32 {
        if self.chunks.last().is_none_or(|last| last.len() == CHUNK) {
            // A small queue stays small; a large one does not copy its entries while it grows.
            let capacity = if self.chunks.is_empty() { 4 } else { CHUNK };
            self.chunks.push(Vec::with_capacity(capacity));
        }
        if let Some(last) = self.chunks.last_mut() {
            last.push(Entry::FREE);
        }
        self.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_reused_and_chunks_grow() {
        let mut slab = Slab::default();
        for expected in 0..10_000 {
            assert_eq!(slab.take(), expected);
            slab.at_mut(expected).set_state(MessageState::Ready);
        }
        slab.release(7);
        slab.release(9_000);

        assert_eq!((slab.take(), slab.take(), slab.take()), (9_000, 7, 10_000));
        assert_eq!(slab.used(), 10_001);
    }

    #[test]
    fn last_message_takes_a_large_table_with_it() {
        let mut slab = Slab::default();
        for slot in 0..=CHUNK as u32 {
            slab.take();
            slab.at_mut(slot).set_state(MessageState::Ready);
        }
        for slot in 0..CHUNK as u32 {
            slab.release(slot);
        }
        assert_eq!(slab.chunks.len(), 2);

        slab.release(CHUNK as u32);

        assert!(slab.chunks.is_empty());
        assert_eq!(slab.take_discarded().map(|chunks| chunks.len()), Some(2), "to be freed");
        assert!(slab.take_discarded().is_none());
        assert_eq!((slab.take(), slab.take(), slab.used()), (0, 1, 2));
    }

    #[test]
    fn replayed_slots_leave_the_gaps_free() {
        let mut slab = Slab::default();
        slab.take_at(3);
        slab.at_mut(3).set_state(MessageState::Ready);
        slab.link_free();

        assert_eq!((slab.take(), slab.take(), slab.take(), slab.take()), (0, 1, 2, 4));
    }

    #[test]
    fn a_high_slot_does_not_cost_those_below_it() {
        const HIGHEST: u32 = u32::MAX - 1;
        let mut slab = Slab::default();
        for slot in [2, HIGHEST, 3 << CHUNK_BITS] {
            slab.take_at(slot);
            slab.at_mut(slot).set_state(MessageState::Ready);
        }
        slab.link_free();

        assert_eq!(slab.chunks.iter().filter(|chunk| !chunk.is_empty()).count(), 3);
        assert!([2, HIGHEST, 3 << CHUNK_BITS].into_iter().all(|slot| slab.is_used(slot)));
        assert!(!slab.is_used(1 << CHUNK_BITS) && slab.find(1 << CHUNK_BITS, 0).is_none());
        assert_eq!((slab.used(), slab.len()), (3, u32::MAX));
    }

    #[test]
    fn absent_chunks_are_used_when_no_slot_is_free() {
        let mut slab = Slab::default();
        let chunk = CHUNK as u32;
        slab.take_at(2 * chunk);
        slab.at_mut(2 * chunk).set_state(MessageState::Ready);
        slab.link_free();

        let taken: Vec<u32> = (0..2 * chunk + 1)
            .map(|_| {
                let slot = slab.take();
                slab.at_mut(slot).set_state(MessageState::Ready);
                slot
            })
            .collect();

        let wanted: Vec<u32> = (0..2 * chunk).chain([2 * chunk + 1]).collect();
        assert_eq!(taken, wanted);
        assert_eq!(slab.used(), u64::from(2 * chunk) + 2);
    }

    #[test]
    fn count_state_and_flags_do_not_disturb_one_another() {
        let mut entry = Entry::FREE;
        entry.set_state(MessageState::InFlight);
        entry.set_receive_count(u32::MAX);
        entry.set(Entry::DEAD_LETTERED);
        entry.set_state(MessageState::Delayed);
        entry.set_receive_count(5);

        assert_eq!((entry.state(), entry.receive_count()), (MessageState::Delayed, 5));
        assert!(entry.has(Entry::DEAD_LETTERED) && !entry.has(Entry::OUT_OF_ORDER));
    }
}
