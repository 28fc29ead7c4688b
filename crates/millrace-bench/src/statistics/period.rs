//! Spikes that come again every so many requests, found by autocorrelation.

/// Something recurs at every `length`-th position.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Period {
    pub(crate) length: usize,
    /// Correlation of the spikes with themselves `length` positions on, 0 to 1.
    pub(crate) strength: f64,
}

/// A spike stands out from the median by so many median deviations, and by a tenth of it.
const SPIKE_DEVIATIONS: f64 = 8.0;
const SPIKE_SHARE: f64 = 0.1;
/// Two equal spikes of three (at 1, 81 and 161) correlate with 0.67, one of a few strays with less.
const STRENGTH_MIN: f64 = 0.3;
/// One pair of spikes so far apart may be chance; position 0 is always one of them.
const PAIRS_MIN: usize = 2;
/// What comes again does so in at least so large a part of the places where it should.
const PAIRS_SHARE: f64 = 0.5;

/// The positions, from 0, whose value stands out.
fn spikes(values: &[f64]) -> Vec<usize> {
    let heights = heights(values).into_iter().enumerate();
    heights.filter(|(_, height)| *height > 0.0).map(|(at, _)| at).collect()
}

/// The period of the spikes in `values`, if they have one. Position 0 counts with the others:
/// a connection is opened there.
pub(crate) fn find_period(values: &[f64]) -> Option<Period> {
    if spikes(values).len() < 2 {
        return None;
    }
    // Heights differ by chance; that one is there is what counts.
    let heights: Vec<f64> = heights(values).iter().map(|height| height.sqrt()).collect();
    let energy: f64 = heights.iter().map(|height| height * height).sum();
    let correlation = |lag: usize| -> f64 {
        heights.iter().zip(heights.iter().skip(lag)).map(|(one, other)| one * other).sum()
    };
    let is_spike = |at: usize| heights.get(at).is_some_and(|height| *height > 0.0);
    let pairs =
        |lag: usize| (0..values.len()).filter(|at| is_spike(*at) && is_spike(at + lag)).count();
    let pairs_min = |lag: usize| {
        let places = (values.len() - 1) / lag;
        PAIRS_MIN.max((places as f64 * PAIRS_SHARE).ceil() as usize)
    };
    // What was slow for a while, such as a busy machine, is most like its neighbours.
    let of_neighbours = correlation(1) / energy;
    let best = (2..values.len())
        .filter(|length| pairs(*length) >= pairs_min(*length))
        .map(|length| Period { length, strength: correlation(length) / energy })
        .filter(|period| period.strength > of_neighbours)
        .fold(None, |best: Option<Period>, period| match best {
            Some(best) if best.strength >= period.strength => Some(best),
            _ => Some(period),
        });
    best.filter(|period| period.strength >= STRENGTH_MIN)
}

/// By how much each value stands out; zero where it does not.
fn heights(values: &[f64]) -> Vec<f64> {
    let middle = super::median(values.iter().copied());
    let deviation = super::median(values.iter().map(|value| (value - middle).abs()));
    let threshold = (deviation * SPIKE_DEVIATIONS).max(middle * SPIKE_SHARE);
    values
        .iter()
        .map(|value| value - middle)
        .map(|height| if height > threshold { height } else { 0.0 })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 180 positions around 50 with a little noise, and spikes at `at`.
    fn latencies(at: &[(usize, f64)]) -> Vec<f64> {
        let mut random = fastrand::Rng::with_seed(3);
        let mut values: Vec<f64> = (0..180).map(|_| 50.0 + random.f64() * 4.0).collect();
        at.iter().for_each(|(position, height)| values[*position] += height);
        values
    }

    #[test]
    fn a_spike_every_eighty_requests_is_a_period_of_eighty() {
        let values = latencies(&[(0, 300.0), (80, 100.0), (160, 120.0)]);

        assert_eq!(find_period(&values).unwrap().length, 80);
        assert_eq!(spikes(&values), [0, 80, 160]);
    }

    #[test]
    fn short_periods_are_not_taken_for_their_multiples() {
        let every_ten: Vec<_> = (0..18).map(|turn| (turn * 10, 80.0)).collect();

        assert_eq!(find_period(&latencies(&every_ten)).unwrap().length, 10);
    }

    #[test]
    fn level_latency_has_no_period() {
        assert_eq!(find_period(&latencies(&[])), None);
        assert_eq!(find_period(&[]), None);
        assert_eq!(find_period(&[50.0; 180]), None);
    }

    #[test]
    fn a_few_strays_are_no_period() {
        assert_eq!(find_period(&latencies(&[(0, 500.0), (61, 400.0), (150, 90.0)])), None);
    }

    #[test]
    fn a_busy_while_is_no_period() {
        let while_busy: Vec<_> = (40..48).map(|at| (at, 80.0)).collect();
        assert_eq!(find_period(&latencies(&while_busy)), None);

        let now_and_then = [0, 20, 24, 61, 65, 110, 114].map(|at| (at, 80.0));
        assert_eq!(find_period(&latencies(&now_and_then)), None);
    }

    #[test]
    fn opening_the_first_connection_alone_is_no_period() {
        assert_eq!(find_period(&latencies(&[(0, 500.0)])), None);
    }
}
