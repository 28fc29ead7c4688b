//! The history of all series, on disk.
//!
//! ```text
//! metrics/catalog.log      which series there are
//! metrics/20614-1m.log     data points of the day 20614 (days since 1970), one a minute
//! metrics/20580-5m.log     … rolled up to one per five minutes
//! metrics/20310-1h.log     … rolled up to one an hour
//! ```
//! A day has one file. Rolling up writes the coarser file whole and removes the finer one, so that
//! a crash between leaves both, and the finer one is then removed.

mod days;
mod files;
mod query;
mod reading;
mod rollup;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use millrace_core::Timestamp;

use self::days::{Inner, add, minute};
use self::files::{catalog_path, day_path, find_days, last_entity};
pub(crate) use self::query::Named;
pub use self::query::{ListFilter, Listed, Periods, RemoveFilter, SeriesQuery};
use self::reading::{Found, Progress, Reading};
use crate::catalog::Catalog;
use crate::day::Day;
use crate::directory::{Directory, sync_dir};
use crate::pin::PinnedFile;
use crate::source::Source;
use crate::{BASE_PERIOD_S, Entity, Interrupt, MemoryLimits, Sample, Scope, Summary, Unit};

/// Minutes that a source is taken to have gone on as it was, when the clock jumps.
const FILLED_MINUTES: u64 = 6 * 60;

/// Why metrics were not stored or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("metrics cannot be read or written: {0}")]
    Io(#[from] io::Error),
    #[error("there are too many series of metrics")]
    TooManySeries,
    #[error("more than {most} data points are asked for")]
    TooManyPoints { most: usize },
    #[error("nobody waits for the answer any more")]
    Interrupted,
    #[error(
        "an earlier sync of metrics failed, or their files are gone: none are stored until a restart"
    )]
    Poisoned,
}

/// Metrics of all name spaces. Calls may block on the disk.
pub struct MetricStore {
    /// None: everything is in memory.
    dir: Option<Directory>,
    inner: RwLock<Inner>,
    source: OnceLock<Arc<dyn Source>>,
    is_poisoned: AtomicBool,
    memory_limits: MemoryLimits,
}

/// A data point of a period.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Start of its period.
    pub time_s: u64,
    pub unit: Unit,
    pub summary: Summary,
}

/// A value of a series at a time.
#[derive(Clone, Debug)]
pub struct Record<'a> {
    pub entity: &'a Entity,
    pub metric: &'a str,
    pub unit: Unit,
    pub time_s: u64,
    pub summary: Summary,
}

impl MetricStore {
    /// Opens or creates the store in `dir`; without one it lives in memory.
    pub fn open(dir: Option<&Path>, now: Timestamp) -> Result<MetricStore, StoreError> {
        let dir = dir.map(Directory::open).transpose()?;
        let (catalog, days) = match &dir {
            None => (Catalog::in_memory(), BTreeMap::new()),
            Some(dir) => {
                let mut catalog = Catalog::open(&catalog_path(dir.path()), now.seconds())?;
                let days = find_days(dir.path())?;
                // It was removed: values without a name are not to be taken for those of new
                // series.
                if let Some(id) =
                    catalog.is_new().then(|| last_entity(dir, &days)).transpose()?.flatten()
                {
                    let dir = dir.path().display();
                    tracing::error!(%dir, "metrics have lost their names, and are not shown");
                    catalog.begin_after(id);
                }
                (catalog, days)
            }
        };
        let open_s = minute(now.seconds());
        let inner = Inner { catalog, days, open_s, unwritten: Vec::new(), has_new_file: false };
        Ok(MetricStore {
            dir,
            inner: RwLock::new(inner),
            source: OnceLock::new(),
            is_poisoned: AtomicBool::new(false),
            memory_limits: MemoryLimits::default(),
        })
    }

    /// Sets the limits of the memory that metrics take.
    #[must_use]
    pub fn with_memory_limits(self, memory_limits: MemoryLimits) -> MetricStore {
        self.inner_mut().catalog.set_name_bytes_max(memory_limits.name_bytes);
        MetricStore { memory_limits, ..self }
    }

    /// Returns the limits of the memory that metrics take.
    pub fn memory_limits(&self) -> MemoryLimits {
        self.memory_limits
    }

