//! Target 7: memory at rest, by message and by queue.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::{
    bench::{Bench, ONLY_FULL},
    row::Row,
    throughput::batches,
};
use crate::load::{Mode, Report, Scenario, Settle, Shape};
use crate::report::thousands;
use crate::server::Server;

const MB: f64 = 1e6;
/// So many may take 700 MB: 64 bytes each, and what may grow besides them.
const MEMORY_COUNT: u64 = 10_000_000;
const BESIDES_BYTES: f64 = 60.0 * MB;

/// Target 7: at rest, by waiting message, by message in flight, by queue.
pub(crate) fn memory(bench: &mut Bench) -> Result<()> {
    let server = bench.server()?;
    let rest = server.resident_bytes()? as f64;
    bench.add(Row {
        target: "7",
        what: "memory at rest".to_owned(),
        measured: format!("{:.1} MB", rest / MB),
        goal: "≤ 40 MB".to_owned(),
        is_met: Some(rest <= 40.0 * MB),
        ..Row::default()
    });

    let count = bench.pick(10_000, 1_000_000, MEMORY_COUNT);
    let Growth { waiting, in_flight } = growth(bench, &server, count)?;
    for (what, growth) in [("waiting", waiting), ("in flight", in_flight)] {
        let limit = 64.0 * MEMORY_COUNT as f64 + BESIDES_BYTES;
        bench.add(Row {
            target: "7",
            what: format!("memory of {} x 1 KB {what}", thousands(count as f64)),
            measured: format!("{:.0} MB, {:.0} bytes each", growth / MB, growth / count as f64),
            goal: format!("{} in ≤ {:.0} MB", thousands(MEMORY_COUNT as f64), limit / MB),
            // With fewer, what may grow besides would be most of the limit.
            is_met: (count >= MEMORY_COUNT).then_some(growth <= limit),
            unjudged: ONLY_FULL.to_owned(),
            ..Row::default()
        });
    }
    drop(server);
    large_bodies(bench)?;
    queues(bench)
}

/// A message that waits takes the same memory whatever its size: bodies of 64 KB beside as many of
/// 1 KB, each on a server of its own.
fn large_bodies(bench: &mut Bench) -> Result<()> {
    let count = bench.pick(1_000, 20_000, 20_000);
    let (small, large) =
        (growth_at_rest(bench, 1024, count)?, growth_at_rest(bench, 64 << 10, count)?);
    let limit = small + BESIDES_BYTES;
    let all = (count * (64 << 10)) as f64;
    bench.add(Row {
        target: "7",
        what: format!("memory of {} x 64 KB waiting", thousands(count as f64)),
        measured: format!("{:.0} MB, as 1 KB: {:.0} MB", large / MB, small / MB),
        goal: format!("≤ {:.0} MB (bodies: {:.0} MB)", limit / MB, all / MB),
        is_met: Some(large <= limit),
        ..Row::default()
    });
    Ok(())
}

/// Memory of messages that wait when nobody sends any more: buffers of many large requests under
/// way would be most of it.
fn growth_at_rest(bench: &mut Bench, size_bytes: usize, count: u64) -> Result<f64> {
    let server = bench.server()?;
    let scenario = batches(bench.scenario(Mode::Send, server.endpoint()?, 8), 10);
    let shape = Shape { size_bytes, ..scenario.shape };
    let scenario = Scenario { shape, count, ..scenario };
    // What is kept of buffers is not the messages' memory.
    bench.measure(&server, scenario.clone())?;
    let before = resident_at_rest(bench, &server)?;
    bench.measure_on(&server, scenario.clone(), &scenario.create_queue()?)?;
    let growth = resident_at_rest(bench, &server)?.saturating_sub(before);
    Ok(growth as f64)
}

/// The least of a while in which the buffers of requests are given back.
fn resident_at_rest(bench: &Bench, server: &Server) -> Result<u64> {
    let at_rest = Duration::from_millis(bench.pick(300, 2000, 2000));
    let (start, mut least) = (Instant::now(), server.resident_bytes()?);
    while start.elapsed() < at_rest {
        std::thread::sleep(Duration::from_millis(100));
        least = least.min(server.resident_bytes()?);
    }
    Ok(least)
}

/// Memory that a server has more than without messages, in bytes.
struct Growth {
    waiting: f64,
    in_flight: f64,
}

/// Of single KBs, right when all are there and right when all are in flight.
fn growth(bench: &mut Bench, server: &Server, count: u64) -> Result<Growth> {
    // Buffers of connections grow once; that is not the messages' memory.
    fill_and_receive(bench, server, 10_000, Settle::DeleteAll)?;
    let before = server.resident_bytes()? as f64;
    let kept = fill_and_receive(bench, server, count, Settle::KeepAll)?;
    let waiting = kept.preload.map_or(0.0, |(_, cost)| cost.server_resident_bytes as f64);
    let in_flight = kept.cost.server_resident_bytes as f64;
    let more = |resident: f64| (resident - before).max(0.0);
    Ok(Growth { waiting: more(waiting), in_flight: more(in_flight) })
}

/// Fills a queue of its own and receives all of it.
fn fill_and_receive(
    bench: &mut Bench,
    server: &Server,
    count: u64,
    settle: Settle,
) -> Result<Report> {
    let scenario = batches(bench.scenario(Mode::Drain, server.endpoint()?, 8), 10);
    bench.measure(server, Scenario { count, settle, ..scenario })
}

fn queues(bench: &mut Bench) -> Result<()> {
    bench.faults.begin();
    let server = bench.server()?;
    let (endpoint, count) = (server.endpoint()?, bench.pick(500, 10_000, 10_000));
    let mut socket = std::net::TcpStream::connect(endpoint.address).context("connecting")?;
    for number in 0..count {
        endpoint.create_queue_over(&mut socket, &format!("queue-{number}"))?;
    }
    let resident = server.resident_bytes()? as f64;
    bench.add(Row {
        target: "7",
        what: format!("memory with {} queues", thousands(count as f64)),
        measured: format!("{:.1} MB", resident / MB),
        goal: "≤ 200 MB".to_owned(),
        is_met: Some(resident <= 200.0 * MB),
        ..Row::default()
    });
    Ok(())
}
