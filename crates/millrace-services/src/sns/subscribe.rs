//! Subscribe, ConfirmSubscription, Unsubscribe, and the attributes of subscriptions.

use std::collections::BTreeMap;
use std::sync::Arc;

use millrace_broker::{Kind, NewContent};
use millrace_core::{Arn, MessageId, QueueKey, Url, hex_text, md5};
use millrace_wire::ApiError;
use millrace_wire::sns::{
    Answer, ConfirmSubscription, SetSubscriptionAttributes, Subscribe, SubscriptionOnly,
};

use super::arn::{SnsArn, queue_of_arn};
use super::delivery::{Delivery, DeliveryKind};
use super::envelope::Confirmation;
use super::subscription::{
    self, Protocol, SetBy, Subscription, SubscriptionDocument, SubscriptionState, hidden_queue,
};
use super::topic::Topic;
use super::topic_attributes::TopicSettings;
use super::topics::{Notice, has_expired};
use super::{Sns, error, required};
use crate::principal::Caller;
use crate::service::Call;

/// SenderId of confirmations that go to queues.
const SENDER: &str = "sns.amazonaws.com";
/// Random bytes of a token: SNS has 288 hexadecimal digits.
const TOKEN_BYTES: usize = 144;
/// SNS: characters of an endpoint, as of an ARN.
const ENDPOINT_CHARS: usize = 2_048;
/// What Subscribe answers, unless asked for more, while the endpoint has not confirmed.
const PENDING: &str = "pending confirmation";
/// Protocols of Amazon SNS that this server does not have.
const UNSERVED: [&str; 6] = ["email", "email-json", "sms", "application", "lambda", "firehose"];

impl Sns {
    pub(super) async fn subscribe(
        &self,
        caller: &Caller<'_>,
        origin: &str,
        topic: &Topic,
        input: &Subscribe,
    ) -> Result<Answer, ApiError> {
        let now = self.topics.shards().now();
        self.topics.delete_outdated(now)?;
        let protocol = protocol(required(input.protocol.as_deref(), "protocol")?)?;
        let endpoint = input.endpoint.as_deref().unwrap_or_default();
        let queue = check_endpoint(topic, protocol, endpoint)?;
        let Caller { principal, region, .. } = caller;
        let is_confirmed = queue.is_some_and(|queue| !principal.is_foreign_to(&queue.account));
        let mut document = SubscriptionDocument {
            arn: format!("{}:{}", topic.arn(), MessageId::from_random(fastrand::u128(..))),
            topic: topic.arn().to_owned(),
            owner: principal.account.to_string(),
            principal: principal.arn(region),
            protocol,
            endpoint: endpoint.to_owned(),
            state: match is_confirmed {
                true => SubscriptionState::Confirmed,
                false => SubscriptionState::Pending,
            },
            attributes: BTreeMap::new(),
            token: if is_confirmed { None } else { Some(new_token()?) },
            token_ms: now.0,
            was_authenticated: is_confirmed,
            ends_by_signature_only: false,
        };
        let attributes = input.attributes.iter();
        subscription::set_all(&mut document, topic.is_fifo(), attributes, SetBy::Subscribe)?;
        let given = document.clone();
        let is_same = |known: &Subscription| match subscription::has_all(known.document(), &given) {
            true => Ok(()),
            false => Err(error::invalid_parameter(
                "Attributes Reason: Subscription already exists with different attributes",
            )),
        };
        let notice = |document: &SubscriptionDocument| {
            let kind = DeliveryKind::SubscriptionConfirmation;
            Ok(self.notice(topic, document, kind, origin))
        };
        let new = document.arn.clone();
        let (mut found, mut ticket) = self.topics.subscribe(topic, document, is_same, notice)?;
        let is_pending = found.document().state == SubscriptionState::Pending;
        if is_pending && is_confirmed {
            // Somebody else has asked for it, and now the owner of the queue does.
            (found, ticket) = self.topics.change_subscription(found.arn(), |document| {
                document.state = SubscriptionState::Confirmed;
                document.was_authenticated = true;
                document.token = None;
                Ok(None)
            })?;
        } else if is_pending && found.arn() != new {
            // Somebody asks for another confirmation. The token of those before stays good.
            (found, ticket) = self.topics.change_subscription(found.arn(), |document| {
                if document.token.is_none() || has_expired(document, now) {
                    document.token = Some(new_token()?);
                }
                document.token_ms = now.0;
                let kind = DeliveryKind::SubscriptionConfirmation;
                Ok(self.notice(topic, document, kind, origin))
            })?;
        }
        self.drain(&found);
        self.topics.committed(ticket).await?;
        let is_told = found.document().state != SubscriptionState::Pending
            || input.return_subscription_arn == Some(true);
        let arn = if is_told { found.arn() } else { PENDING };
        Ok(Answer::Subscription { subscription_arn: arn.to_owned() })
    }

