//! What is asked of a data point.

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
    /// `tm90`: the mean of the lower 90 percent of the values.
    TrimmedMean(f64),
    /// `IQM`: the mean of the middle half of the values.
    InterquartileMean,
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

    /// One that needs the distribution of the values: `p0` to `p100`, `tm0` to `tm100`, `IQM`.
    pub fn extended(name: &str) -> Option<Statistic> {
        if name.eq_ignore_ascii_case("iqm") {
            return Some(Statistic::InterquartileMean);
        }
        let (make, digits): (fn(f64) -> Statistic, &str) =
            if let Some(digits) = name.strip_prefix("tm").or(name.strip_prefix("TM")) {
                (Statistic::TrimmedMean, digits)
            } else {
                (Statistic::Percentile, name.strip_prefix('p').or(name.strip_prefix('P'))?)
            };
        let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let percent: f64 = digits.parse().ok().filter(|_| is_plain)?;
        (0.0..=100.0).contains(&percent).then(|| make(percent))
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
            Statistic::TrimmedMean(percent) => {
                within(of, mean_between(&of.values()?, 0.0, percent)?)
            }
            Statistic::InterquartileMean => within(of, mean_between(&of.values()?, 25.0, 75.0)?),
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

/// The mean of the values between two percentiles; those on the border count in part.
fn mean_between(values: &[(f64, f64)], from: f64, to: f64) -> Option<f64> {
    let total: f64 = values.iter().map(|(_, count)| count).sum();
    let (from, to) = (total * from / 100.0, total * to / 100.0);
    let (mut seen, mut sum, mut weight) = (0.0_f64, 0.0, 0.0);
    for (value, count) in values {
        let inside = (seen + count).min(to) - seen.max(from);
        if inside > 0.0 {
            sum += value * inside;
            weight += inside;
        }
        seen += count;
    }
    (weight > 0.0).then(|| sum / weight).or_else(|| values.first().map(|(value, _)| *value))
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
        assert_eq!(Statistic::of_name("tm90"), Some(Statistic::TrimmedMean(90.0)));
        for name in ["", "p", "p101", "sum", "p-1", "pinf", "p1e1", "q5"] {
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
