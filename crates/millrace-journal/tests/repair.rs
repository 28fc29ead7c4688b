//! `repair`: what damage costs, and what it does not.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod common;

use std::sync::Arc;

use common::damaged::{Log, alter, repaired, without};
use common::{Opening, SEGMENT_BYTES, Seen, dir, open, segment_path, store, work_off};
use millrace_journal::{
    Fault, FileSystem, OpenError, SegmentId, SimFileSystem, check, fuzz_recovery, repair,
};
use proptest::prelude::*;

#[test]
fn damage_in_a_sealed_segment_costs_one_record() {
    let log = Log::new(40);
    let victim = log.all.iter().find(|seen| seen.batch == 5).unwrap();
    let was = log.fs.contents(&segment_path(1)).unwrap();
    let fs = log.with(1, |bytes| bytes[victim.position.offset() as usize + 30] ^= 4);
    let damaged = fs.contents(&segment_path(1)).unwrap();
    let Err(OpenError::Corrupt(corruption)) = open(&fs) else { panic!("opened") };
    let frame = log.frame_of(victim);
    assert_eq!(corruption.segment, SegmentId(1));
    assert_eq!(corruption.offset as usize, frame.start);
    assert_eq!(check(&fs, dir()).unwrap().corruption, Some(corruption.clone()));
    let earlier = dir().join("00000001.seg.bak");
    fs.plant(&earlier, b"kept by a repair before");

    let (report, seen) = repaired(&fs);

    assert_eq!(report.found.corruption, Some(corruption));
    assert_eq!((&report.headers, &report.missing, &report.cut), (&vec![], &vec![], &None));
    let [gap] = report.gaps.as_slice() else { panic!("{report:?}") };
    assert_eq!((gap.segment, gap.offset as usize), (SegmentId(1), frame.start));
    assert_eq!((gap.bytes as usize, gap.frames), (frame.len(), 1));
    assert_eq!((gap.kept_records, gap.lost_records), (2, Some(1)));
    assert_eq!(seen, without(&log.all, std::slice::from_ref(victim)));
    assert_eq!(report.backups, [dir().join("00000001.seg.2.bak")]);
    assert_eq!(fs.contents(&report.backups[0]).unwrap(), damaged);
    assert_eq!(fs.contents(&earlier).unwrap(), b"kept by a repair before");
    let now = fs.contents(&segment_path(1)).unwrap();
    assert_eq!(now[..frame.start], was[..frame.start]);
    assert_eq!(now[frame.start + 48..], damaged[frame.start + 48..], "only the header is written");
}

#[test]
fn a_flipped_bit_costs_no_more_than_its_frame() {
    let log = Log::new(14);
    assert!(log.active.0 >= 2, "sealed and active segments");
    let last = log.all.last().unwrap();
    let tail = log.frame_of(last).start;
    for segment in 1..=log.active.0 {
        let end = if segment == log.active.0 { tail } else { SEGMENT_BYTES as usize };
        for at in 0..end {
            let fs = log.with(segment, |bytes| bytes[at] ^= 1 << (at % 8));

            let (report, seen) = repaired(&fs);

            assert_eq!(report.cut, None, "segment {segment} byte {at}: {report:?}");
            let lost = without(&log.all, &seen);
            let hit = log.hit(segment, &(at..at + 1));
            assert!(lost.iter().all(|lost| hit.contains(lost)), "segment {segment} byte {at}");
            let in_a_body = hit.iter().any(|hit| {
                let start = hit.position.offset() as usize;
                (start + 12..start + hit.record_len as usize).contains(&at)
            });
            if in_a_body {
                assert_eq!(lost.len(), 1, "segment {segment} byte {at}: {report:?}");
            }
            assert_eq!(seen, without(&log.all, &lost), "order");
        }
    }
}

#[test]
fn the_header_of_the_only_segment_can_be_written_anew() {
    let log = Log::new(3);
    assert_eq!(log.active, SegmentId(1));
    for at in 0..64 {
        let fs = log.with(1, |bytes| bytes[at] ^= 1 << (at % 8));
        let report = repair(Arc::new(fs.clone()), dir()).unwrap();
        let seen = open(&fs).unwrap().seen;
        assert_eq!(report.headers, [SegmentId(1)], "byte {at}");
        assert_eq!((report.gaps.len(), seen), (0, log.all.clone()), "byte {at}");
    }
}

