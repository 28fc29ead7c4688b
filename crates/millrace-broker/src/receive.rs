//! Receiving: at once if there is something, else by waiting in line.

use std::sync::{Arc, MutexGuard};

use millrace_core::Timestamp;
use millrace_engine::record::Records;
use millrace_engine::{
    DeadLetters, Delivery, Kind, Queue, Receive, ReceiveError, Received, Redrive,
};
use millrace_journal::{Purpose, Ticket};

use crate::append::journal_records;
use crate::deliver::{Contents, Undelivered};
use crate::due::{PASSING_BUDGET, give_way};
use crate::error::BrokerError;
use crate::figures::Counters;
use crate::message::Incoming;
use crate::queue::{SharedQueue, State};
use crate::timers::TimerKey;
use crate::waiter::Waiter;

/// Rounds of dead letters, 64 at a time, or of expiries that one look at a queue handles.
const ROUNDS_PER_LOOK: usize = 16;

/// Messages that those rounds handle at least: one looks up where dead letters go.
const HANDLED_PER_LOOK: u64 = 15 * 64;

/// How long a short poll waits for messages that are only behind others of their groups. Consumers
/// of few groups would else find nothing most of the time, and a group be free with nobody there.
const GROUP_WAIT_MS: u64 = 5;

/// Times that a receive looks again if it could read none of what it took: whoever gets nothing
/// believes that there is nothing. Bounded, as what is taken stays hidden, and the disk may be back
/// soon.
const LOOKS_PAST_DAMAGE: usize = 32;

/// A receive as a service asks for it.
#[derive(Clone, Copy, Debug)]
pub struct ReceiveRequest<'a> {
    /// 1 to 10 for SQS; other services may ask for more.
    pub max: usize,
    /// Overrides the queue's visibility timeout.
    pub visibility_timeout_s: Option<u32>,
    /// Overrides the queue's wait time.
    pub wait_time_s: Option<u32>,
    /// ReceiveRequestAttemptId; ignored by standard queues.
    pub attempt_id: Option<&'a str>,
}

/// What one look at the queue gave.
enum Look {
    Found {
        received: Received,
        ticket: Ticket,
        /// The client is to hear of it only once it is committed.
        is_awaited: bool,
    },
    Nothing {
        /// The waiter does.
        stands_in_line: bool,
    },
    /// So many dead letters or expiries that there may be messages behind them.
    Unfinished {
        /// Messages of the queue, whatever their state.
        messages: u64,
    },
}

/// Who would stand in line.
#[derive(Clone, Copy)]
struct Candidate<'a> {
    waiter: &'a Arc<Waiter>,
    /// Until a message comes, or only if there are some whose groups are in flight.
    is_long_poll: bool,
}

impl SharedQueue {
    /// Receives messages, waiting for the first as long as asked for, of a FIFO queue with messages
    /// whose groups are in flight for some milliseconds at least. Standard receives are
    /// journaled but not waited for: a crash makes them redeliveries. FIFO receives wait for
    /// their commit, and so do standard ones just behind a move to their queue: a crash that forgot
    /// the move as well would leave the client with a handle of a message that is elsewhere again.
    /// Cancel safe: what was taken for a caller that left is given back at once, except
    /// to an attempt that can be repeated by its id.
    pub async fn receive(
        &self,
        request: &ReceiveRequest<'_>,
    ) -> Result<Vec<Incoming>, BrokerError> {
        let definition = self.definition();
        let settings = &definition.settings;
        let attempt = request.attempt_id.filter(|_| settings.kind == Kind::Fifo);
        let receive = Receive {
            max: request.max,
            visibility_timeout_s: request.visibility_timeout_s,
            attempt: attempt.map(|id| self.common.receipts.hash(id.as_bytes())),
            in_flight_limit: self.common.options.in_flight_limit,
        };
        let wait_s = request.wait_time_s.unwrap_or(settings.wait_time_s);
        let long_poll = (wait_s > 0).then(|| self.common.now().plus_seconds(u64::from(wait_s)));
        // A client that names its attempt repeats it if the answer is lost, and gets the same. What
        // is not hidden would be taken again.
        let hidden_s = request.visibility_timeout_s.unwrap_or(settings.visibility_timeout_s);
        let looks = if attempt.is_some() || hidden_s == 0 { 1 } else { LOOKS_PAST_DAMAGE };
        for _ in 0..looks {
            let found = match (long_poll, settings.kind) {
                (None, Kind::Standard) => match self.look(&receive, None) {
                    Ok(Look::Unfinished { .. }) => {
                        give_way().await;
                        self.look_for(&receive, None).await
                    }
                    found => found,
                },
                _ => self.look_for(&receive, long_poll).await,
            };
            let (received, ticket, is_awaited) = match found {
                Ok(Look::Found { received, ticket, is_awaited }) => (received, ticket, is_awaited),
                Err(BrokerError::OverLimit) if wait_s == 0 && settings.kind == Kind::Standard => {
                    return Err(BrokerError::OverLimit);
                }
                Ok(_) | Err(BrokerError::OverLimit) => break,
                Err(error) => return Err(error),
            };
            // Both of an attempt may be under way at once, so what one of them leaves is the
            // other's.
            let returnable = if attempt.is_some() { &[][..] } else { &received.deliveries[..] };
            let undelivered = Undelivered { queue: self, deliveries: returnable };
            // Read while the commit is under way: on a deep backlog that takes as long as a small
            // commit.
            let (mut incoming, left_out) = Contents(self).read(&received.deliveries);
            if is_awaited {
                self.committed(Some(ticket)).await?;
                // Others may have deleted or purged some meanwhile.
                let state = self.lock();
                if state.is_deleted {
                    return Err(BrokerError::QueueDoesNotExist);
                }
                incoming.retain(|message| {
                    state.queue.contains(message.delivery.at)
                        || may_be_dead_letter(&state.queue, &message.delivery)
                });
            }
            std::mem::forget(undelivered);
            if !incoming.is_empty() || left_out == 0 {
                Counters::add(&self.counters.messages_received, incoming.len());
                return Ok(incoming);
            }
        }
        Counters::add(&self.counters.empty_receives, 1);
        Ok(Vec::new())
    }

