//! What one lock guards: the catalog, the days, and what could not be written yet.

use std::collections::BTreeMap;
use std::io;

use super::files::DayFile;
use super::{Record, StoreError};
use crate::catalog::Catalog;
use crate::day::{DAY_S, ROWS_PER_FRAME, Resolution};
use crate::directory::Directory;
use crate::row::Row;
use crate::{BASE_PERIOD_S, Sample, Summary};

/// Minutes whose values are kept in memory while they cannot be written.
const UNWRITTEN_MAX: usize = 60;

/// Values by entity and column.
pub(super) type Entities = BTreeMap<u32, BTreeMap<u16, Summary>>;

/// The same by minute.
type Rows = BTreeMap<u64, Entities>;

/// Into how many frames rows go.
#[derive(Clone, Copy)]
enum Framing {
    /// One a day: after a crash all are there or none.
    Whole,
    /// So many that reading one series does not mean to read all.
    Parts,
}

pub(super) struct Inner {
    pub catalog: Catalog,
    pub days: BTreeMap<u64, DayFile>,
    /// The minute that the source gathers for, seconds.
    pub open_s: u64,
    /// Closed minutes that could not be written yet.
    pub unwritten: Vec<(u64, Vec<Sample>)>,
    pub has_new_file: bool,
}

impl Inner {
    /// Returns how many values were left out, as [`Inner::write`] does.
    pub(super) fn write_unwritten(&mut self, dir: Option<&Directory>) -> Result<usize, StoreError> {
        let unwritten = std::mem::take(&mut self.unwritten);
        let mut left_out = 0;
        for (number, (time_s, samples)) in unwritten.iter().enumerate() {
            match self.write(dir, *time_s, samples) {
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
        dir: Option<&Directory>,
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
        self.append_rows(dir, rows, Framing::Parts).map(|()| left_out)
    }

    pub(super) fn record(
        &mut self,
        dir: Option<&Directory>,
        records: &[Record<'_>],
    ) -> Result<(), StoreError> {
        let mut rows = Rows::default();
        for record in records {
            let series = self.catalog.series(record.entity, record.metric, record.unit)?;
            add_to_rows(&mut rows, record.time_s, series, &record.summary);
        }
        self.append_rows(dir, rows, Framing::Whole)
    }

    fn append_rows(
        &mut self,
        dir: Option<&Directory>,
        rows: Rows,
        framing: Framing,
    ) -> Result<(), StoreError> {
        let mut days: BTreeMap<u64, Vec<(u16, Vec<Row>)>> = BTreeMap::new();
        for (time_s, entities) in rows {
            let rows = rows_of(entities);
            let seen: Vec<(u32, u16)> = rows
                .iter()
                .flat_map(|row| row.cells.iter().map(|(column, _)| (row.entity, *column)))
                .collect();
            // First, or a crash could leave values of an entity that nobody has seen.
            self.catalog.saw(time_s, &seen)?;
            let minute = (time_s % DAY_S / BASE_PERIOD_S) as u16;
            let of_day = days.entry(time_s / DAY_S).or_default();
            match framing {
                Framing::Whole => of_day.push((minute, rows)),
                Framing::Parts => {
                    of_day.extend(rows.chunks(ROWS_PER_FRAME).map(|rows| (minute, rows.to_vec())));
                }
            }
        }
        // Before any value bears a number: one whose name a power loss takes would be given anew.
        self.catalog.sync()?;
        let mut appended = Vec::new();
        for (day, minutes) in days {
            let frames = match framing {
                Framing::Whole => minutes.chunks(minutes.len()),
                Framing::Parts => minutes.chunks(1),
            };
            for frame in frames {
                match self.append(dir, day, frame) {
                    Ok(at) => appended.extend(at.map(|at| (day, at))),
                    Err(error) => {
                        self.take_back(dir, &appended)?;
                        return Err(error.into());
                    }
                }
            }
        }
        Ok(())
    }

    /// Appends rows of a day, all or none; returns where. Of a day that has been rolled up already
    /// none are.
    fn append(
        &mut self,
        dir: Option<&Directory>,
        day: u64,
        minutes: &[(u16, Vec<Row>)],
    ) -> io::Result<Option<u64>> {
        if !self.days.contains_key(&day) {
            let file = DayFile::unopened(Resolution::Minute);
            // Before it is known: a day that cannot be opened would make every read fail.
            drop(file.opened(dir, day)?);
            self.has_new_file = true;
            self.days.insert(day, file);
        }
        let Some(file) = self.days.get(&day) else { return Ok(None) };
        if file.resolution != Resolution::Minute {
            return Ok(None);
        }
        let mut opened = file.opened(dir, day)?;
        opened.as_mut().map(|day| day.append(minutes)).transpose()
    }

    /// Undoes what was appended to those days: a client that is told of a failure sends all again.
    fn take_back(
        &self,
        dir: Option<&Directory>,
        appended: &[(u64, u64)],
    ) -> Result<(), StoreError> {
        // The last first: what is cut off is the end of the file.
        for (day, at) in appended.iter().rev() {
            let Some(file) = self.days.get(day) else { continue };
            if let Some(opened) = file.opened(dir, *day)?.as_mut() {
                opened.take_back(*at).map_err(|_| StoreError::Poisoned)?;
            }
        }
        Ok(())
    }
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
