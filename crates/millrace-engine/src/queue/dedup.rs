//! The sends that a FIFO queue remembers for five minutes, by their deduplication ids.
//!
//! There may be millions, so nothing here takes longer the more there are: neither growing nor
//! finding those that keep the journal's oldest segments.

use std::collections::VecDeque;

use millrace_core::{MessageId, Timestamp};

use super::hash_index::HashIndex;
use super::segments::PerSegment;

/// Sends of a block.
const BLOCK: usize = 1 << 10;
/// Sends that one look for those of old segments reads at most.
const MOST_READ: usize = 1 << 12;
/// No record remembers the send: its record is being written, or a later send has its id.
const NOWHERE: u64 = u64::MAX;

/// A send that a later one with the same deduplication id repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Remembered {
    key: [u8; 16],
    pub id: MessageId,
    pub seq: u64,
    pub expires: u64,
    /// Where the record stands that remembers it.
    position: u64,
}

const _: () = assert!(size_of::<Remembered>() == 56);

impl Remembered {
    /// `key`: the hashed deduplication id.
    pub(super) fn new(key: u128, id: MessageId, seq: u64, expires: Timestamp) -> Remembered {
        let (key, expires) = (key.to_le_bytes(), expires.0);
        Remembered { key, id, seq, expires, position: NOWHERE }
    }

    pub(super) fn key(&self) -> u128 {
        u128::from_le_bytes(self.key)
    }
}

