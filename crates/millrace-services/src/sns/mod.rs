//! Amazon SNS: topics that deliver what is published to queues and, through hidden queues, to HTTP
//! endpoints ([`http`]).
//!
//! [`topics`] keeps topics and subscriptions and makes all changes of them; [`error`] assigns all
//! codes; [`message`], [`topic_attributes`] and [`subscription`] hold the rules. A publish
//! ([`publish`]) is one append to all queues ([`fan_out`]), or a task if it is large ([`large`]);
//! [`window`] is what makes FIFO topics. [`delivery`] says what hidden queues hold.

mod alarms;
mod arn;
mod declare;
pub mod delivery;
mod endpoints;
mod envelope;
mod error;
mod fan_out;
mod figures;
mod http;
mod large;
mod listings;
mod manage;
mod message;
mod publish;
mod signer;
mod subscribe;
mod subscription;
mod tally;
mod topic;
mod topic_attributes;
mod topics;
mod window;

use std::sync::Arc;

use millrace_broker::Shards;
use millrace_push::Push;
use millrace_wire::protocol::{Protocol, ServiceMetadata, Target};
use millrace_wire::query::Parameters;
use millrace_wire::sns::{self, Action as Input, Answer};
use millrace_wire::{ApiError, Response};

pub use envelope::Sign;
pub(crate) use figures::TopicFigures;
pub(crate) use signer::Certificate;
pub use signer::TopicSigner;
pub use subscription::DeliveryCounts;
pub(crate) use tally::{TopicCounts, TopicTallies};
pub use topic_attributes::SignatureVersion;

use crate::principal::{Caller, Principal};
use crate::service::{Action, AwsService, Call, unknown_action};
use crate::sqs::SqsOptions;
use arn::SnsArn;
pub use declare::{DeclaredSubscription, DeclaredTopic};
use fan_out::FanOut;
use subscription::Subscription;
use topic::Topic;
use topics::Topics;

/// The service.
pub(crate) struct Sns {
    topics: Arc<Topics>,
    fan_out: Arc<FanOut>,
    push: Option<Arc<Push>>,
    /// Links begin as queue URLs do.
    urls: SqsOptions,
    /// The same without a request: where clients on this machine reach the server.
    endpoint: String,
}

/// The parts that the service is made of.
pub(crate) struct SnsParts {
    pub shards: Arc<Shards>,
    /// None: nothing is delivered by HTTP.
    pub push: Option<Arc<Push>>,
    pub urls: SqsOptions,
    /// Where clients on this machine reach the server.
    pub endpoint: String,
    /// Requests are authenticated.
    pub is_guarded: bool,
    pub signer: Option<Arc<dyn Sign>>,
    /// Notifications in queues are signed, too.
    pub signs_in_queues: bool,
}

/// The ways in which a request names its topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// Not at all: it is about the caller's account as a whole, or a token is enough.
    Nothing,
    /// By the parameter TopicArn.
    Topic,
    /// The same, but a topic that does not exist is fine.
    TopicIfAny,
    /// By TopicArn or TargetArn.
    Target,
    /// By ResourceArn.
    Resource,
    /// By that of a subscription.
    Subscription,
}