    /// Receives what there is, without waiting and without reading contents: for simulations.
    pub fn try_receive(
        &self,
        receive: &Receive,
    ) -> Result<Option<(Received, Ticket)>, BrokerError> {
        match self.look(receive, None)? {
            Look::Found { received, ticket, .. } => Ok(Some((received, ticket))),
            Look::Nothing { .. } | Look::Unfinished { .. } => Ok(None),
        }
    }

    async fn look_for(
        &self,
        receive: &Receive,
        long_poll: Option<Timestamp>,
    ) -> Result<Look, BrokerError> {
        let is_long_poll = long_poll.is_some();
        let until = long_poll.unwrap_or_else(|| self.common.now().plus_millis(GROUP_WAIT_MS));
        let mut place = PlaceInLine { queue: self, waiter: Arc::default(), timer: None };
        let mut looks_left = None;
        loop {
            let is_last = self.common.now() >= until || self.common.is_draining();
            let candidate = Candidate { waiter: &place.waiter, is_long_poll };
            match self.look(receive, (!is_last).then_some(candidate)) {
                Ok(Look::Nothing { stands_in_line: true }) => {}
                // Whoever gets nothing believes that there is nothing, so the time may be over
                // before this is. Bounded, as dead letters may come as fast as they are moved on.
                Ok(Look::Unfinished { messages }) => {
                    let left = looks_left.get_or_insert(messages / HANDLED_PER_LOOK + 1);
                    if self.common.is_draining() || (is_last && *left == 0) {
                        return Ok(Look::Nothing { stands_in_line: false });
                    }
                    *left = left.saturating_sub(1);
                    give_way().await;
                    continue;
                }
                Err(BrokerError::OverLimit) if is_long_poll && !is_last => {}
                found => return found,
            }
            if place.timer.is_none() {
                place.timer = Some(self.common.timers.arm_waiter(place.waiter.clone(), until));
            }
            // A drain that began meanwhile may have woken all before this one stood in line; and
            // the timer, which wakes once, may have done so when it was awake for a message that is
            // gone.
            if !self.common.is_draining() && self.common.now() < until {
                place.waiter.woken().await;
            }
        }
    }

    /// Takes what is ready, or puts the waiter in line, in one step.
    fn look(
        &self,
        receive: &Receive,
        candidate: Option<Candidate<'_>>,
    ) -> Result<Look, BrokerError> {
        // Where dead letters go is looked up only when there are some.
        let mut target = None;
        let mut has_looked_up = false;
        let mut messages = 0;
        for _ in 0..ROUNDS_PER_LOOK {
            let (mut state, mut target_state) = lock_both(self, target.as_deref());
            if state.is_deleted {
                return Err(BrokerError::QueueDoesNotExist);
            }
            let now = self.common.now();
            self.tick(&mut state, now, PASSING_BUDGET)?;
            messages = state.queue.counts().total();
            if state.queue.has_expired(now) {
                continue; // More than one tick's worth: what is expired is not to be delivered.
            }
            let dead = match &mut target_state {
                Some(target) if !target.is_deleted => DeadLetters::Move(&mut target.queue),
                None if !has_looked_up => DeadLetters::Elsewhere,
                _ => DeadLetters::Deliver,
            };
            // Besides what is named here, both records and their headers: 64 moves at most.
            let bytes = (4 << 10) + self.arn().len() + 16 * receive.max;
            let reservation = self.common.log.reserve(bytes, Purpose::Lease)?;
            let mut records = Records::default();
            let received = match state.queue.receive(now, receive, dead, &mut records) {
                Ok(received) => received,
                Err(ReceiveError::NeedsDeadLetterQueue) => {
                    let redrive = state.queue.settings().redrive.clone();
                    drop((state, target_state));
                    target = redrive.and_then(|redrive| self.target_of(&redrive));
                    has_looked_up = true;
                    continue;
                }
                Err(ReceiveError::OverLimit) => {
                    let candidate = candidate.filter(|candidate| candidate.is_long_poll);
                    self.wait_in_line(&mut state, candidate);
                    return Err(BrokerError::OverLimit);
                }
            };
            if received.deliveries.is_empty() && received.moved.is_empty() {
                return Ok(self.found_nothing(&mut state, candidate));
            }
            let records = journal_records(&records);
            let ticket = self.common.log.append_unawaited(reservation, &records, &mut Vec::new());
            state.latest = Some(ticket);
            let moved = received.moved.len();
            if moved > 0
                && let (Some(target), Some(target_state)) = (&target, &mut target_state)
            {
                Counters::add(&self.counters.messages_dead_lettered, moved);
                target.take_in(target_state, moved, ticket);
            }
            if received.deliveries.is_empty() {
                continue; // Only dead letters so far.
            }
            pass_on(&mut state, candidate);
            self.arm(&mut state);
            state.moved_in =
                state.moved_in.filter(|moved| self.common.log.outcome(*moved).is_none());
            let is_awaited = self.kind() == Kind::Fifo || state.moved_in.is_some();
            return Ok(Look::Found { received, ticket, is_awaited });
        }
        // Dead letters or expiries without end: others get their turn before this receive goes on.
        Ok(Look::Unfinished { messages })
    }

