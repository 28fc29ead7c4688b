//! Which series there are: a number for each entity and for each of its metrics. All of them are in
//! memory and in the database. Changes are written in the transaction of the values that need them.
//!
//! A number is never given twice: its old values would be taken for those of the new series.

mod usage;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use rusqlite::{Connection, params};

#[cfg(test)]
pub(crate) use self::usage::SERIES_MAX;
use self::usage::{Usage, Usages};
use crate::resolution::DAY_S;
use crate::store::StoreError;
use crate::{Entity, HOURS_KEPT_S, Scope, Unit};

/// Series of one entity at most.
const COLUMNS_MAX: usize = if cfg!(test) { 200 } else { 10_000 };

#[derive(Debug, Default)]
pub(crate) struct Catalog {
    ids: HashMap<Arc<Entity>, u32>,
    entities: BTreeMap<u32, Known>,
    by_scope: BTreeMap<Scope, BTreeSet<u32>>,
    usages: Usages,
    next_id: u32,
    unsaved: Unsaved,
}

/// Changes that the database does not have yet.
#[derive(Debug, Default)]
struct Unsaved {
    /// New and removed ones.
    entities: BTreeSet<u32>,
    series: BTreeSet<(u32, u16)>,
}

/// A known entity and its series; a column is the number of one of them.
#[derive(Debug)]
pub(crate) struct Known {
    pub entity: Arc<Entity>,
    pub columns: Vec<Column>,
}

#[derive(Debug)]
pub(crate) struct Column {
    pub metric: String,
    pub unit: Unit,
    /// The latest time of a value, seconds; after a restart the end of its day.
    pub seen_s: u64,
    /// The day of that time, as the database has it.
    noted_day: u64,
}

impl Catalog {
    /// Sets how much memory the names may take that the clients of an account give from now on.
    pub(crate) fn set_name_bytes_max(&mut self, name_bytes_max: usize) {
        self.usages.name_bytes_max = name_bytes_max;
    }

    /// Reads all entities and series of the database, except entities without values since the
    /// oldest data point.
    pub(crate) fn load(connection: &Connection, now_s: u64) -> rusqlite::Result<Catalog> {
        let mut catalog = Catalog::default();
        catalog.load_entities(connection)?;
        catalog.load_series(connection)?;
        let next_id = "SELECT ifnull(max(value), 0) FROM state WHERE name = 'next entity'";
        let next_id: u32 = connection.query_row(next_id, [], |row| row.get(0))?;
        catalog.next_id = catalog.next_id.max(next_id);
        catalog.unsaved = Unsaved::default();
        catalog.forget(now_s);
        Ok(catalog)
    }

    /// Writes what the database does not have yet, within the caller's transaction. After its
    /// commit the caller calls [`Catalog::saved`].
    pub(crate) fn save(&self, connection: &Connection) -> rusqlite::Result<()> {
        let Unsaved { entities, series } = &self.unsaved;
        if !entities.is_empty() {
            self.save_entities(connection, entities)?;
        }
        if series.is_empty() {
            return Ok(());
        }
        let mut insert = connection.prepare("REPLACE INTO series VALUES (?, ?, ?, ?, ?)")?;
        for (id, number) in series {
            let known = self.entities.get(id);
            let Some(column) = known.and_then(|known| known.columns.get(usize::from(*number)))
            else {
                continue;
            };
            let Column { metric, unit, noted_day, .. } = column;
            insert.execute(params![id, number, metric, *unit as u8, noted_day.cast_signed()])?;
        }
        Ok(())
    }

    /// Notes that the database has all of it.
    pub(crate) fn saved(&mut self) {
        self.unsaved = Unsaved::default();
    }

    /// The number of an entity, if it is known.
    pub(crate) fn id(&self, entity: &Entity) -> Option<u32> {
        self.ids.get(entity).copied()
    }

    pub(crate) fn known(&self, id: u32) -> Option<&Known> {
        self.entities.get(&id)
    }

    /// What is known of a scope. Others' series cost nothing.
    pub(crate) fn of_scope(&self, scope: &Scope) -> impl Iterator<Item = &Known> {
        let ids = self.by_scope.get(scope).into_iter().flatten();
        ids.filter_map(|id| self.entities.get(id))
    }

    /// How many entities a scope has.
    pub(crate) fn count_of(&self, scope: &Scope) -> usize {
        self.by_scope.get(scope).map_or(0, BTreeSet::len)
    }

    /// Whose series there are.
    pub(crate) fn scopes(&self) -> impl Iterator<Item = &Scope> {
        self.by_scope.keys()
    }

