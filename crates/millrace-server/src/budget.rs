//! Memory for bodies that are still coming in, over all connections: a bound on each of them alone
//! would let many clients take all memory together.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

/// Bodies up to this size are read whatever the others hold.
const SMALL_BYTES: usize = 64 * 1024;

/// What all unfinished bodies may hold.
#[derive(Debug)]
pub(crate) struct BodyBudget {
    limit_bytes: usize,
    held_bytes: Arc<AtomicUsize>,
}

/// What one unfinished body holds; given back when dropped.
#[derive(Debug)]
pub(crate) struct Held {
    limit_bytes: usize,
    all_bytes: Arc<AtomicUsize>,
    own_bytes: usize,
}

impl BodyBudget {
    pub(crate) fn new(limit_bytes: usize) -> BodyBudget {
        BodyBudget { limit_bytes, held_bytes: Arc::default() }
    }

    pub(crate) fn hold(&self) -> Held {
        let all_bytes = Arc::clone(&self.held_bytes);
        Held { limit_bytes: self.limit_bytes, all_bytes, own_bytes: 0 }
    }
}

impl Held {
    /// Counts more bytes. False: there is no room for them.
    pub(crate) fn grow(&mut self, bytes: usize) -> bool {
        self.own_bytes += bytes;
        let before = self.all_bytes.fetch_add(bytes, Relaxed);
        self.own_bytes <= SMALL_BYTES || before + bytes <= self.limit_bytes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.all_bytes.fetch_sub(self.own_bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_bodies_share_the_budget_and_small_ones_do_not_wait() {
        let budget = BodyBudget::new(1_000_000);
        let mut large = budget.hold();
        assert!(large.grow(900_000));
        let mut second = budget.hold();
        assert!(second.grow(SMALL_BYTES), "small");
        assert!(!second.grow(100_000));
        drop(large);
        let mut third = budget.hold();
        assert!(third.grow(800_000));
        drop((second, third));
        assert_eq!(budget.held_bytes.load(Relaxed), 0);
    }
}
