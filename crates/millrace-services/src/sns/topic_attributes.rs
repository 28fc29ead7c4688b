//! Attributes of topics: which there are, what they may be, and how they are shown.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use millrace_core::limits;
use millrace_push::retry::TopicPolicy;
use millrace_wire::ApiError;
use serde_json::Value;

use super::error;
use super::topic::{Snapshot, TopicDocument};
use crate::policy_text;

/// SNS: bytes of a message where the topic says nothing.
pub(super) const MESSAGE_BYTES: usize = 262_144;
/// SNS: what MaximumMessageSize may be.
const MESSAGE_BYTES_RANGE: RangeInclusive<usize> = 1_024..=limits::MESSAGE_SIZE_BYTES;
/// SNS: characters of a DisplayName.
const DISPLAY_NAME_CHARS: usize = 100;
/// SNS: bytes of a policy.
pub(super) const POLICY_BYTES: usize = 30_720;
/// Bytes of any attribute. Policies about deliveries are read for each of them.
const VALUE_BYTES: usize = 32 << 10;

/// The attributes that matter for each message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TopicSettings {
    pub message_bytes: usize,
    pub is_content_based: bool,
    /// Deduplication ids are of their group, and not of the whole topic.
    pub is_scope_group: bool,
    pub signature_version: SignatureVersion,
}

/// How notifications are signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureVersion {
    /// SHA-1.
    One,
    /// SHA-256.
    Two,
}

impl SignatureVersion {
    pub(super) fn text(self) -> &'static str {
        match self {
            SignatureVersion::One => "1",
            SignatureVersion::Two => "2",
        }
    }
}

impl TopicSettings {
    pub(super) fn of(document: &TopicDocument) -> TopicSettings {
        let attribute = |name: &str| document.attributes.get(name).map(String::as_str);
        let size = attribute("MaximumMessageSize").and_then(|text| text.parse().ok());
        TopicSettings {
            message_bytes: size.unwrap_or(MESSAGE_BYTES),
            is_content_based: attribute("ContentBasedDeduplication") == Some("true"),
            is_scope_group: attribute("FifoThroughputScope") == Some("MessageGroup"),
            signature_version: match attribute("SignatureVersion") {
                Some("2") => SignatureVersion::Two,
                _ => SignatureVersion::One,
            },
        }
    }
}

/// Checks an attribute and stores it. An empty value removes those that have no default.
pub(super) fn set(document: &mut TopicDocument, name: &str, value: &str) -> Result<(), ApiError> {
    if !is_settable(name) {
        return Err(error::invalid_parameter("AttributeName"));
    }
    let value = checked(document.is_fifo, name, value)?;
    match value {
        Some(value) => document.attributes.insert(name.to_owned(), value),
        None => document.attributes.remove(name),
    };
    Ok(())
}

/// All attributes, as GetTopicAttributes shows them.
pub(super) fn shown(topic: &Snapshot) -> BTreeMap<String, String> {
    let document = &topic.document;
    let mut shown = document.attributes.clone();
    let delivery = document.attributes.get("DeliveryPolicy").map(String::as_str);
    let effective = TopicPolicy::parse(delivery.unwrap_or_default()).unwrap_or_default();
    let effective = effective.effective_json();
    let mut add = |name: &str, value: String| {
        shown.entry(name.to_owned()).or_insert(value);
    };
    add("TopicArn", document.arn.clone());
    add("Owner", document.account.clone());
    add("DisplayName", String::new());
    add("Policy", default_policy(document));
    add("EffectiveDeliveryPolicy", effective);
    add("SubscriptionsConfirmed", topic.subscriptions.len().to_string());
    add("SubscriptionsPending", topic.pending.to_string());
    add("SubscriptionsDeleted", "0".to_owned());
    if document.is_fifo {
        add("FifoTopic", "true".to_owned());
        add("ContentBasedDeduplication", "false".to_owned());
    }
    shown
}

/// Returns true if a topic that exists has that attribute as somebody gives it to CreateTopic.
pub(super) fn has(document: &TopicDocument, name: &str, value: &str) -> bool {
    if name == "FifoTopic" {
        return value.eq_ignore_ascii_case("true") == document.is_fifo;
    }
    let mut wanted = document.clone();
    if set(&mut wanted, name, value).is_err() {
        return false;
    }
    let of = |document: &TopicDocument| {
        let value = document.attributes.get(name).cloned();
        value.or_else(|| default_of(name).map(str::to_owned))
    };
    match (of(&wanted), of(document)) {
        (Some(wanted), Some(current)) => is_same_text(&wanted, &current),
        (wanted, current) => wanted == current,
    }
}

