//! Walks of indices: the entries in ranges, in order, from a position on.

use std::ops::ControlFlow;

use rusqlite::types::Value;
use rusqlite::{Connection, params};

use super::ast::Direction;
use super::error::SelectError;
use super::ranges::{Range, Ranges, successor};
use super::token::Position;

/// One part after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Walk {
    pub parts: Vec<Part>,
    pub direction: Direction,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// None if there is nothing to walk by.
    pub index: Option<Index>,
    pub ranges: Ranges,
}

/// The ids of a domain and of an attribute's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Index {
    ItemNames { domain: i64 },
    Values { name: i64 },
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'a> {
    /// The number of the walk's part.
    pub part: u8,
    /// A value, or the item's name.
    pub key: &'a str,
    pub item: i64,
}

impl Walk {
    /// Calls `visit` with each entry behind the position until it breaks off.
    pub(super) fn run(
        &self,
        connection: &Connection,
        after: Option<&Position>,
        mut visit: impl FnMut(Entry<'_>) -> Result<ControlFlow<()>, SelectError>,
    ) -> Result<(), SelectError> {
        for (number, part) in (0..).zip(&self.parts) {
            let after = match after {
                Some(after) if after.part > number => continue,
                Some(after) if after.part == number => Some(after),
                _ => None,
            };
            if self.run_part(connection, (number, part), after, &mut visit)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn run_part(
        &self,
        connection: &Connection,
        (number, part): (u8, &Part),
        after: Option<&Position>,
        visit: &mut impl FnMut(Entry<'_>) -> Result<ControlFlow<()>, SelectError>,
    ) -> Result<ControlFlow<()>, SelectError> {
        let Some(index) = part.index else { return Ok(ControlFlow::Continue(())) };
        let mut statement = connection.prepare(index.sql(self.direction))?;
        let mut ranges: Vec<&Range> = part.ranges.as_slice().iter().collect();
        if self.direction == Direction::Descending {
            ranges.reverse();
        }
        for range in ranges {
            let Some((low, item, high)) = index.ends(self.direction, range, after) else {
                continue;
            };
            let mut rows = match index {
                Index::ItemNames { domain } => statement.query(params![domain, low, high])?,
                Index::Values { name } => statement.query(params![name, low, high, item])?,
            };
            while let Some(row) = rows.next()? {
                let entry = Entry { part: number, key: text(row, 0)?, item: row.get(1)? };
                if visit(entry)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Returns how many entries there are, or `most` if there are more.
    pub(super) fn count(&self, connection: &Connection, most: u64) -> rusqlite::Result<u64> {
        let mut count = 0;
        for Part { index, ranges } in &self.parts {
            let Some(index) = index else { continue };
            let (sql, id) = index.count_sql();
            let mut statement = connection.prepare(sql)?;
            for Range { low, high } in ranges.as_slice() {
                let rest = most.saturating_sub(count);
                let parameters = params![id, low, end(high.as_deref()), rest.cast_signed()];
                let found = statement.query_row(parameters, |row| row.get::<_, i64>(0))?;
                count += found.cast_unsigned();
                if count >= most {
                    return Ok(most);
                }
            }
        }
        Ok(count)
    }
}

impl Index {
    pub(super) fn sql(self, direction: Direction) -> &'static str {
        match (self, direction) {
            (Index::ItemNames { .. }, Direction::Ascending) => {
                "SELECT name, id FROM items \
                 WHERE domain = ?1 AND name >= ?2 AND name < ?3 ORDER BY name"
            }
            (Index::ItemNames { .. }, Direction::Descending) => {
                "SELECT name, id FROM items \
                 WHERE domain = ?1 AND name >= ?2 AND name < ?3 ORDER BY name DESC"
            }
            (Index::Values { .. }, Direction::Ascending) => {
                "SELECT value, item FROM attributes \
                 WHERE name = ?1 AND (value, item) > (?2, ?4) AND value < ?3 ORDER BY value, item"
            }
            (Index::Values { .. }, Direction::Descending) => {
                "SELECT value, item FROM attributes \
                 WHERE name = ?1 AND value >= ?2 AND (value, item) < (?3, ?4) \
                 ORDER BY value DESC, item DESC"
            }
        }
    }

    fn count_sql(self) -> (&'static str, i64) {
        match self {
            Index::ItemNames { domain } => (
                "SELECT count(*) FROM (SELECT 1 FROM items \
                 WHERE domain = ?1 AND name >= ?2 AND name < ?3 LIMIT ?4)",
                domain,
            ),
            Index::Values { name } => (
                "SELECT count(*) FROM (SELECT 1 FROM attributes \
                 WHERE name = ?1 AND value >= ?2 AND value < ?3 LIMIT ?4)",
                name,
            ),
        }
    }

    /// Returns the low end, the item that the statement compares with, and the high end. Nothing if
    /// the whole range is before the position.
    fn ends(
        self,
        direction: Direction,
        range: &Range,
        after: Option<&Position>,
    ) -> Option<(String, i64, Value)> {
        /// Below all ids.
        const NO_ITEM: i64 = -1;
        let Range { low, high } = range;
        let whole = (low.clone(), NO_ITEM, end(high.as_deref()));
        let Some(Position { key, item, .. }) = after else { return Some(whole) };
        let is_before_end = high.as_ref().is_none_or(|high| key < high);
        match (direction, self) {
            (Direction::Ascending, _) if key < low => Some(whole),
            (Direction::Ascending, _) if !is_before_end => None,
            (Direction::Ascending, Index::ItemNames { .. }) => {
                Some((successor(key), NO_ITEM, end(high.as_deref())))
            }
            (Direction::Ascending, Index::Values { .. }) => {
                Some((key.clone(), *item, end(high.as_deref())))
            }
            (Direction::Descending, _) if key < low => None,
            (Direction::Descending, _) if !is_before_end => Some(whole),
            (Direction::Descending, Index::ItemNames { .. }) => {
                Some((low.clone(), NO_ITEM, end(Some(key))))
            }
            (Direction::Descending, Index::Values { .. }) => {
                Some((low.clone(), *item, end(Some(key))))
            }
        }
    }
}

/// A text of the database. All are valid: they were stored as such.
pub(super) fn text<'r>(row: &'r rusqlite::Row<'_>, column: usize) -> rusqlite::Result<&'r str> {
    Ok(row.get_ref(column)?.as_str()?)
}

/// SQLite orders all blobs behind all texts.
fn end(high: Option<&str>) -> Value {
    high.map_or_else(|| Value::Blob(Vec::new()), |high| Value::Text(high.to_owned()))
}
