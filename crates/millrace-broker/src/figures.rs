//! What each queue has done and holds: the one place that CloudWatch, Prometheus and the console
//! read. Totals count from the start of the process and never fall.

use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering};

use millrace_core::Timestamp;
use millrace_engine::{Counts, Gauges};

use crate::queue::{SharedQueue, State};

/// What a queue has done since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueTotals {
    /// Messages added by senders and move tasks; those that repeat an earlier one not included.
    pub messages_sent: u64,
    /// Body, attribute names, types and values of those, as the message size limit counts them.
    pub sent_bytes: u64,
    /// FIFO: sends that repeated one within the deduplication window.
    pub messages_deduplicated: u64,
    /// Messages returned by receives.
    pub messages_received: u64,
    /// Deletes that succeeded, those of messages already gone included.
    pub messages_deleted: u64,
    /// Receives that returned nothing.
    pub empty_receives: u64,
    /// Messages moved from here to the dead-letter queue.
    pub messages_dead_lettered: u64,
    /// Messages dropped at the end of the retention period.
    pub messages_expired: u64,
    /// Messages left out of receives, each time: damaged, or the disk cannot read them.
    pub messages_left_out: u64,
}

/// What a queue has done and what it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueFigures {
    /// Since the process started.
    pub totals: QueueTotals,
    /// As of the last command or timer.
    pub gauges: Gauges,
    /// Smallest and largest message sent since [`QueueFigures::close_size_period`], bytes.
    pub sent_sizes: Option<(u64, u64)>,
}

/// What is cheap to know of a queue, for looks at many queues each second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueGlance {
    /// Since the process started.
    pub totals: QueueTotals,
    /// As of the last command or timer.
    pub counts: Counts,
    /// Messages that the queue was sent since it was created.
    pub sent_total: u64,
    /// When the oldest message was sent, as retention counts it.
    pub oldest_sent: Option<Timestamp>,
}

impl AddAssign for QueueTotals {
    fn add_assign(&mut self, other: QueueTotals) {
        self.messages_sent += other.messages_sent;
        self.sent_bytes += other.sent_bytes;
        self.messages_deduplicated += other.messages_deduplicated;
        self.messages_received += other.messages_received;
        self.messages_deleted += other.messages_deleted;
        self.empty_receives += other.empty_receives;
        self.messages_dead_lettered += other.messages_dead_lettered;
        self.messages_expired += other.messages_expired;
        self.messages_left_out += other.messages_left_out;
    }
}

impl QueueFigures {
    /// Totals and gauges of the queue, after ending delays and visibility timeouts that are over.
    /// O(noisy groups), and O(hidden messages) while there is one, so not for requests.
    pub fn of(queue: &SharedQueue) -> QueueFigures {
        figures(queue, &queue.lock_up_to_date())
    }

    /// As [`QueueFigures::of`], and smallest and largest message are counted anew from here.
    /// None: the queue is deleted.
    pub fn close_size_period(queue: &SharedQueue) -> Option<QueueFigures> {
        let mut state = queue.lock_up_to_date();
        if state.is_deleted {
            return None;
        }
        let figures = figures(queue, &state);
        state.sends.sizes = None;
        Some(figures)
    }

    /// Seconds since the oldest message was sent; 0 if there is none.
    pub fn oldest_age_s(&self, now: Timestamp) -> u64 {
        self.gauges.oldest_sent.map_or(0, |sent| now.millis_since(sent) / 1000)
    }
}

impl QueueGlance {
    /// The figures of the queue that need no computation: O(1) under its lock.
    pub fn of(queue: &SharedQueue) -> QueueGlance {
        let state = queue.lock();
        QueueGlance {
            totals: totals(queue, &state),
            counts: state.queue.counts(),
            sent_total: state.queue.sent_total(),
            oldest_sent: state.queue.oldest_sent(),
        }
    }
}

/// Counted without the queue's lock.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub messages_received: AtomicU64,
    pub messages_deleted: AtomicU64,
    pub empty_receives: AtomicU64,
    pub messages_dead_lettered: AtomicU64,
    pub messages_expired: AtomicU64,
    pub messages_left_out: AtomicU64,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, count: usize) {
        counter.fetch_add(count as u64, Ordering::Relaxed);
    }
}

/// Counted under the queue's lock, which a send holds anyway.
#[derive(Debug, Default)]
pub(crate) struct Sends {
    messages: u64,
    bytes: u64,
    pub deduplicated: u64,
    sizes: Option<(u64, u64)>,
}

impl Sends {
    pub(crate) fn add(&mut self, size_bytes: usize) {
        let size = size_bytes as u64;
        self.messages += 1;
        self.bytes += size;
        let (smallest, largest) = self.sizes.unwrap_or((size, size));
        self.sizes = Some((smallest.min(size), largest.max(size)));
    }
}

impl State {
    /// The totals of a queue that is being deleted, frozen: they are part of sums that never fall.
    pub(crate) fn close_totals(&mut self, queue: &SharedQueue) -> QueueTotals {
        let totals = totals(queue, self);
        self.last_totals = Some(Box::new(totals));
        totals
    }
}

fn figures(queue: &SharedQueue, state: &State) -> QueueFigures {
    QueueFigures {
        totals: totals(queue, state),
        gauges: state.queue.gauges(),
        sent_sizes: state.sends.sizes,
    }
}

fn totals(queue: &SharedQueue, state: &State) -> QueueTotals {
    if let Some(last) = &state.last_totals {
        return **last;
    }
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    QueueTotals {
        messages_sent: state.sends.messages,
        sent_bytes: state.sends.bytes,
        messages_deduplicated: state.sends.deduplicated,
        messages_received: read(&queue.counters.messages_received),
        messages_deleted: read(&queue.counters.messages_deleted),
        empty_receives: read(&queue.counters.empty_receives),
        messages_dead_lettered: read(&queue.counters.messages_dead_lettered),
        messages_expired: read(&queue.counters.messages_expired),
        messages_left_out: read(&queue.counters.messages_left_out),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::pin::pin;
    use std::sync::Arc;
    use std::task::{Context, Waker};

    use millrace_engine::Settings;

    use super::*;
    use crate::testing;

    #[test]
    fn a_queue_is_counted_once_though_it_is_deleted_meanwhile() {
        let (_log, shards) = testing::open(1 << 20);
        let queue = testing::create(&shards, "jobs", Settings::default());
        let count = |count| Counters::add(&queue.counters.messages_received, count);
        let sum = |queues: &[Arc<SharedQueue>], mut totals: QueueTotals| {
            queues.iter().for_each(|queue| totals += QueueFigures::of(queue).totals);
            totals.messages_received
        };
        count(5);

        let (before, deleted_before) = shards.catalog().queues_and_totals_of_deleted();
        let mut deletion = pin!(shards.catalog().delete_queue(&queue));
        assert!(deletion.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let (after, deleted_after) = shards.catalog().queues_and_totals_of_deleted();
        // By a receive that was under way.
        count(1);

        assert_eq!((before.len(), after.len()), (1, 0));
        assert_eq!(sum(&before, deleted_before), 5);
        assert_eq!(sum(&after, deleted_after), 5);
    }
}
