//! Counts of what topics did, of all topics together, since the start.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::topics::Topics;
use crate::telemetry::Series;

/// The counts.
#[derive(Debug, Default)]
pub(super) struct Figures {
    /// Messages that topics accepted.
    published: AtomicU64,
    delivered: AtomicU64,
    failed: AtomicU64,
    filtered_out: AtomicU64,
    redriven: AtomicU64,
    failed_to_redrive: AtomicU64,
}

/// Counts of one append.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Messages in queues that are endpoints. Those to be sent by HTTP are counted when they are
    /// sent.
    pub delivered: u64,
    pub failed: u64,
    /// Those that failed and went to a dead-letter queue.
    pub redriven: u64,
    /// Those that failed and could not go to their dead-letter queue.
    pub failed_to_redrive: u64,
}

impl Outcome {
    pub(super) fn add(&mut self, other: &Outcome) {
        self.delivered += other.delivered;
        self.failed += other.failed;
        self.redriven += other.redriven;
        self.failed_to_redrive += other.failed_to_redrive;
    }
}

impl Figures {
    pub(super) fn published(&self, messages: u64, filtered_out: u64) {
        self.published.fetch_add(messages, Relaxed);
        self.filtered_out.fetch_add(filtered_out, Relaxed);
    }

    pub(super) fn add(&self, outcome: Outcome) {
        self.delivered.fetch_add(outcome.delivered, Relaxed);
        if outcome.failed > 0 {
            self.failed.fetch_add(outcome.failed, Relaxed);
            self.redriven.fetch_add(outcome.redriven, Relaxed);
            self.failed_to_redrive.fetch_add(outcome.failed_to_redrive, Relaxed);
        }
    }
}

/// Figures of topics for Prometheus.
pub(crate) struct TopicFigures {
    pub(super) figures: Arc<Figures>,
    pub(super) topics: Arc<Topics>,
}

impl fmt::Debug for TopicFigures {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TopicFigures").finish_non_exhaustive()
    }
}

impl Collector for TopicFigures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        let (topics, subscriptions) = self.topics.counts();
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        Series::new("millrace_sns_topics", "Topics of all accounts")
            .gauge(encoder, count(topics))?;
        Series::new("millrace_sns_subscriptions", "Subscriptions of all accounts")
            .gauge(encoder, count(subscriptions))?;
        let figures = &self.figures;
        for (name, help, counter) in [
            ("millrace_sns_published", "Messages published", &figures.published),
            (
                "millrace_sns_delivered",
                "Messages that topics delivered to queues and HTTP endpoints",
                &figures.delivered,
            ),
            (
                "millrace_sns_failed",
                "Deliveries to queues and HTTP endpoints that failed",
                &figures.failed,
            ),
            (
                "millrace_sns_filtered_out",
                "Messages that a filter policy kept from a subscription",
                &figures.filtered_out,
            ),
            (
                "millrace_sns_redriven",
                "Failed deliveries that went to a dead-letter queue",
                &figures.redriven,
            ),
            (
                "millrace_sns_failed_to_redrive",
                "Failed deliveries that could not go to their dead-letter queue",
                &figures.failed_to_redrive,
            ),
        ] {
            Series::new(name, help).counter(encoder, counter.load(Relaxed))?;
        }
        Ok(())
    }
}
