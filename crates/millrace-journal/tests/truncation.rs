//! Truncation: segments that go, their files used again or given back.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "tests")]

mod common;

use std::ops::ControlFlow;
use std::time::Duration;

use common::{
    SEGMENT_BYTES, assert_readable, dir, fill, open, open_with, segment_path, store, work_off,
};
use millrace_journal::{Durability, Fault, FileSystem, ReadError, SegmentId, SimFileSystem, check};

#[test]
fn truncated_files_are_recycled_and_disk_use_stays_bounded() {
    let fs = SimFileSystem::new(1);
    let opening = open(&fs).unwrap();
    let group_commit = &opening.group_commit;
    let mut most = 0;
    for id in 0..400 {
        store(group_commit, id, &[id]).unwrap();
        let segments = group_commit.segments();
        if segments.len() > 2 {
            group_commit.truncate_before(segments[segments.len() - 2].id).unwrap();
        }
        if id % 3 == 0 {
            work_off(group_commit);
        }
        most = most.max(fs.used_bytes());
    }
    assert!(group_commit.tail().segment() > SegmentId(20));
    assert!(most <= 8 * u64::from(SEGMENT_BYTES), "{most} bytes");
    let stats = group_commit.stats();
    assert!(stats.disk_bytes <= most, "{} of {most}", stats.disk_bytes);

    let oldest = group_commit.segments()[0].id;
    let reopened = open(&fs.crashed(3)).unwrap();
    assert!(reopened.opened.first.segment() >= oldest);
    assert_readable(&reopened);
    let last = reopened.seen.last().unwrap();
    assert_eq!(last.id, 399);
}

/// The segment before goes when its successor is half full, and a spare is there already.
#[test]
fn log_that_is_drained_as_it_fills_takes_turns_with_three_files() {
    let fs = SimFileSystem::new(1);
    let opening = open(&fs).unwrap();
    let group_commit = &opening.group_commit;
    let mut spares = 0;
    for id in 0..400 {
        store(group_commit, id, &[id]).unwrap();
        work_off(group_commit);
        let tail = group_commit.tail();
        let active = tail.segment();
        if group_commit.segments().len() == 2 && tail.offset() > SEGMENT_BYTES / 2 {
            let spare = fs.contents(&segment_path(active.0 + 1)).unwrap();
            let is_recycled = spare.iter().any(|byte| *byte != 0);
            assert_eq!(is_recycled, active.0 > 2, "spare behind segment {active}");
            spares += u32::from(is_recycled);
            group_commit.truncate_before(active).unwrap();
            work_off(group_commit);
        }
        // Three files, and a sidecar.
        assert!(fs.used_bytes() < 4 * u64::from(SEGMENT_BYTES), "{} bytes", fs.used_bytes());
    }
    assert!(spares > 10, "{spares}");
}

/// A disk that is told of a whole segment at once may be busy with it for longer than a commit
/// takes.
#[test]
fn space_of_truncated_segments_comes_back_in_parts() {
    const SEGMENT: u64 = 256 << 10;
    let fs = SimFileSystem::new(1);
    let opening = open_with(&fs, Durability::Fsync, SEGMENT as u32).unwrap();
    let group_commit = &opening.group_commit;
    while group_commit.segments().len() < 6 {
        fill(group_commit, 0, 100);
    }
    work_off(group_commit);
    let held = fs.used_bytes();
    group_commit.truncate_before(SegmentId(6)).unwrap();
    let mut most = 0;
    loop {
        let before = fs.used_bytes();
        let sidecars = [1, 2, 3, 4, 5]
            .map(|segment| fs.contents(&segment_path(segment).with_extension("idx")));
        let has_more = group_commit.background_step();
        let sidecar = sidecars.iter().flatten().map(Vec::len).max().unwrap_or(0);
        most = most.max(before.saturating_sub(fs.used_bytes() + sidecar as u64));
        assert!(group_commit.stats().disk_bytes >= fs.used_bytes() - SEGMENT);
        if !has_more {
            break;
        }
    }

    assert!(most <= SEGMENT / 32, "{most} bytes at once");
    // Of five, one is used again.
    assert!(held - fs.used_bytes() >= 4 * SEGMENT, "{held} to {}", fs.used_bytes());
    assert_readable(&open(&fs.crashed(1)).unwrap());
}

