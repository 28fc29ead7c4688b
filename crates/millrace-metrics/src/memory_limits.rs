//! Limits of the memory that metrics take.

/// Bytes of a data point that is read, with its summary; distributions weigh more.
const POINT_BYTES: usize = 100;
/// Expressions hold values only: a fifth of the memory of a read holds this many for each data
/// point that may be read.
const EXPRESSION_POINTS: (usize, usize) = (5, 2);
/// With less, no answer of GetMetricStatistics would fit.
const POINTS_LEAST: usize = 10_000;
const POINTS_MOST: usize = if cfg!(test) { 20_000 } else { 2_000_000 };
/// Some 900,000 series with short names.
pub(crate) const NAME_BYTES_MOST: usize = if cfg!(test) { 2 << 20 } else { 512 << 20 };
/// A few of the largest requests.
const WAITING_BYTES_LEAST: usize = 8 << 20;
const WAITING_BYTES_MOST: usize = 64 << 20;

/// Limits of one read and of the expressions over what it finds, of names, and of what waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimits {
    /// Data points in memory at a time, by weight.
    pub(crate) points: usize,
    /// Data points that expressions make.
    pub(crate) expression_points: usize,
    /// Names of the series that the clients of one account give.
    pub(crate) name_bytes: usize,
    /// Requests of one account that wait.
    pub waiting_bytes: usize,
}

impl MemoryLimits {
    /// Limits with which a read takes at most about `bytes`, names as much, and what waits half.
    pub fn of_bytes(bytes: u64) -> MemoryLimits {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let points = (bytes / POINT_BYTES).clamp(POINTS_LEAST, POINTS_MOST);
        let (times, per) = EXPRESSION_POINTS;
        MemoryLimits {
            points,
            expression_points: points * times / per,
            name_bytes: bytes.min(NAME_BYTES_MOST),
            waiting_bytes: (bytes / 2).clamp(WAITING_BYTES_LEAST, WAITING_BYTES_MOST),
        }
    }
}

impl Default for MemoryLimits {
    fn default() -> MemoryLimits {
        let expression_points = 5_000_000;
        MemoryLimits { expression_points, ..MemoryLimits::of_bytes(u64::MAX) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_shrink_with_memory_and_leave_room_for_one_answer() {
        assert_eq!(MemoryLimits::of_bytes(u64::MAX).points, MemoryLimits::default().points);
        assert_eq!(MemoryLimits::of_bytes(0).points, POINTS_LEAST);
        let half = MemoryLimits::of_bytes(1_500_000);
        assert_eq!((half.points, half.expression_points), (15_000, 37_500));
    }
}
