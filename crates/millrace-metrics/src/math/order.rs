//! SORT and SLICE: which series of a list, and in which order.

use super::functions::{FunctionOfValues, reduced};
use super::{MathError, Series, Value};

/// Lowest values first, or highest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Ascending,
    Descending,
}

impl Direction {
    pub(super) fn of_word(word: &str) -> Option<Direction> {
        match word {
            "ASC" => Some(Direction::Ascending),
            "DESC" => Some(Direction::Descending),
            _ => None,
        }
    }
}

/// Orders a list by a function of each series and keeps the first of them. Those without data
/// points come last.
pub(super) fn sort(
    value: Value,
    by: FunctionOfValues,
    direction: Direction,
    limit: Option<Value>,
) -> Result<Value, MathError> {
    let list = list_of(value)?;
    let limit = limit.map(|limit| place(&limit)).transpose()?;
    let mut keyed: Vec<(f64, Series)> =
        list.into_iter().map(|series| (reduced(&series, by), series)).collect();
    keyed.sort_by(|(a, _), (b, _)| {
        let order = match direction {
            Direction::Ascending => a.total_cmp(b),
            Direction::Descending => b.total_cmp(a),
        };
        a.is_nan().cmp(&b.is_nan()).then(order)
    });
    let sorted = keyed.into_iter().map(|(_, series)| series);
    Ok(Value::List(sorted.take(limit.unwrap_or(usize::MAX)).collect()))
}

/// The series from a place on, or from one to before another; the first has the place 0.
pub(super) fn slice(values: Vec<Value>) -> Result<Value, MathError> {
    let mut values = values.into_iter();
    let (Some(list), Some(first), last, None) =
        (values.next(), values.next(), values.next(), values.next())
    else {
        return Err(MathError::new("SLICE takes two or three arguments"));
    };
    let first = place(&first)?;
    let last = last.map(|last| place(&last)).transpose()?.unwrap_or(usize::MAX);
    let kept = list_of(list)?.into_iter().skip(first).take(last.saturating_sub(first));
    Ok(Value::List(kept.collect()))
}

fn list_of(value: Value) -> Result<Vec<Series>, MathError> {
    match value {
        Value::List(list) => Ok(list),
        Value::Series(_) | Value::Number(_) | Value::Text(_) => {
            Err(MathError::new("a list is expected"))
        }
    }
}

fn place(value: &Value) -> Result<usize, MathError> {
    match value {
        // Beyond any list, and below zero: the nearest there is.
        Value::Number(number) => Ok(*number as usize),
        Value::Series(_) | Value::List(_) | Value::Text(_) => {
            Err(MathError::new("a number is expected"))
        }
    }
}
