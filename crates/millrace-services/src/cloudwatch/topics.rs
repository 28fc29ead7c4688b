//! The name space `AWS/SNS`: what topics have done, as metrics.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use millrace_core::{Arn, Timestamp};
use millrace_metrics::{Entity, MetricStore, Sample, Scope, Source, Summary, Unit, Value};

use super::resume::{ACTIVE_S, Begun, still_active};
use crate::sns::{TopicCounts, TopicTallies};

/// What is counted of topics. Whatever a topic does begins with a publish: the first metric tells
/// that it is active.
const METRICS: [&str; 11] = [
    "NumberOfMessagesPublished",
    "NumberOfNotificationsDelivered",
    "NumberOfNotificationsFailed",
    "NumberOfNotificationsFilteredOut",
    "NumberOfNotificationsFilteredOut-MessageAttributes",
    "NumberOfNotificationsFilteredOut-NoMessageAttributes",
    "NumberOfNotificationsFilteredOut-InvalidAttributes",
    "NumberOfNotificationsFilteredOut-MessageBody",
    "NumberOfNotificationsFilteredOut-InvalidMessageBody",
    "NumberOfNotificationsRedrivenToDlq",
    "NumberOfNotificationsFailedToRedriveToDlq",
];

/// Takes the counts of all topics once a minute, and looks at those of one when asked.
#[derive(Default)]
pub(super) struct TopicMetrics {
    topics: OnceLock<TopicTallies>,
    gathered: Mutex<Gathered>,
}

#[derive(Default)]
struct Gathered {
    is_resumed: bool,
    /// The active ones, by ARN.
    active: HashMap<String, Active>,
}

/// A topic that has metrics in each minute.
#[derive(Clone, Copy, Default)]
struct Active {
    until: Timestamp,
    begun: Begun,
}

impl TopicMetrics {
    /// Gathers the metrics of these topics from now on. The first call counts.
    pub(super) fn watch(&self, topics: TopicTallies) {
        let _ = self.topics.set(topics);
    }

    /// Finds out which topics were active when the process before ended, once there are topics and
    /// only once.
    pub(super) fn resume(&self, store: &MetricStore, now: Timestamp) {
        let Some(topics) = self.topics.get() else { return };
        if std::mem::replace(&mut self.gathered().is_resumed, true) {
            return;
        }
        let named = |arn: String| Some((entity(&arn)?, arn));
        let (entities, arns): (Vec<Entity>, Vec<String>) =
            topics.arns().into_iter().filter_map(named).unzip();
        match still_active(store, &entities, (METRICS[0], &METRICS), now) {
            Ok(still) => {
                let mut gathered = self.gathered();
                for (number, begun) in still.found {
                    let Some(arn) = arns.get(number) else { continue };
                    let active = gathered.active.entry(arn.clone()).or_default();
                    active.until = active.until.max(still.until);
                    active.begun = active.begun.and(begun);
                }
            }
            Err(error) => {
                tracing::warn!(%error, "topics have no metrics until they are used");
            }
        }
    }

    /// Forgets what was gathered.
    pub(super) fn forget(&self) {
        self.gathered().active.clear();
    }

