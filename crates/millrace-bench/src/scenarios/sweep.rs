//! `sweep`: how throughput grows with clients or processes, and where it stops growing.
//!
//! The universal scalability law is fitted to the points, so that the report can say how much of
//! the work is serial and beyond how many clients more of them make it slower.

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use millrace_process::parse_duration;

use super::{
    Findings, Flags, Setting, conduct,
    parts::Parts,
    pc::{self, Cast, Plan},
    setting::defaults,
    values::{body_size, distinct},
};
use crate::{
    load::{self, Verb},
    report::{Axis, Better, Chart, Mark, Metric, Section, Series, Style, Table, Unit, thousands},
    statistics::{Law, fit},
};

#[derive(Args, Clone, Debug)]
pub(crate) struct Steps {
    /// Clients of each point, all in one process
    #[arg(long, value_name = "NUMBER", value_delimiter = ',', default_value = "1,2,4,8,16,32,64", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(crate) clients: Vec<u64>,
    /// Processes of each point instead, with 8 clients each
    #[arg(long, value_name = "NUMBER", value_delimiter = ',', conflicts_with = "nodes", value_parser = clap::value_parser!(u64).range(1..=256))]
    pub(crate) procs: Vec<u64>,
    /// One more of these nodes at each point instead, with 8 clients each
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',')]
    pub(crate) nodes: Vec<String>,
    /// What a client does
    #[arg(long, value_enum, default_value = "send")]
    pub(crate) operation: Operation,
    /// Messages of a request. SQS takes 10, IronMQ 100
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(crate) batch: u64,
    /// Bytes of a message's body
    #[arg(long, value_name = "SIZE", default_value = "1024", value_parser = body_size)]
    pub(crate) size: usize,
    /// Time to measure at each point, before scaling
    #[arg(long = "step-duration", default_value = "20s", value_parser = parse_duration)]
    pub(crate) duration: Duration,
    /// Add a round-trip time to every request
    #[arg(long, default_value = "0s", value_parser = parse_duration)]
    pub(crate) delay: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Operation {
    /// Send
    Send,
    /// Send, or receive and delete: two consumers to each producer
    Pc,
}

/// What was measured with so many clients, processes or nodes.
struct Point {
    count: u64,
    report: load::Report,
}

const CLIENTS_OF_PROCESS: usize = 8;
const WARM_UP: Duration = Duration::from_secs(2);

pub(crate) fn run(flags: &Flags<Steps>) -> Result<()> {
    let plan = &flags.plan;
    flags.options.peer.check(plan.batch, false)?;
    distinct("--clients", &plan.clients)?;
    distinct("--procs", &plan.procs)?;
    flags.options.check_nodes(&plan.nodes)?;
    conduct("sweep", &flags.options, |setting| findings(setting, &flags.plan))
}

pub(crate) fn findings(setting: &Setting, steps: &Steps) -> Result<Findings> {
    let (what, parts) = points(setting, steps)?;
    let points = &parts.all;
    let law = fit(&rates(points));
    let mut metrics = Vec::new();
    for Point { count, report } in points {
        metrics.push(Metric::rate(&format!("sweep.{count}.rate"), report.rate()));
        let p99_us = report.percentiles(Verb::Send).p99_us;
        metrics.push(Metric::latency(&format!("sweep.{count}.send.p99"), p99_us));
    }
    if let Some(law) = law {
        let ratio = |name, value| Metric::new(name, value, Unit::Ratio, Better::Lower);
        metrics.push(ratio("sweep.serial", law.sigma));
        metrics.push(ratio("sweep.agreeing", law.kappa));
    }
    let section = Section {
        id: "sweep".to_owned(),
        title: "Scaling".to_owned(),
        question: format!("How does throughput grow with {what}?"),
        finding: finding(what, points, law),
        charts: vec![chart(what, points, law)],
        tables: vec![table(what, points)],
        notes: vec![
            "Efficiency is the rate against so many times the first point's. The law is fitted by \
             least squares of relative errors."
                .to_owned(),
        ],
        ..Section::default()
    };
    let violations = points.iter().flat_map(|point| pc::violations(&point.report)).collect();
    let recordings =
        points.iter().flat_map(|point| point.report.recordings(&format!("sweep.{}", point.count)));
    let mut findings = Findings {
        title: format!("Scaling with {what}"),
        metrics,
        sections: vec![section],
        recordings: recordings.collect(),
        violations,
        ..Findings::default()
    };
    findings.note_failure(&parts);
    Ok(findings)
}

