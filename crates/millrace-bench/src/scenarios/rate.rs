//! `rate`: latency at a rate that does not wait for answers.
//!
//! A closed loop stops sending while the server stalls, and so measures the stall once. Here
//! requests are planned, and each one's latency counts from when it was due. `--find-max` looks
//! for the highest rate that keeps an objective.

use std::time::Duration;

use anyhow::Result;
use clap::Args;

use super::{
    Findings, Flags, Setting, conduct,
    setting::{duration, positive},
};
use crate::{
    load::{self, Count, Mode, Percentiles, Scenario, Shape, Verb},
    report::{
        Axis, Chart, Limit, Metric, Scale, Section, Series, Style, Table, microseconds, thousands,
    },
    statistics::curve,
};

#[derive(Args, Clone, Debug)]
pub(crate) struct Steps {
    /// Messages a second, one run for each
    #[arg(long, value_name = "PER SECOND", value_delimiter = ',', default_value = "100,1000", value_parser = positive)]
    pub(crate) rate: Vec<f64>,
    /// Look for the highest rate that keeps the objective, from the first --rate on
    #[arg(long)]
    pub(crate) find_max: bool,
    /// The objective of --find-max
    #[arg(long, value_name = "LIMIT", default_value = "p99<50ms")]
    pub(crate) slo: Limit,
    /// Connections that requests are spread over
    #[arg(long, value_name = "NUMBER", default_value_t = 64)]
    pub(crate) conns: usize,
    /// Messages of a request. SQS takes 10, IronMQ 100
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(crate) batch: u64,
    /// Bytes of a message's body
    #[arg(long, value_name = "BYTES", default_value_t = 1024)]
    pub(crate) size: usize,
    /// Time to measure at each rate, before scaling
    #[arg(long = "step-duration", default_value = "60s", value_parser = duration)]
    pub(crate) duration: Duration,
}

/// What was measured at a rate.
struct Step {
    rate: f64,
    report: load::Report,
}

const WARM_UP: Duration = Duration::from_secs(2);
const DURATION_LEAST: Duration = Duration::from_secs(1);
/// A rate counts as kept if so much of it was sent.
const KEPT: f64 = 0.98;
/// The search ends when the two sides are so close.
const CLOSE: f64 = 1.05;
const SEARCH_MAX: usize = 24;

pub(crate) fn run(flags: &Flags<Steps>) -> Result<()> {
    conduct("rate", &flags.options, |setting| findings(setting, &flags.plan))
}

pub(crate) fn findings(setting: &Setting, steps: &Steps) -> Result<Findings> {
    let (all, found) = if steps.find_max {
        let (all, found) = find_max(setting, steps)?;
        (all, Some(found))
    } else {
        let measured: Result<Vec<Step>> =
            steps.rate.iter().map(|rate| measure(setting, steps, *rate)).collect();
        (measured?, None)
    };
    let mut metrics = Vec::new();
    for step in &all {
        metrics.extend(step.metrics(&format!("rate.{:.0}", step.rate)));
    }
    metrics.extend(found.map(|rate| Metric::rate("rate.max", rate)));
    let section = Section {
        id: "rate".to_owned(),
        title: "Latency at a rate".to_owned(),
        question: format!(
            "How long does a send of {} bytes take when requests come by a schedule that waits \
             for nobody?",
            steps.size
        ),
        finding: finding(&all, found, &steps.slo),
        charts: vec![chart(&all)],
        tables: vec![table(&all)],
        notes: vec![
            "From the plan to the answer is what a user waits; from the request to the answer is \
             what a closed loop would have reported. Unsent are messages that were due and could \
             not be sent in time. A timer's own lateness, up to a millisecond, is left out."
                .to_owned(),
        ],
        ..Section::default()
    };
    let title = "Latency at a rate".to_owned();
    Ok(Findings { title, metrics, sections: vec![section], ..Findings::default() })
}

fn measure(setting: &Setting, steps: &Steps, rate: f64) -> Result<Step> {
    setting.progress.begin(&format!("rate {rate:.0}/s"));
    let scenario = Scenario {
        shape: Shape { batch: steps.batch, size_bytes: steps.size, ..Shape::default() },
        rate,
        warm_up: setting.lasting(WARM_UP, Duration::from_millis(300)),
        duration: setting.lasting(steps.duration, DURATION_LEAST),
        server_pid: setting.server_pid,
        progress: setting.progress.clone(),
        ..Scenario::new(Mode::Send, setting.endpoint.clone(), steps.conns.max(1))
    };
    Ok(Step { rate, report: load::run(&scenario)? })
}

