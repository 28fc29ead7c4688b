//! All topics and subscriptions, and every change of them.
//!
//! In memory once more, beside the kept documents: by ARN, and in each topic by endpoint. A change
//! is made under the lock, in memory and in the journal at once; it is durable when its ticket is
//! committed. The lock is taken before those of a topic, of queues and of documents.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::task::{Context, Waker};

use millrace_broker::{
    Catalog, KeptChange, NewQueue, Outgoing, Purpose, SendTo, Settings, Shard, Shards, SharedQueue,
    Ticket,
};
use millrace_core::{QueueKey, Timestamp, may_take};
use millrace_wire::ApiError;

use super::error;
use super::subscription::{
    HIDDEN_SERVICE, Protocol, SUBSCRIPTIONS, Subscription, SubscriptionDocument, SubscriptionState,
    hidden_queue,
};
use super::tally::{Tally, TopicCounts};
use super::topic::{TOPICS, Topic, TopicDocument};
use super::window::{ACCEPTED, AcceptedId, Window};

/// SNS: standard topics of an account.
const TOPICS_MAX: usize = 100_000;
/// SNS: FIFO topics of an account.
const FIFO_TOPICS_MAX: usize = 1_000;
/// SNS: subscriptions to a FIFO topic.
const FIFO_SUBSCRIPTIONS_MAX: usize = 100;
/// Subscriptions to a topic. SNS has more, but a publish of ours goes through all of them.
const SUBSCRIPTIONS_MAX: usize = 100_000;
/// Subscriptions to all topics of an account.
const SUBSCRIPTIONS_OF_ACCOUNT_MAX: usize = 500_000;
/// SNS: pending subscriptions of an account.
const PENDING_MAX: usize = 5_000;
/// Documents in one append.
const CHANGES_AT_ONCE: usize = 500;
/// SNS: how long a token confirms.
const TOKEN_S: u64 = 2 * 24 * 3_600;
/// Seconds for which deliveries by HTTP are kept: as long as SQS keeps anything.
const HIDDEN_RETENTION_S: u32 = 14 * 24 * 3_600;

/// The directory of topics and subscriptions.
pub(super) struct Topics {
    shards: Arc<Shards>,
    state: RwLock<State>,
    /// Of topics deleted since counts were last taken. Taken alone.
    deleted: Mutex<Vec<(String, Arc<Tally>)>>,
}

#[derive(Default)]
struct State {
    topics: BTreeMap<String, Arc<Topic>>,
    /// Ended ones included.
    subscriptions: BTreeMap<String, Arc<Subscription>>,
    /// The ARN of the subscription that a token is of.
    tokens: HashMap<String, String>,
    /// Of ended subscriptions: when their token was made, and their ARN.
    ended: BTreeSet<(u64, String)>,
    topics_of_account: HashMap<String, [usize; 2]>,
    /// Owners of topics: subscriptions to all of them, and those that are pending.
    of_account: HashMap<String, Counts>,
    all_topics: usize,
    latest: Option<Ticket>,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    all: usize,
    pending: usize,
}

/// A message that goes to the queue of a subscription together with a change of it.
pub(super) struct Notice {
    pub queue: Arc<SharedQueue>,
    pub content: Vec<u8>,
    pub size_bytes: usize,
    pub group: Option<&'static str>,
    pub deduplication_id: Option<String>,
}

/// A change and the ticket that makes it durable.
pub(super) type Changed<T> = (T, Option<Ticket>);

impl Topics {
    /// The topics that are kept. What a crash has left behind, without its topic or subscription, is
    /// deleted.
    pub(super) fn open(shards: Arc<Shards>) -> Topics {
        let topics = Topics { shards, state: RwLock::default(), deleted: Mutex::default() };
        match topics.shards.home() {
            Ok(home) => topics.load(&home),
            Err(cause) => tracing::error!(%cause, "topics cannot be read"),
        }
        topics
    }

    pub(super) fn shards(&self) -> &Arc<Shards> {
        &self.shards
    }

    pub(super) fn home(&self) -> Result<Arc<Shard>, ApiError> {
        self.shards.home().map_err(error::of_broker)
    }

