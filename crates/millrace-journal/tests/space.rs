//! Space: full disks, truncation, recycling, sidecars, locks.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "tests")]

mod common;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use common::{SEGMENT_BYTES, append, assert_readable, dir, open, open_with, segment_path, store};
use millrace_journal::conformance;
use millrace_journal::{
    Durability, FileSystem, GroupCommit, GroupOptions, LocalJournal, LocalOptions, OpenError,
    Purpose, Record, SegmentId, SimFileSystem, Unavailable, check,
};

fn fill(group_commit: &Arc<GroupCommit>, from: u64, count: u64) {
    for id in from..from + count {
        store(group_commit, id, &[id]).unwrap();
    }
}

fn work_off(group_commit: &GroupCommit) {
    while group_commit.background_step() {}
}

#[test]
fn full_disk_refuses_stores_admits_reclaiming_and_recovers() {
    let fs = SimFileSystem::new(1);
    fs.set_capacity(3 * u64::from(SEGMENT_BYTES));
    let opening = open(&fs).unwrap();
    let group_commit = &opening.group_commit;
    let mut acknowledged = Vec::new();
    let refusal = loop {
        let id = acknowledged.len() as u64;
        match store(group_commit, id, &[id]) {
            Ok(()) => acknowledged.push(id),
            Err(refusal) => break refusal,
        }
    };
    assert_eq!(refusal, Unavailable::DiskFull);
    assert!(group_commit.poison().is_none());

    // Deletes still get in, up to the end of the segment, and then not.
    let calls = fs.calls();
    let mut reclaimed = 0;
    let refusal = loop {
        let id = 1000 + reclaimed;
        match append(group_commit, id, &[id], Purpose::Reclaim) {
            Ok((ticket, _)) => {
                group_commit.commit_step();
                assert_eq!(group_commit.outcome(ticket), Some(Ok(())));
                reclaimed += 1;
            }
            Err(refusal) => break refusal,
        }
    };
    assert_eq!(refusal, Unavailable::DiskFull);
    assert!(reclaimed > 3, "{reclaimed}");
    assert!(fs.calls() <= calls + 2 * reclaimed + 4, "the disk is not asked each time");

    // It starts with the disk full to the last byte.
    drop(opening);
    let seen = open(&fs).unwrap().seen;
    assert_eq!(seen.len() as u64, acknowledged.len() as u64 + reclaimed);
    let opening = open(&fs).unwrap();
    let group_commit = &opening.group_commit;
    assert_eq!(store(group_commit, 500, &[5000]), Err(Unavailable::DiskFull));

    // Truncation brings space back at once.
    group_commit.truncate_before(group_commit.segments()[1].id).unwrap();
    store(group_commit, 500, &[5000]).unwrap();
    assert_readable(&open(&fs.fork()).unwrap());
}

#[test]
fn space_that_comes_back_is_found_after_a_second() {
    let fs = SimFileSystem::new(1);
    fs.set_capacity(2 * u64::from(SEGMENT_BYTES));
    let opening = open(&fs).unwrap();
    let mut id = 0;
    while store(&opening.group_commit, id, &[id]).is_ok() {
        id += 1;
    }

    fs.set_capacity(u64::MAX);
    assert_eq!(store(&opening.group_commit, id, &[id]), Err(Unavailable::DiskFull));
    fs.advance(Duration::from_secs(1));

    store(&opening.group_commit, id, &[id]).unwrap();
}

