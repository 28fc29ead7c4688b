//! What operators and IF do.

use std::collections::BTreeSet;

use super::parse::Operator;
use super::{MathError, Series, Value};

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
        (Value::Number(a), Value::Number(b)) => Value::Number(apply(a, b)),
        (Value::Series(a), Value::Number(b)) => Value::Series(a.mapped(|_, a| Some(apply(a, b)))),
        (Value::Number(a), Value::Series(b)) => Value::Series(b.mapped(|_, b| Some(apply(a, b)))),
        (Value::Series(a), Value::Series(b)) => Value::Series(joined(&a, &b, apply)),
        (Value::List(list), Value::Number(b)) => {
            Value::List(list.iter().map(|a| a.mapped(|_, a| Some(apply(a, b)))).collect())
        }
        (Value::Number(a), Value::List(list)) => {
            Value::List(list.iter().map(|b| b.mapped(|_, b| Some(apply(a, b)))).collect())
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

/// Not a number: there is no data point, as after a division by zero.
fn operate(operator: Operator, a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        return f64::NAN;
    }
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
    if value.is_finite() { value } else { f64::NAN }
}

/// User guide, "Using metric math": a value that only the other series has counts as 0. Of series
/// with different periods the times of the coarser count, for the other has them too.
fn joined(a: &Series, b: &Series, apply: impl Fn(f64, f64) -> f64) -> Series {
    let of_a = (a.period_s >= b.period_s).then(|| a.points.keys());
    let of_b = (b.period_s >= a.period_s).then(|| b.points.keys());
    let times: BTreeSet<u64> = of_a.into_iter().chain(of_b).flatten().copied().collect();
    let at = |series: &Series, time_s: u64| series.points.get(&time_s).copied().unwrap_or(0.0);
    let value = |time_s| (time_s, apply(at(a, time_s), at(b, time_s)));
    let mut series = Series {
        period_s: a.period_s.max(b.period_s),
        has_dropped: a.has_dropped || b.has_dropped,
        origin: None,
        ..a.with(times.into_iter().map(value).collect())
    };
    series.drop_what_is_no_number();
    series
}

/// IF: at each time of the condition the second argument if it is not zero, else the third if there
/// is one. The cases are those of the user guide, "Using IF expressions": where the condition
/// holds, a missing value is 0; where it does not, there is none.
pub(super) fn choose(values: Vec<Value>) -> Result<Value, MathError> {
    let mut values = values.into_iter();
    let (Some(condition), Some(then), otherwise, None) =
        (values.next(), values.next(), values.next(), values.next())
    else {
        return Err(MathError::new("IF takes two or three arguments"));
    };
    let of_either = [Some(&then), otherwise.as_ref()].into_iter().flatten();
    if of_either.into_iter().any(|value| matches!(value, Value::List(_) | Value::Text(_))) {
        return Err(MathError::new("IF gives numbers or time series"));
    }
    let condition = match condition {
        Value::Number(number) => return Ok(chosen(number, then, otherwise)),
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
    let points = condition.mapped(|time_s, is_true| match is_true != 0.0 {
        true => Some(at(&then, time_s).unwrap_or(0.0)),
        false => at(otherwise.as_ref()?, time_s),
    });
    let of_either = [Some(&then), otherwise.as_ref()].into_iter().flatten();
    let is_short = |value: &Value| matches!(value, Value::Series(series) if series.has_dropped);
    let has_dropped = points.has_dropped || of_either.into_iter().any(is_short);
    Ok(Value::Series(Series { label: String::new(), has_dropped, origin: None, ..points }))
}

/// IF with a number as its condition. Without a third argument there is nothing to choose: a time
/// series without data points, or no number.
fn chosen(condition: f64, then: Value, otherwise: Option<Value>) -> Value {
    let nothing = || match &then {
        Value::Series(series) => {
            Value::Series(Series { period_s: series.period_s, ..Series::default() })
        }
        _ => Value::Number(f64::NAN),
    };
    match condition {
        number if number.is_nan() => nothing(),
        0.0 => otherwise.unwrap_or_else(nothing),
        _ => then,
    }
}
