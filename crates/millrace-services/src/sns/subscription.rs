//! One subscription, and its attributes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use millrace_broker::Collection;
use millrace_core::{Arn, QueueKey};
use millrace_filters::{FilterPolicy, Scope};
use millrace_push::retry::SubscriptionPolicy;
use millrace_wire::ApiError;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::arn::queue_of_arn;
use super::error;
use super::http::delivery_policy;
use super::topic_attributes::is_same_text;

/// Bytes of attributes but for filter policies, which have a limit of their own.
const ATTRIBUTE_BYTES: usize = 32 << 10;

/// The service in the keys of hidden queues, which carry deliveries by HTTP.
pub(super) const HIDDEN_SERVICE: &str = "sns";

/// The protocols that deliveries are made in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Protocol {
    Sqs,
    Http,
    Https,
}

/// The life of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum SubscriptionState {
    /// The endpoint has yet to confirm it.
    Pending,
    Confirmed,
    /// It gets no messages and is in no list, but its token may revive it.
    Ended,
}

/// A subscription as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SubscriptionDocument {
    /// The topic's ARN and a UUID.
    pub arn: String,
    pub topic: String,
    /// The subscriber's account.
    pub owner: String,
    /// The ARN of the subscriber.
    pub principal: String,
    pub protocol: Protocol,
    pub endpoint: String,
    pub state: SubscriptionState,
    /// Those that were set, by name.
    pub attributes: BTreeMap<String, String>,
    /// Confirms the subscription.
    pub token: Option<String>,
    /// When the token was made.
    pub token_ms: u64,
    /// The caller who confirmed it was the subscriber, or showed who it was.
    pub was_authenticated: bool,
    /// Links without a signature do not end it.
    pub ends_by_signature_only: bool,
}

pub(super) const SUBSCRIPTIONS: Collection<SubscriptionDocument> =
    Collection::new("sns-subscriptions", |subscription| subscription.arn.clone());

/// A subscription, with what deliveries need of it worked out.
pub(super) struct Subscription {
    document: SubscriptionDocument,
    /// The queue that messages go to: the endpoint, or a hidden one.
    target: QueueKey,
    dead_letter: Option<QueueKey>,
    filter: Option<FilterPolicy>,
    is_raw: bool,
    deliveries: Arc<Deliveries>,
}

/// Counts of what became of a subscription's messages, since the start. They outlive its changes.
#[derive(Debug, Default)]
pub(super) struct Deliveries {
    delivered: AtomicU64,
    failed: AtomicU64,
}

/// The counts at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliveryCounts {
    pub delivered: u64,
    /// Those that went to a dead-letter queue, or nowhere.
    pub failed: u64,
}

impl Protocol {
    /// All of them, in the order of their numbers.
    pub(super) const ALL: [Protocol; 3] = [Protocol::Sqs, Protocol::Http, Protocol::Https];

    pub(super) fn name(self) -> &'static str {
        match self {
            Protocol::Sqs => "sqs",
            Protocol::Http => "http",
            Protocol::Https => "https",
        }
    }
}

impl Subscription {
    pub(super) fn new(document: SubscriptionDocument) -> Subscription {
        let target = match document.protocol {
            Protocol::Sqs => Arn::parse(&document.endpoint).and_then(|arn| arn.queue()),
            Protocol::Http | Protocol::Https => None,
        };
        Subscription {
            target: target.unwrap_or_else(|| hidden_queue(&document.arn)),
            dead_letter: document.attributes.get("RedrivePolicy").and_then(|it| dead_letter(it)),
            filter: filter(&document),
            is_raw: document.attributes.get("RawMessageDelivery").is_some_and(|it| it == "true"),
            deliveries: Arc::default(),
            document,
        }
    }

    /// The subscription with other attributes or in another state.
    pub(super) fn changed(&self, document: SubscriptionDocument) -> Subscription {
        Subscription { deliveries: self.deliveries.clone(), ..Subscription::new(document) }
    }

