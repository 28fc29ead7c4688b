//! Checks of what outlives an owner: its end, its successors, its rivals, a full store.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread::JoinHandle;

use super::{SecondOwner, Site, append, fill, fill_from, owner, start, without_cache};
use crate::error::{OpenError, Unavailable};
use crate::group::GroupCommit;
use crate::owner::Owner;
use crate::position::Purpose;
use crate::record::Record;
use crate::store::Unowned;

/// A log that was recovered, and the numbers of the records that it showed.
fn recover(site: &dyn Site) -> (Box<dyn Unowned>, Vec<u32>) {
    let mut shown = Vec::new();
    let recovered = site.store().recover(&mut |record| {
        shown.push(u32::from_le_bytes(record.index.try_into().expect("a number")));
    });
    (recovered.expect("the log is recovered"), shown)
}

/// The same, and an epoch of its own.
fn open(site: &dyn Site) -> (Arc<GroupCommit>, Vec<u32>) {
    let (unowned, shown) = recover(site);
    (without_cache(unowned.start_epoch(&owner()).expect("an epoch is started")), shown)
}

fn numbers(range: std::ops::Range<u32>) -> Vec<u32> {
    range.collect()
}

/// Numbers of all records that the open journal holds.
fn held(group_commit: &GroupCommit) -> Vec<u32> {
    let mut held = Vec::new();
    for segment in group_commit.segments() {
        let replayed = group_commit.replay_segment(segment.id, &mut |record| {
            held.push(u32::from_le_bytes(record.index.try_into().expect("a number")));
            ControlFlow::Continue(())
        });
        replayed.expect("the segment is replayed");
    }
    held
}

pub(super) fn opened_again_it_shows_what_was_committed(site: &mut dyn Site) {
    let group_commit = without_cache(start(site));
    let before = group_commit.opened();
    let places = fill(&group_commit, 30);
    let tail = group_commit.tail();
    group_commit.close();
    drop(group_commit);

    let (group_commit, shown) = open(site);

    assert_eq!(shown, numbers(0..30));
    assert!(group_commit.opened().epoch > before.epoch);
    assert_eq!(group_commit.opened().first, before.first);
    assert!(group_commit.opened().tail > tail, "the OPEN frame is behind what there was");
    for (at, len) in places {
        assert!(group_commit.read(at, len).is_ok(), "at {at}");
    }
    fill_from(&group_commit, 30, 5);
    assert_eq!(held(&group_commit), numbers(0..35), "OPEN frames show no records");
}

pub(super) fn recovering_starts_no_epoch(site: &mut dyn Site) {
    let group_commit = without_cache(start(site));
    let opened = group_commit.opened();
    fill(&group_commit, 3);
    let tail = group_commit.tail();
    group_commit.close();
    drop(group_commit);

    for _ in 0..2 {
        let (unowned, shown) = recover(site);

        assert_eq!(shown, numbers(0..3));
        assert_eq!(unowned.end().tail, tail);
        assert_eq!(unowned.end().chain.epoch, opened.epoch);
    }
    let (group_commit, _) = open(site);
    assert_eq!(group_commit.opened().epoch.0, opened.epoch.0 + 1);
}

pub(super) fn log_names_its_owner(site: &mut dyn Site) {
    let (unowned, _) = recover(site);
    assert_eq!(unowned.owner().expect("read"), None, "a new log has none");
    drop(unowned);
    for number in 0..3 {
        let named = Owner {
            node: format!("node-{number}"),
            url: format!("http://node-{number}:4566"),
            opened_at_ms: 1_700_000_000_000 + number,
            ..owner()
        };
        let (unowned, _) = recover(site);
        let journal = unowned.start_epoch(&named).expect("an epoch is started");
        let group_commit = without_cache(journal);
        // So that the OPEN frame is in another segment than the end.
        fill_from(&group_commit, 0, 40);
        group_commit.close();
        drop(group_commit);

        let (unowned, _) = recover(site);
        assert_eq!(unowned.owner().expect("read"), Some(named));
    }
}

