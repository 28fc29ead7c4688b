//! Real threads on a real disk.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "tests")]

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use millrace_journal::conformance;
use millrace_journal::{
    Durability, GroupCommit, GroupOptions, LocalJournal, LocalOptions, Position, Purpose,
    RealFileSystem, Record, Ticket, Unavailable,
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

fn payload(id: u64) -> Vec<u8> {
    vec![id as u8; 200 + (id % 700) as usize]
}

fn reserve(group_commit: &Arc<GroupCommit>, bytes: usize) -> millrace_journal::Reservation {
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
            group_commit.wait(ticket).unwrap();
        }
        // Reads of what gathers, what is being written, what was written, and of the disk.
        for step in [1, 2, 7, 61, 401] {
            let Some((at, len, id)) = places.len().checked_sub(step).map(|at| places[at]) else {
                continue;
            };
            let record = group_commit.read(at, len);
            match record {
                Ok(record) => assert_eq!(record.payload, payload(id)),
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
        assert_eq!(group_commit.read(at, len).unwrap().payload, payload(id));
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
        let ticket = conformance::append(&group_commit, &[record], &mut positions);
        if id % 16 == 0 {
            group_commit.wait(ticket).unwrap();
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

#[test]
fn empty_directory_opens_at_once() {
    let root = tempfile::tempdir().unwrap();
    let started = std::time::Instant::now();

    let opened = LocalJournal::open(
        RealFileSystem::new(),
        &root.path().join("new"),
        LocalOptions::default(),
        &mut |_| {},
    );

    assert!(opened.is_ok());
    // 50 ms is the target; a busy machine gets slack.
    assert!(started.elapsed().as_millis() < 500, "{:?}", started.elapsed());
    println!("opened in {:?}", started.elapsed());
}

fn append_before_commit_here(group_commit: &Arc<GroupCommit>, id: u64) -> Ticket {
    let (index, payload) = (id.to_le_bytes(), payload(id));
    let record = Record { index: &index, payload: &payload };
    let reservation = reserve(group_commit, record.encoded_bytes());
    group_commit.append_before_commit_here(reservation, &[record], &mut Vec::new())
}

#[test]
fn quick_journal_is_committed_by_those_who_append() {
    let root = tempfile::tempdir().unwrap();
    let (group_commit, _) = open_with(root.path(), Durability::Os);

    let first = append_before_commit_here(&group_commit, 0);
    let second = append_before_commit_here(&group_commit, 1);
    assert_eq!(group_commit.outcome(first), None);
    group_commit.commit_here();

    assert_eq!(group_commit.outcome(first), Some(Ok(())));
    assert_eq!(group_commit.outcome(second), Some(Ok(())));
    assert_eq!(group_commit.stats().groups, 1);
}

#[test]
fn journal_that_waits_for_its_disk_is_left_to_the_committing_thread() {
    let root = tempfile::tempdir().unwrap();
    let (group_commit, _) = open(root.path());

    let ticket = append_before_commit_here(&group_commit, 0);
    group_commit.commit_here();
    assert_eq!(group_commit.outcome(ticket), None);

    let committer = group_commit.spawn_committer().unwrap();
    group_commit.wait(ticket).unwrap();
    group_commit.close();
    committer.join().unwrap();
}

/// Whoever finds another committing leaves its batch to that one, and the first frame of each
/// segment to the committing thread: nobody may wait for ever.
#[test]
fn appenders_that_commit_themselves_leave_nothing_behind() {
    let root = tempfile::tempdir().unwrap();
    let (group_commit, _) = open_with(root.path(), Durability::Os);
    let committer = group_commit.spawn_committer().unwrap();

    std::thread::scope(|scope| {
        for number in 0..APPENDERS {
            let group_commit = &group_commit;
            scope.spawn(move || {
                for batch in 0..BATCHES {
                    let ticket = append_before_commit_here(group_commit, number * BATCHES + batch);
                    group_commit.commit_here();
                    group_commit.wait(ticket).unwrap();
                }
            });
        }
    });
    assert!(group_commit.segments().len() > 4);
    group_commit.close();
    committer.join().unwrap();
    drop(group_commit);

    let (_, seen) = open_with(root.path(), Durability::Os);
    assert_eq!(seen.len() as u64, APPENDERS * BATCHES);
}
