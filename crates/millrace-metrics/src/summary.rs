//! One data point: how many values there were, their sum, the smallest and the largest, and, where
//! it is known, how they were distributed.

/// Different values that a distribution holds exactly; beyond, near ones are taken together.
const EXACT_VALUES: usize = 64;
/// Different values at most; beyond, the distribution is given up.
const VALUES_MAX: usize = 4_096;
/// Values taken together differ by at most this factor.
const STEP: f64 = 1.02;
/// Of a distribution, as many take twice the memory of a data point.
const VALUES_PER_POINT: usize = 16;

/// What is known of the values of a period.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    pub count: f64,
    pub sum: f64,
    pub min: f64,
    pub max: f64,
    spread: Spread,
}

#[derive(Clone, Debug, PartialEq)]
enum Spread {
    /// All values are the smallest.
    Same,
    /// Value and how often it occurred, ascending.
    Known(Vec<(f64, f64)>),
    Unknown,
}

impl Summary {
    /// One value.
    pub fn of(value: f64) -> Summary {
        Summary { count: 1.0, sum: value, min: value, max: value, spread: Spread::Same }
    }

    /// A set of statistics; how the values were distributed is known only if all are the same.
    pub fn of_set(count: f64, sum: f64, min: f64, max: f64) -> Summary {
        let spread = if min == max { Spread::Same } else { Spread::Unknown };
        Summary { count, sum, min, max, spread }
    }

    /// Values with how often each occurred; `None` if there is none.
    pub fn of_values(values: impl IntoIterator<Item = (f64, f64)>) -> Option<Summary> {
        let mut values: Vec<(f64, f64)> = values.into_iter().filter(|(_, n)| *n > 0.0).collect();
        values.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (min, max) = (values.first()?.0, values.last()?.0);
        let count = values.iter().map(|(_, count)| count).sum();
        let sum = values.iter().map(|(value, count)| value * count).sum();
        if min == max {
            return Some(Summary { count, sum, min, max, spread: Spread::Same });
        }
        Some(Summary { count, sum, min, max, spread: bounded(joined(values)) })
    }

    pub(crate) fn with_values(mut self, values: Vec<(f64, f64)>) -> Summary {
        self.spread = Spread::Known(values);
        self
    }

    /// Adds what is known of other values.
    pub fn add(&mut self, other: &Summary) {
        let spread = match (self.values(), other.values()) {
            _ if self.min == other.min && self.max == self.min && other.max == other.min => {
                Spread::Same
            }
            (Some(mut values), Some(others)) => {
                values.extend(others);
                values.sort_by(|a, b| a.0.total_cmp(&b.0));
                bounded(joined(values))
            }
            _ => Spread::Unknown,
        };
        self.count += other.count;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.spread = spread;
    }

    /// Value and how often it occurred, ascending, if that is known; a percent or so off where
    /// there were many different values.
    pub fn values(&self) -> Option<Vec<(f64, f64)>> {
        match &self.spread {
            Spread::Same => Some(vec![(self.min, self.count)]),
            Spread::Known(values) => Some(values.clone()),
            Spread::Unknown => None,
        }
    }

    /// About how many data points without a distribution take as much memory.
    pub fn weight(&self) -> usize {
        1 + self.known_values().map_or(0, <[_]>::len) / VALUES_PER_POINT
    }

    /// As [`Summary::values`], but only where they say more than smallest and largest do.
    pub(crate) fn known_values(&self) -> Option<&[(f64, f64)]> {
        match &self.spread {
            Spread::Known(values) => Some(values),
            Spread::Same | Spread::Unknown => None,
        }
    }
}

/// Equal neighbours made one.
fn joined(values: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let mut joined: Vec<(f64, f64)> = Vec::with_capacity(values.len());
    for (value, count) in values {
        match joined.last_mut() {
            Some(last) if last.0 == value => last.1 += count,
            _ => joined.push((value, count)),
        }
    }
    joined
}

fn bounded(values: Vec<(f64, f64)>) -> Spread {
    if values.len() <= EXACT_VALUES {
        return Spread::Known(values);
    }
    let rounded = values.into_iter().map(|(value, count)| (rounded(value), count)).collect();
    let values = joined(rounded);
    if values.len() <= VALUES_MAX { Spread::Known(values) } else { Spread::Unknown }
}

