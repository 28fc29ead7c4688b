//! What the last commits say about the next: how long it will take, and how much to let gather.

use std::time::Duration;

/// Who serves connections does not wait for a disk that takes longer than this.
const SLOW: Duration = Duration::from_millis(1);
/// Nor longer than this, while others want to be served: two switches between threads take less
/// then.
const LONG: Duration = Duration::from_micros(32);
/// Batches that wait where there are no others.
const LONE_BATCH: u32 = 1;
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

    /// How long a write and its sync take on average.
    pub(super) fn usual(&self) -> Duration {
        Duration::from_secs_f32(self.average_s)
    }

    /// How many batches at most are to be committed by who serves connections.
    pub(super) fn most_batches_here(&self) -> u32 {
        match self.average_s {
            average if average > SLOW.as_secs_f32() => 0,
            average if average > LONG.as_secs_f32() => LONE_BATCH,
            _ => u32::MAX,
        }
    }
}

/// How many batches are worth gathering before the next commit. Of those that are under way, a group
/// was answered just now and comes back one by one; the rest has gathered meanwhile. Whoever is
/// back first would start a commit alone and have all others wait for it: groups stay small, and
/// each costs the same. With half of them, one half is answered while the other is synced.
pub(super) fn worth_gathering(answered: u32, gathered: u32) -> u32 {
    answered.saturating_add(gathered) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slower_the_disk_the_smaller_the_groups_that_are_committed_here() {
        let most_after = |took_us| {
            let mut pace = Pace::default();
            for _ in 0..300 {
                pace.observe(Duration::from_micros(took_us));
            }
            pace.most_batches_here()
        };

        assert_eq!(most_after(20), u32::MAX);
        assert_eq!(most_after(100), LONE_BATCH);
        assert_eq!(most_after(1_100), 0);
    }
}
