//! Power lost, calls failed, at every call of a scripted run.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "tests")]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::{Opening, append, assert_readable, open_with, store};
use millrace_journal::{
    Durability, Fault, GroupCommit, OpenError, Purpose, SegmentId, SimFileSystem, Unavailable,
};

/// Two blocks: a recycled file then keeps old frames behind the block that the tail is in.
const SEGMENT_BYTES: u32 = 8 << 10;

fn open(fs: &SimFileSystem) -> Result<Opening, OpenError> {
    open_with(fs, Durability::Fsync, SEGMENT_BYTES)
}

/// What the outside knows: batches by number, acknowledged or not.
#[derive(Default)]
struct Ledger {
    batches: BTreeMap<u64, Batch>,
    next_id: u64,
    /// What is in older segments may be gone.
    low_water: SegmentId,
}

struct Batch {
    ids: Vec<u64>,
    segment: SegmentId,
    is_acknowledged: bool,
}

impl Ledger {
    /// One step of the run: up to three batches in one group, background work, truncation.
    fn step(&mut self, group_commit: &Arc<GroupCommit>, number: u64) -> Result<(), Unavailable> {
        let mut tickets = Vec::new();
        for size in 1..=number % 3 + 1 {
            let batch = self.batches.len() as u64;
            let ids: Vec<u64> = (0..size).map(|at| self.next_id + at).collect();
            self.next_id += size;
            let (ticket, positions) = append(group_commit, batch, &ids, Purpose::Store)?;
            let segment = positions[0].segment();
            self.batches.insert(batch, Batch { ids, segment, is_acknowledged: false });
            tickets.push((ticket, batch));
        }
        while group_commit.commit_step() {}
        for (ticket, batch) in tickets {
            if group_commit.outcome(ticket) == Some(Ok(())) {
                self.batches.get_mut(&batch).unwrap().is_acknowledged = true;
            }
        }
        if number % 4 == 3 {
            let segments = group_commit.segments();
            if let [.., first, _, _] = segments.as_slice() {
                self.low_water = self.low_water.max(first.id);
                group_commit.truncate_before(first.id).unwrap();
            }
        }
        for _ in 0..number % 5 {
            group_commit.background_step();
        }
        Ok(())
    }

    /// Nothing acknowledged is missing, nothing is half there, nothing is out of order.
    fn check(&self, opening: &Opening) {
        assert_readable(opening);
        assert!(opening.seen.windows(2).all(|two| two[0].id < two[1].id), "out of order");
        assert!(opening.seen.windows(2).all(|two| two[0].position < two[1].position));
        let mut found: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for seen in &opening.seen {
            found.entry(seen.batch).or_default().push(seen.id);
        }
        for (number, batch) in &self.batches {
            match found.remove(number) {
                Some(ids) => assert_eq!(ids, batch.ids, "batch {number} is half there"),
                None => assert!(
                    !batch.is_acknowledged || batch.segment < self.low_water,
                    "acknowledged batch {number} in segment {} is lost",
                    batch.segment,
                ),
            }
        }
        assert!(found.is_empty(), "records that were never appended");
    }

    /// Batches that did not survive are forgotten, so that later checks compare with what is.
    fn adopt(&mut self, opening: &Opening) {
        let kept: Vec<u64> = opening.seen.iter().map(|seen| seen.batch).collect();
        for (number, batch) in &mut self.batches {
            batch.is_acknowledged = kept.contains(number);
        }
    }
}

const STEPS: u64 = 48;

fn run(fs: &SimFileSystem, ledger: &mut Ledger) {
    let Ok(opening) = open(fs) else { return };
    ledger.check(&opening);
    ledger.adopt(&opening);
    for number in 0..STEPS {
        if ledger.step(&opening.group_commit, number).is_err() {
            return;
        }
    }
}

/// Calls of a run without faults.
fn calls() -> u64 {
    let fs = SimFileSystem::new(1);
    run(&fs, &mut Ledger::default());
    fs.calls()
}

