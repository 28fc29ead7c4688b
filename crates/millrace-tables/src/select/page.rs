//! Walks as the plan says, and gathers a page.

use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::time::Instant;

use rusqlite::{Connection, OptionalExtension, Statement, params};

use super::ast::{Direction, Operand, Order, Output, Select};
use super::condition::{Condition, Facts};
use super::covers::Part;
use super::error::SelectError;
use super::plan::{Keeps, Plan};
use super::token::Position;
use super::walk::{Entry, text};
use super::{Bounds, Found};
use crate::item::{Attribute, Item};

/// SimpleDB developer guide, "Limits".
const ITEMS_DEFAULT: usize = 100;
/// Entries between two looks at the clock.
const ENTRIES_AT_A_TIME: u64 = 64;
/// Entries that are examined, once a page is full, to find out whether there is more. Beyond them a
/// token is given, and the page that it is for may be empty.
const LOOK_AHEAD: u64 = 1_000;
/// Tags of an answer around an item, and around a pair.
const ITEM_TAGS_BYTES: usize = 26;
const PAIR_TAGS_BYTES: usize = 51;
/// The attribute of a tag that says its text is base64.
const BASE64_MARK_BYTES: usize = r#" encoding="base64""#.len();

/// What a walk has found, and where the next page begins if there is one.
pub(super) struct Gathered {
    pub found: Found,
    pub next: Option<Position>,
    pub examined: u64,
}

pub(super) fn gather(
    connection: &Connection,
    domain: i64,
    select: &Select,
    plan: &Plan,
    (after, bounds): (Option<Position>, &Bounds),
) -> Result<Gathered, SelectError> {
    let loader = Loader::new(connection, domain, select, plan)?;
    let limit = match (select.limit, &select.output) {
        (Some(limit), _) => Some(limit as usize),
        (None, Output::Count) => None,
        (None, _) => Some(ITEMS_DEFAULT),
    };
    let found = match select.output {
        Output::Count => Found::Count(0),
        _ => Found::Items(Vec::new()),
    };
    let until = Instant::now() + bounds.time;
    let mut page = Page { loader, plan, found, limit, bytes: bounds.answer_bytes, examined: 0 };
    let next = match &select.order {
        Some(order) if plan.is_to_be_sorted => page.sorted(connection, order, after, until)?,
        _ => page.in_order(connection, after, until)?,
    };
    Ok(Gathered { found: page.found, next, examined: page.examined })
}

struct Page<'a> {
    loader: Loader<'a>,
    plan: &'a Plan,
    found: Found,
    /// Items, or the count, at most.
    limit: Option<usize>,
    /// Left of the answer.
    bytes: usize,
    examined: u64,
}

