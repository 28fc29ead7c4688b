//! Targets 9 and 10: restarts and disk.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::{bench::Bench, held::Held, row::Row, throughput::batches};
use crate::report::thousands;
use crate::server::{Server, Settings};
use crate::statistics::median;
use crate::{
    load::{Mode, Scenario, Settle},
    process::disk_bytes,
};

const MB: f64 = 1e6;
/// Time for the server to give back segments that are no longer needed.
const RECLAIM: Duration = Duration::from_secs(15);

/// Target 9: from the start of the process to its first answer.
pub(crate) fn restart(bench: &mut Bench) -> Result<()> {
    let (settings, _data) = bench.settings()?;
    Server::start(&settings)?.kill();
    let empty_ms = restart_ms(bench, &settings, None)?;
    bench.add(Row {
        target: "9",
        what: "restart after SIGKILL, empty".to_owned(),
        measured: format!("{empty_ms:.0} ms"),
        goal: "≤ 50 ms".to_owned(),
        is_met: Some(empty_ms <= 50.0),
        ..Row::default()
    });

    let server = Server::start(&settings)?;
    let count = bench.pick(10_000, 1_000_000, 1_000_000);
    let scenario = batches(bench.scenario(Mode::Send, server.endpoint()?, 64), 10);
    let scenario = Scenario { count, ..scenario };
    let queue_url = scenario.create_queue()?;
    let acknowledged = bench.measure_on(&server, scenario, &queue_url)?.verdict.acknowledged;
    server.kill();
    let full_ms = restart_ms(bench, &settings, Some((&queue_url, acknowledged)))?;
    // A second for each million, but no less than an empty start may take.
    let limit_ms = (count as f64 / 1000.0).max(50.0);
    bench.add(Row {
        target: "9",
        what: format!("restart after SIGKILL, {} waiting", thousands(count as f64)),
        measured: format!("{full_ms:.0} ms"),
        goal: format!("≤ {limit_ms:.0} ms"),
        is_met: Some(full_ms <= limit_ms),
        ..Row::default()
    });
    Ok(())
}

/// The median over rounds; each ends with another SIGKILL. `held` is a queue, and how many messages
/// must be ready in it after each start.
fn restart_ms(bench: &mut Bench, settings: &Settings, held: Option<(&str, u64)>) -> Result<f64> {
    let mut taken_ms = Vec::new();
    for _ in 0..bench.rounds() {
        let started = Instant::now();
        let server = Server::start(settings)?;
        server.endpoint()?.call_sqs("ListQueues", b"{}")?;
        taken_ms.push(started.elapsed().as_secs_f64() * 1000.0);
        if let Some((queue_url, count)) = held {
            // Its host is the last server's, and no server looks at that.
            bench.check_held(&server, queue_url, Held::ready(count))?;
        }
        server.kill();
    }
    Ok(median(taken_ms))
}

/// Target 10: what the disk holds after a drain, and with one message left in each segment.
pub(crate) fn disk(bench: &mut Bench) -> Result<()> {
    let count = bench.pick(10_000, 1_000_000, 1_000_000);
    // A segment of 64 MiB holds about 60,000 messages of 1 KB.
    let every = 50_000;
    for (what, settle) in
        [("drained", Settle::DeleteAll), ("one left of 50,000", Settle::KeepEvery(every))]
    {
        let (settings, _data) = bench.settings()?;
        let server = Server::start(&settings)?;
        let live = if settle == Settle::DeleteAll { 0 } else { count.div_ceil(every) };
        let limit = 2.0 * (live * 1024) as f64 + 256.0 * MB;
        let scenario = batches(bench.scenario(Mode::Drain, server.endpoint()?, 8), 10);
        let scenario = Scenario { count, settle, ..scenario };
        let queue_url = scenario.create_queue()?;
        bench.measure_on(&server, scenario, &queue_url)?;
        let started = Instant::now();
        let mut used = disk_bytes(&settings.data) as f64;
        while used > limit && started.elapsed() < RECLAIM {
            std::thread::sleep(Duration::from_millis(100));
            used = disk_bytes(&settings.data) as f64;
        }
        bench.add(Row {
            target: "10",
            what: format!("disk after {} messages, {what}", thousands(count as f64)),
            measured: format!("{:.0} MB", used / MB),
            goal: format!("≤ {:.0} MB", limit / MB),
            is_met: Some(used <= limit),
            ..Row::default()
        });
    }
    Ok(())
}