/// Frames tell their salt by agreeing on it.
#[test]
fn without_any_header_two_frames_are_enough() {
    let log = Log::new(40);
    let fs = log.fs.fork();
    for segment in 1..=log.active.0 {
        alter(&fs, segment, |bytes| bytes[..64].fill(0));
    }
    let (report, seen) = repaired(&fs);
    assert_eq!((report.cut, report.headers.len()), (None, log.active.0 as usize));
    assert_eq!(seen, log.all);

    let log = Log::new(3);
    let of_one = |seen: &&Seen| seen.batch == log.all[0].batch;
    let one: Vec<Seen> = log.all.iter().filter(of_one).cloned().collect();
    let without_header = |end: usize| {
        log.with(1, |bytes| {
            bytes[..64].fill(0);
            bytes[end..].fill(0);
        })
    };
    let (report, seen) = repaired(&without_header(log.frame_of(&one[0]).end));
    assert_eq!((report.cut, seen), (None, one.clone()));

    // A frame whose length is damaged hides no others.
    let fs = log.with(1, |bytes| {
        bytes[..64].fill(0);
        bytes[64 + 13] ^= 3;
    });
    assert_eq!(repaired(&fs).1, log.all);

    let fs = without_header(log.frame_of(&one[0]).start);
    let report = repair(Arc::new(fs.clone()), dir()).unwrap();
    assert_eq!(report.cut.unwrap().lost_frames, None, "the one frame may be anything");
    assert!(open(&fs).unwrap().seen.is_empty());
}

#[test]
fn sealed_segments_that_are_too_short_lose_what_is_missing() {
    let log = Log::new(40);
    for length in [64, 100, 1000, 4095] {
        let fs = log.fs.fork();
        let bytes = fs.contents(&segment_path(2)).unwrap();
        fs.plant(&segment_path(2), &bytes[..length]);

        let (report, seen) = repaired(&fs);

        assert_eq!((&report.lengthened, &report.cut), (&vec![SegmentId(2)], &None));
        let lost = without(&log.all, &seen);
        let hit = log.hit(2, &(length..SEGMENT_BYTES as usize));
        assert!(lost.iter().all(|lost| hit.contains(lost)), "{length}");
    }
}

#[test]
fn headers_are_written_anew_without_loss() {
    let log = Log::new(40);
    let active = log.active;
    assert!(active > SegmentId(3));
    let first_and_active = vec![SegmentId(1), active];
    for victims in [
        vec![SegmentId(2)],
        vec![active],
        first_and_active,
        vec![SegmentId(2), SegmentId(3), active],
    ] {
        let fs = log.fs.fork();
        for victim in &victims {
            alter(&fs, victim.0, |bytes| bytes[20] ^= 1);
        }
        let corruption = check(&fs, dir()).unwrap().corruption.unwrap();
        assert_eq!((corruption.segment, corruption.offset), (victims[0], 0), "{corruption}");

        let (report, seen) = repaired(&fs);

        assert_eq!((&report.headers, &report.gaps, &report.cut), (&victims, &vec![], &None));
        assert_eq!(report.backups.len(), victims.len());
        assert_eq!(seen, log.all);
    }
}

#[test]
fn a_header_and_the_frames_around_it() {
    let log = Log::new(40);
    // The last frame of the segment before, too.
    let last = log.all.iter().rfind(|seen| seen.position.segment() == SegmentId(1)).unwrap();
    let lost_before = log.frame_of(last);
    for (before, behind) in [(false, 300), (true, 64), (true, 300)] {
        let fs = log.with(2, |bytes| bytes[..behind].fill(0));
        let mut hit = log.hit(2, &(0..behind));
        if before {
            alter(&fs, 1, |bytes| bytes[lost_before.clone()].fill(0xa5));
            hit.extend(log.hit(1, &lost_before));
        }

        let (report, seen) = repaired(&fs);

        assert_eq!((&report.headers, &report.cut), (&vec![SegmentId(2)], &None));
        assert!(!report.gaps.is_empty());
        assert_eq!(seen, without(&log.all, &hit), "{before} {behind}");
    }
}

