//! `ready`: asks whether a server answers requests and takes changes, where nothing else can ask
//! over HTTP, as in a container that holds only this program.

use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use millrace_client::transport::Answer;
use millrace_process::parse_duration;
use tokio::time::{Instant, sleep, timeout};

use super::advice::{MAY_SPEAK_TLS, of_connection, server_of_console};
use super::connection::{ConnectionFlags, Sqs};
use crate::logging::tell;

/// Between two questions.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest wait for an answer.
const ANSWER: Duration = Duration::from_secs(5);

#[derive(Args, Debug)]
pub(crate) struct ReadyFlags {
    /// Ask again until the server is ready, for this long at the most
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = wait)]
    wait: Duration,
    #[command(flatten)]
    connection: ConnectionFlags,
}

pub(super) async fn run(flags: &ReadyFlags) -> Result<()> {
    let sqs = flags.connection.connect()?;
    let until = Instant::now() + flags.wait;
    let answer = loop {
        let reason = match ask(&sqs).await {
            Ok(answer) => break answer,
            Err(reason) => reason,
        };
        if Instant::now() + PAUSE > until {
            bail!("{} is not ready: {reason}", sqs.endpoint());
        }
        sleep(PAUSE).await;
    };
    if let Some(server) = server_of_console(&answer) {
        let endpoint = sqs.endpoint();
        bail!(
            "{endpoint} is the web console, which does not serve queues; ask the server: millrace \
             ready --endpoint {server}"
        );
    }
    tell(&format!("{} is ready", sqs.endpoint()));
    Ok(())
}

/// The answer of a server that is ready, or why it is not.
async fn ask(sqs: &Sqs) -> Result<Answer, String> {
    match timeout(ANSWER, sqs.get("/ready")).await {
        Ok(Ok(answer)) if answer.status == 200 => Ok(answer),
        Ok(Ok(answer)) if answer.status == 400 => Err(format!("it answered 400\n{MAY_SPEAK_TLS}")),
        Ok(Ok(answer)) => Err(format!("it answered {}", answer.status)),
        Ok(Err(error)) => Err(match of_connection(&error) {
            Some(advice) => format!("{error}\n{advice}"),
            None => error.to_string(),
        }),
        Err(_) => Err(format!("no answer within {} s", ANSWER.as_secs())),
    }
}

fn wait(text: &str) -> Result<Duration, String> {
    const LONGEST: Duration = Duration::from_secs(86_400);
    match parse_duration(text).map_err(|error| error.to_string())? {
        wait if wait <= LONGEST => Ok(wait),
        _ => Err("1d is the longest".to_owned()),
    }
}
