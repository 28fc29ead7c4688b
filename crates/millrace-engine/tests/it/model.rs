//! Queues as vectors: slow, obvious, without lists, timers or slots.
//!
//! What the rules leave open (order on standard queues, turns between groups) the model takes from
//! the engine and checks that it was allowed; all else it predicts.

use std::collections::HashMap;

use millrace_engine::{Counts, Kind, MessageState, Receive, ReceiveError, Redrive, Settings};

use crate::harness::Outcome;

const WINDOW_MS: u64 = 300_000;
const TWELVE_HOURS_MS: u64 = 43_200_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Ready,
    Delayed(u64),
    InFlight(u64),
}

#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) name: String,
    pub(crate) group: Option<String>,
    /// When retention began.
    pub(crate) enqueued: u64,
    pub(crate) sent: u64,
    pub(crate) first_received: u64,
    last_received: u64,
    pub(crate) receives: u32,
    /// From the queue that it is in.
    was_received: bool,
    pub(crate) state: State,
    /// The queue that it was dead-lettered from.
    pub(crate) source: Option<usize>,
}

#[derive(Clone, Debug)]
struct Attempt {
    expires: u64,
    /// Name, receives, deadline.
    given: Vec<(String, u32, u64)>,
}

#[derive(Debug)]
pub(crate) struct ModelQueue {
    pub(crate) settings: Settings,
    /// In the order of arrival.
    pub(crate) messages: Vec<Message>,
    /// Key, expiry, name of the first.
    remembered: Vec<(String, u64, String)>,
    attempts: HashMap<u128, Attempt>,
}

/// A receipt: queue, message, which of its receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Handle {
    pub(crate) queue: usize,
    pub(crate) name: String,
    pub(crate) receives: u32,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Visibility {
    Changed,
    NotAvailable,
    BeyondLimit,
}

#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) queues: Vec<ModelQueue>,
}

impl ModelQueue {
    pub(crate) fn new(settings: Settings) -> ModelQueue {
        let attempts = HashMap::new();
        ModelQueue { settings, messages: Vec::new(), remembered: Vec::new(), attempts }
    }

    fn is_fifo(&self) -> bool {
        self.settings.kind == Kind::Fifo
    }

    pub(crate) fn tick(&mut self, now: u64) {
        let retention_ms = u64::from(self.settings.retention_s) * 1000;
        self.messages.retain(|message| message.enqueued + retention_ms > now);
        for message in &mut self.messages {
            match message.state {
                State::Delayed(until) | State::InFlight(until) if until <= now => {
                    message.state = State::Ready;
                }
                _ => {}
            }
        }
        self.remembered.retain(|(_, expires, _)| *expires > now);
    }

    /// The earlier send's name if this one repeats it.
    pub(crate) fn send(
        &mut self,
        now: u64,
        name: &str,
        group: Option<&str>,
        dedup: Option<&str>,
        delay_s: Option<u32>,
    ) -> Option<String> {
        if let Some(key) = dedup {
            let earlier = self.remembered.iter().find(|(known, ..)| known == key);
            if let Some((_, _, first)) = earlier {
                return Some(first.clone());
            }
            self.remembered.push((key.to_owned(), now + WINDOW_MS, name.to_owned()));
        }
        let delay_s = delay_s.filter(|_| !self.is_fifo()).unwrap_or(self.settings.delay_s);
        let until = now + u64::from(delay_s) * 1000;
        self.messages.push(Message {
            name: name.to_owned(),
            group: group.map(str::to_owned),
            enqueued: now,
            sent: now,
            first_received: 0,
            last_received: 0,
            receives: 0,
            was_received: false,
            state: if delay_s == 0 { State::Ready } else { State::Delayed(until) },
            source: None,
        });
        None
    }

    pub(crate) fn purge(&mut self) {
        self.messages.clear();
        self.remembered.clear();
        self.attempts.clear();
    }

    pub(crate) fn set(&mut self, now: u64, settings: Settings) {
        let has_new_delay = settings.delay_s != self.settings.delay_s;
        self.settings = settings;
        if has_new_delay && self.is_fifo() {
            let delay_ms = u64::from(self.settings.delay_s) * 1000;
            let is_new = |message: &&mut Message| !message.was_received && message.source.is_none();
            for message in self.messages.iter_mut().filter(is_new) {
                let until = message.enqueued + delay_ms;
                message.state = if until > now { State::Delayed(until) } else { State::Ready };
            }
        }
    }

