//! The replicated journal does what journals must do.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use millrace_journal::conformance::{SEGMENT_BYTES, SecondOwner, Site, run};
use millrace_journal::{FileSystem, JournalStore, SimFileSystem};
use millrace_replicated::sim::SimConnection;
use millrace_replicated::{Clock, CopyPlace, LogFormat, Patience, ReplicatedStore, SimLog};

const FORMAT: LogFormat =
    LogFormat { salt: 5, segment_bytes: SEGMENT_BYTES, max_frame_bytes: SEGMENT_BYTES / 2 };
const DIR: &str = "/copy";

/// Nodes that share a log. Each store is that of a node on which nothing runs.
struct Nodes {
    log: SimLog,
    disks: Mutex<Vec<SimFileSystem>>,
    connections: Mutex<Vec<Arc<SimConnection>>>,
}

impl Nodes {
    fn cut_all(&self) {
        for connection in self.connections.lock().unwrap().drain(..) {
            connection.cut();
        }
    }

    /// A node whose copy nobody has open, or a new one.
    fn idle_disk(&self) -> SimFileSystem {
        let mut disks = self.disks.lock().unwrap();
        let lock = Path::new(DIR).join("lock");
        let idle = disks.iter().find(|disk| disk.lock(&lock).is_ok()).cloned();
        idle.unwrap_or_else(|| {
            let disk = SimFileSystem::new(disks.len() as u64);
            disks.push(disk.clone());
            disk
        })
    }
}

impl Site for Nodes {
    fn store(&self) -> Box<dyn JournalStore> {
        let connection = self.log.connect();
        self.connections.lock().unwrap().push(Arc::clone(&connection));
        Box::new(ReplicatedStore {
            log: connection,
            clock: Arc::new(self.log.clone()),
            patience: Patience::default(),
            place: CopyPlace::new(Arc::new(self.idle_disk()), Path::new(DIR)),
        })
    }

    fn crash(&mut self) {
        self.cut_all();
        for disk in self.disks.lock().unwrap().iter_mut() {
            *disk = disk.crashed(7);
        }
    }

    fn cut_off(&mut self) {
        self.cut_all();
    }

    fn fill(&mut self) {
        // Enough for what was granted.
        self.log.set_room(2 * u64::from(SEGMENT_BYTES));
    }

    fn free(&mut self) {
        self.log.set_room(u64::MAX / 2);
        self.log.sleep(Duration::from_secs(2));
    }

    fn second_owner(&self) -> SecondOwner {
        SecondOwner::Fences
    }
}

#[test]
fn replicated_journal_conforms() {
    run(|| {
        Box::new(Nodes {
            log: SimLog::new(1, FORMAT),
            disks: Mutex::default(),
            connections: Mutex::default(),
        })
    });
}
