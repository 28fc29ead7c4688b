//! Layers for messages whose body is about another body: SNS notifications and claim checks.

use std::{collections::BTreeMap, fmt, ops::ControlFlow};

use base64::{Engine, prelude::BASE64_STANDARD};
use bytestring::ByteString;
use millrace_client::{AttributeValue, MessageAttribute};
use serde::Deserialize;

use crate::{
    handler::Message,
    layer::Layer,
    outcome::{HandlerError, Outcome},
};

/// Takes what was published out of the notification that SNS sends to a queue: the message becomes
/// the body, the notification's attributes those of the message; `TopicArn` and `Subject` join them
/// unless they are taken. What is no notification goes on as it is, so that queues with raw
/// delivery, or with other senders, work as well.
#[derive(Clone, Copy, Debug, Default)]
pub struct SnsEnvelope;

/// SNS developer guide, "HTTP/HTTPS notification JSON format"; queues get the same.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Notification {
    r#type: String,
    topic_arn: String,
    subject: Option<String>,
    message: String,
    #[serde(default)]
    message_attributes: BTreeMap<String, NotificationAttribute>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct NotificationAttribute {
    r#type: String,
    value: String,
}

impl SnsEnvelope {
    /// The message as it was published; what is no notification stays as it is.
    ///
    /// # Errors
    ///
    /// If a binary attribute is no Base64.
    pub fn open(self, message: Message) -> Result<Message, HandlerError> {
        let notification = match serde_json::from_str::<Notification>(message.body()) {
            Ok(notification) if notification.r#type == "Notification" => notification,
            Ok(_) | Err(_) => return Ok(message),
        };
        let mut attributes = Vec::with_capacity(notification.message_attributes.len() + 2);
        for (name, attribute) in notification.message_attributes {
            attributes.push(attribute.named(name)?);
        }
        let story = [("TopicArn", Some(notification.topic_arn)), ("Subject", notification.subject)];
        for (name, value) in story {
            let is_taken = attributes.iter().any(|known| known.name == name);
            if let Some(value) = value.filter(|_| !is_taken) {
                attributes.push(MessageAttribute::string(name, value));
            }
        }
        Ok(message.with_body(notification.message).with_attributes(attributes))
    }
}

impl Layer for SnsEnvelope {
    async fn prepare(
        &self,
        message: Message,
    ) -> Result<ControlFlow<Outcome, Message>, HandlerError> {
        self.open(message).map(ControlFlow::Continue)
    }
}

impl NotificationAttribute {
    fn named(self, name: String) -> Result<MessageAttribute, HandlerError> {
        // A label may follow the type, as in `Binary.gif`.
        let value = if self.r#type.starts_with("Binary") {
            AttributeValue::Binary(BASE64_STANDARD.decode(self.value)?.into())
        } else {
            AttributeValue::Text(self.value.into())
        };
        Ok(MessageAttribute { name: name.into(), data_type: self.r#type.into(), value })
    }
}

/// Where a body too large for the queue is kept.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct StoredBody {
    /// The bucket.
    #[serde(rename = "s3BucketName")]
    pub bucket: String,
    /// The object in it.
    #[serde(rename = "s3Key")]
    pub key: String,
}

/// Attributes that senders mark a claim check with, then and now.
const MARKS: [&str; 2] = ["ExtendedPayloadSize", "SQSLargePayloadSize"];

/// A layer that fetches bodies which their sender has put into an object store, as Amazon's
/// extended client libraries do: the body is then the claim check `["<class name>",
/// {"s3BucketName": …, "s3Key": …}]`, and an attribute says how large the real one is. What has no
/// such attribute goes on as it is. If the body cannot be fetched, the message is retried.
pub fn claim_check<F, Fut>(fetch: F) -> ClaimCheck<F>
where
    F: Fn(StoredBody) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ByteString, HandlerError>> + Send,
{
    ClaimCheck { fetch }
}

/// Made by [`claim_check`].
pub struct ClaimCheck<F> {
    fetch: F,
}

impl<F, Fut> Layer for ClaimCheck<F>
where
    F: Fn(StoredBody) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ByteString, HandlerError>> + Send,
{
    async fn prepare(
        &self,
        message: Message,
    ) -> Result<ControlFlow<Outcome, Message>, HandlerError> {
        let is_mark = |attribute: &MessageAttribute| MARKS.contains(&&*attribute.name);
        let attributes = &message.delivery().attributes;
        if !attributes.iter().any(is_mark) {
            return Ok(ControlFlow::Continue(message));
        }
        let Ok((_, stored)) = serde_json::from_str::<(String, StoredBody)>(message.body()) else {
            let outcome = Outcome::reject("marked as a claim check, but the body is none");
            return Ok(ControlFlow::Break(outcome));
        };
        let others = attributes.iter().filter(|attribute| !is_mark(attribute)).cloned().collect();
        let body = (self.fetch)(stored).await?;
        Ok(ControlFlow::Continue(message.with_body(body).with_attributes(others)))
    }
}

impl<F> fmt::Debug for ClaimCheck<F> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ClaimCheck").finish_non_exhaustive()
    }
}