#[test]
fn admitted_batches_fit_however_reservations_are_held() {
    let fs = SimFileSystem::new(1);
    fs.set_capacity(4 * u64::from(SEGMENT_BYTES));
    let opening = open(&fs).unwrap();
    let group_commit = &opening.group_commit;
    let payload = vec![5; 300];
    let record = Record { index: &[0; 16], payload: &payload };
    let mut tickets = Vec::new();
    let mut positions = Vec::new();
    // Reserve as much as is granted, then append in another order, again and again.
    for round in 0..40 {
        let mut held = Vec::new();
        for number in 0..(round % 12) + 1 {
            let purpose = if number % 3 == 0 { Purpose::Reclaim } else { Purpose::Store };
            match group_commit.reserve(record.encoded_bytes() * (number % 3 + 1), purpose) {
                Ok(reservation) => held.push((number % 3 + 1, reservation)),
                Err(Unavailable::DiskFull | Unavailable::Backlog { .. }) => break,
                Err(error) => panic!("{error}"),
            }
        }
        if round % 5 == 0 {
            held.pop();
        }
        while let Some((records, reservation)) = held.pop() {
            tickets.push(group_commit.append(reservation, &vec![record; records], &mut positions));
            if round % 2 == 0 {
                group_commit.commit_step();
            }
        }
        while group_commit.commit_step() {}
        if group_commit.segments().len() > 2 && round % 3 == 0 {
            group_commit.truncate_before(group_commit.segments()[1].id).unwrap();
        }
    }
    assert!(tickets.len() > 60, "{}", tickets.len());
    for ticket in tickets {
        assert_eq!(group_commit.outcome(ticket), Some(Ok(())));
    }
}

