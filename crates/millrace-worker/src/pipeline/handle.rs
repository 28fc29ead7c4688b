//! Running handlers, and deciding what their outcomes mean.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use bytestring::ByteString;
use millrace_client::Peer;
use tokio::{
    task::{AbortHandle, Id},
    time::Instant,
};

use super::{Event, Pipeline};
use crate::{
    backoff::Backoff,
    drain::Stage,
    handler::{Handler, Message},
    held::{Key, State},
    metrics::Ended,
    outcome::{HandlerError, Outcome},
    panics::{self, describe},
    settlement::{Settlement, Urgency},
    slots::Slot,
};

/// One run of the handler.
#[derive(Debug)]
pub(super) struct Unit {
    keys: Vec<Key>,
    started: Instant,
    pub(super) abort: AbortHandle,
    _slot: Slot,
}

impl<P: Peer, H: Handler> Pipeline<P, H> {
    pub(super) fn start_handlers(&mut self, now: Instant) {
        while self.is_batch_ready(now) {
            let Some(slot) = self.share.take() else { break };
            let mut keys = self.lanes.take(self.options.batch_size);
            self.gathering_since = None;
            for key in &keys {
                if let Some(held) = self.held.get_mut(*key) {
                    held.is_taken = true;
                }
            }
            keys.retain(|key| !self.dead_letter_poison(*key, now));
            if !keys.is_empty() {
                self.start_handler(keys, slot, now);
            }
        }
    }

    /// Unless messages wait for a slot, says how many handlers the receives under way may need.
    pub(super) fn claim_slots(&mut self, now: Instant) {
        if !self.is_batch_ready(now) {
            let is_running = self.progress.stage() == Stage::Running;
            let free = self.limit.get().saturating_sub(self.units.len());
            let expected = self.receiver.expected(now).div_ceil(self.options.batch_size);
            self.share.expect(if is_running { expected.min(free) } else { 0 });
        }
    }

    /// Whether a handler is to start, if there is a slot for it.
    fn is_batch_ready(&mut self, now: Instant) -> bool {
        if self.lanes.startable() == 0 {
            // What waited may have gone another way than to a handler.
            self.gathering_since = None;
            return false;
        }
        if self.progress.stage() != Stage::Running || self.units.len() >= self.limit.get() {
            return false;
        }
        if !self.is_gathering() {
            return true;
        }
        let since = *self.gathering_since.get_or_insert(now);
        now >= since + self.options.batch_window
    }

    /// Whether messages wait for others to fill their batch.
    pub(super) fn is_gathering(&self) -> bool {
        let startable = self.lanes.startable();
        let is_part = startable > 0 && startable < self.options.batch_size;
        let may_grow = !self.receiver.is_closed() || self.receiver.open() > 0;
        is_part && may_grow && !self.options.batch_window.is_zero()
    }

    /// When an unfinished batch has waited for long enough.
    pub(super) fn batch_due(&self) -> Option<Instant> {
        self.gathering_since.map(|since| since + self.options.batch_window)
    }

    /// A message that was received too often, without ever having been handled to an end: its
    /// handler must not meet it again.
    fn dead_letter_poison(&mut self, key: Key, now: Instant) -> bool {
        let Some(held) = self.held.get(key) else { return true };
        let count = held.receive_count;
        let is_poison = self.options.max_receives.is_some_and(|most| count > most);
        if !is_poison || self.dead_letters.is_none() {
            return false;
        }
        self.dead_letter(key, format!("received {count} times without an outcome"), now);
        true
    }

    fn start_handler(&mut self, keys: Vec<Key>, slot: Slot, now: Instant) {
        let mut messages = Vec::with_capacity(keys.len());
        for key in &keys {
            if let Some(held) = self.held.get_mut(*key) {
                held.state = State::Running;
                held.is_begun.store(true, Ordering::Relaxed);
                messages.push(Message::of(held, self.dead_letters.is_some()));
            }
        }
        self.running += keys.len();
        let handler = Arc::clone(&self.handler);
        let abort = self.tasks.spawn(async move { Event::Handled(handler.handle(messages).await) });
        self.units.insert(abort.id(), Unit { keys, started: now, abort, _slot: slot });
        self.limit.on_started(self.units.len());
    }

    pub(super) fn on_handled(
        &mut self,
        id: Id,
        result: Result<Vec<Outcome>, HandlerError>,
        now: Instant,
    ) {
        let Some(unit) = self.take_unit(id) else { return };
        let took = now.saturating_duration_since(unit.started);
        self.metrics.finished(took);
        let messages = u32::try_from(unit.keys.len()).unwrap_or(u32::MAX).max(1);
        self.prefetch.on_finished(took / messages);
        let mut outcomes = match result {
            Ok(outcomes) => outcomes,
            Err(error) => unit.keys.iter().map(|key| self.on_error(*key, &error)).collect(),
        };
        // A message that the handler says nothing about has not succeeded.
        outcomes.resize(unit.keys.len(), Outcome::RETRY);
        if outcomes.iter().all(|outcome| *outcome == Outcome::Ack) {
            self.limit.on_succeeded(unit.started, now);
        }
        for (key, outcome) in unit.keys.into_iter().zip(outcomes) {
            self.conclude(key, outcome, now);
        }
    }

