//! All queues at one moment, and what changed since the moment before.
//!
//! A sample takes each queue's lock once for a handful of numbers: about a microsecond a queue. It
//! is taken once a second while somebody looks and shared by all who look.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use millrace_broker::{Counts, Definition, QueueGlance, QueueTotals, SharedQueue};
use millrace_core::{QueueKey, Timestamp};

use crate::rows::Frame;
use crate::surroundings::Surroundings;
use crate::view::View;

/// Rates are worked out between samples that are not further apart.
const MAX_APART: Duration = Duration::from_secs(10);
/// Queues looked at before other tasks get their turn.
const QUEUES_PER_TURN: usize = 128;

/// All queues at one moment.
pub(crate) struct Sample {
    /// Grows by one with each sample of this process.
    pub tick: u64,
    /// The server's time.
    pub now: Timestamp,
    taken_at: Instant,
    /// In the order of their keys.
    pub queues: Vec<Looked>,
    /// Which queues have this one as their dead-letter queue, by key.
    pub sources: Arc<HashMap<QueueKey, Vec<QueueKey>>>,
    /// How many alarms are in alarm, by account.
    pub in_alarm: Arc<BTreeMap<String, u64>>,
    pub surroundings: Arc<Surroundings>,
    /// Frames already made of this sample: viewers of the same view share them.
    frames: Mutex<HashMap<View, Arc<Frame>>>,
}

/// One queue in a sample.
pub(crate) struct Looked {
    pub queue: Arc<SharedQueue>,
    pub definition: Arc<Definition>,
    pub glance: QueueGlance,
    /// None in the first sample after a pause.
    pub rates: Option<Rates>,
}

/// Messages a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rates {
    pub sent: f64,
    pub received: f64,
    pub deleted: f64,
    pub empty_receives: f64,
}

/// Sums over queues.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sums {
    pub queues: u64,
    pub counts: Counts,
    pub oldest_sent: Option<Timestamp>,
    pub rates: Option<Rates>,
}

/// Different views kept of one sample. Beyond, frames are made for each viewer.
const MAX_FRAMES: usize = 256;

impl Sample {
    /// Looks at every queue. Cancel safe.
    pub(crate) async fn take(
        surroundings: &Arc<Surroundings>,
        tick: u64,
        earlier: Option<&Sample>,
    ) -> Sample {
        let shards = surroundings.shards();
        let taken_at = Instant::now();
        let earlier = earlier.filter(|sample| taken_at - sample.taken_at < MAX_APART);
        let elapsed_s = earlier.map(|sample| (taken_at - sample.taken_at).as_secs_f64());
        let mut before = earlier.map(|sample| sample.queues.iter().peekable());
        let mut queues = Vec::new();
        let mut has_changed = false;
        for (index, queue) in shards.catalog().queues().into_iter().enumerate() {
            if index % QUEUES_PER_TURN == QUEUES_PER_TURN - 1 {
                tokio::task::yield_now().await;
            }
            // Both are in the order of keys: what is left behind was deleted since.
            let mut known = None;
            if let Some(before) = &mut before {
                while before.next_if(|b| b.queue.key() < queue.key()).is_some() {
                    has_changed = true;
                }
                known = before.next_if(|b| b.queue.id() == queue.id());
            }
            let glance = QueueGlance::of(&queue);
            let definition = queue.definition();
            has_changed |= known.is_none_or(|known| !Arc::ptr_eq(&known.definition, &definition));
            let rates = elapsed_s.map(|elapsed_s| {
                let totals = known.map(|known| known.glance.totals).unwrap_or_default();
                Rates::between(&totals, &glance.totals, elapsed_s)
            });
            queues.push(Looked { queue, definition, glance, rates });
        }
        has_changed |= before.is_none_or(|mut before| before.next().is_some());
        let sources = match earlier {
            Some(earlier) if !has_changed => earlier.sources.clone(),
            _ => Arc::new(dead_letter_sources(&queues)),
        };
        Sample {
            tick,
            now: shards.now(),
            taken_at,
            queues,
            sources,
            in_alarm: surroundings.in_alarm(),
            surroundings: surroundings.clone(),
            frames: Mutex::default(),
        }
    }

    /// What the view shows of it.
    pub(crate) fn frame(&self, view: &View) -> Arc<Frame> {
        let mut frames = self.frames.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(frame) = frames.get(view) {
            return frame.clone();
        }
        let frame = Arc::new(Frame::of(self, view));
        if frames.len() < MAX_FRAMES {
            frames.insert(view.clone(), frame.clone());
        }
        frame
    }

    pub(crate) fn find(&self, key: &QueueKey) -> Option<&Looked> {
        let at = self.queues.binary_search_by(|looked| looked.queue.key().cmp(key)).ok()?;
        self.queues.get(at)
    }

    pub(crate) fn age(&self) -> Duration {
        self.taken_at.elapsed()
    }

    /// Sums over the queues that the view may show.
    pub(crate) fn sums(&self, view: &View) -> Sums {
        let mut sums = Sums::default();
        for looked in self.queues.iter().filter(|looked| view.may_show(looked.queue.key())) {
            let QueueGlance { counts, oldest_sent, .. } = looked.glance;
            sums.queues += 1;
            sums.counts.ready += counts.ready;
            sums.counts.in_flight += counts.in_flight;
            sums.counts.delayed += counts.delayed;
            sums.oldest_sent = [sums.oldest_sent, oldest_sent].into_iter().flatten().min();
            if let Some(rates) = looked.rates {
                let all = sums.rates.get_or_insert_default();
                all.sent += rates.sent;
                all.received += rates.received;
                all.deleted += rates.deleted;
                all.empty_receives += rates.empty_receives;
            }
        }
        sums
    }
}

impl Rates {
    fn between(before: &QueueTotals, after: &QueueTotals, elapsed_s: f64) -> Rates {
        let rate = |before: u64, after: u64| {
            if elapsed_s > 0.0 { after.saturating_sub(before) as f64 / elapsed_s } else { 0.0 }
        };
        Rates {
            sent: rate(before.messages_sent, after.messages_sent),
            received: rate(before.messages_received, after.messages_received),
            deleted: rate(before.messages_deleted, after.messages_deleted),
            empty_receives: rate(before.empty_receives, after.empty_receives),
        }
    }
}

fn dead_letter_sources(queues: &[Looked]) -> HashMap<QueueKey, Vec<QueueKey>> {
    let mut sources: HashMap<QueueKey, Vec<QueueKey>> = HashMap::new();
    for looked in queues {
        if let Some(redrive) = &looked.definition.settings.redrive {
            sources.entry(redrive.target()).or_default().push(looked.queue.key().clone());
        }
    }
    sources
}
