//! Takes published messages to the queues of subscriptions, in one atomic append.
//!
//! A plan decides what each queue gets: the endpoint's queue, or if that cannot take the message, the
//! subscription's dead-letter queue. Large fan-outs become tasks ([`super::large`]).

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use millrace_broker::{
    Attribute, BrokerError, KeptChange, KeptError, Kind, NewContent, Outgoing, SendTo, Shard,
    SharedQueue, Ticket,
};
use millrace_core::{MessageId, QueueKey, md5, sha256_hex};
use millrace_filters::{AttributeKind, Scope};
use millrace_wire::ApiError;

use super::delivery::{Delivery, DeliveryKind};
use super::envelope::{Envelope, Notification, Sign};
use super::error;
use super::figures::{Figures, Outcome};
use super::large;
use super::message::{Message, Texts};
use super::subscription::{Protocol, Subscription};
use super::tally::FilteredOut;
use super::topic::{Filtered, Snapshot};
use super::topics::Topics;
use crate::authorize::Resource;
use crate::policy::ServiceQuestion;
use crate::sqs::is_sendable;

/// SenderId of messages from topics.
const SENDER: &str = "sns.amazonaws.com";
/// The service as policies of queues name it.
const PRINCIPAL: &str = "sns.amazonaws.com";
/// SQS: attributes of a message; more cannot be delivered as they are.
const ATTRIBUTES_MAX: usize = millrace_core::limits::MESSAGE_ATTRIBUTES;
/// Bytes of an envelope beside its message, roughly: to decide if a fan-out is large.
pub(super) const ENVELOPE_BYTES: usize = 1_024;
/// A fan-out of more bytes is a task.
const BYTES_AT_ONCE: usize = 4 << 20;
/// A queue may be deleted between the plan and the append. Then the plan is made again.
const TRIES: usize = 10;

/// Delivers messages.
pub(super) struct FanOut {
    pub topics: Arc<Topics>,
    pub figures: Arc<Figures>,
    /// Requests are authenticated, so the policies of queues count.
    pub is_guarded: bool,
    /// None: notifications are not signed.
    pub signer: Option<Arc<dyn Sign>>,
    /// Those in queues are signed, too, and not only those that go out by HTTP.
    pub signs_in_queues: bool,
    pub tasks: large::Tasks,
}

/// An accepted message.
pub(super) struct Publication<'a> {
    pub message_id: Cow<'a, str>,
    /// FIFO topics only.
    pub sequence: Option<u64>,
    pub at_ms: u64,
    pub message: &'a Message<'a>,
    /// Signatures that were made before, by variant of the text.
    pub signatures: Signatures,
}

/// By variant of a message's text.
pub(super) type Signatures = [Option<String>; Protocol::ALL.len()];

/// The request that published messages.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    /// First part of the links in notifications.
    pub origin: &'a str,
    /// AWSTraceHeader, empty if none.
    pub trace_header: &'a str,
}

/// A message for a subscription: the index of the publication, and the subscription.
pub(super) type Target<'s> = (usize, &'s Arc<Subscription>);

