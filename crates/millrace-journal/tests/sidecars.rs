//! Sidecars: what they replay, who writes them, and from what.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "tests")]

mod common;

use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use common::{SEGMENT_BYTES, dir, fill, open, segment_path, work_off};
use millrace_journal::fs::File;
use millrace_journal::{
    FileSystem, GroupCommit, GroupOptions, Journal, LocalJournal, LocalOptions, Purpose, Record,
    SimFileSystem, check,
};

/// A disk whose journal has several segments and no sidecars.
fn disk_without_sidecars() -> SimFileSystem {
    let fs = SimFileSystem::new(1);
    fill(&open(&fs).unwrap().group_commit, 0, 60);
    fs
}

#[test]
fn sidecars_replay_what_scanning_does() {
    let fs = disk_without_sidecars();
    let scanned = open(&fs.fork()).unwrap().seen;
    let opening = open(&fs).unwrap();
    work_off(&opening.group_commit);
    drop(opening);
    let index = dir().join("00000001.idx");
    let sidecar = fs.contents(&index).unwrap();

    assert_eq!(open(&fs.fork()).unwrap().seen, scanned);
    // Bodies of sealed segments are not read at start.
    let blank = fs.fork();
    let mut bytes = blank.contents(&segment_path(1)).unwrap();
    bytes[200..].fill(0xee);
    blank.plant(&segment_path(1), &bytes);
    assert_eq!(open(&blank).unwrap().seen, scanned);

    // Any damage to the sidecar is noticed; the segment is read instead, the sidecar made anew.
    for at in 0..sidecar.len() {
        let fs = fs.fork();
        let mut damaged = sidecar.clone();
        damaged[at] ^= 0x10;
        fs.plant(&index, &damaged);
        let opening = open(&fs).unwrap();
        assert_eq!(opening.seen, scanned, "byte {at}");
        work_off(&opening.group_commit);
        assert_eq!(fs.contents(&index).unwrap(), sidecar);
    }
    for length in [0, 3, 95, 96, sidecar.len() - 1] {
        let fs = fs.fork();
        fs.plant(&index, &sidecar[..length]);
        assert_eq!(open(&fs).unwrap().seen, scanned, "length {length}");
    }
    let report = check(&fs, dir()).unwrap();
    assert!(report.is_sound(), "{report:?}");
    assert_eq!(report.segments.iter().map(|segment| segment.records).sum::<u64>(), 60);
    assert!(
        report.segments.iter().any(|segment| segment.sidecar.to_string() == "valid"),
        "{report:?}"
    );
}

#[test]
fn sidecar_written_while_its_segment_fills_is_the_one_that_scanning_makes() {
    const LARGE: u32 = 1 << 20;
    let fs = SimFileSystem::new(1);
    let open = |fs: &SimFileSystem| {
        let options =
            LocalOptions { segment_bytes: LARGE, unindexed_segments: 0, ..LocalOptions::default() };
        let journal = LocalJournal::open(Arc::new(fs.clone()), dir(), options, &mut |_| {});
        GroupCommit::new(Box::new(journal.unwrap().0), GroupOptions::default())
    };
    let mut group_commit = open(&fs);
    let index = [7; 400];
    let records = [Record { index: &index, payload: b"small" }; 20];
    let bytes = records.iter().map(Record::encoded_bytes).sum();
    let temporary = [1, 2].map(|number| dir().join(format!("{number:08x}.idx.tmp")));
    let mut sizes = [Vec::new(), Vec::new()];
    let mut is_opened_again = false;
    while group_commit.segments().len() < 4 {
        let reservation = group_commit.reserve(bytes, Purpose::Store).unwrap();
        group_commit.append(reservation, &records, &mut Vec::new());
        group_commit.commit_step();
        work_off(&group_commit);
        for (sizes, path) in sizes.iter_mut().zip(&temporary) {
            sizes.extend(fs.contents(path).map(|contents| contents.len()));
        }
        // What the second segment has by then is found at the start.
        let second = group_commit.segments().get(1).map_or(0, |second| second.bytes);
        if second > u64::from(LARGE) / 2 && !std::mem::replace(&mut is_opened_again, true) {
            drop(group_commit);
            group_commit = open(&fs);
            assert!(fs.contents(&temporary[1]).is_some(), "written as the start finds it");
            sizes[1].clear();
        }
    }
    for mut sizes in sizes {
        sizes.dedup();
        assert!(sizes.len() > 1, "written in parts: {sizes:?}");
    }
    drop(group_commit);

    let scanned = fs.fork();
    for number in 1..4 {
        let index = dir().join(format!("{number:08x}.idx"));
        scanned.remove(&index).unwrap();
    }
    work_off(&open(&scanned));

    for number in 1..4 {
        let index = dir().join(format!("{number:08x}.idx"));
        assert_eq!(fs.contents(&index).unwrap(), scanned.contents(&index).unwrap());
    }
    assert!(temporary.iter().all(|path| fs.contents(path).is_none()));
}

