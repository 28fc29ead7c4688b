//! Push queues: their messages are posted to subscribers, on the deliveries of [`millrace_push`].
//!
//! ```text
//!  IronMQ ─┐                 unicast: drained to one of the subscribers
//!          ├─▶ the queue ──▶                       ┌▶ hidden queue of a subscriber ──▶ endpoint
//!  SQS  ───┘                 multicast: fan-out ───┼▶ …                            ──▶ other queue
//!                            (one append)          └▶ …
//! ```
//!
//! Whoever posts, posts to the queue itself: so both APIs can, delays are the queue's, and the id
//! of a message is its place there, as in any queue. A unicast queue is drained as it is. From a
//! multicast queue each message goes to all hidden queues in one append, carrying its id, and is
//! deleted then; a crash in between repeats it. All state of retries is in the queues, so a restart
//! goes on; only what [`statuses`] remembers is lost.
//!
//! A hidden queue's name says of which queue and subscriber it is, so nothing else is kept about
//! it. It is made when a message needs it, and goes with its subscriber or queue; what a crash
//! leaves behind goes at the next start.

mod endpoint;
mod message;
pub(super) mod post;
mod spread;
mod statuses;
mod subscribers;

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use millrace_broker::{
    BrokerError, Browse, BrowseCursor, BrowseFilter, Creation, Definition, NewQueue, Peeked,
    Settings, Shards, SharedQueue,
};
use millrace_core::{QueueId, QueueKey, sha256_hex};
use millrace_push::{BoxFuture, Deliveries, Endpoint, EndpointFigures, Push};

use super::settings::{ATTRIBUTE, IronSettings, QueueType, Subscriber};
use endpoint::Subscribed;
use spread::Spread;
use statuses::Statuses;
pub(super) use statuses::{Stage, Status};

/// Of hidden queues, in the place of an account.
const SERVICE: &str = "ironmq";
/// Queues whose settings are kept as they were read.
const READ_MAX: usize = 10_000;
/// Of [`Budget`].
const FIND_MESSAGES: usize = 10_000;
const FIND_BYTES: usize = 16 << 20;
const FIND_AT_ONCE: usize = 100;

/// All push queues.
pub(super) struct Pushers {
    pub(super) shards: Arc<Shards>,
    /// None: nothing is posted to anybody.
    push: Option<Arc<Push>>,
    statuses: Statuses,
    /// Settings as they were read last, which each batch of messages asks for.
    read: Mutex<HashMap<QueueId, Read>>,
    default: Arc<Known>,
}

/// Settings, and the definition that they were read from.
struct Read {
    definition: Arc<Definition>,
    settings: Arc<Known>,
}

/// Bounds of what a request may look at in hidden queues to find a message whose place nobody remembers.
pub(super) struct Budget {
    messages: usize,
    bytes: usize,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget { messages: FIND_MESSAGES, bytes: FIND_BYTES }
    }
}

/// The settings of a queue.
#[derive(Debug, Default)]
pub(super) struct Known {
    settings: IronSettings,
    /// The keys of the subscribers' hidden queues, in the order of the subscribers.
    hidden: Vec<QueueKey>,
}

impl Deref for Known {
    type Target = IronSettings;

    fn deref(&self) -> &IronSettings {
        &self.settings
    }
}

/// The answers to the questions of the push floor.
struct Drained(Arc<Pushers>);

impl Pushers {
    pub(super) fn new(shards: Arc<Shards>, push: Option<Arc<Push>>) -> Pushers {
        let (statuses, read, default) = Default::default();
        Pushers { shards, push, statuses, read, default }
    }

    /// Goes on with what waits since an earlier run.
    pub(super) fn start(self: &Arc<Pushers>) {
        for queue in self.shards.catalog().queues() {
            self.resume(&queue);
        }
        let hidden = self.shards.all().into_iter().flat_map(|shard| shard.queues());
        let hidden = hidden.filter(|it| it.key().is_hidden() && it.key().account == SERVICE);
        for queue in hidden {
            match self.subscriber_of(queue.key()) {
                Some(_) => self.drain(&queue),
                None => {
                    let shards = Arc::clone(&self.shards);
                    self.spawn(async move {
                        let _ = shards.catalog().delete_queue(&queue).await;
                    });
                }
            }
        }
    }

