//! Reading the data points of series from a snapshot: what others write meanwhile is not in it, and
//! they do not wait.

use std::collections::HashMap;
use std::collections::btree_map::{BTreeMap, Entry};
use std::ops::Range;

use rusqlite::Connection;

use super::inner::{Inner, add};
use super::{SeriesQuery, StoreError};
use crate::catalog::Catalog;
use crate::points::{self, Part, part_of};
use crate::resolution::{DAY_S, Resolution};
use crate::row::Row;
use crate::{BASE_PERIOD_S, Entity, Interrupt, Summary, Unit};

/// The data points that one query has found, by start of the period and unit.
pub(super) type Found = BTreeMap<(u64, Unit), Summary>;

/// A read that is under way.
pub(super) struct Reading<'q> {
    queries: &'q [SeriesQuery<'q>],
    /// By part, then by entity.
    wanted: BTreeMap<u32, BTreeMap<u32, Vec<Wanted>>>,
    found: Vec<Found>,
    /// The memory that they take, in data points.
    taken: usize,
    taken_max: usize,
}

/// A series that one of the queries is for.
struct Wanted {
    column: u16,
    unit: Unit,
    query: usize,
}

impl<'q> Reading<'q> {
    /// Also finds what is not in the database yet. The snapshot is to be one taken meanwhile.
    pub(super) fn begin(
        inner: &Inner,
        queries: &'q [SeriesQuery<'q>],
        taken_max: usize,
    ) -> Reading<'q> {
        let found = vec![Found::new(); queries.len()];
        let wanted = wanted(&inner.catalog, queries);
        let mut reading = Reading { queries, wanted, found, taken: 0, taken_max };
        reading.read_unwritten(inner);
        reading
    }

    /// Reads all of the snapshot.
    pub(super) fn read(
        mut self,
        snapshot: &Connection,
        interrupt: &Interrupt,
    ) -> Result<Vec<Found>, StoreError> {
        let ranges_s =
            || self.queries.iter().map(SeriesQuery::range_s).filter(|range_s| !range_s.is_empty());
        let first_s = ranges_s().map(|range_s| range_s.start).min();
        let last_s = ranges_s().map(|range_s| range_s.end - 1).max();
        let days = points::days(snapshot)?;
        let Some(((first_s, last_s), days)) = first_s.zip(last_s).zip(days) else {
            return Ok(self.found);
        };
        let parts = std::mem::take(&mut self.wanted);
        for day in (first_s / DAY_S).max(*days.start())..=(last_s / DAY_S).min(*days.end()) {
            for resolution in Resolution::ALL {
                for (part, wanted) in &parts {
                    let part = Part { day, resolution, part: *part };
                    self.read_part(snapshot, interrupt, part, wanted)?;
                }
            }
        }
        Ok(self.found)
    }

    fn read_part(
        &mut self,
        snapshot: &Connection,
        interrupt: &Interrupt,
        part: Part,
        wanted: &BTreeMap<u32, Vec<Wanted>>,
    ) -> Result<(), StoreError> {
        let (day_s, apart_s) = (part.day * DAY_S, part.resolution.period_s());
        let queries = wanted.values().flatten().filter_map(|wanted| self.queries.get(wanted.query));
        let queries = queries.filter(|query| query.periods.hold_those(apart_s));
        let minutes = queries.map(|query| minutes_of(query, day_s)).filter(|m| !m.is_empty());
        let Some(minutes) = minutes.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)) else {
            return Ok(());
        };
        let is_wanted = |entity| wanted.contains_key(&entity);
        let mut last_minute = None;
        points::read(snapshot, part, minutes, is_wanted, |minute, row| {
            if last_minute.replace(minute) != Some(minute) {
                interrupt.check()?;
            }
            let time_s = day_s + u64::from(minute) * BASE_PERIOD_S;
            self.take(
                &row,
                wanted.get(&row.entity).map_or(&[][..], Vec::as_slice),
                (time_s, apart_s),
            )
        })
    }

    fn take(
        &mut self,
        row: &Row,
        wanted: &[Wanted],
        (time_s, apart_s): (u64, u64),
    ) -> Result<(), StoreError> {
        for Wanted { column, unit, query } in wanted {
            let Ok(cell) = row.cells.binary_search_by_key(column, |(column, _)| *column) else {
                continue;
            };
            let Some((_, summary)) = row.cells.get(cell) else { continue };
            let Some((query, found)) = self.queries.get(*query).zip(self.found.get_mut(*query))
            else {
                continue;
            };
            if query.range_s().contains(&time_s) && query.periods.hold_those(apart_s) {
                self.taken += add_weighed(found, (query.periods.start_of(time_s), *unit), summary);
                if self.taken > self.taken_max {
                    return Err(StoreError::TooManyPoints { most: self.taken_max });
                }
            }
        }
        Ok(())
    }

    /// Minutes that are not in the database yet.
    fn read_unwritten(&mut self, inner: &Inner) {
        if inner.unwritten.is_empty() {
            return;
        }
        let mut asked: HashMap<&Entity, Vec<(&SeriesQuery<'_>, &mut Found)>> = HashMap::new();
        for (query, found) in self.queries.iter().zip(&mut self.found) {
            if query.periods.hold_those(BASE_PERIOD_S) {
                asked.entry(query.entity).or_default().push((query, found));
            }
        }
        let samples =
            inner.unwritten.iter().flat_map(|(t, samples)| samples.iter().map(move |s| (*t, s)));
        for (time_s, sample) in samples {
            let Some(asked) = asked.get_mut(&sample.entity) else { continue };
            for (query, found) in asked.iter_mut().filter(|(q, _)| q.range_s().contains(&time_s)) {
                for value in sample.values.iter().filter(|v| query.is_for(v.metric, v.unit)) {
                    add(found, (query.periods.start_of(time_s), value.unit), &value.summary);
                }
            }
        }
    }
}

/// The series that the queries are for, as far as they are known.
fn wanted(
    catalog: &Catalog,
    queries: &[SeriesQuery<'_>],
) -> BTreeMap<u32, BTreeMap<u32, Vec<Wanted>>> {
    let mut wanted: BTreeMap<u32, BTreeMap<u32, Vec<Wanted>>> = BTreeMap::new();
    for (number, query) in queries.iter().enumerate() {
        let Some(id) = catalog.id(query.entity) else { continue };
        let columns = catalog.known(id).into_iter().flat_map(|known| (0..).zip(&known.columns));
        let columns = columns.filter(|(_, column)| query.is_for(&column.metric, column.unit));
        let of_query = columns.map(|(column, c)| Wanted { column, unit: c.unit, query: number });
        wanted.entry(part_of(id)).or_default().entry(id).or_default().extend(of_query);
    }
    wanted
}

/// The minutes of a day that a query is about. A data point counts if it begins within the range.
fn minutes_of(query: &SeriesQuery<'_>, day_s: u64) -> Range<u16> {
    let within = |time_s: u64| {
        let of_day_s = time_s.clamp(day_s, day_s + DAY_S) - day_s;
        of_day_s.div_ceil(BASE_PERIOD_S) as u16
    };
    within(query.start_s)..within(query.end_s)
}

/// As [`add`]; returns how much more that takes.
fn add_weighed<K: Ord>(to: &mut BTreeMap<K, Summary>, key: K, summary: &Summary) -> usize {
    match to.entry(key) {
        Entry::Vacant(entry) => entry.insert(summary.clone()).weight(),
        Entry::Occupied(mut entry) => {
            let before = entry.get().weight();
            entry.get_mut().add(summary);
            entry.get().weight().saturating_sub(before)
        }
    }
}
