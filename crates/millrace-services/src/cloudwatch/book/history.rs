//! The history of alarms. The number of items has a bound over all accounts; beyond it, the account
//! with the most items loses its oldest one, so that no account pushes out the items of another.
//!
//! Items are documents. Their keys are in memory, too.

use std::collections::{BTreeMap, VecDeque};

use millrace_broker::{Collection, Kept};
use millrace_core::Timestamp;
use millrace_metrics::alarm::HistoryItem;
use serde::{Deserialize, Serialize};

use super::numbered_key;

/// Items that are kept at most.
pub(super) const HISTORY_MAX: usize = if cfg!(test) { 250 } else { 10_000 };
/// CloudWatch keeps the history of alarms for 30 days.
pub(super) const HISTORY_KEPT_S: u64 = 30 * 86_400;

pub(super) const HISTORY: Collection<Numbered> = Collection::new("alarm-history", |numbered| {
    numbered_key(&numbered.item.scope.account, numbered.id)
});

/// An item, numbered in the order in which they happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Numbered {
    pub id: u64,
    pub item: HistoryItem,
}

/// Which items there are.
#[derive(Debug, Default)]
pub(super) struct History {
    /// Of each account the oldest item first: number and time.
    by_account: BTreeMap<String, VecDeque<(u64, u64)>>,
    len: usize,
}

/// The oldest item of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Oldest {
    account: String,
    id: u64,
}

/// The history of an account, the oldest item first.
pub(in crate::cloudwatch) fn history_of(kept: &Kept, account: &str) -> Vec<HistoryItem> {
    let items = HISTORY.scan(kept, &format!("{account}/"), None, usize::MAX);
    items.into_iter().map(|numbered| numbered.item).collect()
}

impl History {
    pub(super) fn open(kept: &Kept) -> History {
        let mut history = History::default();
        HISTORY.scan(kept, "", None, usize::MAX).iter().for_each(|item| history.add(item));
        history
    }

    pub(super) fn add(&mut self, Numbered { id, item }: &Numbered) {
        let entry = (*id, item.at);
        match self.by_account.get_mut(&item.scope.account) {
            Some(items) => items.push_back(entry),
            None => {
                self.by_account.insert(item.scope.account.clone(), VecDeque::from([entry]));
            }
        }
        self.len += 1;
    }

    /// Its document is gone.
    pub(super) fn remove(&mut self, Oldest { account, .. }: &Oldest) {
        let Some(items) = self.by_account.get_mut(account) else { return };
        if items.pop_front().is_some() {
            self.len -= 1;
        }
        if items.is_empty() {
            self.by_account.remove(account);
        }
    }

    /// The item that has to make way for another one, if one has to.
    pub(super) fn displaced(&self) -> Option<Oldest> {
        if self.len < HISTORY_MAX {
            return None;
        }
        let most = self.by_account.iter().max_by_key(|(_, items)| items.len());
        most.and_then(|(account, items)| oldest(account, items))
    }

    /// An item that need not be kept any more, if there is one.
    pub(super) fn outdated(&self, now: Timestamp) -> Option<Oldest> {
        let is_over = |at: u64| now.millis_since(Timestamp(at)) > HISTORY_KEPT_S * 1000;
        let mut outdated = self
            .by_account
            .iter()
            .filter(|(_, items)| items.front().is_some_and(|(_, at)| is_over(*at)));
        outdated.next().and_then(|(account, items)| oldest(account, items))
    }

    pub(super) fn last_id(&self) -> u64 {
        let last = self.by_account.values().filter_map(VecDeque::back);
        last.map(|(id, _)| *id).max().unwrap_or_default()
    }
}

impl Oldest {
    pub(super) fn key(&self) -> String {
        numbered_key(&self.account, self.id)
    }
}

fn oldest(account: &str, items: &VecDeque<(u64, u64)>) -> Option<Oldest> {
    Some(Oldest { account: account.to_owned(), id: items.front()?.0 })
}

#[cfg(test)]
mod tests {
    use millrace_metrics::Scope;
    use millrace_metrics::alarm::HistoryKind;

    use super::*;

    fn item(account: &str, id: u64) -> Numbered {
        let item = HistoryItem {
            scope: Scope { region: "us-east-1".into(), account: account.into() },
            alarm: "a".into(),
            at: id,
            kind: HistoryKind::Action,
            summary: String::new(),
            data: String::new(),
        };
        Numbered { id, item }
    }

    #[test]
    fn the_account_that_has_most_loses_its_oldest_items() {
        let mut history = History::default();
        history.add(&item("1", 0));
        for id in 1..=2 * HISTORY_MAX as u64 {
            if let Some(oldest) = history.displaced() {
                history.remove(&oldest);
            }
            history.add(&item("2", id));
        }
        let of = |history: &History, account: &str| {
            let items = history.by_account.get(account);
            items.map(|items| (items.len(), items.front().map(|(id, _)| *id)))
        };

        assert_eq!(of(&history, "1"), Some((1, Some(0))));
        assert_eq!(of(&history, "2"), Some((HISTORY_MAX - 1, Some(HISTORY_MAX as u64 + 2))));
        assert_eq!((history.len, history.last_id()), (HISTORY_MAX, 2 * HISTORY_MAX as u64));
        let over = Timestamp(HISTORY_KEPT_S * 1000);
        assert_eq!(history.outdated(over), None);
        let first = Oldest { account: "1".into(), id: 0 };
        assert_eq!(history.outdated(over.plus_millis(1)), Some(first));
    }
}
