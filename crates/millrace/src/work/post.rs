//! An HTTP POST for each message, with the headers that Elastic Beanstalk's worker daemon sends, so
//! that what was written for that daemon works here.
//!
//! A 2xx answer is a success. `Retry-After` of a 429 or 503 becomes the message's visibility
//! timeout; listed answers reject the message; everything else is a failure and retried with
//! back-off. With `--sqsd` answers mean what they mean to that daemon: 200 is a success, everything
//! else a failure.

use std::time::{Duration, SystemTime};

use base64::{Engine, prelude::BASE64_STANDARD};
use millrace_client::{
    AttributeValue, attribute,
    transport::{Answer, Call, Head, HeadError, Lane, Repeat},
};
use millrace_core::hex_text;
use millrace_wire::date;
use millrace_worker::{HandlerError, Message, Outcome};
use ring::hmac::{self, HMAC_SHA256};

use super::{
    WorkFlags,
    queues::Found,
    target::{Target, optional},
    trace,
};
use crate::config::UsageError;

/// Posts each message.
#[derive(Debug)]
pub(super) struct Post {
    target: Target,
    content_type: String,
    queue_name: String,
    contract: Contract,
    /// Signs bodies, so that the receiver knows whose they are.
    key: Option<hmac::Key>,
}

/// What answers mean.
#[derive(Debug)]
enum Contract {
    /// 2xx is a success, the listed ones reject, `Retry-After` is honoured.
    Own { reject_status: Vec<u16> },
    /// 200 is a success, all else is a failure.
    Sqsd,
}

/// Names the key that bodies are signed with.
const KEY_VARIABLE: &str = "MILLRACE_POST_KEY";

impl Post {
    pub(super) fn new(url: &str, queue: &Found, flags: &WorkFlags) -> anyhow::Result<Post> {
        let target = Target::parse("--post", url, "/", flags)?;
        let is_sendable = target
            .head("POST")
            .and_then(|mut head| head.header("content-type", &flags.content_type));
        is_sendable.map_err(|error| UsageError(format!("--content-type: {error}")))?;
        Ok(Post {
            target,
            content_type: flags.content_type.clone(),
            queue_name: queue.name().to_owned(),
            contract: match flags.sqsd {
                true => Contract::Sqsd,
                false => Contract::Own { reject_status: flags.reject_status.clone() },
            },
            key: key(),
        })
    }

    pub(super) async fn post(&self, message: &Message) -> Result<Outcome, HandlerError> {
        let call = Call {
            lane: Lane::Quick,
            head: self.head(message)?,
            body: message.body().clone().into_bytes(),
            wait: Duration::ZERO,
            // Whoever takes messages from a queue must bear to see one twice.
            repeat: Repeat::IfStale,
        };
        tokio::select! {
            answer = self.target.transport.call(call) => Ok(self.outcome(&answer?, message)),
            () = message.cancelled() => Ok(Outcome::Release),
        }
    }

    fn head(&self, message: &Message) -> Result<Head, HeadError> {
        let mut head = self.target.head("POST")?;
        head.header("Content-Type", &self.content_type)?;
        head.header("User-Agent", self.contract.user_agent())?;
        head.header("X-Aws-Sqsd-Msgid", message.id())?;
        head.header("X-Aws-Sqsd-Queue", &self.queue_name)?;
        head.header("X-Aws-Sqsd-Receive-Count", &message.receive_count().to_string())?;
        if let Some(key) = &self.key {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let signature =
                Signature { id: message.id(), at_s: now.as_secs(), body: message.body() };
            head.header("Webhook-Id", signature.id)?;
            head.header("Webhook-Timestamp", &signature.at_s.to_string())?;
            head.header("Webhook-Signature", &signature.of_request(key))?;
            head.header("X-Millrace-Signature", &signature.of_body(key))?;
        }
        let delivery = message.delivery();
        if let Some(at) = delivery.first_received_at() {
            head.header("X-Aws-Sqsd-First-Received-At", &date::format_iso8601(at.seconds()))?;
        }
        if let Some(sender) = delivery.system_attribute(attribute::SENDER_ID) {
            optional(&mut head, "X-Aws-Sqsd-Sender-Id", sender);
        }
        for (name, value) in trace::headers(&message.trace()) {
            optional(&mut head, name, value);
        }
        for attribute in &delivery.attributes {
            if let AttributeValue::Text(value) = &attribute.value {
                optional(&mut head, &format!("X-Aws-Sqsd-Attr-{}", attribute.name), value);
            }
        }
        Ok(head)
    }

