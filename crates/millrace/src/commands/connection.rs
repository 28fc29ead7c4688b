//! Where the server is, who asks, and calls of any action with JSON in and out.

use std::collections::HashSet;
use std::ffi::OsString;
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use clap::Args;
use millrace_client::sdb::{SdbClient, SdbOptions, SignatureVersion};
use millrace_client::sns::{SnsClient, SnsOptions};
use millrace_client::sqs::{Action, Protocol, SqsClient, SqsOptions, Wait};
use millrace_client::transport::{
    Answer, Call, Endpoint, Head, Lane, Repeat, StreamedBody, TransportError, TransportOptions,
};
use millrace_client::{AwsSettings, CallError, CallErrorKind, Credentials, Url};
use millrace_process::value_of_flag;
use serde_json::{Map, Value, json};

use crate::config::UsageError;

const DEFAULT_ENDPOINT: &str = "http://127.0.0.1:4566";
/// Names of queues in one answer of ListQueues, at the most.
pub(super) const LISTED: u32 = 1_000;
/// Code of the error that an answer is none of this service.
const NO_JSON: &str = "malformed";
/// Code of the error that the pages of a list never end.
const REPEATED_TOKEN: &str = "repeated-token";

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ConnectionFlags {
    /// URL of the server [environment: MILLRACE_ENDPOINT, AWS_ENDPOINT_URL_SQS, AWS_ENDPOINT_URL;
    /// default: http://127.0.0.1:4566]
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// Region to sign for [environment: AWS_REGION, AWS_DEFAULT_REGION; default: the one in the
    /// endpoint's name, or us-east-1]
    #[arg(long, value_name = "REGION")]
    region: Option<String>,
    /// Profile of the AWS tools whose keys, region and endpoint to use [environment: AWS_PROFILE]
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
}

/// The queue service of one server.
#[derive(Clone, Debug)]
pub(super) struct Sqs {
    pub(super) client: SqsClient,
    /// Flags or environment name it: then it is meant, whatever a queue's URL says.
    is_named: bool,
    /// The key that signs, if it was found before the first request.
    pub(super) access_key: Option<String>,
}

/// What a server shows of a queue at a time.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) messages: Vec<Value>,
    /// Messages in between that the server cannot read.
    pub(super) damaged: u64,
    pub(super) next: Next,
}

/// Where a queue goes on behind what was shown of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// To be asked for as `From`.
    From(String),
    End,
    /// The server does not page: there may be more.
    Untold,
}

/// A URL that somebody gave, and where. The text is not for people: it may hold a password.
struct NamedUrl {
    source: &'static str,
    text: String,
}

impl ConnectionFlags {
    /// Opens no connection yet.
    pub(super) fn connect(&self) -> Result<Sqs> {
        self.connect_to("")
    }

    /// To the server that `queue` is on if it is given as a URL, unless flags or environment say
    /// another.
    pub(super) fn connect_to(&self, queue: &str) -> Result<Sqs> {
        let client = self.client(queue, Protocol::Json, self.transport()?)?;
        self.check_profile(&client)?;
        let credentials = self.aws()?.credentials.or_else(own_credentials);
        let access_key = credentials.map(|credentials| credentials.access_key);
        Ok(Sqs { client, is_named: self.names_endpoint()?, access_key })
    }

    /// A client of SimpleDB at the server that flags and environment name. Amazon's takes the older
    /// signature only, which names no region.
    pub(super) fn connect_to_domains(&self) -> Result<SdbClient> {
        let aws = self.aws()?;
        let endpoint = self.named_endpoint(&aws).unwrap_or_else(default_endpoint).parse()?;
        let is_amazon = is_amazon(&endpoint.host);
        let region = self.region.clone().or(aws.region);
        let credentials = aws.credentials.or_else(own_credentials);
        let names_region = region.is_some() && !is_amazon;
        let options = SdbOptions {
            region,
            credentials: credentials.or_else(|| names_region.then(placeholder_credentials)),
            signature: if is_amazon { SignatureVersion::Two } else { SignatureVersion::Four },
            transport: self.transport()?,
        };
        Ok(SdbClient::new(endpoint, options)?)
    }

