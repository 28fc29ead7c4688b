//! Rolling up: data points of a part replaced by fewer ones.

use rusqlite::Connection;

use super::inner::{Entities, Inner, add, first_day, rows_of};
use super::{MetricStore, StoreError};
use crate::database::io_error;
use crate::points::{self, Part};
use crate::resolution::{DAY_S, MINUTES_OF_DAY, Resolution};

impl MetricStore {
    /// Rolls up or drops every part that has been kept long enough. Each is a transaction of its own,
    /// so that others write between them; one that fails does not stop the rest.
    pub(super) fn expire_parts(&self, now_s: u64) -> Result<(), StoreError> {
        let mut expired = Ok(());
        let mut last = None;
        loop {
            let mut inner = self.inner_mut();
            inner.first_day = first_day(now_s);
            let next = points::next_part(inner.writer.connection(), last).map_err(io_error)?;
            let Some(part) = next else { return expired };
            if !is_old(part, Resolution::Minute, now_s) {
                // Parts are in order of day.
                return expired;
            }
            expired = expired.and(self.expire_part(&mut inner, part, now_s));
            last = Some(part);
        }
    }

    fn expire_part(&self, inner: &mut Inner, part: Part, now_s: u64) -> Result<(), StoreError> {
        if !is_old(part, part.resolution, now_s) {
            return Ok(());
        }
        inner.change(&self.database, |connection| {
            // A part past every age is dropped unread, since it may be unreadable.
            let is_dropped = is_old(part, Resolution::Hour, now_s);
            if let Some(coarser) = part.resolution.coarser().filter(|_| !is_dropped) {
                roll_up(connection, part, coarser)?;
            }
            points::delete(connection, part)
        })
    }
}

fn is_old(part: Part, resolution: Resolution, now_s: u64) -> bool {
    let end_s = part.day.saturating_add(1).saturating_mul(DAY_S);
    end_s.saturating_add(resolution.kept_s()) <= now_s
}

/// One period after the other: a day of all periods may not fit into memory.
fn roll_up(connection: &Connection, part: Part, coarser: Resolution) -> rusqlite::Result<()> {
    for start in (0..MINUTES_OF_DAY).step_by(usize::from(coarser.period_minutes())) {
        let minutes = start..start + coarser.period_minutes();
        let mut entities = Entities::new();
        points::read::<rusqlite::Error>(
            connection,
            part,
            minutes,
            |_| true,
            |_, row| {
                let cells = entities.entry(row.entity).or_default();
                row.cells.iter().for_each(|(column, summary)| add(cells, *column, summary));
                Ok(())
            },
        )?;
        points::put(connection, (part.day, coarser), start, &rows_of(entities))?;
    }
    Ok(())
}
