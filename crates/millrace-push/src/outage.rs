//! Decides which failures of an endpoint the log mentions: the first one, the first delivery that is
//! given up, and the recovery. An endpoint that fails and recovers by turns is mentioned once a
//! minute.

use millrace_core::Timestamp;

/// Time between two reports of one kind about an endpoint.
const PAUSE_MS: u64 = 60_000;

/// The failures of one endpoint since its latest success.
#[derive(Debug, Default)]
pub(crate) struct Outage {
    /// The log has mentioned that the endpoint fails, but not that it has recovered.
    is_reported: bool,
    is_give_up_reported: bool,
    given_up: u64,
    failure_reported: Option<Timestamp>,
    give_up_reported: Option<Timestamp>,
}

/// End of an outage that the log has mentioned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Recovery {
    /// Deliveries that were given up meanwhile.
    pub given_up: u64,
}

impl Outage {
    /// An attempt failed, and there will be another. Returns true if the log is to mention it.
    pub(crate) fn failed(&mut self, now: Timestamp) -> bool {
        let is_due = !self.is_reported && is_over(self.failure_reported, now);
        if is_due {
            self.is_reported = true;
            self.failure_reported = Some(now);
        }
        is_due
    }

    /// A delivery was given up. Returns true if the log is to mention it.
    pub(crate) fn gave_up(&mut self, now: Timestamp) -> bool {
        self.given_up += 1;
        let is_due = !self.is_give_up_reported && is_over(self.give_up_reported, now);
        if is_due {
            self.is_reported = true;
            self.is_give_up_reported = true;
            self.give_up_reported = Some(now);
        }
        is_due
    }

    /// A message was delivered. Returns what the log is to mention.
    pub(crate) fn ended(&mut self) -> Option<Recovery> {
        let recovery = self.is_reported.then_some(Recovery { given_up: self.given_up });
        self.is_reported = false;
        self.is_give_up_reported = false;
        self.given_up = 0;
        recovery
    }
}

fn is_over(reported: Option<Timestamp>, now: Timestamp) -> bool {
    reported.is_none_or(|at| now.millis_since(at) >= PAUSE_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(second: u64) -> Timestamp {
        Timestamp(1_000_000 + second * 1_000)
    }

    #[test]
    fn an_outage_of_hours_is_mentioned_when_it_begins_gives_up_and_ends() {
        let mut outage = Outage::default();

        let failures: Vec<bool> = (0..4 * 3_600).map(|second| outage.failed(at(second))).collect();
        let given_up: Vec<bool> = (0..4 * 3_600).map(|second| outage.gave_up(at(second))).collect();

        assert_eq!(failures.iter().filter(|is_due| **is_due).count(), 1);
        assert_eq!(given_up.iter().filter(|is_due| **is_due).count(), 1);
        assert!(failures[0] && given_up[0]);
        assert_eq!(outage.ended(), Some(Recovery { given_up: 4 * 3_600 }));
        assert_eq!(outage.ended(), None);
    }

    #[test]
    fn an_endpoint_that_fails_and_recovers_by_turns_is_mentioned_once_a_minute() {
        let mut outage = Outage::default();
        let (mut failures, mut given_up, mut recoveries) = (0, 0, 0);

        for second in 0..180 {
            failures += usize::from(outage.failed(at(second)));
            given_up += usize::from(outage.gave_up(at(second)));
            recoveries += usize::from(outage.ended().is_some());
        }

        assert_eq!((failures, given_up, recoveries), (3, 3, 3));
    }
}
