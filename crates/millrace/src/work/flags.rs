//! Flags of `millrace work`.

use std::{net::SocketAddr, time::Duration};

use clap::{Args, ValueEnum};
use millrace_client::sqs::Protocol;
use millrace_process::listen_address;
use millrace_worker::{Backoff, Concurrency, DrainTimeouts, Options, Priority, Until};

use super::values::{
    Handlers, WeightedQueue, batch_window, bytes, duration, handlers, positive_duration,
    weighted_queue,
};
use crate::{
    commands::{ConnectionFlags, queue_names},
    config::{LogFormat, UsageError},
};

/// Flags of `work`. Durations are written `500ms`, `30s`, `5m`, `1h`, or as plain seconds.
#[derive(Args, Clone, Debug)]
pub(crate) struct WorkFlags {
    /// Queue to work off: name, URL or ARN. Several share the handlers by weight, 1 unless given
    #[arg(long, value_name = "NAME|URL|ARN[=WEIGHT]", required = true,
        value_parser = weighted_queue, add = queue_names())]
    pub(crate) queue: Vec<WeightedQueue>,
    /// A message of a queue waits for those of all queues that are named before it
    #[arg(long)]
    pub(crate) strict_priority: bool,
    /// What the server speaks; IronMQ needs IRON_PROJECT_ID and IRON_TOKEN in the environment
    #[arg(long, value_enum, default_value = "sqs")]
    pub(crate) peer: Interface,
    /// Which protocol of SQS is spoken
    #[arg(long, value_name = "json|query", default_value = "json")]
    pub(crate) protocol: Protocol,
    #[command(flatten)]
    pub(crate) connection: ConnectionFlags,
    #[command(flatten)]
    pub(crate) handler: HandlerFlags,
    /// How long the command or the answer may take [default: 5m, with --sqsd 299s]
    #[arg(long, value_name = "DURATION", value_parser = positive_duration)]
    timeout: Option<Duration>,
    /// How long a command may go on after SIGTERM, before SIGKILL
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration)]
    pub(crate) kill_after: Duration,
    /// Whether a command runs for each message, or stays and is fed JSON lines
    #[arg(long, value_enum, default_value = "once",
          conflicts_with_all = ["post", "lambda"])]
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

    /// Hand on what was published, with its attributes, out of the notifications of SNS topics;
    /// other messages stay as they are
    #[arg(long, conflicts_with = "lambda")]
    pub(crate) unwrap_sns: bool,
    /// Keep to what Elastic Beanstalk's worker daemon does: only 200 is a success, a failure hides
    /// the message for 2 s, 50 requests at a time
    #[arg(long, conflicts_with_all = ["exec", "lambda", "reject_status"])]
    pub(crate) sqsd: bool,
    /// Messages in one event at most
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["exec", "post"], default_value_t = 10,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=10_000))]
    batch_size: usize,
    /// How long an event waits to be full
    #[arg(long, value_name = "DURATION", conflicts_with_all = ["exec", "post"], default_value = "0", value_parser = batch_window)]
    batch_window: Duration,
    /// Receive nothing before this URL has answered a GET with 2xx
    #[arg(long, value_name = "URL")]
    pub(crate) health: Option<String>,

    /// Queue for messages that are rejected or fail too often: its name, URL or ARN
    #[arg(long, value_name = "NAME|URL|ARN", add = queue_names())]
    pub(crate) dead_letter_queue: Option<String>,
    /// Receives after which a message goes to the dead-letter queue [default: none, with --sqsd 10]
    #[arg(long, value_name = "NUMBER", requires = "dead_letter_queue",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_receives: Option<u32>,
    /// Delays after the first, second, … failure; the last is repeated [default: from 2 s, doubled
    /// each time, to 15 minutes; with --sqsd always 2 s]
    #[arg(long, value_name = "DURATIONS", value_delimiter = ',', value_parser = duration)]
    pub(crate) backoff: Vec<Duration>,

    /// Handlers at a time: a number, or auto to find out from measured latency [default: 10, with
    /// --sqsd 50, with --lambda 1]
    #[arg(long, value_name = "NUMBER|auto", value_parser = handlers)]
    concurrency: Option<Handlers>,
    /// Most that auto may come to
    #[arg(long, value_name = "NUMBER", default_value_t = 64,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=10_000))]
    pub(crate) max_concurrency: usize,
    /// Nothing is received while bodies and attributes of more bytes than this are in hand; several
    /// queues have equal parts of it
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = bytes)]
    pub(crate) max_held_bytes: usize,
    /// How long a receive hides a message; extended at half of it while the message is in hand
    /// [default: 30s, with --sqsd 5m]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    visibility_timeout: Option<Duration>,
    /// How long a message may be in hand in all
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration)]
    pub(crate) max_lease: Duration,
    /// How long a receive waits for a message, where the server can
    #[arg(long, value_name = "DURATION", default_value = "20s", value_parser = duration)]
    pub(crate) wait: Duration,
    /// Shortest pause between receives, where the server does not wait
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
    #[arg(long, value_name = "DURATION", default_value = "20s", value_parser = duration)]
    pub(crate) drain_timeout: Duration,

    /// Address that answers /metrics, /health and /ready
    #[arg(long, value_name = "ADDRESS", value_parser = listen_address)]
    pub(crate) metrics_listen: Option<SocketAddr>,
    /// Format of the log
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) log_format: LogFormat,
    /// off, error, warn, info, debug, trace, or target=level pairs
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub(crate) log_level: String,
}

