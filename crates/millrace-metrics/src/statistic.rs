//! What is asked of a data point.

mod bounds;

pub use self::bounds::Bounds;
use self::bounds::Part;
use crate::Summary;

/// A statistic over the values of a period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Statistic {
    SampleCount,
    Average,
    Sum,
    Minimum,
    Maximum,
    /// `p95`: the value below or at which so many percent of the values are.
    Percentile(f64),
    /// `PR(:300)`: how many percent of the values are within bounds.
    PercentileRank(Bounds),
    /// `tm90`, `TM(150:1000)`: the mean of the values within bounds.
    TrimmedMean(Bounds),
    /// `tc90`: how many they are.
    TrimmedCount(Bounds),
    /// `ts90`: their sum.
    TrimmedSum(Bounds),
    /// `wm90`: the mean of all values, of which those beyond a bound count as it.
    WinsorizedMean(Bounds),
}

impl Statistic {
    /// Any statistic by its name, such as `Sum` or `p99.9`.
    pub fn of_name(name: &str) -> Option<Statistic> {
        Statistic::simple(name).or_else(|| Statistic::extended(name))
    }

    /// One of the five that every data point has.
    pub fn simple(name: &str) -> Option<Statistic> {
        Some(match name {
            "SampleCount" => Statistic::SampleCount,
            "Average" => Statistic::Average,
            "Sum" => Statistic::Sum,
            "Minimum" => Statistic::Minimum,
            "Maximum" => Statistic::Maximum,
            _ => return None,
        })
    }

    /// One that needs the distribution of the values. The names are those of the CloudWatch user
    /// guide, "Statistics definitions".
    pub fn extended(name: &str) -> Option<Statistic> {
        let name = name.to_ascii_lowercase();
        if name == "iqm" {
            return Bounds::parse("25%:75%").map(Statistic::TrimmedMean);
        }
        let (kind, rest) = name.split_at_checked(2)?;
        let make = match kind {
            "tm" => Statistic::TrimmedMean,
            "tc" => Statistic::TrimmedCount,
            "ts" => Statistic::TrimmedSum,
            "wm" => Statistic::WinsorizedMean,
            "pr" => {
                let bounds = Bounds::parse(rest.strip_prefix('(')?.strip_suffix(')')?)?;
                return (!bounds.are_percents).then_some(Statistic::PercentileRank(bounds));
            }
            _ => return percent(name.strip_prefix('p')?).map(Statistic::Percentile),
        };
        let bounds = match rest.strip_prefix('(') {
            Some(rest) => Bounds::parse(rest.strip_suffix(')')?)?,
            None => Bounds { low: None, high: Some(percent(rest)?), are_percents: true },
        };
        Some(make(bounds))
    }

    /// The statistic's value; `None` if the distribution that it needs is not known, or if it is no
    /// finite number, as a sum of large values. What is made of the distribution lies between the
    /// smallest and the largest value, though it may be known only roughly.
    pub fn value(self, of: &Summary) -> Option<f64> {
        let value = match self {
            Statistic::SampleCount => of.count,
            Statistic::Average => of.sum / of.count,
            Statistic::Sum => of.sum,
            Statistic::Minimum => of.min,
            Statistic::Maximum => of.max,
            Statistic::Percentile(percent) => within(of, percentile(&of.values()?, percent)?),
            Statistic::PercentileRank(bounds) => {
                bounds.part(&of.values()?).count / of.count * 100.0
            }
            Statistic::TrimmedMean(bounds) => {
                let values = of.values()?;
                let Part { count, sum } = bounds.part(&values);
                let is_of_none = bounds.are_percents && count == 0.0;
                let mean = if is_of_none { values.first()?.0 } else { sum / count };
                // Not a number: no value is within bounds.
                if mean.is_finite() { within(of, mean) } else { mean }
            }
            Statistic::TrimmedCount(bounds) => bounds.part(&of.values()?).count,
            Statistic::TrimmedSum(bounds) => bounds.part(&of.values()?).sum,
            Statistic::WinsorizedMean(bounds) => bounds.winsorized_mean(&of.values()?)?,
        };
        value.is_finite().then_some(value)
    }
}

fn within(of: &Summary, value: f64) -> f64 {
    value.max(of.min).min(of.max)
}

fn percentile(values: &[(f64, f64)], percent: f64) -> Option<f64> {
    let total: f64 = values.iter().map(|(_, count)| count).sum();
    let wanted = total * percent / 100.0;
    let mut seen = 0.0;
    for (value, count) in values {
        seen += count;
        if seen >= wanted {
            return Some(*value);
        }
    }
    values.last().map(|(value, _)| *value)
}

/// Digits that say how many percent.
fn percent(digits: &str) -> Option<f64> {
    number(digits).filter(|percent| (0.0..=100.0).contains(percent))
}