impl FanOut {
    /// Delivers messages to all subscriptions that want them, and makes changes with that: all or
    /// nothing. They are delivered once the ticket is committed, or will be, whatever happens.
    pub(super) fn begin(
        &self,
        topic: &Snapshot,
        source: Source<'_>,
        publications: &[Publication<'_>],
        changes: Vec<KeptChange<'_>>,
    ) -> Result<Option<Ticket>, ApiError> {
        let home = self.topics.home()?;
        let mut targets: Vec<Target<'_>> = Vec::with_capacity(topic.subscriptions.len());
        let mut filtered_out = FilteredOut::default();
        let mut bytes = 0;
        for (number, publication) in publications.iter().enumerate() {
            let before = targets.len();
            let found = |it| targets.push((number, it));
            filtered_out.add(&matching_subscriptions(topic, publication.message, found));
            let one = publication.message.size_bytes + ENVELOPE_BYTES;
            bytes += (targets.len() - before) * one;
        }
        // Messages of a FIFO topic stay behind those that a task delivers.
        let is_large = bytes > BYTES_AT_ONCE
            || topic.document.is_fifo && large::is_under_way(&home, &topic.document.arn);
        let ticket = match is_large {
            true => self.tasks.begin(&home, topic, source, (publications, &targets), changes),
            false => self
                .deliver(&home, topic, source, (publications, &targets), &changes)
                .map(|(ticket, _)| ticket),
        };
        let ticket = ticket.map_err(error::of_kept)?;
        self.figures.published(publications.len() as u64, filtered_out.all());
        let sizes = publications.iter().map(|it| it.message.size_bytes);
        topic.tally.published(sizes, filtered_out);
        Ok(ticket)
    }

    /// Returns true if notifications of that protocol are signed.
    fn signs(&self, protocol: Protocol) -> bool {
        self.signs_in_queues || protocol != Protocol::Sqs
    }

    /// The place of a protocol's text among those that differ.
    fn slot(&self, message: &Message<'_>, protocol: Protocol) -> usize {
        if self.signs_in_queues { message.variant(protocol) } else { protocol as usize }
    }

    /// Makes the signatures that the subscriptions of a standard topic need, on other threads.
    pub(super) async fn sign(&self, topic: &Snapshot, publications: &mut [Publication<'_>]) {
        let Some(signer) = self.signer.as_deref().filter(|it| it.is_ready()) else { return };
        let needs = |protocol: &Protocol| {
            let is_it =
                |it: &&Arc<Subscription>| !it.is_raw() && it.document().protocol == *protocol;
            topic.subscriptions.iter().any(|it| is_it(&it))
        };
        let is_signed = |protocol: &Protocol| self.signs(*protocol);
        let protocols: Vec<Protocol> =
            Protocol::ALL.into_iter().filter(is_signed).filter(needs).collect();
        let version = topic.settings.signature_version;
        let mut under_way = Vec::new();
        for (number, publication) in publications.iter().enumerate() {
            let mut variants: Vec<usize> = Vec::new();
            for protocol in &protocols {
                let variant = self.slot(publication.message, *protocol);
                if !variants.contains(&variant) {
                    variants.push(variant);
                    let text = notification(topic, publication, *protocol, "").to_sign();
                    under_way.push((number, variant, signer.sign_aside(version, text)));
                }
            }
        }
        for (number, variant, signature) in under_way {
            let signature = signature.await;
            if let Some(publication) = publications.get_mut(number) {
                publication.signatures[variant] = signature;
            }
        }
    }

    /// Appends messages to the queues of these subscriptions, or to their dead-letter queues.
    pub(super) fn deliver(
        &self,
        home: &Shard,
        topic: &Snapshot,
        source: Source<'_>,
        (publications, targets): (&[Publication<'_>], &[Target<'_>]),
        changes: &[KeptChange<'_>],
    ) -> Result<(Option<Ticket>, usize), KeptError> {
        for tried in 0..TRIES {
            let mut plan = Plan::new(self, home, topic, source, publications);
            plan.is_retry = tried > 0;
            targets.iter().for_each(|target| plan.add(*target));
            match plan.append(home, changes) {
                Ok(appended) => {
                    plan.count();
                    return Ok(appended);
                }
                Err(KeptError::Broker(BrokerError::QueueDoesNotExist)) => {}
                Err(error) => return Err(error),
            }
        }
        Err(BrokerError::QueueDoesNotExist.into())
    }

    /// Returns true if a queue takes messages from a topic.
    pub(super) fn may_deliver(
        &self,
        topic_arn: &str,
        account: &str,
        queue: &Arc<SharedQueue>,
    ) -> bool {
        !self.is_guarded
            || queue.key().is_hidden()
            || Resource::policy(queue).allows_service(&ServiceQuestion {
                action: "sqs:sendmessage",
                arn: queue.arn(),
                service: PRINCIPAL,
                source_arn: topic_arn,
                source_account: account,
            })
    }
}

/// Calls `found` with the subscriptions that want a message, in their order. Returns how many of the
/// others there are.
fn matching_subscriptions<'s>(
    topic: &'s Snapshot,
    message: &Message<'_>,
    mut found: impl FnMut(&'s Arc<Subscription>),
) -> FilteredOut {
    if topic.filters.is_empty() {
        topic.subscriptions.iter().for_each(found);
        return FilteredOut::default();
    }
    let mut wanted = topic.unfiltered.to_vec();
    // By protocol, if they differ.
    let texts: Vec<millrace_filters::Message<'_>> = match &message.texts {
        Texts::Same(text) => vec![for_filters(message, text)],
        Texts::ByProtocol(texts) => texts.iter().map(|text| for_filters(message, text)).collect(),
    };
    match texts.as_slice() {
        [text] => {
            topic.filters.matching(text, &mut wanted);
        }
        // Policies about the body look at what the endpoint would get.
        texts => {
            for (protocol, text) in Protocol::ALL.into_iter().zip(texts) {
                let mut matching = Vec::new();
                topic.filters.matching(text, &mut matching);
                let is_of = |index: &u32| {
                    let subscription = topic.subscriptions.get(*index as usize);
                    subscription.is_some_and(|it| it.document().protocol == protocol)
                };
                wanted.extend(matching.into_iter().filter(is_of));
            }
        }
    }
    wanted.sort_unstable();
    let mut others = topic.filtered;
    for index in wanted {
        let Some(subscription) = topic.subscriptions.get(index as usize) else { continue };
        if let Some(policy) = subscription.filter() {
            *others.of(policy.scope(), subscription.document().protocol) -= 1;
        }
        found(subscription);
    }
    filtered_out(message, &texts, &others)
}

/// Reasons why subscriptions with these policies do not get a message.
fn filtered_out(
    message: &Message<'_>,
    texts: &[millrace_filters::Message<'_>],
    others: &Filtered,
) -> FilteredOut {
    let by_attributes = others.on_attributes.iter().sum();
    let is_invalid = |text: &millrace_filters::Message<'_>, scope| !text.is_readable(scope);
    let has_invalid_attributes = by_attributes > 0
        && texts.first().is_some_and(|text| is_invalid(text, Scope::MessageAttributes));
    let invalid_body = others.on_body.iter().enumerate().filter(|(protocol, number)| {
        let text = texts.get(*protocol).or(texts.first());
        **number > 0 && text.is_some_and(|text| is_invalid(text, Scope::MessageBody))
    });
    FilteredOut {
        by_attributes,
        no_attributes: if message.attributes.is_empty() { by_attributes } else { 0 },
        invalid_attributes: if has_invalid_attributes { by_attributes } else { 0 },
        by_body: others.on_body.iter().sum(),
        invalid_body: invalid_body.map(|(_, number)| number).sum(),
    }
}

fn for_filters<'m>(message: &'m Message<'_>, text: &'m str) -> millrace_filters::Message<'m> {
    let attribute = |it: &'m Attribute<'_>| millrace_filters::Attribute {
        name: it.name,
        kind: AttributeKind::of(it.data_type),
        // Those of type Binary are not looked at.
        value: str::from_utf8(it.value).unwrap_or_default(),
    };
    millrace_filters::Message::new(text, message.attributes.iter().map(attribute).collect())
}

/// Reason for a queue not to get a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    QueueDoesNotExist,
    NotAllowed,
    TooLarge,
    TooManyAttributes,
    /// A raw message has characters or attributes that SQS refuses.
    NotSendable,
    /// A FIFO queue takes only what a FIFO topic has numbered.
    NoGroup,
}