    pub(super) async fn confirm_subscription(
        &self,
        call: &Call<'_>,
        input: &ConfirmSubscription,
    ) -> Result<Answer, ApiError> {
        let arn = required(input.topic_arn.as_deref(), "topicArn")?;
        let token = required(input.token.as_deref(), "token")?;
        let is_topic = SnsArn::parse(arn, "Topic").is_ok_and(|arn| arn.subscription.is_none());
        if !is_topic {
            return Err(error::invalid_parameter("Topic"));
        }
        let is_token =
            token.len() == 2 * TOKEN_BYTES && token.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_token {
            return Err(error::invalid_parameter("Token"));
        }
        let topic = self.topics.topic(arn).ok_or_else(error::no_such_topic)?;
        let found = self.topics.of_token(token, self.topics.shards().now());
        let found = found.filter(|it| it.document().topic == topic.arn());
        let found = found.ok_or_else(error::invalid_token)?;
        let flag = input.authenticate_on_unsubscribe.as_deref();
        let is_guarded = flag.is_some_and(|flag| flag.eq_ignore_ascii_case("true"));
        if is_guarded && is_link(call) {
            return Err(error::not_authorized("AuthenticateOnUnsubscribe needs a signed request"));
        }
        let (found, ticket) = self.topics.change_subscription(found.arn(), |document| {
            if document.state != SubscriptionState::Confirmed {
                document.state = SubscriptionState::Confirmed;
                document.was_authenticated = is_guarded;
                document.ends_by_signature_only = is_guarded;
            } else if is_guarded {
                // The link has confirmed it before.
                document.was_authenticated = true;
                document.ends_by_signature_only = true;
            }
            Ok(None)
        })?;
        self.topics.committed(ticket).await?;
        Ok(Answer::Subscription { subscription_arn: found.arn().to_owned() })
    }

    pub(super) async fn unsubscribe(
        &self,
        call: &Call<'_>,
        input: &SubscriptionOnly,
    ) -> Result<Answer, ApiError> {
        let now = self.topics.shards().now();
        self.topics.delete_outdated(now)?;
        let arn = required(input.subscription_arn.as_deref(), "subscriptionArn")?;
        let Some(found) = self.topics.subscription(arn) else { return Ok(Answer::Done) };
        let document = found.document();
        let topic = self.topics.topic(&document.topic);
        let is_link = is_link(call);
        if is_link && document.ends_by_signature_only {
            return Err(error::not_authorized(
                "This subscription can be ended by a signed request only",
            ));
        }
        let is_confirmed = document.state == SubscriptionState::Confirmed;
        let ticket = match topic {
            // The endpoint's owner learns of it, and may have it back.
            Some(topic) if is_link && is_confirmed && document.protocol != Protocol::Sqs => {
                let origin = self.origin(call);
                let changed = self.topics.change_subscription(arn, |document| {
                    document.state = SubscriptionState::Ended;
                    document.token = Some(new_token()?);
                    document.token_ms = now.0;
                    let kind = DeliveryKind::UnsubscribeConfirmation;
                    Ok(self.notice(&topic, document, kind, &origin))
                })?;
                changed.1
            }
            _ => self.topics.delete_subscription(arn)?,
        };
        self.topics.committed(ticket).await?;
        Ok(Answer::Done)
    }

    pub(super) fn get_subscription_attributes(
        &self,
        input: &SubscriptionOnly,
    ) -> Result<Answer, ApiError> {
        let arn = required(input.subscription_arn.as_deref(), "subscriptionArn")?;
        let found = self.topics.subscription(arn).ok_or_else(error::no_such_subscription)?;
        let topic = self.topics.topic(&found.document().topic).map(|topic| topic.document());
        let policy = topic.as_ref().and_then(|it| it.attributes.get("DeliveryPolicy"));
        Ok(Answer::Attributes { attributes: found.shown(policy.map(String::as_str)) })
    }

    pub(super) async fn set_subscription_attributes(
        &self,
        input: &SetSubscriptionAttributes,
    ) -> Result<Answer, ApiError> {
        let arn = required(input.subscription_arn.as_deref(), "subscriptionArn")?;
        let name = required(input.name.as_deref(), "attributeName")?;
        let value = input.value.as_deref().unwrap_or_default();
        let found = self.topics.subscription(arn).ok_or_else(error::no_such_subscription)?;
        let topic = self.topics.topic(&found.document().topic);
        let is_fifo = topic.is_some_and(|topic| topic.is_fifo());
        let by = SetBy::SetSubscriptionAttributes;
        let (_, ticket) = self.topics.change_subscription(arn, |document| {
            subscription::set(document, is_fifo, (name, value), by).map(|()| None)
        })?;
        self.topics.committed(ticket).await?;
        Ok(Answer::Done)
    }

