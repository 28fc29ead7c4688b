//! Places by hash, in many small tables of which one at a time is split or joined: one large table
//! that grows stands still for as long as it copies all that is in it.
//!
//! ```text
//!  tables      0   1   2   3   4   5        (linear hashing)
//!  bits of    000  01  10  11 100 101       table 2 is split next: into 010 and 110
//!  the hash
//! ```

use hashbrown::HashTable;

/// More on average, and a table is split.
const MOST: usize = 512;
/// Less on average, and two are joined.
const LEAST: usize = 128;

/// Places by the hash of what stands there, which the caller knows.
#[derive(Debug, Default)]
pub(super) struct HashIndex {
    tables: Vec<HashTable<u32>>,
    len: usize,
}

impl HashIndex {
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The place of that hash for which `is_it` holds.
    pub(super) fn find(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        self.tables.get(self.table(hash))?.find(hash, |place| is_it(*place)).copied()
    }

    /// Adds a place that is not in it.
    pub(super) fn insert(&mut self, hash: u64, place: u32, hash_of: impl Fn(u32) -> u64) {
        if self.len >= self.tables.len() * MOST {
            self.split(&hash_of);
        }
        let table = self.table(hash);
        self.tables[table].insert_unique(hash, place, |place| hash_of(*place));
        self.len += 1;
    }

    /// Puts another place of the same hash where `old` is.
    pub(super) fn replace(&mut self, hash: u64, old: u32, new: u32) {
        let table = self.table(hash);
        let Some(table) = self.tables.get_mut(table) else { return };
        if let Some(place) = table.find_mut(hash, |place| *place == old) {
            *place = new;
        }
    }

    /// Takes the place out, if it is in it.
    pub(super) fn remove(&mut self, hash: u64, place: u32, hash_of: impl Fn(u32) -> u64) {
        let table = self.table(hash);
        let Some(table) = self.tables.get_mut(table) else { return };
        if let Ok(entry) = table.find_entry(hash, |other| *other == place) {
            entry.remove();
            self.len -= 1;
            if self.tables.len() > 1 && self.len < self.tables.len() * LEAST {
                self.join(&hash_of);
            }
        }
    }

    fn table(&self, hash: u64) -> usize {
        let count = self.tables.len().max(1);
        let all = (1 << (count.ilog2() + 1)) - 1;
        match number(hash) & all {
            table if table < count => table,
            not_yet => not_yet & (all >> 1),
        }
    }

    fn split(&mut self, hash_of: impl Fn(u32) -> u64) {
        let new = self.tables.len();
        let Some(level) = new.checked_ilog2() else { return self.tables.push(HashTable::new()) };
        let bit = 1 << level;
        let is_moved = |place: &mut u32| number(hash_of(*place)) & bit != 0;
        let moved: Vec<u32> = self.tables[new ^ bit].extract_if(is_moved).collect();
        let mut table = HashTable::with_capacity(moved.len());
        for place in moved {
            table.insert_unique(hash_of(place), place, |place| hash_of(*place));
        }
        self.tables.push(table);
    }

    fn join(&mut self, hash_of: impl Fn(u32) -> u64) {
        let Some(last) = self.tables.pop() else { return };
        let Some(level) = self.tables.len().checked_ilog2() else { return };
        let into = self.tables.len() ^ (1 << level);
        let table = &mut self.tables[into];
        for place in last {
            table.insert_unique(hash_of(place), place, |place| hash_of(*place));
        }
    }
}

/// The bits whose lowest ones number the table. Within a table others count: the lowest and the
/// highest of the hash.
fn number(hash: u64) -> usize {
    (hash >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash_of(place: u32) -> u64 {
        u64::from(place).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    fn find(index: &HashIndex, place: u32) -> Option<u32> {
        index.find(hash_of(place), |other| other == place)
    }

    #[test]
    fn all_are_found_while_tables_are_split_and_joined() {
        let mut index = HashIndex::default();
        for place in 0..20_000 {
            index.insert(hash_of(place), place, hash_of);
            if place % 997 == 0 {
                assert!((0..=place).all(|place| find(&index, place) == Some(place)));
            }
        }
        assert!(index.tables.len() > 20_000 / MOST);
        let longest = index.tables.iter().map(HashTable::len).max();
        assert!(longest < Some(3 * MOST), "{longest:?}");

        for place in 0..20_000 {
            index.remove(hash_of(place), place, hash_of);
            if place % 997 == 0 {
                assert!((0..=place).all(|place| find(&index, place).is_none()));
                assert!((place + 1..20_000).all(|place| find(&index, place) == Some(place)));
            }
        }
        assert!(index.is_empty());
        let room: usize = index.tables.iter().map(HashTable::capacity).sum();
        assert!(room < 5 * MOST, "{room}");
    }

    #[test]
    fn a_place_is_not_taken_out_for_the_one_that_it_replaced() {
        let mut index = HashIndex::default();
        let same = |_| 7;
        index.insert(7, 1, same);

        index.replace(7, 1, 2);
        index.remove(7, 1, same);

        assert_eq!(index.find(7, |_| true), Some(2));
    }
}
