//! Real threads on a real disk.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "tests")]

mod common;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use common::{append_records, wait};
use millrace_journal::{
    Durability, GroupCommit, GroupOptions, LocalJournal, LocalOptions, Position, Purpose,
    RealFileSystem, Record, SimFileSystem, Ticket, Unavailable,
};

const APPENDERS: u64 = 8;
const BATCHES: u64 = 300;

fn open(dir: &Path) -> (Arc<GroupCommit>, BTreeMap<u64, (Position, u32)>) {
    open_with(dir, Durability::Fsync)
}

fn open_with(
    dir: &Path,
    durability: Durability,
) -> (Arc<GroupCommit>, BTreeMap<u64, (Position, u32)>) {
    let options = LocalOptions { segment_bytes: 256 << 10, durability, ..LocalOptions::default() };
    let mut seen = BTreeMap::new();
    let (journal, _) = LocalJournal::open(RealFileSystem::new(), dir, options, &mut |record| {
        let id = u64::from_le_bytes(record.index.try_into().unwrap());
        assert_eq!(seen.insert(id, (record.position, record.record_len)), None, "twice");
    })
    .unwrap();
    let options = GroupOptions { recent_bytes: 64 << 10, ..GroupOptions::default() };
    (GroupCommit::new(Box::new(journal), options), seen)
}

/// Which takes no time unless told to.
fn on_a_simulated_disk() -> (Arc<GroupCommit>, SimFileSystem) {
    let fs = SimFileSystem::new(1);
    let (dir, options) = (Path::new("/journal"), LocalOptions::default());
    let opened = LocalJournal::open(Arc::new(fs.clone()), dir, options, &mut |_| {});
    (GroupCommit::new(Box::new(opened.unwrap().0), GroupOptions::default()), fs)
}

fn payload(id: u64) -> Vec<u8> {
    vec![id as u8; 200 + (id % 700) as usize]
}