    /// Resolves when a change is durable.
    pub(super) async fn committed(&self, ticket: Option<Ticket>) -> Result<(), ApiError> {
        self.home()?.committed(ticket).await.map_err(error::of_broker)
    }

    pub(super) fn topic(&self, arn: &str) -> Option<Arc<Topic>> {
        self.read().topics.get(arn).cloned()
    }

    /// The subscription of that ARN, unless it has ended.
    pub(super) fn subscription(&self, arn: &str) -> Option<Arc<Subscription>> {
        let found = self.read().subscriptions.get(arn).cloned();
        found.filter(|it| it.document().state != SubscriptionState::Ended)
    }

    /// The subscription of that ARN, even if it has ended.
    pub(super) fn any_subscription(&self, arn: &str) -> Option<Arc<Subscription>> {
        self.read().subscriptions.get(arn).cloned()
    }

    /// All subscriptions of HTTP endpoints, ended ones included.
    pub(super) fn http_subscriptions(&self) -> Vec<Arc<Subscription>> {
        let state = self.read();
        let all = state.subscriptions.values();
        all.filter(|it| it.document().protocol != Protocol::Sqs).cloned().collect()
    }

    /// Up to `limit` topics whose ARNs begin with `prefix`, behind `after`.
    pub(super) fn list_topics(&self, prefix: &str, after: &str, limit: usize) -> Vec<String> {
        let state = self.read();
        let from = Bound::Excluded(after.max(prefix));
        let found = state.topics.range::<str, _>((from, Bound::Unbounded));
        let found = found.take_while(|(arn, _)| arn.starts_with(prefix));
        found.take(limit).map(|(arn, _)| arn.clone()).collect()
    }

    /// The ARN of one topic of each region and account, in order.
    pub(super) fn first_of_each_place(&self) -> Vec<String> {
        let state = self.read();
        let mut found = Vec::new();
        let mut from = String::new();
        while let Some((arn, _)) =
            state.topics.range::<str, _>((Bound::Excluded(from.as_str()), Bound::Unbounded)).next()
        {
            found.push(arn.clone());
            // Names are of ASCII: nothing of the same place is behind this.
            let place = arn.rsplit_once(':').map_or(arn.as_str(), |(place, _)| place);
            from = format!("{place}:\u{7f}");
        }
        found
    }

    /// Up to `limit` subscriptions whose ARNs begin with `prefix` and that are wanted, behind
    /// `after`.
    pub(super) fn list_subscriptions(
        &self,
        prefix: &str,
        after: &str,
        limit: usize,
        is_wanted: impl Fn(&SubscriptionDocument) -> bool,
    ) -> Vec<Arc<Subscription>> {
        let state = self.read();
        let from = Bound::Excluded(after.max(prefix));
        let found = state.subscriptions.range::<str, _>((from, Bound::Unbounded));
        let found = found.take_while(|(arn, _)| arn.starts_with(prefix)).map(|(_, it)| it);
        let found = found.filter(|it| {
            it.document().state != SubscriptionState::Ended && is_wanted(it.document())
        });
        found.take(limit).cloned().collect()
    }

    /// Creates a topic. One of that name is returned if `is_same` accepts it.
    pub(super) fn create_topic(
        &self,
        document: TopicDocument,
        is_same: impl FnOnce(&TopicDocument) -> Result<(), ApiError>,
    ) -> Result<Option<Ticket>, ApiError> {
        let home = self.home()?;
        let mut state = self.write();
        if let Some(topic) = state.topics.get(&document.arn) {
            is_same(&topic.document())?;
            return Ok(state.latest);
        }
        let of_account = state.topics_of_account.get(&document.account).copied();
        let [standard, fifo] = of_account.unwrap_or_default();
        let has_room = match document.is_fifo {
            true => fifo < FIFO_TOPICS_MAX,
            false => may_take(standard, state.all_topics, TOPICS_MAX),
        };
        if !has_room {
            return Err(error::too_many_topics());
        }
        let put = TOPICS.put(&document).map_err(error::of_kept)?;
        state.append(&home, &[put])?;
        let first = first_sequence(&home);
        state.add_topic(Arc::new(Topic::new(document, Window::new(first, Vec::new()))));
        Ok(state.latest)
    }

