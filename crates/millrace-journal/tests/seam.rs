//! The seam depends on no implementation of it.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

/// The files that callers and implementations share.
const SEAM: [&str; 10] = [
    "conformance",
    "error.rs",
    "frame.rs",
    "fs/mod.rs",
    "group",
    "journal.rs",
    "owner.rs",
    "position.rs",
    "record.rs",
    "store.rs",
];

fn files(path: &Path) -> Vec<std::path::PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let entries = std::fs::read_dir(path).unwrap();
    entries.flat_map(|entry| files(&entry.unwrap().path())).collect()
}

#[test]
fn nothing_in_the_seam_names_an_implementation() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for file in SEAM.iter().flat_map(|name| files(&root.join(name))) {
        let text = std::fs::read_to_string(&file).unwrap();
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        for line in code {
            let names_one = ["crate::local", "crate::memory", "LocalJournal", "MemoryJournal"];
            let is_named = names_one.iter().any(|name| line.contains(name));
            assert!(!is_named, "{}: {line}", file.display());
        }
    }
}
