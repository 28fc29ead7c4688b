//! A journal on a simulated disk, and what is known about its records.
#![allow(dead_code, reason = "each test file uses a part")]

pub(crate) mod damaged;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use millrace_journal::{
    Durability, GroupCommit, GroupOptions, LocalJournal, LocalOptions, OpenError, Opened, Position,
    Purpose, Record, SimFileSystem, Ticket, Unavailable,
};

pub(crate) const SEGMENT_BYTES: u32 = 4 << 10;

pub(crate) fn dir() -> &'static Path {
    Path::new("/journal")
}

pub(crate) fn segment_path(number: u32) -> PathBuf {
    dir().join(format!("{number:08x}.seg"))
}

/// A record as replay showed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) position: Position,
    pub(crate) record_len: u32,
    pub(crate) id: u64,
    pub(crate) batch: u64,
}

pub(crate) struct Opening {
    pub(crate) group_commit: Arc<GroupCommit>,
    pub(crate) opened: Opened,
    pub(crate) seen: Vec<Seen>,
}

pub(crate) fn open(fs: &SimFileSystem) -> Result<Opening, OpenError> {
    open_with(fs, Durability::Fsync, SEGMENT_BYTES)
}

pub(crate) fn open_with(
    fs: &SimFileSystem,
    durability: Durability,
    segment_bytes: u32,
) -> Result<Opening, OpenError> {
    let mut seen = Vec::new();
    let options = LocalOptions { durability, segment_bytes, unindexed_segments: 0 };
    let (journal, opened) =
        LocalJournal::open(Arc::new(fs.clone()), dir(), options, &mut |record| {
            let (id, batch) = record.index.split_at(8);
            seen.push(Seen {
                position: record.position,
                record_len: record.record_len,
                id: u64::from_le_bytes(id.try_into().unwrap()),
                batch: u64::from_le_bytes(batch.try_into().unwrap()),
            });
        })?;
    // Nothing is cached, so that every read is one of the disk.
    let options = GroupOptions { recent_bytes: 0, ..GroupOptions::default() };
    Ok(Opening { group_commit: GroupCommit::new(Box::new(journal), options), opened, seen })
}

/// Bytes that only this record has.
pub(crate) fn payload(id: u64) -> Vec<u8> {
    let length = 20 + (id * 37 % 300) as usize;
    (0..length).map(|at| (id as usize * 31 + at * 7) as u8).collect()
}

/// Appends records with these ids as one batch.
pub(crate) fn append(
    group_commit: &Arc<GroupCommit>,
    batch: u64,
    ids: &[u64],
    purpose: Purpose,
) -> Result<(Ticket, Vec<Position>), Unavailable> {
    let contents: Vec<_> = ids
        .iter()
        .map(|id| ([id.to_le_bytes(), batch.to_le_bytes()].concat(), payload(*id)))
        .collect();
    let records: Vec<_> =
        contents.iter().map(|(index, payload)| Record { index, payload }).collect();
    let bytes = records.iter().map(Record::encoded_bytes).sum();
    let reservation = group_commit.reserve(bytes, purpose)?;
    let mut positions = Vec::new();
    let ticket = group_commit.append(reservation, &records, &mut positions);
    Ok((ticket, positions))
}

/// Appends one batch, which is admitted, and does not commit it.
pub(crate) fn append_records(
    group_commit: &GroupCommit,
    records: &[Record<'_>],
    positions: &mut Vec<Position>,
) -> Ticket {
    let bytes = records.iter().map(Record::encoded_bytes).sum();
    let reservation = group_commit.reserve(bytes, Purpose::Store).unwrap();
    group_commit.append(reservation, records, positions)
}

/// Appends and commits one batch.
pub(crate) fn store(
    group_commit: &Arc<GroupCommit>,
    batch: u64,
    ids: &[u64],
) -> Result<(), Unavailable> {
    let (ticket, _) = append(group_commit, batch, ids, Purpose::Store)?;
    while group_commit.commit_step() {}
    group_commit.outcome(ticket).expect("settled")
}

/// Everything that replay showed reads back as it was written.
pub(crate) fn assert_readable(opening: &Opening) {
    for seen in &opening.seen {
        let record = opening.group_commit.read(seen.position, seen.record_len).unwrap();
        assert_eq!(record.payload(), payload(seen.id));
        assert_eq!(record.index(), [seen.id.to_le_bytes(), seen.batch.to_le_bytes()].concat());
    }
}

/// Stores as many records, one after the other.
pub(crate) fn fill(group_commit: &Arc<GroupCommit>, from: u64, count: u64) {
    for id in from..from + count {
        store(group_commit, id, &[id]).unwrap();
    }
}

/// Does all the background work there is.
pub(crate) fn work_off(group_commit: &GroupCommit) {
    while group_commit.background_step() {}
}