/// The actions that are answered.
static ACTIONS: [Action<Sns>; 21] = [
    Action::new("AddPermission", Names::Topic),
    Action::new("ConfirmSubscription", Names::Nothing).without_signature(),
    Action::new("CreateTopic", Names::Nothing),
    Action::new("DeleteTopic", Names::TopicIfAny),
    Action::new("GetDataProtectionPolicy", Names::Resource).of_owners(),
    Action::new("GetSubscriptionAttributes", Names::Subscription),
    Action::new("GetTopicAttributes", Names::Topic),
    Action::new("ListSubscriptions", Names::Nothing),
    Action::new("ListSubscriptionsByTopic", Names::Topic),
    Action::new("ListTagsForResource", Names::Resource).of_owners(),
    Action::new("ListTopics", Names::Nothing),
    Action::new("Publish", Names::Target),
    Action::new("PublishBatch", Names::Topic).permitted_as("Publish"),
    Action::new("PutDataProtectionPolicy", Names::Resource).of_owners(),
    Action::new("RemovePermission", Names::Topic),
    Action::new("SetSubscriptionAttributes", Names::Subscription),
    Action::new("SetTopicAttributes", Names::Topic),
    Action::new("Subscribe", Names::Topic),
    Action::new("TagResource", Names::Resource).of_owners(),
    Action::new("Unsubscribe", Names::Subscription).without_signature(),
    Action::new("UntagResource", Names::Resource).of_owners(),
];

impl Sns {
    pub(crate) fn new(parts: SnsParts) -> Sns {
        let SnsParts { shards, push, urls, endpoint, is_guarded, signer, signs_in_queues } = parts;
        let topics = Arc::new(Topics::open(shards));
        let home = topics.home().ok();
        let first = home.as_deref().map(topics::first_sequence);
        let fan_out = Arc::new(FanOut {
            topics: topics.clone(),
            figures: Arc::default(),
            is_guarded,
            signer,
            signs_in_queues,
            tasks: large::Tasks::new(first.unwrap_or_default()),
        });
        if let Some(home) = home {
            home.run_tasks_of(Arc::new(large::LargeFanOuts::new(&fan_out)));
        }
        let sns = Sns { topics, fan_out, push, urls, endpoint };
        // What waits since an earlier run.
        sns.topics.http_subscriptions().iter().for_each(|it| sns.drain(it));
        sns
    }

    /// Delivers what is in the hidden queue of a subscription, if it has one.
    fn drain(&self, subscription: &Subscription) {
        if let Some(push) = &self.push {
            http::drain(push, &self.fan_out, subscription);
        }
    }

    /// Forgets all topics, after everything that is kept was forgotten (test mode).
    pub(crate) fn clear(&self) {
        self.topics.clear();
    }

    pub(crate) fn figures(&self) -> TopicFigures {
        let (figures, topics) = (self.fan_out.figures.clone(), self.topics.clone());
        TopicFigures { figures, topics }
    }

    /// The counts of each topic, for CloudWatch.
    pub(crate) fn tallies(&self) -> TopicTallies {
        TopicTallies(self.topics.clone())
    }

    /// Makes the key of signatures at the first need, once in the life of a server's data.
    async fn make_ready_to_sign(&self) -> Result<(), ApiError> {
        let signer = self.fan_out.signer.as_deref().filter(|signer| !signer.is_ready());
        let Some(signer) = signer else { return Ok(()) };
        signer.make_ready().await.map_err(|error| {
            tracing::error!(error, "notifications cannot be signed");
            ApiError::internal_failure()
        })
    }

    /// First part of the links in notifications.
    fn origin(&self, call: &Call<'_>) -> String {
        self.urls.origin(call.request).to_string()
    }

    /// The topic of that ARN, which `parameter` holds.
    fn topic(
        &self,
        call: &Call<'_>,
        arn: Option<&str>,
        parameter: &str,
    ) -> Result<Option<Arc<Topic>>, ApiError> {
        let arn = arn.ok_or_else(|| error::missing(&member(parameter)))?;
        let Caller { region, is_region_given, .. } = call.caller;
        let parsed = SnsArn::parse(arn, parameter)?;
        if parsed.subscription.is_some() || *is_region_given && parsed.region != *region {
            return Err(error::invalid_parameter(parameter));
        }
        let topic = self.topics.topic(arn);
        if topic.is_none() && call.caller.principal.is_foreign_to(parsed.account) {
            return Err(not_yours(call, arn));
        }
        Ok(topic)
    }

