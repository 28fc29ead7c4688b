//! The names of queues that were deleted a moment ago, which rest before another may have them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use millrace_core::{QueueKey, Timestamp};

use super::is_within_cool_down;

/// When queues were deleted, for the 60 seconds in which their names rest.
#[derive(Default)]
pub(super) struct RecentlyDeleted(Mutex<Deletions>);

#[derive(Default)]
struct Deletions {
    latest: HashMap<QueueKey, Timestamp>,
    /// All of them, oldest first.
    order: VecDeque<(Timestamp, QueueKey)>,
}

impl Deletions {
    /// Forgets some of those whose names need not rest any longer: more than one call adds, but
    /// never so many that others wait.
    fn forget_some(&mut self, now: Timestamp) {
        for _ in 0..2 {
            if self.order.front().is_some_and(|(at, _)| is_within_cool_down(*at, now)) {
                return;
            }
            let Some((at, key)) = self.order.pop_front() else { return };
            if self.latest.get(&key) == Some(&at) {
                self.latest.remove(&key);
            }
        }
    }
}

impl RecentlyDeleted {
    pub(super) fn add(&self, key: QueueKey, now: Timestamp) {
        let mut deletions = self.deletions();
        deletions.forget_some(now);
        deletions.order.push_back((now, key.clone()));
        deletions.latest.insert(key, now);
    }

    pub(super) fn remove(&self, key: &QueueKey) {
        self.deletions().latest.remove(key);
    }

    pub(super) fn clear(&self) {
        *self.deletions() = Deletions::default();
    }

    pub(super) fn contains(&self, key: &QueueKey, now: Timestamp) -> bool {
        let mut deletions = self.deletions();
        deletions.forget_some(now);
        deletions.latest.get(key).is_some_and(|at| is_within_cool_down(*at, now))
    }

    fn deletions(&self) -> MutexGuard<'_, Deletions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::limits;

    use super::*;

    #[test]
    fn deleted_names_rest_for_their_time_and_are_forgotten_a_few_at_a_time() {
        let key = |number: u64| QueueKey::new("us-east-1", "000000000000", &format!("q{number}"));
        let left = |deleted: &RecentlyDeleted| {
            let deletions = deleted.deletions();
            (deletions.latest.len(), deletions.order.len())
        };
        let (deleted, first) = (RecentlyDeleted::default(), Timestamp(1_000_000));
        (0..100).for_each(|number| deleted.add(key(number), first));
        let again = first.plus_seconds(30);
        deleted.add(key(0), again);
        deleted.add(key(100), again);
        deleted.remove(&key(100));

        let over = first.plus_seconds(limits::COOL_DOWN_S);
        assert!(deleted.contains(&key(1), Timestamp(over.0 - 1)));
        assert_eq!(left(&deleted), (100, 102), "nothing is over yet");
        assert!(deleted.contains(&key(0), over) && !deleted.contains(&key(100), over));
        assert!(!deleted.contains(&key(99), over), "over, though not forgotten yet");
        assert_eq!(left(&deleted), (95, 96), "two at a time, and one deleted again meanwhile");
        (0..100).for_each(|_| deleted.add(key(1), over));
        assert_eq!(left(&deleted), (2, 102), "more are forgotten than are added");
        assert!(deleted.contains(&key(0), over));
        deleted.contains(&key(0), again.plus_seconds(limits::COOL_DOWN_S));
        assert_eq!(left(&deleted), (1, 100));
    }
}
