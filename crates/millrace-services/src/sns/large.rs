//! Large fan-outs: tasks that deliver in steps, and go on after a crash.
//!
//! The publish appends the messages and the list of subscriptions, cut into documents of bounded
//! size, and the task's document. Each step delivers to the next subscriptions and moves the cursor
//! in one append, so every queue gets the messages once. Tasks of a topic run one after the other, in
//! the order of their keys.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use millrace_broker::{
    Appended, Attribute, Collection, Expected, KeptChange, KeptError, Purpose, Shard, Step,
    TaskKind, Ticket,
};
use millrace_core::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::fan_out::{ENVELOPE_BYTES, FanOut, Publication, Signatures, Source, Target};
use super::message::{Message, Texts};
use super::subscription::{Protocol, Subscription};
use super::topic::Snapshot;

/// Bytes of a part of what is to be delivered.
const PART_BYTES: usize = 512 << 10;
/// Bytes that one step delivers, and one message more.
const STEP_BYTES: usize = 1 << 20;
/// Subscriptions that one step delivers to.
const STEP_TARGETS: u64 = 500;
/// Milliseconds before a task looks again if an earlier one of its topic has ended.
const TURN_MS: u64 = 20;

/// A large fan-out under way.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct LargeFanOut {
    /// The topic's ARN, a slash, and a number that grows.
    key: String,
    topic: String,
    origin: String,
    trace_header: String,
    parts: u32,
    /// The number of targets that are done.
    done: u64,
}

const TASKS: Collection<LargeFanOut> = Collection::new("sns-fan-outs", |it| it.key.clone());
/// What is to be delivered, cut into parts; keys are the task's, a slash and the number.
const PARTS: &str = "sns-fan-out-parts";

/// What is to be delivered. Targets are in the order of messages, and of subscriptions for each.
#[derive(Serialize, Deserialize)]
struct Payload {
    messages: Vec<StoredMessage>,
    /// The last parts of their ARNs.
    subscriptions: Vec<String>,
    /// For each message the indexes of the subscriptions that it goes to; none: all of them.
    wanted: Vec<Option<Vec<u32>>>,
}

#[derive(Serialize, Deserialize)]
struct StoredMessage {
    message_id: String,
    sequence: Option<u64>,
    at_ms: u64,
    /// One, or one for each protocol.
    texts: Vec<String>,
    subject: Option<String>,
    attributes: Vec<StoredAttribute>,
    size_bytes: usize,
    group: Option<String>,
    deduplication_id: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct StoredAttribute {
    name: String,
    data_type: String,
    #[serde(serialize_with = "put_base64", deserialize_with = "read_base64")]
    value: Vec<u8>,
}

/// Begins large fan-outs.
pub(super) struct Tasks {
    /// Numbers them in order, also from one run of the server to the next.
    next: AtomicU64,
}

/// Runs the steps of large fan-outs. Does not own the shard.
pub(super) struct LargeFanOuts {
    fan_out: Weak<FanOut>,
    /// The payload of the task that ran last.
    loaded: Mutex<Option<(String, Arc<Payload>)>>,
}

/// Returns true if a task has yet to deliver messages of a topic.
pub(super) fn is_under_way(home: &Shard, topic: &str) -> bool {
    !home.kept().scan(TASKS.name(), &format!("{topic}/"), None, 1).is_empty()
}

impl Tasks {
    /// `first` is above all numbers of earlier runs.
    pub(super) fn new(first: u64) -> Tasks {
        Tasks { next: AtomicU64::new(first) }
    }

    /// Appends a task that will deliver these messages, and makes changes with that.
    pub(super) fn begin(
        &self,
        home: &Shard,
        topic: &Snapshot,
        source: Source<'_>,
        (publications, targets): (&[Publication<'_>], &[Target<'_>]),
        changes: Vec<KeptChange<'_>>,
    ) -> Result<Option<Ticket>, KeptError> {
        let payload = Payload::of(topic, publications, targets);
        let bytes = serde_json::to_vec(&payload).map_err(|error| KeptError::NotEncoded {
            collection: PARTS,
            error: error.to_string(),
        })?;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let key = format!("{}/{number:020}", topic.document.arn);
        let parts = (0..).zip(bytes.chunks(PART_BYTES));
        let mut all = changes;
        all.extend(parts.map(|(part, bytes)| KeptChange::put(PARTS, part_key(&key, part), bytes)));
        let task = LargeFanOut {
            topic: topic.document.arn.clone(),
            origin: source.origin.to_owned(),
            trace_header: source.trace_header.to_owned(),
            parts: bytes.chunks(PART_BYTES).len() as u32,
            done: 0,
            key,
        };
        all.push(TASKS.put(&task)?);
        home.kept().change(&all, Purpose::Store).map(Some)
    }
}

impl LargeFanOuts {
    pub(super) fn new(fan_out: &Arc<FanOut>) -> LargeFanOuts {
        LargeFanOuts { fan_out: Arc::downgrade(fan_out), loaded: Mutex::default() }
    }