    /// Changes a topic in one step with reading it.
    pub(super) fn change_topic(
        &self,
        topic: &Topic,
        change: impl FnOnce(&mut TopicDocument) -> Result<(), ApiError>,
    ) -> Result<Option<Ticket>, ApiError> {
        let home = self.home()?;
        let mut state = self.write();
        let topic = state.topics.get(topic.arn()).cloned().ok_or_else(error::no_such_topic)?;
        let before = topic.document();
        let mut document = TopicDocument::clone(&before);
        change(&mut document)?;
        if document != *before {
            let put = TOPICS.put(&document).map_err(error::of_kept)?;
            state.append(&home, &[put])?;
            topic.set_document(document);
        }
        Ok(state.latest)
    }

    /// Deletes a topic and its subscriptions.
    pub(super) fn delete_topic(&self, topic: &Topic) -> Result<Option<Ticket>, ApiError> {
        let home = self.home()?;
        let mut state = self.write();
        let Some(topic) = state.topics.get(topic.arn()).cloned() else { return Ok(state.latest) };
        let prefix = format!("{}:", topic.arn());
        let found = state
            .subscriptions
            .range::<str, _>((Bound::Excluded(prefix.as_str()), Bound::Unbounded));
        let found = found.take_while(|(arn, _)| arn.starts_with(&prefix));
        let gone: Vec<Arc<Subscription>> = found.map(|(_, it)| it.clone()).collect();
        let window = topic.window().keys();
        let subscriptions = gone.iter().map(|it| SUBSCRIPTIONS.delete(it.arn().to_owned()));
        let accepted = window.into_iter().map(|key| ACCEPTED.delete(key));
        // The topic first: what a crash leaves of the others goes at the next start.
        let all = std::iter::once(TOPICS.delete(topic.arn().to_owned()));
        let all: Vec<KeptChange<'_>> = all.chain(subscriptions).chain(accepted).collect();
        for changes in all.chunks(CHANGES_AT_ONCE) {
            state.reclaim(&home, changes)?;
        }
        state.remove_topic(topic.arn());
        for subscription in &gone {
            state.remove_subscription(subscription);
        }
        let latest = state.latest;
        drop(state);
        self.deleted().push((topic.arn().to_owned(), topic.tally().clone()));
        for subscription in &gone {
            self.delete_hidden_queue(subscription);
        }
        Ok(latest)
    }

    /// Adds a subscription, with a message to its queue, unless its endpoint has one; then `is_same`
    /// decides if that one is returned.
    pub(super) fn subscribe(
        &self,
        topic: &Topic,
        document: SubscriptionDocument,
        is_same: impl FnOnce(&Subscription) -> Result<(), ApiError>,
        notice: impl FnOnce(&SubscriptionDocument) -> Result<Option<Notice>, ApiError>,
    ) -> Result<Changed<Arc<Subscription>>, ApiError> {
        let home = self.home()?;
        let mut state = self.write();
        let topic = state.topics.get(topic.arn()).cloned().ok_or_else(error::no_such_topic)?;
        if let Some(known) = topic.subscription(document.protocol, &document.endpoint) {
            is_same(&known)?;
            return Ok((known, state.latest));
        }
        state.check_room(&topic, &document)?;
        if document.protocol != Protocol::Sqs {
            self.create_hidden_queue(&home, &document.arn)?;
        }
        let put = SUBSCRIPTIONS.put(&document).map_err(error::of_kept)?;
        let notice = notice(&document)?;
        state.append_with(&home, &[put], notice)?;
        let subscription = Arc::new(Subscription::new(document));
        state.add_subscription(&topic, &subscription);
        Ok((subscription, state.latest))
    }

