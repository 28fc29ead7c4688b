//! What a worker counts, as Prometheus series and as the summary of a run.

use std::{
    iter::Sum,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use prometheus_client::{
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::{Registry, Unit},
};

/// Labels of a series: the queue, and what else tells it apart.
type Labels = Vec<(&'static str, String)>;

/// Counters of one worker. Clones are the same counters.
#[derive(Clone, Debug)]
pub struct Metrics {
    families: Families,
    queue: String,
    pub(crate) received: Counter,
    pub(crate) leases_extended: Counter,
    pub(crate) leases_lost: Counter,
    pub(crate) running: Gauge,
    pub(crate) waiting: Gauge,
    pub(crate) concurrency_limit: Gauge,
    pub(crate) last_receive: Gauge,
    durations: Histogram,
    has_receive_failed: Arc<AtomicBool>,
}

/// The series of all workers that show their counters together.
#[derive(Clone, Debug)]
struct Families {
    received: Family<Labels, Counter>,
    receives: Family<Labels, Counter>,
    outcomes: Family<Labels, Counter>,
    leases_extended: Family<Labels, Counter>,
    leases_lost: Family<Labels, Counter>,
    settlement_failures: Family<Labels, Counter>,
    running: Family<Labels, Gauge>,
    waiting: Family<Labels, Gauge>,
    concurrency_limit: Family<Labels, Gauge>,
    last_receive: Family<Labels, Gauge>,
    durations: Family<Labels, Histogram, fn() -> Histogram>,
}

/// What a receive came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    Messages,
    Nothing,
    Failed,
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
    /// Counters of a worker on that queue, at zero.
    pub fn new(queue: impl Into<String>) -> Metrics {
        Metrics::of(Families::new(), queue.into())
    }

    /// Counters of a worker on another queue, which are registered together with these.
    pub fn with_queue(&self, queue: impl Into<String>) -> Metrics {
        Metrics::of(self.families.clone(), queue.into())
    }

    /// Makes the counters known to a registry, which writes them as text; also those of all workers
    /// that share the registration.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("millrace_worker");
        let families = self.families.clone();
        registry.register("received_messages", "Messages received", families.received);
        registry.register("receives", "Receives answered, by result", families.receives);
        let help = "Messages that the worker holds no longer, by what became of them";
        registry.register("messages", help, families.outcomes);
        registry.register("leases_extended", "Leases extended", families.leases_extended);
        let help = "Leases that ended before the message was settled";
        registry.register("leases_lost", help, families.leases_lost);
        let help = "Failed attempts to settle a message, by call";
        registry.register("settlement_failures", help, families.settlement_failures);
        registry.register("handlers_running", "Handlers that run", families.running);
        let help = "Messages that wait for a handler";
        registry.register("messages_waiting", help, families.waiting);
        let help = "Handlers that may run";
        registry.register("handlers_limit", help, families.concurrency_limit);
        let help = "When a receive was last answered, Unix time";
        registry.register_with_unit("last_receive", help, Unit::Seconds, families.last_receive);
        let help = "How long handlers took";
        registry.register_with_unit("handler", help, Unit::Seconds, families.durations);
    }

    fn of(families: Families, queue: String) -> Metrics {
        let labels = vec![("queue", queue.clone())];
        Metrics {
            received: families.received.get_or_create_owned(&labels),
            leases_extended: families.leases_extended.get_or_create_owned(&labels),
            leases_lost: families.leases_lost.get_or_create_owned(&labels),
            running: families.running.get_or_create_owned(&labels),
            waiting: families.waiting.get_or_create_owned(&labels),
            concurrency_limit: families.concurrency_limit.get_or_create_owned(&labels),
            last_receive: families.last_receive.get_or_create_owned(&labels),
            durations: families.durations.get_or_create_owned(&labels),
            has_receive_failed: Arc::default(),
            families,
            queue,
        }
    }

    /// When a receive was last answered, Unix time in seconds; 0 for never.
    pub fn last_receive_s(&self) -> i64 {
        self.last_receive.get()
    }

    /// Whether handlers run and the last receive did not fail. While they have all slots none is
    /// sent, so that the last one may be long ago.
    pub fn is_busy(&self) -> bool {
        self.running.get() > 0 && !self.has_receive_failed.load(Ordering::Relaxed)
    }

    /// Handlers that may run now.
    pub fn concurrency_limit(&self) -> i64 {
        self.concurrency_limit.get()
    }

    /// The counts so far.
    pub fn summary(&self) -> Summary {
        let count = |ended: Ended| {
            let labels = self.labels("result", ended.label());
            self.families.outcomes.get_or_create(&labels).get()
        };
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
            refused: 0,
        }
    }

    pub(crate) fn receive_answered(&self, received: Received) {
        self.has_receive_failed.store(received == Received::Failed, Ordering::Relaxed);
        let labels = self.labels("result", received.label());
        self.families.receives.get_or_create(&labels).inc();
    }

    pub(crate) fn ended(&self, ended: Ended) {
        let labels = self.labels("result", ended.label());
        self.families.outcomes.get_or_create(&labels).inc();
    }

    pub(crate) fn settlement_failed(&self, call: &'static str) {
        self.families.settlement_failures.get_or_create(&self.labels("call", call)).inc();
    }

    pub(crate) fn finished(&self, took: Duration) {
        self.durations.observe(took.as_secs_f64());
    }

    fn labels(&self, name: &'static str, value: &str) -> Labels {
        vec![("queue", self.queue.clone()), (name, value.to_owned())]
    }
}