    fn load(&self, shard: &Shard, task: &LargeFanOut) -> Option<Arc<Payload>> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((key, payload)) = &*loaded
            && *key == task.key
        {
            return Some(payload.clone());
        }
        let mut bytes = Vec::new();
        for part in 0..task.parts {
            let part = shard.kept().get(PARTS, &part_key(&task.key, part))?;
            bytes.extend_from_slice(&part.bytes);
        }
        let payload = Arc::new(serde_json::from_slice::<Payload>(&bytes).ok()?);
        *loaded = Some((task.key.clone(), payload.clone()));
        Some(payload)
    }

    fn forget(&self) {
        *self.loaded.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl TaskKind for LargeFanOuts {
    fn collection(&self) -> &'static str {
        TASKS.name()
    }

    fn step(&self, shard: &Shard, key: &str, now: Timestamp) -> Result<Step, KeptError> {
        let Some(found) = TASKS.get(shard.kept(), key) else { return Ok(Step::Ended) };
        let mut task = found.value;
        let first = shard.kept().scan(TASKS.name(), &format!("{}/", task.topic), None, 1);
        if first.first().is_some_and(|(first, _)| first.as_str() < key) {
            return Ok(Step::Next(now.plus_millis(TURN_MS), None));
        }
        // The server is about to end, or has not yet begun.
        let Some(fan_out) = self.fan_out.upgrade() else {
            return Ok(Step::Next(now.plus_seconds(1), None));
        };
        let (topic, payload) = (fan_out.topics.topic(&task.topic), self.load(shard, &task));
        let (Some(topic), Some(payload)) = (topic, payload) else {
            // The topic was deleted, and its subscriptions with it.
            shard.kept().change(&task.deletes(), Purpose::Reclaim)?;
            return Ok(Step::Ended);
        };
        let topic = topic.snapshot();
        let (subscriptions, seen) = payload.next_targets(&task, &fan_out);
        let targets: Vec<Target<'_>> = subscriptions.iter().map(|(n, it)| (*n, it)).collect();
        let messages: Vec<Message<'_>> =
            payload.messages.iter().map(StoredMessage::message).collect();
        let publications: Vec<Publication<'_>> = payload
            .messages
            .iter()
            .zip(&messages)
            .map(|(it, message)| it.publication(message))
            .collect();
        let (origin, trace_header) = (task.origin.clone(), task.trace_header.clone());
        let source = Source { origin: &origin, trace_header: &trace_header };
        task.done += seen;
        let is_last = payload.target(task.done).is_none();
        let changes = match is_last {
            true => task.deletes(),
            false => vec![TASKS.put(&task)?.if_it_is(Expected::Version(found.version))],
        };
        let (ticket, bytes) =
            fan_out.deliver(shard, &topic, source, (&publications, &targets), &changes)?;
        if is_last {
            self.forget();
            return Ok(Step::Ended);
        }
        Ok(Step::Made(ticket.map(|ticket| Appended { ticket, bytes })))
    }
}

impl LargeFanOut {
    /// The changes that end the task.
    fn deletes(&self) -> Vec<KeptChange<'static>> {
        let parts =
            (0..self.parts).map(|part| KeptChange::delete(PARTS, part_key(&self.key, part)));
        parts.chain([TASKS.delete(self.key.clone())]).collect()
    }
}