    /// A client of SNS at the server that flags and environment name.
    pub(super) fn connect_to_topics(&self) -> Result<SnsClient> {
        let aws = self.aws()?;
        let endpoint = self.named_endpoint(&aws).unwrap_or_else(default_endpoint).parse()?;
        let region = self.region.clone().or(aws.region);
        let credentials = aws.credentials.or_else(own_credentials);
        let names_region = region.is_some();
        let options = SnsOptions {
            region,
            // A signature that nobody checks says which region is meant.
            credentials: credentials.or_else(|| names_region.then(placeholder_credentials)),
            transport: self.transport()?,
        };
        Ok(SnsClient::new(endpoint, options)?)
    }

    /// The flags of a line that need not be complete.
    pub(super) fn of_line(line: &[OsString]) -> ConnectionFlags {
        let value = |flag| value_of_flag(line, flag);
        ConnectionFlags {
            endpoint: value("--endpoint"),
            region: value("--region"),
            profile: value("--profile"),
        }
    }

    /// The region that the flag names.
    pub(super) fn region(&self) -> Option<&str> {
        self.region.as_deref()
    }

    /// Returns whether flags or environment name the server, which then is meant whatever a queue's
    /// URL says.
    fn names_endpoint(&self) -> Result<bool, UsageError> {
        Ok(self.named_endpoint(&self.aws()?).is_some())
    }

    /// Fails if `queue` is a URL that no queue has, or that of a queue on another server than that
    /// of `client`.
    pub(crate) fn check_server(&self, client: &SqsClient, queue: &str) -> Result<(), UsageError> {
        if !queue.contains("://") {
            return Ok(());
        }
        let url = queue_url(queue)?;
        if self.names_endpoint()? { Ok(()) } else { is_at(client, &url) }
    }

    fn aws(&self) -> Result<AwsSettings, UsageError> {
        let aws = AwsSettings::read(self.profile.as_deref());
        let aws = aws.map_err(|error| UsageError(error.to_string()))?;
        match &aws.unknown_profile {
            Some(name) => {
                let text = format!("profile {name} is in neither of the AWS tools' files");
                Err(UsageError(text))
            }
            None if aws.lacks_secret_key => {
                let text = "AWS_ACCESS_KEY_ID is set, AWS_SECRET_ACCESS_KEY is not";
                Err(UsageError(text.to_owned()))
            }
            None => Ok(aws),
        }
    }

    /// A client of the same server as [`ConnectionFlags::connect_to`]; where no keys are found,
    /// requests are signed with what the crate `aws-config` finds in roles and metadata, if this
    /// was built with it.
    pub(crate) async fn client_with_chain(
        &self,
        queue: &str,
        protocol: Protocol,
        transport: TransportOptions,
    ) -> Result<SqsClient> {
        let client = self.client(queue, protocol, transport)?;
        #[cfg(feature = "aws-config")]
        if self.wants_chain(&client.transport().endpoint().host)? {
            let chain = millrace_client::CredentialsChain::load(self.profile.as_deref()).await?;
            return Ok(client.with_credentials_chain(chain));
        }
        self.check_profile(&client)?;
        Ok(client)
    }

    /// Fails if the keys that are meant are those of a profile that only says how to come by them.
    /// The default profile is meant where Amazon is asked: a server on this machine may need none.
    fn check_profile(&self, client: &SqsClient) -> Result<(), UsageError> {
        let aws = self.aws()?;
        let Some(indirect) = aws.indirect_keys else { return Ok(()) };
        let is_meant = indirect.is_chosen || is_amazon(&client.transport().endpoint().host);
        if !is_meant || (self.profile.is_none() && own_credentials().is_some()) {
            return Ok(());
        }
        let (profile, setting) = (&indirect.profile, indirect.setting);
        Err(UsageError(format!(
            "profile {profile} gets its keys by {setting}, which is not supported here: set the \
             variables that `aws configure export-credentials --profile {profile} --format env` \
             prints"
        )))
    }

