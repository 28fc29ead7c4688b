//! What `millrace work` can be told.

use std::{net::SocketAddr, time::Duration};

use clap::{Args, ValueEnum};
use millrace_worker::{Backoff, Concurrency, DrainTimeouts, Options, Until};

use crate::{commands::ConnectionFlags, config::LogFormat};

/// Flags of `work`. Durations are written `500ms`, `30s`, `5m`, `1h`, or as plain seconds.
#[derive(Args, Clone, Debug)]
pub(crate) struct WorkFlags {
    /// Queue to work off: its name or its URL
    #[arg(long, value_name = "NAME|URL")]
    pub(crate) queue: String,
    #[command(flatten)]
    pub(crate) connection: ConnectionFlags,
    #[command(flatten)]
    pub(crate) handler: HandlerFlags,
    /// How long the command or the answer may take
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration)]
    pub(crate) timeout: Duration,
    /// How long a command may go on after SIGTERM, before SIGKILL
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration)]
    pub(crate) kill_after: Duration,
    /// Whether a command runs for each message, or stays and is fed JSON lines
    #[arg(long, value_enum, default_value = "once", requires = "exec")]
    pub(crate) exec_mode: ExecMode,
    /// What the command's exit codes mean
    #[arg(long, value_enum, default_value = "sysexits")]
    pub(crate) exit_codes: ExitCodes,
    /// Delay after exit code 75
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration)]
    pub(crate) retry_delay: Duration,
    /// Content-Type of what is posted
    #[arg(long, value_name = "TYPE", default_value = "application/json")]
    pub(crate) content_type: String,
    /// Answers that reject the message
    #[arg(long, value_name = "CODES", value_delimiter = ',', default_value = "400,413,415,422")]
    pub(crate) reject_status: Vec<u16>,

    /// Queue for messages that are rejected or fail too often: its name or its URL
    #[arg(long, value_name = "NAME|URL")]
    pub(crate) dead_letter_queue: Option<String>,
    /// Receives after which a message goes to the dead-letter queue
    #[arg(long, value_name = "NUMBER", requires = "dead_letter_queue",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_receives: Option<u32>,
    /// Delays after the first, second, … failure; the last is repeated [default: from 2 s, doubled
    /// each time, to 15 minutes]
    #[arg(long, value_name = "DURATIONS", value_delimiter = ',', value_parser = duration)]
    pub(crate) backoff: Vec<Duration>,

    /// Messages handled at a time: a number, or auto to find out from measured latency
    #[arg(long, value_name = "NUMBER|auto", default_value = "10", value_parser = handlers)]
    pub(crate) concurrency: Handlers,
    /// Most that auto may come to
    #[arg(long, value_name = "NUMBER", default_value_t = 64,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=10_000))]
    pub(crate) max_concurrency: usize,
    /// How long a receive hides a message; extended at half of it while the message is in hand
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    pub(crate) visibility_timeout: Duration,
    /// How long a message may be in hand in all
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration)]
    pub(crate) max_lease: Duration,
    /// How long a receive waits for a message, where the server can
    #[arg(long, value_name = "DURATION", default_value = "20s", value_parser = duration)]
    pub(crate) wait: Duration,
    /// Shortest pause between receives, where the server cannot wait
    #[arg(long, value_name = "DURATION", default_value = "20ms", value_parser = duration)]
    pub(crate) poll_interval: Duration,
    /// Longest such pause: the longest that a message waits for an idle worker
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration)]
    pub(crate) max_idle_latency: Duration,
    /// How long a delete waits for others to share its call
    #[arg(long, value_name = "DURATION", default_value = "100ms", value_parser = duration)]
    pub(crate) linger: Duration,

    /// End after one receive and its messages
    #[arg(long, conflicts_with = "until_empty")]
    pub(crate) once: bool,
    /// End when nothing can be received; messages that wait for a retry are not waited for
    #[arg(long)]
    pub(crate) until_empty: bool,
    /// End after so many messages
    #[arg(long, value_name = "NUMBER")]
    pub(crate) max_messages: Option<u64>,
    /// Receive once, print what would be done, release the messages; their receive counts rise
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// How long messages in hand may take after SIGTERM
    #[arg(long, value_name = "DURATION", default_value = "25s", value_parser = duration)]
    pub(crate) drain_timeout: Duration,

    /// Address that answers /metrics, /health and /ready
    #[arg(long, value_name = "ADDR")]
    pub(crate) metrics_listen: Option<SocketAddr>,
    /// Format of the log
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) log_format: Format,
    /// off, error, warn, info, debug, trace, or target=level pairs
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub(crate) log_level: String,
}