    /// Runs a task until the server stops.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Some(push) = &self.push {
            push.spawn(task);
        }
    }

    /// The settings of a queue, quickly for those that have none.
    pub(super) fn settings(&self, queue: &SharedQueue) -> Arc<Known> {
        let definition = queue.definition();
        if !definition.attributes.contains_key(ATTRIBUTE) {
            return Arc::clone(&self.default);
        }
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = read.get(&queue.id())
            && Arc::ptr_eq(&known.definition, &definition)
        {
            return Arc::clone(&known.settings);
        }
        let settings = IronSettings::of(&definition);
        let subscribers = settings.push.subscribers.iter();
        let hidden = subscribers.map(|it| hidden_key(queue.id(), &it.name)).collect();
        let settings = Arc::new(Known { settings, hidden });
        if read.len() >= READ_MAX {
            read.clear();
        }
        read.insert(queue.id(), Read { definition, settings: Arc::clone(&settings) });
        settings
    }

    /// A queue may have become a push queue, or have other subscribers than before.
    pub(super) async fn changed(self: &Arc<Pushers>, queue: &Arc<SharedQueue>, old: &IronSettings) {
        let new = self.settings(queue);
        let is_gone =
            |it: &&Subscriber| !new.push.subscribers.iter().any(|new| new.name == it.name);
        for subscriber in old.push.subscribers.iter().filter(is_gone) {
            self.delete_hidden(queue, &subscriber.name).await;
        }
        self.resume(queue);
    }

    /// Drains a queue and its hidden ones, if it is a push queue.
    fn resume(self: &Arc<Pushers>, queue: &Arc<SharedQueue>) {
        if self.settings(queue).is_push() {
            self.drain(queue);
            self.hidden(queue).into_iter().for_each(|(_, hidden)| self.drain(&hidden));
        }
    }

    fn drain(self: &Arc<Pushers>, queue: &Arc<SharedQueue>) {
        if let Some(push) = &self.push {
            let deliveries: Arc<dyn Deliveries> = Arc::new(Drained(Arc::clone(self)));
            push.drain(queue, &deliveries);
        }
    }

    /// The hidden queues that there are of a queue, with their subscribers.
    pub(super) fn hidden(&self, queue: &SharedQueue) -> Vec<(Subscriber, Arc<SharedQueue>)> {
        let catalog = self.shards.catalog();
        let settings = self.settings(queue);
        let hidden = settings.push.subscribers.iter().zip(&settings.hidden);
        let hidden = hidden.filter_map(|(it, key)| Some((it.clone(), catalog.queue_by_key(key)?)));
        hidden.collect()
    }

    /// The figures of what is delivered from a queue: a hidden one, or a unicast queue.
    pub(super) fn figures(&self, queue: &SharedQueue) -> Option<EndpointFigures> {
        self.push.as_ref()?.endpoint_figures(queue.id())
    }

    /// The queue from which a subscriber of a multicast queue gets its messages.
    async fn hidden_or_new(
        self: &Arc<Pushers>,
        queue: &SharedQueue,
        key: &QueueKey,
    ) -> Result<Arc<SharedQueue>, BrokerError> {
        if let Some(hidden) = self.shards.catalog().queue_by_key(key) {
            return Ok(hidden);
        }
        let key = key.clone();
        let retention_s = queue.definition().settings.retention_s;
        let settings = Settings { retention_s, ..Settings::default() };
        let (attributes, tags) = Default::default();
        let new = NewQueue { key, settings, attributes, tags };
        let (Creation::Created(hidden) | Creation::Existing(hidden)) =
            self.shards.create_queue(&new).await?;
        self.drain(&hidden);
        Ok(hidden)
    }

    async fn delete_hidden(&self, queue: &SharedQueue, subscriber: &str) {
        let catalog = self.shards.catalog();
        let Some(hidden) = catalog.queue_by_key(&hidden_key(queue.id(), subscriber)) else {
            return;
        };
        match catalog.delete_queue(&hidden).await {
            Ok(()) | Err(BrokerError::QueueDoesNotExist) => {}
            // It goes at the next start.
            Err(error) => tracing::debug!(queue = %queue.key(), %error, "a hidden queue stays"),
        }
    }

    /// A queue is deleted: its hidden queues go, too.
    pub(super) async fn deleted(&self, queue: &SharedQueue) {
        for subscriber in &self.settings(queue).push.subscribers {
            self.delete_hidden(queue, &subscriber.name).await;
        }
        self.forget(queue.id());
    }

    /// The push queue and the subscriber of a hidden queue, if both are still there.
    fn subscriber_of(&self, hidden: &QueueKey) -> Option<(Arc<SharedQueue>, Subscriber)> {
        let queue = self.shards.catalog().queue_by_id(pushed(hidden)?)?;
        let settings = self.settings(&queue);
        let number = settings.hidden.iter().position(|it| it == hidden)?;
        let subscriber = settings.push.subscribers.get(number)?.clone();
        settings.is_push().then_some((queue, subscriber))
    }

    /// The push queue that a hidden queue belongs to, and its subscriber's name.
    pub(super) fn owner_of(&self, hidden: QueueId) -> Option<(QueueId, Arc<SharedQueue>, String)> {
        let hidden = self.shards.catalog().queue_by_id(hidden)?;
        let (queue, subscriber) = self.subscriber_of(hidden.key())?;
        Some((queue.id(), hidden, subscriber.name))
    }

    /// The message of that id in a hidden queue, if it still waits there.
    pub(super) fn find(
        &self,
        (queue, id): (&SharedQueue, &str),
        (subscriber, hidden): (&Subscriber, &SharedQueue),
        budget: &mut Budget,
    ) -> Result<Option<Peeked>, BrokerError> {
        let is_it = |peeked: &Peeked| has_id(peeked, hidden, id);
        let known = self.statuses.of(queue.id(), id);
        let known = known.iter().find(|it| *it.name == subscriber.name).and_then(|it| it.at);
        if let Some((_, at)) = known.filter(|(of, _)| *of == hidden.id()) {
            return Ok(hidden.browser().one(at)?.filter(is_it));
        }
        let mut from = Some(BrowseCursor::default());
        while let Some(next) = from
            && budget.messages > 0
            && budget.bytes > 0
        {
            let page = hidden.browser().page(&Browse {
                filter: BrowseFilter::All,
                from: next,
                limit: FIND_AT_ONCE,
                max_visits: FIND_AT_ONCE,
                max_bytes: budget.bytes,
            })?;
            let bytes = page.messages.iter().map(|it| it.delivery.record_len as usize).sum();
            budget.messages = budget.messages.saturating_sub(FIND_AT_ONCE);
            budget.bytes = budget.bytes.saturating_sub(bytes);
            if let Some(found) = page.messages.into_iter().find(is_it) {
                return Ok(Some(found));
            }
            from = page.next;
        }
        Ok(None)
    }

    /// The remembered statuses of a message.
    pub(super) fn statuses(&self, queue: &SharedQueue, id: &str) -> Vec<Status> {
        self.statuses.of(queue.id(), id)
    }

    /// A subscriber has acknowledged a message, or it was taken back. `None`: of a unicast queue.
    pub(super) fn acknowledged(&self, queue: QueueId, id: &str, subscriber: Option<&str>) {
        self.statuses.end((queue, id), subscriber, Stage::Deleted);
    }

    /// Forgets what was read of a queue that is deleted.
    pub(super) fn forget(&self, queue: QueueId) {
        self.read.lock().unwrap_or_else(PoisonError::into_inner).remove(&queue);
    }
}

