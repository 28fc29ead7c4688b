//! Bytes that are not what was written: torn tail or corruption, never wrong data.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "tests")]

mod common;

use common::{
    Opening, Seen, append, assert_readable, dir, open, open_with, segment_path, store, work_off,
};
use millrace_journal::{
    Durability, FileSystem, OpenError, Opened, Position, Purpose, SegmentId, SimFileSystem, check,
    fuzz_recovery,
};
use proptest::prelude::*;

/// Three groups in one segment. Returns what replay shows, and the bytes of the segment.
fn small_log() -> (SimFileSystem, Vec<Seen>, Vec<u8>, u32) {
    let fs = SimFileSystem::new(3);
    let opening = open(&fs).unwrap();
    store(&opening.group_commit, 0, &[1, 2]).unwrap();
    store(&opening.group_commit, 1, &[3]).unwrap();
    store(&opening.group_commit, 2, &[4, 5]).unwrap();
    let end = opening.group_commit.tail().offset();
    let end = end.next_multiple_of(8);
    drop(opening);
    let bytes = fs.contents(&segment_path(1)).unwrap();
    let seen = open(&fs.fork()).unwrap().seen;
    assert_eq!(seen.len(), 5);
    (fs, seen, bytes, end)
}

/// So many groups of one record.
fn log_of(batches: u64) -> (SimFileSystem, Opening) {
    let fs = SimFileSystem::new(1);
    let opening = open(&fs).unwrap();
    for batch in 0..batches {
        store(&opening.group_commit, batch, &[batch]).unwrap();
    }
    (fs, opening)
}

enum Found {
    Whole,
    /// All but the last group.
    Cut,
    Corrupt,
}

/// Opens a log with these bytes and fails if anything is shown that was not written.
fn judge(fs: &SimFileSystem, bytes: &[u8], all: &[Seen], what: &dyn std::fmt::Debug) -> Found {
    let fs = fs.fork();
    fs.plant(&segment_path(1), bytes);
    match open(&fs) {
        Ok(opening) => {
            assert_readable(&opening);
            let is_prefix = all.starts_with(&opening.seen);
            assert!(is_prefix, "{what:?}: wrong data {:?}", opening.seen);
            let seen = opening.seen.clone();
            let torn_tail = opening.opened.torn_tail;
            drop(opening);
            let opening = Opening { seen, ..open(&fs).unwrap() };
            assert_eq!(opening.opened.torn_tail, None, "{what:?}: cut is not for good");
            if opening.seen.len() == all.len() {
                return Found::Whole;
            }
            assert!(torn_tail.is_some(), "{what:?}: lost without a word");
            assert_eq!(opening.seen.len(), 3, "{what:?}: more than the last group was cut");
            Found::Cut
        }
        Err(OpenError::Corrupt(_)) => Found::Corrupt,
        Err(error) => panic!("{what:?}: {error}"),
    }
}

#[test]
fn flipped_bit_is_torn_tail_or_corrupt_never_wrong_data() {
    let (fs, seen, bytes, end) = small_log();
    let last_frame =
        open(&fs.fork()).map(|opening| opening.seen[3].position.offset() - 48).unwrap();
    for at in 0..bytes.len() {
        let bits = if (at as u32) < end + 16 { 0..8 } else { at as u32 % 8..at as u32 % 8 + 1 };
        for bit in bits {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;

            let found = judge(&fs, &damaged, &seen, &(at, bit));

            match found {
                Found::Corrupt => assert!((at as u32) < last_frame, "byte {at}"),
                Found::Cut => assert!((last_frame..end).contains(&(at as u32)), "byte {at}"),
                Found::Whole => assert!(at as u32 >= end, "byte {at} bit {bit}"),
            }
        }
    }
}

#[test]
fn log_ending_at_any_byte_is_cut_or_refused() {
    let (fs, all, bytes, end) = small_log();
    for length in 0..=end as usize {
        // As a crash leaves it: a file has its length before it has its name.
        let mut zeroed = bytes[..length].to_vec();
        zeroed.resize(bytes.len(), 0);
        let fs = fs.fork();
        fs.plant(&segment_path(1), &zeroed);
        match open(&fs) {
            Ok(opening) => {
                assert!(all.starts_with(&opening.seen), "length {length}");
                let whole = all
                    .iter()
                    .filter(|seen| seen.position.offset() + seen.record_len <= length as u32);
                assert!(opening.seen.len() <= whole.count());
                assert_readable(&opening);
                store(&opening.group_commit, 9, &[77]).unwrap();
            }
            // Only the header itself: the first segment gets its name when it has one.
            Err(OpenError::Corrupt(_)) => assert!(length < 64, "length {length}"),
            Err(error) => panic!("length {length}: {error}"),
        }
    }
}

