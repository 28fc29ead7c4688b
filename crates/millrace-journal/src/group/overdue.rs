//! Ages of waits for a commit, and their end.
//!
//! Nothing is noted of a single append: its group knows when it got its first batch. While a commit
//! hangs, the group behind it would gather for as long, early and late batches alike; so it is
//! closed by the second look, and batches of one group are no more than two pauses apart.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::GroupCommit;
use crate::error::Unavailable;
use crate::position::Ticket;

/// Looks at what waits, within the time that an append may wait.
const LOOKS_PER_LIMIT: u32 = 16;

impl GroupCommit {
    /// The [outcome](GroupCommit::outcome) for a client that waits: `NotSettled` once its append is
    /// overdue, though that may still be committed.
    #[must_use]
    pub fn outcome_in_time(&self, ticket: Ticket) -> Option<Result<(), Unavailable>> {
        let outcome = self.outcome(ticket);
        if outcome.is_some() || self.overdue.load(Ordering::Acquire) < ticket.0 {
            return outcome;
        }
        let limit_s = self.options.settle_limit.as_secs_f32();
        let reason = format!("not settled within {limit_s} s");
        Some(Err(Unavailable::NotSettled(reason.into())))
    }

    /// The pause between two calls of [`GroupCommit::end_overdue_waits`].
    #[must_use]
    pub fn overdue_pause(&self) -> Duration {
        self.options.settle_limit / LOOKS_PER_LIMIT
    }

    /// Gives up the waits for appends that have waited for longer than
    /// [`GroupOptions::settle_limit`](super::GroupOptions::settle_limit), and by up to three pauses
    /// more. Their commits go on. To be called by threads that wait for no disk.
    pub fn end_overdue_waits(&self) {
        let (now, pause) = (self.journal.now(), self.overdue_pause());
        let before = |age: Duration| now.checked_sub(age);
        let mut gather = self.lock_gather();
        if before(pause).is_some_and(|time| gather.is_begun_by(time)) {
            gather.close();
        }
        // The latest batch of a group may have come two pauses after the first.
        let overdue = before(self.options.settle_limit + 2 * pause)
            .and_then(|time| gather.latest_begun_by(time));
        drop(gather);
        if let Some(number) = overdue
            && self.overdue.fetch_max(number, Ordering::Release) < number
        {
            self.tell();
        }
    }

    /// Age of the oldest group that waits for its commit. None if nothing waits.
    #[must_use]
    pub fn oldest_unsettled(&self) -> Option<Duration> {
        let begun_at = self.lock_gather().oldest_begun_at()?;
        Some(self.journal.now().saturating_sub(begun_at))
    }

    /// Returns true if a commit has waited for longer than clients wait.
    #[must_use]
    pub fn is_stalled(&self) -> bool {
        self.oldest_unsettled().is_some_and(|age| age > self.options.settle_limit)
    }

    /// Time since the latest commit. None if there was none since the journal was opened.
    #[must_use]
    pub fn last_settled(&self) -> Option<Duration> {
        let settled_at = self.lock_gather().settled_at()?;
        Some(self.journal.now().saturating_sub(settled_at))
    }
}