impl Families {
    fn new() -> Families {
        Families {
            received: Family::default(),
            receives: Family::default(),
            outcomes: Family::default(),
            leases_extended: Family::default(),
            leases_lost: Family::default(),
            settlement_failures: Family::default(),
            running: Family::default(),
            waiting: Family::default(),
            concurrency_limit: Family::default(),
            last_receive: Family::default(),
            // 1 ms to 17 minutes, a factor of 2 each.
            durations: Family::new_with_constructor(|| {
                Histogram::new(exponential_buckets(0.001, 2.0, 20))
            }),
        }
    }
}

impl Received {
    fn label(self) -> &'static str {
        match self {
            Received::Messages => "messages",
            Received::Nothing => "empty",
            Received::Failed => "failed",
        }
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
    /// Messages whose handlers were cut off at the end, and that were released.
    pub cut_off: u64,
    /// Messages that were worked on, or were to be given back, and the server could not be told of:
    /// it refused, did not answer, or the lease was lost in mid-work; part of those abandoned. Of a
    /// worker that runs until it is asked to end, only those since.
    pub unsettled: u64,
    /// Workers that were to end by themselves, and did so because their receives were refused.
    pub refused: u64,
}

impl Sum for Summary {
    fn sum<I: Iterator<Item = Summary>>(summaries: I) -> Summary {
        summaries.fold(Summary::default(), |sum, more| Summary {
            received: sum.received + more.received,
            succeeded: sum.succeeded + more.succeeded,
            retried: sum.retried + more.retried,
            released: sum.released + more.released,
            dead_lettered: sum.dead_lettered + more.dead_lettered,
            abandoned: sum.abandoned + more.abandoned,
            leases_lost: sum.leases_lost + more.leases_lost,
            cut_off: sum.cut_off + more.cut_off,
            unsettled: sum.unsettled + more.unsettled,
            refused: sum.refused + more.refused,
        })
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text;

    use super::*;

    #[test]
    fn workers_that_share_a_registration_are_told_apart_by_queue() {
        let orders = Metrics::new("orders");
        let letters = orders.with_queue("letters");
        let mut registry = Registry::default();
        orders.register(&mut registry);

        orders.ended(Ended::Succeeded);
        letters.ended(Ended::Succeeded);
        letters.ended(Ended::Retried);

        let mut page = String::new();
        text::encode(&mut page, &registry).unwrap();
        let series = "millrace_worker_messages_total";
        for (queue, result) in
            [("orders", "succeeded"), ("letters", "succeeded"), ("letters", "retried")]
        {
            let line = format!("{series}{{queue=\"{queue}\",result=\"{result}\"}} 1\n");
            assert!(page.contains(&line), "{line} in {page}");
        }
        assert_eq!(page.matches("# TYPE millrace_worker_messages counter").count(), 1);
        assert_eq!((orders.summary().retried, letters.summary().retried), (0, 1));
    }
}