impl Page<'_> {
    /// Takes items as the walk finds them. Returns the position that the next page begins behind.
    fn in_order(
        &mut self,
        connection: &Connection,
        mut after: Option<Position>,
        until: Instant,
    ) -> Result<Option<Position>, SelectError> {
        let mut is_finished = true;
        let mut looked_ahead = 0;
        let start = after.clone();
        self.plan.walk.run(connection, start.as_ref(), |entry| {
            let is_late = self.examined > 0
                && self.examined.is_multiple_of(ENTRIES_AT_A_TIME)
                && Instant::now() >= until;
            if is_late || looked_ahead >= LOOK_AHEAD {
                is_finished = false;
                return Ok(ControlFlow::Break(()));
            }
            self.examined += 1;
            let is_full = self.is_full();
            looked_ahead += u64::from(is_full);
            if self.loader.matches(&entry, self.plan)? && !self.take(&entry, is_full)? {
                is_finished = false;
                return Ok(ControlFlow::Break(()));
            }
            let position = after.get_or_insert_with(|| self.plan.start());
            position.part = entry.part;
            position.key.clear();
            position.key.push_str(entry.key);
            position.item = entry.item;
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(after.filter(|_| !is_finished))
    }

    /// Takes items in the order of their keys, from a walk in another order. No more of them are
    /// kept than the page has.
    fn sorted(
        &mut self,
        connection: &Connection,
        order: &Order,
        mut after: Option<Position>,
        until: Instant,
    ) -> Result<Option<Position>, SelectError> {
        let most = self.limit.map(|limit| limit + 1);
        let is_ascending = order.direction == Direction::Ascending;
        let mut found = BTreeSet::new();
        self.plan.walk.run(connection, None, |entry| {
            self.examined += 1;
            if self.examined.is_multiple_of(ENTRIES_AT_A_TIME) && Instant::now() >= until {
                return Err(SelectError::TimedOut);
            }
            if !self.loader.matches(&entry, self.plan)? {
                return Ok(ControlFlow::Continue(()));
            }
            let Some(key) = self.loader.sort_key(order) else {
                return Ok(ControlFlow::Continue(()));
            };
            let place = (key.to_owned(), entry.item);
            let is_due = after.as_ref().is_none_or(|after| {
                let begins = (after.key.as_str(), after.item);
                let place = (place.0.as_str(), place.1);
                if is_ascending { place > begins } else { place < begins }
            });
            match most {
                _ if !is_due => {}
                None => self.count(),
                Some(most) => {
                    found.insert(place);
                    if found.len() > most {
                        if is_ascending {
                            found.pop_last()
                        } else {
                            found.pop_first()
                        };
                    }
                }
            }
            Ok(ControlFlow::Continue(()))
        })?;
        while let Some((key, item)) =
            if is_ascending { found.pop_first() } else { found.pop_last() }
        {
            if !self.take(&Entry { part: 0, key: &key, item }, self.is_full())? {
                return Ok(after);
            }
            after = Some(Position { walk: self.plan.number, part: 0, key, item });
        }
        Ok(None)
    }

    fn is_full(&self) -> bool {
        let taken = match &self.found {
            Found::Items(items) => items.len(),
            Found::Count(count) => usize::try_from(*count).unwrap_or(usize::MAX),
        };
        self.limit.is_some_and(|limit| taken >= limit)
    }

    fn count(&mut self) {
        if let Found::Count(count) = &mut self.found {
            *count += 1;
        }
    }

    /// Takes an item that the condition holds for. Returns false if it belongs to the next page.
    fn take(&mut self, entry: &Entry<'_>, is_full: bool) -> Result<bool, SelectError> {
        let Found::Items(items) = &mut self.found else {
            if !is_full {
                self.count();
            }
            return Ok(!is_full);
        };
        let Some(item) = self.loader.item(entry.item)? else { return Ok(true) };
        let bytes = bytes_of(&item);
        if is_full || (bytes > self.bytes && !items.is_empty()) {
            return Ok(false);
        }
        self.bytes = self.bytes.saturating_sub(bytes);
        items.push(item);
        Ok(true)
    }
}

/// Reads items.
struct Loader<'a> {
    select: &'a Select,
    condition: Option<Condition>,
    /// Name ids of the condition's attributes, and their numbers.
    numbers: Vec<(i64, usize)>,
    needs_item_name: bool,
    /// Entries have all that the condition is about: no item is read for it.
    is_key_enough: bool,
    facts: Facts,
    pairs: Statement<'a>,
    item_name: Statement<'a>,
    name: Statement<'a>,
    /// Names of attributes that were looked up.
    names: HashMap<i64, String>,
}

impl<'a> Loader<'a> {
    fn new(
        connection: &'a Connection,
        domain: i64,
        select: &'a Select,
        plan: &Plan,
    ) -> Result<Loader<'a>, SelectError> {
        let condition = select.condition.as_ref().map(Condition::new);
        let mut id_of = connection.prepare("SELECT id FROM names WHERE domain = ? AND name = ?")?;
        let mut id_of = |name: &str| {
            id_of.query_row(params![domain, name], |row| row.get::<_, i64>(0)).optional()
        };
        let mut numbers = Vec::new();
        for (number, name) in condition.iter().flat_map(|known| known.attributes.iter().enumerate())
        {
            numbers.extend(id_of(name)?.map(|id| (id, number)));
        }
        let mut names = HashMap::new();
        if let Output::Attributes(wanted) = &select.output {
            for name in wanted {
                names.extend(id_of(name)?.map(|id| (id, name.clone())));
            }
        }
        let mut needs_item_name = plan.is_to_be_sorted;
        let mut is_key_enough = plan.keeps == Keeps::All && !plan.is_to_be_sorted;
        if let Some(condition) = &select.condition {
            condition.visit(&mut |predicate| {
                needs_item_name |= predicate.operand == Operand::ItemName;
                is_key_enough &= plan.operand.as_ref() == Some(&predicate.operand);
            });
        }
        let values = vec![Vec::new(); condition.as_ref().map_or(0, |known| known.attributes.len())];
        Ok(Loader {
            select,
            condition,
            numbers,
            needs_item_name,
            is_key_enough,
            facts: Facts { item_name: String::new(), values },
            pairs: connection.prepare(
                "SELECT name, value FROM attributes WHERE item = ? ORDER BY place, value",
            )?,
            item_name: connection.prepare("SELECT name FROM items WHERE id = ?")?,
            name: connection.prepare("SELECT name FROM names WHERE id = ?")?,
            names,
        })
    }

    /// Returns true if the entry stands for its item, and the condition holds for that.
    fn matches(&mut self, entry: &Entry<'_>, plan: &Plan) -> Result<bool, SelectError> {
        if plan.is_exact && plan.keeps == Keeps::All && !plan.is_to_be_sorted {
            return Ok(true);
        }
        let Some(condition) = &self.condition else { return Ok(true) };
        let facts = &mut self.facts;
        if self.is_key_enough {
            match facts.values.as_mut_slice() {
                [] => entry.key.clone_into(&mut facts.item_name),
                [values, ..] => *values = vec![entry.key.to_owned()],
            }
            return Ok(condition.holds(facts));
        }
        facts.values.iter_mut().for_each(Vec::clear);
        let mut has_output = !matches!(self.select.output, Output::Attributes(_));
        let mut rows = self.pairs.query([entry.item])?;
        while let Some(row) = rows.next()? {
            let id: i64 = row.get(0)?;
            has_output = has_output || self.names.contains_key(&id);
            if let Some((_, number)) = self.numbers.iter().find(|(known, _)| *known == id)
                && let Some(values) = facts.values.get_mut(*number)
            {
                values.push(text(row, 1)?.to_owned());
            }
        }
        drop(rows);
        if !has_output {
            return Ok(false);
        }
        if self.needs_item_name {
            facts.item_name = self.item_name.query_row([entry.item], |row| row.get(0))?;
        }
        Ok(keeps(entry, plan, condition, facts) && condition.holds(facts))
    }

    /// The key of the item that was looked at last, if it has one.
    fn sort_key(&self, order: &Order) -> Option<&str> {
        let Operand::Attribute(name) = &order.by else { return Some(&self.facts.item_name) };
        let number = self.condition.as_ref()?.number_of(name)?;
        let values = self.facts.values_of(number).iter();
        let key = match order.direction {
            Direction::Ascending => values.min(),
            Direction::Descending => values.max(),
        };
        key.map(String::as_str)
    }

    /// Returns what the output has of an item. Nothing if it is a list of attributes, and the item
    /// has none of them.
    fn item(&mut self, id: i64) -> Result<Option<Item>, SelectError> {
        let mut attributes = Vec::new();
        if self.select.output != Output::ItemName {
            let is_list = matches!(self.select.output, Output::Attributes(_));
            let mut rows = self.pairs.query([id])?;
            while let Some(row) = rows.next()? {
                let name_id: i64 = row.get(0)?;
                let name = match self.names.get(&name_id) {
                    Some(name) => name.clone(),
                    None if is_list => continue,
                    None => {
                        let name: String = self.name.query_row([name_id], |row| row.get(0))?;
                        self.names.insert(name_id, name.clone());
                        name
                    }
                };
                attributes.push(Attribute { name, value: text(row, 1)?.to_owned() });
            }
            if attributes.is_empty() {
                return Ok(None);
            }
        }
        let name = self.item_name.query_row([id], |row| row.get(0))?;
        Ok(Some(Item { name, attributes }))
    }
}

