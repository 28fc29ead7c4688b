//! Memory of connections: what each costs by being there, its head, its streams, small bodies and
//! small answers. Large ones have budgets of their own (`budget`).
//!
//! A connection is a stranger's until the service has let its caller in. Strangers together have at
//! most half; when they hold more, or all connections together hold more than there is, a stranger
//! is cut off: first the oldest of those that have sent much, then the oldest that has not, and last
//! those that have sent a head with a known key. The latest connections that have not sent much are
//! spared while one with a known key can go. So a new connection always gets in, and has time to
//! prove its caller.
//!
//! Connections that were let in are never cut off for others. They have at most three quarters, and
//! a tenth more of which no tenant gets all: beyond, additional memory is refused. The same holds
//! for their number: where there are as many connections as may be, a stranger goes for a new one,
//! and a tenant that has its share gets no further connection let in.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
};

use millrace_core::may_take;
use millrace_wire::Tenant;

use crate::clock::{Alarm, lock};

/// Number of latest connections that are spared if another stranger can go: they have had no time
/// yet to send a head.
const NEWCOMERS: u64 = 16;

/// A stranger that has sent more than this has sent much.
const MUCH_BYTES: usize = 32 * 1024;

/// Memory of the connections of one server.
#[derive(Debug)]
pub(crate) struct ConnectionMemory {
    limit_bytes: usize,
    held_bytes: AtomicUsize,
    /// Those of strangers among them.
    strange_bytes: AtomicUsize,
    /// Those of connections that were cut off, and whose tasks have not ended yet.
    leaving_bytes: AtomicUsize,
    next: AtomicU64,
    strangers: Mutex<Strangers>,
    /// What connections that were let in hold, by tenant.
    tenants: Mutex<HashMap<Tenant, Arc<Held>>>,
    max_connections: usize,
    /// Connections that were let in.
    known_connections: AtomicUsize,
}

/// What the connections of a tenant that were let in hold.
#[derive(Debug, Default)]
struct Held {
    bytes: AtomicUsize,
    connections: AtomicUsize,
}

/// In the order in which they are cut off: by rank, then by the order in which they came.
type Strangers = BTreeMap<(Rank, u64), Arc<Share>>;

/// How soon a stranger is cut off when others need room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    SentMuch,
    SentLittle,
    /// It has sent a head that names a known key.
    Claimed,
}

/// What one connection holds of it. Its own thread grows and shrinks it, any thread may cut it off.
#[derive(Debug)]
pub(crate) struct Share {
    memory: Arc<ConnectionMemory>,
    number: u64,
    bytes: AtomicUsize,
    /// What it holds without having sent anything.
    base_bytes: AtomicUsize,
    is_stranger: AtomicBool,
    /// Changed with the strangers locked.
    has_sent_much: AtomicBool,
    is_claimed: AtomicBool,
    /// The tenant that was let in, and what all its connections hold.
    tenant: OnceLock<(Tenant, Arc<Held>)>,
    /// It counts as one that was let in.
    counts: AtomicBool,
    is_cut: AtomicBool,
    /// What it held when it was cut off.
    cut_bytes: AtomicUsize,
    /// Wakes the connection's task, wherever it runs.
    alarm: Mutex<Option<Alarm>>,
}

/// A part of a share; given back when dropped.
#[derive(Debug)]
pub(crate) struct Part {
    share: Arc<Share>,
    bytes: usize,
}

impl ConnectionMemory {
    pub(crate) fn new(limit_bytes: usize, max_connections: usize) -> Arc<ConnectionMemory> {
        Arc::new(ConnectionMemory {
            limit_bytes,
            held_bytes: AtomicUsize::new(0),
            strange_bytes: AtomicUsize::new(0),
            leaving_bytes: AtomicUsize::new(0),
            next: AtomicU64::new(0),
            strangers: Mutex::default(),
            tenants: Mutex::default(),
            max_connections,
            known_connections: AtomicUsize::new(0),
        })
    }

