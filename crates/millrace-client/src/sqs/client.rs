//! Any action of SQS, signed if there are credentials.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use millrace_wire::sigv4::{SignRequest, Signer, SigningKeys};

use super::Protocol;
use super::answer::error_of;
use crate::credentials::{Credentials, Signatory};
use crate::error::{CallError, CallErrorKind};
use crate::transport::{
    Answer, Call, Endpoint, Head, Lane, Repeat, Streamed, StreamedBody, Transport, TransportError,
    TransportOptions,
};

/// Speaks one of the protocols with one endpoint. Clones share the connections.
#[derive(Clone, Debug)]
pub struct SqsClient {
    transport: Arc<Transport>,
    protocol: Protocol,
    region: Arc<str>,
    signatory: Signatory,
    keys: Arc<SigningKeys>,
    /// What every request begins with.
    head: Head,
}

/// How to reach the service.
#[derive(Clone, Debug, Default)]
pub struct SqsOptions {
    /// Taken from the endpoint's name if it has one, else `us-east-1`.
    pub region: Option<String>,
    /// Without, requests are not signed.
    pub credentials: Option<Credentials>,
    pub protocol: Protocol,
    pub transport: TransportOptions,
}

/// An action of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Action(&'static str);

/// The header `X-Amz-Target` names the service before the action.
const SERVICE: &str = "AmazonSQS.";

/// How the server may take its time over a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// It answers as soon as it can.
    None,
    /// It may wait that long on purpose: a long poll.
    UpTo(Duration),
}

impl SqsClient {
    /// Opens no connection yet.
    ///
    /// # Errors
    ///
    /// If the endpoint is `https` and no certificate authority can be read.
    pub fn new(endpoint: Endpoint, options: SqsOptions) -> Result<SqsClient, CallError> {
        let region = options.region.or_else(|| region_of(&endpoint.host));
        let head = begin("/", &endpoint.authority, options.protocol)?;
        Ok(SqsClient {
            transport: Arc::new(Transport::new(endpoint, &options.transport)?),
            protocol: options.protocol,
            region: region.as_deref().unwrap_or("us-east-1").into(),
            signatory: match options.credentials {
                Some(credentials) => Signatory::Fixed(Arc::new(credentials)),
                None => Signatory::None,
            },
            keys: Arc::default(),
            head,
        })
    }

    /// Signs with what the chain gives from now on, whatever the options said.
    #[cfg(feature = "aws-config")]
    pub fn with_credentials_chain(mut self, chain: crate::CredentialsChain) -> SqsClient {
        self.signatory = Signatory::Chain(Arc::new(chain));
        self
    }

    /// Calls `action` with a body in the client's protocol and returns the answer's. JSON: an
    /// object each, the answer's may be empty. Query: a form that names the action and the version,
    /// and XML.
    ///
    /// Cancel safety: the server may still do what was asked.
    ///
    /// # Errors
    ///
    /// The server's error, or what broke on the way.
    pub async fn call(
        &self,
        action: Action,
        body: Bytes,
        wait: Wait,
        repeat: Repeat,
    ) -> Result<Bytes, CallError> {
        let (lane, wait) = match wait {
            Wait::None => (Lane::Quick, Duration::ZERO),
            Wait::UpTo(wait) => (Lane::Hold, wait),
        };
        let credentials = self.signatory.credentials().await?;
        let (head, place) = (self.head.clone(), ("/", ""));
        let head = self.complete(head, place, action, &body, credentials.as_deref())?;
        Ok(self.exchange(Call { lane, head, body, wait, repeat }).await?.body)
    }

    /// As [`SqsClient::call`], at another path than `/`: some servers do more there than Amazon's.
    /// `query` is the part behind the question mark; both stand in the request as they are. The
    /// answer comes with its headers.
    ///
    /// # Errors
    ///
    /// The server's error, or what broke on the way.
    pub async fn call_at(
        &self,
        path: &str,
        query: &str,
        action: Action,
        body: Bytes,
    ) -> Result<Answer, CallError> {
        let head = self.head_at((path, query), action, &body).await?;
        let (lane, wait, repeat) = (Lane::Quick, Duration::ZERO, Repeat::Safe);
        self.exchange(Call { lane, head, body, wait, repeat }).await
    }

    /// As [`SqsClient::call_at`], for an answer that is taken as it comes.
    ///
    /// # Errors
    ///
    /// The server's error, what broke on the way, or [`CallErrorKind::Malformed`] if the answer does
    /// not come in pieces.
    pub async fn stream_at(
        &self,
        path: &str,
        action: Action,
        body: Bytes,
    ) -> Result<StreamedBody, CallError> {
        let head = self.head_at((path, ""), action, &body).await?;
        match self.transport.call_streamed(head, body).await? {
            Streamed::Body(body) => Ok(body),
            Streamed::Whole(answer) if answer.status == 200 => {
                let message = format!("not an answer in pieces: {}", answer.excerpt());
                Err(CallError::new(CallErrorKind::Malformed, "malformed", message))
            }
            Streamed::Whole(answer) => Err(error_of(&answer)),
        }
    }

    /// The connections.
    pub fn transport(&self) -> &Transport {
        &self.transport
    }

    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    pub fn region(&self) -> &str {
        &self.region
    }

