//! Which series there are: a number for each entity and for each of its metrics.
//!
//! ```text
//! frame  1 | entity (varint) | region | account | name space | dimensions (varint) | name | value …
//!        2 | entity (varint) | column (varint) | unit (byte) | metric
//!        3 | day (varint) | entity (varint) | column (varint) …      had values on that day
//!        4 | entity (varint)                                         the next one's number at least
//!        5 | entity (varint) | column (varint) …                     series that were removed
//! ```
//! Texts stand behind their length. A number whose name is lost to damage is given to no other: its
//! values would be taken for the other's.

mod usage;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[cfg(test)]
pub(crate) use self::usage::SERIES_MAX;
use self::usage::{Usage, Usages};
use crate::day::DAY_S;
use crate::log::Log;
use crate::number::{Reader, put_text, put_varint};
use crate::store::StoreError;
use crate::{Entity, HOURS_KEPT_S, Scope, Unit};

/// Kinds of frames, the first byte.
const ENTITY: u8 = 1;
const COLUMN: u8 = 2;
const SEEN: u8 = 3;
const NEXT_ID: u8 = 4;
const REMOVED: u8 = 5;

/// Bytes of the file beyond twice those that it had when it was opened.
const OUTDATED_BYTES_MAX: u64 = if cfg!(test) { 4 << 10 } else { 16 << 20 };
/// Series of one entity at most.
const COLUMNS_MAX: usize = if cfg!(test) { 200 } else { 10_000 };

#[derive(Debug)]
pub(crate) struct Catalog {
    /// None: in memory.
    path: Option<PathBuf>,
    log: Log,
    /// Bytes of the file when it was last opened.
    opened_bytes: u64,
    ids: HashMap<Arc<Entity>, u32>,
    entities: BTreeMap<u32, Known>,
    by_scope: BTreeMap<Scope, BTreeSet<u32>>,
    usages: Usages,
    next_id: u32,
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
    /// The day that the file knows of.
    noted_day: u64,
}

impl Catalog {
    pub(crate) fn in_memory() -> Catalog {
        Catalog {
            path: None,
            log: Log::to_nowhere(),
            opened_bytes: 0,
            ids: HashMap::new(),
            entities: BTreeMap::new(),
            by_scope: BTreeMap::new(),
            usages: Usages::default(),
            next_id: 0,
        }
    }

    /// Sets how much memory the names may take that the clients of an account give from now on.
    pub(crate) fn set_name_bytes_max(&mut self, name_bytes_max: usize) {
        self.usages.name_bytes_max = name_bytes_max;
    }