    /// The share of a connection that has just come. None: those that were let in hold all that
    /// they may, and there is no stranger to make room.
    pub(crate) fn admit(self: &Arc<ConnectionMemory>, bytes: usize) -> Option<Arc<Share>> {
        let share = Arc::new(Share {
            memory: Arc::clone(self),
            number: self.next.fetch_add(1, Relaxed),
            bytes: AtomicUsize::new(0),
            base_bytes: AtomicUsize::new(bytes),
            is_stranger: AtomicBool::new(true),
            has_sent_much: AtomicBool::new(false),
            is_claimed: AtomicBool::new(false),
            tenant: OnceLock::new(),
            counts: AtomicBool::new(false),
            is_cut: AtomicBool::new(false),
            cut_bytes: AtomicUsize::new(0),
            alarm: Mutex::default(),
        });
        lock(&self.strangers).insert(share.place(), Arc::clone(&share));
        if share.grow(bytes) {
            return Some(share);
        }
        share.leave();
        None
    }

    fn has_room_for_known(&self, bytes: usize, of_tenant: &AtomicUsize) -> bool {
        let known = self.held_bytes.load(Relaxed).saturating_sub(self.strange_bytes.load(Relaxed));
        // The last byte is the part that is asked for.
        let before_last = bytes.saturating_sub(1);
        let of_tenant = of_tenant.load(Relaxed) + before_last;
        may_take(of_tenant, known + before_last, self.limit_bytes / 4 * 3)
    }

    /// Where callers are not told apart, nobody has to be left room.
    fn has_room_for_one_more_of(&self, (tenant, held): &(Tenant, Arc<Held>)) -> bool {
        if *tenant == Tenant::EVERYBODY {
            return true;
        }
        let connections = self.known_connections.load(Relaxed);
        let most = self.max_connections - self.max_connections / 4;
        may_take(held.connections.load(Relaxed), connections, most)
    }

    /// Cuts off the stranger that is the first to go; false if there is none.
    pub(crate) fn cut_a_stranger(&self) -> bool {
        self.take_first().inspect(|stranger| stranger.cut()).is_some()
    }

    /// Takes out the stranger that is the first to go.
    fn take_first(&self) -> Option<Arc<Share>> {
        let mut strangers = lock(&self.strangers);
        let (&first, _) = strangers.first_key_value()?;
        let (rank, number) = first;
        let is_newcomer =
            rank == Rank::SentLittle && number.saturating_add(NEWCOMERS) >= self.next.load(Relaxed);
        let claimed = strangers.range((Rank::Claimed, 0)..).next().map(|(place, _)| *place);
        let place = claimed.filter(|_| is_newcomer).unwrap_or(first);
        strangers.remove(&place)
    }

    fn held_by(&self, tenant: Tenant) -> Arc<Held> {
        Arc::clone(lock(&self.tenants).entry(tenant).or_default())
    }

    fn is_crowded(&self) -> bool {
        self.strange_bytes.load(Relaxed) > self.limit_bytes / 2
            || self.held_bytes.load(Relaxed) > self.limit_bytes
    }

    /// Cuts off strangers until the others have room.
    fn make_room(&self) {
        while self.is_crowded() {
            let Some(first) = self.take_first() else { return };
            first.cut();
        }
    }
}

impl Share {
    /// Counts more bytes. False: there is no room for them, and they are not counted.
    pub(crate) fn grow(&self, bytes: usize) -> bool {
        if self.is_cut() {
            return false;
        }
        let memory = &*self.memory;
        let of_tenant = self.bytes_of_tenant();
        if of_tenant.is_some_and(|of_tenant| !memory.has_room_for_known(bytes, of_tenant)) {
            return false;
        }
        // The sums first: whoever cuts the connection off meanwhile takes from them what is here.
        memory.held_bytes.fetch_add(bytes, Relaxed);
        match of_tenant {
            None => memory.strange_bytes.fetch_add(bytes, Relaxed),
            Some(of_tenant) => of_tenant.fetch_add(bytes, Relaxed),
        };
        let held_bytes = self.bytes.fetch_add(bytes, Relaxed) + bytes;
        if of_tenant.is_none() && held_bytes > self.base_bytes.load(Relaxed) + MUCH_BYTES {
            self.set_rank(&self.has_sent_much);
        }
        memory.make_room();
        if self.is_cut() {
            self.uncount_all(|_| {});
            return false;
        }
        true
    }