    pub(crate) fn delete(&mut self, handle: &Handle) -> Result<bool, ()> {
        let Some(at) = self.at(&handle.name) else { return Ok(false) };
        let message = &self.messages[at];
        let is_in_flight = matches!(message.state, State::InFlight(_));
        if self.is_fifo() && !(is_in_flight && message.receives == handle.receives) {
            return Err(());
        }
        self.messages.remove(at);
        Ok(true)
    }

    pub(crate) fn change_visibility(&mut self, now: u64, handle: &Handle, s: u32) -> Visibility {
        let is_fifo = self.is_fifo();
        let Some(at) = self.at(&handle.name) else { return Visibility::NotAvailable };
        let message = &mut self.messages[at];
        let is_hidden = matches!(message.state, State::InFlight(_));
        if is_fifo && !(is_hidden && message.receives == handle.receives) {
            return Visibility::NotAvailable;
        }
        let until = now + u64::from(s) * 1000;
        // A crash may have forgotten later receives of a standard queue.
        let is_known = message.receives >= handle.receives;
        if is_known && until - message.last_received > TWELVE_HOURS_MS {
            return Visibility::BeyondLimit;
        }
        message.state = if s == 0 { State::Ready } else { State::InFlight(until) };
        Visibility::Changed
    }

    pub(crate) fn give_back(&mut self, handles: &[Handle]) -> Vec<String> {
        let mut returned = Vec::new();
        for handle in handles {
            let Some(at) = self.at(&handle.name) else { continue };
            let message = &mut self.messages[at];
            let is_hidden = matches!(message.state, State::InFlight(_));
            if is_hidden && message.receives == handle.receives {
                message.receives -= 1;
                message.state = State::Ready;
                returned.push(handle.name.clone());
            }
        }
        returned
    }

    pub(crate) fn forget_attempts(&mut self) {
        self.attempts.clear();
    }

    pub(crate) fn counts(&self) -> Counts {
        let count = |is: fn(&State) -> bool| {
            self.messages.iter().filter(|message| is(&message.state)).count() as u64
        };
        Counts {
            ready: count(|state| matches!(state, State::Ready)),
            delayed: count(|state| matches!(state, State::Delayed(_))),
            in_flight: count(|state| matches!(state, State::InFlight(_))),
        }
    }

    pub(crate) fn next_deadline(&self) -> u64 {
        let retention_ms = u64::from(self.settings.retention_s) * 1000;
        let due = self.messages.iter().flat_map(|message| {
            let timer = match message.state {
                State::Ready => None,
                State::Delayed(until) | State::InFlight(until) => Some(until),
            };
            timer.into_iter().chain([message.enqueued + retention_ms])
        });
        due.chain(self.remembered.iter().map(|(_, expires, _)| *expires)).min().unwrap_or(u64::MAX)
    }

    pub(crate) fn at(&self, name: &str) -> Option<usize> {
        self.messages.iter().position(|message| message.name == name)
    }

    fn is_ready(&self, name: &str) -> bool {
        self.at(name).is_some_and(|at| self.messages[at].state == State::Ready)
    }

    fn is_poison(&self, message: &Message, has_target: bool) -> bool {
        let redrive = self.settings.redrive.as_ref().filter(|_| has_target);
        let is_too_often = |redrive: &Redrive| message.receives >= redrive.max_receive_count;
        message.was_received && redrive.is_some_and(is_too_often)
    }
}

