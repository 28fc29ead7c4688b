//! Space: full disks, what is set aside, sizes, locks.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "tests")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use common::{
    OPEN_FRAME_BYTES, Opening, SEGMENT_BYTES, append, append_records, assert_readable, dir, fill,
    open, open_with, store, work_off,
};
use millrace_journal::{
    Durability, Fault, FileSystem, GroupCommit, GroupOptions, LocalJournal, LocalOptions,
    OpenError, Purpose, RealFileSystem, Record, SimFileSystem, Unavailable, check,
};

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
    assert!(group_commit.stats().is_full && group_commit.ended().is_none());

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
    assert!(!group_commit.stats().is_full);
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
fn too_many_open_files_refuse_stores_and_poison_nothing() {
    for durability in [Durability::Fsync, Durability::Os] {
        let fs = SimFileSystem::new(1);
        let opening = open_with(&fs, durability, SEGMENT_BYTES).unwrap();
        let group_commit = &opening.group_commit;
        fs.allow_opening(false);
        let mut id = 0;
        let refusal = loop {
            match store(group_commit, id, &[id]) {
                Ok(()) => id += 1,
                Err(refusal) => break refusal,
            }
        };
        assert_eq!(refusal, Unavailable::TooManyFiles);
        assert!(group_commit.ended().is_none());
        append(group_commit, 1000, &[1000], Purpose::Reclaim).map(|_| ()).unwrap();

        fs.allow_opening(true);
        fs.advance(Duration::from_secs(1));
        store(group_commit, id, &[id]).unwrap();
        group_commit.commit_step();
        assert_readable(&open(&fs.fork()).unwrap());
    }
}

