//! What operators and functions of metric math do.

use std::collections::{BTreeMap, BTreeSet};

use super::budget::Budget;
use super::parse::Operator;
use super::{MathError, Series, Span, Value};
use crate::{BASE_PERIOD_S, Periods};

/// Data points that FILL and TIME_SERIES make of one series at most.
const FILLED_MAX: u64 = 100_800;

/// What FILL puts where there is no data point.
#[derive(Clone, Copy, Debug)]
pub(super) enum Filling {
    Number(f64),
    Repeat,
    Linear,
}

impl Filling {
    pub(super) fn of_word(word: &str) -> Option<Filling> {
        match word {
            "REPEAT" => Some(Filling::Repeat),
            "LINEAR" => Some(Filling::Linear),
            _ => None,
        }
    }
}

/// What it takes to combine them.
pub(super) fn cost_of_binary(left: &Value, right: &Value) -> usize {
    let both = left.cost().saturating_add(right.cost());
    match (left, right) {
        // The series is gone through once for each of the list.
        (Value::Series(series), Value::List(list)) | (Value::List(list), Value::Series(series)) => {
            both.saturating_add(list.len().saturating_mul(series.cost()))
        }
        _ => both,
    }
}

pub(super) fn binary(operator: Operator, left: Value, right: Value) -> Result<Value, MathError> {
    let apply = |a: f64, b: f64| operate(operator, a, b);
    Ok(match (left, right) {
        (Value::Number(a), Value::Number(b)) => {
            apply(a, b).map_or_else(|| Value::Series(Series::default()), Value::Number)
        }
        (Value::Series(a), Value::Number(b)) => Value::Series(a.mapped(|_, a| apply(a, b))),
        (Value::Number(a), Value::Series(b)) => Value::Series(b.mapped(|_, b| apply(a, b))),
        (Value::Series(a), Value::Series(b)) => Value::Series(joined(&a, &b, apply)),
        (Value::List(list), Value::Number(b)) => {
            Value::List(list.iter().map(|a| a.mapped(|_, a| apply(a, b))).collect())
        }
        (Value::Number(a), Value::List(list)) => {
            Value::List(list.iter().map(|b| b.mapped(|_, b| apply(a, b))).collect())
        }
        (Value::List(list), Value::Series(b)) => {
            Value::List(list.iter().map(|a| joined(a, &b, apply)).collect())
        }
        (Value::Series(a), Value::List(list)) => {
            Value::List(list.iter().map(|b| joined(&a, b, apply)).collect())
        }
        (Value::List(a), Value::List(b)) if a.len() == b.len() => {
            Value::List(a.iter().zip(&b).map(|(a, b)| joined(a, b, apply)).collect())
        }
        (Value::List(_), Value::List(_)) => {
            return Err(MathError::new("lists of different lengths cannot be combined"));
        }
        (Value::Text(_), _) | (_, Value::Text(_)) => {
            return Err(MathError::new("a text is no number"));
        }
    })
}

/// None: there is no data point, as after a division by zero.
fn operate(operator: Operator, a: f64, b: f64) -> Option<f64> {
    let truth = |is_true: bool| f64::from(u8::from(is_true));
    let value = match operator {
        Operator::Add => a + b,
        Operator::Subtract => a - b,
        Operator::Multiply => a * b,
        Operator::Divide => a / b,
        Operator::Power => a.powf(b),
        Operator::Equal => truth(a == b),
        Operator::NotEqual => truth(a != b),
        Operator::Less => truth(a < b),
        Operator::LessOrEqual => truth(a <= b),
        Operator::Greater => truth(a > b),
        Operator::GreaterOrEqual => truth(a >= b),
        Operator::And => truth(a != 0.0 && b != 0.0),
        Operator::Or => truth(a != 0.0 || b != 0.0),
    };
    value.is_finite().then_some(value)
}