pub(super) fn crash_loses_only_what_was_not_committed(site: &mut dyn Site) {
    let mut next = 0;
    for _ in 0..3 {
        let (group_commit, shown) = open(site);
        assert!(shown == numbers(0..next) || shown == numbers(0..next + 3), "{shown:?}");
        next = shown.len() as u32;
        fill_from(&group_commit, next, 20);
        next += 20;
        // One batch, whole or not at all.
        let indexes = [0, 1, 2].map(|number| (next + number).to_le_bytes());
        let records = indexes.each_ref().map(|index| Record { index, payload: &[9; 500] });
        append(&group_commit, &records, &mut Vec::new());

        site.crash();
        while group_commit.commit_step() {}
    }
}

pub(super) fn truncated_records_do_not_come_back(site: &mut dyn Site) {
    let group_commit = without_cache(start(site));
    let places = fill(&group_commit, 60);
    let before = group_commit.segments();
    let cut = before[before.len() / 2].id;
    group_commit.truncate_before(cut).expect("truncated");
    while group_commit.background_step() {}
    fill_from(&group_commit, 60, 1);
    group_commit.close();
    drop(group_commit);

    let (group_commit, shown) = open(site);

    let first = places.iter().position(|(at, _)| at.segment() >= cut).expect("some are left");
    assert_eq!(shown, numbers(first as u32..61));
    assert_eq!(group_commit.opened().first.segment(), cut);
    assert_eq!(held(&group_commit), shown);
}

pub(super) fn second_owner_is_refused_or_fences_the_first(site: &mut dyn Site) {
    let first = without_cache(start(site));
    fill(&first, 5);
    let index = 100_u32.to_le_bytes();
    let record = Record { index: &index, payload: &[] };

    match site.second_owner() {
        SecondOwner::Refused => {
            let refused = site.store().recover(&mut |_| {}).err();
            assert!(matches!(refused, Some(OpenError::Locked { .. })), "{refused:?}");
            fill_from(&first, 5, 1);
            first.close();
            drop(first);
            assert_eq!(open(site).1, numbers(0..6));
        }
        SecondOwner::Fences => {
            let (second, shown) = open(site);
            assert_eq!(shown, numbers(0..5));
            let late = append(&first, &[record], &mut Vec::new());
            first.commit_step();
            let epoch = second.opened().epoch;
            assert_eq!(first.outcome(late), Some(Err(Unavailable::Fenced(epoch))));
            assert_eq!(first.ended(), Some(Unavailable::Fenced(epoch)));
            assert!(!Unavailable::Fenced(epoch).needs_restart());
            let refused = first.reserve(100, Purpose::Reclaim).err();
            assert_eq!(refused, Some(Unavailable::Fenced(epoch)));
            fill_from(&second, 5, 5);
            drop(second);
            assert_eq!(open(site).1, numbers(0..10));
        }
    }
}

pub(super) fn of_candidates_at_one_end_one_becomes_owner(site: &mut dyn Site) {
    if site.second_owner() == SecondOwner::Refused {
        let held = site.store().recover(&mut |_| {}).expect("the log is recovered");
        let refused = site.store().recover(&mut |_| {}).err();
        assert!(matches!(refused, Some(OpenError::Locked { .. })), "{refused:?}");
        drop(held);
        start(site);
        return;
    }
    fill(&without_cache(start(site)), 3);
    let candidates: Vec<_> = (0..4).map(|_| recover(site).0).collect();

    let opened: Vec<_> = candidates.into_iter().map(|it| it.start_epoch(&owner())).collect();

    let owners: Vec<_> = opened.iter().flatten().map(|journal| journal.opened().epoch).collect();
    assert_eq!(owners.len(), 1);
    for refused in opened.iter().filter_map(|opened| opened.as_ref().err()) {
        assert!(matches!(refused, OpenError::Fenced(epoch) if *epoch == owners[0]), "{refused}");
    }
    let (next, shown) = open(site);
    assert_eq!((next.opened().epoch.0, shown), (owners[0].0 + 1, numbers(0..3)));
}

