//! `pc`: the producer-consumer sample of Amazon's developer guide.
//!
//! Some producers send, some consumers receive and delete, for some minutes; once with single
//! messages, once in batches of ten, from one process or several. What goes through the queue in
//! a second counts, and how many requests that takes.

mod section;

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use millrace_process::parse_duration;

use super::{
    Findings, Options, Setting, conduct,
    parts::Parts,
    values::{body_size, clients, distinct, price},
};
use crate::{
    delay::Delay,
    load::{self, Grouping, Mode, OwnQueue, Scenario, Shape},
    node::{self, Job, Nodes},
    report::Recording,
};
pub(super) use section::seconds_table;
pub(crate) use section::{gain, metrics, section};

#[derive(Args, Clone, Debug)]
pub(crate) struct Flags {
    #[command(flatten)]
    pub(crate) options: Options,
    #[command(flatten)]
    pub(crate) plan: Plan,
    /// Messages of a request, one run for each. SQS takes 10, IronMQ 100
    #[arg(long, value_name = "NUMBER", value_delimiter = ',', default_value = "1,10", value_parser = clap::value_parser!(u64).range(1..=100))]
    batch: Vec<u64>,
    /// Processes on this machine
    #[arg(long, value_name = "NUMBER", default_value_t = 1, conflicts_with = "nodes", value_parser = clap::value_parser!(u64).range(1..=256))]
    procs: u64,
    /// Nodes that were started with `millrace bench node`
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',')]
    nodes: Vec<String>,
    /// Report losses, duplicates and broken order, but do not fail because of them
    #[arg(long)]
    no_verify: bool,
}

/// What every process does.
#[derive(Args, Clone, Debug)]
pub(crate) struct Plan {
    /// Producers of each process, each with a connection of its own
    #[arg(long, value_name = "NUMBER", default_value_t = 10, value_parser = clients())]
    pub(crate) producers: usize,
    /// Consumers of each process; a message costs them two requests
    #[arg(long, value_name = "NUMBER", default_value_t = 20)]
    pub(crate) consumers: usize,
    /// Bytes of a message's body
    #[arg(long, value_name = "SIZE", default_value = "1024", value_parser = body_size)]
    pub(crate) size: usize,
    /// Time to measure, before scaling
    #[arg(long, default_value = "20m", value_parser = parse_duration)]
    pub(crate) duration: Duration,
    /// Time before measuring, before scaling
    #[arg(long, default_value = "20s", value_parser = parse_duration)]
    pub(crate) warm_up: Duration,
    /// Add a round-trip time to every request
    #[arg(long, default_value = "0s", value_parser = parse_duration)]
    pub(crate) delay: Duration,
    /// Use a FIFO queue
    #[arg(long)]
    pub(crate) fifo: bool,
    /// Message groups [default with --fifo: one a producer]
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub(crate) groups: u32,
    /// Threads of each process
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) threads: usize,
    /// Producers pause while more messages wait; 0 for no bound
    #[arg(long, value_name = "NUMBER", default_value_t = load::BACKLOG_MAX)]
    pub(crate) backlog: u64,
    /// Price of a million requests in US dollars
    #[arg(long, value_name = "DOLLARS", default_value_t = 0.40, value_parser = price)]
    pub(crate) price: f64,
}

/// Who runs it.
pub(crate) enum Cast<'a> {
    /// This process.
    Alone,
    /// So many processes of this machine.
    Processes(usize),
    /// Nodes somewhere.
    Nodes(&'a [String]),
}

/// One run and how it is called.
pub(crate) struct Measured {
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) report: load::Report,
}

const WARM_UP_LEAST: Duration = Duration::from_millis(300);
const DURATION_LEAST: Duration = Duration::from_secs(1);

