//! `load`: drives an SQS endpoint and checks every message.
//!
//! A closed loop unless a rate is given: each connection has one request under way. Every body
//! begins with an id, and the ledger says at the end which ids were lost or came twice.

mod clients;
mod connection;
mod dialect;
mod drive;
mod endpoint;
mod ledger;
mod pace;
mod patience;
mod received;
mod report;
mod response;
mod run;
mod scenario;
mod schedule;
mod tally;
mod template;

use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use millrace_process::{parse_duration, parse_whole_seconds};

use crate::{
    access::{AccessFlags, Interface, Protocol, default_endpoint, given_url},
    cli::UsageError,
    live::Interrupts,
    output, process,
    scenarios::clients,
    tls::Trust,
};

pub(crate) use crate::latency::{
    Latencies, Percentiles, Verb, histogram, nanoseconds, percentiles,
};
pub(crate) use clients::Settle;
pub(crate) use connection::{Connection, Events};
pub(crate) use dialect::{Sqs, percent, put};
pub(crate) use drive::{run, run_on};
pub(crate) use endpoint::{Endpoint, OwnQueue, is_nothing_yet};
use ledger::COUNT_MAX;
pub(crate) use ledger::{ID_BYTES, Id};
pub(crate) use pace::{Pace, Stage};
pub(crate) use report::Report;
pub(crate) use response::{find_values, is_success, refusal};
pub(crate) use run::Count;
pub(crate) use scenario::{BACKLOG_MAX, Mode, Scenario, Together};
pub(crate) use schedule::{MISSED_MAX, Turn, first_due, pace};
pub(crate) use template::{Grouping, SendTemplate, Shape};

#[derive(Args, Debug)]
pub(crate) struct Flags {
    #[arg(value_enum)]
    mode: Mode,
    /// Where the server is [environment: MILLRACE_ENDPOINT; default: http://127.0.0.1:4566]
    #[arg(long, value_name = "URL", default_value_t = default_endpoint(), hide_default_value = true)]
    endpoint: String,
    /// What the server speaks
    #[arg(long, value_enum, default_value = "sqs")]
    peer: Interface,
    /// Which protocol of SQS
    #[arg(long, value_name = "json|query", default_value = "json")]
    protocol: Protocol,
    #[command(flatten)]
    access: AccessFlags,
    #[command(flatten)]
    trust: Trust,
    /// Messages of a request; 1 uses the single actions. SQS takes 10, IronMQ 100
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100))]
    batch: u64,
    /// Connections in all; pc shares them between producers and consumers
    #[arg(long, value_name = "NUMBER", value_parser = clients())]
    conns: Option<usize>,
    /// Threads of the generator
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Time to measure
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = positive_duration)]
    duration: Duration,
    /// Time before measuring
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration)]
    warm_up: Duration,
    /// Messages to send, instead of a duration and a warm-up; a multiple of --batch [drain: any, 10000]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Bytes of a message's body
    #[arg(long, value_name = "BYTES", default_value_t = 1024)]
    size: usize,
    /// Use a FIFO queue
    #[arg(long)]
    fifo: bool,
    /// Message groups; without --fifo, a fair queue [default: with --fifo one a producer]
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    groups: u32,
    /// Send by a schedule of so many messages a second instead of as fast as answers come
    #[arg(long, value_name = "PER SECOND", default_value = "0", value_parser = rate)]
    rate: f64,
    /// Producers of pc pause while more messages wait; 0 for no bound
    #[arg(long, value_name = "NUMBER", default_value_t = scenario::BACKLOG_MAX)]
    backlog: u64,
    /// How long receives wait for a message
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = wait_s)]
    wait: u32,
    /// Report CPU and memory of this process
    #[arg(long, value_name = "PID", value_parser = process::parse_pid)]
    server_pid: Option<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run_command(flags: &Flags) -> Result<()> {
    let scenario = flags.scenario()?;
    let _interrupts = Interrupts::start(scenario.progress.live())?;
    let report = run(&scenario).map_err(|error| scenario.progress.with_left(error))?;
    // A signal from here on is too late for the run, and no reason to call it incomplete.
    let ended = scenario.progress.go_on().err();
    output::print(&if flags.json {
        format!("{:#}\n", report.json())
    } else {
        format!("{report}\n")
    })?;
    let mut broken = report.violations();
    broken.extend(report.reason_for_less());
    broken.extend(scenario.progress.left());
    broken.extend(ended.map(|ended| ended.to_string()));
    if broken.is_empty() { Ok(()) } else { bail!("{}", broken.join(", ")) }
}

