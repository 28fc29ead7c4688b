//! Copies of a log: another's frames, appended as they are.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "tests")]

mod common;

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use common::{SEGMENT_BYTES, dir, fill, open, segment_path};
use millrace_journal::frame::{Chain, FRAME_HEADER_BYTES, Frame, FrameHeader};
use millrace_journal::{
    Durability, Journal, LocalOptions, OpenError, Origin, Owner, Position, SEGMENT_HEADER_BYTES,
    SegmentId, SimFileSystem, Unowned, UnownedLocal,
};

const OPTIONS: LocalOptions = LocalOptions {
    durability: Durability::Os,
    segment_bytes: SEGMENT_BYTES,
    unindexed_segments: 0,
};

fn copy(fs: &SimFileSystem, origin: Origin, shown: &mut Vec<Position>) -> UnownedLocal {
    let copy = UnownedLocal::copy(
        Arc::new(fs.clone()),
        Path::new("/copy"),
        OPTIONS,
        origin,
        &mut |record| {
            shown.push(record.position);
        },
    );
    copy.unwrap()
}

/// The frames of a segment as a reader of the log gets them.
fn frames(fs: &SimFileSystem, segment: u32) -> Vec<Frame> {
    let bytes = Bytes::from(fs.contents(&segment_path(segment)).unwrap());
    let (mut frames, mut at) = (Vec::new(), SEGMENT_HEADER_BYTES);
    while let Some(head) = bytes.get(at..at + FRAME_HEADER_BYTES) {
        let place = Position::new(SegmentId(segment), at as u32);
        let Some((header, crc)) = FrameHeader::decode(head, place) else { break };
        let end = at + header.length as usize;
        let body = bytes.slice(at + FRAME_HEADER_BYTES..end);
        frames.push(Frame { header, crc, head: head.try_into().unwrap(), body });
        at = end;
    }
    frames
}

fn append(copy: &UnownedLocal, frames: &[Frame]) {
    for frame in frames {
        copy.journal().prepare(frame.header.place.segment()).unwrap();
        copy.journal().append(frame).unwrap();
    }
}

#[test]
fn a_copy_is_the_same_log_and_its_holder_can_become_the_owner() {
    let fs = SimFileSystem::new(1);
    let opening = open(&fs).unwrap();
    fill(&opening.group_commit, 0, 60);
    let active = opening.group_commit.tail().segment().0;
    assert!(active > 2);
    let salt = fs.contents(&segment_path(1)).unwrap()[16..24].try_into().unwrap();
    let origin =
        Origin { salt: u64::from_le_bytes(salt), segment: SegmentId(1), start: Chain::default() };
    let all: Vec<Frame> = (1..=active).flat_map(|segment| frames(&fs, segment)).collect();
    let (early, late) = all.split_at(all.len() / 2);

    append(&copy(&fs, origin, &mut Vec::new()), early);
    let mut shown = Vec::new();
    let again = copy(&fs, origin, &mut shown);
    assert_eq!(again.end().chain, early.last().unwrap().chain(), "it goes on where it stopped");
    append(&again, late);
    assert_eq!(again.end().tail, opening.group_commit.tail());
    drop(again);

    for segment in 1..=active {
        let path = Path::new("/copy").join(format!("{segment:08x}.seg"));
        let end = frames(&fs, segment).last().unwrap().end().offset() as usize;
        let (original, copied) =
            (fs.contents(&segment_path(segment)).unwrap(), fs.contents(&path).unwrap());
        assert!(original[..end] == copied[..end], "segment {segment}");
    }
    let mut shown = Vec::new();
    let whole = copy(&fs, origin, &mut shown);
    drop(opening);
    let original = open(&fs.fork()).unwrap().seen;
    assert_eq!(shown, original.iter().map(|seen| seen.position).collect::<Vec<_>>());
    assert_eq!(Unowned::owner(&whole).unwrap().map(|owner| owner.node), Some(String::new()));
    let epoch = whole.end().chain.epoch;
    let owned = whole.start_epoch(&Owner::unnamed(1)).unwrap();
    assert_eq!(owned.opened().epoch.0, epoch.0 + 1);
}

#[test]
fn a_copy_of_a_log_whose_beginning_is_gone_begins_where_that_does() {
    let fs = SimFileSystem::new(1);
    let opening = open(&fs).unwrap();
    fill(&opening.group_commit, 0, 60);
    let frames = frames(&fs, 2);
    let salt = fs.contents(&segment_path(1)).unwrap()[16..24].try_into().unwrap();
    let origin = Origin {
        salt: u64::from_le_bytes(salt),
        segment: SegmentId(2),
        start: Chain::before(&frames[0].header),
    };

    append(&copy(&fs, origin, &mut Vec::new()), &frames);

    let mut shown = Vec::new();
    let again = copy(&fs, origin, &mut shown);
    assert_eq!(again.end().chain, frames.last().unwrap().chain());
    assert!(!shown.is_empty() && shown.iter().all(|at| at.segment() == SegmentId(2)));
}

#[test]
fn a_directory_with_another_log_takes_no_copy() {
    let fs = SimFileSystem::new(1);
    drop(open(&fs).unwrap());
    let origin = Origin { salt: 1, segment: SegmentId(1), start: Chain::default() };

    let refused = UnownedLocal::copy(Arc::new(fs), dir(), OPTIONS, origin, &mut |_| {}).err();

    assert!(matches!(refused, Some(OpenError::OtherLog { .. })), "{refused:?}");
}
