//! Intervals by resampling: how sure a difference between two endpoints is.
//!
//! Samples taken one after the other are not independent, so whole blocks of them are drawn
//! anew, with replacement, and always the pair that was measured side by side.

use hdrhistogram::Histogram;

use crate::latency::counts;

/// One block on each endpoint, measured one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) a: Histogram<u64>,
    pub(crate) b: Histogram<u64>,
}

/// A difference and where it lies with 95 % confidence; `b - a`, in the histogram's unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Interval {
    pub(crate) low: f64,
    pub(crate) estimate: f64,
    pub(crate) high: f64,
}

impl Interval {
    /// Whether zero lies outside: the endpoints differ.
    pub(crate) fn is_sure(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }
}

/// 2.5 % at each end.
const TAIL: f64 = 0.025;

/// The difference of each quantile over `resamples` draws.
pub(crate) fn quantile_differences(
    blocks: &[Block],
    quantiles: &[f64],
    resamples: usize,
    seed: u64,
) -> Vec<Interval> {
    let sparse: Vec<_> = blocks.iter().map(|block| (counts(&block.a), counts(&block.b))).collect();
    let values = distinct(&sparse);
    let place = |counts: &[(u64, u64)]| -> Vec<(usize, u64)> {
        let place_of = |value: &u64| values.binary_search(value).unwrap_or(0);
        counts.iter().map(|(value, count)| (place_of(value), *count)).collect()
    };
    let placed: Vec<_> = sparse.iter().map(|(a, b)| (place(a), place(b))).collect();
    let difference = |chosen: &mut dyn Iterator<Item = usize>| -> Vec<f64> {
        let (mut a, mut b) = (vec![0; values.len()], vec![0; values.len()]);
        for (block_a, block_b) in chosen.filter_map(|index| placed.get(index)) {
            block_a.iter().for_each(|(at, count)| a[*at] += count);
            block_b.iter().for_each(|(at, count)| b[*at] += count);
        }
        quantiles.iter().map(|q| at(&values, &b, *q) - at(&values, &a, *q)).collect()
    };

    let estimates = difference(&mut (0..placed.len()));
    let mut random = fastrand::Rng::with_seed(seed);
    let drawn: Vec<Vec<f64>> = (0..resamples)
        .map(|_| difference(&mut (0..placed.len()).map(|_| random.usize(..placed.len()))))
        .collect();
    let columns = estimates.iter().enumerate();
    columns
        .map(|(column, estimate)| {
            let mut of_draws: Vec<f64> =
                drawn.iter().filter_map(|row| row.get(column).copied()).collect();
            of_draws.sort_by(f64::total_cmp);
            let rank = |share: f64| (share * of_draws.len().saturating_sub(1) as f64) as usize;
            Interval {
                low: of_draws.get(rank(TAIL)).copied().unwrap_or(*estimate),
                estimate: *estimate,
                high: of_draws.get(rank(1.0 - TAIL)).copied().unwrap_or(*estimate),
            }
        })
        .collect()
}

type Counts = Vec<(u64, u64)>;

fn distinct(blocks: &[(Counts, Counts)]) -> Vec<u64> {
    let all = blocks.iter().flat_map(|(a, b)| a.iter().chain(b));
    let mut values: Vec<u64> = all.map(|(value, _)| *value).collect();
    values.sort_unstable();
    values.dedup();
    values
}

/// The value at a quantile of a distribution given by counts; zero of none.
fn at(values: &[u64], counts: &[u64], q: f64) -> f64 {
    let total: u64 = counts.iter().sum();
    let wanted = ((q * total as f64).ceil() as u64).max(1);
    let mut seen = 0;
    for (value, count) in values.iter().zip(counts) {
        seen += count;
        if seen >= wanted {
            return *value as f64;
        }
    }
    0.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::histogram;

    /// Twenty pairs of blocks of 200 samples spread over 100 µs; `b` is slower by `shift_us`.
    fn blocks(shift_us: u64) -> Vec<Block> {
        let mut random = fastrand::Rng::with_seed(7);
        (0..20)
            .map(|_| {
                let mut block = Block { a: histogram(), b: histogram() };
                for _ in 0..200 {
                    block.a.saturating_record((500 + random.u64(..100)) * 1000);
                    block.b.saturating_record((500 + shift_us + random.u64(..100)) * 1000);
                }
                block
            })
            .collect()
    }

    #[test]
    fn a_real_difference_is_found_and_its_size_is_inside() {
        let found = quantile_differences(&blocks(30), &[0.5, 0.99], 500, 1);

        for interval in found {
            assert!(interval.is_sure(), "{interval:?}");
            assert!(interval.low <= 30_000.0 && interval.high >= 25_000.0, "{interval:?}");
        }
    }

    #[test]
    fn endpoints_that_are_alike_are_not_told_apart() {
        let found = quantile_differences(&blocks(0), &[0.5, 0.75], 500, 1);

        assert!(found.iter().all(|interval| !interval.is_sure()), "{found:?}");
    }

    #[test]
    fn the_same_seed_gives_the_same_interval() {
        let blocks = blocks(3);
        let draw = || quantile_differences(&blocks, &[0.9], 100, 42);

        assert_eq!(draw(), draw());
    }

    #[test]
    fn nothing_measured_is_no_difference() {
        let found = quantile_differences(&[], &[0.5], 10, 1);

        assert_eq!((found[0].estimate, found[0].is_sure()), (0.0, false));
    }
}