#[test]
fn run_covers_sealing_truncation_and_recycling() {
    let fs = SimFileSystem::new(1);
    let mut ledger = Ledger::default();
    run(&fs, &mut ledger);
    assert!(ledger.low_water > SegmentId(2), "low water {}", ledger.low_water);
    assert!(calls() > 120, "{} calls", calls());
}

#[test]
fn power_loss_at_every_call_loses_nothing_acknowledged() {
    for call in 0..calls() {
        for seed in 0..4 {
            let fs = SimFileSystem::new(seed);
            fs.fail_call(call, Fault::PowerLoss);
            let mut ledger = Ledger::default();
            run(&fs, &mut ledger);

            let fs = fs.crashed(seed * 1000 + call);
            let opening = open(&fs).unwrap_or_else(|error| panic!("call {call}: {error}"));
            ledger.check(&opening);
            ledger.adopt(&opening);

            // The next life works, and survives another crash.
            ledger.step(&opening.group_commit, 2).unwrap();
            let fs = fs.crashed(seed);
            let opening = open(&fs).unwrap_or_else(|error| panic!("call {call}: {error}"));
            ledger.check(&opening);
        }
    }
}

#[test]
fn power_loss_at_every_call_of_the_second_opening_is_survived() {
    for call in 0..60 {
        let fs = SimFileSystem::new(call);
        let mut ledger = Ledger::default();
        let opening = open(&fs).unwrap();
        for number in 0..9 {
            ledger.step(&opening.group_commit, number).unwrap();
        }
        // A group that never settles, torn by the crash.
        fs.fail_call(fs.calls(), Fault::PowerLoss);
        let _ = ledger.step(&opening.group_commit, 2);
        drop(opening);
        let fs = fs.crashed(call);
        fs.fail_call(call, Fault::PowerLoss);
        run(&fs, &mut ledger);

        let fs = fs.crashed(call + 7);
        let opening = open(&fs).unwrap_or_else(|error| panic!("call {call}: {error}"));
        ledger.check(&opening);
    }
}

#[test]
fn power_loss_after_a_kill_never_looks_like_damage() {
    // The group that was being synced when the process died is replayed from the page cache; it
    // must be durable before the OPEN frame says so.
    for life in 0..12 {
        for call in 0..12 {
            for seed in 0..4 {
                let fs = SimFileSystem::new(seed);
                let mut ledger = Ledger::default();
                let opening = open(&fs).unwrap();
                for number in 0..life {
                    ledger.step(&opening.group_commit, number).unwrap();
                }
                fs.fail_call(fs.calls() + 1, Fault::PowerLoss);
                let _ = ledger.step(&opening.group_commit, 2);
                drop(opening);
                let fs = fs.killed();
                fs.fail_call(fs.calls() + call, Fault::PowerLoss);
                run(&fs, &mut ledger);

                let opening = open(&fs.crashed(seed * 100 + call));
                let opening = opening.unwrap_or_else(|error| panic!("call {call}: {error}"));
                ledger.check(&opening);
            }
        }
    }
}

#[test]
fn unsynced_journal_opens_after_power_loss_and_shows_whole_batches_in_order() {
    for call in 0..100 {
        for seed in 0..4 {
            let open = |fs: &SimFileSystem| open_with(fs, Durability::Os, SEGMENT_BYTES);
            let fs = SimFileSystem::new(seed);
            fs.fail_call(call, Fault::PowerLoss);
            let mut ledger = Ledger::default();
            if let Ok(opening) = open(&fs) {
                for number in 0..STEPS {
                    if ledger.step(&opening.group_commit, number).is_err() {
                        break;
                    }
                }
            }
            // Nothing was promised beyond the process.
            ledger.batches.values_mut().for_each(|batch| batch.is_acknowledged = false);

            let opening = open(&fs.crashed(seed * 1000 + call));
            let opening = opening.unwrap_or_else(|error| panic!("call {call}: {error}"));
            ledger.check(&opening);
        }
    }
}

