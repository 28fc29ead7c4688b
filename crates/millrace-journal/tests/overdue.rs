//! Appends that are not settled in time.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "tests")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use common::append_records;
use millrace_journal::{
    GroupCommit, GroupOptions, JournalStore, MemoryStore, Owner, Record, Ticket, Unavailable,
};

const LIMIT: Duration = Duration::from_secs(10);

fn open(store: &MemoryStore) -> Arc<GroupCommit> {
    let unowned = store.recover(&mut |_| {}).unwrap();
    let options = GroupOptions { settle_limit: LIMIT, ..GroupOptions::default() };
    GroupCommit::new(unowned.start_epoch(&Owner::unnamed(1)).unwrap(), options)
}

fn append(group_commit: &GroupCommit) -> Ticket {
    let record = Record { index: b"index", payload: b"payload" };
    append_records(group_commit, &[record], &mut Vec::new())
}

/// Lets time pass, with the looks that are due meanwhile.
fn pass(store: &MemoryStore, group_commit: &GroupCommit, time: Duration) {
    let pause = group_commit.overdue_pause();
    for _ in 0..(time.as_nanos() / pause.as_nanos()) {
        store.advance(pause);
        group_commit.end_overdue_waits();
    }
}

fn is_unknown(outcome: Option<Result<(), Unavailable>>) -> bool {
    matches!(outcome, Some(Err(Unavailable::NotSettled(_))))
}

#[test]
fn waits_for_an_append_that_does_not_settle_end_and_the_append_goes_on() {
    let store = MemoryStore::new(64 << 10);
    let group_commit = open(&store);
    let told = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&told);
    group_commit.on_commit(Box::new(move || {
        counter.fetch_add(1, Ordering::Relaxed);
    }));
    let ticket = append(&group_commit);
    let stall = store.stall();
    std::thread::scope(|scope| {
        // Hangs in the append.
        let committing = scope.spawn(|| group_commit.commit_step());
        pass(&store, &group_commit, LIMIT);
        assert_eq!(group_commit.outcome_in_time(ticket), None, "not before the limit");
        assert_eq!(told.load(Ordering::Relaxed), 0);

        pass(&store, &group_commit, LIMIT / 4);

        let outcome = group_commit.outcome_in_time(ticket);
        assert!(is_unknown(outcome.clone()), "{outcome:?}");
        assert_eq!(
            outcome.unwrap().unwrap_err().to_string(),
            "outcome unknown: not settled within 10 s"
        );
        assert_eq!(told.load(Ordering::Relaxed), 1, "told once, however often is looked");
        assert_eq!(group_commit.outcome(ticket), None, "it may still be settled");
        assert_eq!(group_commit.ended(), None);
        assert!(group_commit.is_stalled());
        assert!(group_commit.oldest_unsettled().unwrap() > LIMIT);
        drop(stall);
        assert!(committing.join().unwrap());
    });
    assert_eq!(group_commit.outcome_in_time(ticket), Some(Ok(())));
    assert_eq!(group_commit.oldest_unsettled(), None);
    assert!(!group_commit.is_stalled());
}

#[test]
fn appends_that_come_while_a_commit_hangs_have_their_own_time() {
    let store = MemoryStore::new(64 << 10);
    let group_commit = open(&store);
    let mut tickets = vec![append(&group_commit)];
    let stall = store.stall();
    std::thread::scope(|scope| {
        let committing = scope.spawn(|| while group_commit.commit_step() {});
        // One every 1.25 s. The first is taken to be committed, and all others gather behind it.
        for _ in 0..10 {
            pass(&store, &group_commit, 2 * group_commit.overdue_pause());
            tickets.push(append(&group_commit));
        }

        let overdue: Vec<_> = tickets
            .iter()
            .map(|ticket| is_unknown(group_commit.outcome_in_time(*ticket)))
            .collect();

        assert!(overdue[0], "12.5 s old");
        assert!(!overdue[3..].contains(&true), "8.75 s old or less: {overdue:?}");
        drop(stall);
        committing.join().unwrap();
    });
    let settled = |ticket: &Ticket| group_commit.outcome_in_time(*ticket) == Some(Ok(()));
    assert!(tickets.iter().all(settled));
}

#[test]
fn ages_are_those_of_the_oldest_wait_and_the_latest_commit() {
    let store = MemoryStore::new(64 << 10);
    let group_commit = open(&store);
    let seconds = |age: Option<Duration>| age.map(|age| age.as_secs());
    assert_eq!((group_commit.oldest_unsettled(), group_commit.last_settled()), (None, None));

    append(&group_commit);
    store.advance(Duration::from_secs(3));
    append(&group_commit);
    assert_eq!(seconds(group_commit.oldest_unsettled()), Some(3));
    group_commit.commit_step();
    store.advance(Duration::from_secs(4));

    assert_eq!(group_commit.oldest_unsettled(), None);
    assert_eq!(seconds(group_commit.last_settled()), Some(4));
    let stats = group_commit.stats();
    assert_eq!((stats.oldest_unsettled, seconds(stats.last_settled)), (None, Some(4)));
}
