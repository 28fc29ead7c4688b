//! What is left when the journal fails, and when the process ends between its commit and SQLite's.

use std::fs;

use futures_executor::block_on;

use super::*;
use crate::testing::Failure;

/// Copies the database as it is on the disk now, as a crash would leave it.
fn crashed(from: &Path, to: &Path) {
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

#[test]
fn a_record_that_sqlite_has_not_committed_is_applied_at_the_next_start() {
    let (directory, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let log = Arc::new(MemoryLog::default());
    let tables = open(directory.path(), &log).unwrap();
    create(&tables, "d");
    put(&tables, "i", &[("a", "1")]).unwrap();
    log.fail_next(Failure::EndedBehind);

    let unknown = put(&tables, "i", &[("a", "2")]);

    assert!(matches!(unknown, Err(WriteError::Failed(_))), "{unknown:?}");
    assert!(matches!(put(&tables, "i", &[("a", "3")]), Err(WriteError::Unavailable(_))));
    assert_eq!(item(&tables, "i").unwrap(), pairs(&[("a", "1")]));
    crashed(directory.path(), copy.path());
    for _ in 0..2 {
        let again = open(copy.path(), &log).unwrap();
        assert_eq!(item(&again, "i").unwrap(), pairs(&[("a", "1"), ("a", "2")]));
        assert_eq!(log.positions().len(), 3, "a replay appends nothing");
    }
}

#[test]
fn a_record_that_the_journal_refuses_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let log = Arc::new(MemoryLog::default());
    let tables = open(directory.path(), &log).unwrap();
    create(&tables, "d");
    log.fail_next(Failure::Refused);

    let refused = put(&tables, "i", &[("a", "1")]);

    assert_eq!(refused, Err(WriteError::Unavailable("refused".to_owned())));
    assert_eq!(item(&tables, "i"), Some(Vec::new()));
    put(&tables, "i", &[("b", "1")]).unwrap();
    assert_eq!(item(&tables, "i").unwrap(), pairs(&[("b", "1")]));
    assert_eq!(block_on(tables.figures(&key("d"))).unwrap().unwrap().attribute_names, 1);
}

#[test]
fn an_end_of_the_journal_before_the_record_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let log = Arc::new(MemoryLog::default());
    let tables = open(directory.path(), &log).unwrap();
    create(&tables, "d");
    log.fail_next(Failure::EndedBefore);
    assert!(matches!(put(&tables, "i", &[("a", "1")]), Err(WriteError::Failed(_))));
    drop(tables);

    let again = open(directory.path(), &log).unwrap();
    assert_eq!(item(&again, "i"), Some(Vec::new()));
    put(&again, "i", &[("a", "2")]).unwrap();
}

#[test]
fn a_client_waits_no_longer_than_for_a_record_that_is_overdue_and_is_made_later() {
    let directory = tempfile::tempdir().unwrap();
    let log = Arc::new(MemoryLog::default());
    let tables = open(directory.path(), &log).unwrap();
    create(&tables, "d");
    log.fail_next(Failure::Overdue);

    let unknown = put(&tables, "i", &[("a", "1")]);

    assert_eq!(unknown, Err(WriteError::Failed("overdue".to_owned())));
    while let Err(refused) = put(&tables, "j", &[("a", "1")]) {
        assert!(matches!(refused, WriteError::Unavailable(_)), "{refused}");
    }
    assert_eq!(item(&tables, "i").unwrap(), pairs(&[("a", "1")]));
}

#[test]
fn one_refused_write_does_not_undo_others_of_its_transaction() {
    let directory = tempfile::tempdir().unwrap();
    let log = Arc::new(MemoryLog::default());
    let tables = open(directory.path(), &log).unwrap();
    create(&tables, "d");
    let records = log.positions().len();
    let writes = (0..200).map(|number| match number % 2 {
        0 => put_of("d", &number.to_string(), &[("a", "1")]),
        _ => put_of("none", "i", &[("a", "1")]),
    });

    // All wait together.
    let tables = &tables;
    let outcomes = std::thread::scope(|scope| {
        let asked: Vec<_> =
            writes.map(|write| scope.spawn(|| block_on(tables.write(write)))).collect();
        asked.into_iter().map(|asked| asked.join().unwrap()).collect::<Vec<_>>()
    });

    for (number, outcome) in outcomes.iter().enumerate() {
        assert_eq!(outcome.is_ok(), number % 2 == 0, "{outcome:?}");
    }
    assert_eq!(block_on(tables.figures(&key("d"))).unwrap().unwrap().items, 100);
    assert!(log.positions().len() - records <= 100);
}

#[test]
fn removal_of_a_deleted_domain_goes_on_after_a_crash() {
    let (directory, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let log = Arc::new(MemoryLog::default());
    let tables = open(directory.path(), &log).unwrap();
    create(&tables, "d");
    let items = (0..3_000).map(|number| PutItem {
        name: number.to_string(),
        attributes: vec![PutAttribute { name: "a".into(), value: "1".into(), replace: false }],
    });
    let items = items.collect();
    let batch = Write::Put { domain: key("d"), items, condition: None };
    block_on(tables.write(batch)).unwrap();
    drop(tables);
    // The database as it is at the moment of the deletion: it is replayed, and then removed.
    crashed(directory.path(), copy.path());
    let tables = open(directory.path(), &log).unwrap();
    block_on(tables.write(Write::DeleteDomain(key("d")))).unwrap();
    drop(tables);

    let again = open(copy.path(), &log).unwrap();

    let left = |reader: &rusqlite::Connection| {
        let sql = "SELECT count(*) FROM items";
        reader.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap()
    };
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while block_on(again.read("0", left)).unwrap() > 0 {
        assert!(std::time::Instant::now() < until, "items are left");
        std::thread::yield_now();
    }
}
