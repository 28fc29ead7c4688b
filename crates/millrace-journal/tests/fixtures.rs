//! Journals written by earlier versions, kept for ever: each must open and show what it held.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "tests")]

mod common;

use std::fmt::Write;
use std::path::{Path, PathBuf};

use common::append_records;
use millrace_journal::{
    GroupCommit, GroupOptions, LocalJournal, LocalOptions, RealFileSystem, Record, check, repair,
};

const OPTIONS: LocalOptions = LocalOptions {
    durability: millrace_journal::Durability::Fsync,
    segment_bytes: 4096,
    unindexed_segments: 0,
};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// Every record as a line: position, index, payload.
fn dump(dir: &Path) -> String {
    let mut places = Vec::new();
    let (journal, _) = LocalJournal::open(RealFileSystem::new(), dir, OPTIONS, &mut |record| {
        places.push((record.position, record.record_len));
    })
    .unwrap();
    let group_commit = GroupCommit::new(Box::new(journal), GroupOptions::default());
    let mut text = String::new();
    for (position, record_len) in places {
        let record = group_commit.read(position, record_len).unwrap();
        let index = String::from_utf8_lossy(record.index()).into_owned();
        let payload = String::from_utf8_lossy(record.payload()).into_owned();
        writeln!(text, "{position} {index} {payload}").unwrap();
    }
    text
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

#[test]
fn journals_of_all_versions_open() {
    let root = tempfile::tempdir().unwrap();
    let mut versions = 0;
    for entry in std::fs::read_dir(fixtures()).unwrap() {
        let version = entry.unwrap().path();
        let dir = root.path().join(version.file_name().unwrap());
        copy(&version.join("journal"), &dir);
        let expected = std::fs::read_to_string(version.join("records.txt")).unwrap();
        let report = check(&*RealFileSystem::new(), &dir).unwrap();
        assert!(report.is_sound(), "{report:?}");

        assert_eq!(dump(&dir), expected, "{}", version.display());

        // Without sidecars too.
        for entry in std::fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "idx") {
                std::fs::remove_file(path).unwrap();
            }
        }
        assert_eq!(dump(&dir), expected, "{}", version.display());
        versions += 1;
    }
    assert!(versions > 0);
}

/// Writes the fixture of what is written now: since `v1`, OPEN frames name their owner. Those of
/// earlier versions are never written again.
#[test]
#[ignore = "writes into the source tree"]
fn write_fixtures() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("journal");
    write_log(&dir);
    keep(&dir, "v1-owners");
}

/// The same for what a repair leaves, which earlier versions refuse.
#[test]
#[ignore = "writes into the source tree"]
fn write_repaired_fixture() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("journal");
    write_log(&dir);
    for (segment, range) in [(1, 300..301), (2, 0..200)] {
        let path = dir.join(format!("{segment:08x}.seg"));
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[range].iter_mut().for_each(|byte| *byte ^= 0x55);
        std::fs::write(&path, bytes).unwrap();
    }
    std::fs::remove_file(dir.join("00000003.seg")).unwrap();
    let repaired = repair(RealFileSystem::new(), &dir).unwrap();
    assert!(repaired.gaps.len() == 3 && repaired.cut.is_none(), "{repaired:?}");
    for entry in std::fs::read_dir(&dir).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "bak" || extension == "idx") {
            std::fs::remove_file(path).unwrap();
        }
    }
    keep(&dir, "v1-repaired");
}

fn write_log(dir: &Path) {
    for life in 0..2 {
        let (journal, _) =
            LocalJournal::open(RealFileSystem::new(), dir, OPTIONS, &mut |_| {}).unwrap();
        let group_commit = GroupCommit::new(Box::new(journal), GroupOptions::default());
        let mut positions = Vec::new();
        for number in 0..12 {
            let index = format!("life-{life}-record-{number}");
            let payload = "abcdefghij".repeat(number * 4);
            let record = Record { index: index.as_bytes(), payload: payload.as_bytes() };
            let count = number % 3 + 1;
            append_records(&group_commit, &vec![record; count], &mut positions);
            if number % 2 == 0 {
                group_commit.commit_step();
            }
        }
        group_commit.close();
    }
}

fn keep(dir: &Path, name: &str) {
    let version = fixtures().join(name);
    copy(dir, &version.join("journal"));
    let _ = std::fs::remove_file(version.join("journal/lock"));
    std::fs::write(version.join("records.txt"), dump(dir)).unwrap();
}