    /// The handler was dropped because the worker was cut off.
    pub(super) fn on_cut_off(&mut self, id: Id, now: Instant) {
        let Some(unit) = self.take_unit(id) else { return };
        for key in unit.keys {
            self.conclude(key, Outcome::Release, now);
        }
    }

    fn take_unit(&mut self, id: Id) -> Option<Unit> {
        let unit = self.units.remove(&id)?;
        self.running -= unit.keys.len();
        Some(unit)
    }

    fn on_error(&self, key: Key, error: &HandlerError) -> Outcome {
        let Some(held) = self.held.get(key) else { return Outcome::RETRY };
        let message = Message::of(held, self.dead_letters.is_some());
        panics::decide(&*self.handler, &message, error)
    }

    /// The one place that decides what an outcome means.
    fn conclude(&mut self, key: Key, outcome: Outcome, now: Instant) {
        let Some(held) = self.held.get(key) else { return };
        let count = held.receive_count;
        let has_dead_letters = self.dead_letters.is_some();
        let is_last = self.options.max_receives.is_some_and(|most| count >= most);
        match outcome {
            Outcome::Ack => {
                self.settle(key, Settlement::Delete, Urgency::Linger, Ended::Succeeded, now);
            }
            Outcome::Release => {
                // Its handler was dropped, or told to stop and has heeded that, in mid-work.
                if self.progress.stage() >= Stage::Cancelling
                    && let Some(held) = self.held.get_mut(key)
                    && held.is_begun.load(Ordering::Relaxed)
                {
                    held.is_cut_off = true;
                    self.cut_off += 1;
                }
                self.give_back(key, Duration::ZERO, Ended::Released, now);
            }
            Outcome::Reject { reason } if has_dead_letters => self.dead_letter(key, reason, now),
            Outcome::Retry { .. } if is_last && has_dead_letters => {
                self.dead_letter(key, format!("failed when received {count} times"), now);
            }
            Outcome::Retry { after } => {
                let after = after.unwrap_or_else(|| self.back_off(count));
                self.give_back(key, after, Ended::Retried, now);
            }
            Outcome::Reject { reason } => {
                let message_id = held.delivery.message_id();
                tracing::warn!(%message_id, reason, "rejected, but there is no dead-letter queue");
                let after = self.back_off(count);
                self.give_back(key, after, Ended::Retried, now);
            }
        }
    }

    /// The delay after a failure; the default one if the function that decides it panics.
    pub(super) fn back_off(&self, receive_count: u32) -> Duration {
        let backoff = &self.options.backoff;
        let decided = catch_unwind(AssertUnwindSafe(|| backoff.delay(receive_count)));
        decided.unwrap_or_else(|panic| {
            tracing::error!(panic = describe(panic.as_ref()), "deciding on a back-off panicked");
            Backoff::default().delay(receive_count)
        })
    }

    /// Hides a message for `after`, as far as that is possible, and stops its lane: what waits
    /// behind it goes back with it, so that the queue delivers them in order again.
    pub(super) fn give_back(&mut self, key: Key, after: Duration, ended: Ended, now: Instant) {
        let Some(held) = self.held.get(key) else { return };
        let (after, group) = (after.min(held.hide_at_most(now)), held.group.clone());
        // A release is urgent: somebody else could work on it.
        let urgency = if after.is_zero() { Urgency::Urgent } else { Urgency::Linger };
        self.settle(key, Settlement::Hide(after), urgency, ended, now);
        if let Some(group) = group {
            self.stop_lane(&group, now + after, now);
        }
    }

    /// A message of `group` is not done, and back at the queue at `back`: nothing that waits behind
    /// it may overtake it.
    pub(super) fn stop_lane(&mut self, group: &ByteString, back: Instant, now: Instant) {
        self.receiver.on_lane_stopped(back);
        let stopped = self.lanes.stop(group);
        self.release(stopped, now);
    }

    /// Gives back all messages that no handler has begun with.
    pub(super) fn release_waiting(&mut self, now: Instant) {
        let waiting = self.lanes.clear();
        self.release(waiting, now);
    }

    pub(super) fn release(&mut self, keys: Vec<Key>, now: Instant) {
        for key in keys {
            let release = Settlement::Hide(Duration::ZERO);
            self.settle(key, release, Urgency::Urgent, Ended::Released, now);
        }
    }
}
