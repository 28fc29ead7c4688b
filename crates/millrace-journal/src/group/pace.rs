//! What the last commits say about the next: how long it will take, and how much to let gather.

use std::time::Duration;

/// Who serves connections does not wait for a disk that takes longer than this.
const SLOW: Duration = Duration::from_millis(1);
/// Nor longer than this, while others want to be served: two switches between threads take less
/// then.
const LONG: Duration = Duration::from_micros(32);
/// Batches that wait where there are no others.
const LONE_BATCH: u32 = 1;
/// A commit on a quick disk. Where commits take longer, as many times as many batches and bytes as
/// are named below are worth waiting for.
const QUICK: Duration = Duration::from_micros(150);
/// Up to so many batches under way, all are waited for; with more of them gathering takes longer
/// than a quick commit, and half are answered while the other half is synced.
const FEW: u32 = 10;
/// Beyond this a quick commit takes longer the more it writes, so larger groups gain nothing.
pub(super) const ENOUGH_BYTES: usize = 64 << 10;
/// However slow commits are: this much takes any disk a while to write.
const MOST_ENOUGH_BYTES: usize = 1 << 20;
/// The average reaches back about so many commits.
const REACH: f32 = 32.0;

#[derive(Clone, Copy, Default)]
pub(super) struct Pace {
    average_s: f32,
    /// As if no group had had more than [`ENOUGH_BYTES`].
    small_average_s: f32,
}

impl Pace {
    /// Notes how long a write of so many bytes and its sync took.
    pub(super) fn observe(&mut self, took: Duration, bytes: usize) {
        let took_s = took.as_secs_f32();
        let small = ENOUGH_BYTES as f32 / bytes.max(ENOUGH_BYTES) as f32;
        self.average_s += (took_s - self.average_s) / REACH;
        self.small_average_s += (took_s * small - self.small_average_s) / REACH;
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

    /// Up to how many batches under way all are worth waiting for: they are back within a commit.
    pub(super) fn few_batches(&self) -> u32 {
        (FEW as f32 * self.slowness()) as u32
    }

    /// Whether a wait was long enough to ask whether it was worth it.
    pub(super) fn is_long(&self, wait: Duration) -> bool {
        wait > self.usual() / 4
    }

    /// How many bytes are worth a commit without waiting for more.
    pub(super) fn enough_bytes(&self) -> usize {
        ((ENOUGH_BYTES as f32 * self.slowness()) as usize).min(MOST_ENOUGH_BYTES)
    }

    /// How many times as long as a quick commit a small one takes; at least once.
    fn slowness(&self) -> f32 {
        (self.small_average_s / QUICK.as_secs_f32()).max(1.0)
    }
}

/// How many batches are worth gathering before the next commit. Of those that are under way, a
/// group was answered just now and comes back one by one; the rest has gathered meanwhile. Whoever
/// is back first would start a commit alone and have all others wait for it: groups stay small, and
/// each costs the same. With half of them, one half is answered while the other is synced.
pub(super) fn worth_gathering(answered: u32, gathered: u32) -> u32 {
    answered.saturating_add(gathered) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(took_us: u64, bytes: usize) -> Pace {
        let mut pace = Pace::default();
        for _ in 0..300 {
            pace.observe(Duration::from_micros(took_us), bytes);
        }
        pace
    }

    #[test]
    fn the_slower_the_disk_the_smaller_the_groups_that_are_committed_here() {
        assert_eq!(after(20, 1_000).most_batches_here(), u32::MAX);
        assert_eq!(after(100, 1_000).most_batches_here(), LONE_BATCH);
        assert_eq!(after(1_100, 1_000).most_batches_here(), 0);
    }

    #[test]
    fn the_slower_the_disk_the_more_is_waited_for() {
        for (took_us, few, enough_bytes) in
            [(50, FEW, ENOUGH_BYTES), (1_500, 99, 655_000), (10_000, 666, MOST_ENOUGH_BYTES)]
        {
            let pace = after(took_us, 1_000);
            assert!(pace.few_batches().abs_diff(few) <= 1, "{took_us} µs");
            assert!(pace.enough_bytes().abs_diff(enough_bytes) < 1_000, "{took_us} µs");
        }
    }

    #[test]
    fn a_quarter_of_a_commit_is_a_long_wait() {
        let pace = after(1_000, 1_000);

        assert!(!pace.is_long(Duration::from_micros(240)));
        assert!(pace.is_long(Duration::from_micros(260)));
    }

    #[test]
    fn a_disk_that_takes_long_for_much_is_not_slow() {
        let pace = after(10_000, 100 * ENOUGH_BYTES);

        assert_eq!(pace.few_batches(), FEW);
        assert_eq!(pace.enough_bytes(), ENOUGH_BYTES);
    }
}
