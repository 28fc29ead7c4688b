//! What the last commits say about the next: how long it will take, and how much to let gather.

use std::time::Duration;

/// Who serves connections does not wait for a disk that takes longer than this.
const LONG: Duration = Duration::from_millis(1);
/// The average reaches back about so many commits.
const REACH: f32 = 32.0;

#[derive(Default)]
pub(super) struct Pace {
    average_s: f32,
}

impl Pace {
    /// Notes how long a write and its sync took.
    pub(super) fn observe(&mut self, took: Duration) {
        self.average_s += (took.as_secs_f32() - self.average_s) / REACH;
    }

    pub(super) fn is_slow(&self) -> bool {
        self.average_s > LONG.as_secs_f32()
    }
}

/// How many batches are worth gathering before the next commit. Of those that are under way, a group
/// was answered just now and comes back one by one; the rest has gathered meanwhile. Whoever is
/// back first would start a commit alone and have all others wait for it: groups stay small, and
/// each costs the same. With half of them, one half is answered while the other is synced.
pub(super) fn worth_gathering(answered: u32, gathered: u32) -> u32 {
    answered.saturating_add(gathered) / 2
}
