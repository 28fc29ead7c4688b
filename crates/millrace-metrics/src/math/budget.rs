//! How much work the expressions of one answer may make: a text of two kilobytes can ask for any.

use super::MathError;
use crate::{Interrupt, StoreError};

/// Data points that expressions look at and make at most: tens of megabytes, tenths of a second.
const POINTS_MAX: usize = 5_000_000;

/// What is left of it.
#[derive(Debug)]
pub(super) struct Budget {
    left: usize,
    interrupt: Interrupt,
}

impl Budget {
    pub(super) fn new(interrupt: &Interrupt) -> Budget {
        Budget { left: POINTS_MAX, interrupt: interrupt.clone() }
    }

    /// Takes that many data points, before they are made. Nothing is left once it is interrupted.
    pub(super) fn take(&mut self, points: usize) -> Result<(), MathError> {
        if self.interrupt.is_set() {
            return Err(MathError::new(StoreError::Interrupted.to_string()));
        }
        self.left = self.left.checked_sub(points).ok_or_else(|| {
            MathError::new(format!("the expressions take more than {POINTS_MAX} data points"))
        })?;
        Ok(())
    }
}