impl Model {
    /// Checks what a receive did and does it. `is_reluctant`: dead letters may have stopped it.
    pub(crate) fn receive(
        &mut self,
        now: u64,
        queue: usize,
        target: Option<usize>,
        receive: &Receive,
        is_reluctant: bool,
        result: &Result<Outcome, ReceiveError>,
    ) {
        let model = &mut self.queues[queue];
        let timeout_s = receive.visibility_timeout_s.unwrap_or(model.settings.visibility_timeout_s);
        let deadline = now + u64::from(timeout_s) * 1000;
        if let Some(given) =
            receive.attempt.and_then(|key| model.valid_attempt(key, now, receive.max))
        {
            let outcome = result.as_ref().expect("a repeated attempt is answered");
            assert!(outcome.is_repeated, "attempt was not repeated");
            let names: Vec<_> = given.iter().map(|(name, receives, _)| (name, *receives)).collect();
            assert_eq!(names, names_and_counts(outcome), "the same messages and handles");
            model.hide_again(&given, deadline, now);
            let given = given.iter().map(|(n, r, _)| (n.clone(), *r, deadline)).collect();
            let key = receive.attempt.expect("an attempt");
            model.attempts.insert(key, Attempt { expires: now + WINDOW_MS, given });
            return;
        }
        let room = receive.in_flight_limit.saturating_sub(model.counts().in_flight);
        if room == 0 {
            assert_eq!(result.as_ref().err(), Some(&ReceiveError::OverLimit));
            return;
        }
        let outcome = result.as_ref().expect("there is room");
        assert!(!outcome.is_repeated, "attempt was repeated against the rules");
        let wanted = receive.max.min(room as usize);
        assert!(outcome.receipts.len() <= wanted, "more than wanted");
        model.check_members(outcome, target.is_some());
        let is_short = outcome.receipts.len() < wanted;
        match model.is_fifo() {
            true => model.check_order(outcome),
            false => model.check_fairness(outcome),
        }
        let may_stop = is_reluctant
            && model
                .messages
                .iter()
                .any(|m| m.state == State::Ready && model.is_poison(m, target.is_some()));
        if is_short && !may_stop {
            model.check_nothing_withheld(outcome);
        }
        self.apply(now, queue, target, receive, deadline, outcome);
    }

    fn apply(
        &mut self,
        now: u64,
        queue: usize,
        target: Option<usize>,
        receive: &Receive,
        deadline: u64,
        outcome: &Outcome,
    ) {
        for name in &outcome.moved {
            let source = &mut self.queues[queue];
            let at = source.at(name).expect("checked");
            let mut message = source.messages.remove(at);
            message.source = Some(queue);
            message.was_received = false;
            message.state = State::Ready;
            let target = &mut self.queues[target.expect("moved to a queue")];
            if target.is_fifo() {
                message.enqueued = now;
            }
            target.messages.push(message);
        }
        let model = &mut self.queues[queue];
        let mut given = Vec::new();
        for receipt in &outcome.receipts {
            let at = model.at(&receipt.name).expect("checked");
            let message = &mut model.messages[at];
            if message.receives == 0 {
                message.first_received = now;
            }
            message.receives += 1;
            message.last_received = now;
            message.was_received = true;
            message.state = if deadline > now { State::InFlight(deadline) } else { State::Ready };
            assert_eq!(receipt.delivery.receive_count, message.receives, "receive count");
            assert_eq!(receipt.delivery.sent.0, message.sent, "sent");
            assert_eq!(receipt.delivery.first_received.0, message.first_received, "first");
            assert_eq!(receipt.delivery.group.as_deref(), message.group.as_deref(), "group");
            given.push((receipt.name.clone(), message.receives, deadline));
        }
        if let Some(key) = receive.attempt.filter(|_| !given.is_empty()) {
            model.attempts.insert(key, Attempt { expires: now + WINDOW_MS, given });
        }
    }
}

impl ModelQueue {
    fn valid_attempt(&self, key: u128, now: u64, max: usize) -> Option<Vec<(String, u32, u64)>> {
        let is_valid = |attempt: &&Attempt| attempt.expires > now && attempt.given.len() <= max;
        let attempt = self.attempts.get(&key).filter(is_valid)?;
        let is_unchanged = |(name, receives, deadline): &(String, u32, u64)| {
            self.at(name).is_some_and(|at| {
                let message = &self.messages[at];
                message.receives == *receives && message.state == State::InFlight(*deadline)
            })
        };
        attempt.given.iter().all(is_unchanged).then(|| attempt.given.clone())
    }

    fn hide_again(&mut self, given: &[(String, u32, u64)], deadline: u64, now: u64) {
        for (name, ..) in given {
            let at = self.at(name).expect("checked");
            let is_hidden = deadline > now;
            self.messages[at].state =
                if is_hidden { State::InFlight(deadline) } else { State::Ready };
        }
    }

