//! `rate`: latency at a rate that does not wait for answers.
//!
//! A closed loop stops sending while the server stalls, and so measures the stall once. Here
//! requests are planned, and each one's latency counts from when it was due. Rate, sizes and
//! handlers may change by stages, or `--find-max` looks for the highest one that keeps an
//! objective.

mod section;

use std::{str::FromStr, time::Duration};

use anyhow::{Result, bail};
use clap::Args;
use millrace_process::parse_duration;
pub(super) use section::{chart, finding, table};

use super::{
    Findings, Flags, Setting, conduct, names,
    parts::Parts,
    pc::violations,
    values::{body_size, clients, distinct, positive},
};
use crate::{
    load::{self, Count, Latencies, Mode, Pace, Percentiles, Scenario, Shape, Verb},
    report::{Limit, Metric, thousands},
};

#[derive(Args, Clone, Debug)]
pub(crate) struct Steps {
    /// Messages a second, one run for each
    #[arg(long, value_name = "PER SECOND", value_delimiter = ',', default_value = "100,1000", value_parser = positive)]
    pub(crate) rate: Vec<f64>,
    /// One run by stages instead, such as 100/s:60s,1000/s:10s:size=10KiB:delay=50ms. A stage has a
    /// rate and a time (before scaling), and may have bodies of another size and a delay for which
    /// consumers handle each message
    #[arg(long, value_name = "STAGES", value_delimiter = ',', conflicts_with_all = ["rate", "find_max"])]
    pub(crate) stage: Vec<Stage>,
    /// Look for the highest rate that keeps the objective, from the first --rate on
    #[arg(long)]
    pub(crate) find_max: bool,
    /// The objective of --find-max
    #[arg(long, value_name = "LIMIT", default_value = "p99<50ms", requires = "find_max")]
    pub(crate) slo: Limit,
    /// Consumers that receive and delete meanwhile; without any, the queue grows
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub(crate) consumers: usize,
    /// Connections that requests are spread over
    #[arg(long, value_name = "NUMBER", default_value_t = 64, value_parser = clients())]
    pub(crate) conns: usize,
    /// Messages of a request. SQS takes 10, IronMQ 100
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(crate) batch: u64,
    /// Bytes of a message's body
    #[arg(long, value_name = "SIZE", default_value = "1024", value_parser = body_size)]
    pub(crate) size: usize,
    /// Time to measure at each rate, before scaling
    #[arg(long = "step-duration", default_value = "60s", value_parser = parse_duration)]
    pub(crate) duration: Duration,
}

/// A stage, as a flag has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stage(load::Stage);

/// What was measured at a rate.
pub(super) struct Step {
    /// In names of metrics.
    pub(super) id: String,
    pub(super) name: String,
    /// As planned; zero in a closed loop.
    pub(super) rate: f64,
    pub(super) elapsed: Duration,
    /// Messages of a request.
    pub(super) batch: u64,
    /// Messages, or requests, that were accepted.
    pub(super) sent: u64,
    /// Where it was one of several, with the size of its bodies.
    pub(super) stage: Option<load::Stage>,
    /// From the plan to the answer as of sends, of all that was due.
    pub(super) latencies: Latencies,
}

/// A run, and the rates that it had one after the other.
struct Measured {
    steps: Vec<Step>,
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
    flags.options.peer.check(flags.plan.batch, false)?;
    names::check("rate", [&flags.plan.slo])?;
    distinct("--rate", &flags.plan.rate)?;
    conduct("rate", &flags.options, |setting| findings(setting, &flags.plan))
}

