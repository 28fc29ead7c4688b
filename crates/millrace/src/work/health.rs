//! Waits until whoever is to handle messages can do so.

use std::time::Duration;

use millrace_client::transport::{Call, Lane, Repeat};
use millrace_worker::Drain;
use tokio::time::{sleep, timeout};

use super::{WorkFlags, target::Target};

/// Between two questions.
const PAUSE: Duration = Duration::from_secs(1);
/// How long an answer may take: a program that does not answer at all is likely to be starting.
const ANSWER: Duration = Duration::from_secs(5);

/// Asks a URL, with a second between, until it answers with 2xx, or the end is asked for. Nothing
/// is received before: a message that nobody can take would only lose one of its receives.
pub(super) async fn wait(url: &str, flags: &WorkFlags, drain: &Drain) -> anyhow::Result<()> {
    let target = Target::parse("--health", url, "/", flags)?;
    let url = &target.url;
    tracing::info!(%url, "waiting until the handler is healthy");
    let healthy = async {
        while !is_healthy(&target).await {
            sleep(PAUSE).await;
        }
    };
    tokio::select! {
        () = healthy => tracing::info!(%url, "the handler is healthy"),
        () = drain.asked() => {}
    }
    Ok(())
}

async fn is_healthy(target: &Target) -> bool {
    let Ok(head) = target.head("GET") else { return false };
    let (lane, body, wait, repeat) =
        (Lane::Quick, Default::default(), Duration::ZERO, Repeat::Safe);
    let call = target.transport.call(Call { lane, head, body, wait, repeat });
    match timeout(ANSWER, call).await {
        Ok(Ok(answer)) => {
            tracing::debug!(status = answer.status, "asked for health");
            (200..300).contains(&answer.status)
        }
        Ok(Err(error)) => {
            tracing::debug!(%error, "asked for health");
            false
        }
        Err(_) => {
            tracing::debug!("asked for health: no answer in time");
            false
        }
    }
}