/// Returns true if two values are equal, as texts or as JSON.
pub(super) fn is_same_text(one: &str, other: &str) -> bool {
    let parsed = |text: &str| serde_json::from_str::<Value>(text).ok();
    one == other || parsed(one).is_some_and(|value| Some(value) == parsed(other))
}

/// The policy that topics have whose owner gave them none.
pub(super) fn default_policy(TopicDocument { arn, account, .. }: &TopicDocument) -> String {
    format!(
        r#"{{"Version":"2008-10-17","Id":"__default_policy_ID","Statement":[{{"Sid":"__default_statement_ID","Effect":"Allow","Principal":{{"AWS":"*"}},"Action":["SNS:GetTopicAttributes","SNS:SetTopicAttributes","SNS:AddPermission","SNS:RemovePermission","SNS:DeleteTopic","SNS:Subscribe","SNS:ListSubscriptionsByTopic","SNS:Publish"],"Resource":"{arn}","Condition":{{"StringEquals":{{"AWS:SourceOwner":"{account}"}}}}}}]}}"#
    )
}

/// Delivery status logging: accepted, and nothing comes of it.
fn is_feedback(name: &str) -> bool {
    let kinds = ["HTTP", "SQS", "Lambda", "Firehose", "Application"];
    let what = ["SuccessFeedbackRoleArn", "SuccessFeedbackSampleRate", "FailureFeedbackRoleArn"];
    kinds.iter().any(|kind| name.strip_prefix(kind).is_some_and(|rest| what.contains(&rest)))
}

fn is_settable(name: &str) -> bool {
    is_feedback(name)
        || matches!(
            name,
            "DisplayName"
                | "Policy"
                | "DeliveryPolicy"
                | "KmsMasterKeyId"
                | "TracingConfig"
                | "SignatureVersion"
                | "ContentBasedDeduplication"
                | "FifoThroughputScope"
                | "ArchivePolicy"
                | "MaximumMessageSize"
        )
}

fn default_of(name: &str) -> Option<&'static str> {
    match name {
        "DisplayName" => Some(""),
        "ContentBasedDeduplication" => Some("false"),
        "SignatureVersion" => Some("1"),
        "TracingConfig" => Some("PassThrough"),
        "MaximumMessageSize" => Some("262144"),
        _ => None,
    }
}

/// The value as it is stored; none removes the attribute.
fn checked(is_fifo: bool, name: &str, value: &str) -> Result<Option<String>, ApiError> {
    let invalid = |reason: &str| Err(error::invalid_parameter(format_args!("{name} {reason}")));
    let stored = || Ok(Some(value.to_owned()));
    if name != "Policy" && value.len() > VALUE_BYTES {
        return Err(error::invalid_parameter(name));
    }
    match name {
        "DisplayName" => match value.chars().count() <= DISPLAY_NAME_CHARS {
            true => stored(),
            false => Err(error::invalid_parameter("DisplayName")),
        },
        "Policy" => check_policy(value).map(|()| Some(value.to_owned())),
        "DeliveryPolicy" | "KmsMasterKeyId" if value.is_empty() => Ok(None),
        "DeliveryPolicy" => match TopicPolicy::parse(value) {
            Ok(_) => stored(),
            Err(cause) => Err(error::invalid_parameter(format_args!("DeliveryPolicy: {cause}"))),
        },
        "KmsMasterKeyId" => match value.len() <= limits::KMS_KEY_ID_BYTES {
            true => stored(),
            false => Err(error::invalid_parameter(name)),
        },
        "TracingConfig" if matches!(value, "PassThrough" | "Active") => stored(),
        "TracingConfig" => invalid("Reason: it must be PassThrough or Active"),
        "SignatureVersion" if matches!(value, "1" | "2") => stored(),
        "SignatureVersion" => Err(error::invalid_parameter(format_args!(
            "SignatureVersion: Invalid value [{value}]. Must be 1 or 2."
        ))),
        "ContentBasedDeduplication" | "FifoThroughputScope" if !is_fifo => {
            invalid("can only be set for FIFO topics")
        }
        "ContentBasedDeduplication" => match value.to_ascii_lowercase() {
            value if matches!(&*value, "true" | "false") => Ok(Some(value)),
            _ => invalid("Reason: it must be true or false"),
        },
        "FifoThroughputScope" if matches!(value, "Topic" | "MessageGroup") => stored(),
        "FifoThroughputScope" => invalid("Reason: it must be Topic or MessageGroup"),
        "ArchivePolicy" if matches!(value.trim(), "" | "{}") => Ok(None),
        "ArchivePolicy" => invalid("Reason: this server does not archive messages"),
        "MaximumMessageSize" => match value.parse() {
            Ok(bytes) if MESSAGE_BYTES_RANGE.contains(&bytes) => Ok(Some(bytes.to_string())),
            _ => invalid("Reason: it must be between 1024 and 1048576"),
        },
        _ => stored(),
    }
}

