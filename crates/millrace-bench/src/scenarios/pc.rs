//! `pc`: the producer-consumer sample of Amazon's developer guide.
//!
//! Some producers send, some consumers receive and delete, for some minutes; once with single
//! messages, once in batches of ten, from one process or several. What goes through the queue in
//! a second counts, and how many requests that takes.

use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;

use super::{Findings, Options, Setting, conduct, setting::duration};
use crate::{
    delay::Delay,
    load::{self, Count, Grouping, Mode, Scenario, Shape, Verb},
    node::{self, Job, Nodes},
    report::{
        Axis, Bar, Better, Chart, Metric, Section, Series, Shape as Expectation, Table, Unit,
        microseconds, thousands,
    },
};

#[derive(Args, Clone, Debug)]
pub(crate) struct Flags {
    #[command(flatten)]
    pub(crate) options: Options,
    #[command(flatten)]
    pub(crate) plan: Plan,
    /// Messages of a request, one run for each
    #[arg(long, value_name = "NUMBER", value_delimiter = ',', default_value = "1,10", value_parser = clap::value_parser!(u64).range(1..=10))]
    batch: Vec<u64>,
    /// Processes on this machine
    #[arg(long, value_name = "NUMBER", default_value_t = 1, conflicts_with = "nodes")]
    procs: usize,
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
    #[arg(long, value_name = "NUMBER", default_value_t = 10)]
    pub(crate) producers: usize,
    /// Consumers of each process; a message costs them two requests
    #[arg(long, value_name = "NUMBER", default_value_t = 20)]
    pub(crate) consumers: usize,
    /// Bytes of a message's body
    #[arg(long, value_name = "BYTES", default_value_t = 1024)]
    pub(crate) size: usize,
    /// Time to measure, before scaling
    #[arg(long, default_value = "20m", value_parser = duration)]
    pub(crate) duration: Duration,
    /// Time before measuring, before scaling
    #[arg(long, default_value = "20s", value_parser = duration)]
    pub(crate) warm_up: Duration,
    /// Add a round-trip time to every request
    #[arg(long, default_value = "0s", value_parser = duration)]
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
    #[arg(long, value_name = "DOLLARS", default_value_t = 0.40)]
    pub(crate) price: f64,
}

impl Default for Plan {
    /// The flags' defaults.
    fn default() -> Plan {
        Plan {
            producers: 10,
            consumers: 20,
            size: 1024,
            duration: Duration::from_secs(1200),
            warm_up: Duration::from_secs(20),
            delay: Duration::ZERO,
            fifo: false,
            groups: 0,
            threads: 1,
            backlog: load::BACKLOG_MAX,
            price: 0.40,
        }
    }
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
    conduct("pc", &flags.options, |setting| {
        let cast = match (flags.procs, flags.nodes.as_slice()) {
            (0 | 1, []) => Cast::Alone,
            (processes, []) => Cast::Processes(processes),
            (_, nodes) => Cast::Nodes(nodes),
        };
        let mut all = Vec::new();
        for batch in &flags.batch {
            let name = format!("in batches of {batch}, {}", cast.name());
            setting.progress.begin(&format!("pc {batch}"));
            let report = measure(setting, &flags.plan, *batch, &cast)?;
            let name = if *batch == 1 { format!("single, {}", cast.name()) } else { name };
            all.push(Measured { name, id: mode(*batch), report });
        }
        let mut findings = Findings {
            title: "Producers and consumers".to_owned(),
            metrics: metrics("pc", &all, flags.plan.price),
            ..Findings::default()
        };
        if !flags.no_verify {
            findings.violations = all.iter().flat_map(|one| violations(&one.report)).collect();
        }
        let mut section = section(&all, &flags.plan);
        section.shapes = batch_gain(&all);
        findings.sections.push(section);
        Ok(findings)
    })
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
    if plan.size < load::ID_BYTES {
        bail!("--size is {}, an id alone takes {} bytes", plan.size, load::ID_BYTES);
    }
    let scenario = scenario(setting, plan, batch);
    let queue_url = scenario.create_queue()?;
    let report = match cast {
        Cast::Alone => alone(setting, scenario, plan.delay, &queue_url),
        Cast::Processes(count) => {
            let nodes = node::local(*count, setting.keys.as_ref(), &setting.trust.arguments())?;
            nodes.run(&Job::new(&scenario, &setting.url, &queue_url, plan.delay))
        }
        Cast::Nodes(addresses) => {
            let nodes = Nodes::remote(addresses);
            nodes.run(&Job::new(&scenario, &setting.url, &queue_url, plan.delay))
        }
    };
    setting.endpoint.delete_queue(&queue_url)?;
    report
}

