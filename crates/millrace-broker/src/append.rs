//! From the engine's records to the journal's.

use millrace_engine::record::Records;
use millrace_journal::{GroupCommit, Purpose, Record, Ticket, Unavailable};
use smallvec::SmallVec;

/// The records as the journal takes them.
pub(crate) fn journal_records<'r>(records: &'r Records<'_>) -> SmallVec<[Record<'r>; 10]> {
    records.iter().map(|(index, payload)| Record { index, payload }).collect()
}

/// Appends one record; returns also where it stands. May be refused, so it is not for the record of
/// a change that memory has already made.
pub(crate) fn append_one(
    log: &GroupCommit,
    purpose: Purpose,
    records: &Records<'_>,
) -> Result<(Ticket, u64), Unavailable> {
    let records = journal_records(records);
    let bytes = records.iter().map(Record::encoded_bytes).sum();
    let reservation = log.reserve(bytes, purpose)?;
    let mut positions = Vec::new();
    let ticket = log.append(reservation, &records, &mut positions);
    Ok((ticket, positions.first().map_or(0, |position| position.0)))
}