    /// Changes a subscription in one step with reading it, with a message to its queue.
    pub(super) fn change_subscription(
        &self,
        arn: &str,
        change: impl FnOnce(&mut SubscriptionDocument) -> Result<Option<Notice>, ApiError>,
    ) -> Result<Changed<Arc<Subscription>>, ApiError> {
        let home = self.home()?;
        let mut state = self.write();
        let known = state.subscriptions.get(arn).cloned();
        let known = known.ok_or_else(error::no_such_subscription)?;
        let topic = state.topics.get(&known.document().topic).cloned();
        let topic = topic.ok_or_else(error::no_such_subscription)?;
        let mut document = known.document().clone();
        let notice = change(&mut document)?;
        if document == *known.document() && notice.is_none() {
            return Ok((known, state.latest));
        }
        // One that is revived may find its place taken.
        let holder = topic.subscription(document.protocol, &document.endpoint);
        if let Some(holder) = holder.filter(|it| it.arn() != arn) {
            return Ok((holder, state.latest));
        }
        let put = SUBSCRIPTIONS.put(&document).map_err(error::of_kept)?;
        state.append_with(&home, &[put], notice)?;
        let subscription = Arc::new(known.changed(document));
        state.remove_subscription(&known);
        topic.remove(known.document().protocol, &known.document().endpoint);
        state.add_subscription(&topic, &subscription);
        Ok((subscription, state.latest))
    }

    /// Deletes a subscription and what waits for its endpoint.
    pub(super) fn delete_subscription(&self, arn: &str) -> Result<Option<Ticket>, ApiError> {
        let home = self.home()?;
        let mut state = self.write();
        let Some(known) = state.subscriptions.get(arn).cloned() else { return Ok(state.latest) };
        state.reclaim(&home, &[SUBSCRIPTIONS.delete(arn.to_owned())])?;
        state.remove_subscription(&known);
        if let Some(topic) = state.topics.get(&known.document().topic) {
            remove_from(topic, &known);
        }
        let latest = state.latest;
        drop(state);
        self.delete_hidden_queue(&known);
        Ok(latest)
    }

    /// The subscription that a token is of, if it is still good.
    pub(super) fn of_token(&self, token: &str, now: Timestamp) -> Option<Arc<Subscription>> {
        let state = self.read();
        let found = state.subscriptions.get(state.tokens.get(token)?)?;
        let is_confirmed = found.document().state == SubscriptionState::Confirmed;
        Some(found.clone()).filter(|it| is_confirmed || !has_expired(it.document(), now))
    }

    /// Deletes the subscriptions that ended so long ago that no token revives them.
    pub(super) fn delete_outdated(&self, now: Timestamp) -> Result<(), ApiError> {
        let is_outdated = |token_ms: u64| now >= Timestamp(token_ms).plus_seconds(TOKEN_S);
        let outdated: Vec<String> = {
            let state = self.read();
            let oldest = state.ended.iter().take_while(|(token_ms, _)| is_outdated(*token_ms));
            oldest.map(|(_, arn)| arn.clone()).collect()
        };
        for arn in outdated {
            self.delete_subscription(&arn)?;
        }
        Ok(())
    }

    /// Forgets everything, after the documents were deleted (test mode).
    pub(super) fn clear(&self) {
        *self.write() = State::default();
        self.deleted().clear();
    }

    /// The counts of a topic and of deleted ones of the same ARN.
    pub(super) fn tallies_of(&self, arn: &str) -> Vec<Arc<Tally>> {
        let mut found: Vec<Arc<Tally>> =
            self.topic(arn).map(|topic| topic.tally().clone()).into_iter().collect();
        let deleted = self.deleted();
        let of_topic = deleted.iter().filter(|(of, _)| of == arn);
        found.extend(of_topic.map(|(_, tally)| tally.clone()));
        found
    }

    /// Takes the counts of all topics, and for the last time those of deleted ones. Calls `counted`
    /// with each that counted anything.
    pub(super) fn take_counts(&self, mut counted: impl FnMut(&str, TopicCounts)) {
        let mut take = |arn: &str, tally: &Tally| {
            let counts = tally.take();
            if counts != TopicCounts::default() {
                counted(arn, counts);
            }
        };
        let topics: Vec<Arc<Topic>> = self.read().topics.values().cloned().collect();
        topics.iter().for_each(|topic| take(topic.arn(), topic.tally()));
        // After the others: one that was deleted meanwhile is in both.
        let deleted = std::mem::take(&mut *self.deleted());
        deleted.iter().for_each(|(arn, tally)| take(arn, tally));
    }

    pub(super) fn counts(&self) -> (usize, usize) {
        let state = self.read();
        (state.topics.len(), state.subscriptions.len())
    }

