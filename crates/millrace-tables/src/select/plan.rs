//! Chooses the walk that answers a query.
//!
//! ```text
//! order by   several covers     walk
//! no         no                 all items, by name
//! no         yes                the cover with the fewest entries
//! yes        no                 the sort attribute, as far as the condition allows
//! yes        one has few        that cover; what it finds is sorted
//! ```
//! How many entries a cover has is counted up to a bound, so that a choice costs next to nothing.

use rusqlite::{Connection, OptionalExtension, params};

use super::ast::{Direction, Operand, Order, Select};
use super::covers::{Cover, covers, exact};
use super::error::SelectError;
use super::ranges::Ranges;
use super::token::Position;
use super::walk::{Index, Walk};

/// Entries of a cover that are counted, and items that are sorted, at most.
pub(super) const FEW: u64 = 2_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// For the token: pages of one answer take the same walk.
    pub number: u8,
    pub walk: Walk,
    pub keeps: Keeps,
    /// The walk finds exactly the items that the condition holds for.
    pub is_exact: bool,
    /// The walk is not in the order of the answer. It has few entries.
    pub is_to_be_sorted: bool,
}

/// Which of the entries that an item has in a walk stands for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Keeps {
    /// There is one.
    All,
    /// The first in the walk's ranges.
    First(String),
    /// The one with the least value of the attribute, or the greatest if the walk descends.
    Extreme(String),
}

/// Returns nothing if there cannot be any item.
pub(super) fn plan(
    connection: &Connection,
    domain: i64,
    select: &Select,
    after: Option<&Position>,
) -> Result<Option<Plan>, SelectError> {
    let covers = select.condition.as_ref().map(covers).unwrap_or_default();
    let planner = Planner { connection, domain, select, covers };
    match &select.order {
        None => planner.unordered(after),
        Some(order) => planner.ordered(order, after),
    }
}

struct Planner<'a> {
    connection: &'a Connection,
    domain: i64,
    select: &'a Select,
    covers: Vec<Cover>,
}

impl Planner<'_> {
    fn unordered(&self, after: Option<&Position>) -> Result<Option<Plan>, SelectError> {
        let numbered = match after {
            Some(after) => usize::from(after.walk),
            None => self.smallest()?.map_or(0, |(number, _)| number),
        };
        match self.covers.get(numbered) {
            Some(cover) => self.of_cover(cover, numbered),
            None if self.covers.is_empty() && numbered == 0 => {
                let index = Index::ItemNames { domain: self.domain };
                let walk = Walk { index, ranges: Ranges::all(), direction: Direction::Ascending };
                let is_exact = self.select.condition.is_none();
                let keeps = Keeps::All;
                Ok(Some(Plan { number: 0, walk, keeps, is_exact, is_to_be_sorted: false }))
            }
            None => Err(SelectError::Token),
        }
    }

    fn ordered(
        &self,
        order: &Order,
        after: Option<&Position>,
    ) -> Result<Option<Plan>, SelectError> {
        if after.is_some_and(|after| after.walk != 0) {
            return Err(SelectError::Token);
        }
        let Some((index, is_single)) = self.index_of(&order.by)? else { return Ok(None) };
        let mut ranges = Ranges::all();
        for cover in self.covers.iter().filter(|cover| cover.operand == order.by) {
            // The sort key is the least value. It may be below the range that another value is in,
            // but not above.
            let allowed = match order.direction {
                _ if is_single => cover.ranges.clone(),
                Direction::Ascending => cover.ranges.up_to_end(),
                Direction::Descending => cover.ranges.from_start(),
            };
            ranges = ranges.intersection(&allowed);
        }
        let walk = Walk { index, ranges, direction: order.direction };
        let is_exact = self.is_exact(&order.by);
        if !(is_exact && is_single)
            && let Some((number, entries)) = self.smallest()?
            && entries < FEW
            && entries < walk.count(self.connection, FEW)?
            && let Some(cover) = self.covers.get(number)
        {
            let plan = self.of_cover(cover, 0)?;
            return Ok(plan.map(|plan| Plan { is_to_be_sorted: true, ..plan }));
        }
        let keeps = match &order.by {
            Operand::Attribute(name) if !is_single => Keeps::Extreme(name.clone()),
            _ => Keeps::All,
        };
        Ok(Some(Plan { number: 0, walk, keeps, is_exact, is_to_be_sorted: false }))
    }

    fn of_cover(&self, cover: &Cover, number: usize) -> Result<Option<Plan>, SelectError> {
        let Some((index, is_single)) = self.index_of(&cover.operand)? else { return Ok(None) };
        let keeps = match &cover.operand {
            Operand::Attribute(name) if !is_single => Keeps::First(name.clone()),
            _ => Keeps::All,
        };
        let ranges = cover.ranges.clone();
        Ok(Some(Plan {
            number: u8::try_from(number).map_err(|_| SelectError::Token)?,
            walk: Walk { index, ranges, direction: Direction::Ascending },
            keeps,
            is_exact: self.is_exact(&cover.operand),
            is_to_be_sorted: false,
        }))
    }

    /// Returns the number of the cover with the fewest entries, and how many those are, counted up
    /// to a bound.
    fn smallest(&self) -> Result<Option<(usize, u64)>, SelectError> {
        if let [_] = self.covers.as_slice()
            && self.select.order.is_none()
        {
            return Ok(Some((0, 0)));
        }
        let mut smallest = None;
        for (number, cover) in self.covers.iter().enumerate() {
            let entries = match self.index_of(&cover.operand)? {
                Some((index, _)) => {
                    let ranges = cover.ranges.clone();
                    let walk = Walk { index, ranges, direction: Direction::Ascending };
                    walk.count(self.connection, FEW)?
                }
                None => 0,
            };
            if smallest.is_none_or(|(_, fewest)| entries < fewest) {
                smallest = Some((number, entries));
            }
        }
        Ok(smallest)
    }

    /// Returns the index of an operand, and true if no item has two entries in it. Nothing if no
    /// item of the domain has the attribute.
    fn index_of(&self, operand: &Operand) -> Result<Option<(Index, bool)>, SelectError> {
        let Operand::Attribute(name) = operand else {
            return Ok(Some((Index::ItemNames { domain: self.domain }, true)));
        };
        let sql = "SELECT id, pairs = items FROM names WHERE domain = ? AND name = ?";
        let mut statement = self.connection.prepare(sql)?;
        let found = statement.query_row(params![self.domain, name], |row| {
            Ok((Index::Values { name: row.get(0)? }, row.get(1)?))
        });
        Ok(found.optional()?)
    }

    fn is_exact(&self, operand: &Operand) -> bool {
        let condition = self.select.condition.as_ref();
        condition.and_then(exact).is_some_and(|(exact, _)| exact == operand)
    }
}