/// The times that both have.
fn joined(a: &Series, b: &Series, apply: impl Fn(f64, f64) -> Option<f64>) -> Series {
    let mut joined = a.mapped(|time_s, a| apply(a, *b.points.get(&time_s)?));
    joined.period_s = a.period_s.max(b.period_s);
    joined
}

impl Series {
    fn mapped(&self, apply: impl Fn(u64, f64) -> Option<f64>) -> Series {
        let points = self.points.iter();
        let points = points.filter_map(|(time_s, value)| {
            Some((*time_s, apply(*time_s, *value).filter(|value| value.is_finite())?))
        });
        Series { points: points.collect(), label: self.label.clone(), ..*self }
    }
}

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
fn each_series(value: Value, apply: impl Fn(&Series) -> Series) -> Result<Value, MathError> {
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
    if name == "IF" {
        return choose(values);
    }
    if name == "FILL" {
        takes(2)?;
        let filling = values.pop();
        let of = only(values)?;
        return match filling {
            Some(Value::Number(number)) => fill(of, Filling::Number(number), span, budget),
            // There is nothing to fill with.
            Some(Value::Series(series)) if series.points.is_empty() => Ok(of),
            _ => Err(MathError::new("FILL takes a number, REPEAT or LINEAR")),
        };
    }
    takes(1)?;
    let value = only(values)?;
    match name {
        "ABS" => each(value, f64::abs),
        "CEIL" => each(value, f64::ceil),
        "FLOOR" => each(value, f64::floor),
        "LOG" => each(value, f64::ln),
        "LOG10" => each(value, f64::log10),
        "SUM" => reduce(value, |values| values.iter().sum()),
        "AVG" => reduce(value, |values| values.iter().sum::<f64>() / values.len() as f64),
        "MIN" => reduce(value, |values| values.iter().copied().fold(f64::INFINITY, f64::min)),
        "MAX" => reduce(value, |values| values.iter().copied().fold(f64::NEG_INFINITY, f64::max)),
        "STDDEV" => reduce(value, deviation),
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
                fill(Value::Series(empty), Filling::Number(number), span, budget)
            }
            Value::Series(series) if series.points.is_empty() => Ok(Value::Series(series)),
            _ => Err(MathError::new("TIME_SERIES takes a number")),
        },
        "EPOCH" => times(value, |time_s| time_s as f64),
        "MINUTE" => times(value, |time_s| (time_s / 60 % 60) as f64),
        "HOUR" => times(value, |time_s| (time_s / 3_600 % 24) as f64),
        // 1970 began on a Thursday; Monday is 1.
        "DAY" => times(value, |time_s| ((time_s / 86_400 + 3) % 7 + 1) as f64),
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

/// Of one series a number, of several a series: at each time over those that have a value then.
fn reduce(value: Value, over: impl Fn(&[f64]) -> f64) -> Result<Value, MathError> {
    match value {
        // Of a metric that nobody has sent yet: that is no fault of the expression.
        Value::Series(series) if series.points.is_empty() => Ok(Value::Series(series)),
        Value::Series(series) => {
            Ok(Value::Number(over(&series.points.values().copied().collect::<Vec<_>>())))
        }
        Value::List(list) => {
            let mut columns: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
            for (time_s, value) in list.iter().flat_map(|series| &series.points) {
                columns.entry(*time_s).or_default().push(*value);
            }
            let period_s = list.iter().map(|series| series.period_s).max().unwrap_or_default();
            let points = columns.iter().map(|(time_s, values)| (*time_s, over(values)));
            Ok(Value::Series(Series { period_s, points: points.collect(), ..Series::default() }))
        }
        Value::Number(_) | Value::Text(_) => Err(MathError::new("a time series is expected")),
    }
}

fn deviation(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
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
    Series { points: points.collect(), label: series.label.clone(), ..*series }
}

fn running_sum(series: &Series) -> Series {
    let points = series.points.iter().scan(0.0, |sum, (time_s, value)| {
        *sum += value;
        Some((*time_s, *sum))
    });
    Series { points: points.collect(), label: series.label.clone(), ..*series }
}

