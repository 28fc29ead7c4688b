//! Queues that earlier versions have stored, kept for ever: each version shows what was in them.

use std::fmt::Write;
use std::fs::File;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use millrace_broker::{Browse, BrowseCursor, BrowseFilter, Outgoing, Shards};
use millrace_core::{Clock, MessageId, QueueKey, Timestamp};
use millrace_engine::record;
use millrace_journal::{
    GroupCommit, GroupOptions, LocalJournal, LocalOptions, Purpose, RealFileSystem, Record,
    Replayed, SimFileSystem,
};

use crate::support::{ANY, content, create, fill_segments, key, message, open, open_at, run};

/// Of version 0.1.0, as its last message was sent.
const STORED_AT: Timestamp = Timestamp(1795751770380);
/// Zeros behind what was written are not kept.
const SEGMENT_BYTES: u64 = 64 << 20;

struct StoppedClock;

impl Clock for StoppedClock {
    fn now(&self) -> Timestamp {
        STORED_AT
    }

    fn advance(&self, _: Duration) {}
}

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/0.1.0")
}

/// Opens a copy of what version 0.1.0 left behind when it was killed.
fn opened(dir: &Path) -> (Arc<GroupCommit>, Arc<Shards>) {
    let segment = dir.join("00000001.seg");
    std::fs::copy(fixture().join("journal/00000001.seg"), &segment).unwrap();
    File::options().write(true).open(segment).unwrap().set_len(SEGMENT_BYTES).unwrap();
    open_at(RealFileSystem::new(), dir, Arc::new(StoppedClock))
}

/// What there is, as text: queues, messages, message move tasks. A field that a version adds is to
/// be added to what is expected, too.
fn dump(shards: &Shards) -> String {
    let mut text = String::new();
    let mut queues = shards.catalog().queues();
    queues.sort_by_key(|queue| queue.arn().to_owned());
    for queue in queues {
        writeln!(text, "{} {:?}", queue.arn(), queue.definition()).unwrap();
        let all = Browse {
            filter: BrowseFilter::All,
            from: BrowseCursor::default(),
            limit: 100,
            max_visits: 1_000,
            max_bytes: 1 << 20,
        };
        for found in queue.browser().page(&all).unwrap().messages {
            let body = String::from_utf8_lossy(found.content.body());
            let attributes: Vec<_> = found.content.attributes().collect();
            let texts = [found.content.trace_header(), found.content.deduplication_id()];
            let delivery = &found.delivery;
            writeln!(text, "- {} {:.30}", found.id, body).unwrap();
            writeln!(text, "  {:?} {:?} {attributes:?}", found.state, found.deadline).unwrap();
            writeln!(text, "  {:?}", texts.map(String::from_utf8_lossy)).unwrap();
            writeln!(
                text,
                "  {:?} {:?} {} {:?}",
                delivery.group, delivery.source, delivery.receive_count, delivery.sent
            )
            .unwrap();
        }
        for task in shards.home().unwrap().move_tasks().of_source(queue.key(), 10) {
            writeln!(text, "{task:?}").unwrap();
        }
    }
    text
}

#[test]
fn queues_of_the_first_version_are_as_they_were() {
    let dir = tempfile::tempdir().unwrap();
    let (_, shards) = opened(dir.path());

    let found = dump(&shards);

    let expected = std::fs::read_to_string(fixture().join("queues.txt")).unwrap();
    assert!(found == expected, "{found}");
}