    pub(crate) fn shrink(&self, bytes: usize) {
        // One that was cut off counts for nothing from then on.
        let taken =
            self.bytes.fetch_update(Relaxed, Relaxed, |held| Some(held.saturating_sub(bytes)));
        self.uncount(taken.unwrap_or(0).min(bytes));
    }

    /// The same as a part that is given back by itself.
    pub(crate) fn part(self: &Arc<Share>, bytes: usize) -> Option<Part> {
        self.grow(bytes).then(|| Part { share: Arc::clone(self), bytes })
    }

    /// The service has let the caller in. If its tenant holds all it may, the connection stays a
    /// stranger's, and goes on.
    pub(crate) fn let_in(&self, tenant: Tenant) {
        if !self.is_stranger() {
            return;
        }
        let memory = &*self.memory;
        let tenant = self.tenant.get_or_init(|| (tenant, memory.held_by(tenant)));
        let of_tenant = &tenant.1;
        let mut strangers = lock(&memory.strangers);
        let bytes = self.bytes.load(Relaxed);
        // If it is there no more, it was cut off.
        if memory.has_room_for_known(bytes, &of_tenant.bytes)
            && memory.has_room_for_one_more_of(tenant)
            && strangers.remove(&self.place()).is_some()
        {
            of_tenant.bytes.fetch_add(bytes, Relaxed);
            of_tenant.connections.fetch_add(1, Relaxed);
            memory.known_connections.fetch_add(1, Relaxed);
            self.counts.store(true, Relaxed);
            self.is_stranger.store(false, Relaxed);
            memory.strange_bytes.fetch_sub(bytes, Relaxed);
        }
    }

    /// The head that it has sent names a known key.
    pub(crate) fn set_claimed(&self) {
        self.set_rank(&self.is_claimed);
    }

    /// What it holds by now is there whatever the client sends.
    pub(crate) fn set_base(&self) {
        self.base_bytes.store(self.bytes.load(Relaxed), Relaxed);
    }

    /// Sets what its rank depends on, and moves it to its new place.
    fn set_rank(&self, flag: &AtomicBool) {
        if flag.load(Relaxed) {
            return;
        }
        let mut strangers = lock(&self.memory.strangers);
        let share = strangers.remove(&self.place());
        flag.store(true, Relaxed);
        strangers.extend(share.map(|share| (self.place(), share)));
    }

    fn place(&self) -> (Rank, u64) {
        let rank = match (self.is_claimed.load(Relaxed), self.has_sent_much.load(Relaxed)) {
            (true, _) => Rank::Claimed,
            (false, true) => Rank::SentMuch,
            (false, false) => Rank::SentLittle,
        };
        (rank, self.number)
    }

    /// The tenant that was let in.
    pub(crate) fn tenant(&self) -> Tenant {
        self.tenant.get().map_or(Tenant::EVERYBODY, |(tenant, _)| *tenant)
    }

    /// What all connections of its tenant hold; none for strangers.
    fn bytes_of_tenant(&self) -> Option<&AtomicUsize> {
        let (_, held) = self.tenant.get().filter(|_| !self.is_stranger())?;
        Some(&held.bytes)
    }

    pub(crate) fn is_stranger(&self) -> bool {
        self.is_stranger.load(Relaxed)
    }

