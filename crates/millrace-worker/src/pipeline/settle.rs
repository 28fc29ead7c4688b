//! Telling the server about finished messages.
//!
//! A delete is tried again until it succeeds, is refused, or [`PATIENCE`] is over; by then the
//! lease may be lost and the message handled once more, which at-least-once delivery allows. A
//! message is deleted after a handler's success or after the dead-letter queue has accepted its
//! copy, and for no other reason.

use std::{sync::Arc, time::Duration};

use millrace_client::{
    CallError, CallErrorKind, EntryError, Peer, ReceiptHandle, Sent, Visibility,
};
use tokio::time::Instant;

use super::{
    Event, Pipeline, SETTLING, VisibilityResult,
    answers::{Answer, answers},
    receive::Receiver,
    within,
};
use crate::{
    dead_letter,
    drain::Stage,
    handler::Handler,
    held::{Held, HeldMessages, Key, State},
    metrics::Ended,
    options::Until,
    settlement::{CallEnd, Entry, Outbox, Settlement, Urgency},
};

/// How long a message is tried to be settled.
const PATIENCE: Duration = Duration::from_secs(300);
/// How long one call may take.
const CALL: Duration = Duration::from_secs(10);

/// Dead letters that may wait for a queue that takes none. More of them would take the place of
/// messages that can be handled.
const STUCK_DEAD_LETTERS: usize = SETTLING / 4;

/// Why entries are given up without an attempt of their own.
const OUT_OF_TIME: &str = "no call has succeeded for too long";

/// What to do about an entry next.
enum Step {
    Done,
    Repeat,
    GiveUp(String),
}

impl<P: Peer, H: Handler> Pipeline<P, H> {
    /// From now on the server is to be told about the message, and nothing else happens to it.
    pub(super) fn settle(
        &mut self,
        key: Key,
        settlement: Settlement,
        urgency: Urgency,
        ended: Ended,
        now: Instant,
    ) {
        let Some(held) = self.held.get_mut(key) else { return };
        if held.is_lost && settlement != Settlement::Delete {
            // It is visible already, or with another worker.
            self.finish_untold(key, now);
            return;
        }
        // The next of its lane waits for it.
        let urgency = if held.group.is_some() { Urgency::Urgent } else { urgency };
        let outbox = match &settlement {
            Settlement::Delete => &mut self.deletes,
            Settlement::Hide(_) => &mut self.hides,
            Settlement::DeadLetter(_) | Settlement::BareDeadLetter => &mut self.dead_letter_sends,
        };
        if matches!(settlement, Settlement::Hide(_)) {
            self.receiver.on_gave_back(now);
        }
        held.state = State::Settling { settlement, ended };
        outbox.push(key, urgency, now);
    }

    /// Moves a message to the dead-letter queue.
    pub(super) fn dead_letter(&mut self, key: Key, reason: String, now: Instant) {
        if self.dead_letter_sends.stuck() >= STUCK_DEAD_LETTERS {
            return self.keep_from_dead_letters(key, "too many wait for it already", now);
        }
        if let Some(held) = self.held.get(key) {
            let message_id = held.delivery.message_id();
            tracing::warn!(%message_id, reason, "moving to the dead-letter queue");
        }
        let settlement = Settlement::DeadLetter(reason);
        self.settle(key, settlement, Urgency::Urgent, Ended::DeadLettered, now);
    }

