//! Checks of one owner's appends and reads.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use super::{Site, append, fill, start, without_cache};
use crate::error::{AppendError, ReadError, TruncateError, Unavailable};
use crate::frame::{Chain, Frame, FrameKind};
use crate::group::{GroupCommit, GroupOptions};
use crate::position::{Epoch, Purpose, SegmentId};
use crate::record::Record;

pub(super) fn opens_with_an_epoch_and_a_tail_behind_it(site: &mut dyn Site) {
    let journal = start(site);
    let opened = journal.opened();

    assert!(opened.epoch.0 >= 1);
    assert!(opened.first < opened.tail, "the OPEN frame is before the tail");
    assert_eq!(opened.torn_tail, None);
    assert_eq!(journal.chain().epoch, opened.epoch);
}

pub(super) fn positions_are_final_and_ascend(site: &mut dyn Site) {
    let journal = start(site);
    let group_commit = without_cache(journal);
    let payload = vec![1; 700];
    let mut expected = Vec::new();
    for number in 0..60_u32 {
        let index = number.to_le_bytes();
        let mut positions = Vec::new();
        append(&group_commit, &[Record { index: &index, payload: &payload }], &mut positions);
        expected.extend(positions.iter().map(|at| (*at, number)));
        if number % 7 == 0 {
            while group_commit.commit_step() {}
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

pub(super) fn reads_back_at_every_stage(site: &mut dyn Site) {
    let journal = start(site);
    let group_commit = GroupCommit::new(journal, GroupOptions::default());
    let record = Record { index: b"index", payload: b"payload" };
    let len = record.encoded_bytes() as u32;
    let mut positions = Vec::new();
    let read = |at| match group_commit.read(at, len) {
        Ok(found) => assert_eq!((found.index(), found.payload()), (record.index, record.payload)),
        Err(error) => panic!("{error}"),
    };
    append(&group_commit, &[record], &mut positions);
    append(&group_commit, &[record], &mut positions);
    for at in &positions {
        read(*at);
    }
    group_commit.commit_step();
    let committed = positions.clone();
    append(&group_commit, &[record], &mut positions);
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

pub(super) fn reads_several_in_any_order(site: &mut dyn Site) {
    let journal = start(site);
    let group_commit = without_cache(journal);
    let payload = [9; 700];
    let mut wanted = Vec::new();
    for number in 0..100_u64 {
        let index = number.to_le_bytes();
        let record = Record { index: &index, payload: &payload[..(number as usize * 37) % 700] };
        let mut positions = Vec::new();
        append(&group_commit, &[record], &mut positions);
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

pub(super) fn batch_is_in_one_frame(site: &mut dyn Site) {
    let journal = start(site);
    let room = journal.max_frame_bytes() as usize;
    let group_commit = without_cache(journal);
    let payload = vec![3; room / 5];
    let record = Record { index: b"", payload: &payload };
    let mut positions = Vec::new();

    for _ in 0..5 {
        append(&group_commit, &[record; 3], &mut positions);
        while group_commit.commit_step() {}
    }

    for batch in positions.chunks(3) {
        let segments: BTreeSet<_> = batch.iter().map(|at| at.segment()).collect();
        assert_eq!(segments.len(), 1, "batch spans segments: {batch:?}");
        let gaps: BTreeSet<_> = batch.windows(2).map(|two| two[1].0 - two[0].0).collect();
        assert_eq!(gaps, BTreeSet::from([record.encoded_bytes() as u64]));
    }
}

pub(super) fn replay_shows_each_record_once(site: &mut dyn Site) {
    let journal = start(site);
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

pub(super) fn replay_breaks_off(site: &mut dyn Site) {
    let journal = start(site);
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

pub(super) fn truncation_takes_only_the_oldest(site: &mut dyn Site) {
    let journal = start(site);
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

pub(super) fn stale_frame_is_fenced(site: &mut dyn Site) {
    let journal = start(site);
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

pub(super) fn oversized_batch_is_refused(site: &mut dyn Site) {
    let journal = start(site);
    let room = journal.max_frame_bytes() as usize;
    let group_commit = without_cache(journal);

    let refused = group_commit.reserve(room, Purpose::Store);

    assert!(matches!(refused, Err(Unavailable::TooLarge { .. })));
}
