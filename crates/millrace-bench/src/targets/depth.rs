//! Target 4: a drain is as fast from the deepest backlog as from a small one.
//!
//! Only drains of a standard queue are held against a small one; those of groups against the
//! ceiling alone, and their rows say so.

use anyhow::Result;

use super::{bench::Bench, comparison::Comparison, row::Row, throughput::batches};
use crate::load::{Grouping, Mode, Scenario, Shape};
use crate::report::thousands;
use crate::server::Server;

/// The share of the ceiling that a drain must reach.
const SHARE: f64 = 0.4;
/// Small drains take a fraction of a second: so many make one measurement.
const SMALL_DRAINS: usize = 10;

/// What waits before a drain.
#[derive(Clone, Copy)]
struct Backlog {
    what: &'static str,
    count: u64,
    grouping: Grouping,
    groups: u32,
}

pub(crate) fn drains(bench: &mut Bench) -> Result<()> {
    let small = standard(bench.pick(2_000, 10_000, 10_000));
    let found = drain(bench, small)?;
    let rate = found.rate();
    add(bench, small, &found, None);

    let mut deep = vec![standard(bench.pick(20_000, 1_000_000, 1_000_000))];
    let deepest = bench.pick(0, 0, 10_000_000);
    if deepest > 0 {
        deep.push(standard(deepest));
    }
    for backlog in deep {
        let found = drain(bench, backlog)?;
        add(bench, backlog, &found, Some(rate));
    }

    let count = bench.pick(5_000, 216_000, 216_000);
    let groups = bench.pick(500, 10_000, 10_000) as u32;
    let (fifo, fair) = (Grouping::Fifo, Grouping::Fair);
    for backlog in [
        Backlog { what: "FIFO, one group", count, grouping: fifo, groups: 1 },
        Backlog { what: "FIFO, many groups", count, grouping: fifo, groups },
        Backlog { what: "fair, many groups", count, grouping: fair, groups },
    ] {
        let found = drain(bench, backlog)?;
        add(bench, backlog, &found, None);
    }
    Ok(())
}

fn standard(count: u64) -> Backlog {
    Backlog { what: "standard", count, grouping: Grouping::None, groups: 0 }
}

/// Fills a queue and drains it, interleaved with the ceiling; small drains several times.
fn drain(bench: &mut Bench, backlog: Backlog) -> Result<Comparison> {
    let settings = bench.settings("fsync");
    let server = Server::start(&settings)?;
    let times = if backlog.count <= 10_000 { SMALL_DRAINS } else { 1 };
    let mut found = Comparison::default();
    for _ in 0..times {
        let more = bench.compare(&server, |bench, endpoint| {
            let scenario = batches(bench.scenario(Mode::Drain, endpoint, 8), 10);
            let shape = Shape { grouping: backlog.grouping, ..scenario.shape };
            Scenario { shape, groups: backlog.groups, count: backlog.count, ..scenario }
        })?;
        found.rounds.extend(more.rounds);
    }
    drop(server);
    bench.remove(&settings.data)?;
    Ok(found)
}

/// CPU time comes in steps of 10 ms, too coarse for one small drain but not for all of them.
fn cpu_us(backlog: Backlog, found: &Comparison) -> f64 {
    let all_s: f64 = found.rounds.iter().map(|round| round.own.cost.server_cpu.as_secs_f64()).sum();
    all_s * 1e6 / (backlog.count * found.rounds.len() as u64).max(1) as f64
}

fn add(bench: &mut Bench, backlog: Backlog, found: &Comparison, small_rate: Option<f64>) {
    let (mut measured, mut goal) =
        (format!("{}/s", thousands(found.rate())), format!("≥ {SHARE} x ceiling"));
    let mut is_met = found.ratio() >= SHARE;
    if backlog.groups > 0 {
        goal += ", no small one measured";
    }
    if let Some(small_rate) = small_rate {
        let change = found.rate() / small_rate.max(1.0);
        measured += &format!(", {change:.2} x small");
        goal += ", ≥ 0.9 x small";
        is_met &= change >= 0.9;
    }
    let groups = if backlog.groups > 1 {
        format!(" ({})", thousands(f64::from(backlog.groups)))
    } else {
        String::new()
    };
    bench.add(Row {
        target: "4",
        what: format!("drain {}, {}{groups}", thousands(backlog.count as f64), backlog.what),
        measured,
        goal,
        is_met: Some(is_met),
        cpu_us: Some(cpu_us(backlog, found)),
        ..Row::of(found)
    });
}
