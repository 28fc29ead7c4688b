//! `ab`: is one endpoint quicker than another?
//!
//! Serial sends on one kept connection each, in blocks by turns (A B, B A, A B, …), so that
//! whatever else happens on the machine or the way happens to both. The verdict rests on
//! bootstrap intervals over pairs of blocks, not on two averages.

use std::{sync::Arc, time::Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use hdrhistogram::Histogram;
use millrace_core::Url;

use super::{Findings, Options, Setting, conduct, values::body_size};
use crate::{
    access::given_url,
    latency::Verb,
    live::{Event, Live},
    load::{
        Connection, Id, Mode, OwnQueue, Scenario, SendTemplate, Shape, histogram, is_success,
        nanoseconds, percentiles, refusal,
    },
    process,
    report::{
        Axis, Better, Chart, Metric, Recording, Scale, Section, Series, Table, Unit, microseconds,
    },
    statistics::{Block, Interval, curve, quantile_differences},
};

#[derive(Args, Clone, Debug)]
pub(crate) struct Flags {
    /// The first endpoint is --endpoint; this is the second
    #[arg(long, value_name = "URL")]
    pub(crate) versus: String,
    /// Blocks on each endpoint, before scaling
    #[arg(long, value_name = "NUMBER", default_value_t = 100, value_parser = clap::value_parser!(u64).range(BLOCKS_LEAST..))]
    pub(crate) blocks: u64,
    /// Sends of a block
    #[arg(long, value_name = "NUMBER", default_value_t = 180, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(crate) sends: u64,
    /// Bytes of a message's body
    #[arg(long, value_name = "SIZE", default_value = "1024", value_parser = body_size)]
    pub(crate) size: usize,
    #[command(flatten)]
    pub(crate) options: Options,
}

/// Fewer blocks give intervals that mean nothing.
const BLOCKS_LEAST: u64 = 10;
const RESAMPLES: usize = 2000;
/// Resampling is random; the same blocks are to give the same verdict.
const SEED: u64 = 7;
/// Less than that part of A's time is nothing that anybody would act on.
const WORTH: f64 = 0.02;
const QUANTILES: [(f64, &str); 4] = [(0.5, "p50"), (0.75, "p75"), (0.9, "p90"), (0.99, "p99")];

/// One endpoint: its queue, its connection, the request.
struct Side {
    url: Url,
    scenario: Scenario,
    connection: Connection,
    template: SendTemplate,
    sequence: u64,
    live: Option<Arc<Live>>,
    /// Deleted when this is dropped.
    _queue: OwnQueue,
}

pub(crate) fn run(flags: &Flags) -> Result<()> {
    conduct("ab", &flags.options, |setting| {
        let access = setting.access.clone();
        let url = given_url("--versus", &flags.versus)?;
        let other = setting.elsewhere(url, access, &setting.trust, None)?;
        findings(setting, &other, flags)
    })
}

fn findings(setting: &Setting, other: &Setting, flags: &Flags) -> Result<Findings> {
    let began = process::now();
    let blocks = measure(setting, other, flags)?;
    let quantiles = QUANTILES.map(|(quantile, _)| quantile);
    let (mut a, mut b) = (histogram(), histogram());
    for block in &blocks {
        // All have the same bounds.
        let _ = a.add(&block.a);
        let _ = b.add(&block.b);
    }
    let intervals = quantile_differences(&blocks, &quantiles, RESAMPLES, SEED);
    let found: Vec<Difference> = QUANTILES
        .iter()
        .zip(&intervals)
        .map(|((quantile, _), interval)| {
            Difference::judge(interval, a.value_at_quantile(*quantile) as f64)
        })
        .collect();
    let mut metrics = Vec::new();
    for (name, side) in [("a", &a), ("b", &b)] {
        let found = percentiles(side);
        metrics.push(Metric::latency(&format!("ab.{name}.p50"), found.p50_us));
        metrics.push(Metric::latency(&format!("ab.{name}.p99"), found.p99_us));
    }
    for ((_, name), interval) in QUANTILES.iter().zip(&intervals) {
        let difference = |part: &str, ns: f64| {
            let name = format!("ab.difference.{name}.{part}");
            Metric::new(&name, ns / 1000.0, Unit::Microseconds, Better::Neither)
        };
        metrics.push(difference("low", interval.low));
        metrics.push(difference("estimate", interval.estimate));
        metrics.push(difference("high", interval.high));
    }
    let section = Section {
        id: "ab".to_owned(),
        title: "A against B".to_owned(),
        question: format!(
            "Does a send of {} bytes take less time at A ({}) or at B ({})?",
            flags.size, setting.url, other.url
        ),
        finding: verdict(&intervals, &found),
        charts: vec![chart(&a, &b)],
        tables: vec![table(&a, &b, &intervals, &found)],
        notes: vec![format!(
            "{} pairs of blocks of {} sends, by turns. Intervals hold 95 % of {RESAMPLES} draws of \
             whole blocks. Less than 2 % is called no difference.",
            blocks.len(),
            flags.sends
        )],
        ..Section::default()
    };
    let recording = |(name, histogram)| Recording {
        tag: format!("ab.{name}.send"),
        began,
        elapsed: process::now().saturating_sub(began),
        histogram,
    };
    Ok(Findings {
        title: "A against B".to_owned(),
        metrics,
        sections: vec![section],
        recordings: [("a", a), ("b", b)].map(recording).into(),
        ..Findings::default()
    })
}

fn measure(setting: &Setting, other: &Setting, flags: &Flags) -> Result<Vec<Block>> {
    setting.progress.begin("ab");
    let count = setting.count(flags.blocks, BLOCKS_LEAST);
    let (mut a, mut b) = (Side::new(setting, flags.size)?, Side::new(other, flags.size)?);
    let runtime = crate::runtime::current_thread()?;
    runtime.block_on(setting.progress.unless_ended(async {
        // Warm-up: opens the connections.
        a.block(flags.sends, false).await?;
        b.block(flags.sends, false).await?;
        let mut blocks = Vec::new();
        for turn in 0..count {
            setting.progress.at(turn as f64 / count as f64, String::new);
            let block = if turn % 2 == 0 {
                let first = a.block(flags.sends, true).await?;
                Block { a: first, b: b.block(flags.sends, true).await? }
            } else {
                let first = b.block(flags.sends, true).await?;
                Block { a: a.block(flags.sends, true).await?, b: first }
            };
            blocks.push(block);
        }
        anyhow::Ok(blocks)
    }))
}

impl Side {
    fn new(setting: &Setting, size_bytes: usize) -> Result<Side> {
        let shape = Shape { size_bytes, ..Shape::default() };
        let scenario = Scenario::new(Mode::Latency, setting.endpoint.clone(), 1);
        let progress = setting.progress.clone();
        let scenario = Scenario { shape, progress, ..scenario };
        let created = scenario.create_queue()?;
        let queue = OwnQueue::new(&scenario.endpoint, created, &scenario.progress);
        let template = SendTemplate::new(&scenario.endpoint.dialect, &queue.name, shape);
        let connection = Connection::new(&scenario.endpoint);
        let live = setting.progress.live().if_watched();
        let url = setting.url.clone();
        Ok(Side { url, scenario, connection, template, sequence: 0, live, _queue: queue })
    }

    /// Sends one after the other, and what each took.
    async fn block(&mut self, sends: u64, is_measured: bool) -> Result<Histogram<u64>> {
        let (mut times, mut scratch) = (histogram(), Vec::new());
        for _ in 0..sends {
            self.template.patch(0, Id { run: 0, producer: 0, group: 0, sequence: self.sequence });
            self.sequence += 1;
            let start = Instant::now();
            let request = self.template.bytes(&self.scenario.endpoint.dialect, &mut scratch);
            let url = &self.url;
            let answer = self.connection.exchange(request).await;
            let (status, body) = answer.with_context(|| format!("sending to {url}"))?;
            if !is_success(status) {
                bail!("sending to {url}: {}", refusal(status, body));
            }
            let taken = start.elapsed();
            times.saturating_record(nanoseconds(taken));
            match &self.live {
                Some(live) if is_measured => {
                    live.answered(Verb::Send, taken, self.connection.take_events());
                    live.add(Event::Sent, 1);
                }
                Some(live) => live.warmed_up(self.connection.take_events()),
                None => {}
            }
        }
        Ok(times)
    }
}

/// What an interval says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Difference {
    None,
    A,
    B,
}