#[test]
fn what_missing_segments_held_is_all_that_is_lost() {
    let log = Log::new(60);
    assert!(log.active > SegmentId(5));
    for gone in [vec![2], vec![3, 4], vec![2, 4], vec![log.active.0 - 1]] {
        let fs = log.fs.fork();
        for segment in &gone {
            fs.remove(&segment_path(*segment)).unwrap();
        }

        let (report, seen) = repaired(&fs);

        assert_eq!(report.missing, gone.iter().map(|id| SegmentId(*id)).collect::<Vec<_>>());
        assert_eq!((&report.headers, &report.cut), (&vec![], &None));
        let is_gone = |seen: &&Seen| gone.contains(&seen.position.segment().0);
        let lost: Vec<Seen> = log.all.iter().filter(is_gone).cloned().collect();
        assert_eq!(seen, without(&log.all, &lost));
        let open_frame = u64::from(gone == [2]);
        assert!(report.gaps.iter().map(|gap| gap.frames).sum::<u64>() > open_frame);
    }
}

#[test]
fn a_segment_in_place_of_another_is_lost_alone() {
    let log = Log::new(40);
    let third = log.fs.contents(&segment_path(3)).unwrap();
    // Of the same number, in another journal.
    let other = SimFileSystem::new(99);
    let opening = open(&other).unwrap();
    (0..40).for_each(|batch| store(&opening.group_commit, batch, &[batch]).unwrap());
    let foreign = |segment| other.contents(&segment_path(segment)).unwrap();
    for (segment, bytes) in [(2, third), (2, foreign(2)), (1, foreign(1))] {
        let fs = log.with(segment, |own| own.copy_from_slice(&bytes));

        let (report, seen) = repaired(&fs);

        assert_eq!((&report.missing, &report.cut), (&vec![SegmentId(segment)], &None));
        assert_eq!(seen, without(&log.all, &log.hit(segment, &(0..SEGMENT_BYTES as usize))));
    }
}

/// A missing segment before one whose header is damaged is not the end of the log.
#[test]
fn frames_behind_a_missing_segment_and_a_damaged_header_are_kept() {
    let log = Log::new(40);
    let active = log.active.0;
    for length in [None, Some(0), Some(2000)] {
        let fs = log.with(active, |bytes| bytes[20] ^= 1);
        let bytes = fs.contents(&segment_path(active - 1)).unwrap();
        match length {
            None => fs.remove(&segment_path(active - 1)).unwrap(),
            Some(length) => fs.plant(&segment_path(active - 1), &bytes[..length]),
        }

        let (report, seen) = repaired(&fs);

        assert_eq!((&report.headers, &report.cut), (&vec![log.active], &None));
        let lost = without(&log.all, &seen);
        let hit = log.hit(active - 1, &(0..SEGMENT_BYTES as usize));
        assert!(!lost.is_empty() && lost.iter().all(|lost| hit.contains(lost)), "{report:?}");
    }
}

#[test]
fn a_file_with_a_far_off_number_is_set_aside() {
    let log = Log::new(20);
    let stray = log.fs.contents(&segment_path(1)).unwrap();
    log.fs.plant(&segment_path(0x7fff_0000), &stray);

    let (report, seen) = repaired(&log.fs);

    assert_eq!(report.cut.unwrap().removed, [SegmentId(0x7fff_0000)]);
    assert_eq!(seen, log.all);
}

#[test]
fn a_block_that_cannot_be_read_costs_what_it_holds() {
    let log = Log::of(60, 8 << 10);
    assert!(log.active > SegmentId(1));
    for (segment, at) in [(1, 5000), (1, 100), (2, 4096), (1, 4095)] {
        let fs = log.fs.fork();
        let was = fs.contents(&segment_path(segment)).unwrap();
        fs.fail_reads_at(&segment_path(segment), at);
        assert!(matches!(open(&fs), Err(OpenError::Io { .. })));

        let (report, seen) = repaired(&fs);

        let block = at - at % 4096;
        assert_eq!(report.unreadable, [(SegmentId(segment), block)]);
        assert_eq!(report.cut, None);
        let hit = log.hit(segment, &(block as usize..block as usize + 4096));
        let lost = without(&log.all, &seen);
        assert!(!lost.is_empty() && lost.iter().all(|lost| hit.contains(lost)), "{report:?}");
        let kept = fs.contents(&report.backups[0]).unwrap();
        assert_eq!(kept[..block as usize], was[..block as usize]);
        assert_eq!(kept[block as usize + 4096..], was[block as usize + 4096..]);
    }
}

