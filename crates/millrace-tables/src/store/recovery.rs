//! Brings the database up to date from the log: applies the records behind those that it has.

use super::change::RecordReader;
use super::log::{Log, LogError};
use super::open::OpenError;
use super::rows::Rows;

/// Records applied in one transaction.
const RECORDS_AT_A_TIME: u64 = 1_000;

/// Applies all records behind `applied`. Returns how many, and the position of the last.
pub(super) fn catch_up(
    rows: &mut Rows<'_>,
    log: &dyn Log,
    mut applied: u64,
) -> Result<(u64, u64), OpenError> {
    let sqlite = |error: rusqlite::Error| LogError::Refused(error.to_string());
    let mut records = 0;
    log.replay(applied, &mut |position, record| {
        if records % RECORDS_AT_A_TIME == 0 {
            if records > 0 {
                rows.commit(applied).map_err(sqlite)?;
            }
            rows.begin().map_err(sqlite)?;
        }
        apply_record(rows, record)?;
        (records, applied) = (records + 1, position);
        Ok(())
    })?;
    if records > 0 {
        rows.commit(applied).map_err(OpenError::sqlite("applying records of the journal"))?;
    }
    Ok((records, applied))
}

/// Applies one record within a transaction.
pub(super) fn apply_record(rows: &mut Rows<'_>, record: &[u8]) -> Result<(), LogError> {
    let mut changes = RecordReader::new(record)?;
    while let Some(change) = changes.next()? {
        rows.apply(&change).map_err(|error| match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::ConstraintViolation) => {
                LogError::Damaged(format!("a record does not fit the database: {error}"))
            }
            _ => LogError::Refused(error.to_string()),
        })?;
    }
    Ok(())
}
