//! Archives of all data, as a client gets them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use millrace_broker::{OpenShard, Shard, Shards};
use millrace_core::{ShardId, SystemClock};
use millrace_engine::Replay;
use millrace_journal::{
    GroupCommit, GroupOptions, Journal, LocalJournal, LocalOptions, MemoryJournal, RealFileSystem,
};
use millrace_metrics::MetricStore;
use millrace_services::{Floors, Monitor, Options, QueueAccess, Services};
use millrace_wire::{Request, Response, Service};

const ACCOUNT: &str = "000000000000";
/// So small that a client that takes nothing holds an archive up.
const SEGMENT_BYTES: u32 = 4 << 20;

struct Process {
    log: Arc<GroupCommit>,
    shards: Arc<Shards>,
    monitor: Arc<Monitor>,
    services: Services,
}

impl Process {
    fn start(dir: &Path) -> Process {
        let options = LocalOptions { segment_bytes: SEGMENT_BYTES, ..LocalOptions::default() };
        let path = dir.join("journal");
        let opened = LocalJournal::open(RealFileSystem::new(), &path, options, &mut |_| {});
        Process::over(Box::new(opened.unwrap().0), Some(&dir.join("metrics")))
    }

    fn over(journal: Box<dyn Journal>, metrics: Option<&Path>) -> Process {
        let log = GroupCommit::new(journal, GroupOptions::default());
        let replayed =
            Replay::default().finish(Shard::first_seq(ShardId(0), log.opened().epoch.0).unwrap());
        let clock = Arc::new(SystemClock::new());
        let options = millrace_broker::Options::default();
        let open = OpenShard {
            id: ShardId(0),
            log: log.clone(),
            options,
            replayed,
            random: Box::new(|| 1),
        };
        let shards = Shards::of_one(clock, open).unwrap();
        let store = Arc::new(MetricStore::open(metrics, shards.now()).unwrap());
        let monitor = Monitor::start(shards.clone(), store, QueueAccess::Open).unwrap();
        let monitor = Arc::new(monitor);
        let options =
            Options { region: "us-east-1".into(), account: ACCOUNT.into(), ..Options::default() };
        let floors =
            Floors { shards: shards.clone(), monitor: monitor.clone(), tables: None, push: None };
        let services = Services::new(floors, &options, None);
        Process { log, shards, monitor, services }
    }

    /// Appends and commits so many bytes.
    fn fill(&self, bytes: usize) {
        let record = millrace_journal::Record { index: b"", payload: &[7; 100_000] };
        for _ in 0..bytes.div_ceil(100_000) {
            let length = record.encoded_bytes();
            let reservation = self.log.reserve(length, millrace_journal::Purpose::Store).unwrap();
            self.log.append(reservation, &[record], &mut Vec::new());
            while self.log.commit_step() {}
        }
    }

    async fn begin(&self) -> Response {
        let request = Request { path: "/_millrace/backup", ..Request::post(&[], b"") };
        self.services.call(request).await
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.monitor.close();
        self.shards.close();
        self.log.close();
    }
}

/// All that comes.
async fn taken(response: Response) -> Vec<u8> {
    assert_eq!(response.status, 200, "{}", String::from_utf8_lossy(&response.body));
    let mut stream = response.stream.unwrap();
    let mut bytes = Vec::new();
    while let Some(piece) = poll_fn(|task| stream.poll_next(task)).await {
        bytes.extend(piece);
    }
    bytes
}

fn files(archive: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut archive = tar::Archive::new(archive);
    let file = |entry: std::io::Result<tar::Entry<'_, _>>| {
        let mut entry = entry.ok()?;
        let mut contents = Vec::new();
        entry.read_to_end(&mut contents).ok()?;
        Some((entry.path().ok()?.display().to_string(), contents))
    };
    archive.entries().unwrap().map_while(file).collect()
}

#[tokio::test]
async fn an_archive_holds_metrics_then_segments_then_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let process = Process::start(dir.path());
    process.fill(2 * SEGMENT_BYTES as usize);
    let tail = process.log.tail();

    let archive = taken(process.begin().await).await;

    let files = files(&archive);
    let names: Vec<&str> = files.iter().map(|(name, _)| &**name).collect();
    let segments = process.log.segments();
    let of_journal = segments.iter().map(|segment| format!("journal/{}.seg", segment.id));
    let expected: Vec<String> = std::iter::once("metrics/history.db".to_owned())
        .chain(of_journal)
        .chain(["end.json".to_owned()])
        .collect();
    assert_eq!(names, expected);
    let files: BTreeMap<_, _> = files.into_iter().collect();
    let end: serde_json::Value = serde_json::from_slice(&files["end.json"]).unwrap();
    let place = [tail.segment().0, tail.offset()];
    assert_eq!(end, serde_json::json!({ "segments": segments.len(), "tail": place }));
    let last = &files[&format!("journal/{}.seg", tail.segment())];
    assert_eq!(last.len(), tail.offset() as usize, "what is in use");
    let active = dir.path().join(format!("journal/{}.seg", tail.segment()));
    assert!(std::fs::read(active).unwrap().starts_with(last));
}

#[tokio::test]
async fn an_archive_ends_early_when_the_server_drains() {
    let dir = tempfile::tempdir().unwrap();
    let process = Process::start(dir.path());
    process.fill(2 * SEGMENT_BYTES as usize);
    let response = process.begin().await;

    process.shards.drain();
    let archive = taken(response).await;

    assert!(archive.len() < SEGMENT_BYTES as usize, "{} bytes", archive.len());
    assert!(!files(&archive).iter().any(|(name, _)| name == "end.json"));
}

#[tokio::test]
async fn so_many_archives_are_made_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let process = Process::start(dir.path());
    process.fill(2 * SEGMENT_BYTES as usize);
    let (first, second) = (process.begin().await, process.begin().await);

    let refused = process.begin().await;
    assert_eq!(refused.status, 400);
    assert!(String::from_utf8_lossy(&refused.body).contains("2 backups are being taken already"));
    drop(first);
    // Its thread learns that with the next piece.
    while process.begin().await.status != 200 {
        tokio::task::yield_now().await;
    }
    assert!(files(&taken(second).await).iter().any(|(name, _)| name == "end.json"));
}

#[tokio::test]
async fn what_is_in_memory_is_not_copied() {
    let process = Process::over(Box::new(MemoryJournal::new(SEGMENT_BYTES)), None);

    let refused = process.begin().await;

    assert_eq!(refused.status, 400);
    assert!(String::from_utf8_lossy(&refused.body).contains("keeps its data in memory"));
}
