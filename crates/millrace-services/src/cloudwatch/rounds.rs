//! The evaluation of alarms, account by account and a batch at a time: an account whose alarms take
//! long delays no other's.
//!
//! A round of an account evaluates those of its alarms that are due, then does what is owed. It
//! runs among the jobs of the account's clients. While one is under way no other begins.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millrace_broker::BrokerError;
use millrace_core::Timestamp;
use millrace_metrics::Interrupt;
use millrace_metrics::alarm::Alarm;
use tokio::sync::oneshot;

use super::alarms::lock;
use super::evaluate::{due, evaluate_batch};
use super::jobs::Place;
use super::monitor::{Read, Shared, caught};

/// Actions that are done before others get their turn.
const ACTIONS_PER_TURN: usize = 100;

/// Which rounds are under way.
#[derive(Default)]
pub(super) struct Rounds(Mutex<State>);

#[derive(Default)]
struct State {
    under_way: HashSet<String>,
    /// When the latest round of an account began.
    since: HashMap<String, Timestamp>,
    /// Who is to be told when none is under way.
    waiting: Vec<oneshot::Sender<()>>,
}

/// The round of an account.
pub(super) struct Round {
    shared: Arc<Shared>,
    account: String,
    now: Timestamp,
    /// None: to be found out.
    left: Option<Vec<Alarm>>,
    has_changed: bool,
    /// What is owed up to this one was done, or has to wait.
    acted_until: u64,
}

impl Rounds {
    /// Begins a round of each account that has alarms, or for which something is still to be done.
    pub(super) fn begin(shared: &Arc<Shared>, now: Timestamp) {
        let accounts: BTreeSet<String> = {
            let book = lock(&shared.actions.book);
            let accounts = book.scopes().map(|scope| scope.account.as_str()).chain(book.owing());
            accounts.map(str::to_owned).collect()
        };
        let mut state = shared.rounds.state();
        state.since.retain(|account, _| accounts.contains(account));
        let begun: Vec<String> =
            accounts.into_iter().filter(|account| !state.under_way.contains(account)).collect();
        state.under_way.extend(begun.iter().cloned());
        drop(state);
        for account in begun {
            let round = Round {
                shared: shared.clone(),
                account,
                now,
                left: None,
                has_changed: false,
                acted_until: 0,
            };
            round.go_on(Place::First);
        }
    }

    /// Tells `reply` when no round is under way any more.
    pub(super) fn notify(&self, reply: oneshot::Sender<()>) {
        let mut state = self.state();
        if state.under_way.is_empty() {
            drop(state);
            let _ = reply.send(());
            return;
        }
        state.waiting.push(reply);
    }

    fn end(&self, account: &str) {
        let mut state = self.state();
        state.under_way.remove(account);
        if state.under_way.is_empty() {
            let waiting = std::mem::take(&mut state.waiting);
            drop(state);
            for reply in waiting {
                let _ = reply.send(());
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Round {
    /// Has the next part of it run when it is the account's turn.
    fn go_on(self, place: Place) {
        let (shared, account) = (self.shared.clone(), self.account.clone());
        shared.reads.add_own(&account, place, |interrupt| {
            let interrupt = interrupt.clone();
            Read::Own(Box::new(move || self.run(&interrupt)))
        });
    }

    fn run(mut self, interrupt: &Interrupt) {
        let part = caught("the evaluation of alarms", || self.part(interrupt));
        match part {
            Ok(true) if !self.shared.reads.is_closed() => self.go_on(Place::Second),
            _ => self.shared.rounds.end(&self.account),
        }
    }

    /// Says whether there is more to do.
    fn part(&mut self, interrupt: &Interrupt) -> bool {
        let Shared { store, actions, reads, .. } = &*self.shared;
        let mut left = match self.left.take() {
            Some(left) => left,
            None => self.due(),
        };
        if !reads.is_closed() {
            self.has_changed |=
                evaluate_batch(store, &actions.book, &mut left, (interrupt, self.now));
            if !left.is_empty() {
                self.left = Some(left);
                return true;
            }
        }
        self.left = Some(Vec::new());
        let acted = self.act();
        acted.unwrap_or_else(|error| {
            tracing::error!(%error, "states and actions of alarms are not durable");
            false
        })
    }

    fn due(&self) -> Vec<Alarm> {
        let since = self.shared.rounds.state().since.insert(self.account.clone(), self.now);
        due(&self.shared.actions.book, &self.account, since, self.now)
    }

    /// Does some of what is owed, once that is durable. Says whether there is more.
    fn act(&mut self) -> Result<bool, BrokerError> {
        let actions = &self.shared.actions;
        let mut owed =
            lock(&actions.book).owed(&self.account, self.acted_until, ACTIONS_PER_TURN + 1);
        let has_more = owed.len() > ACTIONS_PER_TURN;
        owed.truncate(ACTIONS_PER_TURN);
        if self.has_changed || !owed.is_empty() {
            actions.commit()?;
            actions.act(&owed);
        }
        self.acted_until = owed.last().map_or(self.acted_until, |last| last.id);
        Ok(has_more)
    }
}
