//! What a seed decides before anything happens.

use millrace_journal::Durability;

use crate::random::Random;

/// Sizes and habits of one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Profile {
    pub segment_bytes: u32,
    pub slack_bytes: u64,
    pub unindexed_segments: usize,
    pub group_bytes: usize,
    pub recent_bytes: usize,
    pub in_flight_limit: u64,
    pub body_bytes: u64,
    pub has_purge_cool_down: bool,
    /// Restarts and faults, per thousand steps.
    pub restarts: u64,
    pub faults: u64,
    /// The disk reads and writes by way of the page cache only.
    pub refuses_direct: bool,
    /// Space is missing often, for several calls in a row, and at starts, too.
    pub is_short_of_space: bool,
    /// Sends and deletes are futures that resolve later.
    pub awaits_answers: bool,
    /// With `Os` neither power nor disk fails: there is no telling what that leaves.
    pub durability: Durability,
}

impl Profile {
    pub(crate) fn new(seed: u64, random: &mut Random) -> Profile {
        let mut profile = Profile {
            segment_bytes: random.pick(&[16 << 10, 32 << 10, 64 << 10]),
            slack_bytes: random.pick(&[8 << 10, 24 << 10, 96 << 10]),
            unindexed_segments: random.pick(&[0, 1, 3]),
            group_bytes: random.pick(&[2 << 10, 8 << 10, 64 << 10]),
            recent_bytes: random.pick(&[0, 4 << 10, 64 << 10]),
            in_flight_limit: random.pick(&[4, 15, 120_000]),
            body_bytes: random.pick(&[60, 600, 1500]),
            has_purge_cool_down: random.chance(50),
            restarts: random.pick(&[2, 10, 40]),
            faults: random.pick(&[0, 5, 20]),
            // By the seed and not by chance, so that seeds that found a bug go on as they did.
            refuses_direct: seed.is_multiple_of(5),
            is_short_of_space: seed % 11 == 5,
            awaits_answers: matches!(seed % 6, 1 | 2),
            durability: if seed.is_multiple_of(7) { Durability::Os } else { Durability::Fsync },
        };
        if profile.is_short_of_space {
            profile.faults = 60;
        }
        profile
    }
}
