//! What happened to alarms. Of all accounts together so many items are kept; beyond, the account
//! that has most loses its oldest, so that no account pushes out what another has.

use std::collections::{BTreeMap, VecDeque};

use millrace_core::Timestamp;

use crate::alarm::HistoryItem;

/// Items that are kept at most.
pub(super) const HISTORY_MAX: usize = 10_000;
/// CloudWatch keeps the history of alarms for 30 days.
pub(super) const HISTORY_KEPT_S: u64 = 30 * 86_400;

/// The history by account, of each the oldest item first.
#[derive(Debug, Default)]
pub struct KeptHistory {
    by_account: BTreeMap<String, VecDeque<HistoryItem>>,
    len: usize,
}

impl KeptHistory {
    pub(super) fn add(&mut self, item: HistoryItem) {
        match self.by_account.get_mut(&item.scope.account) {
            Some(items) => items.push_back(item),
            None => {
                self.by_account.insert(item.scope.account.clone(), VecDeque::from([item]));
            }
        }
        self.len += 1;
    }

    /// Forgets what need not be kept any more.
    pub(super) fn forget(&mut self, now: Timestamp) {
        let is_over =
            |item: &HistoryItem| now.millis_since(Timestamp(item.at)) > HISTORY_KEPT_S * 1000;
        for items in self.by_account.values_mut() {
            while items.front().is_some_and(is_over) {
                items.pop_front();
                self.len -= 1;
            }
        }
        self.by_account.retain(|_, items| !items.is_empty());
        while self.len > HISTORY_MAX {
            let most = self.by_account.values_mut().max_by_key(|items| items.len());
            let Some(most) = most else { return };
            most.pop_front();
            self.len -= 1;
        }
    }

    /// How many items there are.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The items of an account, oldest first.
    pub fn of_account(&self, account: &str) -> impl Iterator<Item = &HistoryItem> {
        self.by_account.get(account).into_iter().flatten()
    }

    /// All items, those of one account after those of another.
    pub fn iter(&self) -> impl Iterator<Item = &HistoryItem> {
        self.by_account.values().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scope;
    use crate::alarm::HistoryKind;

    fn item(account: &str, at: u64) -> HistoryItem {
        HistoryItem {
            scope: Scope { region: "us-east-1".into(), account: account.into() },
            alarm: "a".into(),
            at,
            kind: HistoryKind::Action,
            summary: String::new(),
            data: String::new(),
        }
    }

    #[test]
    fn the_account_that_has_most_loses_its_oldest_items() {
        let mut history = KeptHistory::default();
        history.add(item("1", 0));
        for at in 0..2 * HISTORY_MAX as u64 {
            history.add(item("2", at));
            history.forget(Timestamp(0));
        }
        let of = |history: &KeptHistory, account| {
            let items: Vec<u64> = history.of_account(account).map(|item| item.at).collect();
            (items.len(), items.first().copied())
        };

        assert_eq!(of(&history, "1"), (1, Some(0)));
        assert_eq!(of(&history, "2"), (HISTORY_MAX - 1, Some(HISTORY_MAX as u64 + 1)));
        assert_eq!(history.len(), history.iter().count());
        history.forget(Timestamp(HISTORY_KEPT_S * 1000 + 1));
        assert_eq!(of(&history, "1"), (0, None), "it is too old");
    }
}