fn reserve(group_commit: &GroupCommit, bytes: usize) -> millrace_journal::Reservation<'_> {
    loop {
        match group_commit.reserve(bytes, Purpose::Store) {
            Ok(reservation) => return reservation,
            Err(Unavailable::Backlog { .. }) => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
}

fn appender(group_commit: &Arc<GroupCommit>, number: u64) {
    let mut places = Vec::new();
    for batch in 0..BATCHES {
        let ids = [0, 1].map(|half| (number * BATCHES + batch) * 2 + half);
        let contents = ids.map(|id| (id.to_le_bytes(), payload(id)));
        let records = [0, 1]
            .map(|half: usize| Record { index: &contents[half].0, payload: &contents[half].1 });
        let bytes = records.iter().map(Record::encoded_bytes).sum();
        let reservation = reserve(group_commit, bytes);
        let mut positions = Vec::new();
        let ticket = group_commit.append(reservation, &records, &mut positions);
        for (at, record) in positions.iter().zip(&records) {
            places.push((
                *at,
                record.encoded_bytes() as u32,
                u64::from_le_bytes(record.index.try_into().unwrap()),
            ));
        }
        if batch % 3 != 0 {
            wait(group_commit, ticket).unwrap();
        }
        // Reads of what gathers, what is being written, what was written, and of the disk.
        for step in [1, 2, 7, 61, 401] {
            let Some((at, len, id)) = places.len().checked_sub(step).map(|at| places[at]) else {
                continue;
            };
            let record = group_commit.read(at, len);
            match record {
                Ok(record) => assert_eq!(record.payload(), payload(id)),
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[test]
fn many_appenders_share_commits_and_lose_nothing() {
    let root = tempfile::tempdir().unwrap();
    let (group_commit, _) = open(root.path());
    let commits = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&commits);
    group_commit.on_commit(Box::new(move || {
        counted.fetch_add(1, Ordering::Relaxed);
    }));
    let committer = group_commit.spawn_committer().unwrap();

    std::thread::scope(|scope| {
        for number in 0..APPENDERS {
            let group_commit = &group_commit;
            scope.spawn(move || appender(group_commit, number));
        }
    });
    group_commit.close();
    committer.join().unwrap();

    let stats = group_commit.stats();
    assert_eq!(stats.records, APPENDERS * BATCHES * 2);
    assert!(stats.groups < APPENDERS * BATCHES, "{} groups", stats.groups);
    assert_eq!(commits.load(Ordering::Relaxed), stats.groups);
    assert_eq!(stats.waiting_bytes, 0);
    assert!(group_commit.segments().len() > 4);
    let mut replayed = 0;
    for segment in group_commit.segments() {
        group_commit
            .replay_segment(segment.id, &mut |_| {
                replayed += 1;
                ControlFlow::Continue(())
            })
            .unwrap();
    }
    assert_eq!(replayed, stats.records);

    drop(group_commit);
    let (group_commit, seen) = open(root.path());
    assert_eq!(seen.len() as u64, APPENDERS * BATCHES * 2);
    for (id, (at, len)) in seen {
        assert_eq!(group_commit.read(at, len).unwrap().payload(), payload(id));
    }
}

#[test]
fn truncation_runs_beside_appends() {
    let root = tempfile::tempdir().unwrap();
    let (group_commit, _) = open(root.path());
    let committer = group_commit.spawn_committer().unwrap();
    let payload = vec![1; 1000];
    let mut positions = Vec::new();
    for id in 0..4000_u64 {
        let index = id.to_le_bytes();
        let record = Record { index: &index, payload: &payload };
        let ticket = append_records(&group_commit, &[record], &mut positions);
        if id % 16 == 0 {
            wait(&group_commit, ticket).unwrap();
        }
        let segments = group_commit.segments();
        if segments.len() > 2 {
            group_commit.truncate_before(segments[1].id).unwrap();
        }
    }
    group_commit.close();
    committer.join().unwrap();
    let first = group_commit.segments()[0].id;
    let disk_bytes = group_commit.stats().disk_bytes;
    assert!(disk_bytes <= 6 * (256 << 10), "{disk_bytes} bytes");

    drop(group_commit);
    let (_, seen) = open(root.path());
    assert!(seen.values().all(|(at, _)| at.segment() >= first));
    assert_eq!(*seen.last_key_value().unwrap().0, 3999);
}

fn append_before_commit_here(group_commit: &Arc<GroupCommit>, id: u64) -> Ticket {
    let (index, payload) = (id.to_le_bytes(), payload(id));
    let record = Record { index: &index, payload: &payload };
    let reservation = reserve(group_commit, record.encoded_bytes());
    group_commit.append_before_commit_here(reservation, &[record], &mut Vec::new())
}

fn append_unawaited(group_commit: &Arc<GroupCommit>, id: u64) -> Ticket {
    let (index, payload) = (id.to_le_bytes(), payload(id));
    let record = Record { index: &index, payload: &payload };
    let reservation = reserve(group_commit, record.encoded_bytes());
    group_commit.append_unawaited(reservation, &[record], &mut Vec::new())
}

fn commit_here(group_commit: &GroupCommit) {
    assert!(group_commit.commit_here(), "somebody else commits");
}

#[test]
fn quick_journal_is_committed_by_those_who_append() {
    for durability in [Durability::Fsync, Durability::Os] {
        let root = tempfile::tempdir().unwrap();
        let (group_commit, _) = open_with(root.path(), durability);

        let first = append_before_commit_here(&group_commit, 0);
        let second = append_before_commit_here(&group_commit, 1);
        assert_eq!(group_commit.outcome(first), None);
        commit_here(&group_commit);

        assert_eq!(group_commit.outcome(first), Some(Ok(())));
        assert_eq!(group_commit.outcome(second), Some(Ok(())));
        assert_eq!(group_commit.stats().groups, 1);
    }
}

#[test]
fn slow_disk_is_left_to_the_committing_thread_until_it_is_quick_again() {
    let (group_commit, fs) = on_a_simulated_disk();
    let commits_here = |id| {
        let ticket = append_before_commit_here(&group_commit, id);
        commit_here(&group_commit);
        let is_committed = group_commit.outcome(ticket).is_some();
        while group_commit.commit_step() {}
        is_committed
    };
    fs.set_sync_time(Duration::from_millis(50));
    assert!(commits_here(0), "one slow sync is no slow disk, nor known before");
    assert!(!commits_here(1), "the average has passed the limit");

    fs.set_sync_time(Duration::from_micros(100));
    let until_quick = (2..1000).find(|id| commits_here(*id));

    assert!(until_quick.is_some_and(|id| id > 10), "quick again with commit {until_quick:?}");
}

#[test]
fn what_nobody_waits_for_is_committed_with_what_follows() {
    let (group_commit, _) = on_a_simulated_disk();

    let unawaited = append_unawaited(&group_commit, 0);
    commit_here(&group_commit);
    assert_eq!(group_commit.outcome(unawaited), None);
    let awaited = append_before_commit_here(&group_commit, 1);
    commit_here(&group_commit);

    assert_eq!(group_commit.outcome(unawaited), Some(Ok(())));
    assert_eq!(group_commit.outcome(awaited), Some(Ok(())));
    assert_eq!(group_commit.stats().groups, 1);

    let waited_for_later = append_unawaited(&group_commit, 2);
    group_commit.set_awaited(waited_for_later);
    commit_here(&group_commit);
    assert_eq!(group_commit.outcome(waited_for_later), Some(Ok(())));
}

#[test]
fn what_nobody_waits_for_is_committed_soon_all_the_same() {
    let root = tempfile::tempdir().unwrap();
    let (group_commit, _) = open(root.path());
    let settled = Settled::of(&group_commit);
    let committer = group_commit.spawn_committer().unwrap();
    for id in 0..3 {
        append_unawaited(&group_commit, id);
        let ticket = append_unawaited(&group_commit, 10 + id);

        settled.wait(&group_commit, ticket);
    }

    let last = append_unawaited(&group_commit, 20);
    group_commit.close();
    committer.join().unwrap();
    assert_eq!(group_commit.outcome(last), Some(Ok(())), "closing commits everything");
}

/// Waits for commits without asking for them.
#[derive(Default)]
struct Settled {
    lock: Mutex<()>,
    commit: Condvar,
}

impl Settled {
    fn of(group_commit: &GroupCommit) -> Arc<Self> {
        let settled = Arc::new(Self::default());
        let told = Arc::clone(&settled);
        group_commit.on_commit(Box::new(move || {
            drop(told.lock.lock().unwrap());
            told.commit.notify_all();
        }));
        settled
    }

    fn wait(&self, group_commit: &GroupCommit, ticket: Ticket) {
        let mut lock = self.lock.lock().unwrap();
        while group_commit.outcome(ticket).is_none() {
            let waited = self.commit.wait_timeout(lock, Duration::from_secs(60)).unwrap();
            assert!(!waited.1.timed_out(), "left behind");
            lock = waited.0;
        }
    }
}

/// The committing thread waits for as long as a sync takes, which the simulated disk says are
/// minutes.
#[test]
fn those_who_come_straight_back_share_a_commit() {
    let fs = SimFileSystem::new(1);
    fs.set_sync_time(Duration::from_secs(3600));
    let options = LocalOptions::default();
    let (journal, _) =
        LocalJournal::open(Arc::new(fs), Path::new("/journal"), options, &mut |_| {}).unwrap();
    let group_commit = GroupCommit::new(Box::new(journal), GroupOptions::default());
    let settled = Settled::of(&group_commit);
    let append = |id| {
        let ticket = append_before_commit_here(&group_commit, id);
        commit_here(&group_commit);
        ticket
    };
    append_before_commit_here(&group_commit, 0);
    let latest = append_before_commit_here(&group_commit, 1);
    let committer = group_commit.spawn_committer().unwrap();
    settled.wait(&group_commit, latest);

    for round in 1..5 {
        let first = append(2 * round);
        // Time enough for a committing thread that would not wait.
        std::thread::sleep(Duration::from_millis(5));
        let second = append(2 * round + 1);
        settled.wait(&group_commit, first);
        settled.wait(&group_commit, second);
    }

    assert_eq!(group_commit.stats().groups, 5);
    let alone = append(10);
    assert_eq!(group_commit.outcome(alone), None);
    group_commit.close();
    committer.join().unwrap();
    assert_eq!(group_commit.outcome(alone), Some(Ok(())), "closing does not wait");
}

/// The second of two batches starts a segment, and with it another group.
#[test]
fn batches_on_both_sides_of_a_segments_end_are_committed_by_one_call() {
    let root = tempfile::tempdir().unwrap();
    let (group_commit, _) = open_with(root.path(), Durability::Os);
    let settled = Settled::of(&group_commit);
    let committer = group_commit.spawn_committer().unwrap();
    let mut crossings = 0;
    for _ in 0..2000 {
        // A short one and a long one.
        let first = append_before_commit_here(&group_commit, 0);
        let segment = group_commit.tail().segment();
        let second = append_before_commit_here(&group_commit, 699);
        crossings += u32::from(group_commit.tail().segment() != segment);

        if !group_commit.commit_here() {
            group_commit.commit_elsewhere();
        }

        settled.wait(&group_commit, first);
        settled.wait(&group_commit, second);
    }
    assert!(crossings > 0, "{crossings} pairs crossed");
    group_commit.close();
    committer.join().unwrap();
}

/// Whoever finds another committing leaves its batch to that one, and the first frame of each
/// segment to the committing thread: nobody may wait for ever.
#[test]
fn appenders_that_commit_themselves_leave_nothing_behind() {
    for durability in [Durability::Fsync, Durability::Os] {
        let root = tempfile::tempdir().unwrap();
        let (group_commit, _) = open_with(root.path(), durability);
        let settled = Settled::of(&group_commit);
        let committer = group_commit.spawn_committer().unwrap();

        std::thread::scope(|scope| {
            for number in 0..APPENDERS {
                let (group_commit, settled) = (&group_commit, &settled);
                scope.spawn(move || {
                    for batch in 0..BATCHES {
                        let id = number * BATCHES + batch;
                        let ticket = append_before_commit_here(group_commit, id);
                        if !group_commit.commit_here() {
                            group_commit.commit_elsewhere();
                        }
                        settled.wait(group_commit, ticket);
                    }
                });
            }
        });
        assert!(group_commit.segments().len() > 4);
        group_commit.close();
        committer.join().unwrap();
        drop(group_commit);

        let (_, seen) = open_with(root.path(), durability);
        assert_eq!(seen.len() as u64, APPENDERS * BATCHES);
    }
}