#[test]
fn kill_at_every_call_loses_nothing_acknowledged() {
    for call in 0..calls() {
        let fs = SimFileSystem::new(call);
        fs.fail_call(call, Fault::PowerLoss);
        let mut ledger = Ledger::default();
        run(&fs, &mut ledger);

        // The process died, the machine did not: the page cache is still there.
        let fs = fs.killed();
        let opening = open(&fs).unwrap_or_else(|error| panic!("call {call}: {error}"));
        ledger.check(&opening);
        ledger.adopt(&opening);
        // What was replayed was made durable before anything rested on it.
        drop(opening);
        let opening = open(&fs.crashed(call)).unwrap();
        ledger.check(&opening);
    }
}

#[test]
fn io_error_at_every_call_poisons_or_passes() {
    for call in 0..calls() {
        for fault in [Fault::Io, Fault::NoSpace] {
            for is_direct in [true, false] {
                let fs = SimFileSystem::new(call);
                if !is_direct {
                    fs.refuse_direct();
                }
                fs.fail_call(call, fault);
                let mut ledger = Ledger::default();
                run(&fs, &mut ledger);

                let reopen = |fs: &SimFileSystem| {
                    open(fs).unwrap_or_else(|error| panic!("call {call}: {error}"))
                };
                ledger.check(&reopen(&fs.crashed(call)));
                // What a failed sync has lost, the page cache may still show.
                let fs = fs.killed();
                let opening = reopen(&fs);
                ledger.check(&opening);
                ledger.adopt(&opening);
                drop(opening);
                ledger.check(&reopen(&fs.crashed(call)));
            }
        }
    }
}

#[test]
fn failed_sync_poisons_for_good_and_reads_go_on() {
    let fs = SimFileSystem::new(1);
    let opening = open(&fs).unwrap();
    let group_commit = &opening.group_commit;
    let (ticket, positions) = append(group_commit, 0, &[1], Purpose::Store).unwrap();
    group_commit.commit_step();
    assert_eq!(group_commit.outcome(ticket), Some(Ok(())));

    fs.fail_syncs();
    let (failed, _) = append(group_commit, 1, &[2], Purpose::Store).unwrap();
    group_commit.commit_step();
    let calls = fs.calls();

    let outcome = group_commit.outcome(failed);
    assert!(matches!(outcome, Some(Err(Unavailable::Poisoned(_)))), "{outcome:?}");
    let refused = store(group_commit, 2, &[3]);
    assert!(matches!(refused, Err(Unavailable::Poisoned(_))));
    assert!(!group_commit.commit_step());
    assert!(!group_commit.background_step());
    assert_eq!(fs.calls(), calls, "nothing is written or synced again");
    assert_eq!(group_commit.outcome(ticket), Some(Ok(())), "what was settled stays so");
    let length = (12 + 16 + common::payload(1).len()) as u32;
    assert_eq!(group_commit.read(positions[0], length).unwrap().payload(), common::payload(1));
    assert!(group_commit.stats().ended.is_some());
}

#[test]
fn failed_write_poisons() {
    let fs = SimFileSystem::new(1);
    let opening = open(&fs).unwrap();
    store(&opening.group_commit, 0, &[1]).unwrap();

    fs.fail_next(Fault::Io);
    let refused = store(&opening.group_commit, 1, &[2]);

    assert!(matches!(refused, Err(Unavailable::Poisoned(_))));
}

#[test]
fn poisoning_reaches_listeners() {
    let fs = SimFileSystem::new(1);
    let opening = open(&fs).unwrap();
    let group_commit = &opening.group_commit;
    let calls = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let counted = Arc::clone(&calls);
    group_commit.on_commit(Box::new(move || {
        counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }));
    store(group_commit, 0, &[1]).unwrap();
    fs.fail_syncs();
    let (ticket, _) = append(group_commit, 1, &[2], Purpose::Store).unwrap();
    assert_eq!(group_commit.outcome(ticket), None);

    group_commit.commit_step();

    assert_eq!(calls.load(std::sync::atomic::Ordering::Relaxed), 2);
    assert!(matches!(group_commit.outcome(ticket), Some(Err(_))));
}
