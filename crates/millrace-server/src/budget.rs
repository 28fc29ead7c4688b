//! Memory for large bodies that came in pieces, and for large answers that were not taken, over all
//! connections: a bound on each of them alone would let many clients take all memory together.
//!
//! When there is no room, the tenant that holds most makes room for one that holds less: its
//! connection that progressed least recently is cut off. A tenant that itself holds most makes room
//! for its own requests where it can: connections go that have stood still or have taken long.
//! Otherwise the request is refused.
//!
//! Callers that are only claimed go first. They make room for proved callers of any tenant, as long
//! as that one holds three quarters at most, and take from proved ones that progress only what is
//! above that.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Instant,
};

use millrace_wire::Tenant;

use crate::{
    Timeouts,
    clock::{lock, millis},
    connection_memory::Share,
};

/// Bodies up to this size, all of one connection together, are read whatever the others hold.
pub(crate) const SMALL_BYTES: usize = 64 * 1024;

/// A caller that is only claimed keeps up to this while it progresses: twice the largest messages.
const CLAIMED_BYTES: usize = 2 << 20;

/// So many bytes more are progress.
const PROGRESS_BYTES: usize = 16 * 1024;

/// What all bodies of unanswered requests may hold, or all answers.
#[derive(Clone, Debug)]
pub(crate) struct Budget(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    limit_bytes: usize,
    held_bytes: AtomicUsize,
    /// Those whose connections were cut off, and which are not gone yet.
    leaving_bytes: AtomicUsize,
    began: Instant,
    /// [`Timeouts::still`] and [`Timeouts::long`].
    still_ms: u64,
    long_ms: u64,
    next: AtomicU64,
    /// Those that are large.
    holders: Mutex<BTreeMap<u64, Arc<Holder>>>,
}

/// What one body holds; given back when dropped.
#[derive(Debug)]
pub(crate) struct Held {
    budget: Arc<Inner>,
    share: Arc<Share>,
    /// What all bodies of its connection hold.
    near_bytes: Arc<AtomicUsize>,
    own_bytes: usize,
    /// The tenant of a caller that is only claimed.
    claimed: Option<Tenant>,
    /// Once it is large.
    holder: Option<Arc<Holder>>,
}

/// A large body or answer, as others see it who need room.
#[derive(Debug)]
struct Holder {
    number: u64,
    share: Arc<Share>,
    /// None, once its connection was cut off.
    bytes: AtomicUsize,
    /// What it held then.
    cut_bytes: AtomicUsize,
    tenant: Tenant,
    is_claimed: bool,
    since_ms: u64,
    progressed_ms: AtomicU64,
    since_progress_bytes: AtomicUsize,
}

/// The request that needs room.
#[derive(Debug)]
struct Asker<'a> {
    share: &'a Arc<Share>,
    tenant: Tenant,
    is_claimed: bool,
}

/// Others hold all the memory there is.
#[derive(Debug)]
pub(crate) struct NoRoom;

impl Budget {
    pub(crate) fn new(limit_bytes: usize, timeouts: &Timeouts) -> Budget {
        Budget(Arc::new(Inner {
            still_ms: millis(timeouts.still),
            long_ms: millis(timeouts.long),
            limit_bytes,
            held_bytes: AtomicUsize::new(0),
            leaving_bytes: AtomicUsize::new(0),
            began: Instant::now(),
            next: AtomicU64::new(0),
            holders: Mutex::default(),
        }))
    }

    /// For a body that is all there. Small ones need no room.
    pub(crate) fn hold_whole(
        &self,
        share: &Arc<Share>,
        bytes: usize,
    ) -> Result<Option<Held>, NoRoom> {
        if bytes <= SMALL_BYTES {
            return Ok(None);
        }
        let mut held = self.hold(share);
        if held.grow(bytes) { Ok(Some(held)) } else { Err(NoRoom) }
    }

    /// Whether a connection whose answers hold `near_bytes` may be given another.
    pub(crate) fn has_room_beside(&self, share: &Arc<Share>, near_bytes: &AtomicUsize) -> bool {
        let budget = &*self.0;
        let is_full = || budget.held_bytes.load(Relaxed) > budget.limit_bytes;
        near_bytes.load(Relaxed) <= SMALL_BYTES
            || budget
                .make_room(&Asker { share, tenant: share.tenant(), is_claimed: false }, is_full)
    }

    /// As [`Budget::hold_whole`], beside others of its connection, which together hold
    /// `near_bytes`. Small ones that are there have room: nobody could take back what they hand
    /// out.
    pub(crate) fn hold_whole_beside(
        &self,
        share: &Arc<Share>,
        near_bytes: &Arc<AtomicUsize>,
        bytes: usize,
    ) -> Result<Option<Held>, NoRoom> {
        let mut held = self.hold_beside(share, near_bytes);
        if held.grow(bytes) || bytes <= SMALL_BYTES { Ok(Some(held)) } else { Err(NoRoom) }
    }

