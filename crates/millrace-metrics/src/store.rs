//! The history of all series, on disk.
//!
//! The database holds data points of a minute for 15 days, and less fine ones for longer. What the
//! source has gathered in a minute is written at its end; while that fails, it waits in memory.

mod inner;
mod query;
mod reading;
mod rollup;

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use millrace_core::Timestamp;

use self::inner::{Inner, add, first_day, minute};
pub(crate) use self::query::Named;
pub use self::query::{ListFilter, Listed, Periods, RemoveFilter, SeriesQuery};
use self::reading::{Found, Reading};
use crate::catalog::Catalog;
use crate::database::{Database, io_error};
use crate::directory::Directory;
use crate::old_files;
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

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> StoreError {
        StoreError::Io(io_error(error))
    }
}

/// Metrics of all name spaces. Calls may block on the disk.
pub struct MetricStore {
    // Before `inner`, which writes: when the last connection closes and can write, SQLite removes
    // the files beside the database.
    database: Database,
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
        let (database, writer, catalog) = match dir {
            None => {
                let (database, writer) = Database::in_memory()?;
                (database, writer, Catalog::default())
            }
            Some(dir) => {
                let dir = Directory::open(dir)?;
                old_files::convert(dir.path())?;
                Database::open(dir, |connection| Catalog::load(connection, now.seconds()))?
            }
        };
        let inner = Inner {
            catalog,
            writer,
            open_s: minute(now.seconds()),
            unwritten: Vec::new(),
            first_day: first_day(now.seconds()),
        };
        Ok(MetricStore {
            database,
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

    /// Stores values, all or none, also after a crash. They are durable after
    /// [`MetricStore::sync`]. Times older than the finest data points are left out.
    pub fn record(&self, records: &[Record<'_>]) -> Result<(), StoreError> {
        if self.is_poisoned.load(Ordering::Relaxed) {
            return Err(StoreError::Poisoned);
        }
        self.inner_mut().record(&self.database, records)
    }

    /// Makes durable what was recorded before. After a failure nothing is stored any more.
    pub fn sync(&self) -> Result<(), StoreError> {
        let synced = self.database.sync();
        if let Err(error) = &synced
            && !self.is_poisoned.swap(true, Ordering::Relaxed)
        {
            tracing::error!(%error, "no metrics are stored until a restart");
        }
        Ok(synced?)
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
        self.database.check()?;
        let expired = self.expire_parts(now.seconds());
        let mut inner = self.inner_mut();
        inner.catalog.forget(now.seconds());
        expired.and(inner.change(&self.database, |_| Ok(())))?;
        Ok(inner.writer.shrink().map_err(io_error)?)
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
    /// points stay in the database until they are too old, and are not shown any more, not even if
    /// the series come back.
    pub fn remove(&self, filter: &RemoveFilter<'_>) -> Result<usize, StoreError> {
        if self.is_poisoned.load(Ordering::Relaxed) {
            return Err(StoreError::Poisoned);
        }
        let mut inner = self.inner_mut();
        let removed = inner.catalog.remove(|entity, metric| filter.is_for(entity, metric));
        for (_, samples) in &mut inner.unwritten {
            for sample in samples {
                let Sample { entity, values } = sample;
                values.retain(|value| !filter.is_for(entity, value.metric));
            }
        }
        inner.change(&self.database, |_| Ok(removed))
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
        inner.change(&self.database, |connection| connection.execute("DELETE FROM points", []))?;
        Ok(inner.writer.shrink().map_err(io_error)?)
    }

    /// Makes a copy of the database in a file without a name; returns `None` in memory. The copy is
    /// given up once `is_wanted` returns false. It blocks on the disk, and takes the size of the
    /// database there.
    pub fn copy(&self, is_wanted: impl Fn() -> bool + Send + 'static) -> io::Result<Option<File>> {
        self.database.copy(is_wanted)
    }

    /// Bytes of all files of metrics.
    pub fn disk_bytes(&self) -> u64 {
        self.database.disk_bytes()
    }

    /// Returns what the database and the unwritten minutes hold, and the minute that is still open.
    fn read(
        &self,
        interrupt: &Interrupt,
        queries: &[SeriesQuery<'_>],
    ) -> Result<(Vec<Found>, u64), StoreError> {
        interrupt.check()?;
        let inner = self.inner();
        // Under the lock, so that no minute is closed between the snapshot and `open_s`.
        let snapshot = self.database.snapshot()?;
        let reading = Reading::begin(&inner, queries, self.memory_limits.points);
        let open_s = inner.open_s;
        drop(inner);
        let found = reading.read(snapshot.connection(), interrupt)?;
        snapshot.end();
        Ok((found, open_s))
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
        let database = &self.database;
        let mut filled = filled.iter();
        let written =
            filled.try_for_each(|(time_s, idle)| inner.write(database, *time_s, idle).map(drop));
        let written = written.and_then(|()| inner.write_unwritten(database));
        drop(inner);
        written.map(|left_out| {
            if left_out > 0 {
                tracing::warn!(left_out, "metrics are left out: there are too many series");
            }
        })
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
