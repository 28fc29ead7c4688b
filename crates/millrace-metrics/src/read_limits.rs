//! How much memory one read of metrics takes at most.

/// Bytes of a data point that is read, with its summary; distributions weigh more.
const POINT_BYTES: usize = 100;
/// Expressions hold values only: a fifth of the memory of a read holds this many for each data
/// point that may be read.
const EXPRESSION_POINTS: (usize, usize) = (5, 2);
/// With less, no answer of GetMetricStatistics would fit.
const POINTS_LEAST: usize = 10_000;
const POINTS_MOST: usize = if cfg!(test) { 20_000 } else { 2_000_000 };

/// Limits of one read, and of the expressions over what it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLimits {
    /// Data points in memory at a time, by weight.
    pub(crate) points: usize,
    /// Data points that expressions make.
    pub(crate) expression_points: usize,
}

impl ReadLimits {
    /// Limits for reads that take at most about `bytes` each.
    pub fn of_bytes(bytes: u64) -> ReadLimits {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let points = (bytes / POINT_BYTES).clamp(POINTS_LEAST, POINTS_MOST);
        let (times, per) = EXPRESSION_POINTS;
        ReadLimits { points, expression_points: points * times / per }
    }
}

impl Default for ReadLimits {
    fn default() -> ReadLimits {
        ReadLimits { points: POINTS_MOST, expression_points: 5_000_000 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_shrink_with_memory_and_leave_room_for_one_answer() {
        assert_eq!(ReadLimits::of_bytes(u64::MAX).points, ReadLimits::default().points);
        assert_eq!(ReadLimits::of_bytes(0).points, POINTS_LEAST);
        let half = ReadLimits::of_bytes(1_500_000);
        assert_eq!((half.points, half.expression_points), (15_000, 37_500));
    }
}
