//! What is due in queues: ends of delays, visibility timeouts and lives.

use std::future::poll_fn;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;
use std::task::Poll;

use millrace_core::Timestamp;
use millrace_engine::record::Records;
use millrace_journal::{Purpose, Unavailable};

use crate::append::journal_records;
use crate::figures::Counters;
use crate::queue::{SharedQueue, State};

/// Ends of delays, visibility timeouts and retention that a visit handles before others may have
/// the queue's lock.
const VISIT_BUDGET: usize = 1_000;
/// The same for a call that came for something else, such as a receive, whose client is waiting.
pub(crate) const PASSING_BUDGET: usize = 256;
/// A queue that nobody waits for is visited at most this often.
const UNWATCHED_VISIT_MS: u64 = 1_000;
/// Until the next visit to a queue whose expired messages the journal had no room to record.
const REFUSED_VISIT_MS: u64 = 1_000;
/// The same if a long poll waits and the journal just has a backlog, which is over soon.
const BACKLOG_VISIT_MS: u64 = 5;
/// Messages that expire by one record, and what that takes: 12 bytes each, and headers.
const EXPIRED_AT_A_TIME: usize = 256;
const EXPIRY_BYTES: usize = 64 + 12 * EXPIRED_AT_A_TIME;

impl SharedQueue {
    /// Does all that is due, in steps between which other tasks of the thread get their turn: after
    /// a long time without the server a million messages may have expired.
    pub async fn catch_up(&self) {
        while self.lock_in_step().is_none() {
            self.let_others_in();
            give_way().await;
        }
    }

    /// Locks a queue once all that is due is done, in steps between which others get the lock. What
    /// has expired is left if the journal takes no changes.
    pub(crate) fn lock_up_to_date(&self) -> MutexGuard<'_, State> {
        loop {
            if let Some(state) = self.lock_in_step() {
                return state;
            }
            self.let_others_in();
        }
    }

    /// Does some of what is due. None: there is more.
    fn lock_in_step(&self) -> Option<MutexGuard<'_, State>> {
        let mut state = self.lock();
        let now = self.common.now();
        let is_refused = self.tick(&mut state, now, VISIT_BUDGET).is_err();
        (is_refused || state.queue.next_deadline() > now).then_some(state)
    }

    /// Ends delays, visibility timeouts and lives that are over, and wakes those who wait.
    pub(crate) fn visit(&self, now: Timestamp) {
        let mut state = self.lock();
        // Otherwise its timer is still there: the clock was advanced.
        if state.armed_at <= now {
            state.armed_at = Timestamp::NEVER;
        }
        if let Err(error) = self.tick(&mut state, now, VISIT_BUDGET) {
            tracing::debug!(queue = %self.key(), %error, "expiry has to wait");
            // Who waits for a message would be refused, too.
            let is_over_soon =
                matches!(error, Unavailable::Backlog { .. }) && !state.waiters.is_empty();
            let wait_ms = if is_over_soon { BACKLOG_VISIT_MS } else { REFUSED_VISIT_MS };
            let again_at = now.plus_millis(wait_ms);
            self.common.timers.arm_queue(self.id(), again_at, state.armed_at);
            state.armed_at = again_at;
            return;
        }
        state.wake(u64::MAX);
        self.arm(&mut state);
    }

    /// Ticks the queue, drops what expired and journals that. If the journal refuses, the expired
    /// messages stay: memory never runs ahead of what a restart would show. They must not be
    /// delivered, so receiving fails with the same error.
    pub(crate) fn tick(
        &self,
        state: &mut State,
        now: Timestamp,
        budget: usize,
    ) -> Result<(), Unavailable> {
        state.queue.tick(now, budget);
        if let Some(discarded) = state.queue.take_discarded() {
            self.common.free(discarded);
        }
        if !state.queue.has_expired(now) {
            return Ok(());
        }
        let reservation = self.common.log.reserve(EXPIRY_BYTES, Purpose::Reclaim)?;
        let mut records = Records::default();
        let expired = state.queue.expire(now, budget.min(EXPIRED_AT_A_TIME), &mut records);
        Counters::add(&self.counters.messages_expired, expired);
        let records = journal_records(&records);
        state.latest = Some(self.common.log.append(reservation, &records, &mut Vec::new()));
        self.common.want_maintenance();
        Ok(())
    }

    /// As [`SharedQueue::tick`], however much has expired.
    pub(crate) fn tick_whole(&self, state: &mut State, now: Timestamp) -> Result<(), Unavailable> {
        loop {
            self.tick(state, now, VISIT_BUDGET)?;
            if !state.queue.has_expired(now) {
                return Ok(());
            }
        }
    }

    /// Sees to it that the timers visit the queue when it next has something to do.
    pub(crate) fn arm(&self, state: &mut State) {
        if state.is_deleted {
            return;
        }
        // However many attempts an idle queue remembers, its visits get to the end of them.
        let next = state.queue.next_deadline().min(state.queue.next_attempt_end());
        if next >= state.armed_at {
            return;
        }
        let now = self.common.now();
        let at = if next <= now {
            // More is due than one visit does; others that are due come first.
            now.plus_millis(1)
        } else if state.waiters.is_empty() {
            next.max(now.plus_millis(UNWATCHED_VISIT_MS))
        } else {
            next
        };
        // A closed shard's queues are not visited.
        if at < state.armed_at && !self.common.is_closed.load(Ordering::SeqCst) {
            self.common.timers.arm_queue(self.id(), at, state.armed_at);
            state.armed_at = at;
        }
    }

    /// Takes back the timers' next visit.
    pub(crate) fn disarm(&self, state: &mut State) {
        self.common.timers.disarm_queue(self.id(), state.armed_at);
        state.armed_at = Timestamp::NEVER;
    }
}

/// Lets other tasks of the thread go first.
pub(crate) async fn give_way() {
    let mut has_given = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_given, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