/// Nobody can choose a key, so folding it is enough. The fraction of the golden ratio spreads the
/// keys of tests, which are close to one another.
fn hash(key: u128) -> u64 {
    ((key >> 64) as u64 ^ key as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Sends accepted within the window.
#[derive(Debug, Default)]
pub(super) struct DedupWindow {
    /// Oldest first; all blocks but the last are full.
    blocks: VecDeque<Vec<Remembered>>,
    /// Number of the first send of the first block.
    first: u64,
    /// Sends of the first block that are forgotten.
    forgotten: usize,
    /// Lower bits of the numbers of sends, by key.
    by_key: HashIndex,
    /// Sends by the segment of the record that remembers them.
    segments: PerSegment,
}

impl DedupWindow {
    pub(super) fn get(&self, key: u128, now: Timestamp) -> Option<&Remembered> {
        self.find(key).map(|number| self.at(number)).filter(|send| send.expires > now.0)
    }

    /// `position`: where the record stands that remembers it, if it is written already.
    pub(super) fn insert(&mut self, send: Remembered, position: Option<u64>) {
        let (key, number) = (send.key(), self.end() as u32);
        let known = self.find(key);
        let is_same = |known: &u32| {
            let known = self.at(*known);
            (known.expires, known.id) == (send.expires, send.id)
        };
        if let Some(known) = known.filter(is_same) {
            // The same send, of which a later record tells.
            return self.set_position(known, position.unwrap_or(NOWHERE));
        }
        self.push(send);
        match known {
            Some(known) => {
                self.set_position(known, NOWHERE);
                self.by_key.replace(hash(key), known, number);
            }
            None => {
                let at = |number| at(&self.blocks, self.first, number);
                self.by_key.insert(hash(key), number, |number| hash(at(number).key()));
            }
        }
        if let Some(position) = position {
            self.set_position(number, position);
        }
    }

    /// Notes where the record stands that remembers the send.
    pub(super) fn place(&mut self, key: u128, position: u64) {
        if let Some(number) = self.find(key) {
            self.set_position(number, position);
        }
    }

    /// As [`DedupWindow::place`], for the send of that number, if it is not forgotten.
    pub(super) fn place_at(&mut self, number: u64, position: u64) {
        if (self.front()..self.end()).contains(&number) {
            self.set_position(number as u32, position);
        }
    }

    /// Forgets up to `budget` of what is older than the window.
    pub(super) fn expire(&mut self, now: Timestamp, budget: usize) {
        for _ in 0..budget {
            match self.oldest() {
                Some(oldest) if oldest.expires <= now.0 => self.forget_oldest(oldest.key()),
                _ => return,
            }
        }
    }

    /// Restores the order, oldest first: records that remember sends again stand behind those of
    /// later sends. Drops sends whose ids later ones have: two with one id are within the window only
    /// where the record of a purge between them is lost.
    pub(super) fn sort(&mut self) {
        let sends = || self.iter(self.front()).map(|(_, send)| send);
        if sends().all(|send| send.position != NOWHERE)
            && sends().is_sorted_by_key(|send| send.expires)
        {
            return;
        }
        let sends = self.iter(self.front()).map(|(_, send)| *send);
        let mut current: Vec<_> = sends.filter(|send| send.position != NOWHERE).collect();
        current.sort_by_key(|send| send.expires);
        *self = self.emptied();
        for send in current {
            self.insert(send, Some(send.position));
        }
    }

    /// One without sends, that goes on counting where this ends.
    pub(super) fn emptied(&self) -> DedupWindow {
        DedupWindow { first: self.end(), ..DedupWindow::default() }
    }

    pub(super) fn next_expiry(&self) -> Option<u64> {
        self.oldest().map(|oldest| oldest.expires)
    }

    /// How many are remembered by records in `segment` or before; expired ones that are not yet
    /// forgotten count.
    pub(super) fn count_to(&self, segment: u32) -> u64 {
        self.segments.up_to(segment)
    }

    /// Some of those that are remembered by records in `segment` or before, and their numbers: `most`
    /// at most, in the order sent, from the number `next` on, which is moved on. None: there are no
    /// more.
    pub(super) fn in_segments_to(
        &self,
        segment: u32,
        next: &mut u64,
        most: usize,
    ) -> Option<Vec<(u64, &Remembered)>> {
        let from = self.front().max(*next);
        if self.count_to(segment) == 0 || from >= self.end() {
            return None;
        }
        let mut found = Vec::new();
        for (number, send) in self.iter(from).take(MOST_READ) {
            *next = number + 1;
            if (send.position >> 32) as u32 <= segment && send.position != NOWHERE {
                found.push((number, send));
                if found.len() == most {
                    break;
                }
            }
        }
        Some(found)
    }

    fn find(&self, key: u128) -> Option<u32> {
        self.by_key.find(hash(key), |number| self.at(number).key() == key)
    }

    /// Number of the oldest that is not forgotten.
    fn front(&self) -> u64 {
        self.first + self.forgotten as u64
    }

    /// The number that the next one gets.
    fn end(&self) -> u64 {
        let full = self.blocks.len().saturating_sub(1) * BLOCK;
        self.first + (full + self.blocks.back().map_or(0, Vec::len)) as u64
    }

    fn oldest(&self) -> Option<&Remembered> {
        self.blocks.front()?.get(self.forgotten)
    }

    /// One whose number is known to be in use.
    fn at(&self, number: u32) -> &Remembered {
        at(&self.blocks, self.first, number)
    }

    /// Sends and their numbers, from one on that is not forgotten.
    fn iter(&self, from: u64) -> impl Iterator<Item = (u64, &Remembered)> + '_ {
        let skipped = (from - self.first) as usize;
        let (block, index) = (skipped / BLOCK, skipped % BLOCK);
        let sends = self.blocks.iter().skip(block).flatten().skip(index);
        (from..).zip(sends)
    }

    fn push(&mut self, send: Remembered) {
        if self.blocks.back().is_none_or(|last| last.len() == BLOCK) {
            // What remembers little stays small.
            let capacity = if self.blocks.is_empty() { 4 } else { BLOCK };
            self.blocks.push_back(Vec::with_capacity(capacity));
        }
        if let Some(last) = self.blocks.back_mut() {
            last.push(Remembered { position: NOWHERE, ..send });
        }
    }

    fn set_position(&mut self, number: u32, position: u64) {
        let offset = number.wrapping_sub(self.first as u32) as usize;
        let send = &mut self.blocks[offset / BLOCK][offset % BLOCK];
        let old = std::mem::replace(&mut send.position, position);
        if old != NOWHERE {
            self.segments.remove(old, 1);
        }
        if position != NOWHERE {
            self.segments.add(position, 1);
        }
    }

    fn forget_oldest(&mut self, key: u128) {
        let number = self.front() as u32;
        self.set_position(number, NOWHERE);
        let at = |number| at(&self.blocks, self.first, number);
        self.by_key.remove(hash(key), number, |number| hash(at(number).key()));
        self.forgotten += 1;
        if self.blocks.front().is_some_and(|block| block.len() == self.forgotten) {
            self.blocks.pop_front();
            self.first += self.forgotten as u64;
            self.forgotten = 0;
        }
    }
}

fn at(blocks: &VecDeque<Vec<Remembered>>, first: u64, number: u32) -> &Remembered {
    let offset = number.wrapping_sub(first as u32) as usize;
    &blocks[offset / BLOCK][offset % BLOCK]
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_000_000);

    fn key(number: u64) -> u128 {
        u128::from(number) << 64 | 7
    }

    fn send(number: u64) -> Remembered {
        let expires = Timestamp(NOW.0 + number);
        Remembered::new(key(number), MessageId::from_random(u128::from(number)), number, expires)
    }

    /// A thousand to a segment, from the first on.
    fn position(number: u64) -> u64 {
        (1 + number / 1_000) << 32 | number
    }

    fn window(count: u64) -> DedupWindow {
        let mut window = DedupWindow::default();
        for number in 0..count {
            window.insert(send(number), None);
            window.place(key(number), position(number));
        }
        window
    }

    /// Sequences of all that segments up to this one remember.
    fn to(window: &DedupWindow, segment: u32) -> Vec<u64> {
        let (mut next, mut all) = (0, Vec::new());
        while let Some(found) = window.in_segments_to(segment, &mut next, 7) {
            assert!(found.len() <= 7);
            all.extend(found.iter().map(|(_, send)| send.seq));
        }
        all
    }

    #[test]
    fn sends_are_known_until_they_expire() {
        let mut window = window(5_000);

        for number in [0, 1, 1_023, 1_024, 4_999] {
            let before = Timestamp(NOW.0 + number - 1);
            assert_eq!(window.get(key(number), before).map(|send| send.seq), Some(number));
            assert_eq!(window.get(key(number), Timestamp(NOW.0 + number)), None);
        }
        window.expire(Timestamp(NOW.0 + 2_999), 2_000);
        assert_eq!(window.next_expiry(), Some(NOW.0 + 2_000), "no more than asked for");
        window.expire(Timestamp(NOW.0 + 2_999), 2_000);
        assert_eq!(window.next_expiry(), Some(NOW.0 + 3_000));
        assert_eq!((window.count_to(3), window.count_to(9)), (0, 2_000));
        window.insert(send(5_000), Some(position(5_000)));
        for number in [3_000, 4_095, 4_096, 5_000] {
            assert_eq!(window.get(key(number), NOW).map(|send| send.seq), Some(number));
        }
        window.expire(Timestamp(u64::MAX), 2_001);
        assert_eq!((window.next_expiry(), window.blocks.len()), (None, 0));
        window.insert(send(7), Some(position(7)));
        assert!(window.get(key(7), NOW).is_some());
    }

    #[test]
    fn an_id_that_is_used_again_is_that_of_the_later_send() {
        let mut window = window(3);
        let again = Remembered { expires: NOW.0 + 9, seq: 9, ..send(1) };
        window.insert(again, Some(position(9_000)));

        window.expire(Timestamp(NOW.0 + 2), 10);

        assert_eq!(window.get(key(1), NOW).map(|send| send.seq), Some(9));
        assert_eq!((window.segments.oldest_segment(), to(&window, 99)), (Some(10), vec![9]));
    }

    #[test]
    fn those_of_old_segments_are_found_in_pieces_until_later_records_tell_of_them() {
        let mut window = window(4_000);
        window.expire(Timestamp(NOW.0 + 9), 100);
        assert_eq!(window.in_segments_to(2, &mut 0, 7).map(|piece| piece.len()), Some(7));
        assert_eq!(to(&window, 2), (10..2_000).collect::<Vec<_>>());

        for number in 10..1_990 {
            window.place_at(number, position(4_000));
        }
        window.place_at(9, position(0));
        window.place_at(4_000, position(0));

        assert_eq!(to(&window, 2), (1_990..2_000).collect::<Vec<_>>());
        assert_eq!((window.count_to(2), window.segments.oldest_segment()), (10, Some(2)));
        window = window.emptied();
        assert_eq!((to(&window, 99), window.segments.oldest_segment()), (vec![], None));
    }

    #[test]
    fn sorting_drops_a_send_whose_id_a_later_one_has() {
        let mut window = window(2);
        let again = Remembered { expires: NOW.0 + 5, seq: 5, ..send(0) };
        window.insert(again, Some(position(5)));

        window.sort();

        assert_eq!((window.next_expiry(), to(&window, 99)), (Some(NOW.0 + 1), vec![1, 5]));
    }

    #[test]
    fn order_is_restored_where_later_records_told_of_earlier_sends() {
        let mut window = DedupWindow::default();
        for number in [3, 1, 4, 1, 2] {
            window.insert(send(number), Some(position(number)));
        }

        window.sort();

        assert_eq!(to(&window, 99), [1, 2, 3, 4]);
        window.expire(Timestamp(NOW.0 + 2), 10);
        assert_eq!(window.next_expiry(), Some(NOW.0 + 3));
        assert!(window.get(key(4), NOW).is_some() && window.get(key(2), NOW).is_none());
    }
}