    pub(super) fn start_settlements(&mut self, now: Instant) {
        // Nothing lingers when nothing else is under way, or when the end is near.
        let is_idle = self.units.is_empty() || self.progress.stage() != Stage::Running;
        let urgency = if is_idle { Urgency::Urgent } else { Urgency::Linger };
        let most = self.capabilities.max_batch.max(1);
        let most_hides = self.capabilities.max_visibility_batch.max(1);
        let stage = self.progress.stage();
        // One batch after the other: each call that starts counts for the next.
        loop {
            let may_send = sendable(&self.held, &self.receiver, stage, now);
            let entries = self.deletes.take(most, urgency, now, may_send);
            if entries.is_empty() {
                break;
            }
            self.start_delete(entries, now);
        }
        loop {
            let may_send = sendable(&self.held, &self.receiver, stage, now);
            let entries = self.hides.take(most_hides, urgency, now, may_send);
            if entries.is_empty() {
                break;
            }
            self.start_hide(entries, now);
        }
        loop {
            let may_send = sendable(&self.held, &self.receiver, stage, now);
            // One by one: bodies may be large, and dead letters are rare.
            let entries = self.dead_letter_sends.take(1, Urgency::Urgent, now, may_send);
            let Some(entry) = entries.first() else { break };
            self.start_dead_letter(*entry);
        }
    }

    fn start_delete(&mut self, mut entries: Vec<Entry>, now: Instant) {
        let mut handles = Vec::with_capacity(entries.len());
        entries.retain(|entry| match self.begin_request(entry.key) {
            Some((handle, Settlement::Delete)) => {
                handles.push(handle);
                true
            }
            _ => false,
        });
        if entries.is_empty() {
            return;
        }
        self.deletes.call_sent();
        let peer = Arc::clone(&self.peer);
        self.tasks.spawn(async move {
            let result = within(CALL, peer.delete(&handles)).await;
            Event::Deleted { entries, handles, sent: now, result }
        });
    }

    fn start_hide(&mut self, mut entries: Vec<Entry>, now: Instant) {
        let mut changes = Vec::with_capacity(entries.len());
        entries.retain(|entry| match self.begin_request(entry.key) {
            Some((handle, Settlement::Hide(timeout))) => {
                // Less than when it was decided: it may have waited for others, or failed before.
                let held = self.held.get(entry.key);
                let timeout = held.map_or(timeout, |held| timeout.min(held.hide_at_most(now)));
                changes.push(Visibility { handle, timeout });
                true
            }
            _ => false,
        });
        if entries.is_empty() {
            return;
        }
        self.hides.call_sent();
        let peer = Arc::clone(&self.peer);
        self.tasks.spawn(async move {
            let result = within(CALL, peer.release(&changes)).await;
            Event::Hidden { entries, sent: now, result }
        });
    }

    fn start_dead_letter(&mut self, entry: Entry) {
        let Some(queue) = self.dead_letters.clone() else { return };
        let Some((_, settlement)) = self.begin_request(entry.key) else { return };
        let Some(Held { delivery, .. }) = self.held.get(entry.key) else { return };
        let capabilities = queue.capabilities();
        let letter = match settlement {
            Settlement::DeadLetter(reason) => {
                dead_letter::of(delivery, &reason, &self.options.queue, &capabilities)
            }
            _ => dead_letter::bare(delivery, &capabilities),
        };
        let has_added = letter.attributes.len() > delivery.attributes.len();
        self.dead_letter_sends.call_sent();
        self.tasks.spawn(async move {
            let result = within(CALL, queue.send(&[letter])).await;
            Event::DeadLettered { entry, has_added, result }
        });
    }

    /// Notes that a request about the message is sent: its newest handle and what it is about.
    fn begin_request(&mut self, key: Key) -> Option<(ReceiptHandle, Settlement)> {
        let held = self.held.get_mut(key)?;
        let State::Settling { settlement, .. } = &held.state else { return None };
        held.is_in_request = true;
        self.leases.begin_request(key);
        Some((held.delivery.handle.clone(), settlement.clone()))
    }

    /// The request about the message is answered: the message, if it is still to be settled, and
    /// what it becomes by that.
    fn end_request(&mut self, key: Key) -> Option<(&Held, Ended)> {
        let held = self.held.get_mut(key)?;
        held.is_in_request = false;
        self.leases.end_request(key);
        match held.state {
            State::Settling { ended, .. } => Some((held, ended)),
            State::Waiting | State::Running => None,
        }
    }

