//! ListTopics, ListSubscriptions, ListSubscriptionsByTopic.

use std::collections::BTreeSet;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use millrace_core::{Arn, partition};
use millrace_metrics::Scope;
use millrace_wire::ApiError;
use millrace_wire::sns::{Answer, ListSubscriptions, ListTopics, ListedSubscription, ListedTopic};

use super::arn::{SnsArn, topic_prefix};
use super::subscription::{DeliveryCounts, Subscription, SubscriptionDocument, SubscriptionState};
use super::topic::Topic;
use super::{Sns, error};
use crate::principal::Caller;

/// SNS: entries of one page.
const PAGE: usize = 100;

impl Sns {
    pub(super) fn list_topics(
        &self,
        caller: &Caller<'_>,
        input: &ListTopics,
    ) -> Result<Answer, ApiError> {
        let prefix = topic_prefix(&caller.region, &caller.principal.account);
        let after = place(input.next_token.as_deref(), &prefix)?;
        let mut found = self.topics.list_topics(&prefix, &after, PAGE + 1);
        let next_token = next_token(&mut found, |arn| arn);
        let topics = found.into_iter().map(|topic_arn| ListedTopic { topic_arn }).collect();
        Ok(Answer::ListTopics { topics, next_token })
    }

    /// Regions and accounts that have topics.
    pub(crate) fn scopes(&self) -> BTreeSet<Scope> {
        let scope = |arn: String| {
            let arn = Arn::parse(&arn)?;
            Some(Scope { region: arn.region, account: arn.account })
        };
        self.topics.first_of_each_place().into_iter().filter_map(scope).collect()
    }

    /// What became of a subscription's messages since the start; none if it does not exist.
    pub(crate) fn deliveries(&self, arn: &str) -> Option<DeliveryCounts> {
        self.topics.subscription(arn).map(|it| it.deliveries().counts())
    }

    /// Those that the caller's account owns, of topics of whatever account.
    pub(super) fn list_subscriptions(
        &self,
        caller: &Caller<'_>,
        input: &ListSubscriptions,
    ) -> Result<Answer, ApiError> {
        let Caller { principal, region, .. } = caller;
        let prefix = format!("arn:{}:sns:{region}:", partition(region));
        let is_own = |it: &SubscriptionDocument| it.owner == principal.account;
        self.subscriptions(&prefix, input, is_own)
    }

    pub(super) fn list_subscriptions_by_topic(
        &self,
        topic: &Topic,
        input: &ListSubscriptions,
    ) -> Result<Answer, ApiError> {
        self.subscriptions(&format!("{}:", topic.arn()), input, |_| true)
    }

    fn subscriptions(
        &self,
        prefix: &str,
        input: &ListSubscriptions,
        is_wanted: impl Fn(&SubscriptionDocument) -> bool,
    ) -> Result<Answer, ApiError> {
        let after = place(input.next_token.as_deref(), prefix)?;
        let mut found = self.topics.list_subscriptions(prefix, &after, PAGE + 1, is_wanted);
        let next_token = next_token(&mut found, |it| it.arn());
        let subscriptions = found.iter().map(|it| listed(it)).collect();
        Ok(Answer::ListSubscriptions { subscriptions, next_token })
    }
}

fn listed(subscription: &Subscription) -> ListedSubscription {
    let document = subscription.document();
    let is_pending = document.state == SubscriptionState::Pending;
    let arn = if is_pending { "PendingConfirmation" } else { &document.arn };
    ListedSubscription {
        subscription_arn: arn.to_owned(),
        owner: document.owner.clone(),
        protocol: document.protocol.name().to_owned(),
        endpoint: document.endpoint.clone(),
        topic_arn: document.topic.clone(),
    }
}

/// The ARN that a page begins behind; empty for the first. A token is good for the list that it is
/// of, whose ARNs begin with `prefix`.
fn place(token: Option<&str>, prefix: &str) -> Result<String, ApiError> {
    let Some(token) = token.filter(|token| !token.is_empty()) else { return Ok(String::new()) };
    let decoded = BASE64_URL_SAFE_NO_PAD.decode(token).ok();
    let arn = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
    let arn = arn.filter(|arn| arn.starts_with(prefix) && SnsArn::parse(arn, "NextToken").is_ok());
    arn.ok_or_else(|| error::invalid_parameter("NextToken"))
}

/// Cuts a list down to a page. Returns the token of the next one, if there is one.
fn next_token<T>(found: &mut Vec<T>, arn: impl Fn(&T) -> &str) -> Option<String> {
    if found.len() <= PAGE {
        return None;
    }
    found.truncate(PAGE);
    found.last().map(|last| BASE64_URL_SAFE_NO_PAD.encode(arn(last)))
}
