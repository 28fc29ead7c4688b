//! Target 4: a drain is as fast from the deepest backlog as from a small one.
//!
//! Each kind of queue is held against a small backlog of its own kind, and all against the ceiling.

use std::time::Duration;

use anyhow::Result;

use super::{
    bench::{Bench, ONLY_FULL, Scale},
    comparison::Comparison,
    row::Row,
    throughput::batches,
};
use crate::load::{Grouping, Mode, Scenario, Shape};
use crate::report::thousands;

/// The share of the ceiling that a drain must reach.
const SHARE: f64 = 0.4;
/// The share of a small backlog's rate that a deep one must reach.
const DEPTH_SHARE: f64 = 0.9;
/// Small drains take a fraction of a second: so many make one measurement.
const SMALL_DRAINS: u64 = 10;

/// What waits before a drain.
#[derive(Clone, Copy)]
struct Backlog {
    what: &'static str,
    count: u64,
    grouping: Grouping,
    groups: u32,
}

pub(crate) fn drains(bench: &mut Bench) -> Result<()> {
    let small_count = bench.pick(2_000, 10_000, 10_000);
    let small = standard(small_count);
    let found = drain(bench, small)?;
    let rate = found.rate();
    add(bench, small, &found, None);
    let deep = standard(bench.pick(10_000, 1_000_000, 1_000_000));
    let found = drain(bench, deep)?;
    add(bench, deep, &found, Some(rate));
    let deepest = standard(10_000_000);
    if bench.scale == Scale::Full {
        let found = drain(bench, deepest)?;
        add(bench, deepest, &found, Some(rate));
    } else {
        bench.faults.begin();
        bench.add(Row {
            target: "4",
            what: deepest.title(),
            measured: "not measured".to_owned(),
            goal: goal(Some(rate)),
            unjudged: ONLY_FULL.to_owned(),
            ..Row::default()
        });
    }

    let (fifo, fair) = (Grouping::Fifo, Grouping::Fair);
    let groups = bench.pick(500, 10_000, 10_000) as u32;
    let count = bench.pick(5_000, 216_000, 216_000);
    for deep in [
        Backlog { what: "FIFO, one group", count, grouping: fifo, groups: 1 },
        Backlog { what: "FIFO, many groups", count, grouping: fifo, groups },
        Backlog { what: "fair, many groups", count, grouping: fair, groups },
    ] {
        let small = deep.shrunk_to(small_count);
        let found = drain(bench, small)?;
        let rate = found.rate();
        add(bench, small, &found, None);
        let found = drain(bench, deep)?;
        add(bench, deep, &found, Some(rate));
    }
    Ok(())
}

impl Backlog {
    /// A smaller one with as many messages in each group, so that groups begin and end as often.
    fn shrunk_to(self, count: u64) -> Backlog {
        let groups = (u64::from(self.groups) * count / self.count.max(1)).max(1);
        Backlog { count, groups: groups as u32, ..self }
    }

    fn title(&self) -> String {
        let groups = if self.groups > 1 {
            format!(" ({})", thousands(f64::from(self.groups)))
        } else {
            String::new()
        };
        format!("drain {}, {}{groups}", thousands(self.count as f64), self.what)
    }
}

fn standard(count: u64) -> Backlog {
    Backlog { what: "standard", count, grouping: Grouping::None, groups: 0 }
}

/// Fills a queue and drains it, interleaved with the ceiling; small drains several times.
fn drain(bench: &mut Bench, backlog: Backlog) -> Result<Comparison> {
    let server = bench.server()?;
    let times = if backlog.count <= 10_000 { bench.pick(1, SMALL_DRAINS, SMALL_DRAINS) } else { 1 };
    let mut found = Comparison::default();
    for _ in 0..times {
        let more = bench.compare(&server, |bench, endpoint| {
            let scenario = batches(bench.scenario(Mode::Drain, endpoint, 8), 10);
            let shape = Shape { grouping: backlog.grouping, ..scenario.shape };
            Scenario { shape, groups: backlog.groups, count: backlog.count, ..scenario }
        })?;
        found.rounds.extend(more.rounds);
    }
    Ok(found)
}

/// CPU time comes in steps of 10 ms, too coarse for one small drain but not for all of them.
fn cpu_us(backlog: Backlog, found: &Comparison) -> f64 {
    let all: Duration = found.rounds.iter().filter_map(|round| round.own.cost.server_cpu).sum();
    all.as_secs_f64() * 1e6 / (backlog.count * found.rounds.len() as u64).max(1) as f64
}

fn goal(small_rate: Option<f64>) -> String {
    match small_rate {
        None => format!("≥ {SHARE} x ceiling"),
        Some(_) => format!("≥ {SHARE} x ceiling, ≥ {DEPTH_SHARE} x small"),
    }
}

fn add(bench: &mut Bench, backlog: Backlog, found: &Comparison, small_rate: Option<f64>) {
    let mut measured = format!("{}/s", thousands(found.rate()));
    let mut is_met = found.ratio() >= SHARE;
    if let Some(small_rate) = small_rate {
        let change = found.rate() / small_rate.max(1.0);
        measured += &format!(", {change:.2} x small");
        is_met &= change >= DEPTH_SHARE;
    }
    bench.add(Row {
        target: "4",
        what: backlog.title(),
        measured,
        goal: goal(small_rate),
        is_met: Some(is_met),
        cpu_us: Some(cpu_us(backlog, found)),
        ..Row::of(found)
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_smaller_backlog_has_as_many_messages_in_each_group() {
        let grouping = Grouping::Fifo;
        let deep = Backlog { what: "FIFO", count: 216_000, grouping, groups: 10_000 };

        let small = deep.shrunk_to(10_000);
        assert_eq!((small.count, small.groups), (10_000, 462));
        assert_eq!(small.title(), "drain 10,000, FIFO (462)");

        let one = Backlog { groups: 1, ..deep }.shrunk_to(10_000);
        assert_eq!((one.groups, one.title().as_str()), (1, "drain 10,000, FIFO"));
    }
}