fn times(value: Value, of: impl Fn(u64) -> f64) -> Result<Value, MathError> {
    each_series(value, |series| series.mapped(|time_s, _| Some(of(time_s))))
}

/// Puts values where periods of the span have none.
pub(super) fn fill(
    value: Value,
    filling: Filling,
    span: &Span,
    budget: &mut Budget,
) -> Result<Value, MathError> {
    let periods = |series: &Series| times_of(series, span).count();
    budget.take(match &value {
        Value::Series(series) => periods(series),
        Value::List(list) => list.iter().map(periods).sum(),
        Value::Number(_) | Value::Text(_) => 0,
    })?;
    each_series(value, |series| filled(series, filling, span))
}

/// The starts of the periods of the span.
fn times_of(series: &Series, span: &Span) -> impl Iterator<Item = u64> {
    let period_s = series.period_s.max(BASE_PERIOD_S);
    let first_s = Periods { origin_s: span.origin_s, period_s }.start_of(span.start_s);
    let last_s = first_s.saturating_add(period_s.saturating_mul(FILLED_MAX)).min(span.end_s);
    (first_s..last_s).step_by(usize::try_from(period_s).unwrap_or(usize::MAX))
}

fn filled(series: &Series, filling: Filling, span: &Span) -> Series {
    let period_s = series.period_s.max(BASE_PERIOD_S);
    let mut points = BTreeMap::new();
    for time_s in times_of(series, span) {
        let known = series.points.get(&time_s).copied();
        let before = || series.points.range(..time_s).next_back();
        let value = known.or_else(|| match filling {
            Filling::Number(number) => Some(number),
            Filling::Repeat => before().map(|(_, value)| *value),
            Filling::Linear => {
                let (from_s, from) = before()?;
                let (to_s, to) = series.points.range(time_s..).next()?;
                let share = (time_s - from_s) as f64 / (to_s - from_s) as f64;
                Some(from + (to - from) * share)
            }
        });
        points.extend(value.filter(|value| value.is_finite()).map(|value| (time_s, value)));
    }
    Series { period_s, points, label: series.label.clone(), ..*series }
}

/// IF: where the condition is not zero the second argument, else the third if there is one.
fn choose(values: Vec<Value>) -> Result<Value, MathError> {
    let mut values = values.into_iter();
    let (Some(condition), Some(then), otherwise, None) =
        (values.next(), values.next(), values.next(), values.next())
    else {
        return Err(MathError::new("IF takes two or three arguments"));
    };
    let condition = match condition {
        Value::Number(number) => {
            let chosen = if number != 0.0 { Some(then) } else { otherwise };
            return chosen.ok_or_else(|| MathError::new("IF has no third argument"));
        }
        Value::Series(series) => series,
        Value::List(_) | Value::Text(_) => {
            return Err(MathError::new("IF takes a number or a time series first"));
        }
    };
    let at = |value: &Value, time_s: u64| match value {
        Value::Number(number) => Some(*number),
        Value::Series(series) => series.points.get(&time_s).copied(),
        Value::List(_) | Value::Text(_) => None,
    };
    let of_either = [Some(&then), otherwise.as_ref()].into_iter().flatten();
    let times: BTreeSet<u64> = of_either
        .filter_map(|value| match value {
            Value::Series(series) => Some(series.points.keys()),
            _ => None,
        })
        .flatten()
        .chain(condition.points.keys())
        .copied()
        .collect();
    let value = |time_s: &u64| {
        let is_true = *condition.points.get(time_s)? != 0.0;
        let chosen = if is_true { Some(&then) } else { otherwise.as_ref() };
        Some((*time_s, at(chosen?, *time_s)?))
    };
    let points = times.iter().filter_map(value).collect();
    Ok(Value::Series(Series { points, label: String::new(), ..condition }))
}
