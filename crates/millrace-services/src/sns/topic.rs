//! One topic, as publishers and changes of it share it.
//!
//! A publisher looks at one [`Snapshot`], which never changes. It is made when the first publisher
//! asks for it after a change, so that many changes in a row make none.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwapOption;
use millrace_broker::Collection;
use millrace_filters::{Filters, Scope};
use serde::{Deserialize, Serialize};

use super::subscription::{Protocol, Subscription, SubscriptionState};
use super::tally::Tally;
use super::topic_attributes::TopicSettings;
use super::window::Window;
use crate::authorize::Resource;
use crate::policy::Policy;

/// A topic as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TopicDocument {
    pub arn: String,
    pub account: String,
    pub is_fifo: bool,
    /// Those that were set, by name.
    pub attributes: BTreeMap<String, String>,
    pub tags: BTreeMap<String, String>,
    #[serde(default)]
    pub data_protection_policy: Option<String>,
}

pub(super) const TOPICS: Collection<TopicDocument> =
    Collection::new("sns-topics", |topic| topic.arn.clone());

/// A topic. Kept alive by its users; no list has a deleted one.
pub(crate) struct Topic {
    arn: String,
    account: String,
    is_fifo: bool,
    /// Taken behind the lock of the directory.
    inner: Mutex<Inner>,
    /// Stored and cleared under the lock of `inner`.
    snapshot: ArcSwapOption<Snapshot>,
    window: Mutex<Window>,
    tally: Arc<Tally>,
}

struct Inner {
    document: Arc<TopicDocument>,
    /// All that have not ended.
    subscriptions: BTreeMap<Protocol, BTreeMap<String, Arc<Subscription>>>,
}

/// A topic as it is at one moment.
pub(super) struct Snapshot {
    pub document: Arc<TopicDocument>,
    pub settings: TopicSettings,
    pub policy: Arc<Policy>,
    /// The confirmed ones.
    pub subscriptions: Box<[Arc<Subscription>]>,
    /// The policies of those that have one, by index.
    pub filters: Filters<u32>,
    /// The indexes of the others, if there is any policy.
    pub unfiltered: Box<[u32]>,
    pub filtered: Filtered,
    pub pending: usize,
    pub tally: Arc<Tally>,
}

/// Numbers of subscriptions that have a policy, by its scope and by protocol.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Filtered {
    pub on_attributes: [u64; Protocol::ALL.len()],
    pub on_body: [u64; Protocol::ALL.len()],
}

impl Topic {
    pub(super) fn new(document: TopicDocument, window: Window) -> Topic {
        Topic {
            arn: document.arn.clone(),
            account: document.account.clone(),
            is_fifo: document.is_fifo,
            inner: Mutex::new(Inner {
                document: Arc::new(document),
                subscriptions: BTreeMap::new(),
            }),
            snapshot: ArcSwapOption::empty(),
            window: Mutex::new(window),
            tally: Arc::default(),
        }
    }

    pub(super) fn arn(&self) -> &str {
        &self.arn
    }

    /// The owner's account.
    pub(super) fn account(&self) -> &str {
        &self.account
    }

    pub(super) fn is_fifo(&self) -> bool {
        self.is_fifo
    }

    /// The topic as it is now.
    pub(super) fn snapshot(&self) -> Arc<Snapshot> {
        if let Some(snapshot) = self.snapshot.load_full() {
            return snapshot;
        }
        let inner = self.lock();
        let snapshot = Arc::new(Snapshot::of(&inner, self.tally.clone()));
        self.snapshot.store(Some(snapshot.clone()));
        snapshot
    }

    pub(super) fn document(&self) -> Arc<TopicDocument> {
        self.lock().document.clone()
    }

    pub(super) fn set_document(&self, document: TopicDocument) {
        let mut inner = self.lock();
        inner.document = Arc::new(document);
        self.snapshot.store(None);
    }

    /// The subscription of an endpoint, unless it has ended.
    pub(super) fn subscription(
        &self,
        protocol: Protocol,
        endpoint: &str,
    ) -> Option<Arc<Subscription>> {
        self.lock().subscriptions.get(&protocol)?.get(endpoint).cloned()
    }

    pub(super) fn count_subscriptions(&self) -> usize {
        self.lock().subscriptions.values().map(BTreeMap::len).sum()
    }

    /// Adds a subscription, or puts it in the place of that of the same endpoint.
    pub(super) fn put(&self, subscription: Arc<Subscription>) {
        let mut inner = self.lock();
        let document = subscription.document();
        let of_protocol = inner.subscriptions.entry(document.protocol).or_default();
        of_protocol.insert(document.endpoint.clone(), subscription);
        self.snapshot.store(None);
    }

    pub(super) fn remove(&self, protocol: Protocol, endpoint: &str) {
        let mut inner = self.lock();
        if let Some(of_protocol) = inner.subscriptions.get_mut(&protocol) {
            of_protocol.remove(endpoint);
        }
        self.snapshot.store(None);
    }

    /// Messages that a FIFO topic has accepted. Held over an append, so that all queues get them in
    /// one order; taken before the locks of queues, and never held across an await.
    pub(super) fn window(&self) -> MutexGuard<'_, Window> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn tally(&self) -> &Arc<Tally> {
        &self.tally
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn all(&self) -> impl Iterator<Item = &Arc<Subscription>> {
        self.subscriptions.values().flat_map(BTreeMap::values)
    }
}

impl Snapshot {
    fn of(inner: &Inner, tally: Arc<Tally>) -> Snapshot {
        let document = inner.document.clone();
        let is_confirmed =
            |it: &&Arc<Subscription>| it.document().state == SubscriptionState::Confirmed;
        let subscriptions: Box<[_]> = inner.all().filter(is_confirmed).cloned().collect();
        let mut filters = Filters::new();
        let mut unfiltered = Vec::new();
        let mut filtered = Filtered::default();
        for (index, subscription) in (0..).zip(&subscriptions) {
            match subscription.filter() {
                Some(policy) => {
                    *filtered.of(policy.scope(), subscription.document().protocol) += 1;
                    filters.insert(index, policy.clone());
                }
                None => unfiltered.push(index),
            }
        }
        if filters.is_empty() {
            unfiltered = Vec::new();
        }
        Snapshot {
            filters,
            unfiltered: unfiltered.into(),
            filtered,
            tally,
            settings: TopicSettings::of(&document),
            policy: Arc::new(policy(&document)),
            pending: inner.all().count() - subscriptions.len(),
            subscriptions,
            document,
        }
    }
}

impl Filtered {
    /// The number of one scope and protocol.
    pub(super) fn of(&mut self, scope: Scope, protocol: Protocol) -> &mut u64 {
        let numbers = match scope {
            Scope::MessageAttributes => &mut self.on_attributes,
            Scope::MessageBody => &mut self.on_body,
        };
        &mut numbers[protocol as usize]
    }
}

fn policy(document: &TopicDocument) -> Policy {
    Policy::parse(document.attributes.get("Policy").map(String::as_str))
}

impl Resource for Arc<Topic> {
    fn arn(&self) -> &str {
        &self.arn
    }

    fn account(&self) -> &str {
        &self.account
    }

    fn policy(&self) -> Arc<Policy> {
        // Without a snapshot there was a change, and the next may follow: none is made for this.
        match &*self.snapshot.load() {
            Some(snapshot) => snapshot.policy.clone(),
            None => Arc::new(policy(&self.document())),
        }
    }
}