impl Difference {
    /// Of an interval of `b - a`, where A takes `a_ns`.
    fn judge(interval: &Interval, a_ns: f64) -> Difference {
        match interval.estimate {
            _ if !interval.is_sure() => Difference::None,
            estimate if estimate.abs() < a_ns * WORTH => Difference::None,
            estimate if estimate > 0.0 => Difference::A,
            _ => Difference::B,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Difference::None => "no difference",
            Difference::A => "A is quicker",
            Difference::B => "B is quicker",
        }
    }
}

/// By the median and the 90th percentile.
fn verdict(intervals: &[Interval], found: &[Difference]) -> String {
    let ([p50, _, p90, ..], [at_p50, _, at_p90, ..]) = (intervals, found) else {
        return String::new();
    };
    let by = |interval: &Interval| microseconds(interval.estimate.abs() / 1000.0);
    let part = |found: &Difference, interval: &Interval, place: &str| match found {
        Difference::None => format!("no difference {place}"),
        sure => format!("{} {place}, by {}", sure.name(), by(interval)),
    };
    if (at_p50, at_p90) == (&Difference::None, &Difference::None) {
        return "No difference that is worth naming and could be told from chance.".to_owned();
    }
    let median = part(at_p50, p50, "in the median");
    let high = part(at_p90, p90, "at the 90th percentile");
    format!("In a send: {median}; {high}.")
}

