//! Queries: series with a statistic, and expressions over the results of other queries.

mod functions;
mod parse;
mod search;

use std::collections::{BTreeMap, HashMap};

use millrace_core::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Entity, MetricStore, Scope, SeriesQuery, Statistic, StoreError, Unit, by_period};
use parse::Expression;

/// CloudWatch: series that one SEARCH finds at most.
pub(crate) const SEARCH_RESULTS_MAX: usize = 500;
/// Queries that refer to one another at most, in a row.
const REFERENCES_MAX: usize = 64;

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
    /// Whether it is part of the answer; otherwise expressions may use it.
    pub is_returned: bool,
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
    /// Values of several units were found, of which one is shown.
    pub has_several_units: bool,
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
    Number(f64),
    Text(String),
    Series(Series),
    List(Vec<Series>),
}

/// Checks that an expression is well formed.
pub fn check_expression(text: &str) -> Result<(), MathError> {
    parse::parse(text).map(|_| ())
}

/// Answers the queries that are to be returned, in their order.
pub fn answer(
    store: &MetricStore,
    queries: &[Query],
    span: &Span,
) -> Result<Vec<Found>, QueryError> {
    let mut evaluation = Evaluation { store, queries, span, known: HashMap::new() };
    evaluation.read_metrics()?;
    let returned = queries.iter().filter(|query| query.is_returned);
    returned.map(|query| evaluation.found(query)).collect()
}

struct Evaluation<'a> {
    store: &'a MetricStore,
    queries: &'a [Query],
    span: &'a Span,
    known: HashMap<&'a str, Value>,
}

impl<'a> Evaluation<'a> {
    /// Reads all series that are asked for in one pass.
    fn read_metrics(&mut self) -> Result<(), QueryError> {
        let mut wanted = Vec::new();
        let mut meant = Vec::new();
        for query in self.queries {
            let QueryKind::Metric { entity, metric, unit, statistic, period_s } = &query.kind
            else {
                continue;
            };
            let unit = unit.as_deref().and_then(Unit::of_name);
            wanted.push(SeriesQuery { entity, metric, unit });
            meant.push((query, statistic, *period_s));
        }
        // Periods that begin within the span, the first of which may begin before its start.
        let longest_s = meant.iter().map(|(_, _, period_s)| *period_s).max().unwrap_or_default();
        let range_s = self.span.start_s.saturating_sub(longest_s)..self.span.end_s;
        let points = self.store.points(&wanted, range_s, self.span.now)?;
        for (((query, statistic, period_s), wanted), points) in
            meant.iter().zip(&wanted).zip(points)
        {
            let mut series = self.series(&points, statistic, *period_s);
            series.label =
                query.label.clone().unwrap_or_else(|| self.label(wanted, statistic, *period_s));
            self.known.insert(&query.id, Value::Series(series));
        }
        Ok(())
    }

    fn series(&self, points: &[crate::Point], statistic: &str, period_s: u64) -> Series {
        let Span { start_s, end_s, origin_s, .. } = *self.span;
        let mut series = Series { period_s, ..Series::default() };
        let Some(statistic) = Statistic::of_name(statistic) else { return series };
        let first_s = start_of_period(start_s, origin_s, period_s);
        let periods = by_period(points, origin_s, period_s);
        let unit = periods.keys().map(|(_, unit)| *unit).next();
        series.has_several_units = periods.keys().any(|(_, other)| Some(*other) != unit);
        let within = periods
            .iter()
            .filter(|((time_s, of), _)| (first_s..end_s).contains(time_s) && Some(*of) == unit);
        let values = within.filter_map(|((time_s, _), s)| Some((*time_s, statistic.value(s)?)));
        series.points = values.collect();
        series
    }

    /// The metric's name; with what tells it apart if another query has the same.
    fn label(&self, wanted: &SeriesQuery<'_>, statistic: &str, period_s: u64) -> String {
        let same: Vec<_> = self
            .queries
            .iter()
            .filter_map(|query| match &query.kind {
                QueryKind::Metric { entity, metric, statistic, period_s, .. } => {
                    Some((entity, metric, statistic, period_s))
                }
                QueryKind::Expression { .. } => None,
            })
            .filter(|(_, metric, ..)| *metric == wanted.metric)
            .collect();
        let mut label = wanted.metric.to_owned();
        if same.iter().any(|(entity, ..)| *entity != wanted.entity) {
            let values = wanted.entity.dimensions().iter().map(|(_, value)| value.as_str());
            label = values.chain([label.as_str()]).collect::<Vec<_>>().join(" ");
        }
        if same.iter().any(|(.., s, _)| *s != statistic) {
            label = format!("{label} {statistic}");
        }
        if same.iter().any(|(.., p)| **p != period_s) {
            label = format!("{label} {period_s}");
        }
        label
    }

    fn found(&mut self, query: &'a Query) -> Result<Found, QueryError> {
        let math = |error| QueryError::Math { id: query.id.clone(), error };
        let value = self.value(&query.id, REFERENCES_MAX).map_err(math)?;
        let is_expression = matches!(query.kind, QueryKind::Expression { .. });
        let label = query.label.clone().filter(|_| is_expression);
        let mut series = match value {
            Value::Series(series) => vec![series],
            Value::List(list) => list,
            Value::Number(_) | Value::Text(_) => {
                return Err(math(MathError::new("an expression must give a time series")));
            }
        };
        if let (Some(label), [only]) = (&label, series.as_mut_slice()) {
            only.label.clone_from(label);
        } else if let Some(label) = &label {
            for (number, series) in series.iter_mut().enumerate() {
                series.label = format!("{label} {}", number + 1);
            }
        } else if let (true, [only]) = (is_expression, series.as_mut_slice()) {
            only.label.clone_from(&query.id);
        }
        Ok(Found { id: query.id.clone(), series })
    }

