//! A database that is missing, damaged, or not of this journal.

use std::fs;
use std::os::unix::fs::FileExt;

use futures_executor::block_on;

use super::*;
use crate::store::accept;

struct Rig {
    directory: tempfile::TempDir,
    log: Arc<MemoryLog>,
}

impl Rig {
    /// A database with 50 items, closed.
    fn new() -> Rig {
        let (directory, log) = (tempfile::tempdir().unwrap(), Arc::default());
        let rig = Rig { directory, log };
        let tables = rig.open().unwrap();
        create(&tables, "d");
        for number in 0..50 {
            put(&tables, &number.to_string(), &[("a", &"x".repeat(500))]).unwrap();
        }
        rig
    }

    fn open(&self) -> Result<Tables, OpenError> {
        open(self.directory.path(), &self.log)
    }

    fn file(&self) -> std::path::PathBuf {
        self.directory.path().join("tables.db")
    }

    fn remove(&self) {
        fs::remove_dir_all(self.directory.path()).unwrap();
    }

    fn refusal(&self) -> String {
        match self.open() {
            Ok(_) => panic!("opened"),
            Err(error) => {
                assert!(error.is_mismatch(), "{error}");
                error.to_string()
            }
        }
    }

    fn items(&self) -> u64 {
        let tables = self.open().unwrap();
        let figures = block_on(tables.figures(&key("d"))).unwrap();
        figures.map_or(0, |figures| figures.items)
    }
}

#[test]
fn a_missing_database_is_made_again_if_the_journal_has_all() {
    let rig = Rig::new();
    rig.remove();
    assert_eq!(rig.items(), 50);
    assert_eq!(rig.items(), 50);

    rig.remove();
    rig.log.truncate_before(rig.log.positions()[1]);
    assert!(rig.refusal().contains("is missing"));
}

#[test]
fn a_damaged_database_is_made_again_and_kept_aside() {
    let damages: [(&[u8], u64); 3] =
        [(b"no database at all", 0), (&[0xff; 20_000], 4_096), (&[7; 9_000], 8_192)];
    for (bytes, at) in damages {
        let rig = Rig::new();
        let file = fs::OpenOptions::new().write(true).open(rig.file()).unwrap();
        file.write_all_at(bytes, at).unwrap();
        drop(file);

        assert_eq!(rig.items(), 50);
        let aside = fs::read(rig.directory.path().join("tables.db.replaced-1")).unwrap();
        assert_eq!(&aside[at as usize..][..bytes.len()], bytes);
    }
}

#[test]
fn a_damaged_database_of_which_the_journal_lost_a_part_is_refused_and_may_be_begun_anew() {
    let rig = Rig::new();
    fs::write(rig.file(), b"damaged, and not even a database in size").unwrap();
    rig.log.truncate_before(rig.log.positions()[1]);
    assert!(rig.refusal().contains("is damaged"));

    assert!(!accept(rig.directory.path()).unwrap());

    assert_eq!(rig.items(), 0);
    let tables = rig.open().unwrap();
    create(&tables, "d");
    put(&tables, "new", &[("a", "1")]).unwrap();
    drop(tables);
    assert_eq!(rig.items(), 1);
    rig.remove();
    assert_eq!(rig.items(), 1, "made again from its beginning");
}

#[test]
fn a_database_without_its_journal_is_refused_unless_it_is_accepted() {
    let mut rig = Rig::new();
    rig.log = Arc::default();
    assert!(rig.refusal().contains("belongs to another journal"));

    assert!(accept(rig.directory.path()).unwrap());
    assert_eq!(rig.items(), 50);
    put(&rig.open().unwrap(), "new", &[("a", "1")]).unwrap();
    assert_eq!(rig.items(), 51);
    rig.remove();
    assert!(rig.refusal().contains("is missing"), "not all of it was ever in this journal");
}

#[test]
fn a_copy_from_before_the_first_domain_is_taken_and_begins_at_the_start() {
    let rig = Rig { directory: tempfile::tempdir().unwrap(), log: Arc::default() };
    drop(rig.open().unwrap());
    // Further than this journal will come in this test.
    let copy = rusqlite::Connection::open(rig.file()).unwrap();
    copy.execute("UPDATE state SET applied = 1000000", []).unwrap();
    drop(copy);

    let tables = rig.open().unwrap();
    create(&tables, "d");
    put(&tables, "kept", &[("a", "1")]).unwrap();
    drop(tables);

    assert_eq!(rig.items(), 1);
    rig.remove();
    assert_eq!(rig.items(), 1, "the journal has it");
}

#[test]
fn a_database_of_another_journal_gives_way_to_that_of_this_one() {
    let (rig, other) = (Rig::new(), Rig::new());
    put(&other.open().unwrap(), "other", &[("a", "1")]).unwrap();
    fs::copy(other.file(), rig.file()).unwrap();

    assert_eq!(rig.items(), 50);

    fs::copy(other.file(), rig.file()).unwrap();
    rig.log.truncate_before(rig.log.positions()[1]);
    assert!(rig.refusal().contains("is another one"));
}

#[test]
fn a_database_ahead_of_its_journal_is_refused() {
    let rig = Rig::new();
    rig.log.cut_off(rig.log.positions()[20]);
    assert!(rig.refusal().contains("ahead of the journal"));
}

#[test]
fn an_older_database_is_brought_up_to_date_or_refused() {
    let rig = Rig::new();
    let older = rig.directory.path().join("older");
    fs::copy(rig.file(), &older).unwrap();
    put(&rig.open().unwrap(), "new", &[("a", "1")]).unwrap();
    let newer = fs::read(rig.file()).unwrap();

    fs::copy(&older, rig.file()).unwrap();
    assert_eq!(rig.items(), 51);

    fs::copy(&older, rig.file()).unwrap();
    rig.log.truncate_before(rig.log.tail());
    assert!(rig.refusal().contains("older than the journal remembers"));

    fs::write(rig.file(), newer).unwrap();
    assert_eq!(rig.items(), 51, "what is truncated was in it");
}

#[test]
fn a_file_that_was_made_and_not_filled_is_no_database_yet() {
    let rig = Rig { directory: tempfile::tempdir().unwrap(), log: Arc::default() };
    fs::write(rig.file(), b"").unwrap();
    create(&rig.open().unwrap(), "d");
    assert_eq!(rig.items(), 0);
}