    pub(super) fn on_deleted(
        &mut self,
        entries: Vec<Entry>,
        handles: &[ReceiptHandle],
        result: Result<Vec<Result<(), EntryError>>, CallError>,
        now: Instant,
    ) {
        let answers = answers(entries.len(), result);
        self.deletes.call_ended(answers.call, now);
        for ((entry, used), answer) in entries.into_iter().zip(handles).zip(answers.entries) {
            let Some((held, ended)) = self.end_request(entry.key) else { continue };
            let answer = match answer {
                // Received again meanwhile: there is a newer handle to try.
                Answer::Refused(error) if held.delivery.handle != *used => Answer::Failed(error),
                answer => answer,
            };
            match self.next_step("delete", entry, answer, PATIENCE, now) {
                Step::Done => self.finish(entry.key, ended, now),
                Step::Repeat => self.deletes.retry(entry, now),
                Step::GiveUp(error) => self.abandon(entry.key, &error, now),
            }
        }
        for entry in out_of_time(&mut self.deletes, answers.call, now) {
            self.abandon(entry.key, OUT_OF_TIME, now);
        }
    }

    pub(super) fn on_hidden(
        &mut self,
        entries: Vec<Entry>,
        result: VisibilityResult,
        now: Instant,
    ) {
        let answers = answers(entries.len(), result);
        self.hides.call_ended(answers.call, now);
        for (entry, answer) in entries.into_iter().zip(answers.entries) {
            let Some((held, ended)) = self.end_request(entry.key) else { continue };
            // Once the lease is over the message is visible as it is.
            let patience = if held.is_lost { Duration::ZERO } else { PATIENCE };
            match self.next_step("change_visibility", entry, answer, patience, now) {
                Step::Done => {
                    self.receiver.on_gave_back(now);
                    self.finish(entry.key, ended, now);
                }
                Step::Repeat => self.hides.retry(entry, now),
                Step::GiveUp(error) => self.abandon(entry.key, &error, now),
            }
        }
        for entry in out_of_time(&mut self.hides, answers.call, now) {
            self.abandon(entry.key, OUT_OF_TIME, now);
        }
    }

    pub(super) fn on_dead_lettered(
        &mut self,
        entry: Entry,
        has_added: bool,
        result: Result<Vec<Result<Sent, EntryError>>, CallError>,
        now: Instant,
    ) {
        let is_there = !matches!(&result, Err(error) if error.kind == CallErrorKind::NoSuchQueue);
        let mut answers = answers(1, result);
        self.dead_letter_sends.call_ended(answers.call, now);
        for entry in out_of_time(&mut self.dead_letter_sends, answers.call, now) {
            self.keep_from_dead_letters(entry.key, OUT_OF_TIME, now);
        }
        let Some((held, _)) = self.end_request(entry.key) else { return };
        let patience = if held.is_lost { Duration::ZERO } else { PATIENCE };
        let Some(answer) = answers.entries.pop() else { return };
        if let Answer::Refused(error) = &answer
            && has_added
            && is_there
        {
            // It may be the attributes that make the letter too large for that queue.
            let message_id = held.delivery.message_id();
            tracing::warn!(%message_id, error, "sending the dead letter without the added attributes");
            let bare = Settlement::BareDeadLetter;
            self.settle(entry.key, bare, Urgency::Urgent, Ended::DeadLettered, now);
            return;
        }
        match self.next_step("send", entry, answer, patience, now) {
            Step::Done => {
                let delete = Settlement::Delete;
                self.settle(entry.key, delete, Urgency::Urgent, Ended::DeadLettered, now);
            }
            Step::Repeat => self.dead_letter_sends.retry(entry, now),
            Step::GiveUp(error) => self.keep_from_dead_letters(entry.key, &error, now),
        }
    }

    /// The dead-letter queue does not take the message: it stays in its own.
    fn keep_from_dead_letters(&mut self, key: Key, error: &str, now: Instant) {
        let Some(held) = self.held.get(key) else { return };
        tracing::warn!(error, "the dead-letter queue does not take the message");
        let after = self.back_off(held.receive_count);
        self.give_back(key, after, Ended::Retried, now);
    }

