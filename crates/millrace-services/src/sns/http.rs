//! Deliveries to HTTP endpoints: what [`millrace_push`] needs to know of a subscription.

use std::sync::Arc;
use std::time::Duration;

use millrace_broker::{Incoming, NewContent, Outgoing};
use millrace_core::{MessageId, QueueKey, Url};
use millrace_push::retry::{DeliveryPolicy, SubscriptionPolicy, TopicPolicy};
use millrace_push::{AfterFailure, BoxFuture, Deliveries, Endpoint, Failure, Push, Request};

use super::delivery::{Delivery, DeliveryKind};
use super::fan_out::FanOut;
use super::figures::Outcome;
use super::subscription::{Protocol, Subscription};
use crate::sqs::is_sendable;

/// The agent that receivers may look for.
const USER_AGENT: &str = "Amazon Simple Notification Service Agent";
/// SenderId of messages in dead-letter queues.
const SENDER: &str = "sns.amazonaws.com";

/// The subscription of one hidden queue, by its ARN.
struct HiddenQueue {
    fan_out: Arc<FanOut>,
    subscription: String,
}

/// A subscription as it is for some deliveries.
struct HttpEndpoint {
    fan_out: Arc<FanOut>,
    subscription: Arc<Subscription>,
    url: Url,
    policy: DeliveryPolicy,
}

/// Delivers what is in the hidden queue of a subscription, unless that is done already.
pub(super) fn drain(push: &Push, fan_out: &Arc<FanOut>, subscription: &Subscription) {
    if subscription.document().protocol == Protocol::Sqs {
        return;
    }
    let Some(queue) = fan_out.topics.queue(subscription.target()) else { return };
    let (fan_out, subscription) = (Arc::clone(fan_out), subscription.arn().to_owned());
    let deliveries: Arc<dyn Deliveries> = Arc::new(HiddenQueue { fan_out, subscription });
    push.drain(&queue, &deliveries);
}

/// The policy by which a subscription's deliveries are made. What earlier versions of the server
/// let pass counts as no policy.
pub(super) fn delivery_policy(topic: Option<&str>, subscription: Option<&str>) -> DeliveryPolicy {
    let topic = TopicPolicy::parse(topic.unwrap_or_default()).unwrap_or_default();
    let subscription = SubscriptionPolicy::parse(subscription.unwrap_or_default());
    DeliveryPolicy::of(&topic, &subscription.unwrap_or_default())
}

impl Deliveries for HiddenQueue {
    fn endpoint(&self, _: &QueueKey) -> Option<Arc<dyn Endpoint>> {
        let topics = &self.fan_out.topics;
        let subscription = topics.any_subscription(&self.subscription)?;
        let document = subscription.document();
        let topic = topics.topic(&document.topic).map(|topic| topic.document());
        let of_topic = topic.as_ref().and_then(|topic| topic.attributes.get("DeliveryPolicy"));
        let own = document.attributes.get("DeliveryPolicy");
        let policy = delivery_policy(of_topic.map(String::as_str), own.map(String::as_str));
        let url = Url::parse(&document.endpoint).ok()?;
        let fan_out = Arc::clone(&self.fan_out);
        Some(Arc::new(HttpEndpoint { fan_out, subscription, url, policy }))
    }
}

impl Endpoint for HttpEndpoint {
    fn name(&self) -> &str {
        self.subscription.arn()
    }

    fn request(&self, message: &Incoming) -> Result<Request, String> {
        let delivery = Delivery::of(&message.content).ok_or("the message is not a delivery")?;
        let mut headers = vec![
            ("x-amz-sns-message-type", delivery.kind.name().to_owned()),
            ("x-amz-sns-message-id", delivery.message_id.to_owned()),
            ("x-amz-sns-topic-arn", delivery.topic.to_owned()),
        ];
        // The endpoint is not subscribed yet.
        if delivery.kind != DeliveryKind::SubscriptionConfirmation {
            headers.push(("x-amz-sns-subscription-arn", delivery.subscription.to_owned()));
        }
        if delivery.is_raw {
            headers.push(("x-amz-sns-rawdelivery", "true".to_owned()));
        }
        headers.extend([
            ("Content-Type", self.policy.content_type.clone()),
            ("User-Agent", USER_AGENT.to_owned()),
            ("Accept-Encoding", "gzip,deflate".to_owned()),
        ]);
        Ok(Request { url: self.url.clone(), headers, other_headers: Vec::new() })
    }

    fn delay_before(&self, attempt: u32) -> Option<Duration> {
        self.policy.retry.delay_before(attempt)
    }

    fn max_per_second(&self) -> Option<u32> {
        self.policy.max_receives_per_second
    }

    fn delivered(&self, message: &Incoming) {
        if is_notification(message) {
            self.subscription.deliveries().count_delivered();
            self.count(Outcome { delivered: 1, ..Outcome::default() });
        }
    }

    fn failed<'a>(&'a self, message: &'a Incoming, _: &'a Failure) -> BoxFuture<'a, AfterFailure> {
        Box::pin(async move {
            let after = self.redrive(message).await;
            let has_dead_letter_queue = self.subscription.dead_letter().is_some();
            if after != AfterFailure::Later && is_notification(message) {
                let is_redriven = after == AfterFailure::Redriven;
                self.subscription.deliveries().count_failed();
                self.count(Outcome {
                    delivered: 0,
                    failed: 1,
                    redriven: u64::from(is_redriven),
                    failed_to_redrive: u64::from(has_dead_letter_queue && !is_redriven),
                });
            }
            after
        })
    }
}

impl HttpEndpoint {
    /// Counts for the topic and for all.
    fn count(&self, outcome: Outcome) {
        self.fan_out.figures.add(outcome);
        if let Some(topic) = self.fan_out.topics.topic(&self.subscription.document().topic) {
            topic.tally().add(outcome);
        }
    }

    /// Sends a failed notification to the subscription's dead-letter queue, as the endpoint would
    /// have got it. The token of a confirmation is for the endpoint alone: whoever subscribed it may
    /// read that queue.
    async fn redrive(&self, message: &Incoming) -> AfterFailure {
        if !is_notification(message) {
            return AfterFailure::Dropped;
        }
        let topics = &self.fan_out.topics;
        let queue = self.subscription.dead_letter().and_then(|key| topics.queue(key));
        let Some(queue) = queue else { return AfterFailure::Dropped };
        let topic = &self.subscription.document().topic;
        let account = topics.topic(topic).map(|topic| topic.account().to_owned());
        let limit = queue.definition().settings.maximum_message_size_bytes as usize;
        let body = message.content.body();
        if !self.fan_out.may_deliver(topic, &account.unwrap_or_default(), &queue)
            || body.len() > limit
            || !is_sendable(body, &[])
        {
            return AfterFailure::Dropped;
        }
        let mut content = Vec::new();
        let body_md5 = message.content.body_md5();
        NewContent { body, body_md5, sender: SENDER, ..NewContent::default() }.encode(&mut content);
        let outgoing = Outgoing {
            id: MessageId::from_random(fastrand::u128(..)),
            content: &content,
            size_bytes: body.len(),
            group: None,
            deduplication_id: None,
            delay_s: None,
        };
        match queue.send(&[outgoing]).await {
            Ok(_) => AfterFailure::Redriven,
            Err(error) if error.is_for_now() => AfterFailure::Later,
            Err(_) => AfterFailure::Dropped,
        }
    }
}

/// Confirmations are not counted among a topic's deliveries.
fn is_notification(message: &Incoming) -> bool {
    Delivery::of(&message.content).is_some_and(|it| it.kind == DeliveryKind::Notification)
}