#[test]
fn dropped_reservation_gives_its_bytes_back() {
    let fs = SimFileSystem::new(1);
    let opening = open(&fs).unwrap();
    let group_commit = &opening.group_commit;
    let all = group_commit.reserve(3800, Purpose::Store).unwrap();
    let refused = group_commit.reserve(3000, Purpose::Store).err();
    assert!(matches!(refused, Some(Unavailable::Backlog { .. })), "{refused:?}");

    drop(all);

    assert!(group_commit.reserve(3000, Purpose::Store).is_ok());
}

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
fn sidecars_replay_what_scanning_does() {
    let fs = SimFileSystem::new(1);
    let opening = open(&fs).unwrap();
    fill(&opening.group_commit, 0, 60);
    drop(opening);
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
    assert!(report.is_sound(), "{report}");
    assert_eq!(report.records(), 60);
    assert!(report.to_string().contains("valid"), "{report}");
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
            assert!(fs.contents(&temporary[1]).is_none());
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
    let fs = SimFileSystem::new(1);
    let opening = open(&fs).unwrap();
    fill(&opening.group_commit, 0, 60);
    drop(opening);
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

#[test]
fn what_is_not_synced_at_commit_is_synced_while_its_segment_fills() {
    for seed in 0..10 {
        let fs = SimFileSystem::new(seed);
        let opening = open_with(&fs, Durability::Os, SEGMENT_BYTES).unwrap();
        let mut stored = 0;
        while opening.group_commit.segments()[0].bytes < u64::from(SEGMENT_BYTES) / 4 {
            store(&opening.group_commit, stored, &[stored]).unwrap();
            stored += 1;
        }
        work_off(&opening.group_commit);

        let kept = open_with(&fs.crashed(seed), Durability::Os, SEGMENT_BYTES).unwrap();
        assert_eq!(kept.seen.len() as u64, stored);
        assert!(!opening.group_commit.background_step(), "only when there is another part");
    }
}

#[test]
fn no_change_is_taken_after_a_failed_sync_in_the_background() {
    let fs = SimFileSystem::new(1);
    let opening = open_with(&fs, Durability::Os, SEGMENT_BYTES).unwrap();
    let group_commit = &opening.group_commit;
    while group_commit.segments()[0].bytes < u64::from(SEGMENT_BYTES) / 8 {
        store(group_commit, 0, &[0]).unwrap();
    }
    fs.fail_syncs();
    work_off(group_commit);

    assert!(matches!(store(group_commit, 1, &[1]), Err(Unavailable::Poisoned(_))));
}

#[test]
fn second_opener_is_refused() {
    let fs = SimFileSystem::new(1);
    let _first = open(&fs).unwrap();
    assert!(matches!(open(&fs), Err(OpenError::Locked { .. })));
    assert!(matches!(check(&fs, dir()), Err(OpenError::Locked { .. })));

    let root = tempfile::tempdir().unwrap();
    let real = millrace_journal::RealFileSystem::new();
    let options = LocalOptions { segment_bytes: 65536, ..LocalOptions::default() };
    let open = || LocalJournal::open(Arc::clone(&real) as _, root.path(), options, &mut |_| {});
    let first = open().unwrap();
    assert!(matches!(open(), Err(OpenError::Locked { .. })));
    drop(first);
    assert!(open().is_ok());
}

#[test]
fn roll_seals_the_active_segment() {
    let fs = SimFileSystem::new(1);
    let opening = open(&fs).unwrap();
    let group_commit = &opening.group_commit;
    store(group_commit, 0, &[0]).unwrap();

    group_commit.roll();
    group_commit.roll();
    while group_commit.commit_step() {}
    store(group_commit, 1, &[1]).unwrap();

    let segments: BTreeMap<_, _> =
        group_commit.segments().iter().map(|info| (info.id, info.is_sealed)).collect();
    assert_eq!(segments, BTreeMap::from([(SegmentId(1), true), (SegmentId(2), false)]));
    group_commit.truncate_before(SegmentId(2)).unwrap();
    group_commit.close();
    drop(opening);
    let seen = open(&fs).unwrap().seen;
    assert_eq!(seen.iter().map(|seen| seen.id).collect::<Vec<_>>(), [1]);
}

#[test]
fn segment_size_may_change_between_starts() {
    let fs = SimFileSystem::new(1);
    let mut expected = 0;
    for segment_bytes in [8192, 4096, 16384, 16384, 4096] {
        let opening = open_with(&fs, Durability::Fsync, segment_bytes).unwrap();
        assert_eq!(opening.seen.len() as u64, expected);
        assert_readable(&opening);
        fill(&opening.group_commit, expected, 30);
        expected += 30;
    }
}

#[test]
fn segment_size_is_checked() {
    let fs: Arc<dyn FileSystem> = Arc::new(SimFileSystem::new(1));
    for segment_bytes in [0, 4095, 5000, u32::MAX] {
        let options = LocalOptions { segment_bytes, ..LocalOptions::default() };
        let opened = LocalJournal::open(Arc::clone(&fs), dir(), options, &mut |_| {});
        assert!(matches!(opened, Err(OpenError::SegmentSize { .. })));
    }
}

#[test]
fn closing_commits_what_gathered_and_refuses_the_rest() {
    let fs = SimFileSystem::new(1);
    let opening = open(&fs).unwrap();
    let group_commit = &opening.group_commit;
    let (ticket, _) = append(group_commit, 0, &[7], Purpose::Store).unwrap();

    group_commit.close();

    assert_eq!(group_commit.outcome(ticket), Some(Ok(())));
    assert_eq!(store(group_commit, 1, &[8]), Err(Unavailable::Closed));
    drop(opening);
    assert_eq!(open(&fs).unwrap().seen.len(), 1);
}

#[test]
fn recent_records_are_served_without_the_disk() {
    let fs = SimFileSystem::new(1);
    let options = LocalOptions { segment_bytes: 16384, ..LocalOptions::default() };
    let (journal, _) =
        LocalJournal::open(Arc::new(fs.clone()), dir(), options, &mut |_| {}).unwrap();
    let options = GroupOptions { recent_bytes: 2000, ..GroupOptions::default() };
    let group_commit = GroupCommit::new(Box::new(journal), options);
    let payload = vec![9; 500];
    let record = Record { index: b"i", payload: &payload };
    let mut positions = Vec::new();
    for _ in 0..10 {
        conformance::append(&group_commit, &[record], &mut positions);
        group_commit.commit_step();
    }
    // What is on disk no longer matters for the newest, and does for the oldest.
    fs.fail_next(millrace_journal::Fault::PowerLoss);
    conformance::append(&group_commit, &[record], &mut positions);
    group_commit.commit_step();

    let length = record.encoded_bytes() as u32;
    assert!(group_commit.read(positions[10], length).is_ok());
    assert!(group_commit.read(positions[9], length).is_ok());
    assert!(group_commit.read(positions[0], length).is_err());
}
