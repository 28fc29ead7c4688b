//! Counts of deliveries: of all together, and of each endpoint.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millrace_core::Timestamp;

use crate::outage::{Outage, Recovery};

/// Counts since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PushFigures {
    /// Requests that were sent, or tried to be.
    pub attempts: u64,
    pub delivered: u64,
    /// Attempts after which there is to be another.
    pub retried: u64,
    /// Deliveries given up, redriven ones included.
    pub failed: u64,
    /// Failed ones that are kept elsewhere.
    pub redriven: u64,
    /// Attempts under way now.
    pub under_way: u64,
}

/// The figures of one endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndpointFigures {
    pub counts: PushFigures,
    /// Gone once a delivery succeeds.
    pub latest_error: Option<LatestError>,
}

/// Reason for the failure of the latest attempt at an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatestError {
    pub at: Timestamp,
    /// If there was an answer.
    pub status: Option<u16>,
    /// One line, for people.
    pub text: String,
}

/// Counters that only grow, but for `under_way`.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    attempts: AtomicU64,
    delivered: AtomicU64,
    retried: AtomicU64,
    failed: AtomicU64,
    redriven: AtomicU64,
    under_way: AtomicU64,
}

/// The counters of an endpoint, which counts for all as well.
#[derive(Debug, Default)]
pub(crate) struct EndpointCounters {
    own: Counters,
    all: Arc<Counters>,
    /// A lock because pages read it; held to copy or change it.
    health: Mutex<Health>,
}

#[derive(Debug, Default)]
struct Health {
    latest_error: Option<LatestError>,
    outage: Outage,
}

/// An attempt, counted as under way until it is dropped.
pub(crate) struct UnderWay<'a>(&'a EndpointCounters);

impl Counters {
    pub(crate) fn figures(&self) -> PushFigures {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        PushFigures {
            attempts: load(&self.attempts),
            delivered: load(&self.delivered),
            retried: load(&self.retried),
            failed: load(&self.failed),
            redriven: load(&self.redriven),
            under_way: load(&self.under_way),
        }
    }
}

impl EndpointCounters {
    pub(crate) fn new(all: &Arc<Counters>) -> EndpointCounters {
        EndpointCounters { all: Arc::clone(all), ..EndpointCounters::default() }
    }

    pub(crate) fn figures(&self) -> EndpointFigures {
        let latest_error = self.health().latest_error.clone();
        EndpointFigures { counts: self.own.figures(), latest_error }
    }

    pub(crate) fn attempt(&self) -> UnderWay<'_> {
        self.count(|counters| &counters.attempts);
        self.count(|counters| &counters.under_way);
        UnderWay(self)
    }

    /// Returns what the log is to mention, if the endpoint failed before.
    pub(crate) fn delivered(&self) -> Option<Recovery> {
        self.count(|counters| &counters.delivered);
        let mut health = self.health();
        health.latest_error = None;
        health.outage.ended()
    }

    /// Returns true if the log is to mention it.
    pub(crate) fn retried(&self, error: LatestError) -> bool {
        self.count(|counters| &counters.retried);
        let mut health = self.health();
        let is_due = health.outage.failed(error.at);
        health.latest_error = Some(error);
        is_due
    }

    pub(crate) fn failed(&self, error: LatestError) {
        self.health().latest_error = Some(error);
    }

    /// A failed delivery has left its hidden queue. Returns true if the log is to mention it.
    pub(crate) fn given_up(&self, is_redriven: bool, now: Timestamp) -> bool {
        self.count(|counters| &counters.failed);
        if is_redriven {
            self.count(|counters| &counters.redriven);
        }
        self.health().outage.gave_up(now)
    }

    /// A failed delivery stays in its hidden queue for now. Returns true if the log is to mention
    /// it.
    pub(crate) fn put_off(&self, now: Timestamp) -> bool {
        self.health().outage.failed(now)
    }

    fn health(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, counter: impl Fn(&Counters) -> &AtomicU64) {
        for counters in [&self.own, &*self.all] {
            counter(counters).fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        for counters in [&self.0.own, &*self.0.all] {
            counters.under_way.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_counts_for_all_and_forgets_its_error_with_a_success() {
        let all = Arc::new(Counters::default());
        let [one, other] = [EndpointCounters::new(&all), EndpointCounters::new(&all)];
        let error =
            LatestError { at: Timestamp(1), status: Some(500), text: "status 500".to_owned() };

        let under_way = one.attempt();
        assert_eq!((all.figures().under_way, other.figures().counts.under_way), (1, 0));
        drop(under_way);
        assert!(one.retried(error.clone()) && !one.retried(error.clone()), "mentioned once");
        other.failed(error.clone());
        assert!(other.given_up(true, error.at));
        assert_eq!(one.figures().latest_error, Some(error));
        assert_eq!(one.delivered(), Some(Recovery { given_up: 0 }));

        assert_eq!(one.figures().latest_error, None);
        let counted = PushFigures {
            attempts: 1,
            delivered: 1,
            retried: 2,
            failed: 1,
            redriven: 1,
            under_way: 0,
        };
        assert_eq!(all.figures(), counted);
    }
}