#[test]
fn receipt_handles_and_deduplication_ids_of_the_first_version_count() {
    let dir = tempfile::tempdir().unwrap();
    let (log, shards) = opened(dir.path());
    let queue =
        |name| shards.catalog().queue_by_key(&QueueKey::new("us-east-1", "000000000000", name));
    let [jobs, orders] = ["jobs", "orders.fifo"].map(|name| queue(name).unwrap());
    let [jobs_before, orders_before] = [&jobs, &orders].map(|queue| queue.counts());

    let handle = std::fs::read_to_string(fixture().join("handle.txt")).unwrap();
    let handle = shards.open_receipt_handle(handle.trim()).unwrap();
    run(&log, jobs.delete(&[handle])).unwrap();
    let content = content("order 5");
    let repeated = Outgoing {
        id: MessageId::from_random(7),
        group: Some("b"),
        deduplication_id: Some("f5248a7a7dd9c6b6f82b06a53559886b588efa3d37dc2048fd5590103cefb08c"),
        ..message("order 5", &content)
    };
    let accepted = run(&log, orders.send(&[repeated])).unwrap();

    assert_eq!(jobs.counts().in_flight, jobs_before.in_flight - 1);
    assert_ne!(accepted[0].id, MessageId::from_random(7), "it was sent already");
    assert_eq!(orders.counts(), orders_before);
}

/// Index part and payload of each record.
fn records(log: &GroupCommit) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut places = Vec::new();
    for segment in log.segments() {
        let mut visit = |record: Replayed<'_>| {
            places.push((record.position, record.record_len));
            ControlFlow::Continue(())
        };
        log.replay_segment(segment.id, &mut visit).unwrap();
    }
    let read = places.into_iter().map(|(position, len)| log.read(position, len).unwrap());
    read.map(|record| (record.index().to_vec(), record.payload().to_vec())).collect()
}

/// The index part as it was written before contents had versions.
fn before_versions(index: &[u8]) -> Vec<u8> {
    match index {
        [16, 0, fields @ ..] => [&[1], fields].concat(),
        [17, 0, fields @ ..] => [&[10], fields].concat(),
        index => index.to_vec(),
    }
}

#[test]
fn messages_of_before_contents_had_versions_are_relocated_and_read() {
    let fs = Arc::new(SimFileSystem::new(1));
    let (log, broker) = open(fs.clone(), Path::new("/new"));
    let queue = create(&log, &broker, "q");
    for body in ["a", "bc"] {
        run(&log, queue.send(&[message(body, &content(body))])).unwrap();
    }
    let old = records(&log).into_iter().map(|(index, payload)| (before_versions(&index), payload));
    let old: Vec<_> = old.collect();
    assert_eq!(old.iter().filter(|(index, _)| index[0] == 1).count(), 2);
    let options = LocalOptions { segment_bytes: 64 << 10, ..LocalOptions::default() };
    let (journal, _) =
        LocalJournal::open(fs.clone(), Path::new("/old"), options, &mut |_| {}).unwrap();
    let before = GroupCommit::new(Box::new(journal), GroupOptions::default());
    let all: Vec<_> = old.iter().map(|(index, payload)| Record { index, payload }).collect();
    let bytes = all.iter().map(Record::encoded_bytes).sum();
    before.append(before.reserve(bytes, Purpose::Store).unwrap(), &all, &mut Vec::new());
    before.close();
    drop(before);

    let (log, broker) = open(fs.clone(), Path::new("/old"));
    let first = log.segments()[0].id;
    let filler = fill_segments(&log, &broker);
    run(&log, broker.catalog().delete_queue(&filler)).unwrap();
    for _ in 0..100 {
        broker.maintain();
        while log.commit_step() {}
    }
    assert!(log.segments()[0].id > first);
    let relocated: Vec<_> = records(&log)
        .iter()
        .filter_map(|(index, _)| match record::Record::decode(index).unwrap() {
            record::Record::Relocated(_) => Some(index[0]),
            _ => None,
        })
        .collect();
    broker.close();
    drop((filler, broker, log));

    assert_eq!(relocated, [17, 17]);
    let (log, broker) = open(fs, Path::new("/old"));
    let queue = broker.catalog().queue_by_key(&key("q")).unwrap();
    let received = run(&log, queue.receive(&ANY)).unwrap();
    let mut bodies: Vec<_> = received.iter().map(|received| received.content.body()).collect();
    bodies.sort_unstable();
    assert_eq!(bodies, [&b"a"[..], b"bc"]);
}
