//! CreateTopic, DeleteTopic, the attributes, permissions and tags of topics.

use std::collections::{BTreeMap, BTreeSet};

use millrace_core::{is_account, is_plain_name, limits, partition};
use millrace_wire::ApiError;
use millrace_wire::sns::{
    AddPermission, Answer, CreateTopic, PutDataProtectionPolicy, RemovePermission,
    SetTopicAttributes, Tag, TagResource, UntagResource,
};
use serde_json::{Value, json};

use super::arn::{is_topic_name, topic_arn};
use super::topic::{Topic, TopicDocument};
use super::{Sns, error, required, topic_attributes};
use crate::policy_text::{in_order, one_or_many, statements_mut};
use crate::principal::Caller;
use crate::sqs::is_allowed_in_tags;

/// SNS: characters of a data protection policy.
const DATA_PROTECTION_BYTES: usize = 30_720;
/// Statements of a topic's policy, as of a queue's.
const STATEMENTS_MAX: usize = 100;
/// The actions that a permission may name; `*` is all of them.
const PERMITTED: [&str; 10] = [
    "*",
    "AddPermission",
    "DeleteTopic",
    "GetTopicAttributes",
    "ListSubscriptionsByTopic",
    "Publish",
    "Receive",
    "RemovePermission",
    "SetTopicAttributes",
    "Subscribe",
];

impl Sns {
    pub(super) async fn create_topic(
        &self,
        caller: &Caller<'_>,
        input: &CreateTopic,
    ) -> Result<Answer, ApiError> {
        let name = required(input.name.as_deref(), "name")?;
        let is_fifo = match input.attributes.get("FifoTopic").map(String::as_str) {
            Some(text) if text.eq_ignore_ascii_case("true") => true,
            Some(text) if text.eq_ignore_ascii_case("false") => false,
            None => false,
            Some(_) => return Err(error::invalid_parameter("FifoTopic")),
        };
        if !is_topic_name(name, is_fifo) {
            return Err(error::invalid_parameter("Topic Name"));
        }
        let Caller { principal, region, .. } = caller;
        let mut document = TopicDocument {
            arn: topic_arn(region, &principal.account, name),
            account: principal.account.to_string(),
            is_fifo,
            attributes: BTreeMap::new(),
            tags: BTreeMap::new(),
            data_protection_policy: None,
        };
        let attributes = || input.attributes.iter().filter(|(name, _)| *name != "FifoTopic");
        for (name, value) in attributes() {
            topic_attributes::set(&mut document, name, value)?;
        }
        put_tags(&mut document.tags, &input.tags)?;
        document.data_protection_policy =
            input.data_protection_policy.as_deref().map(checked_data_protection).transpose()?;
        let (arn, tags) = (document.arn.clone(), document.tags.clone());
        let is_same = |known: &TopicDocument| {
            let has = |(name, value): (&String, &String)| topic_attributes::has(known, name, value);
            if !input.attributes.iter().all(has) {
                return Err(error::invalid_parameter(
                    "Attributes Reason: Topic already exists with different attributes",
                ));
            }
            if !input.tags.is_empty() && known.tags != tags {
                return Err(error::invalid_parameter(
                    "Tags Reason: Topic already exists with different tags",
                ));
            }
            Ok(())
        };
        let ticket = self.topics.create_topic(document, is_same)?;
        self.topics.committed(ticket).await?;
        Ok(Answer::CreateTopic { topic_arn: arn })
    }

    pub(super) async fn delete_topic(&self, topic: Option<&Topic>) -> Result<Answer, ApiError> {
        if let Some(topic) = topic {
            let ticket = self.topics.delete_topic(topic)?;
            self.topics.committed(ticket).await?;
        }
        Ok(Answer::Done)
    }

    pub(super) async fn set_topic_attributes(
        &self,
        topic: &Topic,
        input: &SetTopicAttributes,
    ) -> Result<Answer, ApiError> {
        let name = required(input.name.as_deref(), "attributeName")?;
        let value = input.value.as_deref().unwrap_or_default();
        self.change(topic, |document| topic_attributes::set(document, name, value)).await?;
        Ok(Answer::Done)
    }

