//! Delivery statuses of the latest messages of push queues at each subscriber. In memory and bounded:
//! the oldest are forgotten first, and a restart forgets all. What is still to be delivered can be
//! found in the hidden queues without it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use millrace_broker::SlotSeq;
use millrace_core::{QueueId, Timestamp};

/// Subscribers of all remembered messages together.
const STATUSES_MAX: usize = 20_000;
/// Of an error's text.
const TEXT_CHARS: usize = 200;

/// All that is remembered.
#[derive(Debug, Default)]
pub(super) struct Statuses(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// By the push queue and the message's id, then by subscriber.
    messages: HashMap<(QueueId, String), Vec<Status>>,
    order: VecDeque<(QueueId, String)>,
    held: usize,
}

/// A message and one subscriber.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::ironmq) struct Status {
    pub name: Arc<str>,
    pub url: String,
    pub tries: u32,
    /// Of the latest answer, if there was one.
    pub status_code: Option<u16>,
    pub last_try_at: Option<Timestamp>,
    pub stage: Stage,
    /// Reason for the latest failure.
    pub text: String,
    /// Place of the waiting message.
    pub at: Option<(QueueId, SlotSeq)>,
}

/// Progress of a delivery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::ironmq) enum Stage {
    #[default]
    Queued,
    /// An attempt is under way, or the subscriber has taken the message and not acknowledged it.
    Reserved,
    Retrying,
    /// Delivered.
    Deleted,
    Error,
}

impl Stage {
    /// The message is still to be delivered.
    pub(in crate::ironmq) fn is_pending(self) -> bool {
        !matches!(self, Stage::Deleted | Stage::Error)
    }

    pub(in crate::ironmq) fn name(self) -> &'static str {
        match self {
            Stage::Queued => "queued",
            Stage::Reserved => "reserved",
            Stage::Retrying => "retrying",
            Stage::Deleted => "deleted",
            Stage::Error => "error",
        }
    }
}

impl Status {
    pub(in crate::ironmq) fn new(name: &str) -> Status {
        Status {
            name: name.into(),
            url: String::new(),
            tries: 0,
            status_code: None,
            last_try_at: None,
            stage: Stage::Queued,
            text: String::new(),
            at: None,
        }
    }

    pub(super) fn set_text(&mut self, text: &str) {
        self.text = text.chars().take(TEXT_CHARS).collect();
    }
}

impl Statuses {
    /// The remembered statuses of a message.
    pub(super) fn of(&self, queue: QueueId, id: &str) -> Vec<Status> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.messages.get(&(queue, id.to_owned())).cloned().unwrap_or_default()
    }

    /// A message is no longer to be delivered, to one subscriber or to all.
    pub(super) fn end(&self, (queue, id): (QueueId, &str), subscriber: Option<&str>, as_: Stage) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let statuses = state.messages.get_mut(&(queue, id.to_owned()));
        for status in statuses.into_iter().flatten() {
            let is_meant = subscriber.is_none_or(|subscriber| subscriber == &*status.name);
            if is_meant && status.stage.is_pending() {
                status.stage = as_;
            }
        }
    }

    /// Changes the status at one subscriber, a new one if there is none.
    pub(super) fn change(
        &self,
        (queue, id): (QueueId, &str),
        subscriber: &str,
        change: impl FnOnce(&mut Status),
    ) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (queue, id.to_owned());
        let State { messages, order, held } = &mut *state;
        let statuses = messages.entry(key.clone()).or_insert_with(|| {
            order.push_back(key);
            Vec::new()
        });
        match statuses.iter_mut().find(|status| *status.name == *subscriber) {
            Some(status) => change(status),
            None => {
                let mut status = Status::new(subscriber);
                change(&mut status);
                statuses.push(status);
                *held += 1;
            }
        }
        while *held > STATUSES_MAX
            && order.len() > 1
            && let Some(oldest) = order.pop_front()
        {
            *held -= messages.remove(&oldest).map_or(0, |statuses| statuses.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_forgotten_first() {
        let statuses = Statuses::default();
        let queue = QueueId(1);
        for number in 0..STATUSES_MAX / 2 + 1 {
            let id = number.to_string();
            for subscriber in ["a", "b"] {
                statuses.change((queue, &id), subscriber, |it| it.tries += 1);
            }
        }

        assert_eq!(statuses.of(queue, "0"), []);
        let latest = statuses.of(queue, "1");
        assert_eq!(
            latest.iter().map(|it| (&*it.name, it.tries)).collect::<Vec<_>>(),
            [("a", 1), ("b", 1)]
        );
        statuses.end((queue, "1"), Some("a"), Stage::Error);
        statuses.end((queue, "1"), None, Stage::Deleted);
        let stages: Vec<_> = statuses.of(queue, "1").iter().map(|it| it.stage.name()).collect();
        assert_eq!(stages, ["error", "deleted"]);
        assert_eq!(statuses.of(QueueId(2), "1"), []);
        let state = statuses.0.lock().unwrap();
        assert_eq!((state.held, state.order.len()), (STATUSES_MAX, STATUSES_MAX / 2));
    }
}
