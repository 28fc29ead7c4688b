//! What clients do with receipt handles, old and new: delete and change visibility.

use std::sync::Arc;

use millrace_broker::{BrokerError, Handle, Kind, SharedQueue};
use millrace_core::limits;

use crate::executor::Output;
use crate::model::{Change, QueueModel, State};
use crate::world::{Held, Step, World};

/// What an entry of a batch should answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Done,
    HandleExpired,
    NotAvailable,
    BeyondVisibilityLimit,
}

impl World {
    pub(crate) fn delete(&mut self) -> Step {
        let Some((queue, held)) = self.some_handles()? else { return Ok(()) };
        let (id, now) = (queue.id().0, self.now());
        self.oracle.live.tick(now);
        let Some(mut model) = self.oracle.live.queues.get(&id).cloned() else { return Ok(()) };
        let handles: Vec<Handle> = held.iter().map(|held| held.handle).collect();
        if self.profile.awaits_answers {
            return self.delete_and_wait(&queue, model, &held);
        }
        let outcome = queue.begin_delete(&handles);
        let name = queue.key().name.clone();
        let (outcomes, ticket) = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                self.note(format!("delete in {name}: {error}"));
                return self.check_refusal(&error);
            }
        };
        let mut deleted = Vec::new();
        let mut told = Vec::new();
        for (held, outcome) in held.iter().zip(&outcomes) {
            let wanted = delete_one(&mut model, &held.handle, &mut deleted);
            check_verdict(outcome, wanted, &held.handle)?;
            told.extend((wanted == Verdict::Done).then_some(held));
        }
        self.note(format!("delete in {name}: {deleted:x?}"));
        let has_deleted = !deleted.is_empty();
        let change = Change::Deleted { queue: id, seqs: deleted };
        self.record_told(id, ticket, has_deleted.then_some(change))?;
        self.confirmed.delete(told.into_iter(), ticket);
        self.compare_queue(id)
    }

    /// A delete by its future, which resolves later.
    fn delete_and_wait(
        &mut self,
        queue: &Arc<SharedQueue>,
        mut model: QueueModel,
        held: &[Held],
    ) -> Step {
        let mut deleted = Vec::new();
        let handles: Vec<Handle> = held.iter().map(|held| held.handle).collect();
        let judge = |handle: &Handle| delete_one(&mut model, handle, &mut deleted);
        let wanted: Vec<Verdict> = handles.iter().map(judge).collect();
        let entries = held.iter().zip(&wanted);
        let done = entries.filter(|(_, wanted)| **wanted == Verdict::Done);
        let told: Vec<&Held> = done.map(|(held, _)| held).collect();
        let shared = Arc::clone(queue);
        let delete = async move {
            let outcomes = shared.delete(&handles).await;
            Output::Done(outcomes.and_then(|outcomes| {
                let mut entries = handles.iter().zip(&outcomes).zip(wanted);
                let checked = entries
                    .try_for_each(|((handle, got), wanted)| check_verdict(got, wanted, handle));
                checked.map_err(BrokerError::Internal)
            }))
        };
        let id = queue.id().0;
        let mut is_accepted = false;
        self.begin_told("delete", queue, delete, |world| {
            is_accepted = true;
            world.note(format!("delete in {id:#x}: {deleted:x?}"));
            let is_any = !deleted.is_empty();
            Ok(is_any.then_some(Change::Deleted { queue: id, seqs: deleted }))
        })?;
        if is_accepted {
            // When it resolves, or a little later.
            let ticket = self.mark()?.ticket;
            self.confirmed.delete(told.into_iter(), Some(ticket));
        }
        Ok(())
    }

    pub(crate) fn change_visibility(&mut self) -> Step {
        let Some((queue, held)) = self.some_handles()? else { return Ok(()) };
        let (id, now) = (queue.id().0, self.now());
        self.oracle.live.tick(now);
        let Some(mut model) = self.oracle.live.queues.get(&id).cloned() else { return Ok(()) };
        let changes: Vec<(Handle, u32)> = held
            .iter()
            .map(|held| (held.handle, self.random.pick(&[0, 0, 1, 30, 600, 43_200])))
            .collect();
        let outcome = queue.begin_change_visibility(&changes);
        let name = queue.key().name.clone();
        let (outcomes, ticket) = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                self.note(format!("change visibility in {name}: {error}"));
                return self.check_refusal(&error);
            }
        };
        let mut changed = Vec::new();
        for ((handle, timeout_s), outcome) in changes.iter().zip(&outcomes) {
            let wanted = change_one(&mut model, now, handle, *timeout_s, &mut changed);
            check_verdict(outcome, wanted, handle)?;
        }
        self.note(format!("change visibility in {name}: {changed:x?}"));
        let has_changed = !changed.is_empty();
        let change = Change::Visibility { queue: id, changes: changed };
        self.record_told(id, ticket, has_changed.then_some(change))?;
        self.compare_queue(id)
    }
}

fn delete_one(model: &mut QueueModel, handle: &Handle, deleted: &mut Vec<u64>) -> Verdict {
    let Some(message) = model.messages.get(&handle.seq) else { return Verdict::Done };
    let is_current = message.is_in_flight() && message.receive_count == handle.receive_count;
    if model.kind() == Kind::Fifo && !is_current {
        return Verdict::HandleExpired;
    }
    model.messages.remove(&handle.seq);
    deleted.push(handle.seq);
    Verdict::Done
}

fn change_one(
    model: &mut QueueModel,
    now: u64,
    handle: &Handle,
    timeout_s: u32,
    changed: &mut Vec<(u64, u64)>,
) -> Verdict {
    let is_standard = model.kind() == Kind::Standard;
    let Some(message) = model.messages.get_mut(&handle.seq) else { return Verdict::NotAvailable };
    let can_change = match message.state {
        State::InFlight(_) => true,
        State::Ready => is_standard,
        State::Delayed(_) => false,
    };
    // Standard queues take any handle of the message.
    let is_current = is_standard || message.receive_count == handle.receive_count;
    if !can_change || !is_current {
        return Verdict::NotAvailable;
    }
    let deadline = now + u64::from(timeout_s) * 1000;
    // When a receive was that is forgotten, or taken back, nobody knows.
    let is_known = message.receive_count >= handle.receive_count;
    let received = message.last_received.max(message.kept_from);
    let hidden_ms = deadline.saturating_sub(received);
    if is_known && hidden_ms > limits::VISIBILITY_TIMEOUT_S.end() * 1000 {
        return Verdict::BeyondVisibilityLimit;
    }
    message.state = if timeout_s == 0 { State::Ready } else { State::InFlight(deadline) };
    changed.push((handle.seq, deadline));
    Verdict::Done
}

fn check_verdict(
    outcome: &Result<(), BrokerError>,
    wanted: Verdict,
    handle: &Handle,
) -> Result<(), String> {
    let verdict = match outcome {
        Ok(()) => Verdict::Done,
        Err(BrokerError::HandleExpired) => Verdict::HandleExpired,
        Err(BrokerError::NotAvailable) => Verdict::NotAvailable,
        Err(BrokerError::BeyondVisibilityLimit) => Verdict::BeyondVisibilityLimit,
        Err(error) => return Err(format!("{handle:?}: {error}")),
    };
    if verdict != wanted {
        return Err(format!("{handle:?}: {verdict:?}, should be {wanted:?}"));
    }
    Ok(())
}
