//! Target 5: latency of one connection, at half of the greatest rate, and by position.

use std::time::Instant;

use anyhow::{Result, ensure};
use hdrhistogram::Histogram;

use super::{bench::Bench, held::Held, row::Row};
use crate::load::{
    Connection, Id, Mode, Pace, Scenario, SendTemplate, Verb, histogram, nanoseconds,
};
use crate::report::thousands;
use crate::server::Server;
use crate::statistics::median;

/// Sends in a row on one connection. Amazon's service is seen to close after 80, so that the
/// 81st and 161st are slow there.
const POSITIONS: usize = 180;
const POSITION_ROUNDS: u64 = 100;
/// How far the 75th percentile of any position may be above the median of all positions.
const FLATNESS: f64 = 1.5;
/// The share of a rate that must be accepted for its latency to say something.
const KEPT: f64 = 0.98;

pub(crate) fn latency(bench: &mut Bench) -> Result<()> {
    let server = bench.server()?;
    one_connection(bench, &server)?;
    half_rate(bench, &server)?;
    by_position(bench, &server)
}

/// Over all that was measured before: run last.
pub(crate) fn closes(bench: &mut Bench) {
    let (closed, requests) = (bench.closed_by_server, bench.requests);
    bench.add(Row {
        target: "5",
        what: "connections closed by the server".to_owned(),
        measured: format!("{closed} in {} requests", thousands(requests as f64)),
        goal: "0 in 10,000,000".to_owned(),
        is_met: match closed {
            0 => (requests >= 10_000_000).then_some(true),
            _ => Some(false),
        },
        unjudged: "too few requests".to_owned(),
        ..Row::default()
    });
}

fn one_connection(bench: &mut Bench, server: &Server) -> Result<()> {
    let (mut p50, mut p99, mut sync_p50, mut sync_p99) = (vec![], vec![], vec![], vec![]);
    for _ in 0..bench.rounds() {
        let sync = bench.fdatasync()?;
        let scenario = bench.scenario(Mode::Latency, server.endpoint()?, 1);
        let found = bench.measure(server, scenario)?.percentiles(Verb::Send);
        p50.push(found.p50_us);
        p99.push(found.p99_us);
        sync_p50.push(sync.p50_us);
        sync_p99.push(sync.p99_us);
    }
    let (p50, p99) = (median(p50), median(p99));
    let (sync_p50, sync_p99) = (median(sync_p50), median(sync_p99));
    let rows = [("p50", p50, sync_p50, sync_p50 + 100.0), ("p99", p99, sync_p99, sync_p99 * 1.2)];
    for (name, found, sync, limit) in rows {
        bench.add(Row {
            target: "5",
            what: format!("send, one connection, {name}"),
            measured: format!("{found:.0} µs"),
            goal: format!("≤ {limit:.0} µs (fdatasync {sync:.0} µs)"),
            is_met: Some(found <= limit),
            ..Row::default()
        });
    }
    Ok(())
}

fn half_rate(bench: &mut Bench, server: &Server) -> Result<()> {
    let (mut found, mut ceilings, mut syncs, mut rates) = (vec![], vec![], vec![], vec![]);
    let mut is_kept = true;
    for _ in 0..bench.rounds() {
        let scenario = bench.scenario(Mode::Send, server.endpoint()?, 64);
        let rate = bench.measure(server, scenario.clone())?.rate() / 2.0;
        syncs.push(bench.fdatasync()?.p999_us);
        let scenario = Scenario { pace: Pace::constant(rate), ..scenario };
        ceilings.push(bench.measure_ceiling(&scenario)?.percentiles(Verb::Send).p999_us);
        let report = bench.measure(server, scenario)?;
        is_kept &= report.rate() >= rate * KEPT;
        found.push(report.percentiles(Verb::Send).p999_us);
        rates.push(rate);
    }
    let (found, ceiling, sync) = (median(found), median(ceilings), median(syncs));
    bench.add(Row {
        target: "5",
        what: format!("send at half rate ({}/s), p99.9", thousands(median(rates))),
        measured: format!("{found:.0} µs (ceiling: {ceiling:.0})"),
        goal: format!("≤ {:.0} µs (3 x fdatasync), 98 % of the rate accepted", sync * 3.0),
        is_met: Some(is_kept && found <= sync * 3.0),
        ..Row::default()
    });
    Ok(())
}

fn by_position(bench: &mut Bench, server: &Server) -> Result<()> {
    bench.faults.begin();
    let rounds = bench.pick(10, POSITION_ROUNDS, POSITION_ROUNDS);
    let scenario = bench.scenario(Mode::Latency, server.endpoint()?, 1);
    let queue_url = scenario.create_queue()?;
    let mut positions = vec![histogram(); POSITIONS];
    let runtime = crate::runtime::current_thread()?;
    runtime.block_on(async {
        for round in 0..rounds {
            let closed = serial_sends(&scenario, &queue_url, round, &mut positions).await?;
            bench.closed_by_server += closed;
        }
        anyhow::Ok(())
    })?;
    let sends = rounds * POSITIONS as u64;
    bench.requests += sends;
    bench.check_held(server, &queue_url, Held::ready(sends))?;
    scenario.endpoint.delete_queue(&queue_url)?;

    let p75: Vec<f64> =
        positions.iter().map(|times| times.value_at_quantile(0.75) as f64 / 1000.0).collect();
    let usual = median(p75.iter().copied());
    let (worst, highest) = p75
        .iter()
        .enumerate()
        .max_by(|(_, one), (_, other)| one.total_cmp(other))
        .map_or((0, 0.0), |(index, value)| (index + 1, *value));
    bench.add(Row {
        target: "5",
        what: format!("p75 by position, {POSITIONS} sends x {rounds}"),
        measured: format!("{usual:.0} µs, at most {highest:.0} (send {worst})"),
        goal: format!("flat: ≤ {FLATNESS} x median"),
        is_met: Some(highest <= usual * FLATNESS),
        ..Row::default()
    });
    Ok(())
}

/// One connection, kept, and what each of its sends takes; returns how often it was closed.
async fn serial_sends(
    scenario: &Scenario,
    queue_url: &str,
    round: u64,
    positions: &mut [Histogram<u64>],
) -> Result<u64> {
    let dialect = &scenario.endpoint.dialect;
    let mut template = SendTemplate::new(dialect, queue_url, scenario.shape);
    let mut connection = Connection::new(&scenario.endpoint);
    connection.connect().await?;
    let mut scratch = Vec::new();
    for (position, times) in positions.iter_mut().enumerate() {
        let sequence = round * POSITIONS as u64 + position as u64;
        template.patch(0, Id { run: 0, producer: 0, group: 0, sequence });
        let start = Instant::now();
        let (status, _) = connection.exchange(template.bytes(dialect, &mut scratch)).await?;
        ensure!(status == 200, "send was answered with status {status}");
        times.saturating_record(nanoseconds(start.elapsed()));
    }
    Ok(connection.take_events().closed_by_server)
}