    /// For the only body of its connection.
    pub(crate) fn hold(&self, share: &Arc<Share>) -> Held {
        self.hold_beside(share, &Arc::default())
    }

    /// For a body beside others of its connection, which together hold `near_bytes`.
    pub(crate) fn hold_beside(&self, share: &Arc<Share>, near_bytes: &Arc<AtomicUsize>) -> Held {
        Held {
            budget: Arc::clone(&self.0),
            share: Arc::clone(share),
            near_bytes: Arc::clone(near_bytes),
            own_bytes: 0,
            claimed: None,
            holder: None,
        }
    }
}

impl Inner {
    fn now_ms(&self) -> u64 {
        millis(self.began.elapsed())
    }

    fn is_slow(&self, holder: &Holder) -> bool {
        let now_ms = self.now_ms();
        now_ms.saturating_sub(holder.progressed_ms.load(Relaxed)) >= self.still_ms
            || now_ms.saturating_sub(holder.since_ms) >= self.long_ms
    }

    /// Cuts off holders until it is not full. False if it is still full.
    fn make_room(&self, asker: &Asker<'_>, is_full: impl Fn() -> bool) -> bool {
        while is_full() {
            if self.leaving_bytes.load(Relaxed) > self.limit_bytes / 2 {
                return false;
            }
            let mut holders = lock(&self.holders);
            let next = self.next_to_go(&holders, asker);
            let Some(holder) = next.and_then(|number| holders.remove(&number)) else {
                return false;
            };
            let bytes = self.uncount(&holder);
            holder.cut_bytes.fetch_add(bytes, Relaxed);
            self.leaving_bytes.fetch_add(bytes, Relaxed);
            drop(holders);
            tracing::debug!("connection cut off: others need the memory of its body or answer");
            holder.share.cut();
        }
        true
    }

    /// The holder that makes room: never of the connection that asks.
    fn next_to_go(&self, holders: &BTreeMap<u64, Arc<Holder>>, asker: &Asker<'_>) -> Option<u64> {
        let mut of_tenants = HashMap::<Tenant, usize>::new();
        for holder in holders.values() {
            *of_tenants.entry(holder.tenant).or_default() += holder.bytes.load(Relaxed);
        }
        let own_bytes = of_tenants.remove(&asker.tenant).unwrap_or_default();
        let largest = of_tenants.into_iter().max_by_key(|(_, bytes)| *bytes);
        let other = largest.filter(|(_, bytes)| *bytes > own_bytes);
        // Proved callers of a tenant may take three quarters from claimed ones, and claimed callers
        // the rest from them.
        let guarded_bytes = self.limit_bytes / 4 * 3;
        let takes_from_claimed = !asker.is_claimed && own_bytes <= guarded_bytes;
        let is_over = other.is_some_and(|(_, bytes)| bytes > guarded_bytes);
        let may_go = |holder: &Holder| {
            let (is_own, is_slow) = (holder.tenant == asker.tenant, self.is_slow(holder));
            if takes_from_claimed && holder.is_claimed {
                return true;
            }
            match other {
                Some((other, _)) if holder.tenant == other => {
                    !asker.is_claimed || holder.is_claimed || is_slow || is_over
                }
                Some(_) => false,
                None => {
                    let is_huge = holder.bytes.load(Relaxed) > CLAIMED_BYTES;
                    let makes_way = holder.is_claimed && (!asker.is_claimed || is_huge);
                    is_own && (makes_way || is_slow)
                }
            }
        };
        let others = holders.values().filter(|holder| !Arc::ptr_eq(&holder.share, asker.share));
        others
            .filter(|holder| may_go(holder))
            .min_by_key(|holder| (!holder.is_claimed, holder.progressed_ms.load(Relaxed)))
            .map(|holder| holder.number)
    }

    fn uncount(&self, holder: &Holder) -> usize {
        let bytes = holder.bytes.swap(0, Relaxed);
        self.held_bytes.fetch_sub(bytes, Relaxed);
        bytes
    }
}

impl Held {
    /// The caller is only claimed to be of that tenant. To be said before it is large.
    pub(crate) fn set_claimed(&mut self, tenant: Tenant) {
        self.claimed = Some(tenant);
    }