    /// The message that asks the endpoint to confirm something; none if it cannot be sent.
    fn notice(
        &self,
        topic: &Topic,
        document: &SubscriptionDocument,
        kind: DeliveryKind,
        origin: &str,
    ) -> Option<Notice> {
        let token = document.token.as_deref()?;
        // Not of a snapshot, which each change of a subscription would have to make again.
        let settings = TopicSettings::of(&topic.document());
        let signer = self.fan_out.signer.as_deref().filter(|_| !topic.is_fifo());
        let message_id = MessageId::from_random(fastrand::u128(..)).to_string();
        let body = Confirmation {
            kind: kind.name(),
            message_id: &message_id,
            topic: topic.arn(),
            token,
            at_ms: document.token_ms,
            origin,
            signature: signer.map(|signer| (signer, settings.signature_version)),
        }
        .text();
        let is_hidden = document.protocol != Protocol::Sqs;
        let key = match is_hidden {
            true => hidden_queue(&document.arn),
            false => Arn::parse(&document.endpoint)?.queue()?,
        };
        let queue = self.topics.queue(&key)?;
        let limit = queue.definition().settings.maximum_message_size_bytes as usize;
        let may_deliver = self.fan_out.may_deliver(topic.arn(), topic.account(), &queue);
        if !may_deliver || !is_hidden && body.len() > limit {
            return None;
        }
        let delivery = Delivery {
            kind,
            message_id: &message_id,
            topic: topic.arn(),
            subscription: &document.arn,
            is_raw: false,
        };
        let is_fifo = queue.kind() == Kind::Fifo;
        let mut content = Vec::new();
        NewContent {
            body: &body,
            body_md5: md5(&body),
            attributes: if is_hidden { delivery.attributes() } else { Vec::new() },
            trace_header: "",
            sender: SENDER,
            deduplication_id: if is_fifo { &message_id } else { "" },
        }
        .encode(&mut content);
        Some(Notice {
            queue,
            content,
            size_bytes: body.len(),
            group: is_fifo.then_some("confirmations"),
            deduplication_id: is_fifo.then_some(message_id),
        })
    }
}

/// Returns true if nobody has signed the request: it may come by a link in a message.
fn is_link(call: &Call<'_>) -> bool {
    // The server's own requests name their region.
    call.target.access_key.is_none() && !call.caller.is_region_given
}

/// The protocol of that name.
pub(super) fn protocol(name: &str) -> Result<Protocol, ApiError> {
    if let Some(protocol) = Protocol::ALL.into_iter().find(|it| it.name() == name) {
        return Ok(protocol);
    }
    match UNSERVED.contains(&name) {
        true => Err(error::invalid_parameter(format_args!(
            "Protocol Reason: this server delivers by sqs, http and https, not by {name}"
        ))),
        false => Err(error::invalid_parameter(format_args!(
            "Amazon SNS does not support this protocol string: {name}"
        ))),
    }
}

/// Checks an endpoint. Returns the queue that it is, which need not exist.
fn check_endpoint(
    topic: &Topic,
    protocol: Protocol,
    endpoint: &str,
) -> Result<Option<QueueKey>, ApiError> {
    if endpoint.len() > ENDPOINT_CHARS {
        return Err(error::invalid_parameter("Endpoint Reason: it is too long"));
    }
    if protocol == Protocol::Sqs {
        let queue = queue_of_arn(endpoint);
        let queue = queue.ok_or_else(|| error::invalid_parameter("SQS endpoint ARN"))?;
        if queue.name.ends_with(".fifo") && !topic.is_fifo() {
            return Err(error::invalid_parameter(
                "Invalid parameter: Endpoint Reason: FIFO SQS Queues can not be subscribed to \
                 standard SNS topics",
            ));
        }
        return Ok(Some(queue));
    }
    if topic.is_fifo() {
        return Err(error::invalid_parameter(
            "Protocol Reason: only SQS queues can be subscribed to FIFO topics",
        ));
    }
    let scheme = format!("{}://", protocol.name());
    let is_url = endpoint.starts_with(&scheme) && Url::parse(endpoint).is_ok();
    if !is_url {
        return Err(error::invalid_parameter("Endpoint must match the specified protocol"));
    }
    Ok(None)
}

/// A token, which nobody can guess.
fn new_token() -> Result<String, ApiError> {
    let mut bytes = [0; TOKEN_BYTES];
    getrandom::fill(&mut bytes).map_err(|cause| {
        tracing::error!(%cause, "the system gives no random bits");
        ApiError::internal_failure()
    })?;
    Ok(hex_text(&bytes))
}

/// The subscription that a request names; none if there is no such one.
pub(super) fn named(sns: &Sns, arn: Option<&str>) -> Result<Option<Arc<Subscription>>, ApiError> {
    let arn = required(arn, "subscriptionArn")?;
    if SnsArn::parse(arn, "SubscriptionArn")?.subscription.is_none() {
        return Err(error::invalid_parameter("SubscriptionId"));
    }
    Ok(sns.topics.subscription(arn))
}