fn number(digits: &str) -> Option<f64> {
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    digits.parse().ok().filter(|_| is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_to_ten() -> Summary {
        Summary::of_values((1..=10).map(|value| (f64::from(value), 1.0))).unwrap()
    }

    #[test]
    fn names_are_those_of_cloudwatch() {
        assert_eq!(Statistic::of_name("Sum"), Some(Statistic::Sum));
        assert_eq!(Statistic::of_name("p99.9"), Some(Statistic::Percentile(99.9)));
        assert_eq!(Statistic::of_name("P5"), Some(Statistic::Percentile(5.0)));
        assert_eq!(Statistic::of_name("tm90"), Statistic::of_name("TM90"));
        assert_eq!(Statistic::of_name("tm90"), Statistic::of_name("TM(:90%)"));
        assert_eq!(Statistic::of_name("IQM"), Statistic::of_name("TM(25%:75%)"));
        for name in ["", "p", "p101", "sum", "p-1", "pinf", "p1e1", "q5", "tm", "tm101", "é"] {
            assert_eq!(Statistic::of_name(name), None, "{name}");
        }
        for name in ["TM(5:1", "TM(5:1)", "TM(:)", "TM(5)", "TM(10%:90)", "TM(1:101%)", "pr90"] {
            assert_eq!(Statistic::of_name(name), None, "{name}");
        }
        for name in ["PR(1%:2%)", "WM(-1:2)", "TS(90%:10%)", "TC(1:2:3)"] {
            assert_eq!(Statistic::of_name(name), None, "{name}");
        }
    }

    #[test]
    fn statistics_of_one_to_ten() {
        let all = one_to_ten();
        let value = |name| Statistic::of_name(name).unwrap().value(&all).unwrap();

        assert_eq!(value("SampleCount"), 10.0);
        assert_eq!(value("Average"), 5.5);
        assert_eq!((value("Minimum"), value("Maximum"), value("Sum")), (1.0, 10.0, 55.0));
        assert_eq!((value("p50"), value("p90"), value("p0"), value("p100")), (5.0, 9.0, 1.0, 10.0));
        assert_eq!((value("p10"), value("p10.1"), value("p99")), (1.0, 2.0, 10.0));
        assert_eq!((value("tm50"), value("tm0"), value("tm100")), (3.0, 1.0, 5.5));
        // A value on the border counts in part.
        assert_eq!(value("tm25"), (1.0 + 2.0 + 3.0 * 0.5) / 2.5);
        assert_eq!(value("IQM"), 5.5);
    }

    /// User guide: bounds are exclusive below and inclusive above.
    #[test]
    fn bounds_leave_values_out_or_count_them_as_the_bound() {
        let all = one_to_ten();
        let value = |name| Statistic::of_name(name).unwrap().value(&all);

        assert_eq!([value("tc90"), value("ts90")], [Some(9.0), Some(45.0)]);
        assert_eq!(value("TM(10%:90%)"), Some(5.5));
        assert_eq!(value("TS(80%:)"), Some(19.0));
        assert_eq!(
            [value("TM(3:5)"), value("TC(3:5)"), value("TS(3:5)")],
            [4.5, 2.0, 9.0].map(Some)
        );
        assert_eq!([value("TM(:3)"), value("TM(8:)")], [Some(2.0), Some(9.5)]);
        assert_eq!(
            [value("PR(:3)"), value("PR(3:5)"), value("PR(2:)")],
            [30.0, 20.0, 80.0].map(Some)
        );
        // One to eight, and eight twice more.
        assert_eq!(value("wm80"), Some(5.2));
        assert_eq!([value("WM(10%:80%)"), value("WM(3:5)")], [Some(5.2), Some(4.3)]);
        assert_eq!(
            [value("TM(20:30)"), value("TC(20:30)"), value("TS(20:30)")],
            [None, Some(0.0), Some(0.0)]
        );
    }

    #[test]
    fn what_is_known_roughly_lies_between_the_smallest_and_the_largest_value() {
        for top in [100, 1_000] {
            let all = (1..=top).map(|value| (f64::from(value) + 0.007, 1.0));
            let all = Summary::of_values(all).unwrap();
            let values = all.values().unwrap();
            assert!(values.len() < top as usize, "{top}: they are taken together");
            let value = |name| Statistic::of_name(name).unwrap().value(&all).unwrap();

            assert!(value("p0") >= all.min && value("tm0") >= all.min);
            assert!(value("p99.9") <= all.max && value("p100") <= all.max, "{top}");
        }
        let near = (0..100).map(|value| (100.0 + f64::from(value) / 1_000.0, 1.0));
        let near = Summary::of_values(near).unwrap();
        for name in ["p50", "tm50", "IQM"] {
            let value = Statistic::of_name(name).unwrap().value(&near).unwrap();
            assert!((near.min..=near.max).contains(&value), "{name}: {value}");
        }
    }

    #[test]
    fn what_is_no_finite_number_is_no_value() {
        let set = Summary::of_set(2.0, f64::INFINITY, 1.0, 5.0);

        assert_eq!(Statistic::Sum.value(&set), None);
        assert_eq!(Statistic::Average.value(&set), None);
        assert_eq!(Statistic::Maximum.value(&set), Some(5.0));
    }

    #[test]
    fn percentiles_need_the_distribution() {
        let set = Summary::of_set(3.0, 9.0, 1.0, 5.0);

        assert_eq!(Statistic::Percentile(50.0).value(&set), None);
        assert_eq!(Statistic::Average.value(&set), Some(3.0));
    }
}
