//! The state under the store's lock: catalog, the connection that writes, unwritten minutes.

use std::collections::BTreeMap;

use rusqlite::Connection;

use super::{Record, StoreError};
use crate::catalog::Catalog;
use crate::database::{Database, Writer, io_error};
use crate::points;
use crate::resolution::{DAY_S, Resolution};
use crate::row::Row;
use crate::{BASE_PERIOD_S, Sample, Summary};

/// Minutes whose values are kept in memory while they cannot be written.
const UNWRITTEN_MAX: usize = 60;

/// Values by entity and column.
pub(super) type Entities = BTreeMap<u32, BTreeMap<u16, Summary>>;

/// The same by minute.
type Rows = BTreeMap<u64, Entities>;

pub(super) struct Inner {
    pub catalog: Catalog,
    pub writer: Writer,
    /// The minute that the source gathers for, seconds.
    pub open_s: u64,
    /// Closed minutes that could not be written yet.
    pub unwritten: Vec<(u64, Vec<Sample>)>,
    /// The first day of which data points a minute apart are kept.
    pub first_day: u64,
}

impl Inner {
    /// Returns how many values were left out, as [`Inner::write`] does.
    pub(super) fn write_unwritten(&mut self, database: &Database) -> Result<usize, StoreError> {
        let unwritten = std::mem::take(&mut self.unwritten);
        let mut left_out = 0;
        for (number, (time_s, samples)) in unwritten.iter().enumerate() {
            match self.write(database, *time_s, samples) {
                Ok(count) => left_out += count,
                Err(error) => {
                    self.unwritten = unwritten.get(number..).unwrap_or_default().to_vec();
                    self.forget_unwritten();
                    return Err(error);
                }
            }
        }
        Ok(left_out)
    }

    /// Keeps the last hour only.
    pub(super) fn forget_unwritten(&mut self) {
        let excess = self.unwritten.len().saturating_sub(UNWRITTEN_MAX);
        self.unwritten.drain(..excess);
    }

    /// Stores what the source gathered in a minute. Values of series for which there is no room are
    /// left out, so that the others are not lost with them; returns how many.
    pub(super) fn write(
        &mut self,
        database: &Database,
        time_s: u64,
        samples: &[Sample],
    ) -> Result<usize, StoreError> {
        let mut rows = Rows::default();
        let mut left_out = 0;
        for sample in samples {
            for value in &sample.values {
                match self.catalog.series(&sample.entity, value.metric, value.unit) {
                    Ok(series) => add_to_rows(&mut rows, time_s, series, &value.summary),
                    Err(StoreError::TooManySeries) => left_out += 1,
                    Err(error) => return Err(error),
                }
            }
        }
        self.put(database, rows).map(|()| left_out)
    }

    pub(super) fn record(
        &mut self,
        database: &Database,
        records: &[Record<'_>],
    ) -> Result<(), StoreError> {
        let mut rows = Rows::default();
        for record in records {
            let series = self.catalog.series(record.entity, record.metric, record.unit)?;
            add_to_rows(&mut rows, record.time_s, series, &record.summary);
        }
        self.put(database, rows)
    }

    /// Puts rows into the database, all or none. Those of days that were rolled up are left out.
    fn put(&mut self, database: &Database, rows: Rows) -> Result<(), StoreError> {
        for (time_s, entities) in &rows {
            let of_entity = |(id, cells): (&u32, &BTreeMap<u16, Summary>)| {
                cells.keys().map(|column| (*id, *column)).collect::<Vec<_>>()
            };
            self.catalog.saw(*time_s, entities.iter().flat_map(of_entity));
        }
        let first_day = self.first_day;
        self.change(database, |connection| {
            for (time_s, entities) in rows {
                let day = time_s / DAY_S;
                let minute = (time_s % DAY_S / BASE_PERIOD_S) as u16;
                if day >= first_day {
                    let at = (day, Resolution::Minute);
                    points::put(connection, at, minute, &rows_of(entities))?;
                }
            }
            Ok(())
        })
    }

    /// Runs a transaction that saves the catalog, too.
    pub(super) fn change<T>(
        &mut self,
        database: &Database,
        change: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let _turn = database.turn();
        let catalog = &self.catalog;
        let connection = self.writer.connection();
        let run = || {
            let transaction = connection.transaction()?;
            catalog.save(&transaction)?;
            let changed = change(&transaction)?;
            transaction.commit()?;
            Ok(changed)
        };
        let changed = run().map_err(io_error)?;
        self.catalog.saved();
        Ok(changed)
    }
}

/// The first day of which data points a minute apart are kept at that time.
pub(super) fn first_day(now_s: u64) -> u64 {
    now_s.saturating_sub(Resolution::Minute.kept_s()) / DAY_S
}

pub(super) fn add<K: Ord>(to: &mut BTreeMap<K, Summary>, key: K, summary: &Summary) {
    to.entry(key).and_modify(|known| known.add(summary)).or_insert_with(|| summary.clone());
}

fn add_to_rows(rows: &mut Rows, time_s: u64, (id, column): (u32, u16), summary: &Summary) {
    add(rows.entry(minute(time_s)).or_default().entry(id).or_default(), column, summary);
}

pub(super) fn rows_of(entities: Entities) -> Vec<Row> {
    let row = |(entity, cells): (u32, BTreeMap<u16, Summary>)| Row {
        entity,
        cells: cells.into_iter().collect(),
    };
    entities.into_iter().map(row).collect()
}

pub(super) fn minute(time_s: u64) -> u64 {
    time_s - time_s % BASE_PERIOD_S
}