fn points(setting: &Setting, steps: &Steps) -> Result<(&'static str, Parts<Point>)> {
    let usual: Plan = defaults()?;
    let plan = |clients: usize| Plan {
        producers: clients,
        consumers: if steps.operation == Operation::Pc { clients * 2 } else { 0 },
        size: steps.size,
        duration: steps.duration,
        warm_up: WARM_UP,
        delay: steps.delay,
        ..usual.clone()
    };
    let nodes = steps.nodes.as_slice();
    let (what, counts): (_, Vec<u64>) = match (steps.procs.as_slice(), nodes) {
        ([], []) => ("clients", steps.clients.clone()),
        (counts, []) => ("processes", counts.to_vec()),
        (_, nodes) => ("nodes", (1..=nodes.len() as u64).collect()),
    };
    let parts = Parts::measure(&setting.progress, counts, |count| {
        setting.progress.begin(&format!("sweep {count} {what}"));
        let number = count as usize;
        let (plan, cast) = match what {
            "clients" => (plan(number), Cast::Alone),
            "processes" => (plan(CLIENTS_OF_PROCESS), Cast::Processes(number)),
            _ => (plan(CLIENTS_OF_PROCESS), Cast::Nodes(nodes.get(..number).unwrap_or(nodes))),
        };
        let report = pc::measure(setting, &plan, steps.batch, &cast)?;
        Ok(Point { count, report })
    })?;
    Ok((what, parts))
}

fn rates(points: &[Point]) -> Vec<(f64, f64)> {
    points.iter().map(|point| (point.count as f64, point.report.rate())).collect()
}

fn finding(what: &str, points: &[Point], law: Option<Law>) -> String {
    let best = points.iter().max_by(|a, b| a.report.rate().total_cmp(&b.report.rate()));
    let Some(best) = best else { return String::new() };
    let mut text =
        format!("Most, {} messages/s, with {} {what}.", thousands(best.report.rate()), best.count);
    if let Some(law) = law {
        if law.sigma >= 1.0 {
            return text + &format!(" More than one of the {what} gain nothing.");
        }
        text += &format!(" {:.1} % of the work is serial", law.sigma * 100.0);
        text += &match law.peak() {
            Some(peak) if peak < 1e5 => format!("; beyond {peak:.0} {what} the rate would fall."),
            _ => format!("; more {what} do not make it slower."),
        };
    }
    text
}

fn chart(what: &str, points: &[Point], law: Option<Law>) -> Chart {
    let rates = rates(points);
    let most = rates.iter().map(|(clients, _)| *clients).fold(1.0, f64::max);
    let highest = rates.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    let mut series = vec![Series { style: Style::Dots, ..Series::line("measured", rates.clone()) }];
    let theory = |name: &str, points| Series { style: Style::Theory, ..Series::line(name, points) };
    let steps = || (0..=60).map(|step| 1.0 + (most - 1.0) * f64::from(step) / 60.0);
    let mut marks = Vec::new();
    if let Some(law) = law {
        series.push(theory("scalability law", steps().map(|n| (n, law.at(n))).collect()));
        let peak = law.peak().filter(|peak| *peak <= most);
        marks.extend(peak.map(|x| Mark { x, label: format!("most at {x:.0}") }));
    }
    if let Some((first, rate)) = rates.first() {
        let linear = |n: f64| rate / first * n;
        let shown = steps().map(|n| (n, linear(n))).filter(|(_, rate)| *rate <= highest * 1.15);
        series.push(theory("linear", shown.collect()));
    }
    Chart::Lines {
        title: format!("Throughput by {what}"),
        x: Axis::linear(what),
        y: Axis::linear("messages/s"),
        series,
        marks,
    }
}

fn table(what: &str, points: &[Point]) -> Table {
    let mut table = Table::new(
        "",
        &[
            &format!("#{what}"),
            "#messages/s",
            "#efficiency",
            "#send p50",
            "#send p99",
            "#client CPU",
            "#server CPU",
        ],
    );
    let each = points.first().map_or(1.0, |first| first.report.rate() / first.count as f64);
    for Point { count, report } in points {
        let send = report.percentiles(Verb::Send);
        let [own_cpu, server_cpu] = report.shown_cpu();
        table.row([
            count.to_string(),
            thousands(report.rate()),
            format!("{:.2}", report.rate() / (each * *count as f64).max(1e-9)),
            send.shown(send.p50_us),
            send.shown(send.p99_us),
            own_cpu,
            server_cpu,
        ]);
    }
    table
}