    pub(super) async fn add_permission(
        &self,
        topic: &Topic,
        region: &str,
        input: &AddPermission,
    ) -> Result<Answer, ApiError> {
        let label = required(input.label.as_deref(), "label")?;
        if label.is_empty() || !is_plain_name(label) {
            return Err(error::invalid_parameter("Label"));
        }
        if input.accounts.is_empty() || !input.accounts.iter().all(|it| is_account(it)) {
            return Err(error::invalid_parameter("PrincipalId"));
        }
        if input.actions.is_empty() {
            return Err(error::missing("actionName"));
        }
        if !input.actions.iter().all(|it| PERMITTED.contains(&it.as_str())) {
            return Err(topic_attributes::out_of_scope());
        }
        let partition = partition(region);
        let root = |account: &String| format!("arn:{partition}:iam::{account}:root");
        let principals = input.accounts.iter().map(root).collect();
        let actions = input.actions.iter().map(|action| format!("SNS:{action}")).collect();
        let statement = json!({
            "Sid": label,
            "Effect": "Allow",
            "Principal": { "AWS": one_or_many(principals) },
            "Action": one_or_many(actions),
            "Resource": topic.arn(),
        });
        self.change(topic, |document| {
            let mut policy = policy_of(document);
            let statements = statements_mut(&mut policy);
            if statements.iter().any(|known| known["Sid"] == label) {
                return Err(error::invalid_parameter("Statement already exists"));
            }
            if statements.len() >= STATEMENTS_MAX {
                return Err(error::invalid_parameter("Policy Error: too many statements"));
            }
            statements.push(statement);
            let text = in_order(&policy)?;
            if text.len() > topic_attributes::POLICY_BYTES {
                return Err(error::invalid_parameter("Policy Error: the policy is too long"));
            }
            document.attributes.insert("Policy".to_owned(), text);
            Ok(())
        })
        .await?;
        Ok(Answer::Done)
    }

    pub(super) async fn remove_permission(
        &self,
        topic: &Topic,
        input: &RemovePermission,
    ) -> Result<Answer, ApiError> {
        let label = required(input.label.as_deref(), "label")?;
        self.change(topic, |document| {
            let mut policy = policy_of(document);
            let statements = statements_mut(&mut policy);
            let before = statements.len();
            statements.retain(|statement| statement["Sid"] != label);
            if statements.len() < before {
                document.attributes.insert("Policy".to_owned(), in_order(&policy)?);
            }
            Ok(())
        })
        .await?;
        Ok(Answer::Done)
    }

    pub(super) async fn tag_resource(
        &self,
        topic: &Topic,
        input: &TagResource,
    ) -> Result<Answer, ApiError> {
        self.change(topic, |document| put_tags(&mut document.tags, &input.tags)).await?;
        Ok(Answer::Empty {})
    }

    pub(super) async fn untag_resource(
        &self,
        topic: &Topic,
        input: &UntagResource,
    ) -> Result<Answer, ApiError> {
        self.change(topic, |document| {
            document.tags.retain(|key, _| !input.tag_keys.contains(key));
            Ok(())
        })
        .await?;
        Ok(Answer::Empty {})
    }

    pub(super) async fn put_data_protection_policy(
        &self,
        topic: &Topic,
        input: &PutDataProtectionPolicy,
    ) -> Result<Answer, ApiError> {
        let text = required(input.data_protection_policy.as_deref(), "dataProtectionPolicy")?;
        let text = checked_data_protection(text)?;
        self.change(topic, |document| {
            document.data_protection_policy = Some(text).filter(|text| !text.is_empty());
            Ok(())
        })
        .await?;
        Ok(Answer::Done)
    }

    /// Changes a topic in one step with reading it; returns once that is durable.
    async fn change(
        &self,
        topic: &Topic,
        change: impl FnOnce(&mut TopicDocument) -> Result<(), ApiError>,
    ) -> Result<(), ApiError> {
        let ticket = self.topics.change_topic(topic, change)?;
        self.topics.committed(ticket).await
    }
}

pub(super) fn list_tags(topic: &Topic) -> Answer {
    let document = topic.document();
    let tag = |(key, value): (&String, &String)| Tag { key: key.clone(), value: value.clone() };
    Answer::ListTagsForResource { tags: document.tags.iter().map(tag).collect() }
}

pub(super) fn get_topic_attributes(topic: &Topic) -> Answer {
    Answer::Attributes { attributes: topic_attributes::shown(&topic.snapshot()) }
}

pub(super) fn get_data_protection_policy(topic: &Topic) -> Answer {
    let policy = topic.document().data_protection_policy.clone();
    Answer::GetDataProtectionPolicy { data_protection_policy: policy.unwrap_or_default() }
}

