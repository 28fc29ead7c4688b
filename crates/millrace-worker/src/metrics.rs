//! What a worker counts, as Prometheus series and as the summary of a run.

use std::time::Duration;

use prometheus_client::{
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::{Registry, Unit},
};

/// A label with one of a few values.
type Labelled = Family<[(&'static str, &'static str); 1], Counter>;

/// Counters of one worker. Clones are the same counters.
#[derive(Clone, Debug)]
pub struct Metrics {
    pub(crate) received: Counter,
    pub(crate) receives: Labelled,
    outcomes: Labelled,
    pub(crate) leases_extended: Counter,
    pub(crate) leases_lost: Counter,
    settlement_failures: Labelled,
    pub(crate) running: Gauge,
    pub(crate) waiting: Gauge,
    pub(crate) concurrency_limit: Gauge,
    pub(crate) last_receive: Gauge,
    pub(crate) durations: Histogram,
}

/// What became of a message in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Handled and deleted.
    Succeeded,
    /// Hidden until its next attempt.
    Retried,
    /// Given back without being a failure.
    Released,
    /// In the dead-letter queue.
    DeadLettered,
    /// Neither deleted nor given back; its visibility timeout does that.
    Abandoned,
}

impl Ended {
    fn label(self) -> &'static str {
        match self {
            Ended::Succeeded => "succeeded",
            Ended::Retried => "retried",
            Ended::Released => "released",
            Ended::DeadLettered => "dead_lettered",
            Ended::Abandoned => "abandoned",
        }
    }
}

impl Metrics {
    /// Counters at zero.
    pub fn new() -> Metrics {
        Metrics {
            received: Counter::default(),
            receives: Family::default(),
            outcomes: Family::default(),
            leases_extended: Counter::default(),
            leases_lost: Counter::default(),
            settlement_failures: Family::default(),
            running: Gauge::default(),
            waiting: Gauge::default(),
            concurrency_limit: Gauge::default(),
            last_receive: Gauge::default(),
            // 1 ms to 17 minutes, a factor of 2 each.
            durations: Histogram::new(exponential_buckets(0.001, 2.0, 20)),
        }
    }

    /// Makes the counters known to a registry, which writes them as text.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("millrace_worker");
        registry.register("received_messages", "Messages received", self.received.clone());
        registry.register("receives", "Receives answered, by result", self.receives.clone());
        let help = "Messages that the worker holds no longer, by what became of them";
        registry.register("messages", help, self.outcomes.clone());
        let help = "Leases extended";
        registry.register("leases_extended", help, self.leases_extended.clone());
        let help = "Leases that ended before the message was settled";
        registry.register("leases_lost", help, self.leases_lost.clone());
        let help = "Failed attempts to settle a message, by call";
        registry.register("settlement_failures", help, self.settlement_failures.clone());
        let help = "Handlers that run";
        registry.register("handlers_running", help, self.running.clone());
        let help = "Messages that wait for a handler";
        registry.register("messages_waiting", help, self.waiting.clone());
        let help = "Handlers that may run";
        registry.register("handlers_limit", help, self.concurrency_limit.clone());
        let help = "When a receive was last answered, Unix time";
        let seconds = Unit::Seconds;
        registry.register_with_unit("last_receive", help, seconds, self.last_receive.clone());
        let help = "How long handlers took";
        registry.register_with_unit("handler", help, Unit::Seconds, self.durations.clone());
    }

    /// When a receive was last answered, Unix time in seconds; 0 for never.
    pub fn last_receive_s(&self) -> i64 {
        self.last_receive.get()
    }

    /// Handlers that may run now.
    pub fn concurrency_limit(&self) -> i64 {
        self.concurrency_limit.get()
    }

    /// The counts so far.
    pub fn summary(&self) -> Summary {
        let count = |ended: Ended| self.outcomes.get_or_create(&[("result", ended.label())]).get();
        Summary {
            received: self.received.get(),
            succeeded: count(Ended::Succeeded),
            retried: count(Ended::Retried),
            released: count(Ended::Released),
            dead_lettered: count(Ended::DeadLettered),
            abandoned: count(Ended::Abandoned),
            leases_lost: self.leases_lost.get(),
            cut_off: 0,
            unsettled: 0,
        }
    }

    pub(crate) fn ended(&self, ended: Ended) {
        self.outcomes.get_or_create(&[("result", ended.label())]).inc();
    }

    pub(crate) fn settlement_failed(&self, call: &'static str) {
        self.settlement_failures.get_or_create(&[("call", call)]).inc();
    }

    pub(crate) fn finished(&self, took: Duration) {
        self.durations.observe(took.as_secs_f64());
    }
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics::new()
    }
}

/// What a run did, in messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Received, again and again included.
    pub received: u64,
    /// Handled and deleted.
    pub succeeded: u64,
    /// Failed and hidden until the next attempt.
    pub retried: u64,
    /// Given back without being a failure.
    pub released: u64,
    /// Moved to the dead-letter queue.
    pub dead_lettered: u64,
    /// Neither deleted nor given back: the lease was lost or the server did not answer.
    pub abandoned: u64,
    /// Leases that ended before the message was settled.
    pub leases_lost: u64,
    /// Messages whose handlers were dropped at the end; their work was released.
    pub cut_off: u64,
    /// Messages in hand at the end that the server could not be told of any more; part of those
    /// abandoned.
    pub unsettled: u64,
}