    pub(super) fn document(&self) -> &SubscriptionDocument {
        &self.document
    }

    pub(super) fn arn(&self) -> &str {
        &self.document.arn
    }

    pub(super) fn target(&self) -> &QueueKey {
        &self.target
    }

    pub(super) fn dead_letter(&self) -> Option<&QueueKey> {
        self.dead_letter.as_ref()
    }

    /// The policy of the messages that it wants; none: all of them.
    pub(super) fn filter(&self) -> Option<&FilterPolicy> {
        self.filter.as_ref()
    }

    pub(super) fn is_raw(&self) -> bool {
        self.is_raw
    }

    pub(super) fn deliveries(&self) -> &Deliveries {
        &self.deliveries
    }

    /// All attributes, as GetSubscriptionAttributes shows them. `topic_policy` is the delivery policy
    /// of the topic.
    pub(super) fn shown(&self, topic_policy: Option<&str>) -> BTreeMap<String, String> {
        let document = &self.document;
        let mut shown = document.attributes.clone();
        // It is of a policy, and is told with one only.
        match shown.contains_key("FilterPolicy") {
            true => {
                let scope = shown.entry("FilterPolicyScope".to_owned());
                scope.or_insert_with(|| "MessageAttributes".to_owned());
            }
            false => {
                shown.remove("FilterPolicyScope");
            }
        }
        let is_pending = document.state == SubscriptionState::Pending;
        for (name, value) in [
            ("SubscriptionArn", document.arn.clone()),
            ("TopicArn", document.topic.clone()),
            ("Owner", document.owner.clone()),
            ("Protocol", document.protocol.name().to_owned()),
            ("Endpoint", document.endpoint.clone()),
            ("PendingConfirmation", is_pending.to_string()),
            ("ConfirmationWasAuthenticated", document.was_authenticated.to_string()),
            ("RawMessageDelivery", self.is_raw.to_string()),
            ("SubscriptionPrincipal", document.principal.clone()),
        ] {
            shown.insert(name.to_owned(), value);
        }
        if document.protocol != Protocol::Sqs {
            let own = document.attributes.get("DeliveryPolicy").map(String::as_str);
            let effective = delivery_policy(topic_policy, own).effective_json();
            shown.insert("EffectiveDeliveryPolicy".to_owned(), effective);
        }
        shown
    }
}

impl Deliveries {
    pub(super) fn count_delivered(&self) {
        self.delivered.fetch_add(1, Relaxed);
    }

    pub(super) fn count_failed(&self) {
        self.failed.fetch_add(1, Relaxed);
    }

    pub(super) fn counts(&self) -> DeliveryCounts {
        DeliveryCounts {
            delivered: self.delivered.load(Relaxed),
            failed: self.failed.load(Relaxed),
        }
    }
}

/// The kind of request that sets an attribute: errors of Subscribe say more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SetBy {
    Subscribe,
    SetSubscriptionAttributes,
}

impl SetBy {
    fn refusal(self, reason: impl fmt::Display) -> ApiError {
        match self {
            SetBy::Subscribe => {
                error::invalid_parameter(format_args!("Attributes Reason: {reason}"))
            }
            SetBy::SetSubscriptionAttributes => error::invalid_parameter(reason),
        }
    }
}

/// Checks attributes and stores them, all at once: a filter policy and its scope may both be new.
pub(super) fn set_all<'a>(
    document: &mut SubscriptionDocument,
    is_fifo: bool,
    attributes: impl Iterator<Item = (&'a String, &'a String)> + Clone,
    by: SetBy,
) -> Result<(), ApiError> {
    if attributes.clone().any(|(name, _)| name == "FilterPolicy") {
        document.attributes.remove("FilterPolicy");
    }
    // The scope first: it says what a filter policy may be.
    let is_scope = |(name, _): &(&String, &String)| *name == "FilterPolicyScope";
    let scope = attributes.clone().filter(is_scope);
    let others = attributes.filter(|it| !is_scope(it));
    for (name, value) in scope.chain(others) {
        set(document, is_fifo, (name, value), by)?;
    }
    Ok(())
}

