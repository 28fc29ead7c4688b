//! Rolling up: a day's file written anew with fewer data points.

use std::io;

use super::StoreError;
use super::days::{Entities, Inner, add, rows_of};
use super::files::{DayFile, day_path};
use crate::day::{DAY_S, Day, ROWS_PER_FRAME, Resolution, frame};
use crate::directory::{Directory, sync_dir};
use crate::log::Log;
use crate::row::Row;

const MINUTES_OF_DAY: u16 = 1_440;

/// Rows of a period that begins with that minute of the day.
type Part = (u16, Vec<Row>);

impl Inner {
    /// Rolls up or drops every day that has been kept long enough, and forgets series that only
    /// days before had. A day for which that fails keeps no other from it.
    pub(super) fn expire(&mut self, dir: Option<&Directory>, now_s: u64) -> Result<(), StoreError> {
        let days: Vec<u64> = self.days.keys().copied().collect();
        let mut expired = Ok(());
        for day in days {
            expired = expired.and(self.expire_day(dir, day, now_s));
        }
        self.catalog.forget(now_s);
        // Its failure first: nothing may be written after some of them.
        self.catalog.tidy().and(expired)
    }

    /// Drops every day.
    pub(super) fn drop_days(&mut self, dir: Option<&Directory>) -> Result<(), StoreError> {
        let days: Vec<u64> = self.days.keys().copied().collect();
        days.into_iter().try_for_each(|day| self.drop_day(dir, day))
    }

    fn expire_day(
        &mut self,
        dir: Option<&Directory>,
        day: u64,
        now_s: u64,
    ) -> Result<(), StoreError> {
        let is_old = |resolution: Resolution| (day + 1) * DAY_S + resolution.kept_s() <= now_s;
        while let Some(file) = self.days.get(&day)
            && is_old(file.resolution)
        {
            // What is too old for any is dropped unread, as it may be that it cannot be read.
            match file.resolution.coarser().filter(|_| !is_old(Resolution::Hour)) {
                Some(coarser) => self.roll_up(dir, day, coarser)?,
                None => self.drop_day(dir, day)?,
            }
        }
        Ok(())
    }

    fn roll_up(
        &mut self,
        dir: Option<&Directory>,
        day: u64,
        coarser: Resolution,
    ) -> Result<(), StoreError> {
        let Some(file) = self.days.get(&day) else { return Ok(()) };
        let finer = file.resolution;
        let rolled = {
            let opened = file.opened(dir, day)?;
            let Some(opened) = opened.as_ref() else { return Ok(()) };
            let parts = coarser_parts(opened, coarser);
            match dir {
                None => Some(in_memory(parts)?),
                Some(dir) => {
                    let frames = parts.map(|part| part.map(|(minute, rows)| frame(minute, &rows)));
                    Log::replace(&day_path(dir.path(), day, coarser), frames)?;
                    None
                }
            }
        };
        let file = DayFile { resolution: coarser, opened: std::sync::Mutex::new(rolled) };
        self.days.insert(day, file);
        if let Some(dir) = dir {
            std::fs::remove_file(day_path(dir.path(), day, finer))?;
        }
        Ok(())
    }

    fn drop_day(&mut self, dir: Option<&Directory>, day: u64) -> Result<(), StoreError> {
        let Some(file) = self.days.remove(&day) else { return Ok(()) };
        if let Some(dir) = dir {
            std::fs::remove_file(day_path(dir.path(), day, file.resolution))?;
            sync_dir(dir.path())?;
        }
        Ok(())
    }
}

fn in_memory(parts: impl Iterator<Item = io::Result<Part>>) -> io::Result<Day> {
    let mut day = Day::in_memory();
    for part in parts {
        day.append(&[part?])?;
    }
    Ok(day)
}

/// The day's rows by coarser periods, in parts that fit into a frame.
fn coarser_parts(day: &Day, coarser: Resolution) -> impl Iterator<Item = io::Result<Part>> {
    let periods = (0..MINUTES_OF_DAY).step_by(usize::from(coarser.period_minutes()));
    periods.flat_map(move |minute| match rows_of_period(day, minute, coarser) {
        Ok(rows) => {
            let parts = rows.chunks(ROWS_PER_FRAME);
            parts.map(|rows| Ok((minute, rows.to_vec()))).collect()
        }
        Err(error) => vec![Err(error)],
    })
}

/// All rows of one coarser period, taken together.
fn rows_of_period(day: &Day, minute: u16, coarser: Resolution) -> io::Result<Vec<Row>> {
    let mut entities = Entities::new();
    let minutes = minute..minute + coarser.period_minutes();
    day.read_minutes(minutes, |_, row| {
        let cells = entities.entry(row.entity).or_default();
        for (column, summary) in row.cells {
            add(cells, column, &summary);
        }
    })?;
    Ok(rows_of(entities))
}
