//! `repair`: an epoch that was lost does not come again, whatever is left of the log.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod common;

use std::sync::Arc;

use common::damaged::{Log, alter, repaired};
use common::{Seen, dir, open, segment_path, store, work_off};
use millrace_journal::{Epoch, Fault, FileSystem, Opened, SegmentId, SimFileSystem, repair};

#[test]
fn epochs_of_a_lost_end_do_not_come_again() {
    let log = Log::new(40);
    let mut last = Epoch(0);
    for _ in 0..50 {
        last = open(&log.fs).unwrap().opened.epoch;
    }
    let opening = open(&log.fs).unwrap();
    let active = opening.group_commit.tail().segment();
    work_off(&opening.group_commit);
    drop(opening);
    for length in [None, Some(0), Some(64), Some(2000)] {
        let fs = log.fs.fork();
        let bytes = fs.contents(&segment_path(active.0)).unwrap();
        match length {
            None => fs.remove(&segment_path(active.0)).unwrap(),
            Some(length) => fs.plant(&segment_path(active.0), &bytes[..length]),
        }

        let (report, seen) = repaired(&fs);

        assert_eq!(report.cut, None, "{report:?}");
        let known = [&report.missing, &report.headers, &report.lengthened];
        assert!(known.iter().any(|ids| ids.contains(&active)), "{report:?}");
        assert!(seen.iter().all(|seen| log.all.contains(seen)));
        assert!(open(&fs).unwrap().opened.epoch > last, "{length:?}");
    }
}

#[test]
fn epochs_that_were_lost_do_not_come_again() {
    let fs = SimFileSystem::new(1);
    let mut last = Opened { epoch: Epoch(0), ..open(&fs).unwrap().opened };
    for life in 0..8 {
        let opening = open(&fs).unwrap();
        store(&opening.group_commit, life, &[life]).unwrap();
        last = opening.opened;
    }
    let all = open(&fs.fork()).unwrap().seen;
    for victim in 1..all.len() {
        let fs = fs.fork();
        let place = all[victim].position;
        // The OPEN frame before it.
        alter(&fs, place.segment().0, |bytes| bytes[place.offset() as usize - 90] ^= 1);

        let (report, seen) = repaired(&fs);

        assert_eq!((report.gaps.len(), report.cut), (1, None));
        assert_eq!(seen, all);
        let opened = open(&fs).unwrap().opened;
        assert!(opened.epoch > last.epoch, "{opened:?} after {last:?}");
    }
}

#[test]
fn where_nothing_else_helps_the_log_is_cut() {
    let log = Log::new(40);
    let last = open(&log.fs).unwrap().opened.epoch;
    // A header whose checksum is right names another chain than the segment before it has.
    let fs = log.with(3, |bytes| {
        bytes[40] ^= 1;
        let sum = crc32c::crc32c(&bytes[4..64]);
        bytes[..4].copy_from_slice(&sum.to_le_bytes());
    });
    let is_kept = |seen: &&Seen| seen.position.segment() < SegmentId(3);
    let kept: Vec<Seen> = log.all.iter().filter(is_kept).cloned().collect();

    let (report, seen) = repaired(&fs);

    let cut = report.cut.unwrap();
    assert_eq!(cut.at.segment, SegmentId(2));
    assert!(cut.removed.contains(&SegmentId(3)) && cut.removed.contains(&log.active));
    let lost_batches = log.all.last().unwrap().batch - kept.last().unwrap().batch;
    assert!(cut.lost_frames.unwrap() >= lost_batches, "{cut:?}");
    assert!(report.backups.iter().all(|path| fs.contents(path).is_some()));
    assert_eq!((report.gaps, seen), (vec![], kept));
    assert!(open(&fs).unwrap().opened.epoch > last, "receipt handles must not come again");
}

/// Neither a start nor another repair after an interrupted one may use an epoch that was lost.
#[test]
fn power_lost_in_the_middle_of_a_repair_brings_no_epoch_back() {
    let log = Log::new(20);
    for _ in 0..30 {
        drop(open(&log.fs).unwrap());
    }
    let opening = open(&log.fs).unwrap();
    let (last, active) = (opening.opened.epoch, opening.group_commit.tail().segment().0);
    work_off(&opening.group_commit);
    drop(opening);
    let cut = log.with(3, |bytes| {
        bytes[40] ^= 1;
        let sum = crc32c::crc32c(&bytes[4..64]);
        bytes[..4].copy_from_slice(&sum.to_le_bytes());
    });
    let missing = log.fs.fork();
    missing.remove(&segment_path(active)).unwrap();
    let shortened = [0, 64, 1000].map(|length| {
        let fs = log.fs.fork();
        let bytes = fs.contents(&segment_path(active)).unwrap();
        fs.plant(&segment_path(active), &bytes[..length]);
        fs
    });
    for (number, damaged) in [cut, missing].into_iter().chain(shortened).enumerate() {
        for call in 0.. {
            let fs = damaged.fork();
            fs.fail_call(fs.calls() + call, Fault::PowerLoss);
            if repair(Arc::new(fs.clone()), dir()).is_ok() {
                assert!(call > 3);
                break;
            }
            for seed in 0..4 {
                let fs = fs.crashed(seed);
                if let Ok(opening) = open(&fs.fork()) {
                    let opened = opening.opened;
                    assert!(opened.epoch > last, "damage {number}, call {call}: {opened:?}");
                }
                repair(Arc::new(fs.clone()), dir()).unwrap();
                assert!(open(&fs).unwrap().opened.epoch > last, "damage {number}, call {call}");
            }
        }
    }
}
