//! How many retries all calls together may make, so that an outage is not met with many times the
//! load that caused it.

use std::sync::atomic::{AtomicU32, Ordering};

/// A retry costs as much as that many successes earn.
const COST: u32 = 10;

#[derive(Debug)]
pub(super) struct Budget {
    /// Tenths of a retry. A counter: no other memory depends on it, hence relaxed.
    tenths: AtomicU32,
    most: u32,
}

impl Budget {
    /// A full budget.
    pub(super) fn new(retries: u32) -> Budget {
        let most = retries.saturating_mul(COST);
        Budget { tenths: AtomicU32::new(most), most }
    }

    /// A call succeeded.
    pub(super) fn earn(&self) {
        // As a rule it is full, and the cache line stays shared.
        if self.tenths.load(Ordering::Relaxed) < self.most {
            let _ = self.tenths.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |tenths| {
                (tenths < self.most).then(|| tenths + 1)
            });
        }
    }

    /// Takes one retry; `false` if there is none left.
    pub(super) fn spend(&self) -> bool {
        let take = |tenths: u32| tenths.checked_sub(COST);
        self.tenths.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }
}