    /// The server that flags and environment name, whichever protocol it speaks.
    pub(crate) fn endpoint_or_default(&self) -> Result<Endpoint, UsageError> {
        self.own_endpoint().unwrap_or_else(default_endpoint).parse()
    }

    /// Returns whether roles or metadata must be asked for credentials: there are no keys, and
    /// either the server is Amazon's or something says where to ask. A server on this machine is
    /// not made to wait for metadata that does not exist.
    #[cfg(feature = "aws-config")]
    fn wants_chain(&self, host: &str) -> Result<bool, UsageError> {
        if self.aws()?.credentials.or_else(own_credentials).is_some() {
            return Ok(false);
        }
        let told = [
            "AWS_PROFILE",
            "AWS_CONTAINER_CREDENTIALS_FULL_URI",
            "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
            "AWS_WEB_IDENTITY_TOKEN_FILE",
        ];
        Ok(self.profile.is_some()
            || is_amazon(host)
            || told.iter().any(|name| variable(name).is_some()))
    }

    fn named_endpoint(&self, aws: &AwsSettings) -> Option<NamedUrl> {
        let found = aws.endpoint.clone();
        self.own_endpoint().or_else(|| Some(NamedUrl { source: aws.endpoint_source, text: found? }))
    }

    fn own_endpoint(&self) -> Option<NamedUrl> {
        let of = |source| move |text| NamedUrl { source, text };
        let flag = self.endpoint.clone().map(of("--endpoint"));
        flag.or_else(|| variable("MILLRACE_ENDPOINT").map(of("MILLRACE_ENDPOINT")))
    }

    /// Believes the authorities in the file that `AWS_CA_BUNDLE` names, beside the system's.
    pub(crate) fn transport(&self) -> Result<TransportOptions, UsageError> {
        let mut options = TransportOptions::default();
        if let Some(path) = variable("AWS_CA_BUNDLE") {
            let problem = |error| UsageError(format!("AWS_CA_BUNDLE: reading {path}: {error}"));
            let authorities = std::fs::read(&path).map_err(problem)?;
            const MARK: &[u8] = b"-----BEGIN CERTIFICATE-----";
            if !authorities.windows(MARK.len()).any(|window| window == MARK) {
                let text = format!(
                    "AWS_CA_BUNDLE: {path} holds no certificate; name a PEM file with the \
                     authority's certificate"
                );
                return Err(UsageError(text));
            }
            options.tls.extra_authorities = authorities;
        }
        Ok(options)
    }

    /// What flags leave open is taken from the environment and the files that the AWS tools read;
    /// without keys or a region in any of them requests are not signed.
    fn client(
        &self,
        queue: &str,
        protocol: Protocol,
        transport: TransportOptions,
    ) -> Result<SqsClient> {
        let aws = self.aws()?;
        let endpoint = match self.named_endpoint(&aws) {
            Some(named) => named.parse()?,
            None if queue.contains("://") => Endpoint::from(&queue_url(queue)?),
            None => default_endpoint().parse()?,
        };
        let region = self.region.clone().or(aws.region);
        // A signature is the only place to name a region in, and a server without keys takes any.
        // At Amazon the endpoint names it, and a wrong key would only hide that there is none.
        let names_region = region.is_some() && !is_amazon(&endpoint.host);
        let credentials = aws.credentials.or_else(own_credentials);
        let options = SqsOptions {
            region,
            credentials: credentials.or_else(|| names_region.then(placeholder_credentials)),
            protocol,
            transport,
        };
        Ok(SqsClient::new(endpoint, options)?)
    }
}