/// Checks an attribute and stores it. An empty value removes it.
pub(super) fn set(
    document: &mut SubscriptionDocument,
    is_fifo: bool,
    (name, value): (&str, &str),
    by: SetBy,
) -> Result<(), ApiError> {
    let is_http = document.protocol != Protocol::Sqs;
    if name != "FilterPolicy" && value.len() > ATTRIBUTE_BYTES {
        return Err(by.refusal(format_args!("{name}: it has more than {ATTRIBUTE_BYTES} bytes")));
    }
    let stored = match name {
        "RawMessageDelivery" => match value.to_ascii_lowercase() {
            value if matches!(&*value, "true" | "false") => Some(value),
            _ => {
                return Err(by.refusal(format_args!(
                    "RawMessageDelivery: Invalid value [{value}]. Must be true or false."
                )));
            }
        },
        "FilterPolicyScope" => {
            let Some(scope) = scope_named(value) else {
                return Err(by.refusal(format_args!(
                    "FilterPolicyScope: Invalid value [{value}]. Please use either MessageBody or \
                     MessageAttributes"
                )));
            };
            // A policy that is there has to suit it.
            if let Some(policy) = document.attributes.get("FilterPolicy") {
                check_filter_policy(policy, scope, by)?;
            }
            Some(value.to_owned())
        }
        "FilterPolicy" if is_empty_policy(value) => None,
        "FilterPolicy" => {
            check_filter_policy(value, scope_of(document), by)?;
            Some(value.to_owned())
        }
        "RedrivePolicy" if is_empty_policy(value) => None,
        "RedrivePolicy" => {
            check_redrive_policy(value, document, is_fifo, by)?;
            Some(value.to_owned())
        }
        "DeliveryPolicy" if is_http && value.is_empty() => None,
        "DeliveryPolicy" if is_http => match SubscriptionPolicy::parse(value) {
            Ok(_) => Some(value.to_owned()),
            Err(error) => return Err(by.refusal(format_args!("DeliveryPolicy: {error}"))),
        },
        _ => return Err(by.refusal("AttributeName")),
    };
    match stored {
        Some(value) => document.attributes.insert(name.to_owned(), value),
        None => document.attributes.remove(name),
    };
    Ok(())
}

/// Returns true if a subscription that exists has the attributes that another Subscribe gives.
pub(super) fn has_all(current: &SubscriptionDocument, given: &SubscriptionDocument) -> bool {
    given.attributes.iter().all(|(name, value)| {
        let default = match name.as_str() {
            "RawMessageDelivery" => Some("false"),
            "FilterPolicyScope" => Some("MessageAttributes"),
            _ => None,
        };
        let current = current.attributes.get(name).map(String::as_str).or(default);
        current.is_some_and(|current| is_same_text(current, value))
    })
}

/// The key of the hidden queue of a subscription.
pub(super) fn hidden_queue(arn: &str) -> QueueKey {
    let id = arn.rsplit(':').next().unwrap_or_default();
    QueueKey::hidden(HIDDEN_SERVICE, id)
}

fn check_filter_policy(text: &str, scope: Scope, by: SetBy) -> Result<(), ApiError> {
    match FilterPolicy::parse(text, scope) {
        Ok(_) => Ok(()),
        Err(cause) if cause.is_prefixed() => Err(by.refusal(format_args!("FilterPolicy: {cause}"))),
        Err(cause) => Err(by.refusal(cause)),
    }
}

fn scope_of(document: &SubscriptionDocument) -> Scope {
    let name = document.attributes.get("FilterPolicyScope");
    name.and_then(|name| scope_named(name)).unwrap_or_default()
}

fn scope_named(name: &str) -> Option<Scope> {
    match name {
        "MessageAttributes" => Some(Scope::MessageAttributes),
        "MessageBody" => Some(Scope::MessageBody),
        _ => None,
    }
}

