//! What the functions of metric math do.

use std::collections::BTreeMap;

use millrace_core::Date;

use super::budget::Budget;
use super::filling::{Filling, fill, times};
use super::operators::choose;
use super::order::slice;
use super::{MathError, Series, Span, Value};
use crate::BASE_PERIOD_S;

/// Applies a function to each value.
pub(super) fn each(value: Value, apply: impl Fn(f64) -> f64) -> Result<Value, MathError> {
    match value {
        Value::Number(number) => Ok(Value::Number(apply(number))),
        Value::Series(series) => Ok(Value::Series(series.mapped(|_, value| Some(apply(value))))),
        Value::List(list) => {
            let mapped = list.iter().map(|series| series.mapped(|_, value| Some(apply(value))));
            Ok(Value::List(mapped.collect()))
        }
        Value::Text(_) => Err(MathError::new("a text is no number")),
    }
}

/// Applies a function to each series.
pub(super) fn each_series(
    value: Value,
    apply: impl Fn(&Series) -> Series,
) -> Result<Value, MathError> {
    match value {
        Value::Series(series) => Ok(Value::Series(apply(&series))),
        Value::List(list) => Ok(Value::List(list.iter().map(apply).collect())),
        Value::Number(_) | Value::Text(_) => Err(MathError::new("a time series is expected")),
    }
}

pub(super) fn call(
    name: &str,
    mut values: Vec<Value>,
    span: &Span,
    budget: &mut Budget,
) -> Result<Value, MathError> {
    let count = values.len();
    budget.take(values.iter().map(Value::cost).sum())?;
    let takes = |expected: usize| match count == expected {
        true => Ok(()),
        false => Err(MathError::new(format!("{name} takes {expected} arguments, not {count}"))),
    };
    match name {
        "IF" => choose(values),
        "SLICE" => slice(values),
        "FILL" => {
            takes(2)?;
            let filling = values.pop();
            let of = only(values)?;
            match filling {
                Some(Value::Number(number)) => fill(of, &Filling::Number(number), span, budget),
                Some(Value::Series(series)) => fill(of, &Filling::Series(series), span, budget),
                _ => Err(MathError::new("FILL takes a number, a time series, REPEAT or LINEAR")),
            }
        }
        _ => {
            takes(1)?;
            of_one(name, only(values)?, span, budget)
        }
    }
}

/// The functions of one argument.
fn of_one(name: &str, value: Value, span: &Span, budget: &mut Budget) -> Result<Value, MathError> {
    match name {
        "ABS" => each(value, f64::abs),
        "CEIL" => each(value, f64::ceil),
        "FLOOR" => each(value, f64::floor),
        "LOG" => each(value, f64::ln),
        "LOG10" => each(value, f64::log10),
        "AVG" => average(value),
        "SUM" => reduce(value, sum),
        "MIN" => reduce(value, min),
        "MAX" => reduce(value, max),
        "STDDEV" => reduce(value, deviation),
        "DATAPOINT_COUNT" => match value {
            Value::Series(series) => Ok(Value::Number(series.points.len() as f64)),
            value => reduce(value, |values| values.len() as f64),
        },
        "METRIC_COUNT" => match value {
            Value::Series(_) => Ok(Value::Number(1.0)),
            Value::List(list) => Ok(Value::Number(list.len() as f64)),
            Value::Number(_) | Value::Text(_) => Err(MathError::new("a time series is expected")),
        },
        "FIRST" => end_of(value, |list| list.first().cloned()),
        "LAST" => end_of(value, |list| list.last().cloned()),
        "DIFF" => each_series(value, |series| differences(series, |difference, _| difference)),
        "DIFF_TIME" => each_series(value, |series| differences(series, |_, seconds| seconds)),
        "RATE" => each_series(value, |series| {
            differences(series, |difference, seconds| difference / seconds)
        }),
        "RUNNING_SUM" => each_series(value, running_sum),
        "PERIOD" => match value {
            Value::Series(series) => Ok(Value::Number(series.period_s as f64)),
            _ => Err(MathError::new("PERIOD takes one time series")),
        },
        "TIME_SERIES" => match value {
            Value::Number(number) => {
                let empty = Series { period_s: BASE_PERIOD_S, ..Series::default() };
                fill(Value::Series(empty), &Filling::Number(number), span, budget)
            }
            _ => Err(MathError::new("TIME_SERIES takes a number")),
        },
        "EPOCH" => times(value, span, budget, |time_s| time_s as f64),
        "MINUTE" => times(value, span, budget, |time_s| (time_s / 60 % 60) as f64),
        "HOUR" => times(value, span, budget, |time_s| (time_s / 3_600 % 24) as f64),
        // 1970 began on a Thursday; Monday is 1.
        "DAY" => times(value, span, budget, |time_s| ((time_s / 86_400 + 3) % 7 + 1) as f64),
        "DATE" => times(value, span, budget, |time_s| Date::of_seconds(time_s).day as f64),
        "MONTH" => times(value, span, budget, |time_s| Date::of_seconds(time_s).month as f64),
        "YEAR" => times(value, span, budget, |time_s| Date::of_seconds(time_s).year as f64),
        "REMOVE_EMPTY" => match value {
            Value::List(mut list) => {
                list.retain(|series| !series.points.is_empty());
                Ok(Value::List(list))
            }
            value => Ok(value),
        },
        _ => Err(MathError::new(format!("{name} is not a function"))),
    }
}