/// The nearest of the values that stand for all others. Rounding twice changes nothing more.
fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    STEP.powf((value.abs().ln() / STEP.ln()).round()).copysign(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_different_values_stay_within_a_percent() {
        let mut all = Summary::of(1.0);
        for value in 2..=1_000 {
            all.add(&Summary::of(f64::from(value)));
        }

        let values = all.values().unwrap();
        let count: f64 = values.iter().map(|(_, count)| count).sum();
        assert_eq!((all.count, all.sum, all.min, all.max), (1000.0, 500_500.0, 1.0, 1000.0));
        assert_eq!(count, 1000.0);
        assert!(values.len() < 400, "{}", values.len());
        let median = values.iter().scan(0.0, |seen, (value, count)| {
            *seen += count;
            Some((*seen, *value))
        });
        let median = median.filter(|(seen, _)| *seen >= 500.0).map(|(_, value)| value).next();
        assert!((median.unwrap() - 500.0).abs() < 10.0);
    }

    #[test]
    fn values_are_known_in_their_order_whatever_came_first() {
        let mut all = Summary::of(5.0);
        for value in [1.0, 9.0, 5.0, 1.0, 5.0] {
            all.add(&Summary::of(value));
        }
        assert_eq!(all.values().unwrap(), [(1.0, 2.0), (5.0, 3.0), (9.0, 1.0)]);
        let listed = Summary::of_values([(9.0, 1.0), (1.0, 2.0), (7.0, 0.0), (5.0, 3.0)]).unwrap();
        assert_eq!((listed, Summary::of_values([(7.0, 0.0)])), (all, None));

        let mut same = Summary::of(3.0);
        same.add(&Summary::of_set(2.0, 6.0, 3.0, 3.0));
        assert_eq!(same, Summary::of_values([(3.0, 3.0)]).unwrap());
        assert_eq!(same.known_values(), None, "they take no room of their own");
        for (a, b) in [((3.0, 3.0), (3.0, 4.0)), ((3.0, 4.0), (3.0, 3.0)), ((2.0, 2.0), (3.0, 3.0))]
        {
            let of = |(min, max): (f64, f64)| Summary::of_values([(min, 1.0), (max, 1.0)]).unwrap();
            let mut both = of(a);
            both.add(&of(b));
            assert_eq!(both.values().unwrap().iter().map(|(_, n)| n).sum::<f64>(), 4.0);
            assert_eq!((both.min, both.max), (a.0.min(b.0), a.1.max(b.1)));
        }
    }

    #[test]
    fn few_values_are_known_exactly_and_too_many_not_at_all() {
        let of = |count: i32, value: fn(i32) -> f64| {
            let mut all = Summary::of(value(0));
            (1..count).for_each(|n| all.add(&Summary::of(value(n))));
            all.values()
        };
        let exact = of(64, |n| f64::from(n) + 0.5).unwrap();
        assert_eq!(exact, (0..64).map(|n| (f64::from(n) + 0.5, 1.0)).collect::<Vec<_>>());
        assert!(of(65, |n| f64::from(n) + 0.5).unwrap().len() < 65, "near ones are taken together");
        // Zero and negative values stay what they are; large ones are within a percent.
        let mixed = of(200, |n| f64::from(n - 100)).unwrap();
        assert!(mixed.contains(&(0.0, 1.0)) && mixed[0].0 < -99.0);
        let far = |value: f64| mixed.iter().all(|(known, _)| (known - value).abs() > value / 100.0);
        assert!(!(1..100).any(|n| far(f64::from(n))));

        let many = |count: u32| {
            let values = (0..count).map(|n| (STEP.powf(f64::from(n) - 2_000.0), 1.0));
            Summary::of_values(values).unwrap().values().is_some()
        };
        assert!(many(4_096) && !many(4_097));
    }

    #[test]
    fn sets_of_statistics_hide_how_values_were_distributed() {
        let mut all = Summary::of_set(3.0, 9.0, 1.0, 5.0);
        assert_eq!(all.values(), None);
        all.add(&Summary::of(2.0));
        assert_eq!(all.values(), None);
        assert_eq!(Summary::of_set(3.0, 9.0, 3.0, 3.0).values(), Some(vec![(3.0, 3.0)]));
    }
}