#[test]
fn want_of_memory_for_another_segment_poisons_nothing_whichever_call_has_none() {
    let mut refused = 0;
    for call in 0.. {
        let fs = SimFileSystem::new(1);
        let opening = open(&fs).unwrap();
        let group_commit = &opening.group_commit;
        let failing = fs.calls() + call;
        fs.fail_call(failing, Fault::NoMemory);
        // The first to ask has the second segment made.
        let reserved = group_commit.reserve(100, Purpose::Store).map(drop);
        if fs.calls() <= failing {
            reserved.unwrap();
            break;
        }
        if let Err(refusal) = reserved {
            assert_eq!(refusal, Unavailable::TooManyFiles, "call {call}");
            refused += 1;
        }
        assert!(group_commit.ended().is_none(), "call {call}");
        fs.advance(Duration::from_secs(1));
        fill(group_commit, 0, 40);
        assert_eq!(open(&fs.fork()).unwrap().seen.len(), 40, "call {call}");
    }
    assert!(refused > 0);
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
fn the_largest_batch_is_as_large_as_refusals_say() {
    let fs = SimFileSystem::new(1);
    let Opening { group_commit, .. } = open(&fs).unwrap();
    let Err(Unavailable::TooLarge { bytes, limit_bytes }) =
        group_commit.reserve(SEGMENT_BYTES as usize, Purpose::Store)
    else {
        panic!("granted");
    };

    assert_eq!(bytes, u64::from(SEGMENT_BYTES));
    assert!(group_commit.reserve(limit_bytes as usize + 1, Purpose::Store).is_err());
    assert!(group_commit.reserve(limit_bytes as usize, Purpose::Store).is_ok());
}

/// What is left of a full disk is for what brings space back, and that gets most of it.
#[test]
fn a_full_disk_leaves_each_purpose_its_part_of_the_last_segment() {
    let fs = SimFileSystem::new(1);
    let Opening { group_commit, .. } = open(&fs).unwrap();
    fs.set_capacity(0);
    let data_end = SEGMENT_BYTES - 2 * OPEN_FRAME_BYTES;
    let ends =
        [Purpose::Store, Purpose::Lease, Purpose::Relocate, Purpose::Reclaim].map(|purpose| {
            while let Ok((ticket, _)) = append(&group_commit, 0, &[0], purpose) {
                group_commit.commit_step();
                assert_eq!(group_commit.outcome(ticket), Some(Ok(())));
            }
            group_commit.tail().offset()
        });

    // A batch of one record, with its frame's header and padding.
    let batch = 48 + 12 + 16 + 20 + 8;
    let eighth = data_end / 8;
    for (end, bound) in ends.iter().zip([0, 6 * eighth, 7 * eighth, data_end]).skip(1) {
        assert!((bound - batch..=bound).contains(end), "{ends:?}: {bound}");
    }
    assert_eq!(ends[0], 64 + OPEN_FRAME_BYTES, "nothing but the frame of the start");
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
fn new_journal_opens_without_writing_its_first_segment() {
    let calls = [SEGMENT_BYTES, 64 << 20].map(|segment_bytes| {
        let fs = SimFileSystem::new(1);
        open_with(&fs, Durability::Fsync, segment_bytes).unwrap();
        fs.calls()
    });

    assert_eq!(calls[0], calls[1]);
    assert!(calls[0] < 12, "{} calls", calls[0]);
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
fn segment_that_cannot_be_made_poisons_and_tells() {
    let fs = SimFileSystem::new(1);
    let opening = open(&fs).unwrap();
    let group_commit = &opening.group_commit;
    let told = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&told);
    group_commit.on_commit(Box::new(move || {
        counted.fetch_add(1, Ordering::Relaxed);
    }));

    fs.fail_next(Fault::Io);
    assert!(matches!(store(group_commit, 0, &[0]), Err(Unavailable::Poisoned(_))));
    // Whoever stores may hold locks that those who are told need.
    assert_eq!(told.load(Ordering::Relaxed), 0);
    work_off(group_commit);

    assert!(group_commit.stats().ended.is_some());
    assert_eq!(told.load(Ordering::Relaxed), 1);
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
fn space_that_a_copy_left_out_is_set_aside_again() {
    use std::os::unix::fs::{FileExt, MetadataExt};

    const SIZE: u32 = 1 << 20;
    let root = tempfile::tempdir().unwrap();
    let options = LocalOptions { segment_bytes: SIZE, ..LocalOptions::default() };
    let open = || LocalJournal::open(RealFileSystem::new(), root.path(), options, &mut |_| {});
    drop(open().unwrap());
    let path = root.path().join("00000001.seg");
    let begun = std::fs::read(&path).unwrap();
    let copy = std::fs::File::create(&path).unwrap();
    copy.set_len(u64::from(SIZE)).unwrap();
    copy.write_all_at(&begun[..4096], 0).unwrap();

    let (_journal, opened) = open().unwrap();

    assert_eq!(opened.epoch.0, 2);
    assert!(copy.metadata().unwrap().blocks() * 512 >= u64::from(SIZE));
}

#[test]
fn a_start_needs_no_space_for_what_a_copy_left_out() {
    let fs = SimFileSystem::new(1);
    fill(&open(&fs).unwrap().group_commit, 0, 3);
    for call in 0..4 {
        let fs = fs.fork();
        fs.fail_call(fs.calls() + call, Fault::NoSpace);
        if let Ok(opening) = open(&fs) {
            assert_eq!(opening.seen.len(), 3, "call {call}");
            return;
        }
    }
    panic!("it is never asked for");
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
        append_records(&group_commit, &[record], &mut positions);
        group_commit.commit_step();
    }
    // What is on disk no longer matters for the newest, and does for the oldest.
    fs.fail_next(millrace_journal::Fault::PowerLoss);
    append_records(&group_commit, &[record], &mut positions);
    group_commit.commit_step();

    let length = record.encoded_bytes() as u32;
    assert!(group_commit.read(positions[10], length).is_ok());
    assert!(group_commit.read(positions[9], length).is_ok());
    assert!(group_commit.read(positions[0], length).is_err());
}

#[test]
fn sidecars_without_a_segment_are_removed_at_the_start() {
    let fs = SimFileSystem::new(1);
    drop(open(&fs).unwrap());
    // Segments go from the oldest on.
    let index = dir().join("00000000.idx");
    fs.plant(&index, b"finished while its segment was being removed");

    drop(open(&fs).unwrap());

    assert_eq!(fs.contents(&index), None);
}
