//! Walks of an index: its entries in ranges, in order, from a position on.

use std::ops::ControlFlow;

use rusqlite::types::Value;
use rusqlite::{Connection, params};

use super::ast::Direction;
use super::error::SelectError;
use super::ranges::{Range, Ranges, successor};
use super::token::Position;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Walk {
    pub index: Index,
    pub ranges: Ranges,
    pub direction: Direction,
}

/// The ids of a domain and of an attribute's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Index {
    ItemNames { domain: i64 },
    Values { name: i64 },
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'a> {
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
        let mut statement = connection.prepare(self.sql())?;
        let ranges = self.ranges.as_slice();
        for step in 0..ranges.len() {
            let index = match self.direction {
                Direction::Ascending => step,
                Direction::Descending => ranges.len() - 1 - step,
            };
            let Some(range) = ranges.get(index) else { break };
            let Some((low, item, high)) = self.ends(range, after) else { continue };
            let mut rows = match self.index {
                Index::ItemNames { domain } => statement.query(params![domain, low, high])?,
                Index::Values { name } => statement.query(params![name, low, high, item])?,
            };
            while let Some(row) = rows.next()? {
                let entry = Entry { key: text(row, 0)?, item: row.get(1)? };
                if visit(entry)?.is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Returns how many entries there are, or `most` if there are more.
    pub(super) fn count(&self, connection: &Connection, most: u64) -> rusqlite::Result<u64> {
        let (sql, id) = match self.index {
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
        };
        let mut statement = connection.prepare(sql)?;
        let mut count = 0;
        for Range { low, high } in self.ranges.as_slice() {
            let rest = i64::try_from(most - count).unwrap_or(i64::MAX);
            let parameters = params![id, low, end(high.as_deref()), rest];
            let found = statement.query_row(parameters, |row| row.get::<_, i64>(0))?;
            count += found.cast_unsigned().min(most - count);
            if count >= most {
                break;
            }
        }
        Ok(count)
    }

    pub(super) fn sql(&self) -> &'static str {
        match (self.index, self.direction) {
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

    /// Returns the low end, the item that the statement compares with, and the high end. Nothing if
    /// the whole range is before the position.
    fn ends(&self, range: &Range, after: Option<&Position>) -> Option<(String, i64, Value)> {
        /// Below all ids.
        const NO_ITEM: i64 = -1;
        let Range { low, high } = range;
        let whole = (low.clone(), NO_ITEM, end(high.as_deref()));
        let Some(Position { key, item, .. }) = after else { return Some(whole) };
        let is_before_end = high.as_ref().is_none_or(|high| key < high);
        match (self.direction, self.index) {
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
