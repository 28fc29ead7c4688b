//! `position`: is a send slow because of where it stands in its connection?
//!
//! Many runs of serial sends, each beginning with a fresh connection. Latency is kept by position
//! in the run, and so are connections that were opened. A server that closes after so many
//! requests shows as a spike that comes again every so many positions.

mod section;

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use clap::Args;
use millrace_client::{
    Outgoing, Peer,
    transport::{Spares, TransportOptions},
};
use tokio::task::JoinSet;

use super::{
    Findings, Flags, Setting, conduct, connections::Connections, queue::Queue, watched::Watched,
};
use crate::{
    access::Access, certificate::Certificate, delay::Delay, load::nanoseconds, report::Recording,
    server::Server, statistics::quantile, tls::Trust,
};

#[derive(Args, Clone, Debug)]
pub(crate) struct Runs {
    /// Runs, each with a fresh connection, before scaling
    #[arg(long, value_name = "NUMBER", default_value_t = 100, value_parser = clap::value_parser!(u64).range(RUNS_LEAST..))]
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

/// Fewer runs give percentiles that are single values.
const RUNS_LEAST: u64 = 20;
/// Without a round trip, opening a connection on loopback costs next to nothing. With it, it takes
/// two or three of them, more than what else goes on may hide.
const CONTRAST_ROUND_TRIP: Duration = Duration::from_millis(20);
/// Sends that the client may need to learn when the server closes: two closes, and some.
const LEARN_MAX: u64 = 1000;

/// What happened at one position of all runs. Times are kept as they are: a histogram for each
/// position of each slot would be half a gigabyte, made while the first connections are opened.
#[derive(Clone, Default)]
struct Position {
    /// In order once all runs are over.
    times_ns: Vec<u64>,
    opened: u64,
}

/// One server, measured.
pub(crate) struct Measured {
    name: String,
    id: &'static str,
    positions: Vec<Position>,
    connections: Connections,
    recordings: Vec<Recording>,
}

pub(crate) fn run(flags: &Flags<Runs>) -> Result<()> {
    conduct("position", &flags.options, |setting| findings(setting, &flags.plan))
}

pub(crate) fn findings(setting: &Setting, runs: &Runs) -> Result<Findings> {
    let spares = if runs.spares { Spares::Open } else { Spares::Never };
    setting.progress.begin("position");
    let mut all = vec![measure(setting, None, runs, spares, "endpoint", "the endpoint")?];
    if let Some(cap) = runs.contrast {
        all.extend(contrast(setting, runs, cap)?);
    }
    Ok(Findings {
        title: "Latency by position in the connection".to_owned(),
        metrics: all.iter().flat_map(Measured::metrics).collect(),
        sections: vec![section::section(&all, runs)],
        recordings: all.into_iter().flat_map(|measured| measured.recordings).collect(),
        ..Findings::default()
    })
}

/// A server of our own, over TLS and a short round trip, that closes after `cap` requests.
fn contrast(setting: &Setting, runs: &Runs, cap: u64) -> Result<Vec<Measured>> {
    let certificate = Certificate::new()?;
    let server = Server::start_ceiling_with(cap, Some(&certificate))?;
    let (access, trust, pid) = (Access::open(), Trust::anyone(), Some(server.pid()));
    let capped = setting.elsewhere(server.url()?, access, &trust, pid)?;
    let delay = Delay::start(capped.endpoint.address, CONTRAST_ROUND_TRIP)?;
    let delayed = Some(delay.address);
    let name = |spares: &str| format!("a server that closes after {cap}, {spares} spares");
    setting.progress.begin("position, capped");
    let without = measure(&capped, delayed, runs, Spares::Never, "capped", &name("without"))?;
    setting.progress.begin("position, spares");
    let with = measure(&capped, delayed, runs, Spares::Open, "spares", &name("with"))?;
    Ok(vec![without, with])
}

fn measure(
    setting: &Setting,
    connect_to: Option<SocketAddr>,
    runs: &Runs,
    spares: Spares,
    id: &'static str,
    name: &str,
) -> Result<Measured> {
    let queue = Queue::create(setting, 1)?;
    let count = setting.count(runs.runs, RUNS_LEAST);
    let mut measured = Measured {
        name: name.to_owned(),
        id,
        positions: vec![Position::default(); runs.sends as usize],
        connections: Connections::default(),
        recordings: Vec::new(),
    };
    let connect = || {
        let mut options = TransportOptions::default();
        options.spares = spares;
        options.lane_connections = 1;
        options.connect_to = connect_to;
        queue.peer(options)
    };
    let done = AtomicU64::new(0);
    let runtime = crate::runtime::current_thread()?;
    let outcome = runtime.block_on(setting.progress.unless_ended(async {
        let mut tasks = JoinSet::new();
        for slot in 0..runs.at_once {
            let share = (count + runs.at_once - 1 - slot) / runs.at_once;
            let peers: Result<Vec<Watched>> = match spares {
                Spares::Never => (0..share).map(|_| connect()).collect(),
                // One client learns, and so has spares in all its runs.
                Spares::Open => connect().map(|peer| vec![peer; share as usize]),
            };
            tasks.spawn(slot_of_runs(peers?, runs.clone(), spares));
        }
        while let Some(joined) = tasks.join_next().await {
            let (positions, connections) = joined.context("a run panicked")??;
            measured.add(positions, &connections);
            let done = done.fetch_add(1, Relaxed) + 1;
            setting.progress.at(done as f64 / runs.at_once as f64, String::new);
        }
        anyhow::Ok(())
    }));
    measured.positions.iter_mut().for_each(|position| position.times_ns.sort_unstable());
    measured.recordings = queue.remove(&format!("position.{id}"));
    outcome.map(|()| measured)
}

/// Runs one after the other, each over the next of `peers`.
async fn slot_of_runs(
    peers: Vec<Watched>,
    runs: Runs,
    spares: Spares,
) -> Result<(Vec<Position>, Connections)> {
    let mut positions = vec![Position::default(); runs.sends as usize];
    let mut connections = Connections::default();
    let message = Outgoing::new(body(runs.size));
    if let (Spares::Open, Some(peer)) = (spares, peers.first()) {
        // Learning is warm-up: it would show in the first runs only.
        for _ in 0..LEARN_MAX {
            if peer.transport().learned_lifetime().is_some() {
                break;
            }
            send(peer, &message).await?;
        }
    }
    for peer in &peers {
        let transport = peer.transport();
        let before = transport.ledger();
        for position in &mut positions {
            let (opened, start) = (transport.ledger().opened, Instant::now());
            send(peer, &message).await?;
            position.times_ns.push(nanoseconds(start.elapsed()));
            position.opened += transport.ledger().opened - opened;
        }
        connections.add(&Connections::between(&before, &transport.ledger()));
    }
    Ok((positions, connections))
}

async fn send(peer: &Watched, message: &Outgoing) -> Result<()> {
    let answers = peer.send(std::slice::from_ref(message)).await.context("sending")?;
    answers.into_iter().next().context("no answer to the entry")?.context("sending").map(drop)
}

/// Random letters, as the experiment had them.
fn body(size: usize) -> String {
    std::iter::repeat_with(fastrand::alphanumeric).take(size).collect()
}

impl Measured {
    fn add(&mut self, positions: Vec<Position>, connections: &Connections) {
        for (own, other) in self.positions.iter_mut().zip(positions) {
            own.times_ns.extend(other.times_ns);
            own.opened += other.opened;
        }
        self.connections.add(connections);
    }
}

impl Position {
    /// A quantile of its times, in µs.
    fn at_us(&self, share: f64) -> f64 {
        quantile(&self.times_ns, share) as f64 / 1000.0
    }
}