    /// Counts more bytes. False: there is no room for them beside others; alone there always is.
    pub(crate) fn grow(&mut self, bytes: usize) -> bool {
        let budget = &*self.budget;
        self.own_bytes += bytes;
        let near = self.near_bytes.fetch_add(bytes, Relaxed) + bytes;
        // The sums first: whoever cuts the connection off takes from them what the holder has.
        budget.held_bytes.fetch_add(bytes, Relaxed);
        if let Some(holder) = &self.holder {
            holder.bytes.fetch_add(bytes, Relaxed);
            holder.progressed(bytes, budget);
        }
        if near <= SMALL_BYTES {
            return true;
        }
        if self.holder.is_none() {
            self.holder = Some(self.listed());
        }
        let limit_bytes = budget.limit_bytes.max(self.own_bytes);
        let is_full = || budget.held_bytes.load(Relaxed) > limit_bytes;
        let (share, tenant) = (&self.share, self.tenant());
        let asker = Asker { share, tenant, is_claimed: self.claimed.is_some() };
        budget.make_room(&asker, is_full) && !self.share.is_cut()
    }

    /// The client has taken so much of the answer.
    pub(crate) fn taken(&self, bytes: usize) {
        if let Some(holder) = &self.holder {
            holder.progressed(bytes, &self.budget);
        }
    }

    fn tenant(&self) -> Tenant {
        self.claimed.unwrap_or_else(|| self.share.tenant())
    }

    fn listed(&self) -> Arc<Holder> {
        let budget = &*self.budget;
        let now_ms = budget.now_ms();
        let holder = Arc::new(Holder {
            number: budget.next.fetch_add(1, Relaxed),
            share: Arc::clone(&self.share),
            bytes: AtomicUsize::new(self.own_bytes),
            cut_bytes: AtomicUsize::new(0),
            tenant: self.tenant(),
            is_claimed: self.claimed.is_some(),
            since_ms: now_ms,
            progressed_ms: AtomicU64::new(now_ms),
            since_progress_bytes: AtomicUsize::new(0),
        });
        lock(&budget.holders).insert(holder.number, Arc::clone(&holder));
        holder
    }
}

