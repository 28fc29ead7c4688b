//! Bytes that no journal wrote, although their checksums are right: refused, or taken for what they
//! say, and never a panic.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod common;

use std::sync::Arc;

use common::damaged::{Log, alter, repaired, without};
use common::{OPEN_FRAME_BYTES, SEGMENT_BYTES, dir, open, segment_path, store, work_off};
use millrace_journal::{OpenError, SegmentId, SimFileSystem, Unavailable, check, repair};

/// The greatest number that a segment may have.
const LAST: u32 = SegmentId::END.0 - 1;

/// A journal of one segment, of this number and without frames.
fn journal_at(segment: u32) -> SimFileSystem {
    let made = SimFileSystem::new(1);
    drop(open(&made).unwrap());
    let mut bytes = made.contents(&segment_path(1)).unwrap();
    bytes[12..16].copy_from_slice(&segment.to_le_bytes());
    let sum = crc32c::crc32c(&bytes[4..64]);
    bytes[..4].copy_from_slice(&sum.to_le_bytes());
    bytes[64..].fill(0);
    let fs = SimFileSystem::new(1);
    fs.plant(&segment_path(segment), &bytes);
    fs
}

/// Seals a frame anew whose header or records were changed.
fn seal(segment: &mut [u8], frame: std::ops::Range<usize>) {
    let seed = crc32c::crc32c(&segment[16..24]);
    let sum = crc32c::crc32c_append(seed, &segment[frame.start + 4..frame.end]);
    segment[frame.start..frame.start + 4].copy_from_slice(&sum.to_le_bytes());
}

#[test]
fn a_segment_that_none_can_follow_is_refused() {
    let fs = journal_at(SegmentId::END.0);

    let Err(OpenError::Corrupt(corruption)) = open(&fs) else { panic!("opened") };

    assert_eq!((corruption.segment, corruption.offset), (SegmentId::END, 0));
    assert_eq!(check(&fs, dir()).unwrap().corruption, Some(corruption));
    let report = repair(Arc::new(fs.clone()), dir()).unwrap();
    assert_eq!((report.headers, report.cut.unwrap().removed), (vec![], vec![SegmentId::END]));
    assert!(open(&fs).is_ok());
}

#[test]
fn changes_that_would_need_a_segment_behind_the_last_are_refused() {
    let fs = journal_at(LAST);
    let opening = open(&fs).unwrap();
    let mut stored = 0;
    let refusal = loop {
        match store(&opening.group_commit, stored, &[stored]) {
            Ok(()) => stored += 1,
            Err(refusal) => break refusal,
        }
    };
    drop(opening);

    let Unavailable::Poisoned(reason) = refusal else { panic!("{refusal:?}") };
    assert_eq!(&*reason, "preparing a segment: segment numbers end before ffffffff");
    assert_eq!(open(&fs).unwrap().seen.len() as u64, stored);
}

#[test]
fn a_start_that_would_need_a_segment_behind_the_last_is_refused() {
    let fs = journal_at(LAST);
    let starts = (0..).take_while(|_| open(&fs).is_ok()).count() as u32;

    assert_eq!(starts, (SEGMENT_BYTES - 64) / OPEN_FRAME_BYTES, "so many frames fit");
    assert!(matches!(open(&fs), Err(OpenError::Io { .. })));
    assert_eq!(fs.contents(&segment_path(SegmentId::END.0)), None);
}

/// As no repair leaves them.
#[test]
fn a_gap_whose_records_cannot_be_told_apart_costs_no_more_than_those() {
    let log = Log::new(40);
    let victim = log.all.iter().find(|seen| seen.batch == 5).unwrap();
    let frame = log.frame_of(victim);
    let fs = log.with(1, |bytes| bytes[victim.position.offset() as usize + 30] ^= 4);
    repair(Arc::new(fs.clone()), dir()).unwrap();
    let second = log.all.iter().filter(|seen| seen.batch == 5).nth(1).unwrap();
    let length = second.position.offset() as usize + 4;
    alter(&fs, 1, |bytes| {
        bytes[length..length + 4].fill(0xff);
        seal(bytes, frame);
    });

    let seen = open(&fs.fork()).unwrap().seen;
    let (report, seen_after_repair) = repaired(&fs);

    let lost: Vec<_> = log.all.iter().filter(|seen| seen.batch == 5).cloned().collect();
    assert_eq!(seen, without(&log.all, &lost));
    assert_eq!((report.gaps, report.cut), (vec![], None));
    assert_eq!(seen_after_repair, seen);
}

#[test]
fn a_frame_that_its_records_do_not_fill_does_not_count() {
    let log = Log::new(40);
    let first = log.all.iter().find(|seen| seen.batch == 5).unwrap();
    let frame = log.frame_of(first);
    let index_len = first.position.offset() as usize + 4;
    for (at, value) in [(index_len + 3, 0xff), (index_len, 15), (frame.start + 44, 2)] {
        let fs = log.with(1, |bytes| {
            bytes[at] = value;
            seal(bytes, frame.clone());
        });

        let Err(OpenError::Corrupt(corruption)) = open(&fs) else { panic!("opened: {at}") };

        assert_eq!((corruption.segment, corruption.offset as usize), (SegmentId(1), frame.start));
    }
}

/// The segment is read instead.
#[test]
fn a_sidecar_that_contradicts_itself_does_not_count() {
    let log = Log::new(40);
    work_off(&open(&log.fs).unwrap().group_commit);
    let index = dir().join("00000001.idx");
    let sidecar = log.fs.contents(&index).unwrap();
    let more_records = |bytes: &mut Vec<u8>| bytes[72] += 1;
    let fewer_records = |bytes: &mut Vec<u8>| bytes[72] -= 1;
    let half_an_entry = |bytes: &mut Vec<u8>| bytes.extend([0; 5]);
    let no_entries = |bytes: &mut Vec<u8>| bytes.truncate(96);
    let changes: [fn(&mut Vec<u8>); 4] = [more_records, fewer_records, half_an_entry, no_entries];
    for (number, change) in changes.into_iter().enumerate() {
        let mut bytes = sidecar.clone();
        change(&mut bytes);
        let sum = crc32c::crc32c_append(crc32c::crc32c(&bytes[96..]), &bytes[4..96]);
        bytes[..4].copy_from_slice(&sum.to_le_bytes());
        let fs = log.fs.fork();
        fs.plant(&index, &bytes);

        let opening = open(&fs).unwrap();

        assert_eq!(opening.seen, log.all, "{number}");
        work_off(&opening.group_commit);
        assert!(fs.contents(&index).unwrap() == sidecar, "{number}: it is written anew");
    }
}
