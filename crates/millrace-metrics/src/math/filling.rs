//! Values at every period of a span, whether there is a data point or not.

use std::collections::BTreeMap;

use super::budget::Budget;
use super::functions::each_series;
use super::{MathError, Series, Span, Value};
use crate::{BASE_PERIOD_S, Periods};

/// Data points that FILL and TIME_SERIES make of one series at most.
const FILLED_MAX: u64 = 100_800;

/// What FILL puts where there is no data point.
#[derive(Clone, Debug)]
pub(super) enum Filling {
    Number(f64),
    /// What another series has at that time, if anything.
    Series(Series),
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

/// Puts values where periods of the span have none.
pub(super) fn fill(
    value: Value,
    filling: &Filling,
    span: &Span,
    budget: &mut Budget,
) -> Result<Value, MathError> {
    at_all_periods(value, span, budget, |series| filled(series, filling, span))
}

/// What a function makes of the time at each period of the span; no value is needed there.
pub(super) fn times(
    value: Value,
    span: &Span,
    budget: &mut Budget,
    of: impl Fn(u64) -> f64,
) -> Result<Value, MathError> {
    at_all_periods(value, span, budget, |series| Series {
        period_s: series.period_s.max(BASE_PERIOD_S),
        ..series.with(times_of(series, span).map(|time_s| (time_s, of(time_s))).collect())
    })
}

fn at_all_periods(
    value: Value,
    span: &Span,
    budget: &mut Budget,
    apply: impl Fn(&Series) -> Series,
) -> Result<Value, MathError> {
    let periods = |series: &Series| times_of(series, span).count();
    budget.take(match &value {
        Value::Series(series) => periods(series),
        Value::List(list) => list.iter().map(periods).sum(),
        Value::Number(_) | Value::Text(_) => 0,
    })?;
    each_series(value, apply)
}

/// The starts of the periods of the span.
fn times_of(series: &Series, span: &Span) -> impl Iterator<Item = u64> {
    let period_s = series.period_s.max(BASE_PERIOD_S);
    let first_s = Periods { origin_s: span.origin_s, period_s }.start_of(span.start_s);
    let last_s = first_s.saturating_add(period_s.saturating_mul(FILLED_MAX)).min(span.end_s);
    (first_s..last_s).step_by(usize::try_from(period_s).unwrap_or(usize::MAX))
}

fn filled(series: &Series, filling: &Filling, span: &Span) -> Series {
    let period_s = series.period_s.max(BASE_PERIOD_S);
    let mut points = BTreeMap::new();
    for time_s in times_of(series, span) {
        let known = series.points.get(&time_s).copied();
        let before = || series.points.range(..time_s).next_back();
        let value = known.or_else(|| match filling {
            Filling::Number(number) => Some(*number),
            Filling::Series(other) => other.points.get(&time_s).copied(),
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
    Series { period_s, ..series.with(points) }
}