fn check_redrive_policy(
    text: &str,
    document: &SubscriptionDocument,
    is_fifo: bool,
    by: SetBy,
) -> Result<(), ApiError> {
    if let Err(cause) = parse(text) {
        return Err(failed_to_parse("RedrivePolicy", &cause, by));
    }
    let Some(queue) = dead_letter(text) else {
        return Err(by.refusal("RedrivePolicy: deadLetterTargetArn is an invalid arn"));
    };
    // SNS developer guide, "Dead-letter queues": of the subscription's account and region.
    let region = Arn::parse(&document.topic).map(|topic| topic.region);
    if queue.account != document.owner || Some(&queue.region) != region.as_ref() {
        return Err(by.refusal(
            "RedrivePolicy: deadLetterTargetArn must be a queue of the subscription's account and \
             region",
        ));
    }
    match (is_fifo, queue.name.ends_with(".fifo")) {
        (true, false) => Err(by.refusal(
            "RedrivePolicy: must use a FIFO queue as DLQ for a FIFO Subscription to a FIFO Topic.",
        )),
        (false, true) => Err(by.refusal(
            "RedrivePolicy: must use a standard queue as DLQ for a Subscription to a standard \
             Topic.",
        )),
        _ => Ok(()),
    }
}

fn filter(document: &SubscriptionDocument) -> Option<FilterPolicy> {
    let text = document.attributes.get("FilterPolicy")?;
    match FilterPolicy::parse(text, scope_of(document)) {
        Ok(policy) => Some(policy).filter(|policy| !policy.is_empty()),
        Err(cause) => {
            let subscription = &document.arn;
            tracing::error!(subscription, %cause, "a filter policy cannot be read: all match");
            None
        }
    }
}

/// The dead-letter queue that a redrive policy names.
fn dead_letter(policy: &str) -> Option<QueueKey> {
    let policy = parse(policy).ok()?;
    queue_of_arn(policy.get("deadLetterTargetArn")?.as_str()?)
}

fn parse(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(text)
}

fn failed_to_parse(name: &str, cause: &serde_json::Error, by: SetBy) -> ApiError {
    by.refusal(format_args!("{name}: failed to parse JSON. {cause}"))
}

