//! `ready`: whether a server answers requests and takes changes, for whoever cannot ask over HTTP, as
//! a container that holds nothing but this program.

use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use tokio::time::{Instant, sleep, timeout};

use super::connection::{ConnectionFlags, Sqs};
use crate::logging::tell;

/// Between two questions.
const PAUSE: Duration = Duration::from_millis(100);
/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(5);

#[derive(Args, Debug)]
pub(crate) struct ReadyFlags {
    /// Ask again until it is, for so long at the most
    #[arg(
        long,
        value_name = "SECONDS",
        default_value = "0",
        value_parser = clap::value_parser!(u64).range(0..=86_400)
    )]
    wait: u64,
    #[command(flatten)]
    connection: ConnectionFlags,
}

pub(super) async fn run(flags: &ReadyFlags) -> Result<()> {
    let sqs = flags.connection.connect()?;
    let until = Instant::now() + Duration::from_secs(flags.wait);
    while let Err(reason) = ask(&sqs).await {
        if Instant::now() + PAUSE > until {
            bail!("{} is not ready: {reason}", sqs.endpoint());
        }
        sleep(PAUSE).await;
    }
    tell(&format!("{} is ready", sqs.endpoint()));
    Ok(())
}

/// Why the server is not ready.
async fn ask(sqs: &Sqs) -> Result<(), String> {
    match timeout(ANSWER, sqs.get("/ready")).await {
        Ok(Ok(200)) => Ok(()),
        Ok(Ok(status)) => Err(format!("it answered {status}")),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer within {} s", ANSWER.as_secs())),
    }
}