#[test]
fn records_stay_where_sidecars_know_them() {
    let log = Log::new(40);
    let Opening { group_commit, .. } = open(&log.fs).unwrap();
    work_off(&group_commit);
    drop(group_commit);
    let victim = log.all[4].clone();
    let fs = log.with(1, |bytes| bytes[victim.position.offset() as usize + 40] ^= 1);
    assert!(!check(&fs, dir()).unwrap().is_sound());

    let report = repair(Arc::new(fs.clone()), dir()).unwrap();

    assert_eq!((report.gaps.len(), report.cut), (1, None));
    assert!(check(&fs, dir()).unwrap().is_sound());
    let opening = open(&fs).unwrap();
    assert_eq!(opening.seen, log.all, "the sidecar has what the damaged record said");
    let read = opening.group_commit.read(victim.position, victim.record_len);
    assert!(matches!(read, Err(millrace_journal::ReadError::Damaged(_))));
    fs.remove(&dir().join("00000001.idx")).unwrap();
    let opening = open(&fs.killed()).unwrap();
    assert_eq!(opening.seen, without(&log.all, &[victim]));
}

#[test]
fn a_header_that_makes_no_sense_does_not_stop_a_repair() {
    let log = Log::new(3);
    let fs = log.with(1, |bytes| {
        // Its checksum is right, its segment's size is none.
        bytes[44..48].copy_from_slice(&16_u32.to_le_bytes());
        let sum = crc32c::crc32c(&bytes[4..64]);
        bytes[..4].copy_from_slice(&sum.to_le_bytes());
        bytes[log.all[1].position.offset() as usize + 20] ^= 1;
    });

    let (report, seen) = repaired(&fs);

    assert_eq!((report.gaps.len(), report.cut), (1, None));
    assert_eq!(seen, without(&log.all, &log.all[1..2]));
    fuzz_recovery(&fs.contents(&segment_path(1)).unwrap());
}

#[test]
fn a_repair_that_did_not_end_costs_nothing_more() {
    let log = Log::new(30);
    let damaged = log.with(1, |bytes| {
        bytes[log.all[2].position.offset() as usize + 20] ^= 1;
        bytes[log.all[9].position.offset() as usize + 20] ^= 1;
    });
    alter(&damaged, 2, |bytes| bytes[..200].fill(0));
    damaged.remove(&segment_path(3)).unwrap();
    let (whole, seen) = repaired(&damaged.fork());
    assert!(whole.gaps.len() > 3 && whole.cut.is_none());
    for fault in [Fault::PowerLoss, Fault::Io] {
        for call in 0.. {
            let fs = damaged.fork();
            fs.fail_call(fs.calls() + call, fault);
            if repair(Arc::new(fs.clone()), dir()).is_ok() {
                assert!(call > 20);
                break;
            }
            // A write or sync that failed leaves in memory what the disk has not.
            let left = if fault == Fault::Io { fs.killed() } else { fs.crashed(call) };
            let (report, left) = repaired(&left);
            assert_eq!((left, report.cut), (seen.clone(), None), "{fault:?} at {call}");
        }
    }
}

#[test]
fn a_repair_that_finds_no_space_leaves_no_half_copy() {
    let log = Log::new(20);
    let victim = &log.all[5];
    let damaged = log.with(1, |bytes| bytes[victim.position.offset() as usize + 30] ^= 4);
    let was = damaged.contents(&segment_path(1)).unwrap();
    let mut refused = 0;
    for call in 0.. {
        let fs = damaged.fork();
        fs.fail_call(fs.calls() + call, Fault::NoSpace);
        let repaired = repair(Arc::new(fs.clone()), dir());
        for name in fs.list(dir()).unwrap().iter().filter(|name| name.ends_with(".bak")) {
            assert_eq!(fs.contents(&dir().join(name)).unwrap(), was, "call {call}: {name}");
        }
        match repaired {
            Ok(_) => break,
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 2);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() })]

    #[test]
    fn damaged_ranges_cost_no_more_than_their_frames(
        ranges in proptest::collection::vec((1_u32..5, 0_usize..4096, 1_usize..1500, any::<u8>()), 1..5),
    ) {
        let log = Log::new(60);
        prop_assert!(log.active.0 > 5);
        let fs = log.fs.fork();
        let mut hit = Vec::new();
        for (segment, start, length, value) in ranges {
            let range = start..(start + length).min(SEGMENT_BYTES as usize);
            hit.extend(log.hit(segment, &range));
            alter(&fs, segment, |bytes| bytes[range].fill(value));
        }

        let (report, seen) = repaired(&fs);

        prop_assert_eq!(report.cut, None);
        let lost = without(&log.all, &seen);
        prop_assert!(lost.iter().all(|lost| hit.contains(lost)));
        prop_assert_eq!(seen, without(&log.all, &lost));
    }
}