/// Doubles the rate until the objective breaks, then halves the distance. Returns all that was
/// tried, by rate, and the highest rate that kept it; zero if none did.
fn find_max(setting: &Setting, steps: &Steps) -> Result<(Vec<Step>, f64)> {
    let mut all = Vec::new();
    let (mut kept, mut broken): (f64, Option<f64>) = (0.0, None);
    let mut rate = steps.rate.first().copied().unwrap_or(100.0);
    for _ in 0..SEARCH_MAX {
        let step = measure(setting, steps, rate)?;
        let is_kept = step.keeps(&steps.slo);
        let verdict = if is_kept { "kept" } else { "broken" };
        setting.progress.note(&format!("{rate:.0}/s: {} {verdict}", steps.slo));
        all.push(step);
        if is_kept {
            kept = rate
        } else {
            broken = Some(rate)
        }
        rate = match broken {
            None => rate * 2.0,
            Some(high) if kept == 0.0 => high / 2.0,
            Some(high) if high / kept <= CLOSE => break,
            Some(high) => (high * kept).sqrt(),
        };
        if rate < 1.0 {
            break;
        }
    }
    all.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    Ok((all, kept))
}

impl Step {
    fn planned(&self) -> Percentiles {
        self.report.percentiles(Verb::Send)
    }

    /// Messages that were due in the measured time and not sent.
    fn unsent(&self) -> u64 {
        let due = self.rate * self.report.elapsed.as_secs_f64();
        (due - self.report.count(Count::Sent) as f64).max(0.0) as u64
    }

    fn keeps(&self, slo: &Limit) -> bool {
        slo.holds_for(&self.metrics("")) && self.report.rate() >= self.rate * KEPT
    }

    fn metrics(&self, front: &str) -> Vec<Metric> {
        let name = |rest: &str| format!("{front}.{rest}");
        let (planned, service) = (self.planned(), self.report.percentiles(Verb::Service));
        vec![
            Metric::rate(&name("achieved"), self.report.rate()),
            Metric::latency(&name("p50"), planned.p50_us),
            Metric::latency(&name("p90"), planned.p90_us),
            Metric::latency(&name("p99"), planned.p99_us),
            Metric::latency(&name("p99.9"), planned.p999_us),
            Metric::latency(&name("max"), planned.max_us),
            Metric::latency(&name("service_p99"), service.p99_us),
            Metric::faults(&name("unsent"), self.unsent()),
            Metric::faults(&name("failed"), self.report.count(Count::FailedRequests)),
        ]
    }
}

fn finding(all: &[Step], found: Option<f64>, slo: &Limit) -> String {
    if let Some(rate) = found {
        return match rate {
            0.0 => format!("No rate that was tried keeps {slo}."),
            rate => format!("Up to {} messages/s keep {slo}.", thousands(rate)),
        };
    }
    let parts = all.iter().map(|step| {
        let planned = step.planned();
        format!(
            "at {}/s the median is {} and 99.9 % are within {}",
            thousands(step.rate),
            microseconds(planned.p50_us),
            microseconds(planned.p999_us)
        )
    });
    let text = parts.collect::<Vec<_>>().join("; ");
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).chain(['.']).collect()
}

fn chart(all: &[Step]) -> Chart {
    let points = |step: &Step, verb| -> Vec<(f64, f64)> {
        let curve = curve(step.report.latencies.histogram(verb)).into_iter();
        curve.map(|(quantile, ns)| (quantile, ns / 1e6)).collect()
    };
    let mut series: Vec<Series> = all
        .iter()
        .map(|step| Series::line(&format!("{}/s", thousands(step.rate)), points(step, Verb::Send)))
        .collect();
    if let Some(last) = all.last() {
        let name = format!("{}/s, from request to answer", thousands(last.rate));
        let service = Series::line(&name, points(last, Verb::Service));
        series.push(Series { style: Style::Theory, ..service });
    }
    Chart::Lines {
        title: "From plan to answer, by share of requests".to_owned(),
        x: Axis { label: "share of requests".to_owned(), scale: Scale::Nines },
        y: Axis::logarithmic("ms"),
        series,
        marks: Vec::new(),
    }
}

fn table(all: &[Step]) -> Table {
    let mut table = Table::new(
        "",
        &[
            "#planned/s",
            "#sent/s",
            "#unsent",
            "#p50",
            "#p90",
            "#p99",
            "#p99.9",
            "#p99.99",
            "#max",
            "#late p99",
            "#service p99",
        ],
    );
    for step in all {
        let (planned, report) = (step.planned(), &step.report);
        table.row([
            thousands(step.rate),
            thousands(report.rate()),
            thousands(step.unsent() as f64),
            microseconds(planned.p50_us),
            microseconds(planned.p90_us),
            microseconds(planned.p99_us),
            microseconds(planned.p999_us),
            microseconds(planned.p9999_us),
            microseconds(planned.max_us),
            microseconds(report.percentiles(Verb::Late).p99_us),
            microseconds(report.percentiles(Verb::Service).p99_us),
        ]);
    }
    table
}