    /// All were ready, each is there once, and only those received too often are moved.
    fn check_members(&self, outcome: &Outcome, has_target: bool) {
        let delivered = outcome.receipts.iter().map(|receipt| (&receipt.name, false));
        let moved = outcome.moved.iter().map(|name| (name, true));
        let mut seen = Vec::new();
        for (name, is_moved) in delivered.chain(moved) {
            assert!(!seen.contains(&name), "{name} was taken twice");
            seen.push(name);
            assert!(self.is_ready(name), "{name} was not ready");
            let message = &self.messages[self.at(name).expect("ready")];
            assert_eq!(self.is_poison(message, has_target), is_moved, "{name} received too often");
        }
    }

    /// Every message is the first of its group that is not taken yet, and a group is left only
    /// when it has nothing more to give.
    fn check_order(&self, outcome: &Outcome) {
        let is_moved = |name: &String| outcome.moved.contains(name);
        let mut taken: Vec<&String> = Vec::new();
        let mut last: Option<&Message> = None;
        for receipt in &outcome.receipts {
            let message = &self.messages[self.at(&receipt.name).expect("checked")];
            let first =
                self.first_of_group(&message.group, |name| taken.contains(&name) || is_moved(name));
            assert_eq!(first.map(|m| &m.name), Some(&receipt.name), "the group's order");
            if let Some(last) = last.filter(|last| last.group != message.group)
                && outcome.moved.is_empty()
            {
                let left = self.first_of_group(&last.group, |name| taken.contains(&name));
                assert!(left.is_none_or(|m| m.state != State::Ready), "a group was left early");
            }
            taken.push(&receipt.name);
            last = Some(message);
        }
        for name in &outcome.moved {
            let message = &self.messages[self.at(name).expect("checked")];
            let others = |other: &String| taken.contains(&other) || is_moved(other);
            let first = self.first_of_group(&message.group, |other| other != name && others(other));
            assert_eq!(first.map(|m| &m.name), Some(name), "moved in the group's order");
        }
    }

    /// Groups with 30 in flight or more come after those with fewer (by powers of two).
    fn check_fairness(&self, outcome: &Outcome) {
        let bucket = |group: &Option<String>, taken: &[&String]| match group {
            None => 0,
            Some(_) => {
                let is_in_flight = |message: &&Message| {
                    matches!(message.state, State::InFlight(_)) || taken.contains(&&message.name)
                };
                let members = self.messages.iter().filter(|message| message.group == *group);
                match members.filter(is_in_flight).count() {
                    ..30 => 0,
                    in_flight => in_flight.ilog2() + 1,
                }
            }
        };
        let mut taken: Vec<&String> = Vec::new();
        for receipt in &outcome.receipts {
            let message = &self.messages[self.at(&receipt.name).expect("checked")];
            let is_waiting = |other: &&Message| {
                other.state == State::Ready
                    && !taken.contains(&&other.name)
                    && !outcome.moved.contains(&other.name)
            };
            let waiting = self.messages.iter().filter(is_waiting);
            let fewest = waiting.map(|other| bucket(&other.group, &taken)).min();
            assert_eq!(fewest, Some(bucket(&message.group, &taken)), "{} is fair", message.name);
            taken.push(&receipt.name);
        }
    }

    fn check_nothing_withheld(&self, outcome: &Outcome) {
        let is_taken = |name: &String| {
            outcome.moved.contains(name) || outcome.receipts.iter().any(|r| r.name == *name)
        };
        for message in self.messages.iter().filter(|message| message.state == State::Ready) {
            let may_go = match self.is_fifo() {
                false => !is_taken(&message.name),
                true => {
                    let first = self.first_of_group(&message.group, is_taken);
                    first.is_some_and(|first| first.name == message.name)
                }
            };
            assert!(!may_go, "{} was withheld", message.name);
        }
    }

    fn first_of_group(
        &self,
        group: &Option<String>,
        is_taken: impl Fn(&String) -> bool,
    ) -> Option<&Message> {
        self.messages.iter().find(|m| m.group == *group && !is_taken(&m.name))
    }
}

fn names_and_counts(outcome: &Outcome) -> Vec<(&String, u32)> {
    outcome.receipts.iter().map(|r| (&r.name, r.handle.receive_count)).collect()
}

impl State {
    pub(crate) fn as_seen(self) -> (MessageState, Option<u64>) {
        match self {
            State::Ready => (MessageState::Ready, None),
            State::Delayed(until) => (MessageState::Delayed, Some(until)),
            State::InFlight(until) => (MessageState::InFlight, Some(until)),
        }
    }
}
