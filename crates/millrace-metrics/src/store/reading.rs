//! Reading the data points of series, a part of the files at a time: between two parts others may
//! write, and the reader may be told to end.

use std::collections::HashMap;
use std::collections::btree_map::{BTreeMap, Entry};

use super::days::{Inner, add};
use super::{SeriesQuery, StoreError};
use crate::day::{DAY_S, Resolution, Wanted};
use crate::directory::Directory;
use crate::{BASE_PERIOD_S, Entity, Summary, Unit};

/// Bytes of files that are read before others get their turn: some ten milliseconds.
const PART_BYTES: u64 = if cfg!(test) { 64 << 10 } else { 2 << 20 };

/// What one query has found, by start of the period and unit.
pub(super) type Found = BTreeMap<(u64, Unit), Summary>;

/// A query and what it has found.
type Asked<'a> = (&'a SeriesQuery<'a>, &'a mut Found);

/// A read that is under way.
pub(super) struct Reading<'q> {
    queries: &'q [SeriesQuery<'q>],
    found: Vec<Found>,
    /// What that takes in memory, in data points.
    taken: usize,
    taken_max: usize,
    /// How far the file of each day was read, and which file that was.
    ends: BTreeMap<u64, (Resolution, u64)>,
}

/// How far a read has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// There is more to read.
    Part,
    /// All that there is now was read.
    All,
}

impl<'q> Reading<'q> {
    pub(super) fn of(queries: &'q [SeriesQuery<'q>], taken_max: usize) -> Reading<'q> {
        let found = vec![Found::new(); queries.len()];
        Reading { queries, found, taken: 0, taken_max, ends: BTreeMap::new() }
    }

    pub(super) fn into_found(self) -> Vec<Found> {
        self.found
    }

    /// Reads on from where the part before ended.
    pub(super) fn read_part(
        &mut self,
        inner: &Inner,
        dir: Option<&Directory>,
    ) -> Result<Progress, StoreError> {
        let ranges_s =
            || self.queries.iter().map(SeriesQuery::range_s).filter(|range_s| !range_s.is_empty());
        let first_s = ranges_s().map(|range_s| range_s.start).min();
        let last_s = ranges_s().map(|range_s| range_s.end - 1).max();
        let Some((first_s, last_s)) = first_s.zip(last_s) else { return Ok(Progress::All) };
        let mut left_bytes = PART_BYTES;
        let days = first_s / DAY_S..=last_s / DAY_S;
        // Also days that were read before: something may have been appended.
        for (day, file) in inner.days.range(days) {
            let opened = file.opened(dir, *day)?;
            let Some(opened) = opened.as_ref() else { continue };
            let (resolution, end) = self.ends.get(day).copied().unwrap_or((file.resolution, 0));
            if resolution != file.resolution || opened.len() < end {
                // It was rolled up meanwhile, or what was read of it taken back.
                *self = Reading::of(self.queries, self.taken_max);
                return Ok(Progress::Part);
            }
            if end == opened.len() {
                continue;
            }
            let mut asked = asked(inner, self.queries, &mut self.found);
            let (day_s, apart_s) = (day * DAY_S, resolution.period_s());
            let wanted = wanted_of_day(&asked, day_s, apart_s);
            let (taken, taken_max) = (&mut self.taken, self.taken_max);
            let end = opened.read_on(&wanted, end, &mut left_bytes, |minute, row| {
                let Some(asked) = asked.get_mut(&row.entity) else { return };
                let Some(known) = inner.catalog.known(row.entity) else { return };
                let time_s = day_s + u64::from(minute) * BASE_PERIOD_S;
                for (column, summary) in &row.cells {
                    let Some(column) = known.columns.get(usize::from(*column)) else { continue };
                    for (query, found) in of_time(asked, time_s, apart_s) {
                        if query.is_for(&column.metric, column.unit) {
                            let key = (query.periods.start_of(time_s), column.unit);
                            *taken +=
                                add_within(found, key, summary, taken_max.checked_sub(*taken));
                        }
                    }
                }
            })?;
            self.ends.insert(*day, (resolution, end));
            if self.taken > self.taken_max {
                return Err(StoreError::TooManyPoints { most: self.taken_max });
            }
            if end < opened.len() {
                return Ok(Progress::Part);
            }
        }
        self.read_unwritten(inner);
        Ok(Progress::All)
    }

    /// Minutes that are not in the files yet.
    fn read_unwritten(&mut self, inner: &Inner) {
        if inner.unwritten.is_empty() {
            return;
        }
        let mut asked: HashMap<&Entity, Vec<Asked<'_>>> = HashMap::new();
        for (query, found) in self.queries.iter().zip(&mut self.found) {
            asked.entry(query.entity).or_default().push((query, found));
        }
        let samples =
            inner.unwritten.iter().flat_map(|(t, samples)| samples.iter().map(move |s| (*t, s)));
        for (time_s, sample) in samples {
            let Some(asked) = asked.get_mut(&sample.entity) else { continue };
            for (query, found) in of_time(asked, time_s, BASE_PERIOD_S) {
                for value in sample.values.iter().filter(|v| query.is_for(v.metric, v.unit)) {
                    add(found, (query.periods.start_of(time_s), value.unit), &value.summary);
                }
            }
        }
    }
}