    /// The topic of a subscription, unless the caller owns the subscription, or comes by the link
    /// that ends it.
    fn topic_of_subscription(
        &self,
        call: &Call<'_>,
        arn: Option<&str>,
    ) -> Result<Option<Arc<Topic>>, ApiError> {
        let principal = &call.caller.principal;
        let Some(found) = subscribe::named(self, arn)? else { return Ok(None) };
        let is_own = !principal.is_foreign_to(&found.document().owner);
        match is_own || principal.is_unsigned() {
            true => Ok(None),
            false => Ok(self.topics.topic(&found.document().topic)),
        }
    }
}

impl AwsService for Sns {
    const METADATA: &'static ServiceMetadata = &sns::SERVICE;
    const ACTIONS: &'static [Action<Sns>] = &ACTIONS;

    type Input<'a> = Input;
    type Answer = Answer;
    type Names = Names;
    type Resource = Arc<Topic>;

    fn decode<'a>(
        &self,
        call: &Call<'a>,
        parameters: &'a mut Parameters<'_>,
    ) -> Result<Input, ApiError> {
        let input = sns::decode(call.target, parameters, call.request.body)?;
        // They may take ten times what they are written in, and the answer waits for a commit.
        *parameters = Parameters::default();
        Ok(input)
    }

    fn find(
        &self,
        names: Names,
        call: &Call<'_>,
        input: &Input,
    ) -> Result<Option<Arc<Topic>>, ApiError> {
        let some = |topic: Option<Arc<Topic>>| topic.ok_or_else(error::no_such_topic).map(Some);
        match names {
            Names::Nothing => Ok(None),
            Names::Topic => some(self.topic(call, topic_of(input), "TopicArn")?),
            Names::TopicIfAny => self.topic(call, topic_of(input), "TopicArn"),
            Names::Target => {
                let Input::Publish(input) = input else { return Err(ApiError::internal_failure()) };
                some(self.topic(call, Some(publish::target(input)?), "TopicArn")?)
            }
            Names::Resource => {
                let topic = self.topic(call, resource_of(input), "ResourceArn")?;
                topic.ok_or_else(error::no_such_resource).map(Some)
            }
            Names::Subscription => self.topic_of_subscription(call, subscription_of(input)),
        }
    }

    async fn act<'a>(
        &self,
        call: &Call<'a>,
        input: &Input,
        topic: Option<Arc<Topic>>,
    ) -> Result<Answer, ApiError> {
        let signs = matches!(
            input,
            Input::CreateTopic(_)
                | Input::Publish(_)
                | Input::PublishBatch(_)
                | Input::Subscribe(_)
        );
        if signs {
            self.make_ready_to_sign().await?;
        }
        // Of the topics that `find` has looked up.
        let found = || topic.as_ref().ok_or_else(ApiError::internal_failure);
        match input {
            Input::AddPermission(input) => {
                self.add_permission(found()?, &call.caller.region, input).await
            }
            Input::ConfirmSubscription(input) => self.confirm_subscription(call, input).await,
            Input::CreateTopic(input) => self.create_topic(call.caller, input).await,
            Input::DeleteTopic(_) => self.delete_topic(topic.as_deref()).await,
            Input::GetDataProtectionPolicy(_) => Ok(manage::get_data_protection_policy(found()?)),
            Input::GetSubscriptionAttributes(input) => self.get_subscription_attributes(input),
            Input::GetTopicAttributes(_) => Ok(manage::get_topic_attributes(found()?)),
            Input::ListSubscriptions(input) => self.list_subscriptions(call.caller, input),
            Input::ListSubscriptionsByTopic(input) => {
                self.list_subscriptions_by_topic(found()?, input)
            }
            Input::ListTagsForResource(_) => Ok(manage::list_tags(found()?)),
            Input::ListTopics(input) => self.list_topics(call.caller, input),
            Input::Publish(input) => self.publish(call, found()?, input).await,
            Input::PublishBatch(input) => self.publish_batch(call, found()?, input).await,
            Input::PutDataProtectionPolicy(input) => {
                self.put_data_protection_policy(found()?, input).await
            }
            Input::RemovePermission(input) => self.remove_permission(found()?, input).await,
            Input::SetSubscriptionAttributes(input) => {
                self.set_subscription_attributes(input).await
            }
            Input::SetTopicAttributes(input) => self.set_topic_attributes(found()?, input).await,
            Input::Subscribe(input) => {
                self.subscribe(call.caller, &self.origin(call), found()?, input).await
            }
            Input::TagResource(input) => self.tag_resource(found()?, input).await,
            Input::Unsubscribe(input) => self.unsubscribe(call, input).await,
            Input::UntagResource(input) => self.untag_resource(found()?, input).await,
        }
    }

    fn encode(&self, call: &Call<'_>, answer: Answer) -> Response {
        let Target { action, protocol, .. } = call.target;
        sns::response(&answer, action, *protocol, call.request_id)
    }

    fn unknown_action(target: &Target<'_>, _: &Parameters<'_>) -> ApiError {
        match target.protocol {
            Protocol::Json | Protocol::Cbor => unknown_action(target),
            Protocol::Query | Protocol::QueryAsJson => error::unknown_action(&target.action),
        }
    }

    fn denied(_: &Action<Sns>, error: ApiError) -> ApiError {
        error::not_authorized(error.message)
    }
}