impl Deliveries for Drained {
    fn endpoint(&self, key: &QueueKey) -> Option<Arc<dyn Endpoint>> {
        let pushers = Arc::clone(&self.0);
        if key.is_hidden() {
            let (queue, subscriber) = pushers.subscriber_of(key)?;
            let hidden = pushers.shards.catalog().queue_by_key(key)?;
            let settings = pushers.settings(&queue);
            return Some(Arc::new(Subscribed {
                pushers,
                queue,
                settings,
                subscribers: vec![subscriber],
                hidden: Some(hidden),
            }));
        }
        let queue = pushers.shards.catalog().queue_by_key(key)?;
        let settings = pushers.settings(&queue);
        if settings.push.subscribers.is_empty() {
            return None;
        }
        match settings.kind {
            QueueType::Pull => None,
            QueueType::Multicast => Some(Arc::new(Spread { pushers, queue })),
            QueueType::Unicast => {
                let subscribers = settings.push.subscribers.clone();
                let hidden = None;
                Some(Arc::new(Subscribed { pushers, queue, settings, subscribers, hidden }))
            }
        }
    }

    fn deleted<'a>(&'a self, queue: &'a SharedQueue) -> BoxFuture<'a, ()> {
        Box::pin(self.0.deleted(queue))
    }
}

/// The key of the hidden queue of a subscriber.
fn hidden_key(queue: QueueId, subscriber: &str) -> QueueKey {
    let digest = sha256_hex(subscriber.as_bytes());
    let digest = digest.get(..32).unwrap_or_default();
    QueueKey::hidden(SERVICE, &format!("{:016x}-{digest}", queue.0))
}

/// The queue in the key of a hidden one.
fn pushed(hidden: &QueueKey) -> Option<QueueId> {
    let number = hidden.name.get(..16).filter(|_| hidden.account == SERVICE)?;
    u64::from_str_radix(number, 16).ok().map(QueueId)
}

/// True for the message of that id, in a hidden queue.
fn has_id(peeked: &Peeked, hidden: &SharedQueue, id: &str) -> bool {
    shown_id(peeked, hidden) == id
}

/// The id of a message in a hidden queue.
pub(super) fn shown_id(peeked: &Peeked, hidden: &SharedQueue) -> String {
    message::id(&peeked.content, (hidden.id(), peeked.delivery.at), true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hidden_queue_is_of_one_subscriber_of_one_queue() {
        let key = hidden_key(QueueId(7 << 56 | 5), "a");

        assert!(key.is_hidden() && key.name.len() <= 80);
        assert_eq!(pushed(&key), Some(QueueId(7 << 56 | 5)));
        assert_ne!(key, hidden_key(QueueId(7 << 56 | 5), "b"));
        assert_ne!(key, hidden_key(QueueId(7 << 56 | 6), "a"));
        for other in ["", "x", "é\u{10FFFF}\u{10FFFF}\u{10FFFF}\u{10FFFF}"] {
            assert_eq!(pushed(&QueueKey::hidden(SERVICE, other)), None);
        }
        assert_eq!(pushed(&QueueKey::hidden("sns", &key.name)), None);
    }
}
