//! Counts of each topic by itself, which CloudWatch takes once a minute.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::arn::topic_arn;
use super::figures::Outcome;
use super::topics::Topics;

/// Counts of a topic since they were last taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TopicCounts {
    pub published: u64,
    /// All messages together.
    pub bytes: u64,
    /// Bytes of the smallest and the largest message, if any was published.
    pub smallest: u64,
    pub largest: u64,
    pub filtered_out: FilteredOut,
    pub outcome: Outcome,
}

/// Notifications that filter policies prevented.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FilteredOut {
    /// By a policy about message attributes, whatever the reason.
    pub by_attributes: u64,
    /// Of these: the message had none.
    pub no_attributes: u64,
    /// Of these: they could not be read.
    pub invalid_attributes: u64,
    /// By a policy about the body, whatever the reason.
    pub by_body: u64,
    /// Of these: it was no JSON object.
    pub invalid_body: u64,
}

/// The counts of one topic. A lock, so that those of one minute belong together; held to add.
#[derive(Debug, Default)]
pub(super) struct Tally(Mutex<TopicCounts>);

/// The counts of all topics.
pub(crate) struct TopicTallies(pub(super) Arc<Topics>);

impl FilteredOut {
    pub(crate) fn all(&self) -> u64 {
        self.by_attributes + self.by_body
    }

    pub(super) fn add(&mut self, other: &FilteredOut) {
        self.by_attributes += other.by_attributes;
        self.no_attributes += other.no_attributes;
        self.invalid_attributes += other.invalid_attributes;
        self.by_body += other.by_body;
        self.invalid_body += other.invalid_body;
    }
}

impl TopicCounts {
    fn add(&mut self, other: &TopicCounts) {
        match (self.published, other.published) {
            (_, 0) => {}
            (0, _) => (self.smallest, self.largest) = (other.smallest, other.largest),
            _ => {
                self.smallest = self.smallest.min(other.smallest);
                self.largest = self.largest.max(other.largest);
            }
        }
        self.published += other.published;
        self.bytes += other.bytes;
        self.filtered_out.add(&other.filtered_out);
        self.outcome.add(&other.outcome);
    }
}

impl Tally {
    /// Counts messages of these sizes, and the notifications of them that were prevented.
    pub(super) fn published(&self, sizes: impl Iterator<Item = usize>, filtered_out: FilteredOut) {
        let mut all = TopicCounts { filtered_out, ..TopicCounts::default() };
        for bytes in sizes {
            let bytes = bytes as u64;
            let (smallest, largest) = (bytes, bytes);
            all.add(&TopicCounts { published: 1, bytes, smallest, largest, ..Default::default() });
        }
        self.counts().add(&all);
    }

    pub(super) fn add(&self, outcome: Outcome) {
        self.counts().outcome.add(&outcome);
    }

    pub(super) fn now(&self) -> TopicCounts {
        *self.counts()
    }

    pub(super) fn take(&self) -> TopicCounts {
        std::mem::take(&mut *self.counts())
    }

    fn counts(&self) -> MutexGuard<'_, TopicCounts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TopicTallies {
    /// The ARNs of all topics.
    pub(crate) fn arns(&self) -> Vec<String> {
        self.0.list_topics("", "", usize::MAX)
    }

    pub(crate) fn has(&self, arn: &str) -> bool {
        self.0.topic(arn).is_some()
    }

    /// The ARN of a topic and its counts, with those of deleted ones of the same name.
    pub(crate) fn of_topic(
        &self,
        region: &str,
        account: &str,
        name: &str,
    ) -> (String, TopicCounts) {
        let arn = topic_arn(region, account, name);
        let mut counts = TopicCounts::default();
        for tally in self.0.tallies_of(&arn) {
            counts.add(&tally.now());
        }
        (arn, counts)
    }

    /// Takes the counts of all topics that counted anything, by ARN; those of deleted ones as well.
    pub(crate) fn take(&self) -> HashMap<String, TopicCounts> {
        let mut counted: HashMap<String, TopicCounts> = HashMap::new();
        self.0.take_counts(|arn, counts| counted.entry(arn.to_owned()).or_default().add(&counts));
        counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_until_they_are_taken() {
        let tally = Tally::default();
        let filtered_out = FilteredOut { by_body: 1, ..FilteredOut::default() };

        tally.published([7, 3].into_iter(), filtered_out);
        tally.add(Outcome { delivered: 2, failed: 1, ..Outcome::default() });
        tally.published([5].into_iter(), filtered_out);

        let counts = tally.take();
        assert_eq!((counts.published, counts.bytes), (3, 15));
        assert_eq!((counts.smallest, counts.largest), (3, 7));
        assert_eq!(counts.filtered_out.all(), 2);
        assert_eq!((counts.outcome.delivered, counts.outcome.failed), (2, 1));
        assert_eq!(tally.now(), TopicCounts::default());
    }
}