/// A text that removes a policy.
fn is_empty_policy(text: &str) -> bool {
    let text = text.trim();
    text.is_empty() || parse(text).is_ok_and(|it| it.as_object().is_some_and(|it| it.is_empty()))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::sns) fn document(protocol: Protocol, endpoint: &str) -> SubscriptionDocument {
        let topic = "arn:aws:sns:us-east-1:000000000000:t";
        SubscriptionDocument {
            arn: format!("{topic}:6b1f0c5e-0000-4000-8000-000000000000"),
            topic: topic.into(),
            owner: "000000000000".into(),
            principal: "arn:aws:iam::000000000000:root".into(),
            protocol,
            endpoint: endpoint.into(),
            state: SubscriptionState::Confirmed,
            attributes: BTreeMap::new(),
            token: None,
            token_ms: 0,
            was_authenticated: true,
            ends_by_signature_only: false,
        }
    }

    fn of_queue() -> SubscriptionDocument {
        document(Protocol::Sqs, "arn:aws:sqs:us-east-1:000000000000:q")
    }

    #[test]
    fn errors_say_more_on_subscribe() {
        let (by, mut document) = (SetBy::Subscribe, of_queue());
        for (name, value, reason) in [
            (
                "RawMessageDelivery",
                "x",
                "RawMessageDelivery: Invalid value [x]. Must be true or false.",
            ),
            ("Unknown", "x", "AttributeName"),
            ("SubscriptionRoleArn", "x", "AttributeName"),
            (
                "RedrivePolicy",
                r#"{"deadLetterTargetArn":"x"}"#,
                "RedrivePolicy: deadLetterTargetArn is an invalid arn",
            ),
            (
                "FilterPolicyScope",
                "X",
                "FilterPolicyScope: Invalid value [X]. Please use either MessageBody or \
                 MessageAttributes",
            ),
        ] {
            let subscribe = set(&mut document, false, (name, value), by).unwrap_err().message;
            assert_eq!(subscribe, format!("Invalid parameter: Attributes Reason: {reason}"));
            let later = SetBy::SetSubscriptionAttributes;
            let later = set(&mut document, false, (name, value), later).unwrap_err().message;
            assert_eq!(later, format!("Invalid parameter: {reason}"));
        }
        for name in ["FilterPolicy", "RedrivePolicy"] {
            let error = set(&mut document, false, (name, "{x"), by).unwrap_err().message;
            let reason = format!("Attributes Reason: {name}: failed to parse JSON. ");
            assert!(error.starts_with(&format!("Invalid parameter: {reason}")), "{error}");
        }
        assert_eq!(document, of_queue(), "nothing was set");
    }

    #[test]
    fn a_dead_letter_queue_is_of_the_kind_of_the_topic() {
        let policy = |name: &str| {
            format!(r#"{{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:{name}"}}"#)
        };
        for (is_fifo, name, is_allowed) in [
            (true, "d.fifo", true),
            (true, "d", false),
            (false, "d.fifo", false),
            (false, "d", true),
        ] {
            let mut document = of_queue();
            let given = ("RedrivePolicy", &*policy(name));
            let result = set(&mut document, is_fifo, given, SetBy::Subscribe);
            assert_eq!(result.is_ok(), is_allowed, "{is_fifo} {name}");
            let queue = Subscription::new(document).dead_letter.map(|queue| queue.name);
            assert_eq!(queue.as_deref(), is_allowed.then_some(name));
        }
    }

    #[test]
    fn a_dead_letter_queue_is_of_the_account_and_region_of_the_subscription() {
        for place in ["us-west-2:000000000000", "us-east-1:111111111111"] {
            let policy = format!(r#"{{"deadLetterTargetArn":"arn:aws:sqs:{place}:d"}}"#);
            let (mut document, given) = (of_queue(), ("RedrivePolicy", &*policy));
            let by = SetBy::SetSubscriptionAttributes;
            let error = set(&mut document, false, given, by).unwrap_err();
            assert!(error.message.ends_with("account and region"), "{}", error.message);
            assert_eq!(document, of_queue());
        }
    }

    #[test]
    fn an_empty_policy_removes_it_and_the_scope_is_shown_with_one_only() {
        let mut document = of_queue();
        let mut set = |name: &str, value: &str| {
            set(&mut document, false, (name, value), SetBy::Subscribe).unwrap();
            Subscription::new(document.clone()).shown(None)
        };

        assert!(!set("FilterPolicyScope", "MessageBody").contains_key("FilterPolicyScope"));
        assert_eq!(set("FilterPolicy", r#"{"a":["b"]}"#)["FilterPolicyScope"], "MessageBody");
        assert!(!set("FilterPolicy", " { } ").contains_key("FilterPolicy"));
    }

    #[test]
    fn what_another_subscribe_leaves_out_is_equal() {
        let mut current = of_queue();
        set(&mut current, false, ("FilterPolicy", r#"{"a": ["b"]}"#), SetBy::Subscribe).unwrap();
        let with = |name, value| {
            let mut given = of_queue();
            set(&mut given, false, (name, value), SetBy::Subscribe).unwrap();
            given
        };

        assert!(has_all(&current, &of_queue()));
        assert!(has_all(&current, &with("FilterPolicy", r#"{"a":["b"]}"#)));
        assert!(has_all(&current, &with("RawMessageDelivery", "false")));
        assert!(!has_all(&current, &with("FilterPolicy", r#"{"a":["c"]}"#)));
        assert!(!has_all(&current, &with("RawMessageDelivery", "true")));
    }
}