/// A message as it is told to subscriptions of a protocol, without a signature.
fn notification<'a>(
    topic: &'a Snapshot,
    publication: &'a Publication<'a>,
    protocol: Protocol,
    origin: &'a str,
) -> Notification<'a> {
    let message = publication.message;
    Notification {
        message_id: &publication.message_id,
        sequence: publication.sequence,
        topic: &topic.document.arn,
        subject: message.subject,
        message: message.text(protocol),
        at_ms: publication.at_ms,
        attributes: &message.attributes,
        origin,
        signature: None,
        signed: None,
    }
}

/// The place of a message in a plan.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Endpoint,
    DeadLetter,
}

/// The messages that each queue gets.
struct Plan<'p> {
    fan_out: &'p FanOut,
    home: &'p Shard,
    topic: &'p Snapshot,
    source: Source<'p>,
    publications: &'p [Publication<'p>],
    /// The stored forms of all messages, one behind the other.
    contents: Vec<u8>,
    /// By publication and variant of the text.
    envelopes: Vec<[Option<Envelope>; Protocol::ALL.len()]>,
    /// By publication and variant of the text: queues take it raw.
    sendable: Vec<[Option<bool>; Protocol::ALL.len()]>,
    /// Stored forms that several queues get: publication, variant, whether for a FIFO queue.
    raw: Vec<((usize, usize, bool), Range<usize>)>,
    body: Vec<u8>,
    planned: Vec<Planned<'p>>,
    outcome: Outcome,
    /// Each delivery to a queue that is an endpoint, and each that failed.
    delivered: Vec<&'p Subscription>,
    failed: Vec<&'p Subscription>,
    /// A queue of the plan before was deleted.
    is_retry: bool,
}

