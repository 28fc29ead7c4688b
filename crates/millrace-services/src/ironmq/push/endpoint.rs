//! Deliveries to subscribers: requests to HTTP endpoints, messages to other queues.

use std::sync::Arc;
use std::time::Duration;

use millrace_broker::{Incoming, SharedQueue, SlotSeq};
use millrace_core::{QueueId, QueueKey, Url};
use millrace_push::{
    AfterFailure, Answer, Attempted, BoxFuture, Endpoint, Failure, Request, Verdict,
};
use millrace_wire::ironmq::{Version, message_path};
use serde_json::json;

use super::super::ids::message_id;
use super::super::settings::{SubscribedQueue, Subscriber};
use super::message::{self, PATH_MAX};
use super::post::post;
use super::{Known, Pushers, Stage};

/// The name that the server gives itself.
const USER_AGENT: &str = "IronMQ Pusherd";
const CONTENT_TYPE: &str = "text/plain; encoding=utf-8";
/// From the beginning of an attempt to the end of its answer; version 1 gives longer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
const ANSWER_TIMEOUT_V1: Duration = Duration::from_secs(60);
/// "The message is taken, and will be acknowledged".
const ACCEPTED: u16 = 202;

/// The subscribers of a drained queue, as they are for some deliveries: one, or those of a unicast
/// queue, which are tried in turn.
pub(super) struct Subscribed {
    pub pushers: Arc<Pushers>,
    pub queue: Arc<SharedQueue>,
    pub settings: Arc<Known>,
    /// Never empty.
    pub subscribers: Vec<Subscriber>,
    /// The queue that is drained, if it is hidden.
    pub hidden: Option<Arc<SharedQueue>>,
}

impl Subscribed {
    /// Attempts at all subscribers together.
    fn attempts(&self) -> u32 {
        let rounds = self.settings.push.retries.saturating_add(1);
        rounds.saturating_mul(self.count())
    }

    fn count(&self) -> u32 {
        u32::try_from(self.subscribers.len()).unwrap_or(u32::MAX).max(1)
    }

    /// The subscriber whose turn it is. Each message begins with another one.
    fn subscriber(&self, message: &Incoming) -> &Subscriber {
        let number = turn(message.delivery.at.seq, message.delivery.receive_count, self.count());
        &self.subscribers[number as usize % self.subscribers.len()]
    }

    fn id(&self, message: &Incoming) -> String {
        let place = (self.queue.id(), message.delivery.at);
        message::id(&message.content, place, self.hidden.is_some())
    }

    /// The queue that is drained, and the place of a message in it.
    fn at(&self, message: &Incoming) -> (QueueId, SlotSeq) {
        (self.hidden.as_ref().unwrap_or(&self.queue).id(), message.delivery.at)
    }

    /// The headers of a request: those of the message win over those of the subscriber, and those
    /// that are always set over all.
    fn headers(&self, message: &Incoming, subscriber: &Subscriber) -> Vec<(String, String)> {
        let id = self.id(message);
        let (drained, at) = self.at(message);
        // By which version 1 acknowledges the delivery.
        let delivery_id = message_id(drained, at);
        let push = &self.settings.push;
        let version = if push.is_of_v1 { Version::V1 } else { Version::V3 };
        let names = [&*push.project, &self.queue.key().name, &id];
        let url = format!("{}{}", push.origin, message_path(version, names, &delivery_id));
        let mut headers = Vec::with_capacity(8);
        let of_subscriber = subscriber.headers.iter().map(|(name, value)| (&**name, &**value));
        for (name, value) in [("User-Agent", USER_AGENT), ("Content-Type", CONTENT_TYPE)]
            .into_iter()
            .chain(of_subscriber)
            .chain(message::headers(&message.content))
            .chain([
                ("Iron-Message-Id", &*id),
                ("Iron-Reservation-Id", &*message.receipt_handle),
                ("Iron-Subscriber-Name", &*subscriber.name),
                ("Iron-Subscriber-Message-Id", &*delivery_id),
                ("Iron-Subscriber-Message-Url", &*url),
            ])
        {
            set(&mut headers, name, value);
        }
        headers
    }

    fn change(&self, message: &Incoming, change: impl FnOnce(&mut super::Status)) {
        let subscriber = self.subscriber(message);
        let id = self.id(message);
        self.pushers.statuses.change((self.queue.id(), &id), &subscriber.name, |status| {
            status.url.clone_from(&subscriber.url);
            status.at = Some(self.at(message));
            change(status);
        });
    }

