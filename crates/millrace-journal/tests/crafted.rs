//! Bytes that no journal wrote, although their checksums are right: refused, or taken for what they
//! say, and never a panic.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod common;

use std::sync::Arc;

use common::{SEGMENT_BYTES, dir, open, segment_path, store};
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
    let starts = (0..).take_while(|_| open(&fs).is_ok()).count();

    assert_eq!(starts, (SEGMENT_BYTES as usize - 64) / 48, "so many frames fit");
    assert!(matches!(open(&fs), Err(OpenError::Io { .. })));
    assert_eq!(fs.contents(&segment_path(SegmentId::END.0)), None);
}