fn check_policy(text: &str) -> Result<(), ApiError> {
    let document = serde_json::from_str::<Value>(text).ok();
    let document = document.filter(|it| text.len() <= POLICY_BYTES && policy_text::is_policy(it));
    let Some(document) = document else {
        return Err(error::invalid_parameter("Policy Error: null"));
    };
    match policy_text::actions(&document).all(is_action_of_topics) {
        true => Ok(()),
        false => Err(out_of_scope()),
    }
}

fn is_action_of_topics(action: &str) -> bool {
    action == "*" || action.get(..4).is_some_and(|service| service.eq_ignore_ascii_case("sns:"))
}

pub(super) fn out_of_scope() -> ApiError {
    error::invalid_parameter("Policy statement action out of service scope!")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(is_fifo: bool) -> TopicDocument {
        TopicDocument {
            arn: "arn:aws:sns:us-east-1:000000000000:t".into(),
            account: "000000000000".into(),
            is_fifo,
            attributes: BTreeMap::new(),
            tags: BTreeMap::new(),
            data_protection_policy: None,
        }
    }

    #[test]
    fn the_policies_that_topics_have_by_default_are_sound() {
        assert_eq!(set(&mut topic(false), "Policy", &default_policy(&topic(false))), Ok(()));
    }

    #[test]
    fn attributes_are_checked() {
        let refused = |is_fifo, name, value: &str| {
            let error = set(&mut topic(is_fifo), name, value).err();
            error.map(|error| error.message.replace("Invalid parameter: ", ""))
        };
        let long = "x".repeat(101);
        for (is_fifo, name, value, message) in [
            (false, "FifoTopic", "true", "AttributeName"),
            (true, "Unknown", "true", "AttributeName"),
            (false, "DisplayName", &*long, "DisplayName"),
            (false, "Policy", "{}", "Policy Error: null"),
            (false, "DeliveryPolicy", "x", "DeliveryPolicy: failed to parse JSON."),
            (
                false,
                "SignatureVersion",
                "3",
                "SignatureVersion: Invalid value [3]. Must be 1 or 2.",
            ),
        ] {
            assert_eq!(refused(is_fifo, name, value).as_deref(), Some(message), "{name}");
        }
        for (name, value) in [
            ("TracingConfig", "active"),
            ("ArchivePolicy", r#"{"MessageRetentionPeriod":30}"#),
            ("MaximumMessageSize", "1023"),
            ("MaximumMessageSize", "1048577"),
            ("MaximumMessageSize", "x"),
            ("FifoThroughputScope", "Queue"),
            ("ContentBasedDeduplication", "yes"),
        ] {
            assert!(refused(true, name, value).is_some(), "{name} {value}");
        }
        assert!(refused(false, "ContentBasedDeduplication", "true").is_some());
        for (name, value) in [
            ("HTTPSuccessFeedbackSampleRate", "50"),
            ("KmsMasterKeyId", "alias/x"),
            ("MaximumMessageSize", "1048576"),
            ("FifoThroughputScope", "MessageGroup"),
            ("ArchivePolicy", "{}"),
        ] {
            assert_eq!(refused(true, name, value), None, "{name}");
        }
    }

    #[test]
    fn a_topic_has_the_attributes_that_were_set_and_defaults() {
        let mut topic = topic(true);
        set(&mut topic, "ContentBasedDeduplication", "True").unwrap();
        set(&mut topic, "DeliveryPolicy", r#"{"http": {}}"#).unwrap();

        for (name, value) in [
            ("FifoTopic", "true"),
            ("ContentBasedDeduplication", "true"),
            ("DeliveryPolicy", r#"{"http":{}}"#),
            ("DisplayName", ""),
            ("SignatureVersion", "1"),
        ] {
            assert!(has(&topic, name, value), "{name}");
        }
        for (name, value) in [
            ("FifoTopic", "false"),
            ("ContentBasedDeduplication", "false"),
            ("DisplayName", "x"),
            ("SignatureVersion", "2"),
            ("KmsMasterKeyId", "k"),
        ] {
            assert!(!has(&topic, name, value), "{name}");
        }
    }
}