/// Only documents without rules: messages are not looked into.
fn checked_data_protection(text: &str) -> Result<String, ApiError> {
    let parsed = serde_json::from_str::<Value>(text).ok();
    let has_rules = parsed.as_ref().is_some_and(|policy| {
        policy["Statement"].as_array().is_some_and(|statements| !statements.is_empty())
    });
    let is_object = text.is_empty() || parsed.is_some_and(|policy| policy.is_object());
    if !is_object || text.len() > DATA_PROTECTION_BYTES {
        return Err(error::invalid_parameter("DataProtectionPolicy"));
    }
    if has_rules {
        return Err(error::invalid_parameter(
            "DataProtectionPolicy Reason: this server does not look into messages",
        ));
    }
    Ok(text.to_owned())
}

fn put_tags(known: &mut BTreeMap<String, String>, tags: &[Tag]) -> Result<(), ApiError> {
    for (index, Tag { key, value }) in tags.iter().enumerate() {
        check_tag(index + 1, key, value)?;
    }
    let keys: BTreeSet<&str> = tags.iter().map(|tag| tag.key.as_str()).collect();
    if keys.len() < tags.len() {
        return Err(error::invalid_parameter("Duplicated keys are not allowed."));
    }
    known.extend(tags.iter().map(|tag| (tag.key.clone(), tag.value.clone())));
    if known.len() > limits::TAGS {
        return Err(error::too_many_tags());
    }
    Ok(())
}

/// Checks the tag of that number, from 1.
fn check_tag(number: usize, key: &str, value: &str) -> Result<(), ApiError> {
    let refused = |member: &str, value: &str, constraint: String| {
        Err(error::constraint(&format!("tags.{number}.member.{member}"), value, &constraint))
    };
    if key.is_empty() {
        let constraint = "Member must have length greater than or equal to 1".to_owned();
        return refused("key", key, constraint);
    }
    for (member, text, most) in
        [("key", key, *limits::TAG_KEY_CHARS.end()), ("value", value, limits::TAG_VALUE_CHARS)]
    {
        if text.chars().count() > most {
            let constraint = format!("Member must have length less than or equal to {most}");
            return refused(member, text, constraint);
        }
        if !text.chars().all(is_allowed_in_tags) {
            return Err(error::invalid_parameter(format_args!(
                "Tags Reason: a {member} may have letters, digits, whitespace and _ . : / = + - @"
            )));
        }
    }
    if key.to_ascii_lowercase().starts_with("aws:") {
        return Err(error::invalid_parameter(
            "Tags Reason: keys that begin with aws: are reserved for system use",
        ));
    }
    Ok(())
}

/// The policy of a topic, or the one that it has by default.
fn policy_of(document: &TopicDocument) -> Value {
    let text = document.attributes.get("Policy").cloned();
    let text = text.unwrap_or_else(|| topic_attributes::default_policy(document));
    serde_json::from_str(&text).unwrap_or_else(|_| json!({"Version": "2008-10-17"}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_bounded_and_their_keys_differ() {
        let tag = |key: &str, value: &str| Tag { key: key.into(), value: value.into() };
        let put = |tags: &[Tag]| put_tags(&mut BTreeMap::new(), tags).err().map(|it| it.code);
        assert_eq!(
            put(&[tag("a", ""), tag("b", &"é".repeat(256)), tag(&"é".repeat(128), "")]),
            None
        );
        assert_eq!(put(&[tag("a", "1"), tag("b", ""), tag("a", "2")]), Some("InvalidParameter"));
        for (key, value) in [("aws:a", ""), ("AWS:a", ""), ("a\u{0}", ""), ("a", "*")] {
            assert_eq!(put(&[tag(key, value)]), Some("InvalidParameter"), "{key:?}");
        }
        let long = ("é".repeat(129), "é".repeat(257));
        for (key, value) in [("", ""), (&long.0, ""), ("a", &long.1)] {
            assert_eq!(put(&[tag(key, value)]), Some("ValidationError"), "{key:?}");
        }
        assert_eq!(
            check_tag(2, "", "x").unwrap_err().message,
            "1 validation error detected: Value '' at 'tags.2.member.key' failed to satisfy \
             constraint: Member must have length greater than or equal to 1"
        );
        let many: Vec<Tag> = (0..51).map(|n| tag(&n.to_string(), "")).collect();
        assert_eq!((put(&many[..50]), put(&many)), (None, Some("TagLimitExceeded")));
    }

    #[test]
    fn a_data_protection_policy_has_no_rules() {
        for text in ["", "{}", r#"{"Name":"x","Statement":[]}"#] {
            assert!(checked_data_protection(text).is_ok(), "{text}");
        }
        for text in ["x", "[]", r#"{"Statement":[{"Sid":"x"}]}"#] {
            assert!(checked_data_protection(text).is_err(), "{text}");
        }
    }
}