impl Payload {
    fn of(topic: &Snapshot, publications: &[Publication<'_>], targets: &[Target<'_>]) -> Payload {
        let id =
            |it: &Arc<Subscription>| it.arn().rsplit(':').next().unwrap_or_default().to_owned();
        let mut rest = targets;
        let mut wanted = Vec::with_capacity(publications.len());
        for number in 0..publications.len() {
            let (of_message, others) =
                rest.split_at(rest.partition_point(|(other, _)| *other <= number));
            rest = others;
            // They are in the order of the topic's.
            let mut places = (0..).zip(&*topic.subscriptions);
            let place = |(_, it): &Target<'_>| {
                places.find(|(_, other)| Arc::ptr_eq(it, other)).map(|(place, _)| place)
            };
            let all = of_message.len() == topic.subscriptions.len();
            wanted.push((!all).then(|| of_message.iter().filter_map(place).collect()));
        }
        Payload {
            messages: publications.iter().map(StoredMessage::of).collect(),
            subscriptions: topic.subscriptions.iter().map(id).collect(),
            wanted,
        }
    }

    /// The message and the subscription of a target.
    fn target(&self, place: u64) -> Option<(usize, &str)> {
        let mut left = usize::try_from(place).ok()?;
        for (number, wanted) in self.wanted.iter().enumerate() {
            let count = wanted.as_ref().map_or(self.subscriptions.len(), Vec::len);
            if left < count {
                let index = match wanted {
                    Some(wanted) => *wanted.get(left)? as usize,
                    None => left,
                };
                return Some((number, self.subscriptions.get(index)?));
            }
            left -= count;
        }
        None
    }

    /// The targets of the next step that still exist, and how many there were.
    fn next_targets(
        &self,
        task: &LargeFanOut,
        fan_out: &FanOut,
    ) -> (Vec<(usize, Arc<Subscription>)>, u64) {
        let (mut found, mut seen, mut bytes) = (Vec::new(), 0, 0);
        while seen < STEP_TARGETS && bytes < STEP_BYTES {
            let Some((number, id)) = self.target(task.done + seen) else { break };
            seen += 1;
            let arn = format!("{}:{id}", task.topic);
            if let Some(subscription) = fan_out.topics.subscription(&arn) {
                let size = self.messages.get(number).map_or(0, |it| it.size_bytes);
                bytes += size + ENVELOPE_BYTES;
                found.push((number, subscription));
            }
        }
        (found, seen)
    }
}

impl StoredMessage {
    fn of(publication: &Publication<'_>) -> StoredMessage {
        let message = publication.message;
        let attribute = |it: &Attribute<'_>| StoredAttribute {
            name: it.name.to_owned(),
            data_type: it.data_type.to_owned(),
            value: it.value.to_owned(),
        };
        StoredMessage {
            message_id: publication.message_id.to_string(),
            sequence: publication.sequence,
            at_ms: publication.at_ms,
            texts: match &message.texts {
                Texts::Same(text) => vec![(*text).to_owned()],
                Texts::ByProtocol(texts) => texts.iter().map(|text| text.to_string()).collect(),
            },
            subject: message.subject.map(str::to_owned),
            attributes: message.attributes.iter().map(attribute).collect(),
            size_bytes: message.size_bytes,
            group: message.group.map(str::to_owned),
            deduplication_id: message.deduplication_id.as_deref().map(str::to_owned),
        }
    }

    fn message(&self) -> Message<'_> {
        let text = |number: usize| self.texts.get(number).map(String::as_str).unwrap_or_default();
        Message {
            texts: match self.texts.len() {
                0 | 1 => Texts::Same(text(0)),
                _ => Texts::ByProtocol(Protocol::ALL.map(|it| Cow::Borrowed(text(it as usize)))),
            },
            subject: self.subject.as_deref(),
            attributes: self.attributes.iter().map(StoredAttribute::attribute).collect(),
            size_bytes: self.size_bytes,
            group: self.group.as_deref(),
            deduplication_id: self.deduplication_id.as_deref().map(Cow::Borrowed),
        }
    }

    fn publication<'a>(&'a self, message: &'a Message<'a>) -> Publication<'a> {
        let message_id = Cow::Borrowed(&*self.message_id);
        Publication {
            message_id,
            sequence: self.sequence,
            at_ms: self.at_ms,
            message,
            signatures: Signatures::default(),
        }
    }
}

impl StoredAttribute {
    fn attribute(&self) -> Attribute<'_> {
        let StoredAttribute { name, data_type, value } = self;
        Attribute { name, data_type, value }
    }
}

fn part_key(task: &str, part: u32) -> String {
    format!("{task}/{part:06}")
}

fn put_base64<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&BASE64_STANDARD.encode(bytes))
}

fn read_base64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = Cow::<str>::deserialize(deserializer)?;
    BASE64_STANDARD.decode(text.as_bytes()).map_err(serde::de::Error::custom)
}