fn keeps(entry: &Entry<'_>, plan: &Plan, condition: &Condition, facts: &Facts) -> bool {
    let values = |name: &str| condition.number_of(name).map_or(&[][..], |of| facts.values_of(of));
    match &plan.keeps {
        Keeps::All => true,
        Keeps::First(parts) => !parts.iter().take(usize::from(entry.part) + 1).enumerate().any(
            |(number, Part { operand, ranges })| {
                let is_before = |value: &String| {
                    let is_other_part = number < usize::from(entry.part);
                    (is_other_part || value.as_str() < entry.key) && ranges.contain(value)
                };
                match operand {
                    Operand::ItemName => is_before(&facts.item_name),
                    Operand::Attribute(name) => values(name).iter().any(is_before),
                }
            },
        ),
        Keeps::Extreme(name) => {
            let is_better = |value: &String| match plan.walk.direction {
                Direction::Ascending => value.as_str() < entry.key,
                Direction::Descending => value.as_str() > entry.key,
            };
            !values(name).iter().any(is_better)
        }
    }
}

fn bytes_of(item: &Item) -> usize {
    let pairs = item.attributes.iter();
    let pairs = pairs.map(|pair| xml_bytes(&pair.name) + xml_bytes(&pair.value) + PAIR_TAGS_BYTES);
    xml_bytes(&item.name) + ITEM_TAGS_BYTES + pairs.sum::<usize>()
}

/// Bytes of a text in XML: escaped, or as base64 if XML cannot carry it.
fn xml_bytes(text: &str) -> usize {
    let is_carried = |it: char| !matches!(it, '\0'..='\x08' | '\x0b' | '\x0c' | '\x0e'..='\x1f' | '\u{fffe}' | '\u{ffff}');
    if !text.chars().all(is_carried) {
        return text.len().div_ceil(3) * 4 + BASE64_MARK_BYTES;
    }
    let escaped = |byte: u8| match byte {
        b'<' | b'>' => 3,
        b'&' | b'\r' => 4,
        b'"' => 5,
        _ => 0,
    };
    text.len() + text.bytes().map(escaped).sum::<usize>()
}

impl Plan {
    fn start(&self) -> Position {
        Position { walk: self.number, part: 0, key: String::new(), item: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_count() {
        assert_eq!(xml_bytes("ab\té\n"), 6);
        assert_eq!(xml_bytes("<&\"\r>"), "&lt;&amp;&quot;&#xD;&gt;".len());
        assert_eq!(xml_bytes("\u{1}"), "AQ==".len() + BASE64_MARK_BYTES);
    }
}