    /// The numbers of an entity and of its series, new ones if they are not known. Neither becomes
    /// known if there is no room for both.
    pub(crate) fn series(
        &mut self,
        entity: &Entity,
        metric: &str,
        unit: Unit,
    ) -> Result<(u32, u16), StoreError> {
        let known = self.id(entity);
        let columns = known.and_then(|id| self.known(id)).map_or(&[][..], |known| &known.columns);
        let column = columns.iter().position(|c| c.metric == metric && c.unit == unit);
        let number = column.unwrap_or(columns.len());
        let number = u16::try_from(number).map_err(|_| StoreError::TooManySeries)?;
        if let (Some(id), Some(_)) = (known, column) {
            return Ok((id, number));
        }
        if columns.len() >= COLUMNS_MAX || !self.usages.have_room_for(entity) {
            return Err(StoreError::TooManySeries);
        }
        let id = match known {
            Some(id) => id,
            None => {
                let id = self.next_id;
                self.insert(id, entity.clone());
                id
            }
        };
        self.add_column(id, metric, unit, 0);
        Ok((id, number))
    }

    /// Notes that these series have values at that time.
    pub(crate) fn saw(&mut self, time_s: u64, seen: impl Iterator<Item = (u32, u16)>) {
        let day = time_s / DAY_S;
        for (id, number) in seen {
            let known = self.entities.get_mut(&id);
            let Some(column) = known.and_then(|known| known.columns.get_mut(usize::from(number)))
            else {
                continue;
            };
            column.seen_s = column.seen_s.max(time_s);
            if column.noted_day < day {
                column.noted_day = day;
                self.unsaved.series.insert((id, number));
            }
        }
    }

    /// Forgets entities without values since the oldest data point. None of what is left gets their
    /// numbers.
    pub(crate) fn forget(&mut self, now_s: u64) {
        let is_over = |known: &Known| known.seen_s().saturating_add(HOURS_KEPT_S + DAY_S) < now_s;
        let over: Vec<u32> =
            self.entities.iter().filter(|(_, known)| is_over(known)).map(|(id, _)| *id).collect();
        over.into_iter().for_each(|id| self.forget_entity(id));
        self.ids.shrink_to_fit();
    }

    /// How many series are wanted, by entity and metric.
    pub(crate) fn count(&self, is_wanted: impl Fn(&Entity, &str) -> bool) -> usize {
        let is_wanted = |known: &&Known, column: &&Column| is_wanted(&known.entity, &column.metric);
        let known = self.entities.values();
        known.map(|known| known.named_columns().filter(|c| is_wanted(&known, c)).count()).sum()
    }

    /// Removes the series that are wanted, by entity and metric, and returns how many. Neither
    /// their numbers nor those of entities that are left without any are given again.
    pub(crate) fn remove(&mut self, is_wanted: impl Fn(&Entity, &str) -> bool) -> usize {
        let numbered = |known: &Known| {
            let columns = (0_u16..).zip(&known.columns);
            let wanted = columns.filter(|(_, column)| {
                !column.metric.is_empty() && is_wanted(&known.entity, &column.metric)
            });
            wanted.map(|(number, _)| number).collect::<Vec<_>>()
        };
        let wanted = self.entities.iter().map(|(id, known)| (*id, numbered(known)));
        let wanted: Vec<(u32, Vec<u16>)> =
            wanted.filter(|(_, columns)| !columns.is_empty()).collect();
        let mut removed = 0;
        for (id, columns) in wanted {
            columns.iter().for_each(|column| self.remove_column(id, *column));
            removed += columns.len();
        }
        self.ids.shrink_to_fit();
        removed
    }

    /// Adds an entity of that number.
    pub(crate) fn insert(&mut self, id: u32, entity: Entity) {
        self.usages.add(&entity, &Usage::of_entity(&entity));
        self.by_scope.entry(entity.scope.clone()).or_default().insert(id);
        let entity = Arc::new(entity);
        self.ids.insert(entity.clone(), id);
        self.entities.insert(id, Known { entity, columns: Vec::new() });
        self.begin_after(id);
        self.unsaved.entities.insert(id);
    }

    /// Gives none of the numbers up to this one.
    pub(crate) fn begin_after(&mut self, id: u32) {
        self.next_id = self.next_id.max(id.saturating_add(1));
    }

    fn add_column(&mut self, id: u32, metric: &str, unit: Unit, noted_day: u64) {
        let Some(known) = self.entities.get_mut(&id) else { return };
        let Ok(number) = u16::try_from(known.columns.len()) else { return };
        let metric = metric.to_owned();
        self.usages.add(&known.entity, &Usage::of_series(&known.entity, &metric));
        let seen_s = if noted_day == 0 { 0 } else { end_of_day(noted_day) };
        known.columns.push(Column { metric, unit, seen_s, noted_day });
        self.unsaved.series.insert((id, number));
    }