    /// The message is no longer to be delivered: in a unicast queue, to nobody.
    fn end(&self, message: &Incoming, as_: Stage) {
        let only = self.hidden.is_some().then(|| &*self.subscriber(message).name);
        self.pushers.statuses.end((self.queue.id(), &self.id(message)), only, as_);
    }

    /// The queue that the subscriber is, if it is one.
    fn target(&self, message: &Incoming) -> Option<SubscribedQueue<'_>> {
        SubscribedQueue::of(&self.subscriber(message).url)
    }

    /// Passes a message on to another queue.
    async fn pass_on(&self, message: &Incoming) -> Result<(), String> {
        let Some(SubscribedQueue(name)) = self.target(message) else {
            return Err("the subscriber is no queue".to_owned());
        };
        let step = message::step(self.queue.id());
        let mut path = message::path(&message.content);
        path.push(&step);
        if path.len() > PATH_MAX {
            return Err(format!("the message went through {PATH_MAX} push queues"));
        }
        let QueueKey { region, account, .. } = self.queue.key();
        let target = self.pushers.shards.catalog().queue(region, account, &name);
        // With many subscribers, each round of a circle would be a multiple of the one before.
        if target.is_some_and(|target| path.contains(&&*message::step(target.id()))) {
            return Err(format!("the message went through the queue {name} already"));
        }
        let path = path.join(" ");
        let attributes = message::with_path(&message.content, &path);
        let body = message.content.body();
        let posted = post(&self.pushers.shards, self.queue.key(), &name, body, attributes).await;
        posted.map_err(|error| error.to_string())
    }

    /// Posts what became of a message to the error queue.
    async fn report(&self, message: &Incoming, failure: &Failure) -> AfterFailure {
        let error_queue = &self.settings.push.error_queue;
        let step = message::step(self.queue.id());
        let mut path = message::path(&message.content);
        path.push(&step);
        // One more: the error queue gets the report of a message that has gone too far.
        if error_queue.is_empty() || path.len() > PATH_MAX + 1 {
            return AfterFailure::Dropped;
        }
        let id = self.id(message);
        let known = self.pushers.statuses(&self.queue, &id);
        let subscribers = self.subscribers.iter().map(|subscriber| {
            let known = known.iter().find(|it| *it.name == subscriber.name);
            json!({
                "name": subscriber.name,
                "url": subscriber.url,
                "code": known.and_then(|it| it.status_code).unwrap_or_default(),
                "msg": known.map_or(&*failure.text, |it| &*it.text),
            })
        });
        let headers = message::headers(&message.content).map(|(name, value)| (name, json!(value)));
        let report = json!({
            "source_msg_id": id,
            "body": String::from_utf8_lossy(message.content.body()),
            "headers": headers.map(|(name, value)| (name.to_owned(), value))
                .collect::<serde_json::Map<_, _>>(),
            "subscribers": subscribers.collect::<Vec<_>>(),
        });
        let report = report.to_string();
        let path = path.join(" ");
        let attributes = message::only_path(&path);
        let (shards, beside) = (&self.pushers.shards, self.queue.key());
        match post(shards, beside, error_queue, report.as_bytes(), attributes).await {
            Ok(()) => AfterFailure::Redriven,
            Err(error) if error.is_for_now() => AfterFailure::Later,
            Err(error) => {
                tracing::warn!(queue = %self.queue.key(), %error, "nothing in the error queue");
                AfterFailure::Dropped
            }
        }
    }
}

impl Endpoint for Subscribed {
    fn name(&self) -> &str {
        self.queue.arn()
    }

    fn is_local(&self, message: &Incoming) -> bool {
        message.delivery.receive_count <= self.attempts() && self.target(message).is_some()
    }

