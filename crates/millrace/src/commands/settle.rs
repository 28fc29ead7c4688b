//! `delete` and `extend`: what a consumer does with a message that it has received, by its receipt
//! handle.

use anyhow::{Context, Result};
use clap::Args;
use millrace_client::sqs::Action;
use serde_json::json;

use super::connection::ConnectionFlags;
use super::names::queue_names;
use super::output;
use super::queue::number;
use super::values::seconds_within;
use crate::logging::tell;

#[derive(Args, Debug)]
pub(crate) struct DeleteFlags {
    #[command(flatten)]
    message: ReceivedMessage,
    #[command(flatten)]
    connection: ConnectionFlags,
}

#[derive(Args, Debug)]
pub(crate) struct ExtendFlags {
    #[command(flatten)]
    message: ReceivedMessage,
    /// How long the message stays hidden from now on; 0 makes it available at once [default: the
    /// queue's visibility timeout]
    #[arg(long, value_name = "DURATION", value_parser = seconds_within(0..=43_200))]
    visibility: Option<u64>,
    #[command(flatten)]
    connection: ConnectionFlags,
}

/// Names one receive of one message.
#[derive(Args, Debug)]
struct ReceivedMessage {
    /// Name, URL or ARN
    #[arg(add = queue_names())]
    queue: String,
    /// Receipt handle, as `receive --show handle` prints it
    #[arg(allow_hyphen_values = true)]
    handle: String,
}

pub(super) async fn delete(flags: &DeleteFlags) -> Result<()> {
    let ReceivedMessage { queue, handle } = &flags.message;
    let sqs = flags.connection.connect_to(queue)?;
    let url = sqs.url(queue).await?;
    let asked = json!({ "QueueUrl": url, "ReceiptHandle": handle });
    sqs.call(Action::DELETE_MESSAGE, &asked).await.context("deleting")?;
    tell("deleted");
    Ok(())
}

pub(super) async fn extend(flags: &ExtendFlags) -> Result<()> {
    let ReceivedMessage { queue, handle } = &flags.message;
    let sqs = flags.connection.connect_to(queue)?;
    let url = sqs.url(queue).await?;
    let seconds = match flags.visibility {
        Some(seconds) => seconds,
        None => number(&sqs.attributes(&url).await?, "VisibilityTimeout"),
    };
    let asked = json!({ "QueueUrl": url, "ReceiptHandle": handle, "VisibilityTimeout": seconds });
    sqs.call(Action::CHANGE_MESSAGE_VISIBILITY, &asked).await.context("extending")?;
    tell(&match seconds {
        0 => "available now".to_owned(),
        _ => format!("hidden for {} from now", output::seconds(seconds)),
    });
    Ok(())
}
