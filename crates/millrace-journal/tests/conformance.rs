//! Every implementation, the same checks.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "tests")]

use std::path::Path;
use std::sync::Arc;

use millrace_journal::conformance::checks;
use millrace_journal::{
    Durability, FileSystem, Journal, LocalJournal, LocalOptions, MemoryJournal, RealFileSystem,
    SimFileSystem,
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
