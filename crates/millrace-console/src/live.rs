//! Figures that move: one sampler, and a stream of server-sent events for each tab.
//!
//! A stream begins with a `snapshot` and goes on with a `delta` each second. Each event's id names
//! its sample; a browser that comes back with the id of a sample that is still kept goes on with a
//! delta. Without viewers nothing is sampled.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use millrace_core::{QueueKey, Timestamp, may_take};
use millrace_wire::BodyStream;
use serde_json::Value;
use tokio::sync::{Notify, mpsc};
use tokio::time::MissedTickBehavior;

use crate::history::{Histories, SHOWN};
use crate::rows::Frame;
use crate::sample::Sample;
use crate::session::Hold;
use crate::surroundings::Surroundings;
use crate::view::{Part, View};

const PERIOD: Duration = Duration::from_secs(1);
/// A sample this old is as good as a new one.
const FRESH: Duration = Duration::from_millis(900);
/// Samples closer together would make rates jump.
const MIN_APART: Duration = Duration::from_millis(400);
/// Samples kept for browsers that come back.
const KEPT_SAMPLES: usize = 5;
/// How long they are kept when nobody looks: they hold queues that are deleted meanwhile. Pages
/// without a stream ask every five seconds, and are told rates since the sample before.
const KEPT_FOR: Duration = Duration::from_millis(if cfg!(test) { 50 } else { 15_000 });
/// The longest wait of a page for the minutes before it.
const MINUTES_WITHIN: Duration = Duration::from_millis(if cfg!(test) { 60_000 } else { 700 });
/// The longest wait of a stream for them. Its page is shown already, so it asks with more patience
/// for what the page may have missed.
const MINUTES_OF_STREAM_WITHIN: Duration = Duration::from_secs(if cfg!(test) { 60 } else { 3 });
/// Events that a browser may be behind; then it misses some and gets all changes at once later.
const MAX_BEHIND: usize = 2;
/// Tabs that look at a time. Beyond, they ask every few seconds instead.
const MAX_STREAMS: usize = 1_000;

/// The sampler and its viewers.
pub(crate) struct Live {
    surroundings: Arc<Surroundings>,
    /// Tells this process's samples from those of others.
    process: String,
    shared: Mutex<Shared>,
    /// One sample at a time.
    sampling: tokio::sync::Mutex<()>,
    /// There is a viewer, or a sample.
    has_looked: Notify,
}

#[derive(Default)]
struct Shared {
    /// The latest last.
    samples: VecDeque<Arc<Sample>>,
    /// Of the latest sample, also if that is forgotten.
    tick: u64,
    histories: Histories,
    viewers: Vec<Viewer>,
    is_closed: bool,
}

struct Viewer {
    view: View,
    hold: Hold,
    sender: mpsc::Sender<Vec<u8>>,
    /// What it was sent last.
    shown: Arc<Frame>,
}

/// The events of one tab.
struct Events(mpsc::Receiver<Vec<u8>>);

impl BodyStream for Events {
    fn poll_next(&mut self, task: &mut Context<'_>) -> Poll<Option<Vec<u8>>> {
        self.0.poll_recv(task)
    }
}

impl Live {
    pub(crate) fn new(surroundings: Arc<Surroundings>, process: String) -> Live {
        Live {
            surroundings,
            process,
            shared: Mutex::default(),
            sampling: tokio::sync::Mutex::default(),
            has_looked: Notify::new(),
        }
    }