#[test]
fn sealed_segment_that_a_start_has_read_is_not_read_again_for_its_sidecar() {
    let fs = disk_without_sidecars();
    let index = dir().join("00000001.idx");
    let segments = open(&fs.fork()).unwrap().group_commit.segments().len();
    // The start keeps what it read of so many segments, the one that it appends to beside them.
    for (kept, is_read_again) in [(segments - 1, false), (segments - 2, true)] {
        let fs = fs.fork();
        let options = LocalOptions {
            segment_bytes: SEGMENT_BYTES,
            unindexed_segments: kept - 1,
            ..LocalOptions::default()
        };
        let journal = LocalJournal::open(Arc::new(fs.clone()), dir(), options, &mut |_| {});
        let group_commit = GroupCommit::new(Box::new(journal.unwrap().0), GroupOptions::default());
        let garbage = [0xee; 100];
        fs.open(&segment_path(1)).unwrap().write_at(&[&garbage], 200).unwrap();

        for id in 100.. {
            fill(&group_commit, id, 1);
            work_off(&group_commit);
            if group_commit.segments().len() == 2 * segments {
                break;
            }
        }

        assert_eq!(fs.contents(&index).is_none(), is_read_again);
    }
}

/// A disk that others work on while a sidecar gets its name.
struct Interrupted {
    disk: SimFileSystem,
    by: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl FileSystem for Interrupted {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.disk.create_dir_all(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.disk.open(path)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.disk.create(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        if let Some(by) = self.by.get().filter(|_| to.extension().is_some_and(|kind| kind == "idx"))
        {
            by();
        }
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        self.disk.lock(path)
    }

    fn random(&self) -> u64 {
        self.disk.random()
    }

    fn now(&self) -> Duration {
        self.disk.now()
    }
}

#[test]
fn sidecar_of_a_segment_that_goes_meanwhile_goes_with_it() {
    let disk = disk_without_sidecars();
    let fs = Arc::new(Interrupted { disk: disk.clone(), by: OnceLock::new() });
    let options = LocalOptions {
        segment_bytes: SEGMENT_BYTES,
        unindexed_segments: 0,
        ..LocalOptions::default()
    };
    let (journal, opened) = LocalJournal::open(fs.clone(), dir(), options, &mut |_| {}).unwrap();
    let journal = Arc::new(journal);
    let active = opened.tail.segment();
    let other = Arc::downgrade(&journal);
    // Who needs space at once removes what was truncated, whatever the background is about to do.
    let removes = move || {
        let journal = other.upgrade().unwrap();
        journal.truncate_before(active).unwrap();
        journal.finish();
    };
    assert!(fs.by.set(Box::new(removes)).is_ok());

    while journal.background_step() {}

    assert_eq!(journal.segments().len(), 1);
    let names = disk.list(dir()).unwrap();
    assert!(names.iter().all(|name| !name.ends_with(".idx")), "{names:?}");
    let files = names.iter().filter(|name| name.ends_with(".seg")).count() as u64;
    assert_eq!(journal.disk_bytes(), files * u64::from(SEGMENT_BYTES));
}
