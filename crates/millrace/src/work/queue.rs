//! Where the queue is, and who asks.

use std::env;

use anyhow::Context;
use millrace_client::{
    Credentials,
    sqs::{SqsClient, SqsOptions},
    transport::Endpoint,
};

use super::WorkFlags;
use crate::config::UsageError;

/// A client of the endpoint that flags, environment or the queue's URL name, in this order.
pub(super) fn client(flags: &WorkFlags) -> anyhow::Result<SqsClient> {
    let region = flags.region.clone().or_else(|| variable(&["AWS_REGION", "AWS_DEFAULT_REGION"]));
    let text = flags
        .endpoint
        .clone()
        .or_else(|| variable(&["AWS_ENDPOINT_URL_SQS", "AWS_ENDPOINT_URL"]))
        .or_else(|| flags.queue.contains("://").then(|| flags.queue.clone()))
        .or_else(|| Some(format!("https://sqs.{}.amazonaws.com", region.as_ref()?)))
        .ok_or_else(|| UsageError("give --endpoint, or the queue's URL".to_owned()))?;
    let endpoint = Endpoint::parse(&text).map_err(|error| UsageError(error.to_string()))?;
    let options = SqsOptions { region, credentials: credentials(), ..SqsOptions::default() };
    SqsClient::new(endpoint, options).context("preparing the client")
}

/// Without credentials requests are not signed.
fn credentials() -> Option<Credentials> {
    Some(Credentials {
        access_key: variable(&["AWS_ACCESS_KEY_ID"])?,
        secret: variable(&["AWS_SECRET_ACCESS_KEY"])?,
        session_token: variable(&["AWS_SESSION_TOKEN"]),
    })
}

/// The first of these variables that says something.
fn variable(names: &[&str]) -> Option<String> {
    names.iter().filter_map(|name| env::var(name).ok()).find(|value| !value.is_empty())
}
