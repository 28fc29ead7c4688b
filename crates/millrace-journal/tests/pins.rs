//! Copies of a journal that goes on meanwhile.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "tests")]

mod common;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use common::{
    SEGMENT_BYTES, append, assert_readable, dir, fill, open, open_with, segment_path, store,
    work_off,
};
use millrace_journal::{
    Durability, GroupCommit, GroupOptions, LocalJournal, LocalOptions, MemoryJournal, Pinned,
    Purpose, RealFileSystem, SegmentId, SimFileSystem, check, segment_file_bytes,
};

/// The files of a copy, by name.
fn files(pinned: Pinned) -> io::Result<BTreeMap<String, Vec<u8>>> {
    let mut files = BTreeMap::new();
    pinned.copy(&mut |name, bytes, reader| {
        let mut contents = Vec::new();
        reader.read_to_end(&mut contents)?;
        assert_eq!(contents.len() as u64, bytes, "{name}");
        files.insert(name.to_owned(), contents);
        Ok(())
    })?;
    Ok(files)
}

/// A disk that holds these files, the segments as long as their headers say.
fn disk_with(files: &BTreeMap<String, Vec<u8>>) -> SimFileSystem {
    let fs = SimFileSystem::new(7);
    for (name, contents) in files {
        let mut contents = contents.clone();
        if name.ends_with(".seg") {
            let length = segment_file_bytes(&contents).unwrap();
            contents.resize(length as usize, 0);
        }
        fs.plant(&dir().join(name), &contents);
    }
    fs
}

fn ids_in(files: &BTreeMap<String, Vec<u8>>) -> Vec<u64> {
    let fs = disk_with(files);
    let report = check(&fs, dir()).unwrap();
    assert!(report.is_sound() && report.torn_tail.is_none(), "{report:?}");
    let opening = open(&fs).unwrap();
    assert_readable(&opening);
    opening.seen.iter().map(|seen| seen.id).collect()
}

#[test]
fn copy_holds_what_was_committed_and_nothing_later() {
    for durability in [Durability::Fsync, Durability::Os] {
        let fs = SimFileSystem::new(1);
        let opening = open_with(&fs, durability, SEGMENT_BYTES).unwrap();
        let group_commit = &opening.group_commit;
        for id in 0..100 {
            store(group_commit, id, &[id]).unwrap();
            if id % 9 == 0 {
                work_off(group_commit);
            }
            let tail = group_commit.tail();
            // Appended, and not committed.
            append(group_commit, 1_000 + id, &[1_000 + id], Purpose::Store).unwrap();
            let pinned = group_commit.pin().unwrap();
            store(group_commit, 2_000 + id, &[2_000 + id]).unwrap();

            assert_eq!(pinned.tail(), tail);
            let seen = ids_in(&files(pinned).unwrap());
            let sent: Vec<u64> = (0..=id).flat_map(|id| [id, 1_000 + id, 2_000 + id]).collect();
            assert_eq!(seen, sent[..sent.len() - 2], "{durability:?}");
        }
    }
}

#[test]
fn truncation_takes_nothing_from_a_copy() {
    let fs = SimFileSystem::new(1);
    let opening = open(&fs).unwrap();
    let group_commit = &opening.group_commit;
    fill(group_commit, 0, 100);
    work_off(group_commit);
    let pinned = group_commit.pin().unwrap();
    assert_eq!(pinned.segments(), group_commit.segments().len());

    // Goes on until the files of all that was pinned would have been used again.
    for id in 100..200 {
        store(group_commit, id, &[id]).unwrap();
        group_commit.truncate_before(group_commit.tail().segment()).unwrap();
        work_off(group_commit);
    }

    assert!(fs.contents(&segment_path(1)).is_none(), "its name has gone");
    assert_eq!(ids_in(&files(pinned).unwrap()), (0..100).collect::<Vec<_>>());
}

#[test]
fn a_copy_lets_go_of_files_as_it_goes_and_when_it_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let options = LocalOptions { segment_bytes: SEGMENT_BYTES, ..LocalOptions::default() };
    let opened = LocalJournal::open(RealFileSystem::new(), dir.path(), options, &mut |_| {});
    let group_commit = GroupCommit::new(Box::new(opened.unwrap().0), GroupOptions::default());
    fill(&group_commit, 0, 100);
    let (copied, given_up) = (group_commit.pin().unwrap(), group_commit.pin().unwrap());
    let sealed = copied.segments() - 1;
    group_commit.truncate_before(group_commit.tail().segment()).unwrap();
    work_off(&group_commit);
    // Of which only the space is left.
    let held = || {
        let is_held = |link: &Path| {
            link.starts_with(dir.path()) && link.to_string_lossy().ends_with(".seg (deleted)")
        };
        let files = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        files.filter(|file| std::fs::read_link(file.path()).is_ok_and(|to| is_held(&to))).count()
    };
    assert!(sealed > 5);

    assert_eq!(held(), sealed);
    drop(given_up);
    assert_eq!(held(), sealed, "another copy holds them");
    let mut left = sealed;
    copied
        .copy(&mut |_, _, _| {
            assert_eq!(held(), left);
            left = left.saturating_sub(1);
            Ok(())
        })
        .unwrap();

    assert_eq!(held(), 0);
}

#[test]
fn sealed_segments_bring_their_sidecars_if_they_have_them() {
    let fs = SimFileSystem::new(1);
    let opening = open(&fs).unwrap();
    let group_commit = &opening.group_commit;
    fill(group_commit, 0, 60);
    let without = files(group_commit.pin().unwrap()).unwrap();
    work_off(group_commit);
    let with = files(group_commit.pin().unwrap()).unwrap();

    let count = |files: &BTreeMap<String, Vec<u8>>, kind| {
        files.keys().filter(|name| name.ends_with(kind)).count()
    };
    assert_eq!(count(&without, ".idx"), 0);
    assert_eq!(count(&with, ".idx"), count(&with, ".seg") - 1);
    assert_eq!(ids_in(&without), ids_in(&with));
}

#[test]
fn a_disk_that_takes_no_direct_reads_is_read_through_the_page_cache() {
    let fs = SimFileSystem::new(1);
    let opening = open(&fs).unwrap();
    fill(&opening.group_commit, 0, 60);
    fs.refuse_direct();

    let seen = ids_in(&files(opening.group_commit.pin().unwrap()).unwrap());

    assert_eq!(seen, (0..60).collect::<Vec<_>>());
}

#[test]
fn what_cannot_be_read_fails_the_copy() {
    let fs = SimFileSystem::new(1);
    let opening = open(&fs).unwrap();
    fill(&opening.group_commit, 0, 60);
    fs.fail_reads_at(&segment_path(2), 0);

    assert!(files(opening.group_commit.pin().unwrap()).is_err());
}

#[test]
fn a_journal_in_memory_has_nothing_to_copy() {
    let journal = MemoryJournal::new(SEGMENT_BYTES);
    let group_commit = GroupCommit::new(Box::new(journal), GroupOptions::default());

    assert!(group_commit.pin().is_none());
    assert_eq!(group_commit.tail().segment(), SegmentId(1));
}