#[test]
fn a_file_that_is_too_short_is_corrupt() {
    let (fs, opening) = log_of(40);
    let active = opening.group_commit.tail().segment().0;
    drop(opening);
    for segment in [1, 2, active] {
        for length in [4095, 2000, 64, 63, 0] {
            let fs = fs.fork();
            let bytes = fs.contents(&segment_path(segment)).unwrap();
            fs.plant(&segment_path(segment), &bytes[..length]);
            match open(&fs) {
                Err(OpenError::Corrupt(corruption)) => {
                    assert_eq!((corruption.segment, corruption.offset), (SegmentId(segment), 0));
                }
                // What has no header behind the last segment is a spare, for all that is known.
                Ok(_) => assert!(segment == active && length < 64, "{segment} {length}"),
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[test]
fn a_sidecar_tells_that_another_segment_follows() {
    let (fs, opening) = log_of(40);
    let active = opening.group_commit.tail().segment().0;
    work_off(&opening.group_commit);
    drop(opening);
    assert!(open(&fs.fork()).is_ok());
    for length in [None, Some(0), Some(4096)] {
        let fs = fs.fork();
        FileSystem::remove(&fs, &segment_path(active)).unwrap();
        if let Some(length) = length {
            fs.plant(&segment_path(active), &vec![0; length]);
        }

        let Err(OpenError::Corrupt(corruption)) = open(&fs) else { panic!("opened") };

        // Without the file, it is the spare behind it that does not follow.
        let named = if length.is_none() { active + 1 } else { active };
        assert_eq!((corruption.segment, corruption.offset), (SegmentId(named), 0));
        assert!(!check(&fs, dir()).unwrap().is_sound());
    }
}

#[test]
fn several_segments_that_are_emptied_are_missed() {
    let (fs, opening) = log_of(60);
    let active = opening.group_commit.tail().segment().0;
    work_off(&opening.group_commit);
    drop(opening);
    for emptied in 1..4 {
        let fs = fs.fork();
        for segment in active + 1 - emptied..=active {
            fs.plant(&segment_path(segment), &[0; 4096]);
        }
        if emptied > 1 {
            // A sidecar of one that is emptied is enough.
            let last = active - emptied;
            FileSystem::remove(&fs, &dir().join(format!("{last:08x}.idx"))).unwrap();
        }

        let Err(OpenError::Corrupt(corruption)) = open(&fs) else { panic!("opened") };

        assert_eq!(corruption.segment, SegmentId(active + 1 - emptied));
    }
}

/// As an earlier version's repair left it that cut the log at the next segment's header.
#[test]
fn a_sidecar_that_more_was_written_behind_tells_nothing() {
    let (fs, opening) = log_of(40);
    let active = opening.group_commit.tail().segment().0;
    drop(opening);
    let opening = open(&fs).unwrap();
    let sealed = opening.group_commit.segments()[0].id;
    assert!(sealed.0 < active);
    work_off(&opening.group_commit);
    drop(opening);
    for segment in 2..=active + 1 {
        FileSystem::remove(&fs, &segment_path(segment)).unwrap();
        let _ = FileSystem::remove(&fs, &dir().join(format!("{segment:08x}.idx")));
    }
    assert!(matches!(open(&fs.fork()), Err(OpenError::Corrupt(_))));
    let index = fs.contents(&dir().join("00000001.idx")).unwrap();
    FileSystem::remove(&fs, &dir().join("00000001.idx")).unwrap();
    drop(open(&fs).unwrap());
    fs.plant(&dir().join("00000001.idx"), &index);

    assert!(open(&fs).is_ok());
}

#[test]
fn a_header_that_is_gone_is_missed_with_any_durability() {
    let fs = SimFileSystem::new(1);
    let open = |fs: &SimFileSystem| open_with(fs, Durability::Os, 4096);
    let opening = open(&fs).unwrap();
    (0..20).for_each(|batch| store(&opening.group_commit, batch, &[batch]).unwrap());
    let active = opening.group_commit.tail().segment();
    drop(opening);
    let mut bytes = fs.contents(&segment_path(active.0)).unwrap();
    bytes[..64].fill(0);
    fs.plant(&segment_path(active.0), &bytes);

    let Err(OpenError::Corrupt(corruption)) = open(&fs) else { panic!("opened") };

    assert_eq!((corruption.segment, corruption.offset), (active, 0));
}

#[test]
fn epochs_grow_when_power_is_lost_whatever_the_durability() {
    for durability in [Durability::Fsync, Durability::Os] {
        let mut fs = SimFileSystem::new(1);
        let mut last = 0;
        for life in 0..30 {
            let opened = open_with(&fs, durability, 4096).unwrap().opened;
            assert!(opened.epoch.0 > last, "{durability:?}: {opened:?} after {last}");
            last = opened.epoch.0;
            fs = fs.crashed(life);
        }
    }
}

#[test]
fn hole_in_the_middle_is_corrupt() {
    let (fs, seen, bytes, _) = small_log();
    let frame = seen[2].position.offset() as usize - 48;
    let next = seen[3].position.offset() as usize - 48;
    let mut damaged = bytes.clone();
    damaged[frame..next].fill(0);

    let fs = fs.fork();
    fs.plant(&segment_path(1), &damaged);
    let Err(OpenError::Corrupt(corruption)) = open(&fs) else { panic!("opened") };

    assert_eq!(corruption.segment, SegmentId(1));
    assert_eq!(corruption.offset as usize, frame);
}

#[test]
fn what_was_read_wrongly_is_not_kept() {
    let (fs, opening) = log_of(20);
    drop(opening);
    // What was written before the start is not in memory.
    let Opening { group_commit, seen, .. } = open(&fs).unwrap();
    let file = fs.open(&segment_path(1)).unwrap();
    let victim = &seen[5];
    let at = u64::from(victim.position.offset()) + 30;
    let mut byte = [0];
    file.read_at(&mut byte, at).unwrap();
    file.write_at(&[&[byte[0] ^ 1]], at).unwrap();
    let read = || seen[..8].iter().map(|seen| group_commit.read(seen.position, seen.record_len));

    let with_damage: Vec<bool> = read().map(|read| read.is_ok()).collect();
    file.write_at(&[&byte], at).unwrap();

    assert_eq!(with_damage, [true, true, true, true, true, false, true, true]);
    assert!(read().all(|read| read.is_ok()));
}

#[test]
fn damaged_header_of_the_active_segment_is_corrupt() {
    let (fs, opening) = log_of(20);
    let active = opening.group_commit.tail().segment();
    drop(opening);
    for at in 0..64 {
        let fs = fs.fork();
        let mut bytes = fs.contents(&segment_path(active.0)).unwrap();
        bytes[at] ^= 1;
        fs.plant(&segment_path(active.0), &bytes);
        let Err(OpenError::Corrupt(corruption)) = open(&fs) else { panic!("opened, byte {at}") };
        assert_eq!((corruption.segment, corruption.offset), (active, 0));
    }
}

#[test]
fn torn_activation_of_a_segment_is_no_damage() {
    let fs = SimFileSystem::new(1);
    let opening = open(&fs).unwrap();
    store(&opening.group_commit, 0, &[1]).unwrap();
    drop(opening);
    let mut torn = vec![0; 4096];
    torn[..20].copy_from_slice(&fs.contents(&segment_path(1)).unwrap()[..20]);
    fs.plant(&segment_path(2), &torn);

    let opening = open(&fs).unwrap();

    assert_eq!(opening.seen.len(), 1);
    for batch in 1..30 {
        store(&opening.group_commit, batch, &[batch + 1]).unwrap();
    }
    drop(opening);
    assert_eq!(open(&fs).unwrap().seen.len(), 30);
}

#[test]
fn missing_segment_is_corrupt() {
    let (fs, opening) = log_of(40);
    drop(opening);
    millrace_journal::FileSystem::remove(&fs, &segment_path(2)).unwrap();

    let Err(OpenError::Corrupt(corruption)) = open(&fs) else { panic!("opened") };

    assert_eq!(corruption.segment, SegmentId(3));
}

#[test]
fn older_generations_and_quoted_frames_behind_the_tail_prove_nothing() {
    let (fs, all, bytes, end) = small_log();
    // Frames of this log at places that are not theirs: a recycled file, or a message body that
    // quotes the journal.
    let mut quoted = bytes.clone();
    let frames = &bytes[64..end as usize];
    let start = (end as usize + 512).next_multiple_of(8);
    quoted[start..start + frames.len()].copy_from_slice(frames);
    assert!(matches!(judge(&fs, &quoted, &all, &"quoted"), Found::Whole));

    // And with a torn last frame before them.
    let last = all[4].position.offset() as usize;
    quoted[last + 20] ^= 1;
    assert!(matches!(judge(&fs, &quoted, &all, &"quoted, torn"), Found::Cut));

    // The same segment of another journal: right places, other salt.
    let other = SimFileSystem::new(99);
    let opening = open(&other).unwrap();
    for batch in 0..4 {
        store(&opening.group_commit, batch, &[batch]).unwrap();
    }
    drop(opening);
    let foreign = other.contents(&segment_path(1)).unwrap();
    let mut mixed = bytes.clone();
    mixed[end as usize..].copy_from_slice(&foreign[end as usize..]);
    assert!(matches!(judge(&fs, &mixed, &all, &"foreign"), Found::Whole));
}

#[test]
fn unsynced_frames_prove_nothing() {
    let fs = SimFileSystem::new(1);
    let opening = open_with(&fs, Durability::Os, 4096).unwrap();
    for batch in 0..4 {
        store(&opening.group_commit, batch, &[batch]).unwrap();
    }
    drop(opening);
    let seen = open_with(&fs.fork(), Durability::Os, 4096).unwrap().seen;
    let fs = fs.fork();
    let mut bytes = fs.contents(&segment_path(1)).unwrap();
    bytes[seen[1].position.offset() as usize] ^= 1;
    fs.plant(&segment_path(1), &bytes);

    let opening = open_with(&fs, Durability::Os, 4096).unwrap();

    assert_eq!(opening.seen.len(), 1, "power loss may take any unsynced frame");
    let torn = opening.opened.torn_tail.unwrap();
    let end = seen[3].position.offset() + seen[3].record_len;
    assert_eq!(torn.offset + torn.bytes, end.next_multiple_of(8), "with all that is behind it");
}

#[test]
fn damaged_body_of_a_sealed_segment_is_noticed_when_read() {
    let (fs, opening) = log_of(40);
    while opening.group_commit.background_step() {}
    drop(opening);
    let victim = open(&fs.fork()).unwrap().seen[2].clone();
    let mut bytes = fs.contents(&segment_path(1)).unwrap();
    bytes[victim.position.offset() as usize + 40] ^= 1;
    fs.plant(&segment_path(1), &bytes);

    let opening = open(&fs).unwrap();

    let read = opening.group_commit.read(victim.position, victim.record_len);
    assert!(matches!(read, Err(millrace_journal::ReadError::Damaged(_))));
    drop(opening);
    assert!(!check(&fs, dir()).unwrap().is_sound(), "check reads bodies too");
}

#[test]
fn epochs_grow_across_every_kind_of_start() {
    let fs = SimFileSystem::new(1);
    let mut last = 0;
    for life in 0..30 {
        let fs = fs.killed();
        let Opened { epoch, first, tail, .. } = open(&fs).unwrap().opened;
        assert!(epoch.0 > last);
        last = epoch.0;
        assert!(first < tail);
        let opening = open(&fs).unwrap();
        store(&opening.group_commit, life, &[life]).unwrap();
        let active = opening.group_commit.tail().segment();
        opening.group_commit.truncate_before(active).unwrap();
        opening.group_commit.close();
    }
}

#[test]
fn reading_what_was_never_written_is_an_error() {
    let fs = SimFileSystem::new(1);
    let opening = open(&fs).unwrap();
    let (_, positions) = append(&opening.group_commit, 0, &[1], Purpose::Store).unwrap();
    opening.group_commit.commit_step();
    for position in [Position(0), Position(u64::MAX), positions[0].plus(4)] {
        for length in [0, 12, 100, u32::MAX] {
            assert!(opening.group_commit.read(position, length).is_err());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() })]

    #[test]
    fn recovery_never_panics(
        cuts in proptest::collection::vec((0_usize..4096, any::<u8>()), 0..40),
        noise in proptest::collection::vec(any::<u8>(), 0..2000),
    ) {
        fuzz_recovery(&noise);
        let (_, _, mut bytes, _) = small_log();
        for (at, value) in cuts {
            bytes[at] = value;
        }
        fuzz_recovery(&bytes);
    }
}
