//! Actions that alarms still have to do after a change of state.
//!
//! Changes with actions left are documents. Their number is in memory, too.

use std::collections::BTreeMap;

use millrace_broker::{Collection, Kept};
use millrace_metrics::alarm::Owed;

use super::numbered_key;

/// Changes whose actions wait at most, of all alarms together: each holds its alarm. Beyond, the
/// account that has most gives up its oldest.
pub(super) const OWED_MAX: usize = if cfg!(test) { 100 } else { 10_000 };

pub(super) const OUTBOX: Collection<Owed> =
    Collection::new("alarm-outbox", |owed| numbered_key(&owed.alarm().scope.account, owed.id));

/// The number of changes with actions left, by account.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    counts: BTreeMap<String, usize>,
    last_id: u64,
}

impl Outbox {
    pub(super) fn open(kept: &Kept) -> Outbox {
        let mut outbox = Outbox::default();
        for owed in OUTBOX.scan(kept, "", None, usize::MAX) {
            outbox.added(&owed.alarm().scope.account);
            outbox.last_id = outbox.last_id.max(owed.id);
        }
        outbox
    }

    /// The last number that was given when it was opened.
    pub(super) fn last_id(&self) -> u64 {
        self.last_id
    }

    pub(super) fn accounts(&self) -> impl Iterator<Item = &str> {
        self.counts.keys().map(String::as_str)
    }

    /// The change without one of its actions; `None` if the action is not left to do.
    pub(super) fn without(&self, kept: &Kept, owed: &Owed, arn: &str) -> Option<Owed> {
        let key = numbered_key(&owed.alarm().scope.account, owed.id);
        let mut left = OUTBOX.get(kept, &key)?.value;
        let at = left.arns.iter().position(|owed| owed == arn)?;
        left.arns.remove(at);
        Some(left)
    }

    /// The account that has most, if there are too many.
    pub(super) fn overfull(&self) -> Option<&str> {
        if self.counts.values().sum::<usize>() <= OWED_MAX {
            return None;
        }
        let most = self.counts.iter().max_by_key(|(_, count)| **count);
        most.map(|(account, _)| account.as_str())
    }

    pub(super) fn added(&mut self, account: &str) {
        match self.counts.get_mut(account) {
            Some(count) => *count += 1,
            None => drop(self.counts.insert(account.to_owned(), 1)),
        }
    }

    pub(super) fn removed(&mut self, account: &str) {
        let Some(count) = self.counts.get_mut(account) else { return };
        *count = count.saturating_sub(1);
        if *count == 0 {
            self.counts.remove(account);
        }
    }
}