    /// Whether others needed the room.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut.load(Relaxed)
    }

    /// Ends the connection: others need the room.
    pub(crate) fn cut(&self) {
        self.is_cut.store(true, Relaxed);
        self.uncount_all(|bytes| {
            self.cut_bytes.fetch_add(bytes, Relaxed);
            self.memory.leaving_bytes.fetch_add(bytes, Relaxed);
        });
        if let Some(alarm) = lock(&self.alarm).as_ref() {
            alarm.wake();
        }
    }

    /// Says whom to wake from now on.
    pub(crate) fn set_alarm(&self, alarm: Alarm) {
        *lock(&self.alarm) = Some(alarm);
    }

    /// The connection is closed.
    pub(crate) fn leave(&self) {
        self.uncount_all(|_| {
            self.memory.leaving_bytes.fetch_sub(self.cut_bytes.swap(0, Relaxed), Relaxed);
        });
    }

    /// Whether the connection is not to be read for now: it is a stranger's, and others that were
    /// cut off for it have not given back their memory yet.
    pub(crate) fn is_held_back(&self) -> bool {
        let leaving_bytes = self.memory.leaving_bytes.load(Relaxed);
        leaving_bytes > 0
            && self.is_stranger()
            && !self.is_cut()
            && leaving_bytes + self.memory.held_bytes.load(Relaxed) > self.memory.limit_bytes
    }

    /// `then` is called with how many there were.
    fn uncount_all(&self, then: impl FnOnce(usize)) {
        // Held to the end: meanwhile the connection is not let in, and does not leave.
        let mut strangers = lock(&self.memory.strangers);
        strangers.remove(&self.place());
        let bytes = self.bytes.swap(0, Relaxed);
        self.uncount(bytes);
        if self.counts.swap(false, Relaxed)
            && let Some((_, held)) = self.tenant.get()
        {
            held.connections.fetch_sub(1, Relaxed);
            self.memory.known_connections.fetch_sub(1, Relaxed);
        }
        then(bytes);
    }

    fn uncount(&self, bytes: usize) {
        self.memory.held_bytes.fetch_sub(bytes, Relaxed);
        match self.bytes_of_tenant() {
            None => self.memory.strange_bytes.fetch_sub(bytes, Relaxed),
            Some(of_tenant) => of_tenant.fetch_sub(bytes, Relaxed),
        };
    }
}

