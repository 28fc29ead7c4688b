//! Which policies ask for a value at a key.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::condition::Exact;
use crate::node::{Node, Scalar};
use crate::number::Number;

/// One level of keys.
#[derive(Debug)]
pub(crate) struct Index<K> {
    children: HashMap<Arc<str>, Index<K>>,
    texts: HashMap<String, BTreeSet<K>>,
    numbers: HashMap<Number, BTreeSet<K>>,
    trues: BTreeSet<K>,
    falses: BTreeSet<K>,
    nulls: BTreeSet<K>,
}

impl<K> Default for Index<K> {
    fn default() -> Self {
        Self {
            children: HashMap::new(),
            texts: HashMap::new(),
            numbers: HashMap::new(),
            trues: BTreeSet::new(),
            falses: BTreeSet::new(),
            nulls: BTreeSet::new(),
        }
    }
}

impl<K: Copy + Ord> Index<K> {
    pub(crate) fn insert(&mut self, path: &[Arc<str>], value: &Exact, key: K) {
        let mut level = self;
        for name in path {
            level = level.children.entry(name.clone()).or_default();
        }
        let keys = match value {
            Exact::Text(text) => level.texts.entry(text.clone()).or_default(),
            Exact::Number(number) => level.numbers.entry(*number).or_default(),
            Exact::Bool(true) => &mut level.trues,
            Exact::Bool(false) => &mut level.falses,
            Exact::Null => &mut level.nulls,
        };
        keys.insert(key);
    }

    /// Removes what [`Index::insert`] added, and levels that are empty then.
    pub(crate) fn remove(&mut self, path: &[Arc<str>], value: &Exact, key: K) {
        if let Some((name, rest)) = path.split_first() {
            let Some(child) = self.children.get_mut(name) else { return };
            child.remove(rest, value, key);
            if child.is_empty() {
                self.children.remove(name);
            }
            return;
        }
        match value {
            Exact::Text(text) => {
                if let Some(keys) = self.texts.get_mut(text) {
                    keys.remove(&key);
                    if keys.is_empty() {
                        self.texts.remove(text);
                    }
                }
            }
            Exact::Number(number) => {
                if let Some(keys) = self.numbers.get_mut(number) {
                    keys.remove(&key);
                    if keys.is_empty() {
                        self.numbers.remove(number);
                    }
                }
            }
            Exact::Bool(true) => _ = self.trues.remove(&key),
            Exact::Bool(false) => _ = self.falses.remove(&key),
            Exact::Null => _ = self.nulls.remove(&key),
        }
    }

    /// Returns how many policies ask for the value.
    pub(crate) fn count(&self, path: &[Arc<str>], value: &Exact) -> usize {
        let mut level = self;
        for name in path {
            let Some(child) = level.children.get(name) else { return 0 };
            level = child;
        }
        let keys = match value {
            Exact::Text(text) => level.texts.get(text),
            Exact::Number(number) => level.numbers.get(number),
            Exact::Bool(true) => Some(&level.trues),
            Exact::Bool(false) => Some(&level.falses),
            Exact::Null => Some(&level.nulls),
        };
        keys.map_or(0, BTreeSet::len)
    }

    /// Adds the policies that ask for any of the message's values, as sets: a value that the
    /// message has many times adds its set as often.
    pub(crate) fn collect<'i>(&'i self, node: &Node<'_>, into: &mut Vec<&'i BTreeSet<K>>) {
        for value in &node.values {
            let keys = match value {
                Scalar::Text(text) => self.texts.get(text.as_ref()),
                Scalar::Number(number) => self.numbers.get(number),
                Scalar::Bool(true) => Some(&self.trues),
                Scalar::Bool(false) => Some(&self.falses),
                Scalar::Null => Some(&self.nulls),
            };
            into.extend(keys);
        }
        let members = node.members();
        if self.children.len() < members.len() {
            for (name, child) in &self.children {
                if let Some(member) = node.member(name) {
                    child.collect(member, into);
                }
            }
        } else {
            for (name, member) in members {
                if let Some(child) = self.children.get(name) {
                    child.collect(member, into);
                }
            }
        }
        for element in &node.elements {
            self.collect(element, into);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.children.is_empty()
            && self.texts.is_empty()
            && self.numbers.is_empty()
            && self.trues.is_empty()
            && self.falses.is_empty()
            && self.nulls.is_empty()
    }
}
