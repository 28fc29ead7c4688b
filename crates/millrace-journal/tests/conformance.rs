//! What every journal must do, checked of each implementation.
//!
//! A check takes a fresh journal and panics where that breaks its contract.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "tests")]

mod common;

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use common::append_records;
use millrace_journal::frame::{Chain, Frame, FrameKind};
use millrace_journal::{
    AppendError, Durability, Epoch, FileSystem, GroupCommit, GroupOptions, Journal, LocalJournal,
    LocalOptions, MemoryJournal, Position, Purpose, ReadError, RealFileSystem, Record, SegmentId,
    SimFileSystem, TruncateError, Unavailable,
};

const SEGMENT_BYTES: u32 = 16 << 10;

fn local(fs: Arc<dyn FileSystem>, dir: &Path, durability: Durability) -> Box<dyn Journal> {
    let options =
        LocalOptions { durability, segment_bytes: SEGMENT_BYTES, ..LocalOptions::default() };
    Box::new(LocalJournal::open(fs, dir, options, &mut |_| {}).unwrap().0)
}

fn run(mut fresh: impl FnMut() -> Box<dyn Journal>) {
    for (name, check) in checks() {
        println!("{name}");
        check(fresh());
    }
}

#[test]
fn memory_journal_conforms() {
    run(|| Box::new(MemoryJournal::new(SEGMENT_BYTES)));
}

#[test]
fn local_journal_conforms_on_a_simulated_disk() {
    for durability in [Durability::Fsync, Durability::Os] {
        run(|| local(Arc::new(SimFileSystem::new(1)), Path::new("/journal"), durability));
    }
}

#[test]
fn local_journal_conforms_on_a_real_disk() {
    let root = tempfile::tempdir().unwrap();
    let mut number = 0;
    run(|| {
        number += 1;
        let dir = root.path().join(number.to_string());
        local(RealFileSystem::new(), &dir, Durability::Fsync)
    });
}

