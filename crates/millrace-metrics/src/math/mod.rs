//! Queries: series with a statistic, and expressions over the results of other queries.

mod budget;
mod evaluation;
mod filling;
mod functions;
mod label;
mod operators;
mod order;
mod parse;
mod search;

use std::collections::BTreeMap;
use std::sync::Arc;

use millrace_core::Timestamp;
use serde::{Deserialize, Serialize};

use self::evaluation::Evaluation;
use crate::{BASE_PERIOD_S, Entity, Interrupt, MetricStore, Scope, StoreError, Unit};

/// CloudWatch: series that one SEARCH finds at most; no list has more.
const SERIES_MAX: usize = 500;

/// Memory of a data point of a series. Everything else that expressions hold counts in these.
const POINT_BYTES: usize = 24;
/// Memory of a series besides its data points, its names and its label.
const SERIES_BYTES: usize = 512;

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MathError(String);

impl MathError {
    pub(crate) fn new(text: impl Into<String>) -> MathError {
        MathError(text.into())
    }
}

/// Why queries were not answered.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// The query of that id is at fault.
    #[error("{id}: {error}")]
    Math { id: String, error: MathError },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// One query. The ids of queries that are answered together differ.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Query {
    /// A lower-case letter, then letters, digits and underscores.
    pub id: String,
    pub kind: QueryKind,
    /// What people call it; none: it is made from what is asked for.
    pub label: Option<String>,
    /// As it was given, for those who ask: it is the account of the entity.
    #[serde(default)]
    pub account: Option<String>,
    /// Whether it is part of the answer; otherwise expressions may use it.
    pub is_returned: bool,
}

impl Query {
    /// Memory that it takes, roughly.
    pub fn held_bytes(&self) -> usize {
        let of_kind = match &self.kind {
            QueryKind::Metric { entity, .. } => evaluation::names_bytes(entity.dimensions()),
            QueryKind::Expression { text, .. } => text.len(),
        };
        size_of::<Query>() + self.label.as_ref().map_or(0, String::len) + of_kind
    }
}

/// What a query asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum QueryKind {
    /// One series.
    Metric {
        entity: Entity,
        metric: String,
        /// Name of a unit; none: of any.
        unit: Option<String>,
        /// Name of a statistic.
        statistic: String,
        /// As it was asked for: below a minute it counts as one.
        period_s: u64,
    },
    /// Metric math; without a period it has that of what it is made from.
    Expression { text: String, period_s: Option<u64> },
}

/// From when to when, and whose.
#[derive(Clone, Debug)]
pub struct Span {
    pub scope: Scope,
    pub start_s: u64,
    /// Not included.
    pub end_s: u64,
    /// Periods begin at this and its multiples of a period after and before.
    pub origin_s: u64,
    pub now: Timestamp,
}

/// Values over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    pub label: String,
    pub period_s: u64,
    /// By the start of the period, seconds.
    pub points: BTreeMap<u64, f64>,
    /// If values of several units were found: those, of which the first is shown.
    pub units: Vec<Unit>,
    /// Whether a data point was left out because its value would be no finite number, from this or
    /// from what this is made of.
    pub has_dropped: bool,
    /// The metric that it is made from, if it is one.
    origin: Option<Arc<Origin>>,
}

/// What is known of a series by what was asked for.
#[derive(Debug, PartialEq)]
struct Origin {
    entity: Entity,
    metric: String,
    statistic: String,
    period_s: u64,
    /// Memory of all names in it.
    names_bytes: usize,
}

/// The result of a query. Expressions may give several series.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    pub id: String,
    pub series: Vec<Series>,
}

/// What an expression is worth.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    /// Not a number: there is no value, as of what has no data points.
    Number(f64),
    Text(String),
    Series(Series),
    List(Vec<Series>),
}

impl Value {
    /// The memory and the time that it takes, in data points.
    fn cost(&self) -> usize {
        match self {
            Value::Number(_) | Value::Text(_) => 1,
            Value::Series(series) => series.cost(),
            Value::List(list) => list.iter().map(Series::cost).sum(),
        }
    }
}

impl Series {
    /// Tells it from the others that a query finds, whatever these are and however it is labelled:
    /// name space, metric and dimensions. Empty for what is made of several.
    pub fn identity(&self) -> String {
        let Some(origin) = &self.origin else { return String::new() };
        let dimensions = origin.entity.dimensions();
        let pairs = dimensions.iter().flat_map(|(name, value)| [name.as_str(), value]);
        let parts = [origin.entity.namespace.as_str(), &origin.metric].into_iter().chain(pairs);
        parts.collect::<Vec<_>>().join("\0")
    }