struct Planned<'p> {
    queue: Arc<SharedQueue>,
    content: Range<usize>,
    size_bytes: usize,
    group: Option<&'p str>,
    deduplication_id: Option<Cow<'p, str>>,
}

impl<'p> Plan<'p> {
    fn new(
        fan_out: &'p FanOut,
        home: &'p Shard,
        topic: &'p Snapshot,
        source: Source<'p>,
        publications: &'p [Publication<'p>],
    ) -> Plan<'p> {
        Plan {
            fan_out,
            home,
            topic,
            source,
            publications,
            contents: Vec::new(),
            envelopes: publications.iter().map(|_| [const { None }; 3]).collect(),
            sendable: publications.iter().map(|_| [None; 3]).collect(),
            raw: Vec::new(),
            body: Vec::new(),
            planned: Vec::new(),
            outcome: Outcome::default(),
            delivered: Vec::new(),
            failed: Vec::new(),
            is_retry: false,
        }
    }

    /// Plans what a subscription gets.
    fn add(&mut self, (number, subscription): Target<'p>) {
        let is_queue = subscription.document().protocol == Protocol::Sqs;
        let failure = match self.send(subscription.target(), number, subscription, Role::Endpoint) {
            Ok(()) => {
                if is_queue {
                    self.outcome.delivered += 1;
                    self.delivered.push(subscription);
                }
                return;
            }
            Err(failure) => failure,
        };
        self.outcome.failed += 1;
        self.failed.push(subscription);
        let dead_letter = subscription.dead_letter();
        let redriven =
            dead_letter.map(|key| self.send(key, number, subscription, Role::DeadLetter));
        match redriven {
            Some(Ok(())) => self.outcome.redriven += 1,
            Some(Err(_)) => self.outcome.failed_to_redrive += 1,
            None => {}
        }
        log_once_a_second(subscription, failure, redriven);
    }

    fn send(
        &mut self,
        key: &QueueKey,
        number: usize,
        subscription: &Subscription,
        role: Role,
    ) -> Result<(), Failure> {
        let document = &self.topic.document;
        let queue = self.fan_out.topics.queue(key).ok_or(Failure::QueueDoesNotExist)?;
        if queue.id().shard() != self.home.id() || self.is_retry && queue.is_deleted() {
            return Err(Failure::QueueDoesNotExist);
        }
        if !self.fan_out.may_deliver(&document.arn, &document.account, &queue) {
            return Err(Failure::NotAllowed);
        }
        let publication = self.publications.get(number).ok_or(Failure::QueueDoesNotExist)?;
        let message = publication.message;
        let is_hidden = key.is_hidden();
        let is_fifo = queue.kind() == Kind::Fifo;
        let deduplication_id = match (is_fifo, &message.deduplication_id) {
            (false, _) => None,
            (true, None) => return Err(Failure::NoGroup),
            // Several subscriptions may share a dead-letter queue: each of them lost the message.
            (true, Some(id)) if role == Role::DeadLetter => {
                Some(sha256_hex(format!("{}\n{id}", subscription.arn()).as_bytes()).into())
            }
            (true, Some(id)) => Some(Cow::Borrowed(&**id)),
        };
        let is_raw = subscription.is_raw();
        let protocol = subscription.document().protocol;
        let fault = match is_raw && !is_hidden {
            true if message.attributes.len() > ATTRIBUTES_MAX => Some(Failure::TooManyAttributes),
            true if !self.is_sendable(number, message, protocol) => Some(Failure::NotSendable),
            _ => None,
        };
        if let Some(failure) = fault.filter(|_| role == Role::Endpoint) {
            return Err(failure);
        }
        // An envelope holds any attributes and characters: the dead letter is whole.
        let is_bare = is_raw && fault.is_none();
        let text = message.text(protocol);
        let size_bytes = match is_bare {
            true if is_hidden => text.len(),
            true => text.len() + attribute_bytes(message),
            false => self.envelope(number, publication, subscription).len(subscription.arn()),
        };
        let limit = queue.definition().settings.maximum_message_size_bytes as usize;
        if !is_hidden && size_bytes > limit {
            return Err(Failure::TooLarge);
        }
        let stored_id = deduplication_id.as_deref().unwrap_or_default();
        let content = match (is_bare, is_hidden) {
            (true, false) if role == Role::Endpoint => {
                self.raw_content(number, protocol, stored_id)
            }
            _ => self.own_content(number, subscription, stored_id, is_bare, is_hidden),
        };
        // A FIFO topic's groups mean nothing to a standard queue.
        let group = message.group.filter(|_| is_fifo || !document.is_fifo && !is_hidden);
        self.planned.push(Planned { queue, content, size_bytes, group, deduplication_id });
        Ok(())
    }

    /// Returns true if queues take a message raw. Looked at once for all of them.
    fn is_sendable(&mut self, number: usize, message: &Message<'_>, protocol: Protocol) -> bool {
        let look = || is_sendable(message.text(protocol).as_bytes(), &message.attributes);
        let known = self.sendable.get_mut(number);
        let known = known.and_then(|of| of.get_mut(message.variant(protocol)));
        known.is_some_and(|known| *known.get_or_insert_with(look))
    }

    /// The content of a message as it was published, which is the same for all queues of a kind.
    fn raw_content(
        &mut self,
        number: usize,
        protocol: Protocol,
        deduplication_id: &str,
    ) -> Range<usize> {
        let Some(publication) = self.publications.get(number) else { return 0..0 };
        let message = publication.message;
        let kind = (number, message.variant(protocol), !deduplication_id.is_empty());
        if let Some((_, known)) = self.raw.iter().find(|(of, _)| *of == kind) {
            return known.clone();
        }
        let text = message.text(protocol).as_bytes();
        let begin = self.contents.len();
        NewContent {
            body: text,
            body_md5: md5(text),
            attributes: message.attributes.clone(),
            trace_header: self.source.trace_header,
            sender: SENDER,
            deduplication_id,
        }
        .encode(&mut self.contents);
        let content = begin..self.contents.len();
        self.raw.push((kind, content.clone()));
        content
    }

    /// The content of a message for one subscription alone.
    fn own_content(
        &mut self,
        number: usize,
        subscription: &Subscription,
        deduplication_id: &str,
        is_bare: bool,
        is_hidden: bool,
    ) -> Range<usize> {
        let Some(publication) = self.publications.get(number) else { return 0..0 };
        let message = publication.message;
        let protocol = subscription.document().protocol;
        let delivery = Delivery {
            kind: DeliveryKind::Notification,
            message_id: &publication.message_id,
            topic: &self.topic.document.arn,
            subscription: subscription.arn(),
            is_raw: is_bare,
        };
        let begin = self.contents.len();
        let mut body = std::mem::take(&mut self.body);
        let body_md5 = match is_bare {
            true => {
                body.clear();
                body.extend_from_slice(message.text(protocol).as_bytes());
                md5(&body)
            }
            false => self
                .envelope(number, publication, subscription)
                .write(subscription.arn(), &mut body),
        };
        NewContent {
            body: &body,
            body_md5,
            attributes: match (is_hidden, is_bare) {
                (true, _) => delivery.attributes(),
                (false, true) => message.attributes.clone(),
                (false, false) => Vec::new(),
            },
            trace_header: self.source.trace_header,
            sender: SENDER,
            deduplication_id,
        }
        .encode(&mut self.contents);
        self.body = body;
        begin..self.contents.len()
    }

    /// The envelope of a message for a subscription's protocol, made at first use.
    fn envelope(
        &mut self,
        number: usize,
        publication: &Publication<'_>,
        subscription: &Subscription,
    ) -> &Envelope {
        let protocol = subscription.document().protocol;
        let message = publication.message;
        let Plan { topic, source, fan_out, .. } = *self;
        let signer = fan_out.signer.as_deref().filter(|_| !topic.document.is_fifo);
        let signer = signer.filter(|_| fan_out.signs(protocol));
        let slot = fan_out.slot(message, protocol);
        let make = || {
            Notification {
                signature: signer.map(|it| (it, topic.settings.signature_version)),
                signed: publication.signatures[slot].as_deref(),
                ..notification(topic, publication, protocol, source.origin)
            }
            .envelope()
        };
        self.envelopes[number][slot].get_or_insert_with(make)
    }

    /// Appends what is planned, and the changes.
    fn append(
        &mut self,
        home: &Shard,
        changes: &[KeptChange<'_>],
    ) -> Result<(Option<Ticket>, usize), KeptError> {
        if self.planned.is_empty() && changes.is_empty() {
            return Ok((None, 0));
        }
        // Each queue once, with all its messages in the order in which they were published.
        self.planned.sort_by_key(|it| it.queue.id());
        let outgoing: Vec<Outgoing<'_>> =
            self.planned.iter().map(|it| it.outgoing(&self.contents)).collect();
        let mut sends: Vec<SendTo<'_>> = Vec::with_capacity(outgoing.len());
        let mut rest = outgoing.as_slice();
        for of_queue in self.planned.chunk_by(|one, next| one.queue.id() == next.queue.id()) {
            let (messages, others) = rest.split_at(of_queue.len());
            rest = others;
            sends.extend(of_queue.first().map(|it| SendTo { queue: &it.queue, messages }));
        }
        let (_, appended) = home.begin_fan_out(&sends, changes)?;
        let bytes = appended.map_or(0, |it| it.bytes);
        Ok((appended.map(|it| it.ticket), bytes))
    }

    /// Counts what was appended.
    fn count(&self) {
        self.fan_out.figures.add(self.outcome);
        self.topic.tally.add(self.outcome);
        self.delivered.iter().for_each(|it| it.deliveries().count_delivered());
        self.failed.iter().for_each(|it| it.deliveries().count_failed());
    }
}

impl Planned<'_> {
    fn outgoing<'a>(&'a self, contents: &'a [u8]) -> Outgoing<'a> {
        Outgoing {
            id: MessageId::from_random(fastrand::u128(..)),
            content: contents.get(self.content.clone()).unwrap_or_default(),
            size_bytes: self.size_bytes,
            group: self.group,
            deduplication_id: self.deduplication_id.as_deref(),
            delay_s: None,
        }
    }
}

fn attribute_bytes(message: &Message<'_>) -> usize {
    let size = |it: &Attribute<'_>| it.name.len() + it.data_type.len() + it.value.len();
    message.attributes.iter().map(size).sum()
}

/// A queue that is gone fails for each message: one line a second says so.
fn log_once_a_second(
    subscription: &Subscription,
    failure: Failure,
    redriven: Option<Result<(), Failure>>,
) {
    static LAST_S: AtomicU64 = AtomicU64::new(0);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now_s = now.unwrap_or_default().as_secs();
    if LAST_S.swap(now_s, Ordering::Relaxed) != now_s {
        tracing::warn!(
            subscription = subscription.arn(),
            ?failure,
            dead_letter = ?redriven,
            "a delivery to a queue failed"
        );
    }
}
