//! What queries are worth: series are read first, then expressions are evaluated as they are used.

use std::collections::HashMap;
use std::sync::Arc;

use millrace_core::Timestamp;

use super::budget::Budget;
use super::filling::{self, Filling};
use super::order::{self, Direction};
use super::parse::{self, Expression};
use super::{
    Found, MathError, Origin, POINT_BYTES, Query, QueryError, QueryKind, SERIES_MAX, Series, Span,
    Value, functions, label, operators, search,
};
use crate::{
    BASE_PERIOD_S, Entity, Interrupt, MetricStore, Periods, Point, SeriesQuery, Statistic,
    StoreError, Unit,
};

/// Evaluations within one another at most, over all expressions that refer to one another: each
/// takes up to 4 KiB of the stack.
const DEPTH_MAX: usize = 256;

const NO_SERIES: &str = "an expression must give a time series";

pub(super) struct Evaluation<'a> {
    store: &'a MetricStore,
    queries: &'a [Query],
    span: &'a Span,
    known: HashMap<&'a str, Value>,
    /// Ids of the expressions that are being evaluated.
    open: Vec<&'a str>,
    /// Why a search found nothing, if that is not the expression's fault.
    failure: Option<StoreError>,
    interrupt: &'a Interrupt,
    budget: Budget,
}

