//! Short runs of many seeds, and seeds whose bugs are fixed. Longer runs:
//! `cargo run --profile fast -p millrace-sim -- --seeds 0..10000`.

use millrace_sim::{Output, Report, run};

const SEEDS: u64 = 200;
const STEPS: u64 = 200;

#[track_caller]
fn passes(seed: u64, steps: u64) -> Report {
    run(seed, steps, Output::Silent).unwrap_or_else(|failure| panic!("{failure}"))
}

#[test]
fn seeds_hold_every_invariant() {
    let mut total = (0, 0, 0);
    for seed in 0..SEEDS {
        let report = passes(seed, STEPS);
        total.0 += report.restarts;
        total.1 += report.commits;
        total.2 += report.truncations;
    }

    // The runs are worth something only if these happen all the time.
    let (restarts, commits, truncations) = total;
    assert!(restarts > SEEDS && commits > 10 * SEEDS && truncations > SEEDS / 4, "{total:?}");
}

#[test]
fn a_seed_means_the_same_twice() {
    for seed in [3, 42, 1_000_003] {
        assert_eq!(passes(seed, 600), passes(seed, 600), "seed {seed}");
    }
}

#[test]
fn seeds_differ() {
    assert_ne!(passes(1, 100).hash, passes(2, 100).hash);
}

/// Seeds that found a bug when it was there: (seed, steps).
#[test]
fn seeds_that_found_bugs_pass() {
    let found = [
        // A dropped repeat of a receive attempt gave back what the first attempt still held.
        (6, 346),
        // Of two calls with one attempt id, the one that left gave back what the other got.
        (5447, 421),
        // A receive that waited for its commit read records whose segments were gone by then.
        (88, 613),
        (201, 182),
        // A paced move task forgot its pace at a restart.
        (106, 434),
        // A move task did not see that visibility timeouts had ended, nor that messages expired.
        (4, 162),
        (34, 109),
        // Messages given back while the journal was busy were so only until the next restart.
        (207, 369),
        // A message just dead-lettered was handed out before that was on the disk: after a crash
        // its handle deleted nothing, and said that it had.
        (922_846, 531),
        // A full disk left a hole among the spares of the journal, which did not start again.
        (7_307_814, 320),
    ];
    for (seed, steps) in found {
        passes(seed, steps);
    }
}
