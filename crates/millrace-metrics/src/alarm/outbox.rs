//! What alarms have entered a state for and not done yet.
//!
//! A change of state and the actions that it owes are one record of the book; that an action is
//! done is another, written after it. So a process that is killed between does the action at its
//! next start: at least once.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Alarm, Change};

/// A change of state and the actions that are still to be done because of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Owed {
    /// Names it within the book.
    pub id: u64,
    pub change: Change,
    /// ARNs of the actions, in the order in which they are to be done.
    pub arns: Vec<String>,
}

impl Owed {
    /// All actions of the state that was entered.
    pub(super) fn of(id: u64, change: Change) -> Owed {
        let arns = change.alarm.actions().to_vec();
        Owed { id, change, arns }
    }

    pub fn alarm(&self) -> &Alarm {
        &self.change.alarm
    }
}

/// All that is owed, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    owed: BTreeMap<u64, Owed>,
    last_id: u64,
}

impl Outbox {
    pub(super) fn next_id(&self) -> u64 {
        self.last_id + 1
    }

    pub(super) fn add(&mut self, owed: Owed) {
        self.last_id = self.last_id.max(owed.id);
        if !owed.arns.is_empty() {
            self.owed.insert(owed.id, owed);
        }
    }

    /// An action is done, or cannot be done.
    pub(super) fn settle(&mut self, id: u64, arn: &str) {
        let Some(owed) = self.owed.get_mut(&id) else { return };
        if let Some(at) = owed.arns.iter().position(|owed| owed == arn) {
            owed.arns.remove(at);
        }
        if owed.arns.is_empty() {
            self.owed.remove(&id);
        }
    }

    pub(super) fn owes(&self, id: u64, arn: &str) -> bool {
        self.owed.get(&id).is_some_and(|owed| owed.arns.iter().any(|owed| owed == arn))
    }

    /// The oldest change of the account that has most.
    pub(super) fn oldest_of_most(&self) -> Option<&Owed> {
        let mut counts: BTreeMap<&str, (usize, &Owed)> = BTreeMap::new();
        for owed in self.owed.values() {
            counts.entry(&owed.alarm().scope.account).or_insert((0, owed)).0 += 1;
        }
        counts.into_values().max_by_key(|(count, _)| *count).map(|(_, oldest)| oldest)
    }

    /// Forgets all of it. Its numbers are not given again.
    pub(super) fn clear(&mut self) {
        self.owed.clear();
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Owed> {
        self.owed.values()
    }

    pub(super) fn len(&self) -> usize {
        self.owed.len()
    }
}