/// The handler of messages.
#[derive(Args, Clone, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct HandlerFlags {
    /// Run a shell command for each message, with the body on its standard input
    #[arg(long, value_name = "COMMAND")]
    pub(crate) exec: Option<String>,
    /// Send each message as an HTTP POST
    #[arg(long, value_name = "URL")]
    pub(crate) post: Option<String>,
    /// Send messages as SQS events to a Lambda function that a runtime interface emulator serves
    #[arg(long, value_name = "URL")]
    pub(crate) lambda: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Interface {
    /// Amazon SQS
    Sqs,
    /// IronMQ, version 3
    Ironmq,
    /// IronMQ, version 1, which its version 2 speaks too
    IronmqV1,
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
    /// 0 done, 3 reject, 4 retry with back-off without a warning, others retry with back-off
    Watchbot,
}

impl WorkFlags {
    /// How long the command or the answer may take.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout.unwrap_or(self.defaults().timeout)
    }

    /// The most handlers that may run at a time.
    pub(crate) fn most_handlers(&self) -> usize {
        match self.concurrency() {
            Handlers::Fixed(handlers) => handlers,
            Handlers::Auto => self.max_concurrency,
        }
    }

    /// When messages of the queues may start, in the order in which the queues are named.
    ///
    /// # Errors
    ///
    /// If weights are given for queues of which the first always goes first.
    pub(crate) fn priorities(&self) -> Result<Vec<Priority>, UsageError> {
        let has_weights = self.queue.iter().any(|queue| queue.weight.is_some());
        if self.strict_priority && has_weights {
            let problem = "with --strict-priority the order of the queues counts, not their weight";
            return Err(UsageError(problem.to_owned()));
        }
        let ranked = |(index, queue): (usize, &WeightedQueue)| Priority {
            rank: if self.strict_priority { u32::try_from(index).unwrap_or(u32::MAX) } else { 0 },
            weight: queue.weight.unwrap_or(1),
        };
        Ok(self.queue.iter().enumerate().map(ranked).collect())
    }

    /// The settings of the worker of one of the queues.
    pub(crate) fn options(&self, queue: &str) -> Options {
        let until = match (self.once || self.dry_run, self.until_empty) {
            (true, _) => Until::Once,
            (false, true) => Until::Empty,
            (false, false) => Until::Drained,
        };
        let defaults = self.defaults();
        Options {
            concurrency: match self.concurrency() {
                Handlers::Fixed(handlers) => Concurrency::Fixed(handlers),
                Handlers::Auto => Concurrency::Auto { max: self.max_concurrency },
            },
            batch_size: if self.handler.lambda.is_some() { self.batch_size } else { 1 },
            batch_window: self.batch_window,
            visibility_timeout: self.visibility_timeout.unwrap_or(defaults.visibility_timeout),
            max_lease: self.max_lease,
            wait: self.wait,
            poll_interval: self.poll_interval,
            max_idle_latency: self.max_idle_latency,
            linger: self.linger,
            backoff: match &*self.backoff {
                [] => defaults.backoff,
                delays => Backoff::List(delays.to_vec()),
            },
            max_receives: self.max_receives.or(defaults.max_receives),
            until,
            max_messages: self.max_messages,
            drain: DrainTimeouts {
                drain: self.drain_timeout,
                // A cancelled command gets SIGTERM first.
                cancel_grace: self.kill_after + Duration::from_secs(1),
                ..DrainTimeouts::default()
            },
            max_held_bytes: self.max_held_bytes / self.queue.len().max(1),
            queue: queue.to_owned(),
            ..Options::default()
        }
    }

    fn concurrency(&self) -> Handlers {
        self.concurrency.unwrap_or(Handlers::Fixed(self.defaults().handlers))
    }

    fn defaults(&self) -> Defaults {
        if self.sqsd {
            Defaults::sqsd()
        } else if self.handler.lambda.is_some() {
            Defaults::lambda()
        } else {
            Defaults::own()
        }
    }
}

/// Values of flags that are not given.
struct Defaults {
    handlers: usize,
    timeout: Duration,
    visibility_timeout: Duration,
    backoff: Backoff,
    max_receives: Option<u32>,
}

impl Defaults {
    fn own() -> Defaults {
        Defaults {
            handlers: 10,
            timeout: Duration::from_secs(300),
            visibility_timeout: Duration::from_secs(30),
            backoff: Backoff::default(),
            max_receives: None,
        }
    }

    /// A runtime interface emulator runs one invocation at a time, and refuses a second one
    /// meanwhile.
    fn lambda() -> Defaults {
        Defaults { handlers: 1, ..Defaults::own() }
    }

    /// Elastic Beanstalk developer guide, name space `aws:elasticbeanstalk:sqsd`.
    fn sqsd() -> Defaults {
        Defaults {
            handlers: 50,
            timeout: Duration::from_secs(299),
            visibility_timeout: Duration::from_secs(300),
            backoff: Backoff::List(vec![Duration::from_secs(2)]),
            max_receives: Some(10),
        }
    }
}

#[cfg(test)]
mod tests;
