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
use super::covers::{Cover, Part, covers, exact};
use super::error::SelectError;
use super::ranges::Ranges;
use super::token::Position;
use super::walk::{self, Index, Walk};

/// Entries of a cover that are counted, and items that are sorted, at most.
pub(super) const FEW: u64 = 2_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// For the token: pages of one answer take the same walk.
    pub number: u8,
    pub walk: Walk,
    /// What the walk is by, if it has one part.
    pub operand: Option<Operand>,
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
    /// The first in the walk, which is by these.
    First(Vec<Part>),
    /// The one with the least value of the attribute, or the greatest if the walk descends.
    Extreme(String),
}

pub(super) fn plan(
    connection: &Connection,
    domain: i64,
    select: &Select,
    after: Option<&Position>,
) -> Result<Plan, SelectError> {
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
    fn unordered(&self, after: Option<&Position>) -> Result<Plan, SelectError> {
        let number = match after {
            Some(after) => usize::from(after.walk),
            None => self.smallest()?.map_or(0, |(number, _)| number),
        };
        match self.covers.get(number) {
            Some(cover) => self.of_cover(cover, number),
            None if self.covers.is_empty() && number == 0 => {
                let index = Some(Index::ItemNames { domain: self.domain });
                let parts = vec![walk::Part { index, ranges: Ranges::all() }];
                Ok(Plan {
                    number: 0,
                    walk: Walk { parts, direction: Direction::Ascending },
                    operand: Some(Operand::ItemName),
                    keeps: Keeps::All,
                    is_exact: self.select.condition.is_none(),
                    is_to_be_sorted: false,
                })
            }
            None => Err(SelectError::Token),
        }
    }

    fn ordered(&self, order: &Order, after: Option<&Position>) -> Result<Plan, SelectError> {
        if after.is_some_and(|after| after.walk != 0 || after.part != 0) {
            return Err(SelectError::Token);
        }
        let (index, is_single) = self.index_of(&order.by)?;
        let mut ranges = Ranges::all();
        for of_cover in self.covers.iter().filter_map(|cover| cover.ranges_of(&order.by)) {
            // The sort key is the least value. It may be below the range that another value is in,
            // but not above.
            let allowed = match order.direction {
                _ if is_single => of_cover.clone(),
                Direction::Ascending => of_cover.with_no_start(),
                Direction::Descending => of_cover.with_no_end(),
            };
            ranges = ranges.intersection(&allowed);
        }
        let parts = vec![walk::Part { index, ranges }];
        let walk = Walk { parts, direction: order.direction };
        let is_exact = self.is_exact(&order.by);
        if !(is_exact && is_single)
            && let Some((number, entries)) = self.smallest()?
            && entries < FEW
            && entries < walk.count(self.connection, FEW)?
            && let Some(cover) = self.covers.get(number)
        {
            return Ok(Plan { is_to_be_sorted: true, ..self.of_cover(cover, 0)? });
        }
        let keeps = match &order.by {
            Operand::Attribute(name) if !is_single => Keeps::Extreme(name.clone()),
            _ => Keeps::All,
        };
        let operand = Some(order.by.clone());
        Ok(Plan { number: 0, walk, operand, keeps, is_exact, is_to_be_sorted: false })
    }

    fn of_cover(&self, cover: &Cover, number: usize) -> Result<Plan, SelectError> {
        let mut parts = Vec::new();
        let mut has_one_entry = cover.parts.len() == 1;
        for Part { operand, ranges } in &cover.parts {
            let (index, is_single) = self.index_of(operand)?;
            has_one_entry &= is_single;
            parts.push(walk::Part { index, ranges: ranges.clone() });
        }
        let operand = match cover.parts.as_slice() {
            [part] => Some(part.operand.clone()),
            _ => None,
        };
        Ok(Plan {
            number: u8::try_from(number).map_err(|_| SelectError::Token)?,
            walk: Walk { parts, direction: Direction::Ascending },
            is_exact: operand.as_ref().is_some_and(|operand| self.is_exact(operand)),
            operand,
            keeps: if has_one_entry { Keeps::All } else { Keeps::First(cover.parts.clone()) },
            is_to_be_sorted: false,
        })
    }

    /// Returns the number of the cover with the fewest entries, and how many those are, counted up
    /// to a bound. One that needs no choice is not counted.
    fn smallest(&self) -> Result<Option<(usize, u64)>, SelectError> {
        if self.covers.len() == 1 && self.select.order.is_none() {
            return Ok(Some((0, 0)));
        }
        let mut smallest = None;
        for (number, cover) in self.covers.iter().enumerate() {
            let entries = self.of_cover(cover, number)?.walk.count(self.connection, FEW)?;
            if smallest.is_none_or(|(_, fewest)| entries < fewest) {
                smallest = Some((number, entries));
            }
        }
        Ok(smallest)
    }

    /// Returns the index of an operand, none if no item of the domain has the attribute, and true if
    /// no item has two entries in it.
    fn index_of(&self, operand: &Operand) -> Result<(Option<Index>, bool), SelectError> {
        let Operand::Attribute(name) = operand else {
            return Ok((Some(Index::ItemNames { domain: self.domain }), true));
        };
        let sql = "SELECT id, pairs = items FROM names WHERE domain = ? AND name = ?";
        let mut statement = self.connection.prepare(sql)?;
        let found = statement.query_row(params![self.domain, name], |row| {
            Ok((Some(Index::Values { name: row.get(0)? }), row.get(1)?))
        });
        Ok(found.optional()?.unwrap_or((None, true)))
    }

    fn is_exact(&self, operand: &Operand) -> bool {
        let condition = self.select.condition.as_ref();
        condition.and_then(exact).is_some_and(|(exact, _)| exact == operand)
    }
}