    async fn exchange(&self, call: Call) -> Result<Answer, CallError> {
        let answer = self.transport.call(call).await?;
        if answer.status == 200 { Ok(answer) } else { Err(error_of(&answer)) }
    }

    /// The head of a request at another path than `/`, given with its query.
    async fn head_at(
        &self,
        (path, query): (&str, &str),
        action: Action,
        body: &[u8],
    ) -> Result<Head, CallError> {
        let mark = if query.is_empty() { "" } else { "?" };
        let authority = &self.transport.endpoint().authority;
        let head = begin(&format!("{path}{mark}{query}"), authority, self.protocol)?;
        let credentials = self.signatory.credentials().await?;
        Ok(self.complete(head, (path, query), action, body, credentials.as_deref())?)
    }

    /// Adds what tells the action, and the signature.
    fn complete(
        &self,
        mut head: Head,
        (path, query): (&str, &str),
        action: Action,
        body: &[u8],
        credentials: Option<&Credentials>,
    ) -> Result<Head, TransportError> {
        let is_json = self.protocol == Protocol::Json;
        if is_json {
            head.header("x-amz-target", action.0)?;
        }
        let Some(credentials) = credentials else { return Ok(head) };

        let signer = Signer {
            access_key: &credentials.access_key,
            secret: &credentials.secret,
            session_token: credentials.session_token.as_deref(),
            region: &self.region,
            service: "sqs",
        };
        let headers = [
            ("content-type", self.protocol.content_type()),
            ("host", &self.transport.endpoint().authority),
            ("x-amz-target", action.0),
        ];
        let headers = if is_json { &headers[..] } else { &headers[..2] };
        let request = SignRequest { method: "POST", path, query, headers, body };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        for (name, value) in signer.sign_keeping(&request, now, &self.keys) {
            head.header(name, &value)?;
        }
        Ok(head)
    }
}

/// A head up to what tells the action.
fn begin(target: &str, authority: &str, protocol: Protocol) -> Result<Head, TransportError> {
    let mut head = Head::new("POST", target, authority)?;
    head.header("content-type", protocol.content_type())?;
    Ok(head)
}

macro_rules! actions {
    ($($constant:ident $name:literal),* $(,)?) => {
        impl Action {
            $(pub const $constant: Action = Action(concat!("AmazonSQS.", $name));)*

            /// The action of that name, such as `ListQueues`.
            pub fn named(name: &str) -> Option<Action> {
                match name {
                    $($name => Some(Action::$constant),)*
                    _ => None,
                }
            }

            pub(super) fn name(self) -> &'static str {
                self.0.strip_prefix(SERVICE).unwrap_or(self.0)
            }
        }
    };
}

actions! {
    ADD_PERMISSION "AddPermission",
    CANCEL_MESSAGE_MOVE_TASK "CancelMessageMoveTask",
    CHANGE_MESSAGE_VISIBILITY "ChangeMessageVisibility",
    CHANGE_MESSAGE_VISIBILITY_BATCH "ChangeMessageVisibilityBatch",
    CREATE_QUEUE "CreateQueue",
    DELETE_MESSAGE "DeleteMessage",
    DELETE_MESSAGE_BATCH "DeleteMessageBatch",
    DELETE_QUEUE "DeleteQueue",
    GET_QUEUE_ATTRIBUTES "GetQueueAttributes",
    GET_QUEUE_URL "GetQueueUrl",
    LIST_DEAD_LETTER_SOURCE_QUEUES "ListDeadLetterSourceQueues",
    LIST_MESSAGE_MOVE_TASKS "ListMessageMoveTasks",
    LIST_QUEUES "ListQueues",
    LIST_QUEUE_TAGS "ListQueueTags",
    PURGE_QUEUE "PurgeQueue",
    RECEIVE_MESSAGE "ReceiveMessage",
    REMOVE_PERMISSION "RemovePermission",
    SEND_MESSAGE "SendMessage",
    SEND_MESSAGE_BATCH "SendMessageBatch",
    SET_QUEUE_ATTRIBUTES "SetQueueAttributes",
    START_MESSAGE_MOVE_TASK "StartMessageMoveTask",
    TAG_QUEUE "TagQueue",
    UNTAG_QUEUE "UntagQueue",
}

/// `eu-west-1` of `sqs.eu-west-1.amazonaws.com`.
fn region_of(host: &str) -> Option<String> {
    let rest = host.strip_prefix("sqs.")?;
    let (region, _) = rest.split_once(".amazonaws.com")?;
    Some(region.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_region_is_in_amazon_host_names_only() {
        assert_eq!(region_of("sqs.eu-west-1.amazonaws.com").as_deref(), Some("eu-west-1"));
        assert_eq!(region_of("sqs.cn-north-1.amazonaws.com.cn").as_deref(), Some("cn-north-1"));
        assert_eq!(region_of("localhost"), None);
    }

    #[test]
    fn actions_are_found_by_name() {
        assert_eq!(Action::named("SendMessage"), Some(Action::SEND_MESSAGE));
        assert_eq!(Action::SEND_MESSAGE.name(), "SendMessage");
        assert_eq!(Action::named("Nonsense"), None);
    }
}