/// Reads all series that are asked for directly in one pass.
pub(super) fn read_metrics(
    store: &MetricStore,
    evaluations: &mut [Evaluation<'_>],
    (interrupt, now): (&Interrupt, Timestamp),
) -> Result<(), StoreError> {
    let wanted: Vec<_> = evaluations.iter().map(Evaluation::wanted).collect();
    let mut points = store.points_unless(interrupt, &wanted.concat(), now)?.into_iter();
    for (evaluation, wanted) in evaluations.iter_mut().zip(&wanted) {
        evaluation.take(wanted, points.by_ref().take(wanted.len()));
    }
    Ok(())
}

impl<'a> Evaluation<'a> {
    pub(super) fn new(
        store: &'a MetricStore,
        (queries, span): (&'a [Query], &'a Span),
        interrupt: &'a Interrupt,
    ) -> Self {
        let (known, open) = (HashMap::new(), Vec::new());
        let budget = Budget::new(interrupt, store.memory_limits().expression_points);
        Evaluation { store, queries, span, known, open, failure: None, interrupt, budget }
    }

    /// The series that are asked for directly, in the order of their queries.
    fn wanted(&self) -> Vec<SeriesQuery<'a>> {
        let metrics = self.queries.iter().filter_map(|query| match &query.kind {
            QueryKind::Metric { entity, metric, unit, period_s, .. } => {
                let unit = unit.as_deref().and_then(Unit::of_name);
                Some(self.series_query(entity, metric, unit, (*period_s).max(BASE_PERIOD_S)))
            }
            QueryKind::Expression { .. } => None,
        });
        metrics.collect()
    }

    /// Takes what was found of them.
    fn take(&mut self, wanted: &[SeriesQuery<'a>], points: impl Iterator<Item = Vec<Point>>) {
        let queries = self.queries;
        let metrics = queries.iter().filter_map(|query| match &query.kind {
            QueryKind::Metric { statistic, period_s, .. } => Some((query, statistic, *period_s)),
            QueryKind::Expression { .. } => None,
        });
        for (((query, statistic, period_s), wanted), points) in metrics.zip(wanted).zip(points) {
            let mut series = self.series(wanted, &points, statistic);
            series.label = label::of_metric(queries, wanted, statistic, period_s);
            if let Some(label) = &query.label {
                label::name_one(&mut series, label);
            }
            self.known.insert(&query.id, Value::Series(series));
        }
    }

    /// A series over the span; its first period may begin before that.
    fn series_query<'q>(
        &self,
        entity: &'q Entity,
        metric: &'q str,
        unit: Option<Unit>,
        period_s: u64,
    ) -> SeriesQuery<'q> {
        let periods = Periods { origin_s: self.span.origin_s, period_s };
        let (start_s, end_s) = (periods.start_of(self.span.start_s), self.span.end_s);
        SeriesQuery { entity, metric, unit, periods, start_s, end_s }
    }

    fn series(&self, wanted: &SeriesQuery<'_>, points: &[Point], statistic: &str) -> Series {
        let period_s = wanted.periods.period_s;
        let origin = Origin {
            entity: wanted.entity.clone(),
            metric: wanted.metric.to_owned(),
            statistic: statistic.to_owned(),
            period_s,
            names_bytes: names_bytes(wanted.entity.dimensions()),
        };
        let origin = Some(Arc::new(origin));
        let mut series = Series { period_s, origin, ..Series::default() };
        let Some(statistic) = Statistic::of_name(statistic) else { return series };
        let units = Unit::by_preference(points.iter().map(|point| point.unit));
        let shown = points.iter().filter(|point| Some(&point.unit) == units.first());
        let values = shown.filter_map(|p| Some((p.time_s, statistic.value(&p.summary)?)));
        series.points = values.collect();
        if units.len() > 1 {
            series.units = units;
        }
        series
    }

    pub(super) fn found(&mut self, query: &'a Query) -> Result<Found, QueryError> {
        let math = |error| QueryError::Math { id: query.id.clone(), error };
        let value = self.value_of(query)?;
        let given = query.label.as_deref();
        let mut series = match value {
            // It has its label already.
            Value::Series(series) if matches!(query.kind, QueryKind::Metric { .. }) => vec![series],
            Value::Series(mut series) => {
                series.label.clone_from(&query.id);
                label::name_one(&mut series, given.unwrap_or(&query.id));
                vec![series]
            }
            Value::List(mut list) => {
                // Each may be a hundred times as long as the label that is given.
                for series in &mut list {
                    label::name_one_of_many(series, given.unwrap_or_default());
                    self.budget.take(series.label.len() / POINT_BYTES).map_err(math)?;
                }
                list
            }
            Value::Number(_) | Value::Text(_) => {
                return Err(math(MathError::new(NO_SERIES)));
            }
        };
        // Sums of large numbers, say: there is no way to write those in JSON.
        for series in &mut series {
            if series.label.is_empty() {
                series.label.clone_from(&query.id);
            }
            series.drop_what_is_no_number();
        }
        Ok(Found { id: query.id.clone(), series })
    }

    /// Checks that a query has a value, and a single series if it is returned.
    pub(super) fn check(&mut self, query: &'a Query) -> Result<(), QueryError> {
        let fault = match self.value_of(query)? {
            Value::Number(_) | Value::Text(_) if query.is_returned => NO_SERIES,
            Value::List(_) if query.is_returned => "an alarm watches one time series, not a list",
            _ => return Ok(()),
        };
        Err(QueryError::Math { id: query.id.clone(), error: MathError::new(fault) })
    }

    fn value_of(&mut self, query: &'a Query) -> Result<Value, QueryError> {
        self.value(&query.id, DEPTH_MAX).map_err(|error| match self.failure.take() {
            Some(failure) => failure.into(),
            None => QueryError::Math { id: query.id.clone(), error },
        })
    }

    /// The value of the query of that id.
    fn value(&mut self, id: &str, depth: usize) -> Result<Value, MathError> {
        if let Some(value) = self.known.get(id) {
            self.budget.take(value.cost())?;
            return Ok(value.clone());
        }
        let query = self.queries.iter().find(|query| query.id == id);
        let query = query.ok_or_else(|| MathError::new(format!("{id} is not defined")))?;
        let QueryKind::Expression { text, period_s } = &query.kind else {
            return Err(MathError::new(format!("{id} is not defined")));
        };
        if self.open.contains(&id) {
            return Err(MathError::new("expressions refer to one another in a circle"));
        }
        self.open.push(&query.id);
        let value = self.evaluate(&parse::parse(text)?, depth);
        self.open.pop();
        let mut value = value?;
        if let (Value::Series(series), Some(period_s)) = (&mut value, period_s) {
            series.period_s = (*period_s).max(BASE_PERIOD_S);
        }
        self.known.insert(&query.id, value.clone());
        Ok(value)
    }

    fn evaluate(&mut self, expression: &Expression, depth: usize) -> Result<Value, MathError> {
        let depth = depth
            .checked_sub(1)
            .ok_or_else(|| MathError::new("the expressions are nested too deep"))?;
        match expression {
            Expression::Number(number) => Ok(Value::Number(*number)),
            Expression::Text(text) => Ok(Value::Text(text.clone())),
            Expression::Name(name) => self.value(name, depth),
            Expression::Negated(inner) => {
                let inner = self.evaluate(inner, depth)?;
                self.budget.take(inner.cost())?;
                functions::each(inner, |value| -value)
            }
            Expression::Binary(..) => self.chain(expression, depth),
            Expression::List(elements) => self.list(elements, depth),
            Expression::Call(name, arguments) => self.call(name, arguments, depth),
        }
    }

    /// Operators that bind to the left, one after the other: `1 + 1 + …` is a tree as deep as it is
    /// long.
    fn chain(&mut self, expression: &Expression, depth: usize) -> Result<Value, MathError> {
        let mut operations = Vec::new();
        let mut first = expression;
        while let Expression::Binary(operator, left, right) = first {
            operations.push((*operator, right));
            first = left;
        }
        let mut value = self.evaluate(first, depth)?;
        for (operator, right) in operations.into_iter().rev() {
            let right = self.evaluate(right, depth)?;
            self.budget.take(operators::cost_of_binary(&value, &right))?;
            value = operators::binary(operator, value, right)?;
        }
        Ok(value)
    }

    fn list(&mut self, elements: &[Expression], depth: usize) -> Result<Value, MathError> {
        let mut list = Vec::new();
        for element in elements {
            match self.evaluate(element, depth)? {
                Value::Series(series) => list.push(series),
                Value::List(inner) => list.extend(inner),
                Value::Number(_) | Value::Text(_) => {
                    return Err(MathError::new("a list holds time series only"));
                }
            }
            if list.len() > SERIES_MAX {
                return Err(MathError::new(format!(
                    "a list holds at most {SERIES_MAX} time series"
                )));
            }
        }
        Ok(Value::List(list))
    }

    fn call(
        &mut self,
        name: &str,
        arguments: &[Expression],
        depth: usize,
    ) -> Result<Value, MathError> {
        if name == "METRICS" {
            return self.metrics(arguments);
        }
        if let Some(value) = self.call_with_words(name, arguments, depth)? {
            return Ok(value);
        }
        let values: Result<Vec<Value>, MathError> =
            arguments.iter().map(|argument| self.evaluate(argument, depth)).collect();
        let values = values?;
        if name == "SEARCH" {
            return self.search(&values);
        }
        functions::call(name, values, self.span, &mut self.budget)
    }

    /// A call in which words stand where values could: `FILL(m1, REPEAT)`, `SORT(m1, AVG, DESC)`.
    fn call_with_words(
        &mut self,
        name: &str,
        arguments: &[Expression],
        depth: usize,
    ) -> Result<Option<Value>, MathError> {
        match (name, arguments) {
            ("FILL", [of, Expression::Name(word)]) => {
                let Some(filling) = Filling::of_word(word) else { return Ok(None) };
                let of = self.evaluate(of, depth)?;
                filling::fill(of, &filling, self.span, &mut self.budget).map(Some)
            }
            ("SORT", [of, Expression::Name(by), Expression::Name(direction), rest @ ..])
                if rest.len() <= 1 =>
            {
                let by = functions::function_of_values(by)
                    .ok_or_else(|| MathError::new("SORT orders by AVG, MIN, MAX or SUM"))?;
                let direction = Direction::of_word(direction)
                    .ok_or_else(|| MathError::new("SORT orders ASC or DESC"))?;
                let of = self.evaluate(of, depth)?;
                self.budget.take(of.cost())?;
                let limit = rest.first().map(|limit| self.evaluate(limit, depth)).transpose()?;
                order::sort(of, by, direction, limit).map(Some)
            }
            ("SORT", _) => Err(MathError::new("SORT takes a list, a function and a direction")),
            _ => Ok(None),
        }
    }

    /// All series that are asked for directly, or those whose ids contain a text.
    fn metrics(&mut self, arguments: &[Expression]) -> Result<Value, MathError> {
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
        let list = Value::List(series.collect());
        self.budget.take(list.cost())?;
        Ok(list)
    }

    fn search(&mut self, arguments: &[Value]) -> Result<Value, MathError> {
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
        let Span { start_s, now, .. } = self.span;
        let shortest_s = || Periods::shortest_s(now.seconds().saturating_sub(*start_s));
        let periods = period_s.unwrap_or_else(shortest_s).div_ceil(BASE_PERIOD_S).max(1);
        let period_s = periods.saturating_mul(BASE_PERIOD_S);
        let listed = search::search(self.store, text, self.span, &mut self.budget)?;
        let listed_bytes: usize = listed.iter().map(|listed| names_bytes(&listed.dimensions)).sum();
        self.budget.take(listed_bytes / POINT_BYTES)?;
        let entities: Vec<Entity> = listed
            .iter()
            .map(|l| Entity::new(self.span.scope.clone(), &l.namespace, l.dimensions.clone()))
            .collect();
        let queries = listed.iter().zip(&entities);
        let queries: Vec<SeriesQuery<'_>> = queries
            .map(|(listed, entity)| self.series_query(entity, &listed.metric, None, period_s))
            .collect();
        let points = self.store.points_unless(self.interrupt, &queries, self.span.now);
        let points = points.map_err(|error| {
            let said = MathError::new(error.to_string());
            if !matches!(error, StoreError::TooManyPoints { .. }) {
                self.failure = Some(error);
            }
            said
        })?;
        let mut found = Vec::new();
        for (wanted, points) in queries.iter().zip(points) {
            let mut series = self.series(wanted, &points, statistic);
            if !series.points.is_empty() {
                series.label = label::of_found(wanted);
                found.push(series);
            }
        }
        let list = Value::List(found);
        self.budget.take(list.cost())?;
        Ok(list)
    }
}

/// Memory of the names and values of dimensions.
pub(super) fn names_bytes(dimensions: &[(String, String)]) -> usize {
    let of_one =
        |(name, value): &(String, String)| name.len() + value.len() + size_of::<(String, String)>();
    dimensions.iter().map(of_one).sum()
}
