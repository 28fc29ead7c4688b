//! Every journal of this crate does what journals must do.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "tests")]

mod common;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::gate::Gate;
use millrace_journal::conformance::{SEGMENT_BYTES, SecondOwner, Site, run};
use millrace_journal::{
    Durability, FileSystem, JournalStore, LocalOptions, LocalStore, MemoryStore, RealFileSystem,
    SimFileSystem,
};

/// A log in memory that processes reach as they would one over a network.
struct InMemory(MemoryStore);

impl Site for InMemory {
    fn store(&self) -> Box<dyn JournalStore> {
        Box::new(self.0.clone())
    }

    fn crash(&mut self) {
        self.0.cut_off();
    }

    fn cut_off(&mut self) {
        self.0.cut_off();
    }

    fn fill(&mut self) {
        self.0.fill();
    }

    fn free(&mut self) {
        self.0.free();
    }

    fn second_owner(&self) -> SecondOwner {
        SecondOwner::Fences
    }
}

/// A directory.
struct OnDisk {
    disk: Disk,
    dir: PathBuf,
    durability: Durability,
    gate: Gate,
}

enum Disk {
    Simulated(SimFileSystem),
    Real,
}

impl OnDisk {
    fn new(disk: Disk, dir: PathBuf, durability: Durability) -> Self {
        Self { disk, dir, durability, gate: Gate::default() }
    }
}

impl Site for OnDisk {
    fn store(&self) -> Box<dyn JournalStore> {
        let fs: Arc<dyn FileSystem> = match &self.disk {
            Disk::Simulated(fs) => Arc::new(fs.clone()),
            Disk::Real => RealFileSystem::new(),
        };
        let options = LocalOptions {
            durability: self.durability,
            segment_bytes: SEGMENT_BYTES,
            ..LocalOptions::default()
        };
        Box::new(LocalStore::new(self.gate.before(fs), &self.dir, options))
    }

    fn crash(&mut self) {
        self.gate.cut_off();
        if let Disk::Simulated(fs) = &mut self.disk {
            *fs = match self.durability {
                Durability::Fsync => fs.crashed(7),
                Durability::Os | Durability::Memory => fs.killed(),
            };
        }
    }

    fn cut_off(&mut self) {
        self.gate.cut_off();
    }

    fn fill(&mut self) {
        self.gate.fill();
    }

    fn free(&mut self) {
        self.gate.free();
    }

    fn second_owner(&self) -> SecondOwner {
        SecondOwner::Refused
    }
}

#[test]
fn memory_journal_conforms() {
    run(|| Box::new(InMemory(MemoryStore::new(SEGMENT_BYTES))));
}

/// As of a log that other machines keep.
#[test]
fn memory_journal_with_short_frames_conforms() {
    run(|| {
        let store = MemoryStore::new(SEGMENT_BYTES).with_max_frame_bytes(SEGMENT_BYTES / 4);
        Box::new(InMemory(store))
    });
}

#[test]
fn local_journal_conforms_on_a_simulated_disk() {
    for durability in [Durability::Fsync, Durability::Os] {
        run(|| {
            let disk = Disk::Simulated(SimFileSystem::new(1));
            Box::new(OnDisk::new(disk, Path::new("/journal").into(), durability))
        });
    }
}

#[test]
fn local_journal_conforms_on_a_real_disk() {
    let root = tempfile::tempdir().unwrap();
    let mut number = 0;
    for durability in [Durability::Fsync, Durability::Os] {
        run(|| {
            number += 1;
            let dir = root.path().join(number.to_string());
            Box::new(OnDisk::new(Disk::Real, dir, durability))
        });
    }
}