    fn gathered(&self) -> MutexGuard<'_, Gathered> {
        self.gathered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Source for TopicMetrics {
    fn peek(&self, entity: &Entity, now: Timestamp) -> Vec<Value> {
        let [(dimension, name)] = entity.dimensions() else { return Vec::new() };
        let Some(topics) = self.topics.get() else { return Vec::new() };
        if dimension != "TopicName" {
            return Vec::new();
        }
        let Scope { region, account } = &entity.scope;
        // Locked over both: a close between them would take what is looked at.
        let gathered = self.gathered();
        let (arn, counts) = topics.of_topic(region, account, name);
        let active = gathered.active.get(&arn).filter(|active| now < active.until);
        values(&counts, active.map(|active| active.begun).unwrap_or_default())
    }

    fn close(&self, now: Timestamp) -> Vec<Sample> {
        let Some(topics) = self.topics.get() else { return Vec::new() };
        let mut gathered = self.gathered();
        let counted = topics.take();
        for (arn, counts) in &counted {
            let active = gathered.active.entry(arn.clone()).or_default();
            active.until = now.plus_seconds(ACTIVE_S);
            active.begun = active.begun.and(begun(counts));
        }
        let mut samples = Vec::with_capacity(gathered.active.len());
        gathered.active.retain(|arn, active| {
            let is_active = now < active.until;
            if is_active && let Some(entity) = entity(arn) {
                let counts = counted.get(arn).copied().unwrap_or_default();
                samples.push(Sample { entity, values: values(&counts, active.begun) });
            }
            is_active && topics.has(arn)
        });
        samples
    }
}

fn entity(arn: &str) -> Option<Entity> {
    let Arn { region, account, resource, .. } = Arn::parse(arn)?;
    Some(Entity::of_topic(Scope { region, account }, &resource))
}

/// In the order of [`METRICS`].
fn numbers(counts: &TopicCounts) -> [u64; METRICS.len()] {
    let TopicCounts { published, outcome, filtered_out, .. } = counts;
    [
        *published,
        outcome.delivered,
        outcome.failed,
        filtered_out.all(),
        filtered_out.by_attributes,
        filtered_out.no_attributes,
        filtered_out.invalid_attributes,
        filtered_out.by_body,
        filtered_out.invalid_body,
        outcome.redriven,
        outcome.failed_to_redrive,
    ]
}

fn begun(counts: &TopicCounts) -> Begun {
    let counted = numbers(counts).into_iter().enumerate().filter(|(_, number)| *number > 0);
    Begun::of(counted.map(|(metric, _)| metric))
}

/// The metrics of a topic. One that it has had before is zero in a minute without an event.
fn values(counts: &TopicCounts, before: Begun) -> Vec<Value> {
    let begun = before.and(begun(counts));
    let all = METRICS.into_iter().zip(numbers(counts)).enumerate();
    let mut values: Vec<Value> = all
        .filter(|(number, _)| begun.has(*number))
        .map(|(_, (metric, number))| Value {
            metric,
            unit: Unit::Count,
            summary: Summary::of(number as f64),
            is_gauge: false,
        })
        .collect();
    if counts.published > 0 {
        let TopicCounts { published, bytes, smallest, largest, .. } = *counts;
        let [count, sum, min, max] = [published, bytes, smallest, largest].map(|n| n as f64);
        let summary = Summary::of_set(count, sum, min, max);
        values.push(Value { metric: "PublishSize", unit: Unit::Bytes, summary, is_gauge: false });
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_begins_with_its_first_event_and_is_zero_without_one_from_then_on() {
        let mut counts = TopicCounts::default();
        (counts.published, counts.bytes) = (2, 30);
        (counts.smallest, counts.largest) = (10, 20);
        counts.filtered_out.by_attributes = 3;
        counts.filtered_out.no_attributes = 1;
        counts.filtered_out.by_body = 2;
        let sums = |values: Vec<Value>| -> Vec<(&str, f64)> {
            values.iter().map(|value| (value.metric, value.summary.sum)).collect()
        };

        let prefix = "NumberOfNotificationsFilteredOut";
        let [by_attributes, no_attributes, by_body] =
            ["MessageAttributes", "NoMessageAttributes", "MessageBody"]
                .map(|reason| format!("{prefix}-{reason}"));
        let expected = [
            ("NumberOfMessagesPublished", 2.0),
            (prefix, 5.0),
            (&by_attributes, 3.0),
            (&no_attributes, 1.0),
            (&by_body, 2.0),
            ("PublishSize", 30.0),
        ];
        assert_eq!(sums(values(&counts, Begun::default())), expected);
        let later = sums(values(&TopicCounts::default(), begun(&counts)));
        let zeros: Vec<(&str, f64)> = expected[..5].iter().map(|(name, _)| (*name, 0.0)).collect();
        assert_eq!(later, zeros, "a size is of messages only");
        assert!(values(&TopicCounts::default(), Begun::default()).is_empty());
    }
}
