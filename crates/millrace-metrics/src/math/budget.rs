//! How much work the expressions of one answer may make: a text of two kilobytes can ask for any.

use super::MathError;

/// Data points that expressions look at and make at most: tens of megabytes, tenths of a second.
const POINTS_MAX: usize = 5_000_000;

/// What is left of it.
#[derive(Debug)]
pub(super) struct Budget {
    left: usize,
}

impl Budget {
    pub(super) fn new() -> Budget {
        Budget { left: POINTS_MAX }
    }

    /// Takes that many data points, before they are made.
    pub(super) fn take(&mut self, points: usize) -> Result<(), MathError> {
        self.left = self.left.checked_sub(points).ok_or_else(|| {
            MathError::new(format!("the expressions take more than {POINTS_MAX} data points"))
        })?;
        Ok(())
    }
}