    /// Takes the name of a series away, and the entity once it has none left.
    pub(crate) fn remove_column(&mut self, id: u32, number: u16) {
        let Some(known) = self.entities.get_mut(&id) else { return };
        let Some(column) = known.columns.get_mut(usize::from(number)) else { return };
        let metric = std::mem::take(&mut column.metric);
        self.unsaved.series.insert((id, number));
        self.usages.remove(&known.entity, &Usage::of_series(&known.entity, &metric));
        if known.named_columns().next().is_none() {
            self.forget_entity(id);
        }
    }

    fn forget_entity(&mut self, id: u32) {
        let Some(known) = self.entities.remove(&id) else { return };
        self.unsaved.entities.insert(id);
        let entity = &known.entity;
        for column in &known.columns {
            self.usages.remove(entity, &Usage::of_series(entity, &column.metric));
        }
        self.usages.remove(entity, &Usage::of_entity(entity));
        if self.ids.get(entity) == Some(&id) {
            self.ids.remove(entity);
        }
        if let Some(ids) = self.by_scope.get_mut(&entity.scope) {
            ids.remove(&id);
            if ids.is_empty() {
                self.by_scope.remove(&entity.scope);
            }
        }
    }

    fn load_entities(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let statement = "SELECT id, region, account, namespace, dimensions FROM entities";
        let mut statement = connection.prepare(statement)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let scope = Scope { region: row.get(1)?, account: row.get(2)? };
            let namespace: String = row.get(3)?;
            let dimensions = row.get_ref(4)?.as_str()?;
            match serde_json::from_str(dimensions) {
                Ok(dimensions) => {
                    self.insert(row.get(0)?, Entity::new(scope, &namespace, dimensions));
                }
                Err(error) => tracing::error!(%error, "an entity of metrics is left out"),
            }
        }
        Ok(())
    }

    fn load_series(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let statement =
            "SELECT entity, number, metric, unit, last_day FROM series ORDER BY entity, number";
        let mut statement = connection.prepare(statement)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (id, number): (u32, u16) = (row.get(0)?, row.get(1)?);
            let metric = row.get_ref(2)?.as_str()?;
            let unit = Unit::of_code(row.get(3)?).unwrap_or_default();
            let day = row.get::<_, i64>(4)?.cast_unsigned();
            self.add_numbered(id, usize::from(number), (metric, unit), day);
        }
        Ok(())
    }

    /// Adds a series of that number. Those between have no names.
    pub(crate) fn add_numbered(
        &mut self,
        id: u32,
        number: usize,
        (metric, unit): (&str, Unit),
        day: u64,
    ) {
        let known = self.entities.get(&id).map_or(0, |known| known.columns.len());
        if (known..=COLUMNS_MAX).contains(&number) {
            (known..number).for_each(|_| self.add_column(id, "", Unit::None, 0));
            self.add_column(id, metric, unit, day);
        }
    }

    /// Notes that a series has values on that day.
    pub(crate) fn saw_day(&mut self, day: u64, id: u32, number: u16) {
        self.saw(end_of_day(day), std::iter::once((id, number)));
    }

    fn save_entities(
        &self,
        connection: &Connection,
        entities: &BTreeSet<u32>,
    ) -> rusqlite::Result<()> {
        let mut insert = connection.prepare("REPLACE INTO entities VALUES (?, ?, ?, ?, ?)")?;
        let mut delete = connection.prepare("DELETE FROM entities WHERE id = ?")?;
        let mut delete_series = connection.prepare("DELETE FROM series WHERE entity = ?")?;
        for id in entities {
            let Some(known) = self.entities.get(id) else {
                delete.execute([id])?;
                delete_series.execute([id])?;
                continue;
            };
            let Entity { scope, namespace, .. } = &*known.entity;
            let dimensions = serde_json::to_string(known.entity.dimensions())
                .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
            insert.execute(params![id, scope.region, scope.account, namespace, dimensions])?;
        }
        let next_id = "REPLACE INTO state VALUES ('next entity', ?)";
        connection.execute(next_id, [self.next_id]).map(drop)
    }
}

/// The last second of a day, which may be any number in a damaged file.
fn end_of_day(day: u64) -> u64 {
    day.saturating_mul(DAY_S).saturating_add(DAY_S - 1)
}

impl Known {
    /// The series that still have their names.
    pub(crate) fn named_columns(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().filter(|column| !column.metric.is_empty())
    }

    fn seen_s(&self) -> u64 {
        self.columns.iter().map(|column| column.seen_s).max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