impl Sqs {
    /// The answer to an unsigned GET.
    pub(super) async fn get(&self, path: &str) -> Result<Answer, TransportError> {
        let transport = self.client.transport();
        let head = Head::new("GET", path, &transport.endpoint().authority)?;
        let (lane, body, wait, repeat) =
            (Lane::Quick, Default::default(), Duration::ZERO, Repeat::Safe);
        transport.call(Call { lane, head, body, wait, repeat }).await
    }

    /// A call that is answered at once.
    pub(super) async fn call(
        &self,
        action: Action,
        parameters: &Value,
    ) -> Result<Value, CallError> {
        self.call_waiting(action, parameters, Wait::None).await
    }

    /// A call that the server may hold that long.
    pub(super) async fn call_held(
        &self,
        action: Action,
        parameters: &Value,
        wait_s: u64,
    ) -> Result<Value, CallError> {
        let wait = if wait_s == 0 { Wait::None } else { Wait::UpTo(Duration::from_secs(wait_s)) };
        self.call_waiting(action, parameters, wait).await
    }

    /// Messages as a server shows them that can do so without receiving; `query` says which. The
    /// server shows only so many at a time.
    pub(super) async fn peek(&self, queue_url: &str, query: &str) -> Result<Shown> {
        let body = json!({ "QueueUrl": queue_url }).to_string();
        let path = "/_aws/sqs/messages";
        let answer = self.client.call_at(path, query, Action::RECEIVE_MESSAGE, body.into()).await;
        let shown = |answer: Answer| Ok((parse(&answer.body)?, answer));
        let (messages, answer) = match answer.and_then(shown) {
            Ok(shown) => shown,
            Err(error) => {
                let cannot = "messages can be shown without receiving them by Millrace only, not \
                              by Amazon SQS";
                if matches!(error.kind, CallErrorKind::Refused | CallErrorKind::Malformed) {
                    return Err(anyhow::Error::new(error).context(cannot));
                }
                let asked = json!({ "QueueUrl": queue_url });
                let error = self.named(error);
                return Err(self.advised(error, Action::RECEIVE_MESSAGE, &asked).await.into());
            }
        };
        let damaged = answer.header("x-millrace-damaged").and_then(|count| count.parse().ok());
        Ok(Shown {
            messages: list(&messages, "Messages").to_vec(),
            damaged: damaged.unwrap_or_default(),
            next: match answer.header("x-millrace-next") {
                None => Next::Untold,
                Some("end") => Next::End,
                Some(from) => Next::From(from.to_owned()),
            },
        })
    }

    /// A call of a path that only Millrace has, signed as those of SQS are; the path says what is
    /// meant, not the action.
    pub(super) async fn call_own(&self, path: &str, body: &Value) -> Result<Value, CallError> {
        match self.call_own_quietly(path, body).await {
            Err(error) => Err(self.advised_own(error).await),
            answer => answer,
        }
    }

    /// The same without advice, for what may fail.
    pub(super) async fn call_own_quietly(
        &self,
        path: &str,
        body: &Value,
    ) -> Result<Value, CallError> {
        let body = body.to_string();
        let answer = self.client.call_at(path, "", Action::LIST_QUEUES, body.into()).await;
        parse(&answer.map_err(|error| self.named(error))?.body)
    }

    /// A copy of all data of the server, as it comes.
    pub(super) async fn backup(&self) -> Result<StreamedBody> {
        let begun = self.client.stream_at("/_millrace/backup", Action::LIST_QUEUES, Bytes::new());
        let error = match begun.await {
            Ok(streamed) => return Ok(streamed),
            Err(error) => error,
        };
        let cannot = "this server takes no backups: it is no Millrace, or an older one";
        Err(match error.kind {
            CallErrorKind::Malformed => anyhow::Error::new(error).context(cannot),
            _ => self.advised_own(self.named(error)).await.into(),
        })
    }

    /// Adds advice to the error of a call of a path that only Millrace has.
    pub(super) async fn advised_own(&self, error: CallError) -> CallError {
        self.advised(error, Action::LIST_QUEUES, &Value::Null).await
    }

