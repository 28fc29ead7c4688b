//! Which queues have a given dead-letter queue, so that who asks need not look at all queues.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use millrace_core::{QueueId, QueueKey};
use millrace_engine::Redrive;

use crate::queue::SharedQueue;

/// Queues by their dead-letter queue, which need not exist.
#[derive(Default)]
pub(super) struct DeadLetterSources {
    by_target: BTreeMap<QueueKey, BTreeMap<QueueKey, Arc<SharedQueue>>>,
    /// Under which key a queue is noted.
    targets: HashMap<QueueId, QueueKey>,
}

impl DeadLetterSources {
    /// Notes the dead-letter queue that the queue's definition names by now, if any.
    pub(super) fn note(&mut self, queue: &Arc<SharedQueue>) {
        let target = queue.definition().settings.redrive.as_ref().map(Redrive::target);
        if self.targets.get(&queue.id()) == target.as_ref() {
            return;
        }
        self.forget(queue);
        if let Some(target) = target {
            self.targets.insert(queue.id(), target.clone());
            let sources = self.by_target.entry(target).or_default();
            sources.insert(queue.key().clone(), queue.clone());
        }
    }

    pub(super) fn forget(&mut self, queue: &SharedQueue) {
        let Some(target) = self.targets.remove(&queue.id()) else { return };
        if let Some(sources) = self.by_target.get_mut(&target) {
            sources.remove(queue.key());
            if sources.is_empty() {
                self.by_target.remove(&target);
            }
        }
    }

    /// Those whose dead-letter queue is `target`, by key, after `after`.
    pub(super) fn of(
        &self,
        target: &QueueKey,
        after: Option<&QueueKey>,
    ) -> impl Iterator<Item = &Arc<SharedQueue>> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let sources = self.by_target.get(target);
        sources.into_iter().flat_map(move |it| it.range((from, Bound::Unbounded)).map(|it| it.1))
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    use millrace_engine::{Definition, Settings};

    use super::*;
    use crate::Shards;
    use crate::testing::{self, key};

    /// The wait for the commit is left.
    fn begin<F: Future>(future: F) {
        let polled = pin!(future).as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(polled, Poll::Pending));
    }

    fn set_target(shards: &Shards, queue: &SharedQueue, target: &str) {
        let QueueKey { region, account, name } = key(target);
        let change = |definition: &mut Definition| {
            definition.settings.redrive =
                Some(Redrive { region, account, name, max_receive_count: 1 });
            Ok::<_, ()>(())
        };
        begin(shards.catalog().update_queue(queue, change));
    }

    /// What was changed first may come to the maps last: here it has to be woken for that, and the
    /// other comes along meanwhile.
    #[test]
    fn the_later_of_two_changes_counts_in_whichever_order_they_are_noted() {
        let (_log, shards) = testing::open(1 << 20);
        let queue = testing::create(&shards, "jobs", Settings::default());
        let has_target = |target: &str| {
            let definition = queue.definition();
            definition.settings.redrive.as_ref().is_some_and(|it| it.name == target)
        };
        let is_source =
            |target: &str| !shards.catalog().dead_letter_sources(&key(target), None, 1).is_empty();

        for _ in 0..30 {
            std::thread::scope(|scope| {
                let maps = shards.catalog().maps();
                for target in ["first", "second"] {
                    let (shards, queue) = (&shards, &queue);
                    scope.spawn(move || set_target(shards, queue, target));
                    while !has_target(target) {
                        std::thread::yield_now();
                    }
                    if target == "first" {
                        // Time enough to fall asleep before the maps' lock.
                        std::thread::sleep(Duration::from_millis(2));
                    }
                }
                drop(maps);
            });

            assert!(is_source("second") && !is_source("first"));
        }
    }
}