#[test]
fn full_disk_takes_at_once_what_is_given_back_in_parts() {
    let fs = SimFileSystem::new(1);
    fs.set_capacity(5 * u64::from(SEGMENT_BYTES));
    let opening = open(&fs).unwrap();
    let group_commit = &opening.group_commit;
    let mut id = 0;
    while store(group_commit, id, &[id]).is_ok() {
        id += 1;
    }
    let most = group_commit.segments().len();
    group_commit.truncate_before(SegmentId(4)).unwrap();
    while fs.contents(&segment_path(3)).is_some() {
        assert!(group_commit.background_step());
    }

    while store(group_commit, id, &[id]).is_ok() {
        id += 1;
    }
    assert_eq!(group_commit.segments().len(), most);
}

#[test]
fn reader_of_a_truncated_segment_never_sees_a_recycled_file() {
    let fs = SimFileSystem::new(1);
    let opening = open(&fs).unwrap();
    let group_commit = &opening.group_commit;
    fill(group_commit, 0, 60);
    let mut shown = 0;

    let replayed = group_commit.replay_segment(SegmentId(1), &mut |record| {
        if shown == 1 {
            group_commit.truncate_before(SegmentId(3)).unwrap();
            work_off(group_commit);
            fill(group_commit, 100, 60);
        }
        let id = u64::from_le_bytes(record.index[..8].try_into().unwrap());
        assert_eq!(id, shown);
        shown += 1;
        ControlFlow::Continue(())
    });

    assert!(replayed.is_ok());
    assert!(shown > 5);
}

#[test]
fn what_was_appended_again_outlives_the_segment_that_had_it() {
    for seed in 0..40 {
        let fs = SimFileSystem::new(seed);
        let opening = open_with(&fs, Durability::Os, SEGMENT_BYTES).unwrap();
        let group_commit = &opening.group_commit;
        store(group_commit, 0, &[7]).unwrap();
        while group_commit.segments().len() < 3 {
            store(group_commit, 1, &[8]).unwrap();
        }
        work_off(group_commit);
        store(group_commit, 2, &[7]).unwrap();
        group_commit.truncate_before(SegmentId(2)).unwrap();
        while fs.contents(&segment_path(1)).is_some() {
            assert!(group_commit.background_step());
        }

        let kept = open_with(&fs.crashed(seed), Durability::Os, SEGMENT_BYTES).unwrap();
        assert!(kept.seen.iter().any(|seen| seen.id == 7), "seed {seed}");
    }
}

#[test]
fn segment_stays_while_what_was_appended_again_cannot_be_synced() {
    let fs = SimFileSystem::new(1);
    let opening = open_with(&fs, Durability::Os, SEGMENT_BYTES).unwrap();
    let group_commit = &opening.group_commit;
    while group_commit.segments().len() < 3 {
        store(group_commit, 0, &[0]).unwrap();
    }
    work_off(group_commit);
    store(group_commit, 1, &[1]).unwrap();
    group_commit.truncate_before(SegmentId(2)).unwrap();
    fs.fail_syncs();
    work_off(group_commit);
    group_commit.close();

    assert!(fs.contents(&segment_path(1)).is_some());
}

