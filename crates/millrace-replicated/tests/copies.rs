//! The fate of a node's copy: it is kept, thrown away, or refused.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::path::Path;
use std::sync::Arc;

use millrace_journal::{
    GroupCommit, GroupOptions, LocalJournal, LocalOptions, Owner, Purpose, Record, SimFileSystem,
};
use millrace_replicated::{CopyPlace, FollowError, Follower, LogFormat, Patience, SimLog};

const FORMAT: LogFormat = LogFormat { salt: 5, segment_bytes: 8 << 10, max_frame_bytes: 4 << 10 };
const DIR: &str = "/copy";

fn log() -> SimLog {
    SimLog::new(1, FORMAT)
}

/// A follower that has caught up, and what it was shown.
fn follow(log: &SimLog, disk: &SimFileSystem) -> Result<(Follower, Vec<u32>), FollowError> {
    let place = CopyPlace::new(Arc::new(disk.clone()), Path::new(DIR));
    let mut shown = Vec::new();
    let mut show = |record: millrace_journal::Replayed<'_>| {
        shown.push(u32::from_le_bytes(record.index.try_into().unwrap()));
    };
    let (connection, clock) = (log.connect(), Arc::new(log.clone()));
    let mut follower = Follower::start(connection, clock, Patience::default(), &place, &mut show)?;
    follower.catch_up(&mut show)?;
    Ok((follower, shown))
}

/// An owner appends these numbers and is gone.
fn write(log: &SimLog, disk: &SimFileSystem, numbers: std::ops::Range<u32>) {
    let (follower, _) = follow(log, disk).unwrap();
    let owner = Owner::unnamed(numbers.start.into());
    let journal = follower.start_epoch(&owner).map_err(|refused| refused.error).unwrap();
    let group_commit = GroupCommit::new(Box::new(journal), GroupOptions::default());
    for number in numbers {
        let index = number.to_le_bytes();
        let record = Record { index: &index, payload: &[7; 500] };
        let reservation = group_commit.reserve(record.encoded_bytes(), Purpose::Store).unwrap();
        let ticket = group_commit.append(reservation, &[record], &mut Vec::new());
        while group_commit.commit_step() {}
        assert_eq!(group_commit.outcome(ticket), Some(Ok(())));
    }
}

fn segment(number: u32) -> std::path::PathBuf {
    Path::new(DIR).join(format!("{number:08x}.seg"))
}

#[test]
fn an_owner_is_named_by_the_log() {
    let log = log();
    let owner = Owner {
        node: "node-1".into(),
        url: "http://node-1:4566".into(),
        opened_at_ms: 1_700_000_000_000,
        ..Owner::unnamed(1)
    };
    let (follower, _) = follow(&log, &SimFileSystem::new(1)).unwrap();
    let _owning = follower.start_epoch(&owner).map_err(|refused| refused.error).unwrap();

    let (other, _) = follow(&log, &SimFileSystem::new(2)).unwrap();

    assert_eq!(other.owner().unwrap(), Some(owner));
}

#[test]
fn a_follower_shows_its_copy_and_what_came_since() {
    let (log, owning, following) = (log(), SimFileSystem::new(1), SimFileSystem::new(2));
    write(&log, &owning, 0..30);
    drop(follow(&log, &following).unwrap());
    write(&log, &owning, 30..50);

    let (follower, shown) = follow(&log, &following).unwrap();

    assert_eq!(shown, (0..50).collect::<Vec<_>>());
    assert_eq!(follower.end(), follow(&log, &SimFileSystem::new(3)).unwrap().0.end());
    let files = |disk: &SimFileSystem| disk.contents(&segment(2)).unwrap();
    assert!(files(&owning) == files(&following), "the same frames at the same places");
}

#[test]
fn a_damaged_copy_is_made_again() {
    let (log, disk) = (log(), SimFileSystem::new(1));
    write(&log, &disk, 0..50);
    for number in [1, 2, 3] {
        let mut bytes = disk.contents(&segment(number)).unwrap();
        bytes[700] ^= 1;
        disk.plant(&segment(number), &bytes);
        // So that nothing but the segment says what is in it.
        disk.plant(&segment(number).with_extension("idx"), &[]);

        // What was shown before damage was found is not to be used, so the first try may fail.
        let followed = follow(&log, &disk).or_else(|_| follow(&log, &disk));

        assert_eq!(followed.unwrap().1, (0..50).collect::<Vec<_>>(), "segment {number}");
    }
}

#[test]
fn a_copy_of_another_log_is_thrown_away() {
    let disk = SimFileSystem::new(1);
    write(&SimLog::new(1, LogFormat { salt: 6, ..FORMAT }), &disk, 0..5);
    let log = log();
    write(&log, &SimFileSystem::new(2), 10..15);

    assert_eq!(follow(&log, &disk).unwrap().1, (10..15).collect::<Vec<_>>());
}

#[test]
fn a_copy_that_went_another_way_is_thrown_away() {
    let (one, other) = (log(), log());
    let disk = SimFileSystem::new(1);
    write(&one, &disk, 0..5);
    write(&other, &SimFileSystem::new(2), 10..35);

    assert_eq!(follow(&other, &disk).unwrap().1, (10..35).collect::<Vec<_>>());
}

#[test]
fn a_copy_ahead_of_its_log_is_refused_and_kept() {
    let (log, disk) = (log(), SimFileSystem::new(1));
    write(&log, &disk, 0..20);
    let before = disk.contents(&segment(1)).unwrap();
    let restored = SimLog::new(1, FORMAT);
    write(&restored, &SimFileSystem::new(2), 0..3);

    for log in [restored, SimLog::new(1, FORMAT)] {
        let refused = follow(&log, &disk).err();

        assert!(matches!(refused, Some(FollowError::Ahead { .. })), "{refused:?}");
        assert!(disk.contents(&segment(1)).unwrap() == before, "nothing is thrown away");
    }
}

#[test]
fn a_journal_that_is_no_copy_is_never_thrown_away() {
    let (log, disk) = (log(), SimFileSystem::new(1));
    write(&log, &SimFileSystem::new(2), 0..5);
    let options = LocalOptions { segment_bytes: FORMAT.segment_bytes, ..LocalOptions::default() };
    drop(LocalJournal::open(Arc::new(disk.clone()), Path::new(DIR), options, &mut |_| {}).unwrap());
    let before = disk.contents(&segment(1)).unwrap();

    let refused = follow(&log, &disk).err();

    assert!(matches!(refused, Some(FollowError::Open(_))), "{refused:?}");
    assert!(disk.contents(&segment(1)).unwrap() == before);
}