    fn load(&self, home: &Arc<Shard>) {
        let mut accepted: HashMap<String, Vec<AcceptedId>> = HashMap::new();
        for it in ACCEPTED.scan(home.kept(), "", None, usize::MAX) {
            accepted.entry(it.topic.clone()).or_default().push(it);
        }
        let mut state = self.write();
        for document in TOPICS.scan(home.kept(), "", None, usize::MAX) {
            let known = accepted.remove(&document.arn).unwrap_or_default();
            let window = Window::new(first_sequence(home), known);
            state.add_topic(Arc::new(Topic::new(document, window)));
        }
        let mut orphans: Vec<KeptChange<'static>> = Vec::new();
        for document in SUBSCRIPTIONS.scan(home.kept(), "", None, usize::MAX) {
            match state.topics.get(&document.topic).cloned() {
                Some(topic) => {
                    state.add_subscription(&topic, &Arc::new(Subscription::new(document)));
                }
                None => orphans.push(SUBSCRIPTIONS.delete(document.arn)),
            }
        }
        let left = accepted.into_values().flatten();
        orphans.extend(left.map(|it| ACCEPTED.delete(format!("{}/{}", it.topic, it.digest))));
        for changes in orphans.chunks(CHANGES_AT_ONCE) {
            if let Err(error) = state.reclaim(home, changes) {
                tracing::warn!(error = %error.message, "the rest of a topic stays");
            }
        }
        let used: BTreeSet<&QueueKey> =
            state.subscriptions.values().map(|it| it.target()).collect();
        let is_left = |queue: &Arc<SharedQueue>| {
            let key = queue.key();
            key.is_hidden() && key.account == HIDDEN_SERVICE && !used.contains(key)
        };
        let left: Vec<Arc<SharedQueue>> = home.queues().into_iter().filter(is_left).collect();
        drop(state);
        left.iter().for_each(|queue| begin_delete(self.shards.catalog(), queue));
    }

    fn create_hidden_queue(&self, home: &Shard, arn: &str) -> Result<(), ApiError> {
        let settings = Settings { retention_s: HIDDEN_RETENTION_S, ..Settings::default() };
        let (attributes, tags) = Default::default();
        let new = NewQueue { key: hidden_queue(arn), settings, attributes, tags };
        home.begin_create_queue(&new).map_err(error::of_broker)?;
        Ok(())
    }

    /// Nobody waits for that: at the next start it would be deleted as well.
    fn delete_hidden_queue(&self, subscription: &Subscription) {
        if subscription.document().protocol == Protocol::Sqs {
            return;
        }
        if let Some(queue) = self.queue(subscription.target()) {
            begin_delete(self.shards.catalog(), &queue);
        }
    }

    /// The queue of that key, hidden ones included.
    pub(super) fn queue(&self, key: &QueueKey) -> Option<Arc<SharedQueue>> {
        self.shards.catalog().queue(&key.region, &key.account, &key.name)
    }