fn topic_of(input: &Input) -> Option<&str> {
    let arn = match input {
        Input::AddPermission(input) => &input.topic_arn,
        Input::DeleteTopic(input) | Input::GetTopicAttributes(input) => &input.topic_arn,
        Input::ListSubscriptionsByTopic(input) => &input.topic_arn,
        Input::PublishBatch(input) => &input.topic_arn,
        Input::RemovePermission(input) => &input.topic_arn,
        Input::SetTopicAttributes(input) => &input.topic_arn,
        Input::Subscribe(input) => &input.topic_arn,
        _ => return None,
    };
    arn.as_deref()
}

fn resource_of(input: &Input) -> Option<&str> {
    let arn = match input {
        Input::GetDataProtectionPolicy(input) | Input::ListTagsForResource(input) => {
            &input.resource_arn
        }
        Input::PutDataProtectionPolicy(input) => &input.resource_arn,
        Input::TagResource(input) => &input.resource_arn,
        Input::UntagResource(input) => &input.resource_arn,
        _ => return None,
    };
    arn.as_deref()
}

fn subscription_of(input: &Input) -> Option<&str> {
    let arn = match input {
        Input::GetSubscriptionAttributes(input) | Input::Unsubscribe(input) => {
            &input.subscription_arn
        }
        Input::SetSubscriptionAttributes(input) => &input.subscription_arn,
        _ => return None,
    };
    arn.as_deref()
}

/// A required parameter; `member` is its name in the model.
fn required<'r>(value: Option<&'r str>, member: &str) -> Result<&'r str, ApiError> {
    value.ok_or_else(|| error::missing(member))
}

/// A parameter's name in the model: `topicArn` for TopicArn.
fn member(parameter: &str) -> String {
    let (first, rest) = parameter.split_at(1);
    first.to_ascii_lowercase() + rest
}

/// A caller must not learn that another account has a topic of some name.
fn not_yours(call: &Call<'_>, arn: &str) -> ApiError {
    let Caller { principal, region, .. } = call.caller;
    let action = call.target.action.to_ascii_lowercase();
    error::not_authorized(format!(
        "User: {} is not authorized to perform: sns:{action} on resource: {arn} because no \
         resource-based policy allows the sns:{action} action",
        Principal::arn(principal, region)
    ))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_table_has_all_actions() {
        assert!(super::ACTIONS.iter().map(|it| it.name).eq(millrace_wire::sns::ACTIONS));
    }
}
