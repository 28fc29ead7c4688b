//! `--fail-if`: limits on metrics, such as `p99>50ms,lost>0`.

use super::Metric;

/// A run fails if a metric of this name compares so with the bound.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Limit {
    name: String,
    comparison: Comparison,
    /// In the metric's own unit; durations in microseconds.
    bound: f64,
    text: String,
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

/// Suffixes of a bound, and what they are in the metric's own unit.
const UNITS: [(&str, f64); 7] =
    [("µs", 1.0), ("us", 1.0), ("ms", 1e3), ("/s", 1.0), ("s", 1e6), ("x", 1.0), ("%", 0.01)];

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::str::FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Limit, String> {
        let text = text.trim();
        let wrong = || format!("{text} is not NAME>BOUND, for instance p99>50ms");
        let (at, sign, comparison) = SIGNS
            .iter()
            .filter_map(|(sign, comparison)| Some((text.find(sign)?, *sign, *comparison)))
            .min_by_key(|(at, sign, _)| (*at, std::cmp::Reverse(sign.len())))
            .ok_or_else(wrong)?;
        let (name, bound) = (text[..at].trim(), text[at + sign.len()..].trim());
        let (digits, factor) = UNITS
            .iter()
            .find_map(|(suffix, factor)| Some((bound.strip_suffix(suffix)?, *factor)))
            .unwrap_or((bound, 1.0));
        let bound: f64 = digits.trim().parse().map_err(|_| wrong())?;
        if name.is_empty() || !bound.is_finite() {
            return Err(wrong());
        }
        let (name, text) = (name.to_owned(), text.to_owned());
        Ok(Limit { name, comparison, bound: bound * factor, text })
    }
}

impl Limit {
    /// The metrics that break the limit, as text. A limit on a metric that is not there is broken
    /// too: it would otherwise hold for ever unnoticed.
    pub(crate) fn broken_by(&self, metrics: &[Metric]) -> Vec<String> {
        let named: Vec<&Metric> =
            metrics.iter().filter(|metric| metric.is_named(&self.name)).collect();
        if named.is_empty() {
            return vec![format!("{}: no metric is called {}", self.text, self.name)];
        }
        let broken = named.into_iter().filter(|metric| self.compares(metric.value));
        broken.map(|metric| format!("{}: {} is {}", self.text, metric.name, metric.value)).collect()
    }

    /// As an objective: whether there is such a metric, and all of that name compare so.
    pub(crate) fn holds_for(&self, metrics: &[Metric]) -> bool {
        let mut named = metrics.iter().filter(|metric| metric.is_named(&self.name)).peekable();
        named.peek().is_some() && named.all(|metric| self.compares(metric.value))
    }

    fn compares(&self, value: f64) -> bool {
        match self.comparison {
            Comparison::Greater => value > self.bound,
            Comparison::GreaterOrEqual => value >= self.bound,
            Comparison::Less => value < self.bound,
            Comparison::LessOrEqual => value <= self.bound,
            Comparison::Equal => value == self.bound,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics() -> Vec<Metric> {
        vec![
            Metric::latency("pc.single.send.p99", 40_000.0),
            Metric::latency("pc.batch.send.p99", 60_000.0),
            Metric::faults("pc.single.lost", 0),
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