fn alone(
    setting: &Setting,
    mut scenario: Scenario,
    delay: Duration,
    queue_url: &str,
) -> Result<load::Report> {
    let delay = match delay {
        Duration::ZERO => None,
        round_trip => Some(Delay::start(setting.endpoint.address, round_trip)?),
    };
    if let Some(delay) = &delay {
        scenario.endpoint.address = delay.address;
    }
    load::run_on(&scenario, queue_url)
}

fn scenario(setting: &Setting, plan: &Plan, batch: u64) -> Scenario {
    let grouping = match (plan.fifo, plan.groups) {
        (true, _) => Grouping::Fifo,
        (false, 0) => Grouping::None,
        (false, _) => Grouping::Fair,
    };
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

/// A loss or an altered message always; what only FIFO queues promise, there only.
pub(crate) fn violations(report: &load::Report) -> Vec<String> {
    let mut found = report.violations();
    if !report.is_ordered() {
        // Standard queues deliver at least once; the count is in the table.
        found.retain(|text| !text.ends_with("duplicated"));
    }
    found
}

pub(crate) fn metrics(front: &str, all: &[Measured], price: f64) -> Vec<Metric> {
    let mut metrics = Vec::new();
    for Measured { id, report, .. } in all {
        let name = |rest: &str| format!("{front}.{id}.{rest}");
        metrics.push(Metric::rate(&name("rate"), report.rate()));
        let per_message = report.requests_per_message();
        let lower = |what, value, unit| Metric::new(&name(what), value, unit, Better::Lower);
        metrics.push(lower("requests_per_message", per_message, Unit::Ratio));
        metrics.push(lower("dollars_per_million", per_message * price, Unit::Dollars));
        for (verb, word) in [(Verb::Send, "send"), (Verb::EndToEnd, "end_to_end")] {
            let found = report.percentiles(verb);
            if found.count > 0 {
                metrics.push(Metric::latency(&name(&format!("{word}.p50")), found.p50_us));
                metrics.push(Metric::latency(&name(&format!("{word}.p99")), found.p99_us));
            }
        }
        metrics.push(lower("client_cpu", report.own_cpu_us_per_message(), Unit::Microseconds));
        if let Some(cpu_us) = report.server_cpu_us_per_message() {
            metrics.push(lower("server_cpu", cpu_us, Unit::Microseconds));
        }
        let verdict = &report.verdict;
        metrics.push(Metric::faults(&name("lost"), report.lost()));
        metrics.push(Metric::faults(&name("duplicated"), verdict.duplicates));
        metrics.push(Metric::count(&name("reordered"), verdict.out_of_order));
        metrics.push(Metric::faults(&name("failed"), report.count(Count::FailedRequests)));
        metrics.push(Metric::count(&name("messages"), report.count(report.headline())));
    }
    metrics
}

/// The rates beside one another, what they cost, and the verdict on every message.
pub(crate) fn section(all: &[Measured], plan: &Plan) -> Section {
    let delay = match plan.delay {
        Duration::ZERO => String::new(),
        delay => format!(" over a round trip of {} ms", delay.as_millis()),
    };
    Section {
        id: "pc".to_owned(),
        title: "Producers and consumers".to_owned(),
        question: format!(
            "How many messages of {} bytes go through one queue, with {} producers and {} \
             consumers a process{delay}, and what do they cost?",
            plan.size, plan.producers, plan.consumers
        ),
        finding: finding(all),
        charts: vec![rates_chart(all), seconds_chart(all)],
        tables: vec![rates_table(all, plan.price), verdict_table(all), seconds_table(all)],
        notes: notes(all),
        ..Section::default()
    }
}

fn finding(all: &[Measured]) -> String {
    let parts: Vec<String> = all
        .iter()
        .map(|one| format!("{}: {} messages/s", one.name, thousands(one.report.rate())))
        .collect();
    let lost: u64 = all.iter().map(|one| one.report.lost()).sum();
    let lost = if lost == 0 { "none was lost".to_owned() } else { format!("{lost} were lost") };
    format!("{}; {lost}.", parts.join("; "))
}

fn batch_gain(all: &[Measured]) -> Vec<Expectation> {
    let of = |id: &str| all.iter().find(|one| one.id == id).map(|one| one.report.rate());
    let (Some(single), Some(batch)) = (of("single"), of("batch")) else { return Vec::new() };
    vec![gain("batches of ten against singles: at least 3.5 times", batch / single.max(1e-9), 3.5)]
}

/// An expectation that a ratio reaches a least value.
pub(crate) fn gain(expected: &str, ratio: f64, least: f64) -> Expectation {
    Expectation {
        expected: expected.to_owned(),
        measured: format!("{ratio:.2} times"),
        holds: ratio >= least,
    }
}

fn rates_chart(all: &[Measured]) -> Chart {
    let bars = all.iter().map(|one| Bar {
        label: one.name.clone(),
        value: one.report.rate(),
        text: format!("{}/s", thousands(one.report.rate())),
        series: "through the queue".to_owned(),
    });
    Chart::Bars {
        title: "Messages through the queue".to_owned(),
        axis: Axis::linear("messages/s"),
        bars: bars.collect(),
    }
}

fn seconds_chart(all: &[Measured]) -> Chart {
    let series = all.iter().map(|one| {
        let seconds = one.report.seconds.iter().enumerate();
        let points = seconds
            .map(|(index, counts)| ((index + 1) as f64, counts[Count::Deleted as usize] as f64));
        Series::line(&one.name, points.collect())
    });
    Chart::Lines {
        title: "Second by second".to_owned(),
        x: Axis::linear("second"),
        y: Axis::linear("messages/s"),
        series: series.collect(),
        marks: Vec::new(),
    }
}

fn rates_table(all: &[Measured], price: f64) -> Table {
    let mut table = Table::new(
        "",
        &[
            "run",
            "#messages/s",
            "#requests/s",
            "#requests a message",
            "#$ a million",
            "#send p50",
            "#send p99",
            "#end to end p50",
            "#client CPU",
            "#server CPU",
        ],
    );
    for Measured { name, report, .. } in all {
        let per_message = report.requests_per_message();
        let send = report.percentiles(Verb::Send);
        let through = report.percentiles(Verb::EndToEnd);
        let cpu = report.server_cpu_us_per_message();
        table.row([
            name.clone(),
            thousands(report.rate()),
            thousands(report.per_second(Count::Requests)),
            format!("{per_message:.2}"),
            format!("{:.2}", per_message * price),
            microseconds(send.p50_us),
            microseconds(send.p99_us),
            microseconds(through.p50_us),
            format!("{:.1} µs", report.own_cpu_us_per_message()),
            cpu.map_or("–".to_owned(), |cpu_us| format!("{cpu_us:.1} µs")),
        ]);
    }
    table
}

fn verdict_table(all: &[Measured]) -> Table {
    let mut table = Table::new(
        "Every message",
        &[
            "run",
            "#acknowledged",
            "#received",
            "#deleted",
            "#lost",
            "#duplicated",
            "#reordered",
            "#failed requests",
        ],
    );
    for Measured { name, report, .. } in all {
        let verdict = &report.verdict;
        let counts = [
            verdict.acknowledged,
            verdict.received,
            verdict.deleted,
            report.lost(),
            verdict.duplicates,
            verdict.out_of_order,
            report.count(Count::FailedRequests),
        ];
        let counts = counts.map(|count| thousands(count as f64));
        table.row(std::iter::once(name.clone()).chain(counts));
    }
    table
}

fn seconds_table(all: &[Measured]) -> Table {
    let mut table = Table::new(
        "Second by second",
        &["run", "#second", "#sent", "#received", "#deleted", "#requests"],
    );
    table.is_long = true;
    for Measured { name, report, .. } in all {
        for (index, counts) in report.seconds.iter().enumerate() {
            let of = |count: Count| counts[count as usize].to_string();
            table.row([
                name.clone(),
                (index + 1).to_string(),
                of(Count::Sent),
                of(Count::Received),
                of(Count::Deleted),
                of(Count::Requests),
            ]);
        }
    }
    table
}

fn notes(all: &[Measured]) -> Vec<String> {
    let mut notes = vec![
        "Counted are messages that were received and deleted. Dollars are requests at a list \
         price. CPU is that of a message, user and system."
            .to_owned(),
    ];
    if all.iter().any(|one| !one.report.is_ordered() && one.report.verdict.out_of_order > 0) {
        notes.push("A standard queue promises no order: reordered is for information.".to_owned());
    }
    let first_error = all.iter().find_map(|one| one.report.first_error.clone());
    notes.extend(first_error.map(|error| format!("The first error: {error}")));
    notes
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
        assert_eq!(duration("20m").unwrap(), Duration::from_secs(1200));
    }
}
