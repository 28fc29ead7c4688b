//! The group commit and what is below it: a batch of ten appended, committed by the same thread.

use std::hint::black_box;

use millrace_journal::{
    Durability, GroupCommit, GroupOptions, Journal, LocalJournal, LocalOptions, MemoryJournal,
    Purpose, RealFileSystem, Record,
};

use crate::Result;

const SEGMENT_BYTES: u32 = 16 << 20;

pub(crate) fn memory(operations: u32) -> Result<()> {
    append(Box::new(MemoryJournal::new(SEGMENT_BYTES)), operations)
}

/// Without syncs, which cost time and no instructions of ours.
pub(crate) fn file(operations: u32) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let options = LocalOptions {
        durability: Durability::Os,
        segment_bytes: SEGMENT_BYTES,
        ..LocalOptions::default()
    };
    let path = directory.path();
    let (journal, _) = LocalJournal::open(RealFileSystem::new(), path, options, &mut |_| {})?;
    append(Box::new(journal), operations)
}

fn append(journal: Box<dyn Journal>, operations: u32) -> Result<()> {
    let log = GroupCommit::new(journal, GroupOptions::default());
    let (index, payload) = ([1; 72], [7; 1024]);
    let records = [Record { index: &index, payload: &payload }; 10];
    let bytes = records.iter().map(Record::encoded_bytes).sum();
    let mut positions = Vec::new();
    for _ in 0..operations {
        positions.clear();
        let reservation = log.reserve(bytes, Purpose::Store)?;
        let ticket = log.append(reservation, black_box(&records), &mut positions);
        log.commit_step();
        log.outcome(ticket).ok_or("the batch was not committed")??;
    }
    Ok(())
}
