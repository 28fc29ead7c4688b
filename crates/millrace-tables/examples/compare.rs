//! Puts through the store over a real journal, beside the same transactions in plain SQLite, whose
//! own sync makes each durable, in one process.
//!
//! ```text
//! cargo run --profile dist -p millrace-tables --example compare -- [SECONDS [DIRECTORY]]
//! ```
//! Each line: items a second, and the times of one put or batch. The plain loop has one client: it
//! is the writer. Several clients of the store share its transactions.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use futures_executor::block_on;
use millrace_journal::{
    GroupCommit, GroupOptions, LocalJournal, LocalOptions, Purpose, RealFileSystem, Record,
};
use millrace_tables::store::{Known, Log, LogError, Visit};
use millrace_tables::{
    DomainKey, Options, Place, PutAttribute, PutItem, Tables, Write, schema::TABLES,
};
use rusqlite::{Connection, params};

const ATTRIBUTES: usize = 8;
const BATCH: usize = 25;

/// A journal of its own, without what else would be in it.
struct Journal(Arc<GroupCommit>);

impl Log for Journal {
    fn append(&self, record: &[u8], _: &mut dyn FnMut(&str)) -> Result<u64, LogError> {
        let record = Record { index: b"", payload: record };
        let refused = |error: millrace_journal::Unavailable| LogError::Refused(error.to_string());
        let bytes = record.encoded_bytes();
        let reservation = self.0.reserve(bytes, Purpose::Store).map_err(refused)?;
        let mut positions = Vec::new();
        let ticket = self.0.append_before_commit_here(reservation, &[record], &mut positions);
        if !self.0.commit_here() {
            self.0.commit_elsewhere();
        }
        loop {
            match self.0.outcome(ticket) {
                Some(outcome) => return outcome.map(|()| positions[0].0).map_err(refused),
                None => thread::yield_now(),
            }
        }
    }

    fn replay(&self, _: u64, _: &mut Visit<'_>) -> Result<(), LogError> {
        Ok(())
    }

    fn oldest(&self) -> u64 {
        0
    }

    fn end(&self) -> u64 {
        0
    }

    fn tail(&self) -> u64 {
        self.0.tail().0
    }

    fn known(&self) -> Result<Option<Known>, LogError> {
        Ok(None)
    }

    fn remember(&self, _: &Known) -> Result<(), LogError> {
        Ok(())
    }

    fn hold(&self) -> (Box<dyn Send>, u64) {
        (Box::new(()), 0)
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().map_or(5.0, |text| text.parse().unwrap());
    let directory = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let time = Duration::from_secs_f64(seconds);
    for items in [1, BATCH] {
        let scratch = tempfile::tempdir_in(&directory).unwrap();
        plain(scratch.path(), time, items);
        for clients in [1, 8, 64] {
            let scratch = tempfile::tempdir_in(&directory).unwrap();
            store(scratch.path(), time, items, clients);
        }
    }
}

fn name(number: u64) -> String {
    format!("item-{number:08}")
}

/// Values as of stock prices: no two items have the same.
fn value(number: u64, attribute: usize) -> String {
    format!("{:012}", number.wrapping_mul(0x9e37_79b9).wrapping_add(attribute as u64) % 1_000_000)
}

/// The same rows, each put a transaction of its own.
fn plain(directory: &Path, time: Duration, items: usize) {
    let connection = Connection::open(directory.join("plain.db")).unwrap();
    connection.pragma_update(None, "journal_mode", "wal").unwrap();
    connection.pragma_update(None, "synchronous", "full").unwrap();
    connection.pragma_update(None, "cache_size", -(16 << 10)).unwrap();
    connection.execute_batch(TABLES).unwrap();
    for id in 1..=ATTRIBUTES as i64 {
        let sql = "INSERT INTO names (id, domain, name, pairs) VALUES (?, 1, ?, 0)";
        connection.execute(sql, params![id, format!("attribute{id}")]).unwrap();
    }
    let mut add_item =
        connection.prepare("INSERT INTO items (id, domain, name) VALUES (?, 1, ?)").unwrap();
    let sql = "INSERT INTO attributes (item, place, name, value) VALUES (?, ?, ?, ?)";
    let mut add_pair = connection.prepare(sql).unwrap();
    let (begun, mut number, mut times) = (Instant::now(), 0, Vec::new());
    while begun.elapsed() < time {
        let at = Instant::now();
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        for _ in 0..items {
            number += 1;
            add_item.execute(params![number as i64, name(number)]).unwrap();
            for attribute in 0..ATTRIBUTES {
                let place = attribute as i64;
                let pair = params![number as i64, place, place + 1, value(number, attribute)];
                add_pair.execute(pair).unwrap();
            }
        }
        connection.execute_batch("COMMIT").unwrap();
        times.push(at.elapsed());
    }
    report(&format!("plain SQLite, {items} an item put"), number, begun.elapsed(), times);
}

fn store(directory: &Path, time: Duration, items: usize, clients: usize) {
    let opened = LocalJournal::open(
        RealFileSystem::new(),
        &directory.join("journal"),
        LocalOptions::default(),
        &mut |_| {},
    );
    let log = GroupCommit::new(Box::new(opened.unwrap().0), GroupOptions::default());
    let committer = log.spawn_committer().unwrap();
    let place = Place::Directory(directory.join("tables"));
    let options = Options::default();
    let tables = Tables::open(&place, Arc::new(Journal(log.clone())), options).unwrap();
    let domain = DomainKey { region: "r".into(), account: "0".into(), name: "d".into() };
    block_on(tables.write(Write::CreateDomain(domain.clone()))).unwrap();
    let (begun, numbers) = (Instant::now(), AtomicU64::new(0));
    let client = || {
        let mut times = Vec::new();
        while begun.elapsed() < time {
            let first = numbers.fetch_add(items as u64, Ordering::Relaxed);
            let put = |number| PutItem {
                name: name(number),
                attributes: (0..ATTRIBUTES)
                    .map(|attribute| PutAttribute {
                        name: format!("attribute{}", attribute + 1),
                        value: value(number, attribute),
                        replace: false,
                    })
                    .collect(),
            };
            let items = (first..first + items as u64).map(put).collect();
            let at = Instant::now();
            let write = Write::Put { domain: domain.clone(), items, condition: None };
            block_on(tables.write(write)).unwrap();
            times.push(at.elapsed());
        }
        times
    };
    let times = thread::scope(|scope| {
        let clients: Vec<_> = (0..clients).map(|_| scope.spawn(client)).collect();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect::<Vec<_>>()
    });
    let text = format!("store, {clients} clients, {items} items a put");
    report(&text, numbers.load(Ordering::Relaxed), begun.elapsed(), times);
    tables.close();
    log.close();
    committer.join().unwrap();
}

fn report(what: &str, items: u64, elapsed: Duration, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |part: usize| times.get(times.len() * part / 100).copied().unwrap_or_default();
    let (rate, p50, p99) = (items as f64 / elapsed.as_secs_f64(), at(50), at(99));
    println!("{what:<36} {rate:>8.0} items/s   p50 {p50:>9.2?}   p99 {p99:>9.2?}");
}
