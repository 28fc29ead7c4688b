//! What the server measures by itself: queues and topics.

use std::sync::Arc;

use millrace_core::Timestamp;
use millrace_metrics::{Entity, Sample, Source, Value};

use super::queues::QueueMetrics;
use super::topics::TopicMetrics;

/// The sources of all metrics that no client sends.
pub(super) struct Measured {
    pub queues: Arc<QueueMetrics>,
    pub topics: Arc<TopicMetrics>,
}

impl Source for Measured {
    fn peek(&self, entity: &Entity, now: Timestamp) -> Vec<Value> {
        match &*entity.namespace {
            "AWS/SQS" => self.queues.peek(entity, now),
            "AWS/SNS" => self.topics.peek(entity, now),
            _ => Vec::new(),
        }
    }

    fn close(&self, now: Timestamp) -> Vec<Sample> {
        let mut samples = self.queues.close(now);
        samples.extend(self.topics.close(now));
        samples
    }
}
