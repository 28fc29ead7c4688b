//! Spares: when one is made, which is kept, and what missing space and lost power do to them.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{Opening, SEGMENT_BYTES, append, fill, open, segment_path, store, work_off};
use millrace_journal::{Fault, GroupCommit, Purpose, SimFileSystem, Unavailable};

/// Stores records until the segment is half full. Returns how many: their ids begin with 0.
fn store_half_a_segment(group_commit: &Arc<GroupCommit>) -> u64 {
    let mut id = 0;
    while group_commit.tail().offset() < SEGMENT_BYTES / 2 {
        store(group_commit, id, &[id]).unwrap();
        id += 1;
    }
    id
}

#[test]
fn an_idle_journal_holds_no_spare() {
    let fs = SimFileSystem::new(1);
    let Opening { group_commit, .. } = open(&fs).unwrap();
    work_off(&group_commit);
    assert_eq!(fs.contents(&segment_path(2)), None);

    fill(&group_commit, 0, 4);
    work_off(&group_commit);

    assert!(group_commit.tail().offset() > SEGMENT_BYTES / 8);
    assert!(fs.contents(&segment_path(2)).is_some());
}

#[test]
fn a_start_keeps_one_spare_that_is_as_it_would_be_made() {
    let fs = SimFileSystem::new(1);
    drop(open(&fs).unwrap());
    let blank = vec![0; SEGMENT_BYTES as usize];
    let mut used = blank.clone();
    used[4000] = 1;
    for (contents, is_kept) in [(&blank[..], true), (&used, false), (&blank[..4000], false)] {
        let fs = fs.fork();
        fs.plant(&segment_path(2), contents);
        fs.plant(&segment_path(3), &blank);

        drop(open(&fs).unwrap());

        let kept = fs.contents(&segment_path(2));
        assert_eq!(kept, is_kept.then(|| blank.clone()));
        assert_eq!(fs.contents(&segment_path(3)), None);
    }
}

#[test]
fn power_lost_while_a_start_removes_spares_leaves_no_hole() {
    let fs = SimFileSystem::new(1);
    fill(&open(&fs).unwrap().group_commit, 0, 3);
    for segment in 2..6 {
        fs.plant(&segment_path(segment), &[0; 64]);
    }
    for (call, seed) in (0..).flat_map(|call| (0..10).map(move |seed| (call, seed))) {
        let fs = fs.fork();
        fs.fail_call(fs.calls() + call, Fault::PowerLoss);
        if open(&fs).is_ok() {
            break;
        }

        let seen = open(&fs.crashed(seed)).map(|opening| opening.seen.len());

        assert_eq!(seen.unwrap(), 3, "call {call} seed {seed}");
    }
}

/// A volume may promise more than it has. Until frames are in a file, that is a full disk.
#[test]
fn space_that_is_missing_when_a_spare_is_zeroed_is_a_full_disk() {
    let mut refused = 0;
    for call in 0.. {
        let fs = SimFileSystem::new(1);
        let opening = open(&fs).unwrap();
        let mut id = store_half_a_segment(&opening.group_commit);
        let failing = fs.calls() + call;
        fs.fail_call(failing, Fault::NoSpace);
        work_off(&opening.group_commit);
        if fs.calls() <= failing {
            break;
        }
        assert!(opening.group_commit.ended().is_none(), "call {call}");
        for _ in 0..40 {
            match store(&opening.group_commit, id, &[id]) {
                Ok(()) => id += 1,
                Err(Unavailable::DiskFull) => {
                    refused += 1;
                    fs.advance(Duration::from_secs(2));
                }
                Err(error) => panic!("call {call}: {error}"),
            }
        }
        opening.group_commit.close();
        drop(opening);
        assert_eq!(open(&fs).unwrap().seen.len() as u64, id, "call {call}");
    }
    assert!(refused > 0);
}

/// Of two spares the first may turn out to have no space, after the second could not be made whole,
/// and neither be removed: the next start finds no hole.
#[test]
fn spares_without_space_leave_no_hole_whichever_calls_fail() {
    let mut given_up = 0;
    for failing in 1_u64..1 << 12 {
        let fs = SimFileSystem::new(1);
        let opening = open(&fs).unwrap();
        let group_commit = &opening.group_commit;
        let stored = store_half_a_segment(group_commit);
        for call in (0..12).filter(|call| failing >> call & 1 == 1) {
            fs.fail_call(fs.calls() + call, Fault::NoSpace);
        }
        // What gathers reaches into the first spare, so the second is wanted.
        for id in 100..140 {
            let _ = append(group_commit, id, &[id], Purpose::Store);
        }
        work_off(group_commit);
        given_up += u32::from(fs.contents(&segment_path(2)).is_none());
        fs.advance(Duration::from_secs(2));
        let _ = append(group_commit, 200, &[200], Purpose::Store);
        drop(opening);

        for fs in [fs.crashed(failing), fs.killed()] {
            let seen = open(&fs).map(|opening| opening.seen.len() as u64);
            assert_eq!(seen.unwrap(), stored, "calls that failed: {failing:b}");
        }
    }
    assert!(given_up > 0);
}

/// Whoever asks later, too, is told what failed.
#[test]
fn what_failed_in_the_background_is_the_reason_why_changes_are_refused() {
    let fs = SimFileSystem::new(1);
    let opening = open(&fs).unwrap();
    store_half_a_segment(&opening.group_commit);
    fs.fail_call(fs.calls(), Fault::Io);

    work_off(&opening.group_commit);

    assert!(!opening.group_commit.stats().is_full, "space is not what is missing");
    let reason = opening.group_commit.ended().unwrap().to_string();
    assert!(reason.contains(" a segment: "), "{reason}");
}
