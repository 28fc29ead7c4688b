//! The queues that the flags name.

use anyhow::{Context, bail};
use millrace_client::{
    CallError, CallErrorKind,
    sqs::{Action, SqsPeer, Wait},
    transport::Repeat,
};
use serde_json::{Value, json};

use super::WorkFlags;

/// A queue that was found, and where its dead letters go.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) peer: SqsPeer,
    pub(super) url: String,
    /// Asked for only if a function is to be told; else empty.
    pub(super) arn: String,
    pub(super) dead_letters: Option<SqsPeer>,
}

/// Finds a queue given by name or URL.
pub(super) async fn find(queue: &str, flags: &WorkFlags) -> anyhow::Result<Found> {
    let client = flags.connection.client_of(queue)?;
    let open = async |name: &str| {
        let peer = SqsPeer::open(client.clone(), name).await;
        peer.with_context(|| format!("finding the queue {name}"))
    };
    let peer = open(queue).await?;
    let arn = match flags.handler.lambda {
        Some(_) => arn_of(&peer).await.context("asking for the queue's ARN")?,
        None => String::new(),
    };
    let dead_letters = match &flags.dead_letter_queue {
        Some(name) => Some(open(name).await?),
        None => None,
    };
    Ok(Found { url: peer.queue_url().to_owned(), peer, arn, dead_letters })
}

impl Found {
    /// The last part of its URL.
    pub(super) fn name(&self) -> &str {
        self.url.rsplit('/').next().unwrap_or(&self.url)
    }
}

async fn arn_of(peer: &SqsPeer) -> anyhow::Result<String> {
    let asked = json!({ "QueueUrl": peer.queue_url(), "AttributeNames": ["QueueArn"] });
    let action = Action::GET_QUEUE_ATTRIBUTES;
    let answer = peer.client().call(action, asked.to_string().into(), Wait::None, Repeat::Safe);
    let answer = answer.await?;
    let answer: Value = serde_json::from_slice(&answer).map_err(|error| {
        CallError::new(CallErrorKind::Malformed, "malformed", error.to_string())
    })?;
    match answer.pointer("/Attributes/QueueArn") {
        Some(Value::String(arn)) => Ok(arn.clone()),
        _ => bail!("the server does not tell it"),
    }
}