    fn cost(&self) -> usize {
        let names_bytes = self.origin.as_ref().map_or(0, |origin| origin.names_bytes);
        self.points.len() + (SERIES_BYTES + names_bytes + self.label.len()) / POINT_BYTES
    }

    /// Each value made another, or none.
    fn mapped(&self, apply: impl Fn(u64, f64) -> Option<f64>) -> Series {
        let points = self.points.iter();
        let points = points.filter_map(|(time_s, value)| Some((*time_s, apply(*time_s, *value)?)));
        let mut series = self.with(points.collect());
        series.drop_what_is_no_number();
        series
    }

    /// What is made of it, with other data points.
    fn with(&self, points: BTreeMap<u64, f64>) -> Series {
        let (label, period_s, origin) = (self.label.clone(), self.period_s, self.origin.clone());
        let has_dropped = self.has_dropped;
        Series { label, period_s, points, units: Vec::new(), has_dropped, origin }
    }

    fn drop_what_is_no_number(&mut self) {
        let count = self.points.len();
        self.points.retain(|_, value| value.is_finite());
        self.has_dropped |= self.points.len() < count;
    }
}

/// Checks that every expression is well formed, unless that is interrupted.
fn check_expressions(queries: &[Query], interrupt: &Interrupt) -> Result<(), QueryError> {
    for query in queries {
        interrupt.check()?;
        if let QueryKind::Expression { text, .. } = &query.kind {
            parse::parse(text).map_err(|error| QueryError::Math { id: query.id.clone(), error })?;
        }
    }
    Ok(())
}

/// Answers the queries that are to be returned, in their order, unless that is interrupted. Also
/// those that are not returned must be well formed.
pub fn answer(
    store: &MetricStore,
    queries: &[Query],
    span: &Span,
    interrupt: &Interrupt,
) -> Result<Vec<Found>, QueryError> {
    check_expressions(queries, interrupt)?;
    let mut answers = answer_all(store, &[(queries, span)], (interrupt, span.now))?;
    answers.pop().unwrap_or_else(|| Ok(Vec::new()))
}

/// Answers several lists of queries, each by itself, and reads all their series in one pass.
pub fn answer_all(
    store: &MetricStore,
    asked: &[(&[Query], &Span)],
    (interrupt, now): (&Interrupt, Timestamp),
) -> Result<Vec<Result<Vec<Found>, QueryError>>, StoreError> {
    let mut evaluations: Vec<Evaluation<'_>> =
        asked.iter().map(|asked| Evaluation::new(store, *asked, interrupt)).collect();
    evaluation::read_metrics(store, &mut evaluations, (interrupt, now))?;
    // Each is dropped with all that it holds before the next is evaluated.
    let answers = asked.iter().zip(evaluations).map(|((queries, _), mut evaluation)| {
        let returned = queries.iter().filter(|query| query.is_returned);
        returned.map(|query| evaluation.found(query)).collect()
    });
    Ok(answers.collect())
}

/// Why an alarm cannot watch queries.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// What it finds today it may not find tomorrow.
    #[error("SEARCH is not supported on Metric Alarms.")]
    Search,
    #[error(transparent)]
    Query(#[from] QueryError),
}

/// Checks that an alarm can watch these queries: that all have a value, whatever data there are,
/// and that the one that is returned is a single time series. What kind of value an expression has
/// does not depend on data, so that it is evaluated without any.
pub fn check_watched(
    scope: &Scope,
    queries: &[Query],
    interrupt: &Interrupt,
) -> Result<(), WatchError> {
    check_expressions(queries, interrupt)?;
    for query in queries {
        if let QueryKind::Expression { text, .. } = &query.kind
            && parse::parse(text).is_ok_and(|expression| expression.calls("SEARCH"))
        {
            return Err(WatchError::Search);
        }
    }
    let now = Timestamp(BASE_PERIOD_S * 1000);
    let store = MetricStore::open(None, now).map_err(QueryError::Store)?;
    let span = Span { scope: scope.clone(), start_s: 0, end_s: BASE_PERIOD_S, origin_s: 0, now };
    let mut evaluations = [Evaluation::new(&store, (queries, &span), interrupt)];
    let read = evaluation::read_metrics(&store, &mut evaluations, (interrupt, now));
    read.map_err(QueryError::Store)?;
    let [mut evaluation] = evaluations;
    Ok(queries.iter().try_for_each(|query| evaluation.check(query))?)
}

#[cfg(test)]
mod tests;