/// The queries by the number of their entity, as far as it is known.
fn asked<'a>(
    inner: &Inner,
    queries: &'a [SeriesQuery<'a>],
    found: &'a mut [Found],
) -> BTreeMap<u32, Vec<Asked<'a>>> {
    let mut asked: BTreeMap<u32, Vec<Asked<'_>>> = BTreeMap::new();
    for (query, found) in queries.iter().zip(found) {
        if let Some(id) = inner.catalog.id(query.entity) {
            asked.entry(id).or_default().push((query, found));
        }
    }
    asked
}

/// The queries about that time and what they have found, of data points so far apart.
fn of_time<'a, 'q>(
    asked: &'a mut [Asked<'q>],
    time_s: u64,
    apart_s: u64,
) -> impl Iterator<Item = &'a mut Asked<'q>> {
    let is_about = move |(query, _): &&mut Asked<'q>| {
        query.range_s().contains(&time_s) && query.periods.hold_those(apart_s)
    };
    asked.iter_mut().filter(is_about)
}

/// What to read of a day whose data points are so far apart. One counts if it begins within the
/// range.
fn wanted_of_day(asked: &BTreeMap<u32, Vec<Asked<'_>>>, day_s: u64, apart_s: u64) -> Wanted {
    let within = |time_s: u64| {
        let of_day_s = time_s.clamp(day_s, day_s + DAY_S) - day_s;
        of_day_s.div_ceil(BASE_PERIOD_S) as u16
    };
    let minutes = |(query, _): &Asked<'_>| within(query.start_s)..within(query.end_s);
    let wanted = asked.iter().filter_map(|(id, asked)| {
        let asked = asked.iter().filter(|(query, _)| query.periods.hold_those(apart_s));
        let minutes = asked.map(minutes).filter(|minutes| !minutes.is_empty());
        let minutes = minutes.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end))?;
        Some((*id, minutes))
    });
    wanted.collect()
}

/// As [`add`], unless nothing is left of what may be taken; returns how much more that takes.
fn add_within<K: Ord>(
    to: &mut BTreeMap<K, Summary>,
    key: K,
    summary: &Summary,
    left: Option<usize>,
) -> usize {
    if left.is_none() {
        return 0;
    }
    match to.entry(key) {
        Entry::Vacant(entry) => entry.insert(summary.clone()).weight(),
        Entry::Occupied(mut entry) => {
            let before = entry.get().weight();
            entry.get_mut().add(summary);
            entry.get().weight().saturating_sub(before)
        }
    }
}
