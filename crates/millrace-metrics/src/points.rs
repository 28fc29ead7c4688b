//! Data points in the database: one blob for the entities of a part at one time.
//!
//! ```text
//! blob  CRC32C of the rest u32, little-endian | row …
//! ```
//! SQLite checks its own pages, not what is in blobs: a blob whose checksum is wrong is left out.

use std::ops::{Range, RangeInclusive};

use rusqlite::{Connection, OptionalExtension, params};

use crate::number::Reader;
use crate::resolution::Resolution;
use crate::row::Row;

/// Entities that share a blob. A read of one entity reads its whole part.
const ENTITIES_PER_PART: u32 = 1_000;
const CHECKSUM_BYTES: usize = 4;

/// Data points of one day, at one resolution, of the entities of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Part {
    pub day: u64,
    pub resolution: Resolution,
    pub part: u32,
}

/// The part that an entity is in.
pub(crate) fn part_of(entity: u32) -> u32 {
    entity / ENTITIES_PER_PART
}

/// Adds rows of one minute of a day, in ascending order of entity.
pub(crate) fn put(
    connection: &Connection,
    (day, resolution): (u64, Resolution),
    minute: u16,
    rows: &[Row],
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(
        "INSERT INTO points SELECT ?1, ?2, ?3, ?4, \
         (SELECT ifnull(max(number) + 1, 0) FROM points \
          WHERE day = ?1 AND resolution = ?2 AND part = ?3 AND minute = ?4), ?5",
    )?;
    for rows in rows.chunk_by(|a, b| part_of(a.entity) == part_of(b.entity)) {
        let Some(part) = rows.first().map(|row| part_of(row.entity)) else { continue };
        let blob = blob_of(rows);
        let minutes = resolution.period_minutes();
        statement.execute(params![day.cast_signed(), minutes, part, minute, blob])?;
    }
    Ok(())
}

/// Calls `row` with each wanted row of those minutes, in order of time. Ends early with its error.
pub(crate) fn read<E: From<rusqlite::Error>>(
    connection: &Connection,
    part: Part,
    minutes: Range<u16>,
    is_wanted: impl Fn(u32) -> bool,
    mut row: impl FnMut(u16, Row) -> Result<(), E>,
) -> Result<(), E> {
    let mut statement = connection.prepare(
        "SELECT minute, rows FROM points WHERE day = ? AND resolution = ? AND part = ? \
         AND minute >= ? AND minute < ? ORDER BY minute, number",
    )?;
    let Part { day, resolution, part } = part;
    let mut found = statement.query(params![
        day.cast_signed(),
        resolution.period_minutes(),
        part,
        minutes.start,
        minutes.end
    ])?;
    while let Some(found) = found.next()? {
        let minute = found.get(0)?;
        let blob = found.get_ref(1)?.as_blob().unwrap_or_default();
        let Some(rows) = sound(blob) else {
            tracing::error!(day, minute, part, "damaged data points are left out");
            continue;
        };
        let mut reader = Reader(rows);
        while !reader.is_empty() {
            match Row::take(&mut reader, &is_wanted) {
                Ok(Some(found)) => row(minute, found)?,
                Ok(None) => {}
                Err(_) => break,
            }
        }
    }
    Ok(())
}

/// The part that follows `after`, in order of day, resolution and entities.
pub(crate) fn next_part(
    connection: &Connection,
    after: Option<Part>,
) -> rusqlite::Result<Option<Part>> {
    let after = after.map_or((-1, 0, 0), |after| {
        (after.day.cast_signed(), after.resolution.period_minutes(), after.part)
    });
    let next = connection.query_row(
        "SELECT day, resolution, part FROM points WHERE (day, resolution, part) > (?, ?, ?) \
         ORDER BY day, resolution, part LIMIT 1",
        after,
        |row| Ok((row.get::<_, i64>(0)?, row.get::<_, u16>(1)?, row.get(2)?)),
    );
    let Some((day, minutes, part)) = next.optional()? else { return Ok(None) };
    let resolution = Resolution::ALL.into_iter().find(|r| r.period_minutes() == minutes);
    let resolution =
        resolution.ok_or(rusqlite::Error::IntegralValueOutOfRange(1, minutes.into()))?;
    Ok(Some(Part { day: day.cast_unsigned(), resolution, part }))
}