    /// What the answer for an entry leads to, and its count if it is a failure.
    fn next_step(
        &self,
        call: &'static str,
        entry: Entry,
        answer: Answer,
        patience: Duration,
        now: Instant,
    ) -> Step {
        let (error, may_succeed) = match answer {
            Answer::Done => return Step::Done,
            Answer::Failed(error) => (error, true),
            Answer::Refused(error) => (error, false),
        };
        self.metrics.settlement_failed(call);
        tracing::debug!(call, error, failures = entry.failures, "settling failed");
        if may_succeed && now < entry.since + patience { Step::Repeat } else { Step::GiveUp(error) }
    }

    fn abandon(&mut self, key: Key, error: &str, now: Instant) {
        if let Some(held) = self.held.get(key) {
            let (message_id, state) = (held.delivery.message_id(), &held.state);
            tracing::warn!(%message_id, ?state, error, "message could not be settled");
        }
        self.finish_untold(key, now);
    }

    /// The message is no longer held, and the server could not be told what became of it.
    pub(super) fn finish_untold(&mut self, key: Key, now: Instant) {
        let Some(held) = self.held.get(key) else { return };
        // What was to be given back is back once its lease is over.
        let is_back = held.is_lost
            && matches!(held.state, State::Settling { settlement: Settlement::Hide(_), .. });
        // One that was cut off is counted as that.
        if !held.is_cut_off && !is_back && self.tells_all() {
            self.unsettled += 1;
        }
        self.finish(key, Ended::Abandoned, now);
    }

    /// Whether the summary tells of every message that the server could not be told of. What a
    /// worker that runs for ever went through long before its end says nothing about that.
    fn tells_all(&self) -> bool {
        let ends_by_itself =
            self.options.until != Until::Drained || self.options.max_messages.is_some();
        ends_by_itself || self.progress.stage() != Stage::Running
    }

    /// The message is no longer held.
    pub(super) fn finish(&mut self, key: Key, ended: Ended, now: Instant) {
        let Some(held) = self.held.remove(key) else { return };
        self.leases.forget(key);
        self.metrics.ended(ended);
        if held.group.is_some() {
            self.receiver.on_freed_group(now);
        }
        let Some(group) = held.group.filter(|_| held.is_taken) else { return };
        let is_done = matches!(ended, Ended::Succeeded | Ended::DeadLettered);
        if !is_done {
            // A release whose answer was lost may have brought it back already, with others that
            // wait behind it here and must not overtake it.
            self.stop_lane(&group, now, now);
        }
        self.lanes.settled(&group);
    }
}

/// Entries that have waited for too long, if the last call failed: with one call at a time not all
/// of them come to an attempt of their own.
fn out_of_time(outbox: &mut Outbox, call: CallEnd, now: Instant) -> Vec<Entry> {
    match (call, now.checked_sub(PATIENCE)) {
        (CallEnd::Failed { .. }, Some(since)) => outbox.take_older(since),
        _ => Vec::new(),
    }
}

/// Which messages the server may be told of now.
fn sendable(
    held: &HeldMessages,
    receiver: &Receiver,
    stage: Stage,
    now: Instant,
) -> impl Fn(Key) -> bool {
    move |key| match held.get(key) {
        Some(held) => !held.is_in_request && !comes_back(held, receiver, stage, now),
        None => true,
    }
}

/// Whether a worker that drains would only receive again what it gives back: through a receive that
/// still waits, and at the price of one of the message's receives. Until that is answered the
/// message stays in hand and its lease is kept.
fn comes_back(held: &Held, receiver: &Receiver, stage: Stage, now: Instant) -> bool {
    let State::Settling { settlement: Settlement::Hide(timeout), .. } = held.state else {
        return false;
    };
    matches!(stage, Stage::Draining | Stage::Cancelling) && receiver.may_bring(now + timeout)
}