pub(crate) fn run(flags: &Flags) -> Result<()> {
    let needs_groups = flags.plan.fifo || flags.plan.groups > 0;
    flags.batch.iter().try_for_each(|batch| flags.options.peer.check(*batch, needs_groups))?;
    distinct("--batch", &flags.batch)?;
    flags.options.check_nodes(&flags.nodes)?;
    conduct("pc", &flags.options, |setting| {
        let cast = match (flags.procs, flags.nodes.as_slice()) {
            (1, []) => Cast::Alone,
            (processes, []) => Cast::Processes(processes as usize),
            (_, nodes) => Cast::Nodes(nodes),
        };
        let parts = Parts::measure(&setting.progress, &flags.batch, |batch| {
            let name = format!("in batches of {batch}, {}", cast.name());
            setting.progress.begin(&format!("pc {batch}"));
            let report = measure(setting, &flags.plan, *batch, &cast)?;
            let name = if *batch == 1 { format!("single, {}", cast.name()) } else { name };
            Ok(Measured { name, id: mode(*batch), report })
        })?;
        let all = &parts.all;
        let mut findings = Findings {
            title: "Producers and consumers".to_owned(),
            metrics: metrics("pc", all, flags.plan.price),
            recordings: recordings("pc", all),
            ..Findings::default()
        };
        let failures = |one: &Measured| match flags.no_verify {
            true => Vec::from_iter(one.report.reason_for_less()),
            false => violations(&one.report),
        };
        findings.violations = all.iter().flat_map(failures).collect();
        findings.note_failure(&parts);
        let mut section = section(all, &flags.plan);
        section.shapes = section::batch_gain(all);
        findings.sections.push(section);
        Ok(findings)
    })
}

pub(crate) fn recordings(front: &str, all: &[Measured]) -> Vec<Recording> {
    all.iter().flat_map(|one| one.report.recordings(&format!("{front}.{}", one.id))).collect()
}

/// `single`, `batch`, or what the number of messages is.
fn mode(batch: u64) -> String {
    match batch {
        1 => "single".to_owned(),
        10 => "batch".to_owned(),
        batch => format!("batch{batch}"),
    }
}

impl Cast<'_> {
    pub(crate) fn name(&self) -> String {
        match self {
            Cast::Alone => "1 process".to_owned(),
            Cast::Processes(count) => format!("{count} processes"),
            Cast::Nodes([_]) => "1 node".to_owned(),
            Cast::Nodes(nodes) => format!("{} nodes", nodes.len()),
        }
    }
}

/// One run on a queue of its own.
pub(crate) fn measure(
    setting: &Setting,
    plan: &Plan,
    batch: u64,
    cast: &Cast<'_>,
) -> Result<load::Report> {
    let scenario = scenario(setting, plan, batch);
    let queue = OwnQueue::new(&setting.endpoint, scenario.create_queue()?, &setting.progress);
    let job = || Job::new(&scenario, &setting.url, &setting.access, &queue.name, plan.delay);
    match cast {
        Cast::Alone => alone(scenario.clone(), plan.delay, &queue.name),
        Cast::Processes(count) => {
            let nodes = node::local(*count, &setting.access, &setting.trust.arguments());
            nodes.and_then(|nodes| nodes.run(&job(), &setting.progress))
        }
        Cast::Nodes(addresses) => Nodes::remote(addresses).run(&job(), &setting.progress),
    }
}

fn alone(mut scenario: Scenario, delay: Duration, queue: &str) -> Result<load::Report> {
    let _delay = Delay::put_before(&mut scenario.endpoint, delay)?;
    load::run_on(&scenario, queue)
}

fn scenario(setting: &Setting, plan: &Plan, batch: u64) -> Scenario {
    let grouping = Grouping::new(plan.fifo, plan.groups);
    let mode = if plan.consumers == 0 { Mode::Send } else { Mode::Pc };
    Scenario {
        shape: Shape { batch, size_bytes: plan.size, grouping },
        groups: plan.groups,
        producers: plan.producers,
        consumers: plan.consumers,
        threads: plan.threads,
        warm_up: setting.lasting(plan.warm_up, WARM_UP_LEAST),
        duration: setting.lasting(plan.duration, DURATION_LEAST),
        backlog_max: plan.backlog,
        server_pid: setting.server_pid,
        progress: setting.progress.clone(),
        ..Scenario::new(mode, setting.endpoint.clone(), 1)
    }
}

/// A loss or an altered message always, and nothing at all; what only FIFO queues promise, there
/// only.
pub(crate) fn violations(report: &load::Report) -> Vec<String> {
    let mut found = report.violations();
    if !report.is_ordered() {
        // Standard queues deliver at least once; the count is in the table.
        found.retain(|text| !text.ends_with("duplicated"));
    }
    found.extend(report.reason_for_less());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_name_metrics() {
        assert_eq!([1, 10, 5].map(mode), ["single", "batch", "batch5"]);
    }

    #[test]
    fn a_gain_holds_from_its_least_on() {
        assert!(gain("x", 3.5, 3.5).holds && !gain("x", 3.49, 3.5).holds);
        assert_eq!(parse_duration("20m").unwrap(), Duration::from_secs(1200));
    }
}
