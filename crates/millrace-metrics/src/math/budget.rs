//! How much work and memory the expressions of one answer may take: a text of two kilobytes can ask
//! for any.

use super::MathError;
use crate::{Interrupt, StoreError};

/// Series that searches look through at most, in data points: tenths of a second.
const LOOKED_MAX: usize = 5_000_000;

/// What is left of it.
#[derive(Debug)]
pub(super) struct Budget {
    left: usize,
    most: usize,
    left_to_look: usize,
    interrupt: Interrupt,
}

impl Budget {
    /// Allows `most` data points that expressions look at and make.
    pub(super) fn new(interrupt: &Interrupt, most: usize) -> Budget {
        Budget { left: most, most, left_to_look: LOOKED_MAX, interrupt: interrupt.clone() }
    }

    /// Takes that many data points, before they are made. Nothing is left once it is interrupted.
    pub(super) fn take(&mut self, points: usize) -> Result<(), MathError> {
        self.check()?;
        let most = self.most;
        self.left = self.left.checked_sub(points).ok_or_else(|| {
            MathError::new(format!("the expressions take more than {most} data points"))
        })?;
        Ok(())
    }

    /// Takes the time of that many data points, which are only looked at.
    pub(super) fn look(&mut self, points: usize) -> Result<(), MathError> {
        self.check()?;
        self.left_to_look = self.left_to_look.checked_sub(points).ok_or_else(|| {
            MathError::new("the searches look through more series than one request may")
        })?;
        Ok(())
    }

    fn check(&self) -> Result<(), MathError> {
        match self.interrupt.is_set() {
            true => Err(MathError::new(StoreError::Interrupted.to_string())),
            false => Ok(()),
        }
    }
}