    /// The URL of a queue of this server, given as a name, an ARN or its URL.
    pub(super) async fn url(&self, queue: &str) -> Result<String> {
        if queue.contains("://") {
            let url = queue_url(queue)?;
            // Nothing is done to the queue of the same name on another server.
            if !self.is_named {
                is_at(&self.client, &url)?;
            }
            return Ok(queue.to_owned());
        }
        if queue.starts_with("arn:") {
            return self.url_of_arn(queue).await;
        }
        let answer = self.call(Action::GET_QUEUE_URL, &json!({ "QueueName": queue })).await;
        let answer = answer.with_context(|| format!("queue {queue}"))?;
        Ok(text(&answer, "QueueUrl").to_owned())
    }

    /// Fails if the server's queue of that name is of another region or account.
    async fn url_of_arn(&self, arn: &str) -> Result<String> {
        let parts: Vec<&str> = arn.split(':').collect();
        let ["arn", _, "sqs", _, account, name] = parts.as_slice() else {
            return Err(UsageError(format!("{arn} is not the ARN of a queue")).into());
        };
        let asked = json!({ "QueueName": name, "QueueOwnerAWSAccountId": account });
        let answer = self.call(Action::GET_QUEUE_URL, &asked).await;
        let answer = answer.with_context(|| format!("queue {arn}"))?;
        let url = text(&answer, "QueueUrl").to_owned();
        match self.arn_of_url(&url).await? {
            found if found == arn => Ok(url),
            found => {
                let endpoint = self.endpoint();
                let text =
                    format!("queue {arn} is not at {endpoint}, which has {found} (--region)");
                Err(UsageError(text).into())
            }
        }
    }

    async fn arn_of_url(&self, queue_url: &str) -> Result<String> {
        let attributes = self.attributes(queue_url).await?;
        let arn = attributes.get("QueueArn").and_then(Value::as_str);
        Ok(arn.context("the server does not tell the queue's ARN")?.to_owned())
    }

    /// All attributes of a queue.
    pub(super) async fn attributes(
        &self,
        queue_url: &str,
    ) -> Result<Map<String, Value>, CallError> {
        let asked = json!({ "QueueUrl": queue_url, "AttributeNames": ["All"] });
        let mut answer = self.call(Action::GET_QUEUE_ATTRIBUTES, &asked).await?;
        Ok(match answer.get_mut("Attributes").map(Value::take) {
            Some(Value::Object(attributes)) => attributes,
            _ => Map::new(),
        })
    }

    pub(super) async fn arn(&self, queue: &str) -> Result<String> {
        if queue.starts_with("arn:") {
            return Ok(queue.to_owned());
        }
        self.arn_of_url(&self.url(queue).await?).await
    }

    /// URLs of all queues whose names begin so.
    ///
    /// # Errors
    ///
    /// Also if the server gives a token a second time: its pages would never end.
    pub(super) async fn list(&self, prefix: &str) -> Result<Vec<String>, CallError> {
        let mut urls = Vec::new();
        let mut tokens = HashSet::new();
        let mut asked = json!({ "QueueNamePrefix": prefix, "MaxResults": LISTED });
        loop {
            let answer = self.call(Action::LIST_QUEUES, &asked).await?;
            let listed = list(&answer, "QueueUrls").iter();
            urls.extend(listed.filter_map(Value::as_str).map(str::to_owned));
            let token = text(&answer, "NextToken");
            if token.is_empty() {
                return Ok(urls);
            }
            if !tokens.insert(token.to_owned()) {
                let message = "the server's pages of queues do not advance: it repeats a NextToken";
                return Err(CallError::new(CallErrorKind::Malformed, REPEATED_TOKEN, message));
            }
            asked["NextToken"] = token.into();
        }
    }

    /// URLs of queues whose names begin so, as many as one answer holds.
    pub(super) async fn list_page(&self, prefix: &str) -> Result<Vec<String>, CallError> {
        let asked = json!({ "QueueNamePrefix": prefix, "MaxResults": LISTED });
        let answer = self.call(Action::LIST_QUEUES, &asked).await?;
        let listed = list(&answer, "QueueUrls").iter();
        Ok(listed.filter_map(Value::as_str).map(str::to_owned).collect())
    }

