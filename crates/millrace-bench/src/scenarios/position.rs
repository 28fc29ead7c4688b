//! `position`: is a send slow because of where it stands in its connection?
//!
//! Many runs of serial sends, each beginning with a fresh connection. Latency is kept by position
//! in the run, and so are connections that were opened. A server that closes after so many
//! requests shows as a spike that comes again every so many positions.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use clap::Args;
use hdrhistogram::Histogram;
use millrace_client::{
    Outgoing, Peer,
    sqs::SqsPeer,
    transport::{Spares, TransportOptions},
};
use tokio::{runtime, task::JoinSet};

use super::{Findings, Options, Setting, conduct, connections::Connections, queue::Queue};
use crate::{
    certificate::Certificate,
    delay::Delay,
    load::{histogram, nanoseconds},
    report::{
        Axis, Better, Chart, Mark, Metric, Section, Series, Shape, Table, Unit, microseconds,
    },
    server::Server,
    statistics::{Period, find_period, median},
    tls::Trust,
};

#[derive(Args, Clone, Debug)]
pub(crate) struct Flags {
    #[command(flatten)]
    pub(crate) options: Options,
    #[command(flatten)]
    pub(crate) runs: Runs,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Runs {
    /// Runs, each with a fresh connection, before scaling
    #[arg(long, value_name = "NUMBER", default_value_t = 100)]
    pub(crate) runs: u64,
    /// Sends of a run, one after the other
    #[arg(long, value_name = "NUMBER", default_value_t = 180, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(crate) sends: u64,
    /// Runs at a time
    #[arg(long, value_name = "NUMBER", default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) at_once: u64,
    /// Bytes of a message's body
    #[arg(long, value_name = "BYTES", default_value_t = 1024)]
    pub(crate) size: usize,
    /// Open the next connection before the server ends this one, once it is known when
    #[arg(long)]
    pub(crate) spares: bool,
    /// Also measure a server of our own that closes after so many requests: without spares, with
    #[arg(long, value_name = "NUMBER", num_args = 0..=1, default_missing_value = "80")]
    pub(crate) contrast: Option<u64>,
}

impl Default for Runs {
    /// The flags' defaults, with the contrast.
    fn default() -> Runs {
        Runs { runs: 100, sends: 180, at_once: 16, size: 1024, spares: false, contrast: Some(80) }
    }
}

/// Fewer runs give percentiles that are single values.
const RUNS_LEAST: u64 = 20;
/// Without a round trip, opening a connection on loopback costs next to nothing.
const CONTRAST_ROUND_TRIP: Duration = Duration::from_millis(10);
/// A pattern that the medians do not show must be as clear as that at the 75th percentile.
const CLEAR: f64 = 0.5;
/// Sends that the client may need to learn when the server closes: two closes, and some.
const LEARN_MAX: u64 = 1000;

/// What happened at one position of all runs.
struct Position {
    times: Histogram<u64>,
    opened: u64,
}

/// One server, measured.
pub(crate) struct Measured {
    name: String,
    id: &'static str,
    positions: Vec<Position>,
    connections: Connections,
}

pub(crate) fn run(flags: &Flags) -> Result<()> {
    conduct("position", &flags.options, |setting| findings(setting, &flags.runs))
}

pub(crate) fn findings(setting: &Setting, runs: &Runs) -> Result<Findings> {
    let spares = if runs.spares { Spares::Open } else { Spares::Never };
    setting.progress.begin("position");
    let mut all = vec![measure(setting, &setting.url, runs, spares, "endpoint", "the endpoint")?];
    if let Some(cap) = runs.contrast {
        all.extend(contrast(setting, runs, cap)?);
    }
    let mut findings = Findings {
        title: "Latency by position in the connection".to_owned(),
        ..Findings::default()
    };
    for measured in &all {
        findings.metrics.extend(measured.metrics());
    }
    findings.sections.push(section(&all, runs));
    Ok(findings)
}

/// A server of our own, over TLS and a short round trip, that closes after `cap` requests.
fn contrast(setting: &Setting, runs: &Runs, cap: u64) -> Result<Vec<Measured>> {
    let certificate = Certificate::new()?;
    let server = Server::start_ceiling_with(cap, Some(&certificate))?;
    let capped =
        Setting::new(server.url(), None, &Trust::anyone(), Some(server.pid()), setting.scale)?;
    let delay = Delay::start(capped.endpoint.address, CONTRAST_ROUND_TRIP)?;
    let url = format!("https://127.0.0.1:{}", delay.address.port());
    let name = |spares: &str| format!("a server that closes after {cap}, {spares} spares");
    setting.progress.begin("position, capped");
    let without = measure(&capped, &url, runs, Spares::Never, "capped", &name("without"))?;
    setting.progress.begin("position, spares");
    let with = measure(&capped, &url, runs, Spares::Open, "spares", &name("with"))?;
    Ok(vec![without, with])
}

fn measure(
    setting: &Setting,
    url: &str,
    runs: &Runs,
    spares: Spares,
    id: &'static str,
    name: &str,
) -> Result<Measured> {
    let queue = Queue::create(setting)?;
    let count = setting.count(runs.runs, RUNS_LEAST);
    let mut measured = Measured {
        name: name.to_owned(),
        id,
        positions: (0..runs.sends).map(|_| Position { times: histogram(), opened: 0 }).collect(),
        connections: Connections::default(),
    };
    let connect = || {
        let mut options = TransportOptions::default();
        options.spares = spares;
        options.lane_connections = 1;
        queue.peer_at(url, options)
    };
    let done = AtomicU64::new(0);
    let runtime = runtime::Builder::new_current_thread().enable_all().build().context("runtime")?;
    let outcome = runtime.block_on(async {
        let mut tasks = JoinSet::new();
        for slot in 0..runs.at_once {
            let share = (count + runs.at_once - 1 - slot) / runs.at_once;
            let peers: Result<Vec<SqsPeer>> = match spares {
                Spares::Never => (0..share).map(|_| connect()).collect(),
                // One client learns, and so has spares in all its runs.
                Spares::Open => connect().map(|peer| vec![peer; share as usize]),
            };
            tasks.spawn(slot_of_runs(peers?, runs.clone(), spares));
        }
        while let Some(joined) = tasks.join_next().await {
            let (positions, connections) = joined.context("a run panicked")??;
            measured.add(&positions, &connections);
            let done = done.fetch_add(1, Relaxed) + 1;
            setting.progress.at(done as f64 / runs.at_once as f64, String::new);
        }
        anyhow::Ok(())
    });
    queue.remove()?;
    outcome.map(|()| measured)
}

/// Runs one after the other, each over the next of `peers`.
async fn slot_of_runs(
    peers: Vec<SqsPeer>,
    runs: Runs,
    spares: Spares,
) -> Result<(Vec<Position>, Connections)> {
    let mut positions: Vec<Position> =
        (0..runs.sends).map(|_| Position { times: histogram(), opened: 0 }).collect();
    let mut connections = Connections::default();
    let message = Outgoing::new(body(runs.size));
    if let (Spares::Open, Some(peer)) = (spares, peers.first()) {
        // Learning is warm-up: it would show in the first runs only.
        for _ in 0..LEARN_MAX {
            if peer.client().transport().learned_lifetime().is_some() {
                break;
            }
            send(peer, &message).await?;
        }
    }
    for peer in &peers {
        let transport = peer.client().transport();
        let before = transport.ledger();
        for position in &mut positions {
            let (opened, start) = (transport.ledger().opened, Instant::now());
            send(peer, &message).await?;
            position.times.saturating_record(nanoseconds(start.elapsed()));
            position.opened += transport.ledger().opened - opened;
        }
        connections.add(&Connections::between(&before, &transport.ledger()));
    }
    Ok((positions, connections))
}

async fn send(peer: &SqsPeer, message: &Outgoing) -> Result<()> {
    let answers = peer.send(std::slice::from_ref(message)).await.context("sending")?;
    answers.into_iter().next().context("no answer to the entry")?.context("sending").map(drop)
}

/// Random letters, as the experiment had them.
fn body(size: usize) -> String {
    std::iter::repeat_with(fastrand::alphanumeric).take(size).collect()
}

impl Measured {
    fn add(&mut self, positions: &[Position], connections: &Connections) {
        for (own, other) in self.positions.iter_mut().zip(positions) {
            // All have the same bounds.
            let _ = own.times.add(&other.times);
            own.opened += other.opened;
        }
        self.connections.add(connections);
    }