    fn outcome(&self, answer: &Answer, message: &Message) -> Outcome {
        let status = answer.status;
        match &self.contract {
            Contract::Own { .. } if (200..300).contains(&status) => Outcome::Ack,
            Contract::Sqsd if status == 200 => Outcome::Ack,
            Contract::Own { reject_status } if reject_status.contains(&status) => {
                Outcome::reject(format!("the answer was {status}"))
            }
            contract => {
                let retry_after = answer.retry_after;
                let (message_id, queue) = (message.id(), &self.queue_name);
                tracing::warn!(
                    %message_id,
                    queue,
                    receive_count = message.receive_count(),
                    status,
                    retry_after_s = retry_after.map(|after| after.as_secs()),
                    "the message was not accepted"
                );
                let is_heard =
                    matches!(contract, Contract::Own { .. }) && matches!(status, 429 | 503);
                // At once, again and again, would take the message's receives in no time.
                Outcome::Retry { after: retry_after.filter(|after| is_heard && !after.is_zero()) }
            }
        }
    }
}

impl Contract {
    fn user_agent(&self) -> &'static str {
        match self {
            Contract::Own { .. } => concat!("millrace/", env!("CARGO_PKG_VERSION")),
            // What was written for the daemon may look for its name.
            Contract::Sqsd => "aws-sqsd/2.0",
        }
    }
}

fn key() -> Option<hmac::Key> {
    let key = std::env::var_os(KEY_VARIABLE).filter(|key| !key.is_empty())?;
    Some(hmac::Key::new(HMAC_SHA256, key.as_encoded_bytes()))
}

/// What a receiver learns of the sender of a request, if both know the key.
struct Signature<'a> {
    id: &'a str,
    /// When the request is made, since 1970.
    at_s: u64,
    body: &'a str,
}

impl Signature<'_> {
    /// As the specification Standard Webhooks has it: whoever has seen a request cannot make it
    /// again later, or under another id.
    fn of_request(&self, key: &hmac::Key) -> String {
        let mut mac = hmac::Context::with_key(key);
        for part in [self.id, ".", &self.at_s.to_string(), ".", self.body] {
            mac.update(part.as_bytes());
        }
        format!("v1,{}", BASE64_STANDARD.encode(mac.sign()))
    }

    /// `sha256=` and the HMAC of the body in hexadecimal digits.
    fn of_body(&self, key: &hmac::Key) -> String {
        let mac = hmac::sign(key, self.body.as_bytes());
        format!("sha256={}", hex_text(mac.as_ref()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signature_of_the_body_is_its_hmac() {
        // RFC 4231, test case 2.
        let key = hmac::Key::new(HMAC_SHA256, b"Jefe");
        let body = "what do ya want for nothing?";

        let signature = Signature { id: "1", at_s: 2, body }.of_body(&key);

        assert_eq!(
            signature,
            "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }

    #[test]
    fn signature_of_the_request_is_that_of_standard_webhooks() {
        // The example of its libraries' tests.
        let key = BASE64_STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let key = hmac::Key::new(HMAC_SHA256, &key);
        let (id, body) = ("msg_p5jXN8AQM9LWM0D4loKWxJek", r#"{"test": 2432232314}"#);

        let signature = Signature { id, at_s: 1_614_265_330, body }.of_request(&key);

        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }
}
