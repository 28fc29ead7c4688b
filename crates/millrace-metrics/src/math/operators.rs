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

/// IF: where the condition is not zero the second argument, else the third if there is one.
pub(super) fn choose(values: Vec<Value>) -> Result<Value, MathError> {
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
