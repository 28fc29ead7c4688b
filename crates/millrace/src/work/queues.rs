//! The queues that the flags name.

use std::time::Duration;

use anyhow::{Context, bail};
use millrace_client::{
    CallErrorKind, QueuePeer,
    iron::{IronOptions, IronPeer, IronVersion},
    sqs::{Protocol, SqsClient, SqsPeer},
    transport::TransportOptions,
};

use super::{WorkFlags, flags::Interface};
use crate::commands::of_search;
use crate::config::UsageError;

/// Longer than the worker waits for any answer: it knows better when to give up.
const ANSWER_MAX: Duration = Duration::from_secs(65);

/// A queue that was found, and where its dead letters go.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) peer: QueuePeer,
    pub(super) url: String,
    /// Asked for only if a function is to be told; else empty.
    pub(super) arn: String,
    pub(super) dead_letters: Option<QueuePeer>,
}

/// Finds a queue given by name, URL or ARN.
pub(super) async fn find(queue: &str, flags: &WorkFlags) -> anyhow::Result<Found> {
    match flags.peer {
        Interface::Sqs => find_in_sqs(queue, flags).await,
        Interface::Ironmq => find_in_iron_mq(queue, IronVersion::V3, flags),
        Interface::IronmqV1 => find_in_iron_mq(queue, IronVersion::V1, flags),
    }
}

impl Found {
    /// The last part of its URL.
    pub(super) fn name(&self) -> &str {
        self.url.rsplit('/').next().unwrap_or(&self.url)
    }
}

async fn find_in_sqs(queue: &str, flags: &WorkFlags) -> anyhow::Result<Found> {
    let transport = transport(flags)?;
    let client = flags.connection.client_with_chain(queue, flags.protocol, transport).await?;
    let peer = open(&client, queue, flags).await?;
    let arn = match flags.handler.lambda {
        Some(_) => arn_of(&peer).await.context("asking for the queue's ARN")?,
        None => String::new(),
    };
    let dead_letters = match &flags.dead_letter_queue {
        Some(name) => Some(open(&client, name, flags).await?),
        None => None,
    };
    let url = peer.queue_url().to_owned();
    if dead_letters.as_ref().is_some_and(|other| other.queue_url() == url) {
        return Err(own_dead_letters(queue));
    }
    let dead_letters = dead_letters.map(QueuePeer::Sqs);
    Ok(Found { url, peer: QueuePeer::Sqs(peer), arn, dead_letters })
}

async fn open(client: &SqsClient, queue: &str, flags: &WorkFlags) -> anyhow::Result<SqsPeer> {
    flags.connection.check_server(client, queue)?;
    let finding = || format!("finding the queue {queue} at {}", client.transport().endpoint());
    let opened = SqsPeer::open(client.clone(), queue).await;
    let peer = match opened {
        Ok(peer) => peer,
        Err(error) => return Err(of_search(client, queue, error).await).with_context(finding),
    };
    if queue.contains("://") {
        // Nothing was asked yet. Who may receive need not be allowed to ask this.
        match peer.attributes(&["QueueArn"]).await {
            Err(error) if error.kind == CallErrorKind::NoSuchQueue => {
                return Err(of_search(client, queue, error).await).with_context(finding);
            }
            _ => {}
        }
    }
    Ok(peer)
}

/// What a queue gets from itself comes round for ever.
fn own_dead_letters(queue: &str) -> anyhow::Error {
    UsageError(format!("--dead-letter-queue: {queue} cannot be its own")).into()
}

async fn arn_of(peer: &SqsPeer) -> anyhow::Result<String> {
    let told = peer.attributes(&["QueueArn"]).await?;
    match told.into_iter().find(|(name, _)| &**name == "QueueArn") {
        Some((_, arn)) => Ok(arn.to_string()),
        None => bail!("the server does not tell it"),
    }
}

/// IronMQ makes a queue with its first message: there is nothing to ask for.
fn find_in_iron_mq(queue: &str, version: IronVersion, flags: &WorkFlags) -> anyhow::Result<Found> {
    if flags.protocol != Protocol::default() {
        let problem = "--protocol is for SQS; IronMQ has one of its own";
        return Err(UsageError(problem.to_owned()).into());
    }
    if flags.handler.lambda.is_some() {
        let problem = "--lambda makes events of SQS messages; IronMQ has no queue ARN";
        return Err(UsageError(problem.to_owned()).into());
    }
    let names =
        [("--queue", Some(queue)), ("--dead-letter-queue", flags.dead_letter_queue.as_deref())];
    for (flag, name) in names {
        if name.is_some_and(|name| name.contains("://") || name.starts_with("arn:")) {
            let problem = format!(
                "{flag}: --peer ironmq takes the name of a queue, and no URL or ARN; --endpoint \
                 names the server, IRON_PROJECT_ID the project"
            );
            return Err(UsageError(problem).into());
        }
    }
    let endpoint = flags.connection.endpoint_or_default()?;
    let options = IronOptions {
        version,
        project_id: variable("IRON_PROJECT_ID")?,
        token: variable("IRON_TOKEN")?,
        transport: transport(flags)?,
    };
    let url = format!("{endpoint}/{queue}");
    let peer = |name: &str| {
        let peer = IronPeer::new(endpoint.clone(), name, &options);
        anyhow::Ok(QueuePeer::Iron(peer.with_context(|| format!("preparing the queue {name}"))?))
    };
    if flags.dead_letter_queue.as_deref() == Some(queue) {
        return Err(own_dead_letters(queue));
    }
    let dead_letters = flags.dead_letter_queue.as_deref().map(peer).transpose()?;
    Ok(Found { peer: peer(queue)?, url, arn: String::new(), dead_letters })
}

fn transport(flags: &WorkFlags) -> Result<TransportOptions, UsageError> {
    let mut options = flags.connection.transport()?;
    options.answer_timeout = ANSWER_MAX;
    Ok(options)
}

fn variable(name: &str) -> Result<String, UsageError> {
    let value = std::env::var(name).ok().filter(|value| !value.is_empty());
    value.ok_or_else(|| UsageError(format!("--peer ironmq needs {name} in the environment")))
}