    /// Has `source` gather values from now on. The first source stays.
    pub fn set_source(&self, source: Arc<dyn Source>, now: Timestamp) {
        self.inner_mut().open_s = minute(now.seconds());
        let _ = self.source.set(source);
    }

    /// Stores values, all or none; after a crash, all or none of each day. They are durable after
    /// [`MetricStore::sync`]. Times older than the finest data points are left out.
    pub fn record(&self, records: &[Record<'_>]) -> Result<(), StoreError> {
        if self.is_poisoned.load(Ordering::Relaxed) {
            return Err(StoreError::Poisoned);
        }
        self.noted(self.inner_mut().record(self.dir.as_ref(), records))
    }

    /// Makes durable what was recorded before. After a failure nothing is stored any more.
    pub fn sync(&self) -> Result<(), StoreError> {
        let synced = self.check_dir().and_then(|()| self.sync_files());
        if let Err(error) = &synced
            && !self.is_poisoned.swap(true, Ordering::Relaxed)
        {
            tracing::error!(%error, "no metrics are stored until a restart");
        }
        synced
    }

    /// Stores what the source has gathered if its minute has ended; call it at least once a minute.
    /// Returns when to call it next. It is durable after [`MetricStore::sync`].
    pub fn close_minute(&self, now: Timestamp) -> Result<Timestamp, StoreError> {
        let open_s = self.inner().open_s;
        let now_s = minute(now.seconds());
        if now_s > open_s {
            self.gather(now, now_s)?;
        }
        Ok(Timestamp((self.inner().open_s + BASE_PERIOD_S) * 1000))
    }

    /// Stores what the source has counted in the minute that has not ended: before the end of the
    /// process. What comes in the same minute later is added to it. Gauges are for the end of the
    /// minute: two would not add up.
    pub fn flush(&self, now: Timestamp) -> Result<(), StoreError> {
        self.gather(now, minute(now.seconds()))?;
        self.sync()
    }

    /// Rolls up and drops what is old enough.
    pub fn expire(&self, now: Timestamp) -> Result<(), StoreError> {
        self.check_dir()?;
        self.noted(self.inner_mut().expire(self.dir.as_ref(), now.seconds()))
    }

    /// The data points of series, taken together to periods, in order of time; of each period and
    /// unit one. The minute that has not ended is included. All are found in one pass, which costs
    /// little more than one of them does.
    pub fn points(
        &self,
        queries: &[SeriesQuery<'_>],
        now: Timestamp,
    ) -> Result<Vec<Vec<Point>>, StoreError> {
        self.points_unless(&Interrupt::default(), queries, now)
    }

    /// As [`MetricStore::points`], unless that is interrupted.
    pub fn points_unless(
        &self,
        interrupt: &Interrupt,
        queries: &[SeriesQuery<'_>],
        now: Timestamp,
    ) -> Result<Vec<Vec<Point>>, StoreError> {
        let (mut found, open_s) = self.read(interrupt, queries)?;
        if let Some(source) = self.source.get() {
            let mut peeked = HashMap::new();
            let queries = queries.iter().zip(&mut found);
            for (query, found) in queries.filter(|(query, _)| query.range_s().contains(&open_s)) {
                let values =
                    peeked.entry(query.entity).or_insert_with(|| source.peek(query.entity, now));
                for value in values.iter().filter(|value| query.is_for(value.metric, value.unit)) {
                    add(found, (query.periods.start_of(open_s), value.unit), &value.summary);
                }
            }
        }
        let point = |((time_s, unit), summary)| Point { time_s, unit, summary };
        Ok(found.into_iter().map(|points| points.into_iter().map(point).collect()).collect())
    }

    /// Series of that scope that had values since `since`, in order of name.
    pub fn list(&self, scope: &Scope, filter: &ListFilter<'_>, since: Timestamp) -> Vec<Listed> {
        let after: Option<Named<'_>> =
            filter.after.map(|after| (&*after.namespace, &*after.metric, &*after.dimensions));
        let most = filter.most.unwrap_or(usize::MAX);
        self.look_through(scope, filter, since, |series| {
            // The first of them only: of a million, to be sorted, others would wait for a second.
            let mut first: BTreeSet<Named<'_>> = BTreeSet::new();
            for one in series.filter(|one| after.is_none_or(|after| *one > after)) {
                let is_full = first.len() >= most;
                if !is_full || first.last().is_some_and(|last| one < *last) {
                    first.insert(one);
                }
                if first.len() > most {
                    first.pop_last();
                }
            }
            first.iter().map(Listed::of).collect()
        })
    }

    /// Shows the series of which [`MetricStore::list`] lists some, by reference: of a million there
    /// may be five hundred that are wanted. They come in no order, and once for each unit.
    pub(crate) fn look_through<T>(
        &self,
        scope: &Scope,
        filter: &ListFilter<'_>,
        since: Timestamp,
        look: impl FnOnce(&mut dyn Iterator<Item = Named<'_>>) -> T,
    ) -> T {
        let inner = self.inner();
        let known = inner.catalog.of_scope(scope).filter(|known| filter.is_for(&known.entity));
        let is_wanted = |metric: &str| filter.metric.is_none_or(|wanted| wanted == metric);
        look(&mut known.flat_map(|known| {
            let entity = &known.entity;
            let columns = known.named_columns();
            let columns = columns
                .filter(|column| column.seen_s >= since.seconds() && is_wanted(&column.metric));
            columns.map(|c| (&*entity.namespace, &*c.metric, entity.dimensions()))
        }))
    }

    /// What is measured of a scope: so many are looked at to list some.
    pub(crate) fn entities(&self, scope: &Scope) -> usize {
        self.inner().catalog.count_of(scope)
    }

    /// Whose series there are.
    pub fn scopes(&self) -> BTreeSet<Scope> {
        self.inner().catalog.scopes().cloned().collect()
    }

    /// How many series [`MetricStore::remove`] would forget.
    pub fn count(&self, filter: &RemoveFilter<'_>) -> usize {
        self.inner().catalog.count(|entity, metric| filter.is_for(entity, metric))
    }

    /// Forgets series; returns how many. That is durable after [`MetricStore::sync`]. Their data
    /// points stay in the files until these are dropped, and are not shown any more, not even if
    /// the series come back.
    pub fn remove(&self, filter: &RemoveFilter<'_>) -> Result<usize, StoreError> {
        if self.is_poisoned.load(Ordering::Relaxed) {
            return Err(StoreError::Poisoned);
        }
        let mut inner = self.inner_mut();
        let removed = inner.catalog.remove(|entity, metric| filter.is_for(entity, metric))?;
        for (_, samples) in &mut inner.unwritten {
            for sample in samples {
                let Sample { entity, values } = sample;
                values.retain(|value| !filter.is_for(entity, value.metric));
            }
        }
        Ok(removed)
    }

    /// Forgets all series and data points, those of the minute that has not ended included.
    pub fn clear(&self, now: Timestamp) -> Result<(), StoreError> {
        self.remove(&RemoveFilter::default())?;
        // First: values whose names a power loss brings back would be shown.
        self.sync()?;
        if let Some(source) = self.source.get() {
            drop(source.close(now));
        }
        let mut inner = self.inner_mut();
        inner.unwritten.clear();
        inner.open_s = minute(now.seconds());
        inner.drop_days(self.dir.as_ref())
    }

    /// All files as they are between two changes, to be copied; none of a store in memory.
    pub fn pin(&self) -> io::Result<Vec<PinnedFile>> {
        let Some(dir) = &self.dir else { return Ok(Vec::new()) };
        let inner = self.inner();
        dir.check()?;
        let catalog = PinnedFile::open(&catalog_path(dir.path()));
        let days = inner
            .days
            .iter()
            .map(|(day, file)| PinnedFile::open(&day_path(dir.path(), *day, file.resolution)));
        std::iter::once(catalog).chain(days).collect()
    }

    /// Bytes of all files that are open.
    pub fn disk_bytes(&self) -> u64 {
        let Some(dir) = self.dir.as_ref().filter(|dir| dir.check().is_ok()) else { return 0 };
        let entries = std::fs::read_dir(dir.path()).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
    }

    fn sync_files(&self) -> Result<(), StoreError> {
        let (files, has_new_file) = {
            let mut inner = self.inner_mut();
            if inner.catalog.log().is_removed() {
                inner.catalog.write_anew()?;
            }
            let mut files: Vec<_> = inner.catalog.log().take_dirty().into_iter().collect();
            for day in inner.days.values_mut() {
                let opened = day.opened.get_mut().unwrap_or_else(PoisonError::into_inner);
                let Some(log) = opened.as_mut().map(Day::log) else { continue };
                let Some(file) = log.take_dirty() else { continue };
                if log.is_removed() {
                    return Err(io::Error::other("the file of a day of metrics was removed").into());
                }
                files.push(file);
            }
            (files, std::mem::take(&mut inner.has_new_file))
        };
        files.iter().try_for_each(|file| file.sync_data())?;
        let new_in = self.dir.as_ref().filter(|_| has_new_file);
        Ok(new_in.map_or(Ok(()), |dir| sync_dir(dir.path()))?)
    }

    /// That what is read and written by name is in the directory that was opened.
    fn check_dir(&self) -> Result<(), StoreError> {
        Ok(self.dir.as_ref().map_or(Ok(()), Directory::check)?)
    }

    /// What the files hold, and which minute is not in them: others write between two parts.
    fn read(
        &self,
        interrupt: &Interrupt,
        queries: &[SeriesQuery<'_>],
    ) -> Result<(Vec<Found>, u64), StoreError> {
        let mut reading = Reading::of(queries, self.memory_limits.points);
        loop {
            interrupt.check()?;
            let inner = self.inner();
            if reading.read_part(&inner, self.dir.as_ref())? == Progress::All {
                return Ok((reading.into_found(), inner.open_s));
            }
            drop(inner);
            std::thread::yield_now();
        }
    }

    /// Closes the source's minute and begins the one at `next_s`.
    fn gather(&self, now: Timestamp, next_s: u64) -> Result<(), StoreError> {
        let Some(source) = self.source.get() else {
            self.inner_mut().open_s = next_s;
            return Ok(());
        };
        let mut samples = source.close(now);
        let mut inner = self.inner_mut();
        let open_s = std::mem::replace(&mut inner.open_s, next_s);
        if open_s == next_s {
            samples.iter_mut().for_each(|sample| sample.values.retain(|value| !value.is_gauge));
        }
        // Between, nothing was gathered: the clock jumped, or the process stood still.
        let first_filled_s =
            (open_s + BASE_PERIOD_S).max(next_s.saturating_sub(FILLED_MINUTES * 60));
        let idle: Vec<Sample> = match first_filled_s < next_s {
            true => samples.iter().map(Sample::idle).collect(),
            false => Vec::new(),
        };
        inner.unwritten.push((open_s, samples));
        if self.is_poisoned.load(Ordering::Relaxed) {
            // Nothing is written any more, but alarms still see the last hour.
            inner.forget_unwritten();
            return Err(StoreError::Poisoned);
        }
        let skipped = (first_filled_s..next_s).step_by(BASE_PERIOD_S as usize);
        let filled: Vec<_> = skipped.map(|time_s| (time_s, idle.clone())).collect();
        let dir = self.dir.as_ref();
        let mut filled = filled.iter();
        let written =
            filled.try_for_each(|(time_s, idle)| inner.write(dir, *time_s, idle).map(drop));
        let written = written.and_then(|()| inner.write_unwritten(dir));
        drop(inner);
        self.noted(written).map(|left_out| {
            if left_out > 0 {
                tracing::warn!(left_out, "metrics are left out: there are too many series");
            }
        })
    }

    /// Remembers that nothing may be written any more, if that is the result.
    fn noted<T>(&self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        if let Err(StoreError::Poisoned) = result {
            self.is_poisoned.store(true, Ordering::Relaxed);
        }
        result
    }

    fn inner(&self) -> RwLockReadGuard<'_, Inner> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn inner_mut(&self) -> RwLockWriteGuard<'_, Inner> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sample {
    /// What it would be if nothing had happened.
    fn idle(&self) -> Sample {
        let mut idle = self.clone();
        for value in idle.values.iter_mut().filter(|value| !value.is_gauge) {
            value.summary = Summary::of(0.0);
        }
        idle
    }
}

#[cfg(test)]
mod tests;