pub(crate) fn findings(setting: &Setting, steps: &Steps) -> Result<Findings> {
    let has_handler = |Stage(stage): &Stage| !stage.handler.is_zero();
    if steps.consumers == 0 && steps.stage.iter().any(has_handler) {
        bail!("a stage has a delay, but nobody handles messages: --consumers is 0");
    }
    let (parts, found) = if steps.find_max {
        let (parts, found) = find_max(setting, steps)?;
        (parts, Some(found))
    } else if !steps.stage.is_empty() {
        (Parts::measure(&setting.progress, [()], |()| by_stages(setting, steps))?, None)
    } else {
        let at_rate = |rate: &f64| at_rate(setting, steps, *rate);
        (Parts::measure(&setting.progress, &steps.rate, at_rate)?, None)
    };
    let all = &parts.all;
    let mut metrics = Vec::new();
    let (mut recordings, mut faults) = (Vec::new(), Vec::new());
    for step in all.iter().flat_map(|measured| &measured.steps) {
        metrics.extend(step.metrics(&format!("rate.{}", step.id)));
    }
    for Measured { steps, report } in all {
        // Of a run by stages, what is known of all of them together.
        let front = match steps.as_slice() {
            [step] => format!("rate.{}", step.id),
            _ => "rate.stages".to_owned(),
        };
        let failed = Metric::faults(&format!("{front}.failed"), report.failed());
        // A search is there to go too far.
        if found.is_none_or(|found| steps.iter().all(|step| step.rate <= found)) {
            faults.push(failed.clone());
            let overload = |step: &Step| step.overload(&format!("rate.{}", step.id));
            faults.extend(steps.iter().filter_map(overload));
        }
        metrics.push(failed);
        if report.percentiles(Verb::EndToEnd).count > 0 {
            metrics.push(Metric::faults(&format!("{front}.lost"), report.lost()));
        }
        let mut began = report.began;
        for step in steps {
            let front = format!("rate.{}", step.id);
            recordings.extend(step.latencies.recordings(&front, began, step.elapsed));
            began += step.elapsed;
        }
    }
    metrics.extend(found.map(|rate| Metric::rate("rate.max", rate)));
    let mut findings = Findings {
        title: "Latency at a rate".to_owned(),
        metrics,
        sections: vec![section::section(all, found, steps)],
        recordings,
        warnings: all.iter().filter_map(Measured::warning).collect(),
        faults,
        violations: all.iter().flat_map(|measured| violations(&measured.report)).collect(),
    };
    findings.note_failure(&parts);
    Ok(findings)
}

fn at_rate(setting: &Setting, steps: &Steps, rate: f64) -> Result<Measured> {
    let duration = setting.lasting(steps.duration, DURATION_LEAST);
    let report = measure(setting, steps, Pace::constant(rate), duration)?;
    let step = Step {
        id: rate.to_string(),
        name: format!("{rate}/s"),
        rate,
        elapsed: report.elapsed,
        batch: steps.batch,
        sent: report.count(Count::Sent),
        stage: None,
        latencies: report.latencies.clone(),
    };
    Ok(Measured { steps: vec![step], report })
}

fn by_stages(setting: &Setting, steps: &Steps) -> Result<Measured> {
    let scaled = |Stage(stage): &Stage| load::Stage {
        duration: setting.lasting(stage.duration, DURATION_LEAST),
        ..*stage
    };
    let stages: Vec<load::Stage> = steps.stage.iter().map(scaled).collect();
    let duration = stages.iter().map(|stage| stage.duration).sum();
    let mut report = measure(setting, steps, Pace::by_stages(&stages), duration)?;
    if report.stages.is_empty() {
        report.stages.push(report.latencies.clone());
    }
    let mut left = report.elapsed;
    // Of a run that was ended early, not all stages, and not the whole of the last.
    let step = |((number, stage), latencies): ((usize, &load::Stage), &Latencies)| {
        let elapsed = stage.duration.min(left);
        left -= elapsed;
        (!elapsed.is_zero()).then(|| Step {
            id: format!("stage{number}"),
            name: format!("stage {number}, {}/s", stage.rate),
            stage: Some(load::Stage {
                size_bytes: stage.size_bytes.or(Some(steps.size)),
                ..*stage
            }),
            rate: stage.rate,
            elapsed,
            batch: steps.batch,
            sent: accepted(latencies, steps.batch),
            latencies: latencies.clone(),
        })
    };
    let steps = (1..).zip(&stages).zip(&report.stages).filter_map(step).collect();
    Ok(Measured { steps, report })
}

/// Messages that got in, of all that were due.
fn accepted(latencies: &Latencies, batch: u64) -> u64 {
    let count = |verb| latencies.percentiles(verb).count;
    ((count(Verb::Send) - count(Verb::Unsent)) * batch).saturating_sub(count(Verb::Failed))
}