    /// The queue's dead-letter queue, if it is there.
    fn target_of(&self, redrive: &Redrive) -> Option<Arc<SharedQueue>> {
        let target = self.common.catalog.upgrade()?.queue_by_key(&redrive.target())?;
        // One record moves a message, so both are in one journal.
        let is_here = target.id().shard() == self.id().shard();
        (is_here && target.id() != self.id()).then_some(target)
    }

    fn found_nothing(&self, state: &mut State, candidate: Option<Candidate<'_>>) -> Look {
        let is_behind_others = state.queue.counts().ready > 0;
        let candidate = candidate.filter(|candidate| candidate.is_long_poll || is_behind_others);
        self.wait_in_line(state, candidate);
        Look::Nothing { stands_in_line: candidate.is_some() }
    }

    /// Messages have moved to this dead-letter queue.
    fn take_in(&self, state: &mut State, moved: usize, ticket: Ticket) {
        self.common.moved_from(state.queue.oldest_segment());
        (state.latest, state.moved_in) = (Some(ticket), Some(ticket));
        state.wake(moved as u64);
        self.arm(state);
    }

    fn wait_in_line(&self, state: &mut State, candidate: Option<Candidate<'_>>) {
        let Some(Candidate { waiter, .. }) = candidate else { return };
        // Not in line: it is new, or left the line when it was woken. That was in vain, so it keeps
        // its seniority.
        if waiter.take_wake() {
            state.waiters.push_first(waiter.clone());
        } else {
            state.waiters.push_last(waiter.clone());
        }
        self.arm(state);
    }
}

/// Whether a message that was just received may have left for the dead-letter queue since: with a
/// visibility timeout of 0, or one that a slow commit outlasts, others find that it was received as
/// often as it may be. That was this receive, so its client is to see the message.
fn may_be_dead_letter(queue: &Queue, received: &Delivery) -> bool {
    let redrive = queue.settings().redrive.as_ref();
    let was_last = |redrive: &Redrive| received.receive_count >= redrive.max_receive_count;
    redrive.is_some_and(was_last) && !queue.is_purged(received.at)
}

/// One wake may have stood for more messages than this receive took.
fn pass_on(state: &mut State, candidate: Option<Candidate<'_>>) {
    if let Some(candidate) = candidate {
        candidate.waiter.take_wake();
    }
    state.wake(1);
}

/// Locks a queue and, if there is one, another, by ascending id. None for the other if it is the
/// same.
pub(crate) fn lock_both<'a>(
    queue: &'a SharedQueue,
    other: Option<&'a SharedQueue>,
) -> (MutexGuard<'a, State>, Option<MutexGuard<'a, State>>) {
    match other.filter(|other| other.id() != queue.id()) {
        Some(other) if other.id() < queue.id() => {
            let other = other.lock();
            (queue.lock(), Some(other))
        }
        other => (queue.lock(), other.map(SharedQueue::lock)),
    }
}

/// A long poll's place in line; dropped, it is left, and a wake that it did not use goes to the
/// next.
struct PlaceInLine<'a> {
    queue: &'a SharedQueue,
    waiter: Arc<Waiter>,
    timer: Option<TimerKey>,
}

impl Drop for PlaceInLine<'_> {
    fn drop(&mut self) {
        let Some(timer) = self.timer else { return };
        self.queue.common.timers.disarm(timer);
        let mut state = self.queue.lock();
        if !state.waiters.remove(&self.waiter) && self.waiter.take_wake() {
            state.wake(1);
        }
    }
}