    /// URLs of the queues whose dead-letter queue this is, as many as one answer holds.
    pub(super) async fn dead_letter_sources(&self, url: &str) -> Result<Vec<String>, CallError> {
        let asked = json!({ "QueueUrl": url });
        let answer = self.call(Action::LIST_DEAD_LETTER_SOURCE_QUEUES, &asked).await?;
        let listed = list(&answer, "queueUrls").iter();
        Ok(listed.filter_map(Value::as_str).map(str::to_owned).collect())
    }

    pub(super) fn endpoint(&self) -> String {
        self.client.transport().endpoint().to_string()
    }

    /// Returns whether the server is Amazon's own.
    pub(super) fn is_amazon(&self) -> bool {
        is_amazon(&self.client.transport().endpoint().host)
    }

    async fn call_waiting(
        &self,
        action: Action,
        parameters: &Value,
        wait: Wait,
    ) -> Result<Value, CallError> {
        // A message that is sent twice is there twice; everything else may be repeated.
        let is_send = action == Action::SEND_MESSAGE || action == Action::SEND_MESSAGE_BATCH;
        let repeat = if is_send { Repeat::Never } else { Repeat::Safe };
        let body = parameters.to_string();
        let answer = self.client.call(action, body.into(), wait, repeat).await;
        match answer.and_then(|answer| parse(&answer)) {
            Err(error) => Err(self.advised(self.named(error), action, parameters).await),
            answer => answer,
        }
    }

    /// An error that says which server could not be reached.
    fn named(&self, mut error: CallError) -> CallError {
        if error.kind == CallErrorKind::Transport {
            error.message = format!("{}: {}", self.endpoint(), error.message);
        }
        error
    }
}

impl NamedUrl {
    /// The server of the URL.
    fn parse(&self) -> Result<Endpoint, UsageError> {
        let problem = |error| UsageError(format!("{}: {error}", self.source));
        Endpoint::parse(&self.text).map_err(problem)
    }
}

fn default_endpoint() -> NamedUrl {
    NamedUrl { source: "the default", text: DEFAULT_ENDPOINT.to_owned() }
}

/// The URL of a queue; the servers' answers quote it, so a query would be told.
fn queue_url(text: &str) -> Result<Url, UsageError> {
    let problem = |error| UsageError(format!("queue URL: {error}"));
    Url::parse(text).and_then(Url::without_query).map_err(problem)
}

fn is_at(client: &SqsClient, queue_url: &Url) -> Result<(), UsageError> {
    let endpoint = client.transport().endpoint();
    if queue_url.authority() == endpoint.authority {
        return Ok(());
    }
    Err(UsageError(format!("queue {queue_url} is not at {endpoint}")))
}

/// A text of an answer, empty if there is none.
pub(super) fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// A list of an answer, empty if there is none.
pub(super) fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The last part of a queue's URL.
pub(super) fn name_of(queue_url: &str) -> &str {
    queue_url.rsplit('/').next().unwrap_or(queue_url)
}

pub(super) fn parse(answer: &[u8]) -> Result<Value, CallError> {
    if answer.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(answer).map_err(|error| {
        CallError::new(CallErrorKind::Malformed, NO_JSON, format!("no JSON: {error}"))
    })
}

/// The keys that a server is configured with.
fn own_credentials() -> Option<Credentials> {
    Some(Credentials::new(variable("MILLRACE_ACCESS_KEY")?, variable("MILLRACE_SECRET_KEY")?))
}

/// Not twelve digits, which would name an account.
fn placeholder_credentials() -> Credentials {
    Credentials::new("none", "none")
}

pub(super) fn is_amazon(host: &str) -> bool {
    [".amazonaws.com", ".amazonaws.com.cn", ".api.aws"].iter().any(|domain| host.ends_with(domain))
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