fn only(values: Vec<Value>) -> Result<Value, MathError> {
    values.into_iter().next().ok_or_else(|| MathError::new("an argument is missing"))
}

/// Takes values together to one.
pub(super) type FunctionOfValues = fn(&[f64]) -> f64;

/// The functions by which SORT orders.
pub(super) fn function_of_values(name: &str) -> Option<FunctionOfValues> {
    match name {
        "AVG" => Some(mean),
        "SUM" => Some(sum),
        "MIN" => Some(min),
        "MAX" => Some(max),
        _ => None,
    }
}

fn sum(values: &[f64]) -> f64 {
    values.iter().sum()
}

fn mean(values: &[f64]) -> f64 {
    sum(values) / values.len() as f64
}

fn min(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

fn max(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

/// A function of all values of a series; not a number if there is none, as of a metric that nobody
/// has sent yet: that is no fault of the expression.
pub(super) fn reduced(series: &Series, over: impl Fn(&[f64]) -> f64) -> f64 {
    let values: Vec<f64> = series.points.values().copied().collect();
    if values.is_empty() { f64::NAN } else { over(&values) }
}

/// Of one series a number, of several a series: at each time over those that have a value then.
fn reduce(value: Value, over: impl Fn(&[f64]) -> f64) -> Result<Value, MathError> {
    match value {
        Value::Series(series) => Ok(Value::Number(reduced(&series, over))),
        Value::List(list) => {
            let mut columns: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
            for (time_s, value) in list.iter().flat_map(|series| &series.points) {
                columns.entry(*time_s).or_default().push(*value);
            }
            let period_s = list.iter().map(|series| series.period_s).max().unwrap_or_default();
            let has_dropped = list.iter().any(|series| series.has_dropped);
            let points = columns.iter().map(|(time_s, values)| (*time_s, over(values)));
            let points = points.collect();
            Ok(Value::Series(Series { period_s, points, has_dropped, ..Series::default() }))
        }
        Value::Number(_) | Value::Text(_) => Err(MathError::new("a time series is expected")),
    }
}

/// User guide: of several series, missing values are treated as 0.
fn average(value: Value) -> Result<Value, MathError> {
    match value {
        Value::List(list) => {
            let count = list.len() as f64;
            reduce(Value::List(list), |values| sum(values) / count)
        }
        value => reduce(value, mean),
    }
}

fn deviation(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / values.len() as f64).sqrt()
}

fn end_of(value: Value, pick: impl Fn(&[Series]) -> Option<Series>) -> Result<Value, MathError> {
    match value {
        Value::Series(series) => Ok(Value::Series(series)),
        Value::List(list) => Ok(Value::Series(pick(&list).unwrap_or_default())),
        Value::Number(_) | Value::Text(_) => Err(MathError::new("a list is expected")),
    }
}

/// From each data point to the next: difference and seconds.
fn differences(series: &Series, of: impl Fn(f64, f64) -> f64) -> Series {
    let pairs = series.points.iter().zip(series.points.iter().skip(1));
    let points =
        pairs.map(|((from_s, from), (to_s, to))| (*to_s, of(to - from, (to_s - from_s) as f64)));
    series.with(points.collect())
}

fn running_sum(series: &Series) -> Series {
    let points = series.points.iter().scan(0.0, |sum, (time_s, value)| {
        *sum += value;
        Some((*time_s, *sum))
    });
    series.with(points.collect())
}
