//! Targets 7, 9 and 10: memory, restarts and disk.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::{
    bench::{Bench, ONLY_FULL},
    held::Held,
    row::Row,
    throughput::batches,
};
use crate::report::thousands;
use crate::server::{Server, Settings};
use crate::statistics::median;
use crate::{
    load::{Mode, Report, Scenario, Settle, Shape},
    process::disk_bytes,
};

const MB: f64 = 1e6;
/// So many may take 700 MB: 64 bytes each, and what may grow besides them.
const MEMORY_COUNT: u64 = 10_000_000;
const BESIDES_BYTES: f64 = 60.0 * MB;
/// Time for the server to give back segments that are no longer needed.
const RECLAIM: Duration = Duration::from_secs(15);

/// Target 7: at rest, by waiting message, by message in flight, by queue.
pub(crate) fn memory(bench: &mut Bench) -> Result<()> {
    let settings = bench.settings("fsync");
    let server = Server::start(&settings)?;
    let rest = server.resident_bytes()? as f64;
    bench.add(Row {
        target: "7",
        what: "memory at rest".to_owned(),
        measured: format!("{:.1} MB", rest / MB),
        goal: "≤ 40 MB".to_owned(),
        is_met: Some(rest <= 40.0 * MB),
        ..Row::default()
    });

    let small = Bodies { size_bytes: 1024, count: bench.pick(20_000, 1_000_000, MEMORY_COUNT) };
    let Growth { waiting, in_flight } = small.growth(bench, &server)?;
    for (what, growth) in [("waiting", waiting), ("in flight", in_flight)] {
        let limit = 64.0 * MEMORY_COUNT as f64 + BESIDES_BYTES;
        bench.add(Row {
            target: "7",
            what: format!("memory of {} x 1 KB {what}", thousands(small.count as f64)),
            measured: format!(
                "{:.0} MB, {:.0} bytes each",
                growth / MB,
                growth / small.count as f64
            ),
            goal: format!("{} in ≤ {:.0} MB", thousands(MEMORY_COUNT as f64), limit / MB),
            // With fewer, what may grow besides would be most of the limit.
            is_met: (small.count >= MEMORY_COUNT).then_some(growth <= limit),
            unjudged: ONLY_FULL.to_owned(),
            ..Row::default()
        });
    }
    drop(server);
    bench.remove(&settings.data)?;
    large_bodies(bench)?;
    queues(bench)
}

/// A message that waits takes the same memory whatever its size: bodies of 64 KB beside as many of
/// 1 KB, each on a server of its own.
fn large_bodies(bench: &mut Bench) -> Result<()> {
    let count = bench.pick(1_000, 20_000, 20_000);
    let mut found = Vec::new();
    for size_bytes in [1024, 64 * 1024] {
        let settings = bench.settings("fsync");
        let server = Server::start(&settings)?;
        found.push(Bodies { size_bytes, count }.growth(bench, &server)?.waiting);
        drop(server);
        bench.remove(&settings.data)?;
    }
    let [small, large] = found[..] else { bail!("two sizes, {} growths", found.len()) };
    let limit = small + BESIDES_BYTES;
    let all = (count * 64 * 1024) as f64;
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

/// Messages that fill a queue.
#[derive(Clone, Copy)]
struct Bodies {
    size_bytes: usize,
    count: u64,
}

/// Memory that a server has more than without messages, in bytes.
struct Growth {
    waiting: f64,
    in_flight: f64,
}

impl Bodies {
    fn growth(self, bench: &mut Bench, server: &Server) -> Result<Growth> {
        // Buffers of connections grow once; that is not the messages' memory.
        let few = Bodies { count: self.count.min(10_000), ..self };
        few.fill_and_receive(bench, server, Settle::DeleteAll)?;
        let before = server.resident_bytes()? as f64;
        let kept = self.fill_and_receive(bench, server, Settle::KeepAll)?;
        let waiting = kept.preload.map_or(0.0, |(_, cost)| cost.server_resident_bytes as f64);
        let in_flight = kept.cost.server_resident_bytes as f64;
        let more = |resident: f64| (resident - before).max(0.0);
        Ok(Growth { waiting: more(waiting), in_flight: more(in_flight) })
    }

    /// Fills a queue of its own and receives all of it.
    fn fill_and_receive(
        self,
        bench: &mut Bench,
        server: &Server,
        settle: Settle,
    ) -> Result<Report> {
        let Bodies { size_bytes, count } = self;
        let scenario = batches(bench.scenario(Mode::Drain, server.endpoint()?, 8), 10);
        let shape = Shape { size_bytes, ..scenario.shape };
        bench.measure(server, Scenario { shape, count, settle, ..scenario })
    }
}

fn queues(bench: &mut Bench) -> Result<()> {
    bench.faults.begin();
    let settings = bench.settings("fsync");
    let server = Server::start(&settings)?;
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
    drop(server);
    bench.remove(&settings.data)
}

/// Target 9: from the start of the process to its first answer.
pub(crate) fn restart(bench: &mut Bench) -> Result<()> {
    let settings = bench.settings("fsync");
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
    let count = bench.pick(20_000, 1_000_000, 1_000_000);
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
    bench.remove(&settings.data)
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
    let count = bench.pick(20_000, 1_000_000, 1_000_000);
    // A segment of 64 MiB holds about 60,000 messages of 1 KB.
    let every = 50_000;
    for (what, settle) in
        [("drained", Settle::DeleteAll), ("one left of 50,000", Settle::KeepEvery(every))]
    {
        let settings = bench.settings("fsync");
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
        drop(server);
        bench.remove(&settings.data)?;
    }
    Ok(())
}
