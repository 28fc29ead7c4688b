//! Targets 1, 2, 3 and 11: messages a second, and what one costs.

use anyhow::Result;

use super::{
    bench::Bench,
    comparison::{Comparison, Round},
    row::Row,
};
use crate::load::{Count, Mode, Scenario, Shape, Verb};
use crate::report::thousands;
use crate::server::Settings;
use crate::statistics::median;

/// What one answer may take besides its sync: 0.15 ms.
const ANSWER_US: f64 = 150.0;

/// Targets 1 and 2: with 64 connections, through the queue and sends alone.
pub(crate) fn many_connections(bench: &mut Bench, target: &'static str) -> Result<()> {
    let server = bench.server()?;
    // Mode, batch, share of the ceiling, CPU µs a message.
    let goals = match target {
        "1" => [(Mode::Pc, 10, 0.5, 9.0), (Mode::Pc, 1, 0.6, 40.0)],
        _ => [(Mode::Send, 1, 0.5, 13.0), (Mode::Send, 10, 0.4, 4.5)],
    };
    for (mode, batch, share, cpu_us) in goals {
        let found = bench.compare(&server, |bench, endpoint| {
            batches(bench.scenario(mode, endpoint, 64), batch)
        })?;
        let verb = if mode == Mode::Pc { "through the queue" } else { "send" };
        bench.add(Row {
            target,
            what: format!("{verb} {}, 64 connections", amount(batch)),
            measured: format!("{}/s", thousands(found.rate())),
            goal: format!("≥ {share} x ceiling, CPU ≤ {cpu_us} µs"),
            is_met: Some(found.ratio() >= share && found.cpu_us() <= cpu_us),
            ..Row::of(&found)
        });
    }
    Ok(())
}

/// Target 3: the disk sets the rate of few connections; without it, the code does.
pub(crate) fn few_connections(bench: &mut Bench) -> Result<()> {
    let server = bench.server()?;
    for connections in [1, 8] {
        let found = bench.compare(&server, |bench, endpoint| {
            bench.scenario(Mode::Send, endpoint, connections)
        })?;
        let possible = |round: &Round| connections as f64 * 1e6 / (round.sync_us + ANSWER_US);
        let share = found.median(|round| round.own.rate() / possible(round));
        bench.add(Row {
            measured: format!("{}/s, {share:.2} of the disk's", thousands(found.rate())),
            goal: format!("≥ 0.9 x {}/s", thousands(found.median(possible))),
            is_met: Some(share >= 0.9),
            ..send_row(connections, "fsync", &found)
        });
    }
    drop(server);

    let server = bench.server_with(|settings| Settings { durability: "os", ..settings })?;
    for connections in [1, 8] {
        let found = bench.compare(&server, |bench, endpoint| {
            bench.scenario(Mode::Send, endpoint, connections)
        })?;
        let p50 = found.times(|report| report.percentiles(Verb::Send).p50_us);
        let p99 = found.times(|report| report.percentiles(Verb::Send).p99_us);
        bench.add(Row {
            measured: format!("{}/s, p50 x {p50:.1}, p99 x {p99:.1}", thousands(found.rate())),
            goal: "≥ 0.65 x ceiling, p50 ≤ x 2, p99 ≤ x 4".to_owned(),
            is_met: Some(found.ratio() >= 0.65 && p50 <= 2.0 && p99 <= 4.0),
            ..send_row(connections, "os", &found)
        });
    }
    Ok(())
}

/// Target 11: what batches gain, and that requests are neither wasted nor empty.
pub(crate) fn batch_gain(bench: &mut Bench) -> Result<()> {
    let server = bench.server()?;
    let (mut ones, mut tens) = (Comparison::default(), Comparison::default());
    let mut gains = Vec::new();
    for number in 0..bench.rounds() {
        let mut pc = |batch| {
            bench.round(&server, |bench, endpoint| {
                batches(bench.scenario(Mode::Pc, endpoint, 8), batch)
            })
        };
        // Neither is always the first.
        let (one, ten) = if number % 2 == 0 {
            let one = pc(1)?;
            (one, pc(10)?)
        } else {
            let ten = pc(10)?;
            (pc(1)?, ten)
        };
        gains.push(ten.own.rate() / one.own.rate().max(1.0));
        ones.rounds.push(one);
        tens.rounds.push(ten);
    }
    let gain = median(gains);
    bench.add(Row {
        target: "11",
        what: "tens over ones, 8 connections".to_owned(),
        measured: format!("x {gain:.1}"),
        goal: "≥ x 6".to_owned(),
        is_met: Some(gain >= 6.0),
        ..Row::default()
    });
    for (name, found, wanted) in [("ones", &ones, 3.0), ("tens", &tens, 0.3)] {
        let per_message = found.median(|round| round.own.requests_per_message());
        let empty: u64 = found.rounds.iter().map(|round| round.own.count(Count::Empty)).sum();
        bench.add(Row {
            target: "11",
            what: format!("requests per message, {name}"),
            measured: format!("{per_message:.2}, {empty} empty receives"),
            goal: format!("{wanted:.2}, none empty"),
            // One per cent: requests under way when the clock starts and stops.
            is_met: Some(per_message <= wanted * 1.01 && empty == 0),
            ..Row::of(found)
        });
    }
    Ok(())
}

pub(crate) fn batches(scenario: Scenario, batch: u64) -> Scenario {
    Scenario { shape: Shape { batch, ..scenario.shape }, ..scenario }
}

fn amount(batch: u64) -> &'static str {
    if batch == 1 { "in ones" } else { "in tens" }
}

fn send_row(connections: usize, durability: &str, found: &Comparison) -> Row {
    let plural = if connections == 1 { "" } else { "s" };
    Row {
        target: "3",
        what: format!("send, {connections} connection{plural}, {durability}"),
        ..Row::of(found)
    }
}