/// A check and its name.
type Check = (&'static str, fn(Box<dyn Journal>));

/// All checks.
fn checks() -> Vec<Check> {
    vec![
        ("opens_with_an_epoch_and_a_tail_behind_it", opens_with_an_epoch_and_a_tail_behind_it),
        ("positions_are_final_and_ascend", positions_are_final_and_ascend),
        ("reads_back_at_every_stage", reads_back_at_every_stage),
        ("reads_several_in_any_order", reads_several_in_any_order),
        ("batch_is_in_one_frame", batch_is_in_one_frame),
        ("replay_shows_each_record_once", replay_shows_each_record_once),
        ("replay_breaks_off", replay_breaks_off),
        ("truncation_takes_only_the_oldest", truncation_takes_only_the_oldest),
        ("stale_frame_is_fenced", stale_frame_is_fenced),
        ("oversized_batch_is_refused", oversized_batch_is_refused),
    ]
}

fn without_cache(journal: Box<dyn Journal>) -> Arc<GroupCommit> {
    GroupCommit::new(journal, GroupOptions { recent_bytes: 0, ..GroupOptions::default() })
}

/// Appends and commits `count` records of about 1 KiB, each in its own group.
fn fill(group_commit: &Arc<GroupCommit>, count: u32) -> Vec<(Position, u32)> {
    let payload = vec![7; 1000];
    let mut places = Vec::new();
    for number in 0..count {
        let index = number.to_le_bytes();
        let record = Record { index: &index, payload: &payload };
        let mut positions = Vec::new();
        let ticket = append_records(group_commit, &[record], &mut positions);
        while group_commit.commit_step() {}
        assert_eq!(group_commit.outcome(ticket), Some(Ok(())));
        places.extend(positions.iter().map(|at| (*at, record.encoded_bytes() as u32)));
    }
    places
}

fn opens_with_an_epoch_and_a_tail_behind_it(journal: Box<dyn Journal>) {
    let opened = journal.opened();

    assert!(opened.epoch.0 >= 1);
    assert!(opened.first < opened.tail, "the OPEN frame is before the tail");
    assert_eq!(opened.torn_tail, None);
    assert_eq!(journal.chain().epoch, opened.epoch);
}

fn positions_are_final_and_ascend(journal: Box<dyn Journal>) {
    let group_commit = without_cache(journal);
    let payload = vec![1; 700];
    let mut expected = Vec::new();
    for number in 0..60_u32 {
        let index = number.to_le_bytes();
        let mut positions = Vec::new();
        append_records(
            &group_commit,
            &[Record { index: &index, payload: &payload }],
            &mut positions,
        );
        expected.extend(positions.iter().map(|at| (*at, number)));
        if number % 7 == 0 {
            group_commit.commit_step();
        }
    }
    while group_commit.commit_step() {}

    assert!(expected.is_sorted());
    for (at, number) in expected {
        match group_commit.read(at, 12 + 4 + 700) {
            Ok(record) => assert_eq!(record.index(), number.to_le_bytes()),
            Err(error) => panic!("{error}"),
        }
    }
}

fn reads_back_at_every_stage(journal: Box<dyn Journal>) {
    let group_commit = GroupCommit::new(journal, GroupOptions::default());
    let record = Record { index: b"index", payload: b"payload" };
    let len = record.encoded_bytes() as u32;
    let mut positions = Vec::new();
    let read = |at| match group_commit.read(at, len) {
        Ok(found) => assert_eq!((found.index(), found.payload()), (record.index, record.payload)),
        Err(error) => panic!("{error}"),
    };
    append_records(&group_commit, &[record], &mut positions);
    append_records(&group_commit, &[record], &mut positions);
    for at in &positions {
        read(*at);
    }
    group_commit.commit_step();
    let committed = positions.clone();
    append_records(&group_commit, &[record], &mut positions);
    for at in positions.iter().chain(&committed) {
        read(*at);
    }
    let mut found = Vec::new();
    let wanted: Vec<_> = positions.iter().map(|at| (*at, len)).collect();
    assert!(group_commit.read_many(&wanted, &mut found).is_ok());
    assert_eq!(found.len(), positions.len());
    let behind = group_commit.tail();
    assert!(matches!(group_commit.read(behind, len), Err(ReadError::Gone(_))));
}

fn reads_several_in_any_order(journal: Box<dyn Journal>) {
    let group_commit = without_cache(journal);
    let payload = [9; 700];
    let mut wanted = Vec::new();
    for number in 0..100_u64 {
        let index = number.to_le_bytes();
        let record = Record { index: &index, payload: &payload[..(number as usize * 37) % 700] };
        let mut positions = Vec::new();
        append_records(&group_commit, &[record], &mut positions);
        wanted.extend(positions.iter().map(|at| (number, (*at, record.encoded_bytes() as u32))));
        if number % 5 == 0 {
            group_commit.commit_step();
        }
    }
    while group_commit.commit_step() {}

    let backwards = wanted.iter().rev().copied().collect();
    let twice = wanted.iter().flat_map(|one| [*one, *one]).collect();
    let with_gaps = wanted.iter().step_by(13).copied().collect();
    for asked in [wanted.clone(), backwards, twice, with_gaps] {
        let places: Vec<_> = asked.iter().map(|(_, place)| *place).collect();
        let mut found = Vec::new();
        if let Err(error) = group_commit.read_many(&places, &mut found) {
            panic!("{error}");
        }
        let numbers: Vec<_> = found.iter().map(|record| record.index().to_vec()).collect();
        let expected: Vec<_> = asked.iter().map(|(number, _)| number.to_le_bytes()).collect();
        assert_eq!(numbers, expected);
    }
}

fn batch_is_in_one_frame(journal: Box<dyn Journal>) {
    let room = journal.placement().max_frame_bytes() as usize;
    let group_commit = without_cache(journal);
    let payload = vec![3; room / 5];
    let record = Record { index: b"", payload: &payload };
    let mut positions = Vec::new();

    for _ in 0..5 {
        append_records(&group_commit, &[record; 3], &mut positions);
        while group_commit.commit_step() {}
    }

    for batch in positions.chunks(3) {
        let segments: BTreeSet<_> = batch.iter().map(|at| at.segment()).collect();
        assert_eq!(segments.len(), 1, "batch spans segments: {batch:?}");
        let gaps: BTreeSet<_> = batch.windows(2).map(|two| two[1].0 - two[0].0).collect();
        assert_eq!(gaps, BTreeSet::from([record.encoded_bytes() as u64]));
    }
}

fn replay_shows_each_record_once(journal: Box<dyn Journal>) {
    let group_commit = without_cache(journal);
    let places = fill(&group_commit, 50);
    while group_commit.background_step() {}
    let mut seen = Vec::new();

    for segment in group_commit.segments() {
        let replayed = group_commit.replay_segment(segment.id, &mut |record| {
            assert_eq!(record.payload_len, 1000);
            assert_eq!(record.index, (seen.len() as u32).to_le_bytes());
            seen.push((record.position, record.record_len));
            ControlFlow::Continue(())
        });
        assert!(replayed.is_ok());
    }

    assert_eq!(seen, places);
}

fn replay_breaks_off(journal: Box<dyn Journal>) {
    let group_commit = without_cache(journal);
    fill(&group_commit, 5);
    let segment = group_commit.opened().first.segment();
    let mut seen = 0;

    let replayed = group_commit.replay_segment(segment, &mut |_| {
        seen += 1;
        if seen == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });

    assert!(replayed.is_ok());
    assert_eq!(seen, 2);
}

fn truncation_takes_only_the_oldest(journal: Box<dyn Journal>) {
    let group_commit = without_cache(journal);
    let places = fill(&group_commit, 60);
    let before = group_commit.segments();
    let cut = before[before.len() / 2].id;

    assert!(group_commit.truncate_before(cut).is_ok());
    while group_commit.background_step() {}

    let after = group_commit.segments();
    assert_eq!(after, before.iter().copied().filter(|info| info.id >= cut).collect::<Vec<_>>());
    for (at, len) in places {
        let read = group_commit.read(at, len);
        assert_eq!(read.is_ok(), at.segment() >= cut, "at {at}");
    }
    let past = SegmentId(after[after.len() - 1].id.0 + 1);
    let refused = group_commit.truncate_before(past);
    assert!(matches!(refused, Err(TruncateError::Active { .. })));
}

fn stale_frame_is_fenced(journal: Box<dyn Journal>) {
    let salt = journal.salt();
    let tail = journal.opened().tail;
    let chain = journal.chain();
    let frame = |chain: &Chain| {
        let header = chain.next(FrameKind::Data, tail, journal.prior());
        Frame::seal(header, bytes::Bytes::from_static(&[0; 8]), salt)
    };
    let older = Chain { epoch: Epoch(chain.epoch.0 - 1), ..chain };
    let gap = Chain { counter: chain.counter + 1, ..chain };
    let other = Chain { previous: chain.previous ^ 1, ..chain };

    for stale in [older, gap, other] {
        assert!(matches!(journal.append(&frame(&stale)), Err(AppendError::Fenced(_))));
    }
    assert_eq!(journal.append(&frame(&chain)), Ok(()));
    assert!(matches!(journal.append(&frame(&chain)), Err(AppendError::Fenced(_))));
}

fn oversized_batch_is_refused(journal: Box<dyn Journal>) {
    let room = journal.placement().max_frame_bytes() as usize;
    let group_commit = without_cache(journal);

    let refused = group_commit.reserve(room, Purpose::Store);

    assert!(matches!(refused, Err(Unavailable::TooLarge { .. })));
}