    /// Opens or creates the file. Entities without values since the oldest data point are left out,
    /// and the file is written anew without them.
    pub(crate) fn open(path: &Path, now_s: u64) -> io::Result<Catalog> {
        let mut catalog = Catalog::in_memory();
        let log = Log::open(path, |_, _, payload| {
            if catalog.apply(payload).is_none() {
                tracing::warn!("a frame of the catalog of metrics makes no sense and is left out");
            }
        })?;
        drop(log);
        catalog.forget(now_s);
        if let Err(error) = Log::replace(path, catalog.frames().map(Ok)) {
            // As on a full disk. It holds more entities than are known, none of them otherwise.
            tracing::warn!(%error, "the catalog of metrics is used as it is");
        }
        catalog.path = Some(path.to_owned());
        catalog.use_log(Log::open(path, |_, _, _| ())?);
        Ok(catalog)
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

    /// Whether no number was ever given.
    pub(crate) fn is_new(&self) -> bool {
        self.next_id == 0
    }

    /// Gives none of the numbers up to this one.
    pub(crate) fn begin_after(&mut self, id: u32) {
        self.next_id = self.next_id.max(id.saturating_add(1));
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
                self.log.append(&entity_frame(id, entity))?;
                self.insert(id, entity.clone());
                id
            }
        };
        self.log.append(&column_frame(id, number, metric, unit))?;
        self.add_column(id, metric, unit);
        Ok((id, number))
    }

    /// Notes that these series have values at that time.
    pub(crate) fn saw(&mut self, time_s: u64, seen: &[(u32, u16)]) -> io::Result<()> {
        let day = time_s / DAY_S;
        let mut frame = vec![SEEN];
        put_varint(&mut frame, day);
        let head = frame.len();
        for (id, column) in seen {
            let known = self.entities.get_mut(id);
            let Some(known) = known.and_then(|known| known.columns.get_mut(usize::from(*column)))
            else {
                continue;
            };
            known.seen_s = known.seen_s.max(time_s);
            if known.noted_day < day {
                known.noted_day = day;
                put_varint(&mut frame, u64::from(*id));
                put_varint(&mut frame, u64::from(*column));
            }
        }
        if frame.len() > head {
            self.log.append(&frame)?;
        }
        Ok(())
    }

    /// Makes durable what was appended. After a failure nothing may be stored any more.
    pub(crate) fn sync(&mut self) -> Result<(), StoreError> {
        let synced = self.log.take_dirty().map_or(Ok(()), |file| file.sync_data());
        synced.map_err(|error| {
            tracing::error!(%error, "the catalog of metrics is not durable");
            StoreError::Poisoned
        })
    }

    /// Writes the file anew if most of it is outdated: each day notes again what had values.
    pub(crate) fn tidy(&mut self) -> Result<(), StoreError> {
        if self.path.is_none() || self.log.len() <= 2 * self.opened_bytes + OUTDATED_BYTES_MAX {
            return Ok(());
        }
        match self.write_anew() {
            Err(StoreError::Io(error)) => {
                tracing::warn!(%error, "the catalog of metrics cannot be written anew yet");
                Ok(())
            }
            written => written,
        }
    }

    /// Writes the file anew, whatever it has become.
    pub(crate) fn write_anew(&mut self) -> Result<(), StoreError> {
        let Some(path) = &self.path else { return Ok(()) };
        let log = Log::prepare(path, self.frames().map(Ok))?;
        // What is appended later must be where a start looks for it: values bear the numbers.
        Log::put_in_place(path).map_err(|error| {
            tracing::error!(%error, "the catalog of metrics could not be replaced");
            StoreError::Poisoned
        })?;
        self.use_log(log);
        Ok(())
    }

    /// Forgets entities without values since the oldest data point. None of what is left gets their
    /// numbers.
    pub(crate) fn forget(&mut self, now_s: u64) {
        let is_over = |known: &Known| known.seen_s() + HOURS_KEPT_S + DAY_S < now_s;
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
    pub(crate) fn remove(
        &mut self,
        is_wanted: impl Fn(&Entity, &str) -> bool,
    ) -> Result<usize, StoreError> {
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
            let mut frame = vec![REMOVED];
            put_varint(&mut frame, u64::from(id));
            columns.iter().for_each(|column| put_varint(&mut frame, u64::from(*column)));
            self.log.append(&frame)?;
            columns.iter().for_each(|column| self.remove_column(id, usize::from(*column)));
            removed += columns.len();
        }
        self.ids.shrink_to_fit();
        self.tidy()?;
        Ok(removed)
    }

    pub(crate) fn log(&mut self) -> &mut Log {
        &mut self.log
    }

    fn use_log(&mut self, log: Log) {
        self.opened_bytes = log.len();
        self.log = log;
    }

    fn insert(&mut self, id: u32, entity: Entity) {
        // Damage may have taken the frame between.
        self.forget_entity(id);
        self.usages.add(&entity, &Usage::of_entity(&entity));
        self.by_scope.entry(entity.scope.clone()).or_default().insert(id);
        let entity = Arc::new(entity);
        self.ids.insert(entity.clone(), id);
        self.entities.insert(id, Known { entity, columns: Vec::new() });
        self.begin_after(id);
    }

    fn add_column(&mut self, id: u32, metric: &str, unit: Unit) {
        if let Some(known) = self.entities.get_mut(&id) {
            let metric = metric.to_owned();
            self.usages.add(&known.entity, &Usage::of_series(&known.entity, &metric));
            known.columns.push(Column { metric, unit, seen_s: 0, noted_day: 0 });
        }
    }

    /// Takes the name of a series away, and the entity once it has none left.
    fn remove_column(&mut self, id: u32, number: usize) {
        let Some(known) = self.entities.get_mut(&id) else { return };
        let Some(column) = known.columns.get_mut(number) else { return };
        let metric = std::mem::take(&mut column.metric);
        self.usages.remove(&known.entity, &Usage::of_series(&known.entity, &metric));
        if known.named_columns().next().is_none() {
            self.forget_entity(id);
        }
    }

    fn forget_entity(&mut self, id: u32) {
        let Some(known) = self.entities.remove(&id) else { return };
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

    /// Has the entity's next column be this one at least. Those between have lost their names.
    fn skip_columns(&mut self, id: u32, next: usize) -> Option<()> {
        let len = self.entities.get(&id)?.columns.len();
        (next <= COLUMNS_MAX).then(|| (len..next).for_each(|_| self.add_column(id, "", Unit::None)))
    }

    fn apply(&mut self, payload: &[u8]) -> Option<()> {
        let mut reader = Reader(payload);
        match reader.byte()? {
            ENTITY => self.apply_entity(&mut reader),
            COLUMN => self.apply_column(&mut reader),
            SEEN => self.apply_seen(&mut reader),
            REMOVED => self.apply_removed(&mut reader),
            NEXT_ID => {
                self.next_id = self.next_id.max(reader.number()?);
                Some(())
            }
            _ => None,
        }
    }

    fn apply_entity(&mut self, reader: &mut Reader<'_>) -> Option<()> {
        let id = reader.number()?;
        let scope = Scope { region: reader.text()?.into(), account: reader.text()?.into() };
        let namespace = reader.text()?;
        let count: u16 = reader.number()?;
        let mut dimensions = Vec::with_capacity(usize::from(count));
        for _ in 0..count {
            dimensions.push((reader.text()?.to_owned(), reader.text()?.to_owned()));
        }
        self.insert(id, Entity::new(scope, namespace, dimensions));
        Some(())
    }

    fn apply_column(&mut self, reader: &mut Reader<'_>) -> Option<()> {
        let (id, column) = (reader.number()?, reader.number::<usize>()?);
        let unit = Unit::of_code(reader.byte()?)?;
        let metric = reader.text()?;
        if column < self.entities.get(&id)?.columns.len() {
            return None;
        }
        self.skip_columns(id, column)?;
        self.add_column(id, metric, unit);
        Some(())
    }

    fn apply_seen(&mut self, reader: &mut Reader<'_>) -> Option<()> {
        let day = reader.varint()?;
        while !reader.is_empty() {
            let (id, column) = (reader.number::<u32>()?, reader.number::<usize>()?);
            self.begin_after(id);
            self.skip_columns(id, column.saturating_add(1));
            let known = self.entities.get_mut(&id);
            if let Some(column) = known.and_then(|known| known.columns.get_mut(column)) {
                column.noted_day = column.noted_day.max(day);
                column.seen_s = column.noted_day * DAY_S + DAY_S - 1;
            }
        }
        Some(())
    }

    fn apply_removed(&mut self, reader: &mut Reader<'_>) -> Option<()> {
        let id = reader.number()?;
        self.begin_after(id);
        while !reader.is_empty() {
            self.remove_column(id, reader.number()?);
        }
        Some(())
    }

    fn frames(&self) -> impl Iterator<Item = Vec<u8>> + '_ {
        let mut next_id = vec![NEXT_ID];
        put_varint(&mut next_id, u64::from(self.next_id));
        let known = self.entities.iter().flat_map(|(id, known)| {
            let entity = std::iter::once(entity_frame(*id, &known.entity));
            let numbered = || (0..).zip(&known.columns);
            let columns = numbered().map(|(n, c)| column_frame(*id, n, &c.metric, c.unit));
            let seen = numbered().map(|(n, c): (u16, _)| {
                let mut frame = vec![SEEN];
                put_varint(&mut frame, c.noted_day);
                put_varint(&mut frame, u64::from(*id));
                put_varint(&mut frame, u64::from(n));
                frame
            });
            entity.chain(columns).chain(seen).collect::<Vec<_>>()
        });
        std::iter::once(next_id).chain(known)
    }
}

impl Known {
    /// Those whose names are not lost.
    pub(crate) fn named_columns(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().filter(|column| !column.metric.is_empty())
    }

    fn seen_s(&self) -> u64 {
        self.columns.iter().map(|column| column.seen_s).max().unwrap_or_default()
    }
}

fn entity_frame(id: u32, entity: &Entity) -> Vec<u8> {
    let mut frame = vec![ENTITY];
    put_varint(&mut frame, u64::from(id));
    for text in [&entity.scope.region, &entity.scope.account, &entity.namespace] {
        put_text(&mut frame, text);
    }
    put_varint(&mut frame, entity.dimensions().len() as u64);
    for (name, value) in entity.dimensions() {
        put_text(&mut frame, name);
        put_text(&mut frame, value);
    }
    frame
}

fn column_frame(id: u32, column: u16, metric: &str, unit: Unit) -> Vec<u8> {
    let mut frame = vec![COLUMN];
    put_varint(&mut frame, u64::from(id));
    put_varint(&mut frame, u64::from(column));
    frame.push(unit as u8);
    put_text(&mut frame, metric);
    frame
}

#[cfg(test)]
mod tests;