fn measure(
    setting: &Setting,
    steps: &Steps,
    pace: Pace,
    duration: Duration,
) -> Result<load::Report> {
    setting.progress.begin("rate");
    load::run(&Scenario {
        shape: Shape { batch: steps.batch, size_bytes: steps.size, ..Shape::default() },
        pace,
        consumers: steps.consumers,
        // A schedule waits for nobody, for consumers neither.
        backlog_max: 0,
        warm_up: setting.lasting(WARM_UP, Duration::from_millis(300)),
        duration,
        server_pid: setting.server_pid,
        progress: setting.progress.clone(),
        ..Scenario::new(Mode::Send, setting.endpoint.clone(), steps.conns)
    })
}

/// Doubles the rate until the objective breaks, then halves the distance. Returns all that was
/// tried, by rate, and the highest rate that kept it; zero if none did.
fn find_max(setting: &Setting, steps: &Steps) -> Result<(Parts<Measured>, f64)> {
    let mut parts = Parts::new();
    let (mut kept, mut broken): (f64, Option<f64>) = (0.0, None);
    let mut rate = steps.rate.first().copied().unwrap_or(100.0);
    for _ in 0..SEARCH_MAX {
        let tried = parts.all.len();
        let goes_on = parts.add(&setting.progress, at_rate(setting, steps, rate))?;
        let Some(measured) = parts.all.get(tried) else { break };
        let is_kept = measured.steps.iter().all(|step| step.keeps(&steps.slo));
        let verdict = if is_kept { "kept" } else { "broken" };
        setting.progress.note(&format!("{rate}/s: {} {verdict}", steps.slo));
        if is_kept {
            kept = rate
        } else {
            broken = Some(rate)
        }
        rate = match broken {
            None => rate * 2.0,
            Some(high) if kept == 0.0 => rounded(high / 2.0),
            Some(high) if high / kept <= CLOSE => break,
            Some(high) => rounded((high * kept).sqrt()),
        };
        if rate < 1.0 || !goes_on {
            break;
        }
    }
    let rate = |measured: &Measured| measured.steps.first().map_or(0.0, |step| step.rate);
    parts.all.sort_by(|a, b| rate(a).total_cmp(&rate(b)));
    Ok((parts, kept))
}

/// A rate that reads as it is measured.
fn rounded(rate: f64) -> f64 {
    if rate < 100.0 { (rate * 100.0).round() / 100.0 } else { rate.round() }
}

impl Measured {
    /// What a reader of percentiles has to know.
    fn warning(&self) -> Option<String> {
        let failed = self.report.failed();
        (failed > 0).then(|| {
            format!(
                "{}: {} requests failed; sends among them count as if they had waited until the end.",
                self.name(),
                thousands(failed as f64)
            )
        })
    }

    fn name(&self) -> &str {
        match self.steps.as_slice() {
            [step] => step.name.as_str(),
            _ => "by stages",
        }
    }
}

impl Step {
    fn planned(&self) -> Percentiles {
        self.latencies.percentiles(Verb::Send)
    }