pub(crate) fn delete(connection: &Connection, part: Part) -> rusqlite::Result<()> {
    let Part { day, resolution, part } = part;
    let statement = "DELETE FROM points WHERE day = ? AND resolution = ? AND part = ?";
    let key = params![day.cast_signed(), resolution.period_minutes(), part];
    connection.execute(statement, key).map(drop)
}

/// The first and the last day that have data points.
pub(crate) fn days(connection: &Connection) -> rusqlite::Result<Option<RangeInclusive<u64>>> {
    let of = |order: &str| {
        let statement = format!("SELECT day FROM points ORDER BY day {order} LIMIT 1");
        connection.query_row(&statement, [], |row| row.get::<_, i64>(0)).optional()
    };
    let days = of("ASC")?.zip(of("DESC")?);
    Ok(days.map(|(first, last)| first.cast_unsigned()..=last.cast_unsigned()))
}

fn blob_of(rows: &[Row]) -> Vec<u8> {
    let mut blob = Vec::with_capacity(CHECKSUM_BYTES + rows.len() * 16);
    blob.extend_from_slice(&[0; CHECKSUM_BYTES]);
    rows.iter().for_each(|row| row.put(&mut blob));
    if let Some((checksum, rows)) = blob.split_first_chunk_mut::<CHECKSUM_BYTES>() {
        *checksum = crc32c::crc32c(rows).to_le_bytes();
    }
    blob
}

fn sound(blob: &[u8]) -> Option<&[u8]> {
    let (checksum, rows) = blob.split_first_chunk::<CHECKSUM_BYTES>()?;
    (crc32c::crc32c(rows).to_le_bytes() == *checksum).then_some(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Summary;
    use crate::database::Database;

    fn row(entity: u32) -> Row {
        Row { entity, cells: vec![(0, Summary::of(f64::from(entity)))] }
    }

    fn found(connection: &Connection, part: Part, minutes: Range<u16>) -> Vec<(u16, u32)> {
        let mut found = Vec::new();
        let all = read::<rusqlite::Error>(
            connection,
            part,
            minutes,
            |_| true,
            |minute, row| {
                found.push((minute, row.entity));
                Ok(())
            },
        );
        all.unwrap();
        found
    }

    #[test]
    fn rows_are_found_by_day_part_and_minute() {
        let (_database, mut writer) = Database::in_memory().unwrap();
        let connection = writer.connection();
        let put = |day, minute, entities: &[u32]| {
            let rows: Vec<Row> = entities.iter().map(|entity| row(*entity)).collect();
            put(connection, (day, Resolution::Minute), minute, &rows).unwrap();
        };
        put(7, 3, &[1, 999, 1_000, 5_000]);
        put(7, 3, &[2]);
        put(7, 4, &[1]);
        put(9, 0, &[1]);
        let part = |day, part| Part { day, resolution: Resolution::Minute, part };

        assert_eq!(found(connection, part(7, 0), 0..1_440), [(3, 1), (3, 999), (3, 2), (4, 1)]);
        assert_eq!(found(connection, part(7, 0), 4..5), [(4, 1)]);
        assert_eq!(found(connection, part(7, 5), 0..1_440), [(3, 5_000)]);
        let mut parts = Vec::new();
        while let Some(next) = next_part(connection, parts.last().copied()).unwrap() {
            parts.push(next);
        }
        assert_eq!(parts, [part(7, 0), part(7, 1), part(7, 5), part(9, 0)]);
        assert_eq!(days(connection).unwrap(), Some(7..=9));
        parts.into_iter().for_each(|part| delete(connection, part).unwrap());
        assert_eq!(days(connection).unwrap(), None);
    }

    #[test]
    fn a_damaged_blob_costs_no_other() {
        let (_database, mut writer) = Database::in_memory().unwrap();
        let connection = writer.connection();
        for minute in 0..3 {
            put(connection, (7, Resolution::Minute), minute, &[row(1)]).unwrap();
        }
        let damage = "UPDATE points SET rows = zeroblob(length(rows)) WHERE minute = 1";
        connection.execute_batch(damage).unwrap();

        let part = Part { day: 7, resolution: Resolution::Minute, part: 0 };
        assert_eq!(found(connection, part, 0..1_440), [(0, 1), (2, 1)]);
    }
}