    fn deliver<'a>(&'a self, message: &'a Incoming) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(self.pass_on(message))
    }

    fn request(&self, message: &Incoming) -> Result<Request, String> {
        let tries = message.delivery.receive_count;
        if tries > self.attempts() {
            return Err("the last attempt was not acknowledged".to_owned());
        }
        let subscriber = self.subscriber(message);
        let url = Url::parse(&subscriber.url).map_err(|error| error.to_string())?;
        let now = self.pushers.shards.now();
        self.change(message, |status| {
            status.last_try_at = Some(now);
            status.stage = Stage::Reserved;
        });
        let other_headers = self.headers(message, subscriber);
        Ok(Request { url, headers: Vec::new(), other_headers })
    }

    fn delay_before(&self, attempt: u32) -> Option<Duration> {
        let delay = Duration::from_secs(u64::from(self.settings.push.retries_delay_s));
        delay_before(attempt, self.attempts(), self.count(), delay)
    }

    fn timeout(&self) -> Duration {
        if self.settings.push.is_of_v1 { ANSWER_TIMEOUT_V1 } else { ANSWER_TIMEOUT }
    }

    fn judge(&self, answer: &Answer) -> Verdict {
        match answer.status {
            ACCEPTED => {
                Verdict::Held(Duration::from_secs(u64::from(self.settings.push.retries_delay_s)))
            }
            200..=299 => Verdict::Delivered,
            _ => Verdict::Retry,
        }
    }

    fn is_refusal_final(&self) -> bool {
        false
    }

    fn attempted(&self, message: &Incoming, attempt: &Attempted<'_>) {
        let tries = message.delivery.receive_count;
        // What was not acknowledged is no further attempt.
        let is_try = tries <= self.attempts();
        let (count, now) = (self.count(), self.pushers.shards.now());
        self.change(message, |status| {
            status.set_text(attempt.text);
            // The subscriber may have acknowledged the message before it answered.
            if status.stage == Stage::Deleted {
                return;
            }
            if is_try {
                status.tries = tries.div_ceil(count);
                // A queue has no status, and takes a message or not.
                let is_delivered = attempt.verdict == Verdict::Delivered;
                status.status_code = attempt.status.or(is_delivered.then_some(200));
                status.last_try_at = Some(now);
            }
            status.stage = match attempt.verdict {
                Verdict::Delivered => Stage::Deleted,
                Verdict::Held(_) => Stage::Reserved,
                Verdict::Retry | Verdict::Refused => Stage::Retrying,
            };
        });
        if attempt.verdict == Verdict::Delivered {
            self.end(message, Stage::Deleted);
        }
    }

    fn failed<'a>(
        &'a self,
        message: &'a Incoming,
        failure: &'a Failure,
    ) -> BoxFuture<'a, AfterFailure> {
        Box::pin(async {
            let after = self.report(message, failure).await;
            self.end(message, Stage::Error);
            after
        })
    }
}

/// The number of the subscriber that is tried at an attempt, of so many.
pub(super) fn turn(seq: u64, attempt: u32, count: u32) -> u32 {
    let count = u64::from(count.max(1));
    let turn = (seq % count + u64::from(attempt.saturating_sub(1)) % count) % count;
    u32::try_from(turn).unwrap_or_default()
}

/// The next subscriber has its turn at once, the next round after `delay`.
fn delay_before(attempt: u32, attempts: u32, count: u32, delay: Duration) -> Option<Duration> {
    if attempt > attempts {
        return None;
    }
    let is_new_round = attempt.saturating_sub(1).is_multiple_of(count.max(1));
    Some(if is_new_round { delay } else { Duration::ZERO })
}

/// Sets a header, in the place of one of the same name.
fn set(headers: &mut Vec<(String, String)>, name: &str, value: &str) {
    let value = sendable(value);
    match headers.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
        Some(known) => *known = (name.to_owned(), value),
        None => headers.push((name.to_owned(), value)),
    }
}

/// A header's value, where anything but ASCII is percent-encoded.
fn sendable(value: &str) -> String {
    let mut sendable = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte == b' ' || byte.is_ascii_graphic() {
            sendable.push(char::from(byte));
        } else {
            sendable.push_str(&format!("%{byte:02X}"));
        }
    }
    sendable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_tries_each_subscriber_once_and_the_next_round_comes_later() {
        let delay = Duration::from_secs(60);
        let before = |attempt| delay_before(attempt, 6, 3, delay).map(|it| it.as_secs());
        assert_eq!(
            [2, 3, 4, 5, 6, 7].map(before),
            [Some(0), Some(0), Some(60), Some(0), Some(0), None]
        );
        let before = |attempt| delay_before(attempt, 3, 1, delay).map(|it| it.as_secs());
        assert_eq!([2, 3, 4].map(before), [Some(60), Some(60), None]);
    }

    #[test]
    fn messages_begin_with_different_subscribers() {
        assert_eq!([1, 2, 3, 4].map(|attempt| turn(7, attempt, 3)), [1, 2, 0, 1]);
        assert_eq!([5, 6, 7].map(|seq| turn(seq, 1, 3)), [2, 0, 1]);
        assert_eq!(turn(u64::MAX, u32::MAX, 1), 0);
    }

    #[test]
    fn the_latest_header_of_a_name_wins() {
        let mut headers = Vec::new();
        for (name, value) in [("User-Agent", "a"), ("X", "ö\n"), ("user-agent", "b")] {
            set(&mut headers, name, value);
        }
        let shown: Vec<_> = headers.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(shown, [("user-agent", "b"), ("X", "%C3%B6%0A")]);
    }
}
