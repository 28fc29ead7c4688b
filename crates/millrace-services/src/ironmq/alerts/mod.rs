//! Alerts: messages about the size of a queue.
//!
//! Sends and deletes know nothing of them. Once a second the sizes of queues that have alerts are
//! looked at, so one fires up to a second late, and what a size passes and comes back from within
//! that second is not seen. Sizes are compared with those of the look before; the first look after
//! a start or a change only remembers.

mod fire;
mod requests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use millrace_broker::{BrokerError, SharedQueue};
use millrace_core::instant_text::format_iso8601_ms;
use millrace_core::{QueueId, Timestamp};
use serde_json::json;
use tokio::sync::Notify;

use super::push::Pushers;
use super::push::post::{NotPosted, post};
use super::settings::Alert;
use fire::fires;

/// Between two looks at a queue.
const PAUSE: Duration = Duration::from_secs(1);

/// The queues that have alerts.
pub(super) struct Alerts {
    pushers: Arc<Pushers>,
    /// A lock because requests add queues; held for a look or a change.
    watched: Mutex<HashMap<QueueId, Watched>>,
    /// There is a queue to watch.
    some: Notify,
}

/// A queue that has alerts.
struct Watched {
    queue: Arc<SharedQueue>,
    /// By the alerts' ids.
    seen: HashMap<String, Seen>,
}

/// The memory of an alert.
#[derive(Clone, Copy, Debug)]
struct Seen {
    size: u64,
    silent_until: Timestamp,
}

impl Alerts {
    /// Watches the queues that have alerts, as a task.
    pub(super) fn start(pushers: &Arc<Pushers>) -> Arc<Alerts> {
        let alerts = Arc::new(Alerts {
            pushers: Arc::clone(pushers),
            watched: Mutex::default(),
            some: Notify::new(),
        });
        pushers.shards.catalog().queues().iter().for_each(|queue| alerts.watch(queue));
        let watching = Arc::clone(&alerts);
        pushers.spawn(async move { watching.run().await });
        alerts
    }

    /// The alerts of a queue may have changed.
    pub(super) fn watch(&self, queue: &Arc<SharedQueue>) {
        if self.pushers.settings(queue).alerts.is_empty() {
            return;
        }
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let watched = watched
            .entry(queue.id())
            .or_insert_with(|| Watched { queue: Arc::clone(queue), seen: HashMap::new() });
        // The size that the next look compares with.
        let size = queue.count_messages().0.total();
        for alert in &self.pushers.settings(queue).alerts {
            let seen = Seen { size, silent_until: Timestamp(0) };
            watched.seen.entry(alert.id.clone()).or_insert(seen);
        }
        self.some.notify_one();
    }

    async fn run(&self) {
        loop {
            let queues = self.queues();
            if queues.is_empty() {
                self.some.notified().await;
                continue;
            }
            tokio::time::sleep(PAUSE).await;
            for queue in queues {
                self.look(&queue).await;
            }
        }
    }

    fn queues(&self) -> Vec<Arc<SharedQueue>> {
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.values().map(|it| Arc::clone(&it.queue)).collect()
    }

    /// Compares the size of a queue with that of the look before.
    async fn look(&self, queue: &SharedQueue) {
        let settings = self.pushers.settings(queue);
        if queue.is_deleted() || settings.alerts.is_empty() {
            self.watched.lock().unwrap_or_else(PoisonError::into_inner).remove(&queue.id());
            self.pushers.forget(queue.id());
            return;
        }
        let size = queue.count_messages().0.total();
        let now = self.pushers.shards.now();
        for alert in &settings.alerts {
            let new = Seen { size, silent_until: Timestamp(0) };
            let seen = self.change(queue, alert, |seen| *seen.get_or_insert(new));
            let Some(mut seen) = seen else { return };
            let is_firing = now >= seen.silent_until && fires(alert, seen.size, size);
            if is_firing {
                match self.fire(queue, alert, size, now).await {
                    Ok(()) => seen.silent_until = now.plus_seconds(alert.snooze_s),
                    // The next look sees the same.
                    Err(NotPosted::Broker(BrokerError::Unavailable(_))) => continue,
                    Err(error) => {
                        tracing::warn!(queue = %queue.key(), alert = alert.queue, %error, "no alert");
                    }
                }
            }
            seen.size = size;
            self.change(queue, alert, |known| *known = Some(seen));
        }
        let is_there = |id: &String| settings.alerts.iter().any(|alert| alert.id == *id);
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(watched) = watched.get_mut(&queue.id()) {
            watched.seen.retain(|id, _| is_there(id));
        }
    }

    fn change<T>(
        &self,
        queue: &SharedQueue,
        alert: &Alert,
        change: impl FnOnce(&mut Option<Seen>) -> T,
    ) -> Option<T> {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let watched = watched.get_mut(&queue.id())?;
        let mut seen = watched.seen.remove(&alert.id);
        let value = change(&mut seen);
        if let Some(seen) = seen {
            watched.seen.insert(alert.id.clone(), seen);
        }
        Some(value)
    }

    async fn fire(
        &self,
        queue: &SharedQueue,
        alert: &Alert,
        size: u64,
        now: Timestamp,
    ) -> Result<(), NotPosted> {
        let message = json!({
            "source_queue": queue.key().name,
            "queue_size": size,
            "alert_id": alert.id,
            "alert_type": alert.kind,
            "alert_direction": alert.direction,
            "alert_trigger": alert.trigger,
            "created_at": format_iso8601_ms(now.0),
        });
        let message = message.to_string();
        let (shards, beside) = (&self.pushers.shards, queue.key());
        post(shards, beside, &alert.queue, message.as_bytes(), Vec::new()).await
    }
}