fn chart(a: &Histogram<u64>, b: &Histogram<u64>) -> Chart {
    let series = |name: &str, side: &Histogram<u64>| {
        let points = curve(side).into_iter().map(|(quantile, ns)| (quantile, ns / 1e6));
        Series::line(name, points.collect())
    };
    Chart::Lines {
        title: "Time of a send, by share of sends".to_owned(),
        x: Axis { label: "share of sends".to_owned(), scale: Scale::Nines },
        y: Axis::logarithmic("ms"),
        series: vec![series("A", a), series("B", b)],
        marks: Vec::new(),
    }
}

fn table(
    a: &Histogram<u64>,
    b: &Histogram<u64>,
    intervals: &[Interval],
    found: &[Difference],
) -> Table {
    let mut table = Table::new("", &["quantile", "#A", "#B", "#B − A", "#from", "#to", "verdict"]);
    let judged = intervals.iter().zip(found);
    for ((quantile, name), (interval, found)) in QUANTILES.iter().zip(judged) {
        let at = |side: &Histogram<u64>| side.value_at_quantile(*quantile) as f64;
        let shown = |ns: f64| microseconds(ns / 1000.0);
        table.row([
            (*name).to_owned(),
            shown(at(a)),
            shown(at(b)),
            shown(interval.estimate),
            shown(interval.low),
            shown(interval.high),
            found.name().to_owned(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(low: f64, estimate: f64, high: f64) -> Interval {
        Interval { low: low * 1e3, estimate: estimate * 1e3, high: high * 1e3 }
    }

    #[test]
    fn a_difference_is_sure_and_worth_naming() {
        let judge = |low, estimate, high| Difference::judge(&interval(low, estimate, high), 100e3);

        assert_eq!(judge(5.0, 10.0, 15.0), Difference::A);
        assert_eq!(judge(-15.0, -10.0, -5.0), Difference::B);
        assert_eq!(judge(-5.0, 10.0, 15.0), Difference::None);
        assert_eq!(judge(0.5, 1.0, 1.5), Difference::None);
    }

    #[test]
    fn the_verdict_tells_median_and_tail_apart() {
        let quicker = interval(5.0, 10.0, 15.0);
        let of = |p50, p90| verdict(&[quicker; 4], &[p50, Difference::None, p90, Difference::None]);

        assert!(of(Difference::None, Difference::None).starts_with("No difference"));
        assert_eq!(
            of(Difference::A, Difference::None),
            "In a send: A is quicker in the median, by 10.0 µs; no difference at the 90th \
             percentile."
        );
        assert!(of(Difference::A, Difference::B).contains("B is quicker at the 90th percentile"));
    }
}