/// What is done with a message.
#[derive(Args, Clone, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct HandlerFlags {
    /// Run a shell command for each message, with the body on its standard input
    #[arg(long, value_name = "COMMAND")]
    pub(crate) exec: Option<String>,
    /// Send each message as an HTTP POST
    #[arg(long, value_name = "URL")]
    pub(crate) post: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExecMode {
    /// One command for each message
    Once,
    /// Commands that stay: one JSON line for each message, one line as its answer
    Lines,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExitCodes {
    /// 0 done, 65 reject, 75 retry after --retry-delay, others retry with back-off
    Sysexits,
    /// 0 done, 3 reject, 4 release, others retry with back-off
    Watchbot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Text,
    Json,
}

impl From<Format> for LogFormat {
    fn from(format: Format) -> LogFormat {
        match format {
            Format::Text => LogFormat::Text,
            Format::Json => LogFormat::Json,
        }
    }
}

/// How many messages are handled at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handlers {
    Fixed(usize),
    Auto,
}

impl WorkFlags {
    /// The worker's settings.
    pub(crate) fn options(&self) -> Options {
        let until = match (self.once || self.dry_run, self.until_empty) {
            (true, _) => Until::Once,
            (false, true) => Until::Empty,
            (false, false) => Until::Drained,
        };
        Options {
            concurrency: match self.concurrency {
                Handlers::Fixed(handlers) => Concurrency::Fixed(handlers),
                Handlers::Auto => Concurrency::Auto { max: self.max_concurrency },
            },
            visibility_timeout: self.visibility_timeout,
            max_lease: self.max_lease,
            wait: self.wait,
            poll_interval: self.poll_interval,
            max_idle_latency: self.max_idle_latency,
            linger: self.linger,
            backoff: match &*self.backoff {
                [] => Backoff::default(),
                delays => Backoff::List(delays.to_vec()),
            },
            max_receives: self.max_receives,
            until,
            max_messages: self.max_messages,
            drain: DrainTimeouts {
                drain: self.drain_timeout,
                // A cancelled command gets SIGTERM first.
                cancel_grace: self.kill_after + Duration::from_secs(1),
                ..DrainTimeouts::default()
            },
            queue: self.queue.clone(),
            ..Options::default()
        }
    }
}

/// `500ms`, `30s`, `5m`, `1h`, or plain seconds; 12 hours at most, as SQS counts.
fn duration(text: &str) -> Result<Duration, String> {
    const LONGEST: Duration = Duration::from_secs(12 * 3600);
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at_checked(digits).unwrap_or((text, ""));
    let number: u64 =
        number.parse().map_err(|_| "expected a number with ms, s, m or h".to_owned())?;
    let milliseconds = match unit {
        "ms" => 1,
        "" | "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(format!("unknown unit {unit:?}; there are ms, s, m and h")),
    };
    let duration = Duration::from_millis(number.saturating_mul(milliseconds));
    if duration > LONGEST { Err("is more than 12h".to_owned()) } else { Ok(duration) }
}

fn handlers(text: &str) -> Result<Handlers, String> {
    match text.parse() {
        _ if text == "auto" => Ok(Handlers::Auto),
        Ok(handlers @ 1..=10_000) => Ok(Handlers::Fixed(handlers)),
        _ => Err("expected auto or a number from 1 to 10000".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        flags: WorkFlags,
    }

    fn parse(text: &str) -> Result<WorkFlags, clap::Error> {
        let words = std::iter::once("work").chain(text.split(' '));
        Cli::try_parse_from(words).map(|cli| cli.flags)
    }

    #[test]
    fn durations_have_units() {
        let milliseconds = |text| duration(text).map(|duration| duration.as_millis());

        assert_eq!(milliseconds("250ms"), Ok(250));
        assert_eq!(milliseconds("30"), Ok(30_000));
        assert_eq!(milliseconds("30s"), Ok(30_000));
        assert_eq!(milliseconds("5m"), Ok(300_000));
        assert_eq!(milliseconds("12h"), Ok(43_200_000));
        for wrong in ["", "s", "-1", "1.5s", "13h", "99999999999999999999", "5 s", "5é"] {
            assert!(milliseconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn handler_is_needed_and_there_is_one() {
        assert!(parse("--queue q --exec true").is_ok());
        assert!(parse("--queue q --post http://h/").is_ok());
        assert!(parse("--queue q").is_err());
        assert!(parse("--queue q --exec true --post http://h/").is_err());
        assert!(parse("--queue q --exec true --max-receives 3").is_err());
        assert!(parse("--queue q --exec true --concurrency 0").is_err());
    }

    #[test]
    fn flags_become_options() {
        let options = |text| parse(text).unwrap().options();

        let plain = options("--queue q --exec true");
        assert_eq!(plain.until, Until::Drained);
        assert_eq!(plain.concurrency, Concurrency::Fixed(10));
        let told =
            options("--queue q --exec true --concurrency auto --until-empty --backoff 1s,1m");
        assert_eq!(told.until, Until::Empty);
        assert_eq!(told.concurrency, Concurrency::Auto { max: 64 });
        assert_eq!(told.backoff.delay(2), Duration::from_secs(60));
        assert_eq!(options("--queue q --exec true --dry-run").until, Until::Once);
    }
}
