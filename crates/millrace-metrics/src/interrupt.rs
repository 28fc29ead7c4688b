//! Ending a computation whose answer nobody waits for any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::StoreError;

/// A flag that long computations look at. Its clones are the same flag.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Ends the computations that look at the flag, each at its next look.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Fails once the flag is set.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        if self.is_set() { Err(StoreError::Interrupted) } else { Ok(()) }
    }
}
