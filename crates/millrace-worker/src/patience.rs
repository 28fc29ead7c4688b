//! How long the answer to a receive is waited for, beyond the time that the receive itself waits.
//!
//! Giving up costs more than time: what the server has given out by then stays hidden, and has lost
//! one of its receives. A server that is only slow would lose message after message that way, until
//! each is a dead letter that no handler has met. So after a receive without an answer the next one
//! is given longer. What is longer than the lease lasts is of no use, so it waits for messages that
//! much less. When answers come sooner, it is step by step as before.

use std::time::Duration;

use tokio::time::Instant;

/// Of a receive when all is well: after a fail-over its connection may be dead without a sign.
const ANSWER: Duration = Duration::from_secs(10);
/// A worker that waits for longer cannot be told from one that hangs.
const LONGEST_ANSWER: Duration = Duration::from_secs(60);
/// Doublings from the one to the other.
const STEPS_MAX: u32 = 3;
/// The shortest wait that is still a long poll.
const SHORTEST_WAIT: Duration = Duration::from_secs(1);

/// What is known of how slow the server is.
#[derive(Debug)]
pub(crate) struct Patience {
    visibility_timeout: Duration,
    /// Doublings.
    steps: u32,
    /// When a receive was last given up.
    gave_up: Option<Instant>,
}

impl Patience {
    pub(crate) fn new(visibility_timeout: Duration) -> Patience {
        Patience { visibility_timeout, steps: 0, gave_up: None }
    }

    /// How long an answer may take beyond the wait asked for.
    pub(crate) fn answer(&self) -> Duration {
        self.answer_after(self.steps)
    }

    /// How long a receive may wait for messages. A lease counts from the moment that its receive
    /// was sent: something must be left of it when a message comes at the end of the wait. Whole
    /// seconds, as SQS takes them.
    pub(crate) fn longest_wait(&self) -> Duration {
        let usual = self.visibility_timeout.as_secs().saturating_mul(2) / 3;
        if self.steps == 0 {
            return Duration::from_secs(usual);
        }
        let left = self.visibility_timeout.saturating_sub(self.answer()).max(SHORTEST_WAIT);
        Duration::from_secs(usual.min(left.as_secs()))
    }

    /// A receive was answered so much later than it was to wait.
    pub(crate) fn on_answer(&mut self, late: Duration) {
        // Not if it could fail again soon.
        if self.steps > 0 && late < self.answer_after(self.steps - 1) / 2 {
            self.steps -= 1;
        }
    }

    /// A receive that was sent then failed so much later than it was to wait.
    pub(crate) fn on_failure(&mut self, sent: Instant, late: Duration, now: Instant) {
        // Receives that were under way together are given up together: that counts once.
        if late < ANSWER || self.gave_up.is_some_and(|at| sent < at) {
            return;
        }
        self.gave_up = Some(now);
        self.steps = (self.steps + 1).min(STEPS_MAX);
    }

    fn answer_after(&self, steps: u32) -> Duration {
        let useful = self.visibility_timeout - self.visibility_timeout / 6;
        (ANSWER * 2_u32.pow(steps)).min(LONGEST_ANSWER).min(useful).max(ANSWER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    /// Waits and answers in seconds, after each of some receives without an answer.
    fn after_failures(visibility_timeout: Duration) -> Vec<(u64, u64)> {
        let mut patience = Patience::new(visibility_timeout);
        let mut now = Instant::now();
        let mut seen = Vec::new();
        for _ in 0..5 {
            seen.push((patience.longest_wait().as_secs(), patience.answer().as_secs()));
            let sent = now;
            now += 100 * S;
            patience.on_failure(sent, patience.answer(), now);
        }
        seen
    }

    #[test]
    fn answers_get_more_time_and_messages_less_within_the_lease() {
        assert_eq!(after_failures(30 * S), [(20, 10), (10, 20), (5, 25), (5, 25), (5, 25)]);
        let five_minutes = [(200, 10), (200, 20), (200, 40), (200, 60), (200, 60)];
        assert_eq!(after_failures(300 * S), five_minutes);
        assert_eq!(after_failures(3 * S)[..2], [(2, 10), (1, 10)]);
        assert_eq!(after_failures(Duration::MAX)[3].1, 60);
    }

    #[test]
    fn receives_given_up_together_count_once_and_other_failures_not_at_all() {
        let mut patience = Patience::new(30 * S);
        let sent = Instant::now();

        patience.on_failure(sent, ANSWER - S, sent + 29 * S);
        assert_eq!(patience.answer(), ANSWER);
        for _ in 0..3 {
            patience.on_failure(sent, ANSWER, sent + 30 * S);
        }

        assert_eq!(patience.answer(), 2 * ANSWER);
    }

    #[test]
    fn quick_answers_bring_back_what_was_and_slow_ones_do_not() {
        let mut patience = Patience::new(300 * S);
        let sent = Instant::now();
        patience.on_failure(sent, ANSWER, sent + 30 * S);
        patience.on_failure(sent + 30 * S, 2 * ANSWER, sent + 70 * S);

        patience.on_answer(12 * S);
        assert_eq!(patience.answer(), 4 * ANSWER);
        patience.on_answer(7 * S);
        assert_eq!(patience.answer(), 2 * ANSWER);
        patience.on_answer(7 * S);
        assert_eq!(patience.answer(), 2 * ANSWER);
        patience.on_answer(S);
        assert_eq!(patience.answer(), ANSWER);
    }
}
