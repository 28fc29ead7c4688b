//! What `repair` keeps where damage meets more than one place, and that no epoch comes again.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod common;

use std::sync::Arc;

use common::damaged::{Log, alter};
use common::{
    OPEN_FRAME_BYTES, SEGMENT_BYTES, Seen, dir, open, open_with, segment_path, store, work_off,
};
use millrace_journal::{
    Durability, Epoch, Fault, FileSystem, Gap, OpenError, RepairReport, SegmentId, SimFileSystem,
    check, repair,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// Bytes that are changed: of a gap's header, or else of any place.
#[derive(Clone, Debug)]
struct Damage {
    gap: Option<(prop::sample::Index, usize)>,
    segment: u32,
    start: usize,
    bytes: usize,
    bits: u8,
}

/// Segments with groups of three records, what replay shows of them, and the active segment.
fn log(batches: u64, durability: Durability) -> (SimFileSystem, Vec<Seen>, u32) {
    let fs = SimFileSystem::new(1);
    let opening = open_with(&fs, durability, SEGMENT_BYTES).unwrap();
    for batch in 0..batches {
        store(&opening.group_commit, batch, &[3 * batch, 3 * batch + 1, 3 * batch + 2]).unwrap();
    }
    let active = opening.group_commit.tail().segment().0;
    drop(opening);
    let all = open_with(&fs.fork(), durability, SEGMENT_BYTES).unwrap().seen;
    (fs, all, active)
}

/// Flips a bit of a record.
fn damage(fs: &SimFileSystem, record: &Seen) {
    let at = record.position.offset() as usize + 30;
    alter(fs, record.position.segment().0, |bytes| bytes[at] ^= 1);
}

fn repaired(fs: &SimFileSystem, durability: Durability) -> (RepairReport, Vec<Seen>) {
    let report = repair(Arc::new(fs.clone()), dir()).unwrap();
    (report, open_with(fs, durability, SEGMENT_BYTES).unwrap().seen)
}

/// All but those of which this says that they are lost.
fn without(all: &[Seen], is_lost: impl Fn(&Seen) -> bool) -> Vec<Seen> {
    all.iter().filter(|seen| !is_lost(seen)).cloned().collect()
}

fn is_in(segment: u32) -> impl Fn(&Seen) -> bool {
    move |seen| seen.position.segment().0 == segment
}

#[test]
fn a_spare_that_follows_nothing_tells_of_a_missing_segment() {
    let (fs, all, active) = log(45, Durability::Fsync);
    assert!(fs.contents(&segment_path(active + 1)).is_some(), "a spare");
    fs.remove(&segment_path(active)).unwrap();
    let Err(OpenError::Corrupt(corruption)) = open(&fs) else { panic!("opened") };
    assert_eq!(corruption.segment, SegmentId(active + 1));

    let (report, seen) = repaired(&fs, Durability::Fsync);

    assert_eq!((report.missing, report.cut), (vec![SegmentId(active)], None));
    assert_eq!(seen, without(&all, is_in(active)));
}

#[test]
fn a_gap_that_is_damaged_again_keeps_what_it_kept() {
    let (fs, all, _) = log(10, Durability::Fsync);
    let group: Vec<&Seen> = all.iter().filter(|seen| seen.batch == 1).collect();
    damage(&fs, group[0]);
    repaired(&fs.clone(), Durability::Fsync);
    damage(&fs, group[1]);

    let (_, seen) = repaired(&fs, Durability::Fsync);

    assert_eq!(seen, without(&all, |seen| group[..2].contains(&seen)));
}

#[test]
fn a_gap_whose_header_is_damaged_costs_no_more_than_what_is_damaged() {
    let (fs, all, _) = log(10, Durability::Fsync);
    let first_of = |batch| all.iter().find(|seen| seen.batch == batch).unwrap();
    damage(&fs, first_of(1));
    let (report, _) = repaired(&fs, Durability::Fsync);
    let header = report.gaps[0].offset as usize;
    damage(&fs, first_of(2));
    for bit in 0..48 * 8 {
        let fs = fs.fork();
        alter(&fs, 1, |bytes| bytes[header + bit / 8] ^= 1 << (bit % 8));

        let (report, seen) = repaired(&fs, Durability::Fsync);

        assert_eq!(report.cut, None, "bit {bit}");
        let others = |seen: &Seen| seen.batch == 1 || seen.batch == 2;
        assert_eq!(without(&seen, others), without(&all, others), "bit {bit}");
    }
}

#[test]
fn a_gap_of_which_power_leaves_half_a_header_keeps_what_it_kept() {
    let (fs, all, _) = log(10, Durability::Fsync);
    for batch in 1..8 {
        let victim = all.iter().find(|seen| seen.batch == batch).unwrap();
        let fs = fs.fork();
        damage(&fs, victim);
        for (call, seed) in (0..20).flat_map(|call| (0..20).map(move |seed| (call, seed))) {
            let fs = fs.fork();
            fs.fail_call(fs.calls() + call, Fault::PowerLoss);
            if repair(Arc::new(fs.clone()), dir()).is_ok() {
                break;
            }

            let (_, seen) = repaired(&fs.crashed(seed), Durability::Fsync);

            assert_eq!(seen, without(&all, |seen| seen == victim), "{batch} {call} {seed}");
        }
    }
}

#[test]
fn records_in_front_of_what_hides_the_others_are_kept() {
    let fs = SimFileSystem::new(1);
    let opening = open_with(&fs, Durability::Fsync, 64 << 10).unwrap();
    let ids: Vec<u64> = (0..100).collect();
    store(&opening.group_commit, 0, &ids).unwrap();
    store(&opening.group_commit, 1, &[100]).unwrap();
    store(&opening.group_commit, 2, &[101]).unwrap();
    drop(opening);
    let all = open(&fs.fork()).unwrap().seen;
    let hidden = all[90].position.offset();
    alter(&fs, 1, |bytes| bytes[hidden as usize..][..512].fill(0));

    let (report, seen) = repaired(&fs, Durability::Fsync);

    let [gap] = report.gaps.as_slice() else { panic!("{:?}", report.gaps) };
    assert_eq!((gap.kept_records, gap.lost_records), (90, Some(10)));
    assert_eq!(seen, [&all[..90], &all[100..]].concat());
}

/// Where nothing was synced frame by frame, only a later segment tells that all of this one was.
#[test]
fn damage_in_a_sealed_segment_costs_one_record_with_any_durability() {
    for durability in [Durability::Fsync, Durability::Os] {
        for (is_removed, is_damaged) in [(true, false), (false, true), (false, false)] {
            let (fs, all, active) = log(40, durability);
            assert!(active > 3);
            let victim = all.iter().find(|seen| seen.batch == 1).unwrap();
            damage(&fs, victim);
            if is_removed {
                fs.remove(&segment_path(2)).unwrap();
            }
            if is_damaged {
                alter(&fs, 2, |bytes| bytes[..64].fill(0));
            }

            let (report, seen) = repaired(&fs, durability);

            let is_lost = |seen: &Seen| seen == victim || is_removed && is_in(2)(seen);
            assert_eq!((seen, report.cut), (without(&all, is_lost), None));
        }
    }
}

#[test]
fn a_frames_damaged_header_costs_that_frame_with_any_durability() {
    for durability in [Durability::Fsync, Durability::Os] {
        let (fs, all, _) = log(40, durability);
        let first = all.iter().find(|seen| seen.batch == 1).unwrap();
        alter(&fs, 1, |bytes| bytes[first.position.offset() as usize - 40] ^= 1);

        let (report, seen) = repaired(&fs, durability);

        assert_eq!((seen, report.cut), (without(&all, |seen| seen.batch == 1), None));
    }
}

/// They would be received, and found to have no bodies.
#[test]
fn a_sidecar_brings_no_records_of_a_missing_segment_back() {
    let (fs, all, _) = log(40, Durability::Fsync);
    let opening = open(&fs).unwrap();
    work_off(&opening.group_commit);
    drop(opening);
    fs.remove(&segment_path(2)).unwrap();
    fs.sync_dir(dir()).unwrap();

    let (report, seen) = repaired(&fs, Durability::Fsync);

    assert_eq!((report.missing, report.cut), (vec![SegmentId(2)], None));
    assert_eq!(seen, without(&all, is_in(2)));
}

#[test]
fn a_copy_of_an_earlier_segment_costs_the_one_that_it_replaced() {
    let (fs, all, active) = log(40, Durability::Fsync);
    assert!(active > 5);
    let victim = all.iter().find(|seen| seen.batch == 1).unwrap();
    for is_whole in [true, false] {
        let fs = fs.fork();
        damage(&fs, victim);
        let mut copy = fs.contents(&segment_path(1)).unwrap();
        if !is_whole {
            copy[2048..].fill(0);
        }
        fs.plant(&segment_path(4), &copy);

        let (report, seen) = repaired(&fs, Durability::Fsync);

        assert_eq!(report.cut, None);
        assert_eq!(seen, without(&all, |seen| seen == victim || is_in(4)(seen)));
    }
}

#[test]
fn a_sidecar_of_what_stood_there_before_a_repair_does_not_stop_a_later_start() {
    let (fs, all, active) = log(40, Durability::Fsync);
    work_off(&open(&fs).unwrap().group_commit);
    let sealed = active - 1;
    assert!(fs.contents(&dir().join(format!("{sealed:08x}.idx"))).is_some());
    // Longer than what it replaces.
    let last = all.iter().rfind(|seen| is_in(sealed)(seen)).unwrap();
    let end = (last.position.offset() + last.record_len) as usize;
    let mut copy = fs.contents(&segment_path(1)).unwrap();
    copy[end..].fill(1);
    fs.plant(&segment_path(sealed), &copy);
    repair(Arc::new(fs.clone()), dir()).unwrap();
    fs.plant(&segment_path(active), &vec![0; SEGMENT_BYTES as usize]);
    let kept = without(&all, |seen| is_in(sealed)(seen) || is_in(active)(seen));

    // The first start writes zeros over what the copy has behind the end.
    for _ in 0..2 {
        let opening = open(&fs.killed()).unwrap();
        assert_eq!(opening.seen, kept);
    }
}

#[test]
fn a_short_file_without_its_header_costs_no_later_segment() {
    let log = Log::of(120, 12 << 10);
    assert!(log.active.0 > 2);
    let is_in_front = |seen: &&Seen| is_in(2)(seen) && seen.position.offset() < 6000;
    let last = log.all.iter().rfind(is_in_front).unwrap();
    let end = log.frame_of(last).end;
    for (spared, other_headers) in [(0, true), (8, true), (40, true), (8, false)] {
        let fs = log.fs.fork();
        if !other_headers {
            (3..=log.active.0).for_each(|segment| alter(&fs, segment, |bytes| bytes[0] ^= 1));
        }
        fs.remove(&segment_path(1)).unwrap();
        let mut short = fs.contents(&segment_path(2)).unwrap();
        short[0] ^= 1;
        short.truncate(end + spared);
        fs.plant(&segment_path(2), &short);

        let (report, seen) = repaired(&fs, Durability::Fsync);

        assert_eq!(report.cut, None);
        let is_lost = |seen: &Seen| is_in(2)(seen) && seen.position.offset() as usize > end;
        assert_eq!(seen, without(&log.all, |seen| is_in(1)(seen) || is_lost(seen)));
    }
}

#[test]
fn however_many_segments_are_missing_the_others_are_kept() {
    let (fs, all, active) = log(600, Durability::Fsync);
    let gone = 2..=66;
    assert!(active > 70);
    for segment in gone.clone() {
        fs.remove(&segment_path(segment)).unwrap();
    }

    let (report, seen) = repaired(&fs, Durability::Fsync);

    assert_eq!(report.cut, None);
    assert_eq!(seen, without(&all, |seen| gone.contains(&seen.position.segment().0)));
}

#[test]
fn any_header_can_tell_the_salt() {
    let (fs, all, active) = log(8, Durability::Fsync);
    assert_eq!(active, 2);
    alter(&fs, 1, |bytes| bytes[..64].fill(0));
    alter(&fs, 2, |bytes| bytes[40] ^= 1);

    let (report, seen) = repaired(&fs, Durability::Fsync);

    assert_eq!((seen, report.cut), (all, None));
}

#[test]
fn epochs_in_blocks_that_cannot_be_read_do_not_come_again() {
    let segment_bytes = 16 << 10;
    // In the last segment its second block, and its first one.
    for (segment, at) in [(1, 5000), (2, 100)] {
        let fs = SimFileSystem::new(1);
        let start = || open_with(&fs, Durability::Fsync, segment_bytes).unwrap();
        let opening = start();
        let is_reached = |tail: millrace_journal::Position| {
            tail.segment().0 == segment && (segment > 1 || tail.offset() >= 4096)
        };
        let mut batch = 0;
        while !is_reached(opening.group_commit.tail()) {
            store(&opening.group_commit, batch, &[batch]).unwrap();
            batch += 1;
        }
        drop(opening);
        let last = (0..5).map(|_| start().opened.epoch).max().unwrap();
        fs.fail_reads_at(&segment_path(segment), at);

        repair(Arc::new(fs.clone()), dir()).unwrap();

        assert!(start().opened.epoch > last);
    }
}

/// A frame with a right checksum that does not follow the one before it.
#[test]
fn power_lost_while_the_last_segment_is_cut_brings_no_epoch_back() {
    let fs = SimFileSystem::new(1);
    let start = |batch| {
        let opening = open(&fs).unwrap();
        store(&opening.group_commit, batch, &[batch]).unwrap();
        opening.opened.epoch
    };
    for batch in 0..3 {
        start(batch);
    }
    let seen = open(&fs.fork()).unwrap().seen;
    let last = (3..12).map(start).max().unwrap();
    let opening_frame = seen[2].position.offset() as usize - 48 - OPEN_FRAME_BYTES as usize;
    alter(&fs, 1, |bytes| {
        let salt = crc32c::crc32c(&bytes[16..24]);
        let frame = &mut bytes[opening_frame..][..OPEN_FRAME_BYTES as usize];
        frame[40] ^= 1;
        let crc = crc32c::crc32c_append(salt, &frame[4..]);
        frame[..4].copy_from_slice(&crc.to_le_bytes());
    });
    assert!(repair(Arc::new(fs.fork()), dir()).unwrap().cut.is_some());
    let epoch = |fs: &SimFileSystem| open(fs).map_or(Epoch(u64::MAX), |o| o.opened.epoch);
    for (call, seed) in (0..).flat_map(|call| (0..4).map(move |seed| (call, seed))) {
        let fs = fs.fork();
        fs.fail_call(fs.calls() + call, Fault::PowerLoss);
        if repair(Arc::new(fs.clone()), dir()).is_ok() {
            break;
        }
        let fs = fs.crashed(seed);

        assert!(epoch(&fs.fork()) > last, "{call} {seed}");
        repair(Arc::new(fs.clone()), dir()).unwrap();
        assert!(epoch(&fs) > last, "{call} {seed}");
    }
}

prop_compose! {
    fn any_damage()(
        gap in prop::option::weighted(0.7, (any::<prop::sample::Index>(), 0_usize..48)),
        segment in 1_u32..4,
        start in 0_usize..4096,
        bytes in 1_usize..200,
        bits in 1_u8..,
    ) -> Damage {
        Damage { gap, segment, start, bytes, bits }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() })]

    #[test]
    fn damage_to_what_repairs_left_costs_no_more_than_its_frames(
        rounds in vec(vec(any_damage(), 1..6), 2..5),
    ) {
        let log = Log::new(40);
        let fs = log.fs.fork();
        let mut hit = Vec::new();
        let mut gaps: Vec<Gap> = Vec::new();
        for round in rounds {
            for Damage { gap, segment, start, bytes, bits } in round {
                let (segment, range) = match gap.filter(|_| !gaps.is_empty()) {
                    Some((gap, at)) => {
                        let Gap { segment, offset, .. } = *gap.get(&gaps);
                        (segment.0, offset as usize + at..offset as usize + at + 1)
                    }
                    None => (segment, start..(start + bytes).min(SEGMENT_BYTES as usize)),
                };
                hit.extend(log.hit(segment, &range));
                alter(&fs, segment, |bytes| bytes[range].iter_mut().for_each(|byte| *byte ^= bits));
            }

            let report = repair(Arc::new(fs.clone()), dir()).unwrap();

            prop_assert_eq!(report.cut, None);
            gaps.extend(report.gaps);
            prop_assert!(check(&fs, dir()).unwrap().is_sound());
            let seen = open(&fs.fork()).unwrap().seen;
            let is_lost = |record: &Seen| !seen.contains(record);
            prop_assert!(log.all.iter().all(|record| !is_lost(record) || hit.contains(record)));
            prop_assert_eq!(&seen, &without(&log.all, is_lost));
        }
    }
}
