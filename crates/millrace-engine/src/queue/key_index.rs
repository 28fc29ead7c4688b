//! Places by key, in many small tables of which one at a time is split or joined: one large table
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

/// Places by keys that nobody can choose. What stands at a place, and thereby its key, the caller
/// knows.
#[derive(Debug, Default)]
pub(super) struct KeyIndex {
    tables: Vec<HashTable<u32>>,
    len: usize,
}

impl KeyIndex {
    /// The place of that key for which `is_it` holds.
    pub(super) fn find(&self, key: u128, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        self.tables.get(self.table(key))?.find(hash(key), |place| is_it(*place)).copied()
    }

    /// Adds a key that is not in it.
    pub(super) fn insert(&mut self, key: u128, place: u32, key_of: impl Fn(u32) -> u128) {
        if self.len >= self.tables.len() * MOST {
            self.split(&key_of);
        }
        let table = self.table(key);
        self.tables[table].insert_unique(hash(key), place, |place| hash(key_of(*place)));
        self.len += 1;
    }

    /// Puts the key, which is at the place `old`, to another.
    pub(super) fn replace(&mut self, key: u128, old: u32, new: u32) {
        let table = self.table(key);
        if let Some(place) = self.tables[table].find_mut(hash(key), |place| *place == old) {
            *place = new;
        }
    }

    /// Takes the key out if it is at that place.
    pub(super) fn remove(&mut self, key: u128, place: u32, key_of: impl Fn(u32) -> u128) {
        let table = self.table(key);
        let Some(table) = self.tables.get_mut(table) else { return };
        if let Ok(entry) = table.find_entry(hash(key), |other| *other == place) {
            entry.remove();
            self.len -= 1;
            if self.len == 0 {
                self.tables.clear();
            } else if self.tables.len() > 1 && self.len < self.tables.len() * LEAST {
                self.join(&key_of);
            }
        }
    }

    fn table(&self, key: u128) -> usize {
        let count = self.tables.len().max(1);
        let all = (1 << (count.ilog2() + 1)) - 1;
        match number(key) & all {
            table if table < count => table,
            not_yet => not_yet & (all >> 1),
        }
    }

    fn split(&mut self, key_of: impl Fn(u32) -> u128) {
        let new = self.tables.len();
        let Some(level) = new.checked_ilog2() else { return self.tables.push(HashTable::new()) };
        let bit = 1 << level;
        let half = |place: &mut u32| number(key_of(*place)) & bit != 0;
        let moved: Vec<u32> = self.tables[new ^ bit].extract_if(half).collect();
        let mut table = HashTable::with_capacity(moved.len());
        for place in moved {
            table.insert_unique(hash(key_of(place)), place, |place| hash(key_of(*place)));
        }
        self.tables.push(table);
    }

    fn join(&mut self, key_of: impl Fn(u32) -> u128) {
        let Some(last) = self.tables.pop() else { return };
        let Some(level) = self.tables.len().checked_ilog2() else { return };
        let into = self.tables.len() ^ (1 << level);
        let table = &mut self.tables[into];
        for place in last {
            table.insert_unique(hash(key_of(place)), place, |place| hash(key_of(*place)));
        }
    }
}

/// Within a table, which looks at the lowest bits and at the seven highest.
fn hash(key: u128) -> u64 {
    // The fraction of the golden ratio: keys that are close to one another get far apart.
    ((key >> 64) as u64 ^ key as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Of which enough bits are the table's number.
fn number(key: u128) -> usize {
    (hash(key) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn key_of(place: u32) -> u128 {
        u128::from(place)
    }

    fn find(index: &KeyIndex, place: u32) -> Option<u32> {
        index.find(key_of(place), |other| other == place)
    }

    #[test]
    fn all_are_found_while_tables_are_split_and_joined() {
        let mut index = KeyIndex::default();
        for place in 0..20_000 {
            index.insert(key_of(place), place, key_of);
            if place % 997 == 0 {
                assert!((0..=place).all(|place| find(&index, place) == Some(place)));
            }
        }
        assert!(index.tables.len() > 20_000 / MOST);
        let longest = index.tables.iter().map(HashTable::len).max();
        assert!(longest < Some(3 * MOST), "{longest:?}");

        for place in 0..20_000 {
            index.remove(key_of(place), place, key_of);
            if place % 997 == 0 {
                assert!((0..=place).all(|place| find(&index, place).is_none()));
                assert!((place + 1..20_000).all(|place| find(&index, place) == Some(place)));
            }
        }
        assert_eq!((index.tables.len(), index.len), (0, 0), "all room is given back");
    }

    #[test]
    fn a_key_may_change_its_place_and_is_not_taken_out_by_its_old_one() {
        let mut index = KeyIndex::default();
        let keys = HashMap::from([(1, 7), (2, 7)]);
        let key_of = |place| keys[&place];
        index.insert(7, 1, key_of);

        index.replace(7, 1, 2);
        index.remove(7, 1, key_of);

        assert_eq!(index.find(7, |_| true), Some(2));
        assert_eq!(index.find(8, |_| true), None);
    }
}