    /// A quantile at each position, in µs.
    fn at(&self, quantile: f64) -> Vec<f64> {
        let times = self.positions.iter().map(|position| &position.times);
        times.map(|times| times.value_at_quantile(quantile) as f64 / 1000.0).collect()
    }

    /// A spike that comes again. The first position opens a connection, whoever the server. Who
    /// closes by count does so in every run, and medians are the last to be moved by noise.
    fn period(&self) -> Option<Period> {
        let high = || find_period(&self.at(0.75)).filter(|period| period.strength >= CLEAR);
        find_period(&self.at(0.5)).or_else(high)
    }

    fn metrics(&self) -> Vec<Metric> {
        let front = format!("position.{}", self.id);
        let p75 = self.at(0.75);
        let rest = p75.iter().skip(1).copied();
        let mut metrics = vec![
            Metric::latency(&format!("{front}.first_p75"), p75.first().copied().unwrap_or(0.0)),
            Metric::latency(&format!("{front}.median_p75"), median(rest.clone())),
            Metric::latency(&format!("{front}.highest_p75"), rest.fold(0.0, f64::max)),
            Metric::new(
                &format!("{front}.period"),
                self.period().map_or(0.0, |period| period.length as f64),
                Unit::Count,
                Better::Neither,
            ),
        ];
        metrics.extend(self.connections.metrics(&front));
        metrics
    }

