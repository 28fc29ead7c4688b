//! How long progress is waited for that does not come.
//!
//! A server that answers, and gives nothing, has nothing more: it gets [`PATIENCE`]. One that does
//! not answer at all may be in the middle of a stall, and that is what is measured: it gets as long
//! as a request may take, and when it goes on, the whole of [`PATIENCE`] again. One that lets
//! requests fail and none succeed is gone.

use std::time::{Duration, Instant};

use super::connection;

pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// Beyond the longest that a request takes when all is well.
const SLACK: Duration = Duration::from_secs(5);

pub(super) struct Patience {
    /// Progress and answers as they were last.
    last: (u64, u64),
    answered_at: Instant,
    /// When there was progress, or the server went on.
    since: Instant,
    /// Without an answer for so long it is silent.
    pause_max: Duration,
    silence_max: Duration,
}

impl Patience {
    /// Where receives wait for so many seconds, and clients send by so long an interval.
    pub(super) fn new(now: Instant, wait_s: u32, interval: Duration) -> Patience {
        let answer_max = Duration::from_secs(wait_s.into()) + SLACK;
        let silence_max = connection::TIMEOUT.max(answer_max) + SLACK + interval;
        let pause_max = answer_max + interval;
        Patience { last: (0, 0), answered_at: now, since: now, pause_max, silence_max }
    }

    /// From now on nobody is given more than [`PATIENCE`].
    pub(super) fn hurry(&mut self) {
        self.silence_max = PATIENCE;
    }

    /// Whether to wait on, with so much progress and so many answers so far.
    pub(super) fn lasts(&mut self, now: Instant, counts: (u64, u64)) -> bool {
        let (progress, answers) = counts;
        let is_silent = now.duration_since(self.answered_at) > self.pause_max;
        if answers != self.last.1 {
            if is_silent {
                self.since = now;
            }
            self.answered_at = now;
        }
        if progress != self.last.0 {
            self.since = now;
        }
        self.last = counts;
        let is_silent = now.duration_since(self.answered_at) > self.pause_max;
        let longest = if is_silent { self.silence_max } else { PATIENCE.max(self.pause_max) };
        now.duration_since(self.since) <= longest
    }
}

/// Finds out that the server is gone: requests fail, and none has succeeded for long. One
/// that is only silent may be in the middle of a stall.
pub(super) struct Vitals {
    succeeded: u64,
    /// Those that had failed when one last succeeded.
    failed: u64,
    since: Instant,
    longest: Duration,
}

impl Vitals {
    /// Of a server that is gone after requests have failed for `longest`.
    pub(super) fn new(now: Instant, longest: Duration) -> Vitals {
        Vitals { succeeded: 0, failed: 0, since: now, longest }
    }

    /// When a request was last seen to have succeeded.
    pub(super) fn since(&self) -> Instant {
        self.since
    }

    /// Whether there is any use in going on, with so many requests that have succeeded and failed.
    pub(super) fn last(&mut self, now: Instant, succeeded: u64, failed: u64) -> bool {
        if succeeded != self.succeeded {
            *self = Vitals { succeeded, failed, since: now, ..*self };
        }
        failed == self.failed || now.duration_since(self.since) <= self.longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_gone_when_requests_fail_and_none_succeeds() {
        let start = Instant::now();
        let gone_after = |counts: &dyn Fn(u64) -> (u64, u64)| {
            let mut vitals = Vitals::new(start, Duration::from_secs(15));
            (0..1000).find(|second| {
                let (succeeded, failed) = counts(*second);
                !vitals.last(start + Duration::from_secs(*second), succeeded, failed)
            })
        };

        assert_eq!(gone_after(&|second| (0, second)), Some(16));
        assert_eq!(gone_after(&|second| (second.min(100), second)), Some(116));
        // Stalls, comes back sooner, or fails now and then.
        assert_eq!(gone_after(&|second| (second.min(100), 7)), None);
        assert_eq!(gone_after(&|second| (second / 15, second)), None);
        assert_eq!(gone_after(&|second| (second, second)), None);
    }

    /// Looks every second, at counts that a second comes to; after how many it was given up.
    fn given_up_after(
        interval: Duration,
        counts: impl Fn(u64) -> (u64, u64),
        hurry_at: Option<u64>,
    ) -> Option<u64> {
        let start = Instant::now();
        let mut patience = Patience::new(start, 1, interval);
        (0..1000).find(|second| {
            if hurry_at == Some(*second) {
                patience.hurry();
            }
            !patience.lasts(start + Duration::from_secs(*second), counts(*second))
        })
    }

    #[test]
    fn a_server_that_answers_and_gives_nothing_is_given_up_soon() {
        assert_eq!(given_up_after(Duration::ZERO, |second| (5, second), None), Some(11));
        assert_eq!(given_up_after(Duration::ZERO, |second| (second, second), None), None);
    }

    #[test]
    fn a_schedule_with_long_pauses_is_no_lack_of_progress() {
        let pause = Duration::from_secs(30);
        let sent = |second| (second / 30, second);

        assert_eq!(given_up_after(pause, sent, None), None);
        assert_eq!(given_up_after(pause, |second| (5, second), None), Some(37));
    }

    #[test]
    fn a_server_that_does_not_answer_is_given_as_long_as_a_request() {
        let longest = connection::TIMEOUT.as_secs() + 5 + 1;
        assert_eq!(given_up_after(Duration::ZERO, |_| (5, 5), None), Some(longest));
        let pause = Duration::from_secs(500);
        assert_eq!(given_up_after(pause, |_| (5, 5), None), Some(longest + 500));
        assert_eq!(given_up_after(Duration::ZERO, |_| (5, 5), Some(20)), Some(20));
    }

    #[test]
    fn after_a_stall_it_is_given_time_to_go_on() {
        // Answers again from the 30th second on, gives again from the 39th on.
        let stalled = |second| (u64::max(38, second), u64::max(29, second));
        assert_eq!(given_up_after(Duration::ZERO, stalled, None), None);

        let nothing_more = |second| (5, u64::max(29, second));
        assert_eq!(given_up_after(Duration::ZERO, nothing_more, None), Some(41));
    }
}