/// Removing a segment takes its sidecar, its name and a sync of the directory.
#[test]
fn segment_that_could_not_be_removed_is_removed_later() {
    for failing in 0..3 {
        let fs = SimFileSystem::new(1);
        let opening = open(&fs).unwrap();
        let group_commit = &opening.group_commit;
        while group_commit.segments().len() < 4 {
            store(group_commit, 0, &[0]).unwrap();
        }
        work_off(group_commit);
        group_commit.truncate_before(SegmentId(3)).unwrap();
        fs.fail_call(fs.calls() + failing, Fault::Io);
        work_off(group_commit);
        assert!(fs.contents(&segment_path(2)).is_some(), "younger than what may be there");
        work_off(group_commit);

        fs.advance(Duration::from_secs(10));
        work_off(group_commit);

        // After a failed sync nobody knows whether the name is gone.
        let is_in_doubt = failing == 2;
        assert_eq!(fs.contents(&segment_path(2)).is_some(), is_in_doubt, "call {failing}");
        assert!(fs.contents(&segment_path(3)).is_some());
        assert!(group_commit.ended().is_none());
        store(group_commit, 1, &[1]).unwrap();
        for seed in 0..8 {
            assert_readable(&open(&fs.crashed(seed)).unwrap());
        }
    }
}

/// It would not have the size that its header says.
#[test]
fn a_file_of_another_size_is_not_used_again() {
    let fs = SimFileSystem::new(1);
    fill(&open_with(&fs, Durability::Fsync, 4096).unwrap().group_commit, 0, 40);
    for segment_bytes in [16384, 4096] {
        let opening = open_with(&fs, Durability::Fsync, segment_bytes).unwrap();
        let group_commit = &opening.group_commit;
        for id in 100..300 {
            store(group_commit, id, &[id]).unwrap();
            group_commit.truncate_before(group_commit.tail().segment()).unwrap();
            work_off(group_commit);
            let active = group_commit.tail().segment().0;
            let size = fs.contents(&segment_path(active)).unwrap().len();
            assert_eq!(size, segment_bytes as usize);
        }
        drop(opening);
        assert!(check(&fs, dir()).unwrap().is_sound());
    }
}

#[test]
fn who_reads_a_segment_that_goes_finds_its_bytes_to_the_end() {
    // More than is read at once.
    const LARGE: u32 = 4 << 20;
    let fs = SimFileSystem::new(1);
    let opening = open_with(&fs, Durability::Fsync, LARGE).unwrap();
    let group_commit = &opening.group_commit;
    let mut stored = 0;
    while group_commit.tail().segment() < SegmentId(2) {
        let ids: Vec<u64> = (stored..stored + 500).collect();
        store(group_commit, 0, &ids).unwrap();
        stored += 500;
    }
    let mut read = Vec::new();

    let replayed = group_commit.replay_segment(SegmentId(1), &mut |record| {
        if read.is_empty() {
            group_commit.truncate_before(SegmentId(2)).unwrap();
            work_off(group_commit);
            let mut id = stored;
            while group_commit.tail().segment() < SegmentId(4) {
                let ids: Vec<u64> = (id..id + 500).collect();
                store(group_commit, 0, &ids).unwrap();
                id += 500;
                work_off(group_commit);
            }
        }
        read.push(u64::from_le_bytes(record.index[..8].try_into().unwrap()));
        ControlFlow::Continue(())
    });

    assert!(replayed.is_ok(), "{replayed:?}");
    assert_eq!(read, (0..read.len() as u64).collect::<Vec<_>>());
    assert!(read.len() as u64 >= stored - 500);
}

/// Who moves what is still needed out of a segment must not take what is left for all.
#[test]
fn replaying_a_damaged_segment_is_an_error() {
    let fs = SimFileSystem::new(1);
    let opening = open(&fs).unwrap();
    fill(&opening.group_commit, 0, 40);
    let was = fs.contents(&segment_path(1)).unwrap()[1000];
    fs.open(&segment_path(1)).unwrap().write_at(&[&[was ^ 1]], 1000).unwrap();

    let replayed =
        opening.group_commit.replay_segment(SegmentId(1), &mut |_| ControlFlow::Continue(()));

    assert!(matches!(replayed, Err(ReadError::Corrupt(_))), "{replayed:?}");
}
