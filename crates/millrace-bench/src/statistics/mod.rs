//! The arithmetic behind verdicts: medians, bootstrap intervals, periods, the scalability law.
//!
//! Pure functions of numbers. Nothing here reads a clock; what is random takes a seed.

use hdrhistogram::Histogram;

mod bootstrap;
mod period;
mod scalability;

pub(crate) use bootstrap::{Block, Interval, quantile_differences};
pub(crate) use period::{Period, find_period};
pub(crate) use scalability::{Law, fit};

/// Quantiles worth drawing and their values, up to what so many samples can tell.
pub(crate) fn curve(histogram: &Histogram<u64>) -> Vec<(f64, f64)> {
    let tenths = (0..9).map(|tenth| f64::from(tenth) / 10.0);
    let nines = (1..6).flat_map(|nines| {
        let rest = 10f64.powi(-nines);
        [1.0, 0.5, 0.2].map(|part| 1.0 - rest * part)
    });
    let last = 1.0 - 1.0 / histogram.len().max(1) as f64;
    let quantiles = tenths.chain(nines).filter(|quantile| *quantile <= last + f64::EPSILON);
    quantiles.map(|quantile| (quantile, histogram.value_at_quantile(quantile) as f64)).collect()
}

/// The least value that such a share of `sorted` does not exceed; zero of none.
pub(crate) fn quantile(sorted: &[u64], share: f64) -> u64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}

/// The middle of `values`, of an even number that of the two in the middle; zero of none.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let upper = values.len() / 2;
    let lower = values.len().saturating_sub(1) / 2;
    match (values.get(lower), values.get(upper)) {
        (Some(lower), Some(upper)) => f64::midpoint(*lower, *upper),
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_end_where_samples_do() {
        let mut histogram = crate::load::histogram();
        (1..=1000).for_each(|us| histogram.saturating_record(us * 1000));

        let curve = curve(&histogram);

        let (last, value) = curve[curve.len() - 1];
        assert!((last - 0.999).abs() < 1e-9 && (value - 999_000.0).abs() < 1000.0, "{curve:?}");
        assert!(curve.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{curve:?}");
    }

    #[test]
    fn quantiles_are_values_that_were_there() {
        let of = |share| quantile(&[1, 2, 3, 4], share);

        assert_eq!([0.0, 0.5, 0.75, 0.76, 1.0].map(of), [1, 2, 3, 4, 4]);
        assert_eq!((quantile(&[7], 0.99), quantile(&[], 0.5)), (7, 0));
    }

    #[test]
    fn medians_are_in_the_middle() {
        assert_eq!((median([3.0, 1.0, 2.0]), median([])), (2.0, 0.0));
        assert_eq!((median([4.0]), median([8.0, 1.0, 2.0, 4.0])), (4.0, 3.0));
    }
}