    /// Messages a second that were sent.
    fn achieved(&self) -> f64 {
        self.sent as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// Messages that were due in the measured time, were sent, and did not get in.
    fn failed(&self) -> u64 {
        self.latencies.percentiles(Verb::Failed).count
    }

    /// Messages that were due while it was measured and never sent. What was refused was sent.
    fn unsent(&self) -> u64 {
        self.latencies.percentiles(Verb::Unsent).count * self.batch
    }

    /// The unsent messages, if they are the most of those that were due: then latencies are those of
    /// another rate than the one that was asked for.
    pub(super) fn overload(&self, front: &str) -> Option<Metric> {
        let (unsent, sent) = (self.unsent(), self.sent + self.failed());
        (unsent > sent).then(|| Metric::faults(&format!("{front}.unsent"), unsent))
    }

    fn keeps(&self, slo: &Limit) -> bool {
        slo.holds_for(&self.metrics("")) && self.achieved() >= self.rate * KEPT
    }

    pub(super) fn metrics(&self, front: &str) -> Vec<Metric> {
        let name = |rest: &str| format!("{front}.{rest}");
        let planned = self.planned();
        let mut metrics = vec![
            Metric::rate(&name("achieved"), self.achieved()),
            Metric::latency(&name("p50"), planned.p50_us),
            Metric::latency(&name("p90"), planned.p90_us),
            Metric::latency(&name("p99"), planned.p99_us),
            Metric::latency(&name("p99.9"), planned.p999_us),
            Metric::latency(&name("max"), planned.max_us),
        ];
        for (verb, word) in [(Verb::Service, "service_p99"), (Verb::EndToEnd, "end_to_end_p99")] {
            let found = self.latencies.percentiles(verb);
            if found.count > 0 {
                metrics.push(Metric::latency(&name(word), found.p99_us));
            }
        }
        if let Some(received) = self.received() {
            metrics.push(Metric::rate(&name("received"), received));
        }
        metrics.push(Metric::faults(&name("unsent"), self.unsent()));
        metrics
    }

    /// Messages a second that were received for the first time, where anybody receives.
    fn received(&self) -> Option<f64> {
        let count = self.latencies.percentiles(Verb::EndToEnd).count;
        (count > 0).then(|| count as f64 / self.elapsed.as_secs_f64().max(1e-9))
    }
}

/// Parses `100/s:60s`, `100/s:60s:size=10KiB`, `100/s:60s:size=10KiB:delay=50ms`.
impl FromStr for Stage {
    type Err = String;

    fn from_str(text: &str) -> Result<Stage, String> {
        let (rate, rest) = text
            .split_once("/s:")
            .ok_or_else(|| format!("{text} is not a stage such as 100/s:60s"))?;
        let mut parts = rest.split(':');
        let lasting =
            parse_duration(parts.next().unwrap_or_default()).map_err(|error| error.to_string())?;
        let mut stage = load::Stage::new(positive(rate)?, lasting);
        for part in parts {
            match part.split_once('=') {
                Some(("size", size)) => stage.size_bytes = Some(body_size(size)?),
                Some(("delay", delay)) => {
                    stage.handler = parse_duration(delay).map_err(|error| error.to_string())?
                }
                _ => return Err(format!("{part} is neither size=SIZE nor delay=DURATION")),
            }
        }
        Ok(Stage(stage))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_that_is_mostly_unsent_is_a_fault() {
        let step = |sent, unsent: u64| {
            let mut latencies = Latencies::new();
            (0..unsent).for_each(|_| latencies.record(Verb::Unsent, Duration::from_secs(1)));
            let (id, name, rate) = (String::new(), String::new(), 1.0);
            let elapsed = Duration::from_secs(1);
            Step { id, name, rate, elapsed, batch: 10, sent, stage: None, latencies }
        };

        assert_eq!(step(30, 3).overload("rate.1"), None);
        let fault = Metric::faults("rate.1.unsent", 30);
        assert_eq!(step(29, 3).overload("rate.1"), Some(fault));
        assert_eq!(step(0, 0).overload("rate.1"), None);
    }

    #[test]
    fn stages_are_a_rate_and_a_time_and_what_is_different_meanwhile() {
        let stage = load::Stage::new(1500.0, Duration::from_secs(90));
        let large = load::Stage { size_bytes: Some(10_240), ..stage };
        let slow = load::Stage { handler: Duration::from_millis(50), ..large };

        assert_eq!("1500/s:1.5m".parse(), Ok(Stage(stage)));
        assert_eq!("1500/s:90".parse(), Ok(Stage(stage)));
        assert_eq!("1500/s:1.5m:size=10KiB".parse(), Ok(Stage(large)));
        assert_eq!("1500/s:1.5m:size=10KB:delay=50ms".parse(), Ok(Stage(slow)));
        assert_eq!("1500/s:1.5m:delay=50ms:size=10KB".parse(), Ok(Stage(slow)));
        let wrong = ["100", "100/s", "100:60s", "0/s:60s", "100/s:60min", "100/s:", "100/s:1s:"];
        let more = ["1/s:1s:size", "1/s:1s:size=1", "1/s:1s:delay=5x", "1/s:1s:pause=5s"];
        for text in wrong.into_iter().chain(more) {
            assert!(text.parse::<Stage>().is_err(), "{text}");
        }
    }
}