pub(super) fn owner_that_was_cut_off_acknowledges_nothing(site: &mut dyn Site) {
    let first = without_cache(start(site));
    let places = fill(&first, 20);
    site.cut_off();
    let indexes = [20, 21, 22_u32].map(u32::to_le_bytes);
    let records = indexes.each_ref().map(|index| Record { index, payload: &[9; 500] });
    let lost = append(&first, &records, &mut Vec::new());
    while first.commit_step() {}

    let end = first.ended().expect("the owner learns that it is cut off");
    assert_eq!(first.outcome(lost), Some(Err(end.clone())));
    assert_eq!(first.reserve(100, Purpose::Reclaim).err(), Some(end.clone()));
    let is_unknown = matches!(end, Unavailable::NotSettled(_) | Unavailable::Poisoned(_));
    assert!(is_unknown || matches!(end, Unavailable::Fenced(_)), "{end}");
    assert!(first.read(places[0].0, places[0].1).is_ok(), "reading goes on");
    let first = match site.second_owner() {
        SecondOwner::Refused => {
            drop(first);
            None
        }
        SecondOwner::Fences => Some(first),
    };
    let (second, shown) = open(site);
    assert!(shown == numbers(0..20) || shown == numbers(0..23), "{shown:?}");
    let kept = shown.len() as u32;
    fill_from(&second, kept, 5);
    if let Some(first) = first {
        assert!(!first.commit_step(), "the first appends nothing more");
        first.close();
    }
    drop(second);
    assert_eq!(open(site).1, numbers(0..kept + 5));
}

pub(super) fn owners_follow_one_another_in_one_process(site: &mut dyn Site) {
    let mut before: Option<Running> = None;
    for round in 0..20 {
        if site.second_owner() == SecondOwner::Refused {
            before.take().into_iter().for_each(Running::stop);
        }
        let (group_commit, shown) = open(site);
        assert_eq!(shown, numbers(0..round));
        let running = Running::start(group_commit);
        assert_eq!(running.commit(round), Ok(()));
        if let Some(before) = before.take() {
            let fenced = Unavailable::Fenced(running.group_commit.opened().epoch);
            assert_eq!(before.commit(round + 1), Err(fenced));
            before.stop();
        }
        before = Some(running);
    }
}

/// An owner with its threads.
struct Running {
    group_commit: Arc<GroupCommit>,
    committer: JoinHandle<()>,
}

impl Running {
    fn start(group_commit: Arc<GroupCommit>) -> Self {
        let committer = group_commit.spawn_committer().expect("threads start");
        Self { group_commit, committer }
    }

    fn commit(&self, number: u32) -> Result<(), Unavailable> {
        let index = number.to_le_bytes();
        let record = Record { index: &index, payload: &[] };
        let ticket = append(&self.group_commit, &[record], &mut Vec::new());
        loop {
            self.group_commit.commit_step();
            if let Some(outcome) = self.group_commit.outcome(ticket) {
                return outcome;
            }
        }
    }

    /// Ends it without a trace.
    fn stop(self) {
        self.group_commit.close();
        self.committer.join().expect("the committing thread ends");
        assert_eq!(Arc::strong_count(&self.group_commit), 1, "all threads have ended");
    }
}

pub(super) fn full_store_refuses_what_adds_and_takes_what_frees(site: &mut dyn Site) {
    let group_commit = without_cache(start(site));
    fill(&group_commit, 5);
    site.fill();
    let payload = vec![7; 1000];
    let mut stored = 5;
    let refusal = loop {
        let index: [u8; 4] = u32::to_le_bytes(stored);
        let record = Record { index: &index, payload: &payload };
        match group_commit.reserve(record.encoded_bytes(), Purpose::Store) {
            Ok(reservation) => {
                group_commit.append(reservation, &[record], &mut Vec::new());
                while group_commit.commit_step() {}
                stored += 1;
            }
            Err(refusal) => break refusal,
        }
        assert!(stored < 1000, "the store is never full");
    };
    assert_eq!(refusal, Unavailable::DiskFull);
    assert!(group_commit.stats().is_full);

    let index = stored.to_le_bytes();
    let reservation = group_commit.reserve(16, Purpose::Reclaim).expect("what frees is taken");
    let freed =
        group_commit.append(reservation, &[Record { index: &index, payload: &[] }], &mut vec![]);
    while group_commit.commit_step() {}
    assert_eq!(group_commit.outcome(freed), Some(Ok(())));
    site.free();
    fill_from(&group_commit, stored + 1, 20);

    assert!(!group_commit.stats().is_full);
    assert_eq!(group_commit.ended(), None);
    group_commit.close();
    drop(group_commit);
    assert_eq!(open(site).1, numbers(0..stored + 21));
}