    fn deleted(&self) -> MutexGuard<'_, Vec<(String, Arc<Tally>)>> {
        self.deleted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn append(&mut self, home: &Shard, changes: &[KeptChange<'_>]) -> Result<(), ApiError> {
        let ticket = home.kept().change(changes, Purpose::Store).map_err(error::of_kept)?;
        self.latest = Some(ticket);
        Ok(())
    }

    fn reclaim(&mut self, home: &Shard, changes: &[KeptChange<'_>]) -> Result<(), ApiError> {
        let ticket = home.kept().change(changes, Purpose::Reclaim).map_err(error::of_kept)?;
        self.latest = Some(ticket);
        Ok(())
    }

    fn append_with(
        &mut self,
        home: &Shard,
        changes: &[KeptChange<'_>],
        notice: Option<Notice>,
    ) -> Result<(), ApiError> {
        let Some(notice) = &notice else { return self.append(home, changes) };
        let message = Outgoing {
            id: millrace_core::MessageId::from_random(fastrand::u128(..)),
            content: &notice.content,
            size_bytes: notice.size_bytes,
            group: notice.group,
            deduplication_id: notice.deduplication_id.as_deref(),
            delay_s: None,
        };
        let send = SendTo { queue: &notice.queue, messages: &[message] };
        let (_, appended) = home.begin_fan_out(&[send], changes).map_err(error::of_kept)?;
        self.latest = appended.map(|it| it.ticket).or(self.latest);
        Ok(())
    }

    fn check_room(&self, topic: &Topic, new: &SubscriptionDocument) -> Result<(), ApiError> {
        let most = if topic.is_fifo() { FIFO_SUBSCRIPTIONS_MAX } else { SUBSCRIPTIONS_MAX };
        let counts = self.of_account.get(topic.account()).copied().unwrap_or_default();
        let is_pending = new.state == SubscriptionState::Pending;
        let has_room = topic.count_subscriptions() < most
            && may_take(counts.all, self.subscriptions.len(), SUBSCRIPTIONS_OF_ACCOUNT_MAX)
            && (!is_pending || counts.pending < PENDING_MAX);
        if has_room { Ok(()) } else { Err(error::too_many_subscriptions()) }
    }

    fn add_topic(&mut self, topic: Arc<Topic>) {
        let counts = self.topics_of_account.entry(topic.account().to_owned()).or_default();
        counts[usize::from(topic.is_fifo())] += 1;
        self.all_topics += 1;
        self.topics.insert(topic.arn().to_owned(), topic);
    }

    fn remove_topic(&mut self, arn: &str) {
        let Some(topic) = self.topics.remove(arn) else { return };
        self.all_topics -= 1;
        if let Some(counts) = self.topics_of_account.get_mut(topic.account()) {
            counts[usize::from(topic.is_fifo())] -= 1;
            if *counts == [0, 0] {
                self.topics_of_account.remove(topic.account());
            }
        }
    }

    fn add_subscription(&mut self, topic: &Topic, subscription: &Arc<Subscription>) {
        let document = subscription.document();
        let counts = self.of_account.entry(topic.account().to_owned()).or_default();
        counts.all += 1;
        counts.pending += usize::from(document.state == SubscriptionState::Pending);
        if let Some(token) = &document.token {
            self.tokens.insert(token.clone(), document.arn.clone());
        }
        self.subscriptions.insert(document.arn.clone(), subscription.clone());
        match document.state {
            SubscriptionState::Ended => {
                self.ended.insert((document.token_ms, document.arn.clone()));
            }
            _ => topic.put(subscription.clone()),
        }
    }

    fn remove_subscription(&mut self, subscription: &Subscription) {
        let document = subscription.document();
        self.subscriptions.remove(&document.arn);
        if let Some(token) = &document.token {
            self.tokens.remove(token);
        }
        if document.state == SubscriptionState::Ended {
            self.ended.remove(&(document.token_ms, document.arn.clone()));
        }
        let account = account_of(&document.topic);
        if let Some(counts) = self.of_account.get_mut(account) {
            counts.all -= 1;
            counts.pending -= usize::from(document.state == SubscriptionState::Pending);
            if counts.all == 0 {
                self.of_account.remove(account);
            }
        }
    }
}

/// Returns true if a subscription's token confirms it no longer.
pub(super) fn has_expired(document: &SubscriptionDocument, now: Timestamp) -> bool {
    now >= Timestamp(document.token_ms).plus_seconds(TOKEN_S)
}

/// The account in the ARN of a topic.
fn account_of(topic: &str) -> &str {
    topic.split(':').nth(4).unwrap_or_default()
}

/// Removes a subscription from its topic, unless another one has its place.
fn remove_from(topic: &Topic, subscription: &Subscription) {
    let SubscriptionDocument { arn, protocol, endpoint, .. } = subscription.document();
    if topic.subscription(*protocol, endpoint).is_some_and(|it| it.arn() == arn) {
        topic.remove(*protocol, endpoint);
    }
}

/// Sequence numbers of topics begin there: above those of earlier runs of the server.
pub(super) fn first_sequence(home: &Shard) -> u64 {
    Shard::first_seq(home.id(), home.log().opened().epoch.0).unwrap_or_default()
}

/// Deletes a queue without a wait for its commit.
fn begin_delete(catalog: &Catalog, queue: &SharedQueue) {
    // Once polled, it is deleted; what follows is the wait.
    let _ = pin!(catalog.delete_queue(queue)).poll(&mut Context::from_waker(Waker::noop()));
}