impl Holder {
    fn progressed(&self, bytes: usize, budget: &Inner) {
        if self.since_progress_bytes.fetch_add(bytes, Relaxed) + bytes >= PROGRESS_BYTES {
            self.since_progress_bytes.store(0, Relaxed);
            self.progressed_ms.store(budget.now_ms(), Relaxed);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.near_bytes.fetch_sub(self.own_bytes, Relaxed);
        let budget = &*self.budget;
        match self.holder.take() {
            Some(holder) => {
                // Held to the end: meanwhile nobody cuts it off.
                let mut holders = lock(&budget.holders);
                holders.remove(&holder.number);
                budget.uncount(&holder);
                budget.leaving_bytes.fetch_sub(holder.cut_bytes.swap(0, Relaxed), Relaxed);
            }
            None => {
                budget.held_bytes.fetch_sub(self.own_bytes, Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::connection_memory::ConnectionMemory;

    fn share() -> Arc<Share> {
        ConnectionMemory::new(usize::MAX / 8, usize::MAX).admit(1).unwrap()
    }

    fn held_bytes(budget: &Budget) -> usize {
        budget.0.held_bytes.load(Relaxed)
    }

    const HOUR: Duration = Duration::from_secs(3600);

    /// Began long ago. Nothing stands still or takes long in it, however slow the machine is.
    fn budget(limit_bytes: usize) -> Budget {
        let timeouts = Timeouts { still: HOUR, long: 100 * HOUR, ..Timeouts::default() };
        let mut budget = Budget::new(limit_bytes, &timeouts);
        Arc::get_mut(&mut budget.0).unwrap().began -= 2 * HOUR;
        budget
    }

    /// As after a time in which it has made no progress.
    fn stand_still(held: &Held) {
        held.holder.as_ref().unwrap().progressed_ms.store(0, Relaxed);
    }

    #[test]
    fn large_bodies_share_the_budget_and_small_ones_do_not_wait() {
        let budget = budget(1_000_000);
        let mut large = budget.hold(&share());
        assert!(large.grow(900_000));
        let mut second = budget.hold(&share());
        assert!(second.grow(SMALL_BYTES), "small");
        assert!(!second.grow(100_000));
        drop(large);
        let mut third = budget.hold(&share());
        assert!(third.grow(800_000));
        drop((second, third));
        assert_eq!(held_bytes(&budget), 0);
    }

    #[test]
    fn what_is_larger_than_the_budget_has_room_alone() {
        let budget = budget(1_000_000);
        let lone = budget.hold_whole(&share(), 1_500_000).unwrap();
        assert!(budget.hold_whole(&share(), 100_000).is_err());
        drop(lone);
        let beside = budget.hold_whole(&share(), 100_000).unwrap();
        assert!(budget.hold_whole(&share(), 1_500_000).is_err());
        drop(beside);
        assert!(budget.hold(&share()).grow(1_500_000));
    }

    #[test]
    fn whole_bodies_hold_their_room_until_they_are_gone() {
        let budget = budget(1_000_000);
        let first = budget.hold_whole(&share(), 900_000).unwrap();
        assert!(budget.hold_whole(&share(), 900_000).is_err());
        assert!(budget.hold_whole(&share(), SMALL_BYTES).unwrap().is_none(), "small");
        drop(first);
        assert!(budget.hold_whole(&share(), 900_000).is_ok());
        assert_eq!(held_bytes(&budget), 0);
    }

    #[test]
    fn many_small_bodies_of_one_connection_are_a_large_one() {
        let budget = budget(1_000_000);
        let (near, share) = (Arc::default(), share());
        let mut large = budget.hold(&self::share());
        assert!(large.grow(1_000_000));
        let mut streams = [0; 3].map(|_| budget.hold_beside(&share, &near));

        let grown = streams.each_mut().map(|stream| stream.grow(SMALL_BYTES / 2));

        assert_eq!(grown, [true, true, false]);
        assert!(!budget.has_room_beside(&share, &near));
        assert!(budget.hold_whole_beside(&share, &near, SMALL_BYTES + 1).is_err());
        assert!(budget.hold_whole_beside(&share, &near, SMALL_BYTES).is_ok(), "it is there");
        drop(streams);
        assert!(budget.has_room_beside(&share, &near));
        assert_eq!(near.load(Relaxed), 0);
    }

    #[test]
    fn what_stands_still_makes_room_and_what_goes_on_does_not() {
        let budget = budget(1_000_000);
        let [stands, goes_on, asks] = [(); 3].map(|()| share());
        let mut still = budget.hold(&stands);
        let mut going = budget.hold(&goes_on);
        assert!(still.grow(400_000) && going.grow(400_000));
        stand_still(&still);
        going.taken(PROGRESS_BYTES);

        let mut newcomer = budget.hold(&asks);
        let has_room = newcomer.grow(400_000);

        assert!(has_room);
        assert_eq!([&stands, &goes_on, &asks].map(|share| share.is_cut()), [true, false, false]);
        assert!(!still.grow(1), "it is cut off");
        drop((still, going, newcomer));
        assert_eq!(held_bytes(&budget), 0);
    }

    #[test]
    fn callers_that_are_only_claimed_make_room_for_proved_ones_but_not_for_one_another() {
        let budget = budget(1_000_000);
        let shares = [(); 4].map(|()| share());
        let mut held = shares.each_ref().map(|share| budget.hold(share));
        held[..3].iter_mut().for_each(|held| held.set_claimed(Tenant::EVERYBODY));
        let are_cut = || shares.each_ref().map(|share| share.is_cut());

        assert!(held[0].grow(500_000) && held[1].grow(450_000));
        assert!(!held[2].grow(300_000), "the others progress");
        held[2] = budget.hold(&shares[2]);
        assert_eq!(are_cut(), [false; 4]);
        assert!(held[3].grow(900_000));

        assert_eq!(are_cut(), [true, true, false, false]);
        drop(held);
        assert_eq!(held_bytes(&budget), 0);
    }

    #[test]
    fn the_tenant_that_holds_most_makes_room_for_one_that_holds_less() {
        let budget = budget(1_000_000);
        let memory = ConnectionMemory::new(usize::MAX / 8, usize::MAX);
        let shares = [1, 1, 1, 2, 2].map(|tenant| {
            let share = memory.admit(1).unwrap();
            share.let_in(Tenant(tenant));
            share
        });
        let mut held = shares.each_ref().map(|share| budget.hold(share));
        let are_cut = || shares.each_ref().map(|share| share.is_cut());

        assert!(held[0].grow(450_000) && held[1].grow(450_000));
        assert!(!held[2].grow(200_000), "its own tenant holds all, and progresses");
        held[2] = budget.hold(&shares[2]);
        assert_eq!(are_cut(), [false; 5]);
        held[0].taken(PROGRESS_BYTES);
        assert!(held[3].grow(400_000));
        let one_of_the_first = are_cut();
        assert_eq!(one_of_the_first.iter().filter(|is_cut| **is_cut).count(), 1);
        assert!(one_of_the_first[0] || one_of_the_first[1]);
        assert!(!held[4].grow(200_000), "by now its tenant would hold most");
        assert_eq!(are_cut(), one_of_the_first);
        drop(held);
        assert_eq!(held_bytes(&budget), 0);
    }
}
