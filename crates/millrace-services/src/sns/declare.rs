//! Topics declared in the configuration, created with their subscriptions when the server starts.

use std::iter;

use millrace_wire::ApiError;
use millrace_wire::sns::{CreateTopic, SetTopicAttributes, Subscribe, Tag, TagResource};

use super::arn::topic_arn;
use super::subscription::{self, SetBy};
use super::topic::Topic;
use super::{Sns, subscribe};
use crate::principal::{Caller, Principal};

/// A topic that must be there. Attributes carry SNS names and override what it has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeclaredTopic {
    pub region: String,
    pub account: String,
    pub name: String,
    pub attributes: Vec<(String, String)>,
    pub tags: Vec<(String, String)>,
    pub subscriptions: Vec<DeclaredSubscription>,
}

/// A subscription that the topic must have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeclaredSubscription {
    /// As Subscribe has it.
    pub protocol: String,
    pub endpoint: String,
    pub attributes: Vec<(String, String)>,
}

impl Sns {
    /// Creates the topic and its subscriptions, or brings those that are there in line. What is not
    /// declared stays.
    pub(crate) async fn declare(&self, declared: &DeclaredTopic) -> Result<(), ApiError> {
        let arn = topic_arn(&declared.region, &declared.account, &declared.name);
        let caller = Caller {
            principal: Principal::account(declared.account.as_str()),
            region: declared.region.as_str().into(),
            is_region_given: true,
        };
        match self.topics.topic(&arn) {
            None => self.create_declared(&caller, declared).await?,
            Some(topic) => self.update_declared(&topic, &arn, declared).await?,
        }
        let topic = self.topics.topic(&arn).ok_or_else(super::error::no_such_topic)?;
        for subscription in &declared.subscriptions {
            self.subscribe_declared(&caller, &topic, subscription).await?;
        }
        Ok(())
    }

    async fn create_declared(
        &self,
        caller: &Caller<'_>,
        declared: &DeclaredTopic,
    ) -> Result<(), ApiError> {
        let input = CreateTopic {
            name: Some(declared.name.clone()),
            attributes: declared.attributes.iter().cloned().collect(),
            tags: tags(declared),
            ..CreateTopic::default()
        };
        self.create_topic(caller, &input).await.map(drop)
    }

    async fn update_declared(
        &self,
        topic: &Topic,
        arn: &str,
        declared: &DeclaredTopic,
    ) -> Result<(), ApiError> {
        // A topic of another kind has another name.
        for (name, value) in declared.attributes.iter().filter(|(name, _)| name != "FifoTopic") {
            let input = SetTopicAttributes {
                topic_arn: Some(arn.to_owned()),
                name: Some(name.clone()),
                value: Some(value.clone()),
            };
            self.set_topic_attributes(topic, &input).await?;
        }
        if !declared.tags.is_empty() {
            let input = TagResource { resource_arn: Some(arn.to_owned()), tags: tags(declared) };
            self.tag_resource(topic, &input).await?;
        }
        Ok(())
    }

    async fn subscribe_declared(
        &self,
        caller: &Caller<'_>,
        topic: &Topic,
        declared: &DeclaredSubscription,
    ) -> Result<(), ApiError> {
        let new = Subscribe {
            protocol: Some(declared.protocol.clone()),
            endpoint: Some(declared.endpoint.clone()),
            attributes: declared.attributes.iter().cloned().collect(),
            ..Subscribe::default()
        };
        let refused = self.subscribe(caller, &self.endpoint, topic, &new).await.err();
        let protocol = subscribe::protocol(&declared.protocol).ok();
        let subscription = protocol.and_then(|it| topic.subscription(it, &declared.endpoint));
        if let Some(error) = refused {
            // It may be there with other attributes.
            let Some(subscription) = &subscription else { return Err(error) };
            let (_, ticket) = self.topics.change_subscription(subscription.arn(), |document| {
                let attributes = declared.attributes.iter().map(|(name, value)| (name, value));
                let by = SetBy::SetSubscriptionAttributes;
                subscription::set_all(document, topic.is_fifo(), attributes, by).map(|()| None)
            })?;
            self.topics.committed(ticket).await?;
        }
        if let Some(subscription) = subscription {
            self.warn_of_missing_queues(subscription.arn());
        }
        Ok(())
    }

    /// A queue may be made later, or its name is mistyped: what the topic is sent is lost meanwhile.
    fn warn_of_missing_queues(&self, subscription_arn: &str) {
        let Some(subscription) = self.topics.subscription(subscription_arn) else { return };
        for key in iter::once(subscription.target()).chain(subscription.dead_letter()) {
            if !key.is_hidden() && self.topics.queue(key).is_none() {
                tracing::warn!(
                    topic = subscription.document().topic,
                    queue = %key,
                    "a declared subscription is about a queue that is not there"
                );
            }
        }
    }
}

fn tags(declared: &DeclaredTopic) -> Vec<Tag> {
    let tag = |(key, value): &(String, String)| Tag { key: key.clone(), value: value.clone() };
    declared.tags.iter().map(tag).collect()
}
