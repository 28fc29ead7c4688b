//! `--fail-if`: limits on metrics, such as `p99>50ms,lost>0`.

use super::{Metric, Unit, ends_with};

/// A run fails if a metric of this name compares so with the bound.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Limit {
    name: String,
    comparison: Comparison,
    bound: Bound,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Bound {
    /// In microseconds, whatever the metric counts time in.
    Time(f64),
    /// In the metric's own unit.
    Number(f64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    Equal,
}

/// Longer signs first: `>=` begins with `>`.
const SIGNS: [(&str, Comparison); 5] = [
    (">=", Comparison::GreaterOrEqual),
    ("<=", Comparison::LessOrEqual),
    (">", Comparison::Greater),
    ("<", Comparison::Less),
    ("=", Comparison::Equal),
];

/// Suffixes of a bound, longer ones first, and what they stand for.
const UNITS: [(&str, Bound); 7] = [
    ("µs", Bound::Time(1.0)),
    ("us", Bound::Time(1.0)),
    ("ms", Bound::Time(1e3)),
    ("/s", Bound::Number(1.0)),
    ("s", Bound::Time(1e6)),
    ("x", Bound::Number(1.0)),
    ("%", Bound::Number(0.01)),
];

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::str::FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Limit, String> {
        let text = text.trim();
        let wrong = || format!("{text} is no limit such as p99>50ms or p99<50ms");
        let (at, sign, comparison) = SIGNS
            .iter()
            .filter_map(|(sign, comparison)| Some((text.find(sign)?, *sign, *comparison)))
            .min_by_key(|(at, sign, _)| (*at, std::cmp::Reverse(sign.len())))
            .ok_or_else(wrong)?;
        let (name, bound) = (text[..at].trim(), text[at + sign.len()..].trim());
        let (digits, unit) = UNITS
            .iter()
            .find_map(|(suffix, unit)| Some((bound.strip_suffix(suffix)?, *unit)))
            .unwrap_or((bound, Bound::Number(1.0)));
        let number: f64 = digits.trim().parse().map_err(|_| wrong())?;
        if name.is_empty() || !number.is_finite() {
            return Err(wrong());
        }
        let bound = match unit {
            Bound::Time(factor_us) => Bound::Time(number * factor_us),
            Bound::Number(factor) => Bound::Number(number * factor),
        };
        Ok(Limit { name: name.to_owned(), comparison, bound, text: text.to_owned() })
    }
}

impl Limit {
    /// Whether the limit is about a metric.
    pub(crate) fn is_on(&self, metric: &Metric) -> bool {
        metric.is_named(&self.name)
    }

    /// Whether the limit may be about metrics whose names end so.
    pub(crate) fn may_be_on(&self, end: &str) -> bool {
        ends_with(&self.name, end) || ends_with(end, &self.name)
    }

    /// The metrics that break the limit, as text. A limit on a metric that is not there is broken
    /// too: it would otherwise hold for ever unnoticed.
    pub(crate) fn broken_by(&self, metrics: &[Metric]) -> Vec<String> {
        let named: Vec<&Metric> = metrics.iter().filter(|metric| self.is_on(metric)).collect();
        if named.is_empty() {
            return vec![format!("{}: no metric is called {}", self.text, self.name)];
        }
        let broken = named.into_iter().filter_map(|metric| {
            let Metric { name, value, .. } = metric;
            match self.bound_for(metric) {
                None => Some(format!("{}: {name} is no time", self.text)),
                Some(bound) => self
                    .compares(*value, bound)
                    .then(|| format!("{}: {name} is {value}", self.text)),
            }
        });
        broken.collect()
    }

    /// As an objective: whether there is such a metric, and all of that name compare so.
    pub(crate) fn holds_for(&self, metrics: &[Metric]) -> bool {
        let mut named = metrics.iter().filter(|metric| self.is_on(metric)).peekable();
        named.peek().is_some()
            && named.all(|metric| {
                self.bound_for(metric).is_some_and(|bound| self.compares(metric.value, bound))
            })
    }

    /// The bound in a metric's unit; `None` if it is a time and the metric is not.
    fn bound_for(&self, metric: &Metric) -> Option<f64> {
        match (self.bound, metric.unit) {
            (Bound::Number(bound), _) => Some(bound),
            (Bound::Time(bound_us), Unit::Microseconds) => Some(bound_us),
            (Bound::Time(bound_us), Unit::Seconds) => Some(bound_us / 1e6),
            (Bound::Time(_), Unit::PerSecond | Unit::Ratio | Unit::Count | Unit::Dollars) => None,
        }
    }

    fn compares(&self, value: f64, bound: f64) -> bool {
        match self.comparison {
            Comparison::Greater => value > bound,
            Comparison::GreaterOrEqual => value >= bound,
            Comparison::Less => value < bound,
            Comparison::LessOrEqual => value <= bound,
            Comparison::Equal => value == bound,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Better;

    fn metrics() -> Vec<Metric> {
        vec![
            Metric::latency("pc.single.send.p99", 40_000.0),
            Metric::latency("pc.batch.send.p99", 60_000.0),
            Metric::faults("pc.single.lost", 0),
            Metric::new("drain.http.kept.2.time", 0.17, Unit::Seconds, Better::Lower),
        ]
    }

    fn broken(limit: &str) -> Vec<String> {
        limit.parse::<Limit>().unwrap().broken_by(&metrics())
    }

    #[test]
    fn a_limit_holds_for_every_metric_of_its_name() {
        assert_eq!(broken("p99>50ms"), ["p99>50ms: pc.batch.send.p99 is 60000"]);
        assert_eq!(broken("p99>0.1s").len(), 0);
        assert_eq!(broken("single.send.p99 >= 40000us").len(), 1);
    }

    #[test]
    fn a_time_is_one_whatever_the_metric_counts_in() {
        assert_eq!(broken("time>1ms"), ["time>1ms: drain.http.kept.2.time is 0.17"]);
        assert_eq!(broken("time>171ms").len(), 0);
        assert_eq!(broken("time>0.1").len(), 1);
        assert_eq!(broken("time>0.1s").len(), 1);
        assert_eq!(broken("lost>0s"), ["lost>0s: pc.single.lost is no time"]);
        assert!(!"lost<1s".parse::<Limit>().unwrap().holds_for(&metrics()));
    }

    #[test]
    fn bounds_may_be_met_exactly() {
        assert_eq!(broken("lost>0").len(), 0);
        assert_eq!(broken("lost<=0").len(), 1);
        assert_eq!(broken("lost=0").len(), 1);
        assert_eq!(broken("lost<1").len(), 1);
    }

    #[test]
    fn a_name_that_nothing_has_is_no_silent_success() {
        assert!(broken("p42>1")[0].contains("no metric is called p42"));
    }

    #[test]
    fn an_objective_holds_for_all_metrics_of_its_name_and_needs_one() {
        let holds = |text: &str| text.parse::<Limit>().unwrap().holds_for(&metrics());

        assert!(holds("p99<70ms") && !holds("p99<50ms") && !holds("p42<1s"));
    }

    #[test]
    fn what_is_no_limit_is_refused() {
        for text in ["", "p99", "p99>", ">5", "p99>fast", "p99>nan"] {
            assert!(text.parse::<Limit>().is_err(), "{text}");
        }
    }
}
