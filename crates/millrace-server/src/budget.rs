//! Memory for bodies that came in pieces, and for answers that were not taken, over all
//! connections: a bound on each of them alone would let many clients take all memory together.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

/// Bodies up to this size, all of one connection together, are read whatever the others hold.
const SMALL_BYTES: usize = 64 * 1024;

/// What all bodies of unanswered requests may hold, or all answers.
#[derive(Debug)]
pub(crate) struct Budget {
    limit_bytes: usize,
    held_bytes: Arc<AtomicUsize>,
}

/// What one body holds; given back when dropped.
#[derive(Debug)]
pub(crate) struct Held {
    limit_bytes: usize,
    all_bytes: Arc<AtomicUsize>,
    /// What all bodies of its connection hold.
    near_bytes: Arc<AtomicUsize>,
    own_bytes: usize,
}

/// Others hold all the memory there is.
#[derive(Debug)]
pub(crate) struct NoRoom;

impl Budget {
    pub(crate) fn new(limit_bytes: usize) -> Budget {
        Budget { limit_bytes, held_bytes: Arc::default() }
    }

    /// For a body that is all there. Small ones need no room.
    pub(crate) fn hold_whole(&self, bytes: usize) -> Result<Option<Held>, NoRoom> {
        if bytes <= SMALL_BYTES {
            return Ok(None);
        }
        let mut held = self.hold();
        if held.grow(bytes) { Ok(Some(held)) } else { Err(NoRoom) }
    }

    /// Whether a connection whose answers hold `near_bytes` may be given another.
    pub(crate) fn has_room_beside(&self, near_bytes: &AtomicUsize) -> bool {
        near_bytes.load(Relaxed) <= SMALL_BYTES || self.held_bytes.load(Relaxed) <= self.limit_bytes
    }

    /// As [`Budget::hold_whole`], beside others of its connection, which together hold
    /// `near_bytes`. Small ones that are there have room: nobody could take back what they hand
    /// out.
    pub(crate) fn hold_whole_beside(
        &self,
        near_bytes: &Arc<AtomicUsize>,
        bytes: usize,
    ) -> Result<Option<Held>, NoRoom> {
        let mut held = self.hold_beside(near_bytes);
        if held.grow(bytes) || bytes <= SMALL_BYTES { Ok(Some(held)) } else { Err(NoRoom) }
    }

    /// For the only body of its connection.
    pub(crate) fn hold(&self) -> Held {
        self.hold_beside(&Arc::default())
    }

    /// For a body beside others of its connection, which together hold `near_bytes`.
    pub(crate) fn hold_beside(&self, near_bytes: &Arc<AtomicUsize>) -> Held {
        Held {
            limit_bytes: self.limit_bytes,
            all_bytes: Arc::clone(&self.held_bytes),
            near_bytes: Arc::clone(near_bytes),
            own_bytes: 0,
        }
    }
}

impl Held {
    /// Counts more bytes. False: there is no room for them beside others; alone there always is.
    pub(crate) fn grow(&mut self, bytes: usize) -> bool {
        self.own_bytes += bytes;
        let near = self.near_bytes.fetch_add(bytes, Relaxed) + bytes;
        let all = self.all_bytes.fetch_add(bytes, Relaxed) + bytes;
        near <= SMALL_BYTES || all <= self.limit_bytes.max(self.own_bytes)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.near_bytes.fetch_sub(self.own_bytes, Relaxed);
        self.all_bytes.fetch_sub(self.own_bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_bodies_share_the_budget_and_small_ones_do_not_wait() {
        let budget = Budget::new(1_000_000);
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

    #[test]
    fn what_is_larger_than_the_budget_has_room_alone() {
        let budget = Budget::new(1_000_000);
        let lone = budget.hold_whole(1_500_000).unwrap();
        assert!(budget.hold_whole(100_000).is_err());
        drop(lone);
        let beside = budget.hold_whole(100_000).unwrap();
        assert!(budget.hold_whole(1_500_000).is_err());
        drop(beside);
        assert!(budget.hold().grow(1_500_000));
    }

    #[test]
    fn whole_bodies_hold_their_room_until_they_are_gone() {
        let budget = Budget::new(1_000_000);
        let first = budget.hold_whole(900_000).unwrap();
        assert!(budget.hold_whole(900_000).is_err());
        assert!(budget.hold_whole(SMALL_BYTES).unwrap().is_none(), "small");
        drop(first);
        assert!(budget.hold_whole(900_000).is_ok());
        assert_eq!(budget.held_bytes.load(Relaxed), 0);
    }

    #[test]
    fn many_small_bodies_of_one_connection_are_a_large_one() {
        let budget = Budget::new(1_000_000);
        let near = Arc::default();
        let mut large = budget.hold();
        assert!(large.grow(1_000_000));
        let mut streams = [0; 3].map(|_| budget.hold_beside(&near));

        let grown = streams.each_mut().map(|stream| stream.grow(SMALL_BYTES / 2));

        assert_eq!(grown, [true, true, false]);
        assert!(!budget.has_room_beside(&near));
        assert!(budget.hold_whole_beside(&near, SMALL_BYTES + 1).is_err());
        assert!(budget.hold_whole_beside(&near, SMALL_BYTES).is_ok(), "it is there");
        drop(streams);
        assert!(budget.has_room_beside(&near));
        assert_eq!(near.load(Relaxed), 0);
    }
}