    /// The value of the query of that id.
    fn value(&mut self, id: &str, references: usize) -> Result<Value, MathError> {
        if let Some(value) = self.known.get(id) {
            return Ok(value.clone());
        }
        let references = references
            .checked_sub(1)
            .ok_or_else(|| MathError::new("expressions refer to one another in a circle"))?;
        let query = self.queries.iter().find(|query| query.id == id);
        let query = query.ok_or_else(|| MathError::new(format!("{id} is not defined")))?;
        let QueryKind::Expression { text, period_s } = &query.kind else {
            return Err(MathError::new(format!("{id} is not defined")));
        };
        let mut value = self.evaluate(&parse::parse(text)?, references)?;
        if let (Value::Series(series), Some(period_s)) = (&mut value, period_s) {
            series.period_s = *period_s;
        }
        self.known.insert(&query.id, value.clone());
        Ok(value)
    }

    fn evaluate(&mut self, expression: &Expression, references: usize) -> Result<Value, MathError> {
        match expression {
            Expression::Number(number) => Ok(Value::Number(*number)),
            Expression::Text(text) => Ok(Value::Text(text.clone())),
            Expression::Name(name) => self.value(name, references),
            Expression::Negated(inner) => {
                let inner = self.evaluate(inner, references)?;
                functions::each(inner, |value| -value)
            }
            Expression::Binary(operator, left, right) => {
                let left = self.evaluate(left, references)?;
                let right = self.evaluate(right, references)?;
                functions::binary(*operator, left, right)
            }
            Expression::List(elements) => {
                let mut list = Vec::new();
                for element in elements {
                    match self.evaluate(element, references)? {
                        Value::Series(series) => list.push(series),
                        Value::List(inner) => list.extend(inner),
                        Value::Number(_) | Value::Text(_) => {
                            return Err(MathError::new("a list holds time series only"));
                        }
                    }
                }
                Ok(Value::List(list))
            }
            Expression::Call(name, arguments) => self.call(name, arguments, references),
        }
    }

    fn call(
        &mut self,
        name: &str,
        arguments: &[Expression],
        references: usize,
    ) -> Result<Value, MathError> {
        if name == "METRICS" {
            return self.metrics(arguments);
        }
        // The word REPEAT or LINEAR stands where a value could.
        if let ("FILL", [of, Expression::Name(word)]) = (name, arguments)
            && let Some(filling) = functions::Filling::of_word(word)
        {
            let of = self.evaluate(of, references)?;
            return functions::fill(of, filling, self.span);
        }
        let values: Result<Vec<Value>, MathError> =
            arguments.iter().map(|argument| self.evaluate(argument, references)).collect();
        let values = values?;
        if name == "SEARCH" {
            return self.search(&values);
        }
        functions::call(name, values, self.span)
    }

    /// All series that are asked for directly, or those whose ids contain a text.
    fn metrics(&self, arguments: &[Expression]) -> Result<Value, MathError> {
        let part = match arguments {
            [] => "",
            [Expression::Text(part)] => part,
            _ => return Err(MathError::new("METRICS takes at most one text")),
        };
        let metrics = self.queries.iter().filter(|query| {
            matches!(query.kind, QueryKind::Metric { .. }) && query.id.contains(part)
        });
        let series = metrics.filter_map(|query| match self.known.get(query.id.as_str()) {
            Some(Value::Series(series)) => Some(series.clone()),
            _ => None,
        });
        Ok(Value::List(series.collect()))
    }

    fn search(&self, arguments: &[Value]) -> Result<Value, MathError> {
        let (text, statistic, period_s) = match arguments {
            [Value::Text(text), Value::Text(statistic)] => (text, statistic, None),
            [Value::Text(text), Value::Text(statistic), Value::Number(period_s)] => {
                (text, statistic, Some(*period_s as u64))
            }
            _ => return Err(MathError::new("SEARCH takes a text, a statistic and a period")),
        };
        if Statistic::of_name(statistic).is_none() {
            return Err(MathError::new(format!("{statistic} is no statistic")));
        }
        let period_s = period_s.unwrap_or(crate::BASE_PERIOD_S).max(crate::BASE_PERIOD_S);
        let listed = search::search(self.store, text, self.span)?;
        let entities: Vec<Entity> = listed
            .iter()
            .map(|l| Entity::new(self.span.scope.clone(), &l.namespace, l.dimensions.clone()))
            .collect();
        let queries: Vec<SeriesQuery<'_>> = listed
            .iter()
            .zip(&entities)
            .map(|(listed, entity)| SeriesQuery { entity, metric: &listed.metric, unit: None })
            .collect();
        let range_s = self.span.start_s.saturating_sub(period_s)..self.span.end_s;
        let points = self.store.points(&queries, range_s, self.span.now);
        let points = points.map_err(|error| MathError::new(error.to_string()))?;
        let mut found = Vec::new();
        for (listed, points) in listed.iter().zip(points) {
            let mut series = self.series(&points, statistic, period_s);
            let values = listed.dimensions.iter().map(|(_, value)| value.as_str());
            let parts: Vec<&str> = values.chain([listed.metric.as_str()]).collect();
            series.label = parts.join(" ");
            if !series.points.is_empty() {
                found.push(series);
            }
        }
        Ok(Value::List(found))
    }
}

/// The start of the period that holds a time.
pub(crate) fn start_of_period(time_s: u64, origin_s: u64, period_s: u64) -> u64 {
    let period_s = period_s.max(1);
    let offset_s = origin_s % period_s;
    match time_s.checked_sub(offset_s) {
        Some(since_s) => time_s - since_s % period_s,
        None => 0,
    }
}

#[cfg(test)]
mod tests;