impl Flags {
    fn scenario(&self) -> Result<Scenario> {
        self.peer.check(self.batch, self.fifo || self.groups > 0)?;
        let access = self.access.access(self.peer, self.protocol)?;
        if self.size < ID_BYTES {
            bail!(UsageError(format!(
                "--size is {}, an id alone takes {ID_BYTES} bytes",
                self.size
            )));
        }
        let is_latency = self.mode == Mode::Latency;
        let connections = self.conns.unwrap_or(if is_latency { 1 } else { 8 });
        let grouping = Grouping::new(self.fifo, self.groups);
        let url = given_url("--endpoint", &self.endpoint)?;
        let endpoint = Endpoint::new(&url, &access, &self.trust)?;
        let usual = Scenario::new(self.mode, endpoint, connections);
        let default_count = if self.mode == Mode::Drain { 10_000 } else { 0 };
        let count = self.count.unwrap_or(default_count);
        if count > COUNT_MAX {
            bail!(UsageError(format!(
                "--count is {count}, at most {COUNT_MAX} ids can be checked"
            )));
        }
        if self.mode != Mode::Drain && !count.is_multiple_of(self.batch) {
            bail!(UsageError(format!(
                "--count is {count}, which batches of {} do not add up to",
                self.batch
            )));
        }
        Ok(Scenario {
            shape: Shape { batch: self.batch, size_bytes: self.size, grouping },
            groups: self.groups,
            threads: self.threads,
            warm_up: self.warm_up,
            duration: self.duration,
            count,
            pace: Pace::constant(self.rate),
            backlog_max: self.backlog,
            wait_s: self.wait,
            server_pid: self.server_pid,
            ..usual
        })
    }
}

/// A year is longer than anybody waits, and added to any instant.
fn duration(text: &str) -> Result<Duration, String> {
    const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);
    match parse_duration(text).map_err(|error| error.to_string())? {
        duration if duration <= LONGEST => Ok(duration),
        _ => Err("a year is the longest".to_owned()),
    }
}

/// SQS takes 20 seconds at most, and refuses more itself.
fn wait_s(text: &str) -> Result<u32, String> {
    let seconds = parse_whole_seconds(text).map_err(|error| error.to_string())?;
    u32::try_from(seconds).map_err(|_| "is too long".to_owned())
}

fn positive_duration(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("nothing can be measured in no time".to_owned()),
        duration => Ok(duration),
    }
}

/// Zero is no schedule.
fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate.is_finite() && rate >= 0.0 => Ok(rate),
        _ => Err(format!("{text} is not a number of messages a second")),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: Flags,
    }

    fn scenario(line: &str) -> Result<Scenario> {
        let words = format!("load --endpoint http://127.0.0.1:1 {line}");
        Line::try_parse_from(words.split(' '))?.flags.scenario()
    }

    #[test]
    fn a_count_that_cannot_be_sent_exactly_is_refused() {
        assert_eq!(scenario("send --batch 10 --count 20").unwrap().count, 20);
        assert_eq!(scenario("drain --batch 10 --count 25").unwrap().count, 25);

        let error = scenario("send --batch 10 --count 25").unwrap_err();
        assert!(error.to_string().contains("batches of 10"), "{error}");
        for wrong in ["send --count 268435457", "drain --count 0", "pc --conns 0"] {
            assert!(scenario(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_no_time_and_no_rate_is_refused() {
        for wrong in ["nan", "inf", "-1", "1e300", "x"] {
            for flag in ["--duration", "--warm-up", "--rate"] {
                let is_rate = flag == "--rate" && wrong == "1e300";
                assert_eq!(
                    scenario(&format!("send {flag}={wrong}")).is_ok(),
                    is_rate,
                    "{flag} {wrong}"
                );
            }
        }
        assert!(scenario("send --duration 0").is_err());
        let scenario = scenario("send --duration 0.5 --warm-up 0 --rate 0").unwrap();
        assert_eq!(scenario.duration, Duration::from_millis(500));
        assert!(scenario.warm_up.is_zero() && scenario.pace.stages().is_empty());
    }
}