    /// Samples and sends while there are viewers. Never resolves; to be run by the runtime that
    /// serves the streams.
    pub(crate) async fn run(&self) {
        let mut ticks = tokio::time::interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if self.shared().viewers.is_empty() {
                self.rest().await;
                ticks.reset();
                continue;
            }
            let sample = self.sample(MIN_APART).await;
            self.send(&sample);
        }
    }

    /// Waits until somebody looks. What was sampled is forgotten when nobody goes on from it any
    /// more.
    async fn rest(&self) {
        if tokio::time::timeout(KEPT_FOR, self.has_looked.notified()).await.is_err() {
            let forgotten = std::mem::take(&mut self.shared().samples);
            drop(forgotten);
            self.has_looked.notified().await;
        }
    }

    /// Ends all streams, and refuses new ones: the server drains.
    pub(crate) fn close(&self) {
        let mut shared = self.shared();
        shared.is_closed = true;
        shared.viewers.clear();
    }

    /// Ends the streams of sessions that have ended.
    pub(crate) fn release(&self) {
        let now = Instant::now();
        self.shared().viewers.retain(|viewer| !viewer.hold.has_ended(now));
    }

    /// All that the view shows now, with its history.
    pub(crate) async fn snapshot(&self, view: &View) -> Value {
        let sample = self.sample_for(view).await;
        self.fill_history(view, &sample, MINUTES_WITHIN).await;
        self.snapshot_of(&mut self.shared(), view, &sample)
    }

    /// A stream of the view's figures while `hold` lasts, going on after the event `last_id` if
    /// that can be; none if there are too many.
    pub(crate) async fn stream(
        &self,
        view: View,
        hold: Hold,
        last_id: &str,
    ) -> Option<Box<dyn BodyStream>> {
        let sample = self.sample_for(&view).await;
        self.fill_history(&view, &sample, MINUTES_OF_STREAM_WITHIN).await;
        let (sender, events) = mpsc::channel(MAX_BEHIND);
        let mut shared = self.shared();
        shared.viewers.retain(|viewer| !viewer.sender.is_closed());
        let of_account =
            shared.viewers.iter().filter(|viewer| viewer.view.account == view.account).count();
        if shared.is_closed || !may_take(of_account, shared.viewers.len(), MAX_STREAMS) {
            return None;
        }
        let known = last_id.strip_prefix(self.process.as_str()).and_then(|id| id.strip_prefix('-'));
        let known = known.and_then(|tick| tick.parse::<u64>().ok());
        let known = known.and_then(|tick| shared.samples.iter().find(|s| s.tick == tick).cloned());
        let shown = sample.frame(&view);
        let (name, data) = match known {
            Some(known) => ("delta", shown.since(&known.frame(&view))),
            None => ("snapshot", self.snapshot_of(&mut shared, &view, &sample)),
        };
        let mut first = b"retry: 1000\n".to_vec();
        first.extend(self.event(name, sample.tick, &data));
        // There is room: it is the first.
        let _ = sender.try_send(first);
        shared.viewers.push(Viewer { view, hold, sender, shown });
        drop(shared);
        self.has_looked.notify_one();
        Some(Box::new(Events(events)))
    }

    fn snapshot_of(&self, shared: &mut Shared, view: &View, sample: &Sample) -> Value {
        shared.histories.watch(view, sample);
        shared.histories.add(sample);
        let mut data = sample.frame(view).whole();
        data["history"] = shared.histories.of(view);
        data["id"] = format!("{}-{}", self.process, sample.tick).into();
        data
    }

    /// Asks the metrics for the minutes that nobody watched; without an answer in time, a chart
    /// begins with what was watched.
    async fn fill_history(&self, view: &View, sample: &Sample, within: Duration) {
        {
            let mut shared = self.shared();
            if !shared.histories.has_gaps(view, sample.now) {
                return;
            }
            shared.histories.watch(view, sample);
        }
        let queues: Vec<QueueKey> = match &view.part {
            Part::Queue(key) => vec![key.clone()],
            _ => sample.queues.iter().map(|looked| looked.queue.key().clone()).collect(),
        };
        let queues: Vec<QueueKey> = queues.into_iter().filter(|key| view.may_show(key)).collect();
        let account = view.account.as_deref().unwrap_or_default();
        let since = Timestamp(sample.now.0.saturating_sub(SHOWN.as_millis() as u64));
        let minutes = self.surroundings.services().minutes_of_queues(account, queues, since);
        match tokio::time::timeout(within, minutes).await {
            Ok(Ok(minutes)) => {
                let started = self.surroundings.started();
                let created = match &view.part {
                    Part::Queue(key) => sample.find(key).map(|looked| looked.definition.created_ms),
                    _ => None,
                };
                let since = (started, Timestamp(created.unwrap_or_default()));
                self.shared().histories.fill(view, minutes, since);
            }
            Ok(Err(error)) => {
                tracing::debug!(error = %error.message, "the minutes before were not read");
            }
            Err(_) => tracing::debug!("the minutes before took too long to read"),
        }
    }

    /// A fresh sample; one that knows the queue looked at, even if it is newer than that.
    async fn sample_for(&self, view: &View) -> Arc<Sample> {
        let sample = self.sample(FRESH).await;
        match &view.part {
            Part::Queue(key) if sample.find(key).is_none() => {
                match self.surroundings.shards().catalog().queue_by_key(key) {
                    Some(_) => self.sample(Duration::ZERO).await,
                    None => sample,
                }
            }
            _ => sample,
        }
    }

    /// The latest sample, or a new one if that is older than `max_age`.
    async fn sample(&self, max_age: Duration) -> Arc<Sample> {
        let _one_at_a_time = self.sampling.lock().await;
        let (latest, tick) = {
            let shared = self.shared();
            (shared.samples.back().cloned(), shared.tick + 1)
        };
        if let Some(latest) = &latest
            && latest.age() < max_age
        {
            return latest.clone();
        }
        let sample = Arc::new(Sample::take(&self.surroundings, tick, latest.as_deref()).await);
        let mut shared = self.shared();
        shared.tick = tick;
        if shared.samples.len() == KEPT_SAMPLES {
            shared.samples.pop_front();
        }
        shared.samples.push_back(sample.clone());
        shared.histories.add(&sample);
        drop(shared);
        self.has_looked.notify_one();
        sample
    }

    /// Sends each viewer what changed. Who is behind is passed over this time. Viewers who look at
    /// the same and have seen the same get the same bytes, which are made once.
    fn send(&self, sample: &Sample) {
        // With what was shown before, so that no other frame can be where that was.
        let mut made: HashMap<_, (Arc<Frame>, Vec<u8>)> = HashMap::new();
        let now = Instant::now();
        let mut shared = self.shared();
        let Shared { viewers, histories, .. } = &mut *shared;
        viewers.retain_mut(|viewer| {
            // Sessions end in other ways than by a logout, as when their time is over, and while a
            // stream is being made.
            if viewer.hold.has_ended(now) {
                return false;
            }
            let Ok(place) = viewer.sender.try_reserve() else {
                return !viewer.sender.is_closed();
            };
            histories.watch(&viewer.view, sample);
            let frame = sample.frame(&viewer.view);
            let step = (Arc::as_ptr(&viewer.shown), Arc::as_ptr(&frame));
            let (_, event) = made.entry(step).or_insert_with(|| {
                let delta = frame.since(&viewer.shown);
                (viewer.shown.clone(), self.event("delta", sample.tick, &delta))
            });
            place.send(event.clone());
            viewer.shown = frame;
            true
        });
    }

    fn event(&self, name: &str, tick: u64, data: &Value) -> Vec<u8> {
        format!("event: {name}\nid: {}-{tick}\ndata: {data}\n\n", self.process).into_bytes()
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