    /// What comes again, in words.
    fn pattern(&self) -> String {
        match self.period() {
            Some(period) => format!("slow every {} sends", period.length),
            None => "level".to_owned(),
        }
    }
}

fn section(all: &[Measured], runs: &Runs) -> Section {
    let findings: Vec<String> =
        all.iter().map(|measured| format!("{}: {}", measured.name, measured.pattern())).collect();
    let mut section = Section {
        id: "position".to_owned(),
        title: "Latency by position in the connection".to_owned(),
        question: format!(
            "Is a send of {} bytes slow because of where it stands among {} serial sends that \
             begin with a fresh connection?",
            runs.size, runs.sends
        ),
        finding: format!("{}.", findings.join("; ")),
        shapes: shapes(all, runs),
        charts: all.iter().map(chart).collect(),
        tables: vec![summary(all)],
        notes: vec![format!(
            "{} runs at a time. Closed by header: the server said so in its last answer. Stale on \
             use: it had closed without a word. A spare is a connection opened before it is \
             needed.",
            runs.at_once
        )],
        ..Section::default()
    };
    if all.len() > 1 {
        section.notes.push(format!(
            "The server that closes is our own, over TLS and a round trip of {} ms.",
            CONTRAST_ROUND_TRIP.as_millis()
        ));
    }
    section.tables.extend(all.iter().map(by_position));
    section
}

fn shapes(all: &[Measured], runs: &Runs) -> Vec<Shape> {
    let of = |id: &str| all.iter().find(|measured| measured.id == id);
    let mut shapes = Vec::new();
    if let Some(endpoint) = of("endpoint") {
        shapes.push(Shape {
            expected: "the endpoint: no spike that comes again, and no connection closed"
                .to_owned(),
            measured: format!(
                "{}, {} closed",
                endpoint.pattern(),
                endpoint.connections.closed_by_server()
            ),
            holds: endpoint.period().is_none() && endpoint.connections.closed_by_server() == 0,
        });
    }
    let Some(cap) = runs.contrast else { return shapes };
    if let Some(capped) = of("capped") {
        let period = capped.period().map(|period| period.length as u64);
        shapes.push(Shape {
            expected: format!("a server that closes after {cap}: slow every {cap} sends"),
            measured: capped.pattern(),
            holds: period == Some(cap),
        });
    }
    if let Some(spares) = of("spares") {
        shapes.push(Shape {
            expected: "the same with spare connections: the spike is gone".to_owned(),
            measured: spares.pattern(),
            holds: spares.period().is_none_or(|period| period.length as u64 != cap),
        });
    }
    shapes
}

fn chart(measured: &Measured) -> Chart {
    let series = [(0.5, "p50"), (0.75, "p75"), (0.99, "p99")].map(|(quantile, name)| {
        let places = measured.at(quantile).into_iter().enumerate();
        Series::line(name, places.map(|(index, us)| ((index + 1) as f64, us / 1000.0)).collect())
    });
    let marks = measured.period().map(|period| {
        let places = (1..=measured.positions.len()).step_by(period.length);
        places.map(|x| Mark { x: x as f64, label: format!("send {x}") }).collect()
    });
    Chart::Lines {
        title: measured.name.clone(),
        x: Axis::linear("position"),
        y: Axis::logarithmic("ms"),
        series: series.into(),
        marks: marks.unwrap_or_default(),
    }
}

fn summary(all: &[Measured]) -> Table {
    let mut table = Table::new(
        "",
        &[
            "server",
            "#first p75",
            "#median p75",
            "#highest p75",
            "at",
            "pattern",
            "#opened",
            "#spares",
            "#by header",
            "#while idle",
            "#stale on use",
            "#reset",
            "#to open",
        ],
    );
    for measured in all {
        let p75 = measured.at(0.75);
        let rest = || p75.iter().copied().enumerate().skip(1);
        let (at, highest) =
            rest().max_by(|(_, one), (_, other)| one.total_cmp(other)).unwrap_or((0, 0.0));
        let connections = &measured.connections;
        table.row([
            measured.name.clone(),
            microseconds(p75.first().copied().unwrap_or(0.0)),
            microseconds(median(rest().map(|(_, us)| us))),
            microseconds(highest),
            format!("send {}", at + 1),
            measured.pattern(),
            connections.opened.to_string(),
            connections.spares.to_string(),
            connections.closed_by_header.to_string(),
            connections.closed_while_idle.to_string(),
            connections.stale_on_use.to_string(),
            connections.reset.to_string(),
            connections.handshake(),
        ]);
    }
    table
}

fn by_position(measured: &Measured) -> Table {
    let title = format!("Position by position: {}", measured.name);
    let mut table = Table::new(
        &title,
        &["#position", "#p50 µs", "#p75 µs", "#p99 µs", "#max µs", "#connections opened"],
    );
    table.is_long = true;
    for (index, position) in measured.positions.iter().enumerate() {
        let at =
            |quantile| format!("{:.1}", position.times.value_at_quantile(quantile) as f64 / 1000.0);
        table.row([
            (index + 1).to_string(),
            at(0.5),
            at(0.75),
            at(0.99),
            at(1.0),
            position.opened.to_string(),
        ]);
    }
    table
}
