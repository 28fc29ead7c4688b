//! `check`: what it tells of each segment, and where it stops.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod common;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use common::damaged::{Log, alter};
use common::{OPEN_FRAME_BYTES, SEGMENT_BYTES, Seen, dir, open, segment_path, work_off};
use millrace_journal::{CheckReport, FileSystem, SegmentId, check, repair};

/// A journal as an orderly stop leaves it: of each segment but the last there is a sidecar.
fn indexed() -> Log {
    let log = Log::new(40);
    work_off(&open(&log.fs).unwrap().group_commit);
    assert!(log.active > SegmentId(4));
    log
}

fn numbers(report: &CheckReport) -> Vec<u32> {
    report.segments.iter().map(|segment| segment.id.0).collect()
}

fn index(segment: u32) -> PathBuf {
    dir().join(format!("{segment:08x}.idx"))
}

#[test]
fn segments_are_told_with_what_they_hold() {
    let log = indexed();
    log.fs.remove(&index(2)).unwrap();
    let other = log.fs.contents(&index(4)).unwrap();
    log.fs.plant(&index(3), &other);

    let report = check(&log.fs, dir()).unwrap();

    let CheckReport { corruption, torn_tail, spares, .. } = &report;
    assert_eq!((corruption, torn_tail, spares), (&None, &None, &1));
    for segment in &report.segments {
        let is_in = |seen: &&Seen| seen.position.segment() == segment.id;
        let seen: Vec<_> = log.all.iter().filter(is_in).collect();
        let is_active = segment.id == log.active;
        let sidecar = match segment.id.0 {
            2 => "missing",
            3 => "invalid",
            _ if is_active => "none",
            _ => "valid",
        };
        assert_eq!(segment.records, seen.len() as u64);
        assert_eq!((segment.is_sealed, &*segment.sidecar.to_string()), (!is_active, sidecar));
        let frames: BTreeSet<_> = seen.iter().map(|seen| seen.batch).collect();
        // The two starts each wrote one.
        let opening_frames = u64::from(segment.id == SegmentId(1)) + u64::from(is_active);
        assert_eq!(segment.frames, frames.len() as u64 + opening_frames);
        let last_record = log.frame_of(seen.last().unwrap()).end as u32;
        let end = if is_active { last_record + OPEN_FRAME_BYTES } else { last_record };
        assert_eq!(segment.bytes, end);
    }
    assert_eq!(numbers(&report), (1..=log.active.0).collect::<Vec<_>>());
}

#[test]
fn segments_before_damage_are_told_and_those_behind_it_are_not() {
    let log = indexed();
    let header = log.with(3, |bytes| bytes[20] ^= 1);
    let victim = log.all.iter().find(|seen| seen.position.segment() == SegmentId(3)).unwrap();
    let frame = log.frame_of(victim).start;
    let body = log.with(3, |bytes| bytes[frame + 70] ^= 1);

    let (header, body) = (check(&header, dir()).unwrap(), check(&body, dir()).unwrap());

    let places = [&header, &body].map(|report| {
        let corruption = report.corruption.as_ref().unwrap();
        (corruption.segment, corruption.offset as usize)
    });
    assert_eq!(places, [(SegmentId(3), 0), (SegmentId(3), frame)]);
    assert_eq!((numbers(&header), numbers(&body)), (vec![1, 2], vec![1, 2, 3]));
    assert!(header.segments.iter().all(|segment| segment.frames > 0));
    assert_eq!(body.segments[2].bytes as usize, frame, "up to the damage");
}

/// What is damaged first is told, not the header behind it.
#[test]
fn a_frame_before_a_damaged_header_is_told_first() {
    let log = indexed();
    let victim = log.all.iter().find(|seen| seen.batch == 1).unwrap();
    let fs = log.with(1, |bytes| {
        bytes[victim.position.offset() as usize + 30] ^= 1;
    });
    alter(&fs, 2, |bytes| bytes[20] ^= 1);

    let corruption = check(&fs, dir()).unwrap().corruption.unwrap();

    assert_eq!(corruption.segment, SegmentId(1));
    assert_eq!(corruption.offset as usize, log.frame_of(victim).start);
}

#[test]
fn a_torn_tail_is_told_and_is_no_damage() {
    let log = indexed();
    let last = log.all.last().unwrap();
    // Without the start's frame behind it.
    let frame = log.frame_of(last);
    let fs = log.with(log.active.0, |bytes| {
        bytes[frame.end - 1] ^= 1;
        bytes[frame.end..].fill(0);
    });
    let was = fs.contents(&segment_path(log.active.0)).unwrap();
    assert_eq!(was.len(), SEGMENT_BYTES as usize);

    let report = check(&fs, dir()).unwrap();

    let torn = report.torn_tail.unwrap();
    assert_eq!((torn.segment, torn.offset as usize), (log.active, frame.start));
    assert_eq!(torn.bytes as usize, frame.len());
    assert!(report.is_sound());
    assert_eq!(fs.contents(&segment_path(log.active.0)).unwrap(), was, "nothing is written");
}

#[test]
fn what_a_gap_has_lost_is_not_counted_and_keeps_no_sidecar_from_being_made() {
    let log = Log::new(40);
    let victim = &log.all[4];
    let fs = log.with(1, |bytes| bytes[victim.position.offset() as usize + 30] ^= 1);
    repair(Arc::new(fs.clone()), dir()).unwrap();
    work_off(&open(&fs).unwrap().group_commit);

    let report = check(&fs, dir()).unwrap();

    let segment = &report.segments[0];
    let seen = log.all.iter().filter(|seen| seen.position.segment() == SegmentId(1));
    assert_eq!(segment.records, seen.count() as u64 - 1);
    assert_eq!(segment.sidecar.to_string(), "valid");
}