impl Part {
    /// False: there is no room for so much more.
    pub(crate) fn grow(&mut self, bytes: usize) -> bool {
        let has_room = self.share.grow(bytes);
        if has_room {
            self.bytes += bytes;
        }
        has_room
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.share.shrink(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_have_half_and_the_oldest_makes_room() {
        let memory = ConnectionMemory::new(1000, usize::MAX);
        let [first, second] = [(); 2].map(|()| memory.admit(200).unwrap());
        assert!(second.grow(100));

        let third = memory.admit(200).unwrap();

        assert_eq!([&first, &second, &third].map(|share| share.is_cut()), [true, false, false]);
        assert!(!first.grow(1));
        assert!(!third.grow(600), "more than all strangers may have");
        assert!(second.is_cut() && third.is_cut());
        for share in [first, second, third] {
            share.leave();
        }
        assert_eq!(memory.held_bytes.load(Relaxed), 0);
        assert_eq!(memory.strange_bytes.load(Relaxed), 0);
        assert_eq!(memory.leaving_bytes.load(Relaxed), 0);
        assert!(lock(&memory.strangers).is_empty());
    }

    #[test]
    fn those_that_were_let_in_stay_and_are_refused_more_than_they_may_have() {
        let memory = ConnectionMemory::new(1000, usize::MAX);
        let let_in = |_| {
            let share = memory.admit(100).unwrap();
            share.let_in(Tenant::EVERYBODY);
            share
        };
        let known: Vec<_> = (0..7).map(let_in).collect();

        assert!(!known[0].grow(100));
        assert!(known[0].grow(50));
        let part = memory.admit(200).unwrap();
        part.let_in(Tenant::EVERYBODY);
        assert!(part.is_stranger(), "it goes on as one");
        let newest = memory.admit(200).unwrap();

        assert!(part.is_cut() && !newest.is_cut());
        assert!(known.iter().all(|share| !share.is_cut()));
    }

    #[test]
    fn strangers_are_held_back_until_those_that_were_cut_off_have_left() {
        let memory = ConnectionMemory::new(1000, usize::MAX);
        let known = memory.admit(400).unwrap();
        known.let_in(Tenant::EVERYBODY);
        let old = memory.admit(400).unwrap();

        let young = memory.admit(300).unwrap();
        let are_held_back = || [&known, &old, &young].map(|share| share.is_held_back());

        assert!(old.is_cut());
        assert_eq!(are_held_back(), [false, false, true]);
        old.leave();
        assert_eq!(are_held_back(), [false; 3]);
    }

    #[test]
    fn strangers_that_have_sent_much_go_first_and_those_with_a_known_key_last() {
        let memory = ConnectionMemory::new(6 * MUCH_BYTES, usize::MAX);
        let [claimed, little, much] = [(); 3].map(|()| memory.admit(100).unwrap());
        claimed.set_claimed();
        memory.next.store(100, Relaxed);
        assert!(claimed.grow(MUCH_BYTES) && much.grow(MUCH_BYTES + 1));
        let are_cut = || [&claimed, &little, &much].map(|share| share.is_cut());

        assert!(little.grow(MUCH_BYTES));
        assert_eq!(are_cut(), [false, false, true]);
        let next = memory.admit(MUCH_BYTES).unwrap();
        assert_eq!(are_cut(), [false, true, true]);

        memory.next.store(200, Relaxed);
        let based = memory.admit(100).unwrap();
        assert!(based.grow(MUCH_BYTES / 2));
        based.set_base();
        assert!(based.grow(MUCH_BYTES), "what it holds from the start is not sent");
        assert!(next.is_cut() && !claimed.is_cut());
        for share in [claimed, little, much, next, based] {
            share.leave();
        }
        assert!(lock(&memory.strangers).is_empty());
        assert_eq!(memory.held_bytes.load(Relaxed), 0);
    }

    #[test]
    fn a_newcomer_is_spared_where_one_with_a_known_key_can_go() {
        let memory = ConnectionMemory::new(1_000, usize::MAX);
        let claimed = [(); 5].map(|()| {
            let share = memory.admit(100).unwrap();
            share.set_claimed();
            share
        });

        let newcomer = memory.admit(100).unwrap();

        assert!(!newcomer.is_cut() && claimed[0].is_cut() && !claimed[1].is_cut());
        memory.next.store(100, Relaxed);
        assert!(claimed[1].grow(100));
        assert!(newcomer.is_cut(), "it had its time");
    }

    #[test]
    fn a_tenant_leaves_room_for_the_next() {
        let memory = ConnectionMemory::new(100_000, usize::MAX);
        let let_in = |tenant| {
            let share = memory.admit(1_000).unwrap();
            share.let_in(Tenant(tenant));
            share
        };
        let first: Vec<_> = (0..80).map(|_| let_in(1)).collect();
        let known = first.iter().filter(|share| !share.is_stranger()).count();
        assert_eq!(known, 75);

        let second = let_in(2);

        assert!(!second.is_stranger());
        assert!(second.grow(1_000));
        assert!(!first[0].grow(1));
        for share in first.iter().chain([&second]) {
            share.leave();
        }
        let bytes = |tenant| memory.held_by(Tenant(tenant)).bytes.load(Relaxed);
        assert_eq!([bytes(1), bytes(2)], [0, 0]);
    }

    #[test]
    fn a_tenant_gets_three_quarters_of_all_connections_let_in_and_leaves_some_for_the_next() {
        let memory = ConnectionMemory::new(1_000_000, 40);
        let let_in = |tenant| {
            let share = memory.admit(1).unwrap();
            share.let_in(Tenant(tenant));
            share
        };
        let first: Vec<_> = (0..40).map(|_| let_in(1)).collect();
        assert_eq!(first.iter().filter(|share| share.is_stranger()).count(), 10);

        assert!(memory.cut_a_stranger(), "for a new one");
        let second = let_in(2);

        assert!(!second.is_stranger() && first[30].is_cut());
        for share in first.iter().chain([&second]) {
            share.leave();
        }
        assert!(!memory.cut_a_stranger());
        assert_eq!(memory.known_connections.load(Relaxed), 0);
        assert_eq!(memory.held_by(Tenant(1)).connections.load(Relaxed), 0);
    }

    #[test]
    fn parts_are_given_back() {
        let memory = ConnectionMemory::new(1000, usize::MAX);
        let share = memory.admit(100).unwrap();
        let part = share.part(300).unwrap();
        share.let_in(Tenant::EVERYBODY);

        drop(part);

        assert_eq!(memory.held_bytes.load(Relaxed), 100);
        assert_eq!(memory.strange_bytes.load(Relaxed), 0);
        share.leave();
        assert_eq!(memory.held_bytes.load(Relaxed), 0);
    }
}
