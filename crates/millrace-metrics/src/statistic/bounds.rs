//! Which of the values of a period a statistic is about: `10%:90%`, `150:1000`, `:300`.

use super::{number, percent, percentile};

/// From where to where, without the former and with the latter. Percents are of the values in their
/// order; one on a bound counts in part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    pub(super) low: Option<f64>,
    pub(super) high: Option<f64>,
    pub(super) are_percents: bool,
}

/// The values within bounds.
pub(super) struct Part {
    pub count: f64,
    pub sum: f64,
}

impl Bounds {
    pub(super) fn parse(text: &str) -> Option<Bounds> {
        let (low, high) = text.split_once(':')?;
        let are_percents = text.contains('%');
        let side = |text: &str| match (text, are_percents) {
            ("", _) => Some(None),
            (text, true) => percent(text.strip_suffix('%')?).map(Some),
            (text, false) => number(text).map(Some),
        };
        let bounds = Bounds { low: side(low)?, high: side(high)?, are_percents };
        match (bounds.low, bounds.high) {
            (None, None) => None,
            (Some(low), Some(high)) if low >= high => None,
            _ => Some(bounds),
        }
    }

    /// Of values with how often each occurred, ascending.
    pub(super) fn part(self, values: &[(f64, f64)]) -> Part {
        let total: f64 = values.iter().map(|(_, count)| count).sum();
        let from = total * self.low.unwrap_or(0.0) / 100.0;
        let to = total * self.high.unwrap_or(100.0) / 100.0;
        let mut seen = 0.0_f64;
        let mut part = Part { count: 0.0, sum: 0.0 };
        for (value, count) in values {
            let inside = match self.are_percents {
                true => ((seen + count).min(to) - seen.max(from)).max(0.0),
                false if self.hold(*value) => *count,
                false => 0.0,
            };
            part.count += inside;
            part.sum += value * inside;
            seen += count;
        }
        part
    }

    pub(super) fn winsorized_mean(self, values: &[(f64, f64)]) -> Option<f64> {
        let at = |bound: f64| match self.are_percents {
            true => percentile(values, bound),
            false => Some(bound),
        };
        let low = self.low.and_then(at).unwrap_or(f64::NEG_INFINITY);
        let high = self.high.and_then(at).unwrap_or(f64::INFINITY);
        let total: f64 = values.iter().map(|(_, count)| count).sum();
        let sum: f64 = values.iter().map(|(value, count)| value.max(low).min(high) * count).sum();
        (total > 0.0).then_some(sum / total)
    }

    fn hold(self, value: f64) -> bool {
        self.low.is_none_or(|low| value > low) && self.high.is_none_or(|high| value <= high)
    }
}
