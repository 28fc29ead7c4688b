//! Memory of connections: what each costs by being there, its head, its streams, small bodies and
//! small answers. Large ones have budgets of their own (`budget`).
//!
//! A connection is a stranger's until the service has let its caller in. Strangers together have at
//! most half; when they hold more, or all connections together hold more than there is, the
//! stranger that has been there longest is cut off. So one that comes always gets in, and has time
//! to show who it is. Connections that were let in are never cut off for others, and have at most
//! three quarters: beyond, what they ask for in addition is refused.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
};

use crate::clock::{Alarm, lock};

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
    /// By the order in which they came.
    strangers: Mutex<BTreeMap<u64, Arc<Share>>>,
}

/// What one connection holds of it. Its own thread grows and shrinks it, any thread may cut it off.
#[derive(Debug)]
pub(crate) struct Share {
    memory: Arc<ConnectionMemory>,
    number: u64,
    bytes: AtomicUsize,
    is_stranger: AtomicBool,
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
    pub(crate) fn new(limit_bytes: usize) -> Arc<ConnectionMemory> {
        Arc::new(ConnectionMemory {
            limit_bytes,
            held_bytes: AtomicUsize::new(0),
            strange_bytes: AtomicUsize::new(0),
            leaving_bytes: AtomicUsize::new(0),
            next: AtomicU64::new(0),
            strangers: Mutex::default(),
        })
    }

    /// The share of a connection that has just come. None: those that were let in hold all that
    /// they may, and there is no stranger to make room.
    pub(crate) fn admit(self: &Arc<ConnectionMemory>, bytes: usize) -> Option<Arc<Share>> {
        let share = Arc::new(Share {
            memory: Arc::clone(self),
            number: self.next.fetch_add(1, Relaxed),
            bytes: AtomicUsize::new(0),
            is_stranger: AtomicBool::new(true),
            is_cut: AtomicBool::new(false),
            cut_bytes: AtomicUsize::new(0),
            alarm: Mutex::default(),
        });
        lock(&self.strangers).insert(share.number, Arc::clone(&share));
        if share.grow(bytes) {
            return Some(share);
        }
        share.leave();
        None
    }

    fn has_room_for_known(&self, bytes: usize) -> bool {
        let known = self.held_bytes.load(Relaxed).saturating_sub(self.strange_bytes.load(Relaxed));
        known + bytes <= self.limit_bytes / 4 * 3
    }

    fn is_crowded(&self) -> bool {
        self.strange_bytes.load(Relaxed) > self.limit_bytes / 2
            || self.held_bytes.load(Relaxed) > self.limit_bytes
    }

    /// Cuts off strangers until the others have room.
    fn make_room(&self) {
        while self.is_crowded() {
            let Some((_, oldest)) = lock(&self.strangers).pop_first() else { return };
            oldest.cut();
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
        if !self.is_stranger() && !memory.has_room_for_known(bytes) {
            return false;
        }
        // The sums first: whoever cuts the connection off meanwhile takes from them what is here.
        memory.held_bytes.fetch_add(bytes, Relaxed);
        if self.is_stranger() {
            memory.strange_bytes.fetch_add(bytes, Relaxed);
        }
        self.bytes.fetch_add(bytes, Relaxed);
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

    /// The service has let the caller in. If those that it has let in hold all they may, the
    /// connection stays a stranger's, and goes on.
    pub(crate) fn let_in(&self) {
        if !self.is_stranger() {
            return;
        }
        let memory = &*self.memory;
        let mut strangers = lock(&memory.strangers);
        let bytes = self.bytes.load(Relaxed);
        // If it is there no more, it was cut off.
        if memory.has_room_for_known(bytes) && strangers.remove(&self.number).is_some() {
            self.is_stranger.store(false, Relaxed);
            memory.strange_bytes.fetch_sub(bytes, Relaxed);
        }
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
        strangers.remove(&self.number);
        let bytes = self.bytes.swap(0, Relaxed);
        self.uncount(bytes);
        then(bytes);
    }

    fn uncount(&self, bytes: usize) {
        self.memory.held_bytes.fetch_sub(bytes, Relaxed);
        if self.is_stranger() {
            self.memory.strange_bytes.fetch_sub(bytes, Relaxed);
        }
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
        let memory = ConnectionMemory::new(1000);
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
        let memory = ConnectionMemory::new(1000);
        let let_in = |_| {
            let share = memory.admit(100).unwrap();
            share.let_in();
            share
        };
        let known: Vec<_> = (0..7).map(let_in).collect();

        assert!(!known[0].grow(100));
        assert!(known[0].grow(50));
        let part = memory.admit(200).unwrap();
        part.let_in();
        assert!(part.is_stranger(), "it goes on as one");
        let newest = memory.admit(200).unwrap();

        assert!(part.is_cut() && !newest.is_cut());
        assert!(known.iter().all(|share| !share.is_cut()));
    }

    #[test]
    fn strangers_are_held_back_until_those_that_were_cut_off_have_left() {
        let memory = ConnectionMemory::new(1000);
        let known = memory.admit(400).unwrap();
        known.let_in();
        let old = memory.admit(400).unwrap();

        let young = memory.admit(300).unwrap();
        let are_held_back = || [&known, &old, &young].map(|share| share.is_held_back());

        assert!(old.is_cut());
        assert_eq!(are_held_back(), [false, false, true]);
        old.leave();
        assert_eq!(are_held_back(), [false; 3]);
    }

    #[test]
    fn parts_are_given_back() {
        let memory = ConnectionMemory::new(1000);
        let share = memory.admit(100).unwrap();
        let part = share.part(300).unwrap();
        share.let_in();

        drop(part);

        assert_eq!(memory.held_bytes.load(Relaxed), 100);
        assert_eq!(memory.strange_bytes.load(Relaxed), 0);
        share.leave();
        assert_eq!(memory.held_bytes.load(Relaxed), 0);
    }
}
